"""Linked tables and sequences: one budget over all views, rows drawn from the root down.

May touch: host, generators, graphical, release, people, table, privacy, contract.
"""
