"""From a source's columns to codes, as Ibis expressions that every engine runs alike.

A source may be typed or all text (a CSV file). Steps, so that engines parse a text once:
``prepared`` gives a number or a trimmed text, and ``code`` gives the code of what was prepared.

A frame's column of mixed objects is a struct of plain fields (see ``arrow``), of which a row has
at most one: what is said of a value here is then said of each field, and one of them answers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import numpy as np

from marginalsyn.table.columns import (
    BooleanColumn,
    CategoricalColumn,
    Column,
    ListedColumn,
    text_of,
    trim,
)
from marginalsyn.table.engine import call, engine_of
from marginalsyn.table.moments import MomentColumn
from marginalsyn.table.numeric import IntegerColumn, NumberColumn
from marginalsyn.table.timetext import digits_of, moment_of
from marginalsyn.table.wording import as_double, exact, read_number

# Texts that every engine casts to a double without overflow: at most 40 characters and an
# exponent below 250. No backslashes: engines disagree on them in a literal.
NUMBER = "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?(1?[0-9]?[0-9]|2[0-4][0-9]))?$"
LONGEST_NUMBER = 40
# From so many bins on their number is computed, if that is exact: a search is as long as they are.
MANY_BINS = 64
INFINITIES = ("inf", "+inf", "infinity", "+infinity")
MINUS_INFINITIES = ("-inf", "-infinity")


def prepare(source: ir.Value, column: Column) -> ir.Value:
    """The value that ``code`` reads: a double for numeric kinds, otherwise the plain value."""
    value = plain(source)
    if isinstance(column, MomentColumn):
        return moment_of(digits(value, column), column.style)
    return quantity(value, column) if column.numeric else value


def prepared(table: ir.Table, columns: Sequence[Column], also: Sequence[str] = ()) -> ir.Table:
    """The values that ``code`` reads of several columns, in steps where one is long.

    Columns named ``also`` are handed on as they are.
    """
    if not any(isinstance(column, MomentColumn) for column in columns):
        return step(
            table.select(
                *[table[name] for name in also],
                *[prepare(table[column.name], column).name(column.name) for column in columns],
            )
        )
    found = read(table, columns, also)
    return found.select(
        *[found[name] for name in also],
        *[
            found[f"{'number' if column.numeric else 'value'}{position}"].name(column.name)
            for position, column in enumerate(columns)
        ],
    ).view()


def read(table: ir.Table, columns: Sequence[Column], also: Sequence[str] = ()) -> ir.Table:
    """By position of the column, its plain ``value`` and the ``number`` that it is, if numeric.

    The steps stay separate, since merged they would parse at every branch.
    """
    values = [plain(table[column.name]) for column in columns]
    moments = {
        place: column for place, column in enumerate(columns) if isinstance(column, MomentColumn)
    }
    found = table.select(
        *[table[name] for name in also],
        *[value.name(f"value{place}") for place, value in enumerate(values)],
        *[digits(values[place], c).name(f"digits{place}") for place, c in moments.items()],
    )
    found, numbers = step(found), {}
    for place, column in enumerate(columns):
        if isinstance(column, MomentColumn):
            numbers[f"number{place}"] = moment_of(found[f"digits{place}"], column.style)
        elif column.numeric:
            numbers[f"number{place}"] = quantity(found[f"value{place}"], column)
    kept = [found[name] for name in (*also, *(f"value{place}" for place in range(len(values))))]
    return step(found.select(*kept, **numbers))


def step(table: ir.Table) -> ir.Table:
    """A table whose values an engine computes before those that are made of them.

    A view keeps Ibis from writing the one into the other. PostgreSQL merges subqueries all the
    same, and a text would be parsed again wherever it is named, thousands of times for a date: only
    a limit, here one beyond any table's rows, keeps them separate.
    """
    return table.limit(2**62) if engine_of(table) == "postgres" else table.view()


def code(prepared: ir.Value, column: Column, tokens: Sequence[str]) -> ir.Value:
    """The code of a prepared value, an int32 that is never null."""
    if isinstance(column, NumberColumn):
        known = _bin(prepared, column)
        rest = ibis.literal(column.absent_code)
    else:
        known = listed(prepared, column, tokens)
        rest = ibis.literal(column.unseen_code)
        if column.absent_code != column.unseen_code:
            absent = missing(prepared, [*tokens, *column.missing_tokens])
            rest = ibis.ifelse(absent, column.absent_code, column.unseen_code)
    return ibis.coalesce(known, rest).cast("int32")


def unit(
    prepared: ir.Value, column: Column, tokens: Sequence[str], absent: float = 0.5
) -> ir.Value:
    """The place of a prepared value in [0, 1], ``absent`` where missing. Listed kinds: the code."""
    if not isinstance(column, NumberColumn):
        return code(prepared, column, tokens).cast("float64")
    span = (column.upper - column.lower) or 1
    return ibis.cases(
        (prepared.isnull(), absent),
        (prepared <= column.lower, 0.0),
        (prepared >= column.upper, 1.0),
        else_=(prepared - column.lower) / span,
    ).cast("float64")


def clipped(prepared: ir.Value, column: NumberColumn) -> ir.Value:
    """The number itself inside the bounds; null where missing."""
    lower, upper = float(column.lower), float(column.upper)
    return ibis.cases((prepared <= lower, lower), (prepared >= upper, upper), else_=prepared)


def plain(source: ir.Value) -> ir.Value:
    """A boolean, an integer, a double, or else trimmed text; a struct of them as it is."""
    kind = source.type()
    if kind.is_boolean() or kind.is_integer() or kind.is_struct():
        return source
    if kind.is_floating() or kind.is_decimal():
        return real(source)
    return spelt(source).strip()


def real(value: ir.Value) -> ir.Value:
    """The double nearest to a number, an infinity beyond all doubles; null for what is none."""
    none = ibis.null("float64")
    if not value.type().is_decimal():
        found = value if value.type().is_float64() else value.cast("float64")
        return ibis.ifelse(found.isnan(), none, found) if value.type().is_floating() else found
    if engine_of(value) != "postgres":
        return value.cast("float64")
    # Its cast ends in an error beyond the doubles, and below the least of them.
    most, least = (ibis.literal(end).cast("decimal") for end in ("1.797e308", "2.5e-324"))
    value = value.cast("decimal")
    return ibis.cases(
        (value.cast("string") == "NaN", none),
        (value.abs() < least, 0.0),
        (value.abs() <= most, value.cast("float64")),
        else_=ibis.ifelse(value < least, -math.inf, math.inf),
    )


def spelt(value: ir.Value) -> ir.Value:
    """The text of a value as its engine writes it, null where it has none for it."""
    if value.type().is_string():
        return value
    text = value.cast("string")
    # It has times that it cannot write.
    fails = value.type().is_temporal() and engine_of(value) == "duckdb"
    return call("try", dt.string, text) if fails else text


def fields(value: ir.Value) -> list[ir.Value]:
    """The plain fields of a struct; of any other plain value, itself."""
    if isinstance(value, ir.StructValue):
        return [plain(value[name]) for name in value.names]
    return [value]


def as_text(value: ir.Value) -> ir.Value:
    """A plain value as one, a struct as text, for the curator's eyes: 2.0 is "2"."""
    if not isinstance(value, ir.StructValue):
        return value
    return ibis.coalesce(
        *[
            ibis.cases((field, "True"), (~field, "False"))
            if field.type().is_boolean()
            else field.cast("string").re_replace("[.]0$", "")
            if field.type().is_floating()
            else field.cast("string")
            for field in fields(value)
        ]
    )


def missing(value: ir.Value, tokens: Sequence[Any]) -> ir.Value:
    """Whether a plain value is missing: null, or a text or number that means so."""
    if isinstance(value, ir.StructValue):
        return ibis.and_(*[missing(field, tokens) for field in fields(value)])
    if value.type().is_string() and tokens:
        return value.isnull() | value.isin([trim(token) for token in tokens])
    if value.type().is_numeric():
        texts = [str(token) for token in tokens]
        numbers = [float(text) for text in texts if re.match(NUMBER, text)]
        if numbers:
            return value.isnull() | value.cast("float64").isin(numbers)
    return value.isnull()


def digits(value: ir.Value, column: MomentColumn) -> ir.Value:
    """The digits of the moment that a plain value is, null where it is none or means missing."""
    if isinstance(value, ir.StructValue):
        return ibis.coalesce(*[digits(field, column) for field in fields(value)])
    if value.type().is_boolean():
        return ibis.null("string")
    text = value if value.type().is_string() else value.cast("string").re_replace("[.]0$", "")
    found = digits_of(text, column.styles, column.last_year)
    if column.missing_tokens:
        found = ibis.ifelse(missing(value, column.missing_tokens), ibis.null("string"), found)
    return found


def quantity(value: ir.Value, column: Column) -> ir.Value:
    """The double that a plain value is in a numeric column, null where there is none."""
    if isinstance(value, ir.StructValue):
        return ibis.coalesce(*[quantity(field, column) for field in fields(value)])
    found = _quantity(value, column)
    if column.missing_tokens:
        absent = missing(value, column.missing_tokens)
        found = ibis.ifelse(absent, ibis.null("float64"), found)
    return found


def _quantity(value: ir.Value, column: Column) -> ir.Value:
    if isinstance(column, NumberColumn) and column.worded and value.type().is_string():
        return read_number(value, column)
    return number(value)


def number(value: ir.Value) -> ir.Value:
    """The double in a plain value, null where there is none."""
    if isinstance(value, ir.StructValue):
        return ibis.coalesce(*map(number, fields(value)))
    if value.type().is_boolean():
        return value.cast("int32").cast("float64")
    if not value.type().is_string():
        return value if value.type().is_float64() else value.cast("float64")
    low = value.lower()
    # The cast sees only what the guard let through; the rest is null before it is cast.
    spelt = ibis.cases(
        (value.re_search(NUMBER) & (value.length() <= LONGEST_NUMBER), value),
        (low.isin(INFINITIES), "1e250"),
        (low.isin(MINUS_INFINITIES), "-1e250"),
        else_=ibis.null("string"),
    )
    return as_double(spelt)


def listed(value: ir.Value, column: Column, tokens: Sequence[Any]) -> ir.Value:
    """The code of the listed value that a plain value is or falls back to, null for neither."""
    found = matched(value, column)
    if not isinstance(column, CategoricalColumn) or not column.prefixes:
        return found
    codes = {trim(category): code for code, category in enumerate(column.categories)}
    shorter = [text_key(value, column, tokens, length) for length in reversed(column.prefixes)]
    return ibis.coalesce(found, *[_pick(text, codes) for text in shorter])


def text_key(
    value: ir.Value, column: CategoricalColumn, tokens: Sequence[Any], length: int | None = None
) -> ir.Value:
    """The text by which a plain value is counted and named, or its first characters.

    Null where the value is missing or has no text of its own. It is a function of the value alone.
    """
    absent = [*tokens, *column.missing_tokens]
    text = as_text(value)
    if not text.type().is_string():
        text = text.cast("string")
        if value.type().is_floating():
            text = text.re_replace("[.]0$", "")
    kept = ~missing(value, absent) & (text != trim(column.other_label))
    if length is not None:
        text = text.left(length).strip()
    kept = kept & (text != "") & ~missing(text, absent) & (text != trim(column.other_label))
    return ibis.ifelse(kept, text, ibis.null("string"))


def matched(value: ir.Value, column: Column) -> ir.Value:
    """The code of the listed value that a plain value is, null where it is none of them.

    Text is compared exactly, then as a number with numeric categories ("1.0" is 1) and without
    case with true and false. Numbers match text categories that are spelt as that number.
    """
    if isinstance(value, ir.StructValue):
        return ibis.coalesce(*[matched(field, column) for field in fields(value)])
    if isinstance(column, ListedColumn) and column.synonyms:
        bare = column.model_copy(update={"synonyms": ()})
        return ibis.coalesce(matched(value, bare), _synonym(value, column))
    texts, folded, numbers, whole = _spellings(column)
    kind = value.type()
    if kind.is_boolean():
        true = folded.get("true", numbers.get(1))
        false = folded.get("false", numbers.get(0))
        return _pick(value, {True: true, False: false})
    if kind.is_string():
        found = [_pick(value, texts)]
        if isinstance(column, ListedColumn) and column.ignore_case:
            found.append(_pick(value.lower(), {text.lower(): k for text, k in texts.items()}))
        if folded:
            found.append(_pick(value.lower(), folded))
        if whole:
            found.append(_pick(value.re_replace("[.]0+$", ""), whole))
        if any(not isinstance(category, str) for category in column.values):
            found.append(_pick(number(value), numbers))
        return ibis.coalesce(*found)
    if kind.is_integer():
        return _pick(value, {k: v for k, v in numbers.items() if float(k).is_integer()})
    return _pick(value, {float(k): v for k, v in numbers.items()})


def _synonym(value: ir.Value, column: ListedColumn) -> ir.Value:
    """The code of what another spelling stands for."""
    text = as_text(value)
    text = text if text.type().is_string() else text.cast("string")
    codes = {spelt: column.code_of(meant) for spelt, meant in column.synonyms}
    found = _pick(text, codes)
    if column.ignore_case:
        lower = {spelt.lower(): code for spelt, code in codes.items()}
        found = ibis.coalesce(found, _pick(text.lower(), lower))
    return found


def _spellings(
    column: Column,
) -> tuple[dict[str, int], dict[str, int], dict[float, int], dict[str, int]]:
    """Codes by exact text, by case-folded truth value, by number, and by integer text."""
    texts = {}
    folded: dict[str, int] = {}
    numbers: dict[float, int] = {}
    whole = {}
    for position, value in enumerate(column.values):
        text = text_of(value)
        texts[trim(value)] = position
        if text.lower() in ("true", "false"):
            folded.setdefault(text.lower(), position)
        if isinstance(value, bool):
            numbers.setdefault(int(value), position)
        elif isinstance(value, int | float):
            texts.setdefault(text, position)
            numbers[value] = position
        elif re.match(NUMBER, text) and math.isfinite(float(text)):
            spelt = text_of(float(text)) == text
            numbers[float(text)] = position if spelt else numbers.get(float(text), position)
            if spelt and text.lstrip("-").isdigit():
                whole[text] = position
    if isinstance(column, BooleanColumn):
        folded.setdefault("false", 0)
        folded.setdefault("true", 1)
        if not numbers:
            numbers.update({0: 0, 1: 1})
    return texts, folded, numbers, whole


def _pick(value: ir.Value, codes: Mapping[Any, int | None]) -> ir.Value:
    """CASE value WHEN key THEN code ... END."""
    branches = [(key, position) for key, position in codes.items() if position is not None]
    if not branches:
        return ibis.null("int32")
    return value.cases(*branches, else_=ibis.null("int32"))


def _bin(value: ir.Value, column: NumberColumn) -> ir.Value:
    """The bin of a double, null where it is null."""
    if isinstance(column, IntegerColumn) and column.unit_bins:
        # Clipped before it is floored: engines floor to a 64-bit integer, where infinity fails.
        return clipped(value, column).floor() - column.lower
    if column.levels >= MANY_BINS and even_bins(column):
        return _even_bin(clipped(value, column), column)
    return ibis.ifelse(
        value.isnull(), ibis.null("int32"), _search(value, column.edges[1:-1].tolist(), 0)
    )


def _search(value: ir.Value, inner: Sequence[float], first: int) -> ir.Value:
    """Binary search over the inner edges: the count of edges at or below the value."""
    if not inner:
        return ibis.literal(first, "int32")
    middle = len(inner) // 2
    below = _search(value, inner[:middle], first)
    above = _search(value, inner[middle + 1 :], first + middle + 1)
    return ibis.ifelse(value < inner[middle], below, above)


def _even_bin(inside: ir.Value, column: NumberColumn) -> ir.Value:
    """The bin of a double within the bounds, where ``even_bins`` holds; null where it is null."""

    def floor(number: ir.Value) -> ir.Value:
        return number.floor().cast("float64")

    place = _place(inside, column, floor, exact)
    low = (inside < _edge(place, column, floor, exact)).cast("int32")
    high = (inside >= _edge(place + exact(1), column, floor, exact)).cast("int32")
    found = place.cast("int32") - low + high
    return ibis.cases((found < 0, 0), (found >= column.levels, column.levels - 1), else_=found)


def even_bins(column: NumberColumn) -> bool:
    """Whether arithmetic finds the bin of every number: its own place, or one from it.

    A place never falls where the number grows, however the arithmetic is rounded. It is therefore
    enough that the bins of all inner edges and of the numbers next below them come out right.
    """
    edges, levels = column.edges, column.levels
    if not np.array_equal(_edge(np.arange(1.0, levels), column, np.floor), edges[1:-1]):
        return False
    numbers = np.concatenate([edges[:-1], np.nextafter(edges[1:-1], -np.inf), edges[-1:]])
    place = _place(numbers, column, np.floor)
    low = numbers < _edge(place, column, np.floor)
    high = numbers >= _edge(place + 1, column, np.floor)
    found = np.clip(place - low + high, 0, levels - 1)
    return np.array_equal(found, np.searchsorted(edges[1:-1], numbers, side="right"))


Arithmetic = Callable[[Any], Any]


def _place(
    value: Any,
    column: NumberColumn,
    floor: Arithmetic,
    exact: Arithmetic = float,
) -> Any:
    """The bin of a number within the bounds if all are equally wide, up to rounding."""
    lower, upper = float(column.edges[0]), float(column.edges[-1])
    return floor((value - exact(lower)) * exact(column.levels / (upper - lower)))


def _edge(
    place: Any,
    column: NumberColumn,
    floor: Arithmetic,
    exact: Arithmetic = float,
) -> Any:
    """The lower edge of an even bin, by the arithmetic that the column makes its edges with."""
    if isinstance(column, IntegerColumn):
        return floor(place * exact(column.count) / exact(column.levels)) + exact(column.lower)
    step = (column.upper - column.lower) / column.levels
    even = place * exact(step) + exact(column.lower)
    if column.decimals is None:
        return even
    scale = exact(10.0**column.decimals)
    return -floor(-(even * scale - exact(1e-6))) / scale
