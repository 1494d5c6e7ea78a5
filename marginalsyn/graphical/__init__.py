"""Private-PGM: fits graphical models to noisy marginals, queries them and samples from them.

May touch: table, contract. No private rows.
"""
