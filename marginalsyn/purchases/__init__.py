"""Purchases: what a schema leaves open, found with privacy and charged like any other run.

May touch: private, table, noise, budget.
"""
