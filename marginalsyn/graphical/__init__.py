"""Private-PGM: fits graphical models to noisy marginals, queries them and samples from them.

May touch: table, contract. No private rows.
"""

from marginalsyn.old_paths import names_of

__getattr__ = names_of("graphical")
