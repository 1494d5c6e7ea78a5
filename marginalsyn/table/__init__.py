"""Public knowledge about a table: schema, columns, codes, frames, and vectors of rows.

May touch: privacy, for what bought columns cost. No private rows.
"""

from marginalsyn.old_paths import names_of

__getattr__ = names_of("table")
