"""Private-PGM: fits graphical models to noisy marginals, queries them, draws from them.

May touch: table, privacy, contract. No private rows.
"""

from marginalsyn.old_paths import names_of

__getattr__ = names_of("graphical")
