"""Rows of persons: at most so many of each are counted, and together they weigh one unit.

Privacy is per person: two tables are neighbours if one has all rows of one person more. The bound
on a person's rows is enforced in the query that counts, never assumed:

* Every window is a partition by the person and has a total order that is a function of that
  person's rows alone: by a hash of a row's content and of its rank among equal rows, and where
  hashes agree by the content itself. Rows that agree in all of it are the same, so it does not
  matter which is kept. An order that scans or ties decide would depend on other persons.
* A person is known by the text of the column as it stands. Were "01" and "1" one person, two real
  persons could change each other's weights. So what is compared is a digest of the text: a column's
  collation may take "A1" and "a1" for the same, and so would the engine's groups and joins.
* A hash of a row must not depend on the types of columns: a frame's follow from all of its rows.
* A row without a person belongs to nobody and is left out: an engine would take all of them for
  one person.
* The weight of a kept row is a whole number: of k kept rows the first ``WHOLE mod k`` weigh
  ``WHOLE // k + 1``, the others ``WHOLE // k``. So the rows of each person weigh exactly ``WHOLE``.
  The engine gives k and the row's place only; the division is Python's.

So one person more or less moves every marginal by ``WHOLE`` in l1, and by at most that in l2.
"""

from __future__ import annotations

from collections.abc import Sequence

import ibis
import ibis.expr.types as ir
import numpy as np

from marginalsyn.sources.holdout import hashed
from marginalsyn.table.encoding import fields, number, plain, quantity, real, spelt
from marginalsyn.table.numeric import IntegerColumn
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import SurveyWeight, Unit

# A power of two: counts in units of a person are exact in double precision up to 2^33 persons.
WHOLE = 2**20
# A survey weight at its bound: a power of two, too, and every whole part of it has a code.
PARTS = 2**16
SHARE = "marginalsyn_share"
_PERSON, _CONTENT, _TWIN, _HASH, _PLACE, _ROWS = (
    f"marginalsyn_{name}" for name in ("person", "content", "twin", "hash", "place", "rows")
)
# In the views of linked tables: the person of a row, and its weight, which is its own code.
ROOT, AMOUNT = (f"marginalsyn_{name}" for name in ("root", "amount"))
# A person's number in the two digits of base ``DIGITS`` that a column of codes has room for.
DIGITS = 2**15
NUMBER = ("marginalsyn_number_high", "marginalsyn_number_low")
ADDED = (SHARE, _PERSON, _CONTENT, _TWIN, _HASH, _PLACE, _ROWS, *NUMBER)


def of_persons(table: ibis.Table, unit: Unit, engine: str = "duckdb") -> ibis.Table:
    """All rows that belong to a person, with the number of the person's rows.

    The number is ``unit.count``, at most ``unit.max_rows``. This is the truth that a release is
    compared with: no row is cut off.
    """
    return _named(table, unit, engine).drop(_PERSON, _ROWS)


def bounded(
    table: ibis.Table, unit: Unit, engine: str = "duckdb", *, numbered: bool = False
) -> ibis.Table:
    """The rows that are counted, with ``unit.count`` and the code of their weight in ``SHARE``.

    ``numbered`` adds a number for each person, by which the person's rows are found again. Numbers
    depend on who else is there: they may group rows, and nothing more.
    """
    columns = table.columns
    found = fingerprinted(_named(table, unit, engine), columns, _PERSON, engine)
    first = _first(found[unit.order]) if unit.order else []
    found = found.mutate(**{_PLACE: turn(found, columns, _PERSON, first)}).view()
    kept = found.filter(found[_PLACE] < unit.max_rows)
    spare = _spare(kept[_ROWS], unit.max_rows)
    code = 2 * kept[_ROWS] + ibis.ifelse(kept[_PLACE] < spare, 1, 0).cast("int64")
    kept = kept.mutate(**{SHARE: code})
    if numbered:
        number = ibis.dense_rank().over(ibis.window(order_by=kept[_PERSON]))
        high = (number // DIGITS).cast("int64")
        kept = kept.mutate(**dict(zip(NUMBER, (high, number % DIGITS), strict=True)))
    return kept.drop(_PERSON, _TWIN, _HASH, _PLACE, _ROWS)


def fingerprinted(
    table: ibis.Table, columns: Sequence[str], by: str, engine: str = "duckdb"
) -> ibis.Table:
    """Rows with a hash of their content and of their rank among equal ones of the same person.

    ``columns`` make up the content, and the column ``by`` names the person.
    """
    # What is missing in a frame is an empty field in its file.
    texts = [ibis.coalesce(_text_to_hash(table[name]), "") for name in columns]
    content = [text.length().cast("string") + ":" + text for text in texts]
    found = table.mutate(**{_CONTENT: hashed(ibis.literal("\x1f").join(content), engine)}).view()
    # Equal ones by their texts: what a collation, or a zero's sign, makes equal is not the same.
    inside = [found[name] for name in columns]
    alike = ibis.window(group_by=[found[by], found[_CONTENT]], order_by=inside)
    found = found.mutate(**{_TWIN: ibis.row_number().over(alike)}).view()
    key = found[_CONTENT] + ibis.literal("\x1f") + found[_TWIN].cast("string")
    return found.mutate(**{_HASH: hashed(key, engine)}).drop(_CONTENT).view()


def turn(
    table: ibis.Table, columns: Sequence[str], by: str, first: Sequence[ir.Value] = ()
) -> ir.Value:
    """The place of a fingerprinted row among those of its person, from 0.

    What is to come ``first`` decides, then its hash, which is as good as random.
    """
    order = [*first, table[_HASH], *[table[name] for name in columns], table[_TWIN]]
    return ibis.row_number().over(ibis.window(group_by=table[by], order_by=order))


def weighed(table: ibis.Table, weight: SurveyWeight) -> ibis.Table:
    """The rows with the code of their survey weight in ``SHARE``, in parts of the bound.

    A code is a function of its row alone, from 0 to ``PARTS`` whatever stands there: so much, and
    no more, one row adds to a count. The column of codes is clipped once more when it is encoded.
    """
    known = ibis.coalesce(quantity(plain(table[weight.column]), weight.number), 0.0)
    inside = ibis.greatest(ibis.least(known, weight.bound), 0.0)
    code = (inside / weight.bound * PARTS).round().cast("int64")
    return table.mutate(**{SHARE: code}).view()


def weights(most: int) -> np.ndarray:
    """The weight of a row by the code in ``SHARE``, int64; persons with up to ``most`` rows."""
    rows = np.arange(1, most + 1)
    found = np.zeros(2 * (most + 1), dtype=np.int64)
    found[2 * rows] = WHOLE // rows
    found[2 * rows + 1] = WHOLE // rows + 1
    return found


def shared(rows: ibis.Table, depth: int) -> ibis.Table:
    """Rows of a view with their shares of a person's unit: whole numbers that sum to it exactly."""
    amount = ibis.literal(WHOLE, "int64")
    found = rows.mutate(**{AMOUNT: amount}).view()
    for level in range(1, depth + 1):
        group = [found[ROOT], *[found[f"place{j}"] for j in range(1, level)]]
        # Places have gaps where a row of the path has no rows in the view.
        rank = ibis.dense_rank().over(ibis.window(group_by=group, order_by=found[f"place{level}"]))
        found = found.mutate(rank=rank.cast("int64")).view()
        group = [found[ROOT], *[found[f"place{j}"] for j in range(1, level)]]
        most = found["rank"].max().over(ibis.window(group_by=group)) + 1
        found = found.mutate(sharers=most).view()
        spare = found[AMOUNT] % found["sharers"]
        # Divisible without rest, so that a quotient in floating point is exact.
        even = ((found[AMOUNT] - spare) / found["sharers"]).cast("int64")
        more = ibis.ifelse(found["rank"] < spare, 1, 0).cast("int64")
        found = found.mutate(**{AMOUNT: even + more}).drop("rank", "sharers").view()
    return found


def with_share(schema: Schema, unit: Unit, *, numbered: bool = False) -> Schema:
    """The schema with a column for the code of a row's weight, for the query that encodes rows."""
    top = 2 * unit.max_rows + 1 if schema.survey_weight is None else PARTS
    tops = {SHARE: top, **dict.fromkeys(NUMBER if numbered else (), DIGITS - 1)}
    added = [IntegerColumn(name=n, lower=0, upper=top, bins=top + 1) for n, top in tops.items()]
    return Schema(columns=(*schema.columns, *added), missing_tokens=schema.missing_tokens)


def written(value: ir.Value) -> ir.Value:
    """The text of a value as it stands in the source; null where there is none.

    A whole number has one text, whatever the type of its column: pandas makes all numbers of a
    column fractions where a single row lacks one.
    """
    if value.type().is_struct():
        return ibis.coalesce(*[written(value[name]) for name in value.names])  # type: ignore[attr-defined]
    if value.type().is_floating():
        # 7.0 is 7; a cast to a whole number would fail on what is none, wherever engines put it.
        text = value.cast("string").re_replace("[.]0$", "")
        return ibis.ifelse(value.isnan(), ibis.null("string"), text)
    return spelt(value)


def _text_to_hash(value: ir.Value) -> ir.Value:
    """A text of a value for its row's hash, the same for a number in columns of any type."""
    if value.type().is_struct():
        return ibis.coalesce(*[_text_to_hash(value[name]) for name in value.names])  # type: ignore[attr-defined]
    # A decimal's type is a database's own; it may be no double at all.
    if value.type().is_integer() or value.type().is_floating():
        value = real(value)
    return written(value)


def keyed(value: ir.Value, engine: str = "duckdb") -> ir.Value:
    """A digest of a key's text, by which keys are compared; null where it names nobody."""
    text = written(value)
    return ibis.ifelse(text.length() > 0, hashed(text, engine), ibis.null("string"))


def _named(table: ibis.Table, unit: Unit, engine: str) -> ibis.Table:
    """The rows that belong to someone, with the person, and the number of the person's rows."""
    found = table.mutate(**{_PERSON: keyed(table[unit.column], engine)}).view()
    found = found.filter(found[_PERSON].notnull()).view()
    rows = found.count().over(ibis.window(group_by=found[_PERSON]))
    found = found.mutate(**{_ROWS: rows}).view()
    least = ibis.least(found[_ROWS], unit.max_rows).cast("int64")
    found = found.mutate(**{_ROWS: least}).view()
    return found.mutate(**{unit.count: found[_ROWS]}) if unit.max_rows > 1 else found


def _first(value: ir.Value) -> list[ir.Value]:
    """Keys that sort by a column: rows that lack it last, numbers by size, texts as texts."""
    texts = written(value)
    numbers = ibis.coalesce(*[number(field) for field in fields(plain(value))])
    least = ibis.literal(-1e300)
    return [
        texts.isnull().cast("int32"),
        numbers.isnull().cast("int32"),
        ibis.coalesce(numbers, least),
        ibis.coalesce(texts, ""),
    ]


def _spare(rows: ir.Value, most: int) -> ir.Value:
    """``WHOLE mod k``: how many rows of a person weigh one more, by the number of rows."""
    return ibis.cases(*[(rows == k, WHOLE % k) for k in range(1, most + 1)], else_=0)
