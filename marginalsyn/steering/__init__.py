"""Steering: changes a release so that it has the margins that a user states.

May touch: release, table, contract. No private rows.
"""
