"""Which rows are held out of a private table, decided so that neighbouring tables stay neighbours.

* Under add-remove a row is held out by a hash of its own content and a salt. No other row matters,
  so adding or removing one row adds or removes one row of one part and moves no other. (Drawing a
  fixed number of rows, or going by position, would shift many rows from part to part.) Rows that
  are alike fall into the same part.
* Under replace a row is held out by a hash of its position and a salt. The table's length is
  public and fixed, so replacing a row changes one row of one part, and the sizes of both parts are
  public too. (By content, a replaced row could change sides, and with it the number of rows.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.budget import Neighbours

if TYPE_CHECKING:
    import ibis
    import ibis.expr.types as ir

# Hexadecimal digits of the hash that are compared: shares are met to one part in 2^32.
DIGITS = 8
MARK = "held out"


def part(
    table: ibis.Table, *, share: float, salt: str, neighbours: Neighbours, held_out: bool
) -> ibis.Table:
    """Return the rows that are held out, or the others.

    Args:
        table: all rows, in an embedded engine, which keeps their order.
        share: the expected share of rows held out, between 0 and 1.
        salt: any text; another salt holds out other rows.
        neighbours: the relation under which the table is protected.
        held_out: which of the two parts to return.
    """
    import ibis

    if neighbours is Neighbours.REPLACE:
        key = ibis.row_number().cast("string")
    else:
        # Sorted, so that the order of the columns in the source does not matter.
        key = ibis.literal("\x1f").join([spelling(table[name]) for name in sorted(table.columns)])
    digest = (ibis.literal(salt + "\x1f") + key).hexdigest("sha256").substr(0, DIGITS)
    bound = f"{round(share * 16**DIGITS):0{DIGITS}x}"
    # The position is a window over all rows: it must be fixed before any row is filtered out.
    marked = table.mutate(**{MARK: digest < bound})
    chosen = marked.filter(marked[MARK] if held_out else ~marked[MARK])
    return chosen.drop(MARK)


def spelling(value: ir.Value) -> ir.Value:
    """A text of a value that does not depend on how its column is stored: 1, 1.0 and "1" agree."""
    import ibis

    from marginalsyn.encoding import number, plain

    value = plain(value)
    if value.type().is_boolean():
        return ibis.ifelse(value, "True", "False").fill_null("")
    return ibis.coalesce(number(value).cast("string"), value.cast("string"), "")
