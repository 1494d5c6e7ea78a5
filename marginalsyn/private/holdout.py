"""Which rows are held out of a private table: a function of each row alone.

A row is held out by a hash of its own content and a salt, so no other row matters and no order of
rows does. (Drawing a fixed number of rows, or going by position, would shift many rows from part
to part where one is added, or where an engine or a sorted view puts a replaced row elsewhere.)
Rows that are alike fall into the same part.

* Under add-remove, one row more or less is one row more or less of one part.
* Under replace, a row and what replaces it must fall into the same part: which the statement says
  (``Statement.holdout``). Tables whose parts differ in size are then no neighbours, so the number
  of rows that visits see is public, as that relation has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from marginalsyn.budget import Neighbours
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    import ibis
    import ibis.expr.types as ir

    from marginalsyn.release import Statement

# Hexadecimal digits of the hash that are compared: shares are met to one part in 2^32.
DIGITS = 8


def part(
    table: ibis.Table,
    *,
    share: float,
    salt: str,
    held_out: bool,
    by: ir.Value | None = None,
    engine: str = "duckdb",
) -> ibis.Table:
    """Return the rows that are held out, or the others.

    Args:
        table: all rows.
        share: the expected share of rows held out, between 0 and 1.
        salt: any text; another salt holds out other rows.
        held_out: which of the two parts to return.
        by: rows that agree in this text fall into the same part; by default in all they hold.
        engine: that runs the query, as ibis names it.
    """
    import ibis

    if by is None:
        # Sorted, so that the order of the columns in the source does not matter.
        key = ibis.literal("\x1f").join([spelling(table[name]) for name in sorted(table.columns)])
    else:
        key = ibis.coalesce(by, "")
    digest = hashed(ibis.literal(salt + "\x1f") + key, engine).substr(0, DIGITS)
    bound = f"{round(share * 16**DIGITS):0{DIGITS}x}"
    return table.filter(digest < bound if held_out else digest >= bound)


def hashed(text: ir.Value, engine: str) -> ir.Value:
    """The digest of a text in hexadecimal digits; the same in every engine that can make one."""
    if engine not in ("postgres", "bigquery", "snowflake"):
        return text.hexdigest("sha256")
    import ibis
    import ibis.expr.datatypes as dt

    # Ibis 12 has no digest for these engines, which have the functions.
    def two(value: Any, how: Any) -> Any: ...

    def one(value: Any) -> Any: ...

    made = ibis.udf.scalar.builtin
    if engine == "snowflake":
        sha2 = made(two, name="sha2", signature=((dt.string, dt.int64), dt.string))
        return sha2(text, 256)
    if engine == "bigquery":
        sha256 = made(one, name="sha256", signature=((dt.string,), dt.binary))
        to_hex = made(one, name="to_hex", signature=((dt.binary,), dt.string))
        return to_hex(sha256(text))
    octets = made(two, name="convert_to", signature=((dt.string, dt.string), dt.binary))
    sha256 = made(one, name="sha256", signature=((dt.binary,), dt.binary))
    encode = made(two, name="encode", signature=((dt.binary, dt.string), dt.string))
    return encode(sha256(octets(text, "UTF8")), "hex")


def check_split(share: float, statement: Statement) -> None:
    """Refuse another split than a release's own where its statement is for the rows of one part.

    Args:
        share: of the rows that are held out of the table that is opened for the release.
        statement: the release's.
    """
    if statement.neighbours is Neighbours.REPLACE and share != statement.holdout:
        raise UsageError(
            f"holdout ({share:g}) must be that of the release ({statement.holdout:g}), whose "
            "statement says which rows the promise is for"
        )


def spelling(value: ir.Value) -> ir.Value:
    """A text of a value that does not depend on how its column is stored: 1, 1.0 and "1" agree."""
    import ibis

    from marginalsyn.table import fields, plain

    return ibis.coalesce(*map(_spelt, fields(plain(value))), "")


def _spelt(field: ir.Value) -> ir.Value:
    """The text of a plain value, null where it is missing."""
    import ibis

    from marginalsyn.table import number

    if field.type().is_boolean():
        return ibis.cases((field, "True"), (~field, "False"))
    return ibis.coalesce(number(field).cast("string"), field.cast("string"))
