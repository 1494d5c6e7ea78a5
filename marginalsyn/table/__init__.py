"""Public knowledge about a table: schema, columns, codes, frames, and vectors of rows.

May touch: errors, validation, budget. No private rows.
"""
