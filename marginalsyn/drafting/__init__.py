"""Drafts of a schema from real rows, and checks of rows against a schema. Not private.

May touch: sources, table.
"""
