"""The codes of ``encoding`` for Spark, which pays for every branch and every trimmed text.

Spark reads a value's code from a table that is made here beforehand: by the hash of a text, by the
cell of a grid that a number lies in. What no table holds goes the way of all other engines, so that
the codes are the same; only the steps to them are fewer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from marginalsyn.table import encoding
from marginalsyn.table.columns import (
    MOST_INTEGER,
    CategoricalColumn,
    Column,
    ListedColumn,
    trim,
)
from marginalsyn.table.engine import call, private_engine
from marginalsyn.table.moments import DAY, MomentColumn
from marginalsyn.table.numeric import IntegerColumn, NumberColumn

# Texts with a place in a column's table, and cells of a number's grid: more make long queries.
MOST_TEXTS = 2**12
MOST_CELLS = 2**12
# Places for each text: so many that few share one.
PLACES = 4
SEED = 42


def coded(table: ir.Table, columns: Sequence[Column], tokens: Sequence[str]) -> ir.Table:
    """The codes of several columns of a Spark table, int32 and never null, in their order."""
    parts = {}
    for place, column in enumerate(columns):
        known, value = _two_ways(table[column.name], column, tokens)
        if known is not None:
            parts[f"known{place}"] = known
        if value is not None:
            parts[f"value{place}"] = value
    rows = encoding.step(table.select(**parts))
    # A moment takes a step more, for engines search a text once.
    moments = {
        f"value{place}": encoding.moment_of(rows[f"value{place}"], column.style)
        for place, column in enumerate(columns)
        if isinstance(column, MomentColumn)
    }
    if moments:
        rows = encoding.step(rows.mutate(**moments))
    codes = {}
    for place, column in enumerate(columns):
        found = [rows[name] for name in (f"known{place}",) if name in parts]
        if (name := f"value{place}") in parts:
            found.append(encoding.code(rows[name], column, tokens))
        codes[column.name] = ibis.coalesce(*found).cast("int32")
    return rows.select(**codes)


def _two_ways(
    raw: ir.Value, column: Column, tokens: Sequence[str]
) -> tuple[ir.Value | None, ir.Value | None]:
    """The code that a table has for a value, and what the long way starts with where it has none.

    There is no table for some columns, and no long way where the table has all.
    """
    known = _of_number(raw, column, tokens)
    if known is not None:
        return known, None
    known = _of_text(raw, column, tokens)
    if known is None:
        known = _of_whole(raw, column, tokens)
    value = (
        encoding.digits(encoding.plain(raw), column)
        if isinstance(column, MomentColumn)
        else encoding.prepare(raw, column)
    )
    if known is not None:
        # What the table knows is not looked at again.
        value = ibis.ifelse(known.isnull(), value, ibis.null(value.type()))
    return known, value


# -- numbers ---------------------------------------------------------------------------------------


def _of_number(raw: ir.Value, column: Column, tokens: Sequence[str]) -> ir.Value | None:
    """The code of every value that is stored as a number or a truth value; None for no table."""
    kind = raw.type()
    if isinstance(column, MomentColumn) or not (kind.is_numeric() or kind.is_boolean()):
        return None
    if not isinstance(column, NumberColumn):
        return encoding.code(raw, column, tokens) if kind.is_boolean() else None
    value = encoding.prepare(raw, column)
    if isinstance(column, IntegerColumn) and column.unit_bins:
        return encoding.code(value, column, tokens)
    grid = grid_of(column.edges[1:-1].tolist())
    if grid is None:
        return None
    lower, upper = grid.lower, grid.upper
    inside = ibis.cases((value <= lower, lower), (value >= upper, upper), else_=value)
    cell = ((inside - lower) * grid.scale).cast("int32")
    above = (value >= _at(_numbers(grid.edges, "float64"), cell)).cast("int32")
    # Null of a missing value, and so is all that is made of it.
    found = _at(_numbers(grid.below, "int32"), cell) + above
    return ibis.coalesce(found, column.absent_code).cast("int32")


def _of_whole(raw: ir.Value, column: Column, tokens: Sequence[str]) -> ir.Value | None:
    """The code of a whole number near the listed ones; null for all others, None for no table."""
    if not raw.type().is_integer() or not isinstance(column, CategoricalColumn):
        return None
    listed = [int(value) for value in column.values if _is_whole(value)]
    if not listed or max(listed) - min(listed) >= MOST_CELLS:
        return None
    first, last = min(listed), max(listed)
    codes = codes_of(pa.array(range(first, last + 1), pa.int64()), column, tokens)
    wide = raw.cast("int64")
    place = ibis.ifelse(wide.between(first, last), wide - first, ibis.null("int64"))
    return _at(_numbers(codes, "int32"), place)


def _is_whole(value: Any) -> bool:
    return (
        isinstance(value, int | float) and float(value).is_integer() and abs(value) < MOST_INTEGER
    )


class Grid(NamedTuple):
    """Cells of equal width from the first inner edge to the last, each with one edge at most.

    A value's cell never falls where the value grows, however its arithmetic is rounded. Edges in
    cells before its own are therefore at or below it, those in cells behind it above it, and one
    comparison decides.
    """

    lower: float
    upper: float
    scale: float
    # Of every cell: how many edges lie in cells before it, and its own edge, or infinity. Infinity
    # itself is in the last cell, whose edge is the upper one.
    below: list[int]
    edges: list[float]


def grid_of(inner: Sequence[float]) -> Grid | None:
    """A grid over inner edges, None where there is none of few cells."""
    if len(inner) < 2:
        return None
    lower, upper, cells = inner[0], inner[-1], 2
    edges = np.array(inner)
    while cells <= MOST_CELLS:
        scale = cells / (upper - lower)
        if not (math.isfinite(scale) and scale > 0 and math.isfinite(upper - lower)):
            return None
        # As the engine computes it: in double precision, and cut off.
        of_edge = ((edges - lower) * scale).astype(np.int64)
        if len(np.unique(of_edge)) == len(edges):
            size = int(of_edge[-1]) + 1
            own = np.full(size, np.inf)
            own[of_edge] = edges
            below = np.searchsorted(of_edge, np.arange(size))
            return Grid(lower, upper, scale, below.tolist(), own.tolist())
        cells *= 2
    return None


# -- texts -----------------------------------------------------------------------------------------


def _of_text(raw: ir.Value, column: Column, tokens: Sequence[str]) -> ir.Value | None:
    """The code of a text that a table holds, or of null; null for all others, None for no table."""
    kind = raw.type()
    if not (kind.is_string() or kind.is_date()):
        return None
    texts = _spelt(column, tokens, dated=kind.is_date())[:MOST_TEXTS]
    *codes, absent = codes_of(pa.array([*texts, None], pa.string()), column, tokens)
    text = raw if kind.is_string() else raw.cast("string")
    none = ibis.null("int32")
    found = [
        # Values of the same hash are distinguished by the text itself.
        ibis.ifelse(_at(_texts(keys), slot) == text, _at(_numbers(values, "int32"), slot), none)
        for keys, values, slot in _tables(text, dict(zip(texts, codes, strict=True)))
    ]
    return ibis.coalesce(*found, ibis.ifelse(text.isnull(), absent, none))


def _spelt(column: Column, tokens: Sequence[str], *, dated: bool) -> list[str]:
    """Texts that a column's rows are likely to hold; their codes are found elsewhere."""
    found: list[Any] = []
    if isinstance(column, MomentColumn):
        if column.unit == DAY and column.upper - column.lower < MOST_TEXTS:
            days = np.arange(column.lower, column.upper + 1)
            first = date(1970, 1, 1)
            found = (
                [str(first + timedelta(days=int(day))) for day in days]
                if dated
                else column.write(days)
            )
    elif isinstance(column, IntegerColumn):
        if column.upper - column.lower < MOST_TEXTS and not column.worded:
            found = list(range(column.lower, column.upper + 1))
    elif isinstance(column, ListedColumn):
        found = [*column.values, *(spelt for spelt, _ in column.synonyms)]
    listed = [trim(text) for text in (*found, *tokens, *column.missing_tokens)]
    # No engine has a literal for a zero byte.
    return [text for text in dict.fromkeys(listed) if "\0" not in text]


def codes_of(values: pa.Array, column: Column, tokens: Sequence[str]) -> list[int]:
    """The codes of some values by the long way, found in this process: they are every engine's."""
    table = ibis.memtable(pa.table({column.name: values}))
    ready = encoding.prepared(table, [column])
    code = encoding.code(ready[column.name], column, tokens)
    found = private_engine().to_pyarrow(ready.select(code.name("code")))
    return list(found.column("code").to_pylist())


def _tables(
    text: ir.Value, codes: Mapping[str, int]
) -> list[tuple[list[str], list[int], ir.Value]]:
    """Texts, their codes, and which of them a text may be; what shares a place is in another."""
    tables, left = [], dict(codes)
    for shift in (0, 8, 16):
        if not left:
            break
        size = 1 << max(8, (PLACES * len(left) - 1).bit_length())
        slots: dict[int, str] = {}
        for key in left:
            slots.setdefault((murmur(key) >> shift) & (size - 1), key)
        number = {place: at for at, place in enumerate(slots)}
        hashed = call("hash", dt.int32, text)
        hashed = hashed >> shift if shift else hashed
        # Minus one is the place of none.
        slot = _at(_numbers([number.get(k, -1) for k in range(size)], "int32"), hashed & (size - 1))
        tables.append(([*slots.values()], [left[key] for key in slots.values()], slot))
        left = {key: code for key, code in left.items() if key not in set(slots.values())}
    return tables


def murmur(text: str, seed: int = SEED) -> int:
    """Spark's ``hash`` of a text: MurmurHash3 of its bytes, the last ones as words of their own."""
    data = text.encode()
    whole = len(data) - len(data) % 4
    words = [int.from_bytes(data[k : k + 4], "little") for k in range(0, whole, 4)]
    words += [byte - 256 if byte > 127 else byte for byte in data[whole:]]
    mask, found = 2**32 - 1, seed
    for word in words:
        mixed = _rotated((word * 0xCC9E2D51) & mask, 15) * 0x1B873593 & mask
        found = (_rotated(found ^ mixed, 13) * 5 + 0xE6546B64) & mask
    found ^= len(data)
    found = ((found ^ (found >> 16)) * 0x85EBCA6B) & mask
    found = ((found ^ (found >> 13)) * 0xC2B2AE35) & mask
    found ^= found >> 16
    return found - 2**32 if found >= 2**31 else found


def _rotated(word: int, by: int) -> int:
    return ((word << by) | (word >> (32 - by))) & (2**32 - 1)


# -- Spark's functions -----------------------------------------------------------------------------


def _at(values: ir.Value, place: ir.Value) -> ir.Value:
    """One of some values, null where there is no such place."""
    return call("get", values.type().value_type, values, place.cast("int32"))


def _texts(values: Sequence[str]) -> ir.Value:
    return ibis.literal(list(values), type="array<string>")


def _numbers(values: Sequence[float], kind: str) -> ir.Value:
    """Numbers as one text, which Spark parses once: thousands of literals are slow to read."""
    written = ",".join("Infinity" if value == math.inf else repr(value) for value in values)
    texts = call("split", dt.Array(dt.string), ibis.literal(written), ibis.literal(","))
    return texts.cast(f"array<{kind}>")
