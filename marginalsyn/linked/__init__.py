"""Linked tables and sequences: one budget over all views, rows drawn from the root down.

May touch: generators, graphical, release, people, table, privacy, contract.
"""
