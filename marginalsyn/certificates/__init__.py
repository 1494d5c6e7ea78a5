"""Certified bounds: every constant is explicit, so they may be published.

May touch: release, private, table, budget.
"""
