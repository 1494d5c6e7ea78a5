"""Private-PGM: fits graphical models to noisy marginals, queries them, draws from them.

May touch: table, privacy, contract. No private rows.
"""
