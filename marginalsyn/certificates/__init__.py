"""Certified bounds on what models and marginals lose: every constant is explicit.

May touch: graphical, access, sources, release, records, table, privacy, contract.
"""
