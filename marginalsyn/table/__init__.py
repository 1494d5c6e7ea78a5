"""Public knowledge about a table: schema, columns, codes, frames, and vectors of rows.

May touch: privacy, for what bought columns cost. No private rows.
"""
