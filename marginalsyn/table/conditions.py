"""Conditions on rows, such as ``sex=female,age=40..50``: which codes of a column agree, how much.

A bin that a range cuts agrees in part: by the share of its values that lie inside, from which the
values of such rows are then drawn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.errors import DataError, UsageError
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import text_of, trim
from marginalsyn.table.decoding import finish
from marginalsyn.table.moments import MomentColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn, NumberColumn
from marginalsyn.table.schema import AnyColumn, Schema
from marginalsyn.validation import like, shown

MISSING = "missing"
_COMPARISON = re.compile(r"^([^=<>!]+)(<=|>=|!=|==|=|<|>)(.*\S.*)$", re.DOTALL)
# The word between conditions, after a comparison.
_AND = re.compile(r"([=<>][^=<>!]*?)\s+and\s+(?=[^,=<>!]+[=<>!])", re.IGNORECASE)
_RANGE = re.compile(r"^\s*(.*?)\s*\.\.\s*(.*?)\s*$")
# Values between bars; one in quotes may have bars, and dots that are no range.
_VALUE = re.compile(r"""\s*(?:'[^']*'|"[^"]*")\s*(?=\||$)|[^|]+""")
# Rows drawn at a time, and in all, where those that agree are picked out.
_BATCH, _MOST = 2**16, 2**23


@dataclass(frozen=True)
class Condition:
    """What rows must hold in one column.

    Attributes:
        column: the column.
        weights: by code, the share of its values that agree, from 0 to 1.
        spans: of a numeric column, the ranges that agree, in the column's own steps.
    """

    column: AnyColumn
    weights: np.ndarray
    spans: tuple[tuple[float, float], ...] = ()

    @property
    def cuts(self) -> bool:
        """Whether it takes some values of a bin and leaves others."""
        return bool(self.spans) and bool(((self.weights > 0) & (self.weights < 1)).any())

    def decode(self, codes: np.ndarray, rng: np.random.Generator) -> pd.Series:
        """Values of numeric codes, each drawn evenly from those of its bin that agree."""
        column = self.column
        assert isinstance(column, NumberColumn)
        absent = codes >= column.levels
        bins = np.where(absent, int(np.argmax(self.weights[: column.levels])), codes)
        low, high, width = _overlaps(column, self.spans)
        reach = np.cumsum(width, axis=0)
        # Which of several ranges that meet the bin, by how much of the bin each takes.
        pick = (rng.random(len(bins)) * reach[-1, bins] >= reach[:-1, bins]).sum(axis=0)
        first, last = low[pick, bins], high[pick, bins]
        if not stepped(column):
            return finish(column, first + rng.random(len(bins)) * (last - first), absent)
        steps = rng.integers(first.astype(np.int64), last.astype(np.int64) + 1)
        return finish(column, steps / scale_of(column) if scale_of(column) > 1 else steps, absent)

    def holds(self, frame: pd.DataFrame, schema: Schema) -> np.ndarray:
        """Which rows of a frame agree."""
        name = self.column.name
        codes = Codec(schema.select([name])).encode(frame[[name]])[:, 0]
        found = self.weights[codes] > 0
        if self.cuts:
            values = Codec(schema).numbers(frame, name) * scale_of(self.column)
            values = np.rint(values) if stepped(self.column) else values
            inside = np.zeros(len(frame), dtype=bool)
            for low, high in self.spans:
                inside |= (values >= low) & (values <= high)
            found &= inside | np.isnan(values)
        return found


def read_conditions(where: str | Mapping[str, Any], schema: Schema) -> dict[str, Condition]:
    """The conditions by column that a text or a mapping states.

    Args:
        where: ``"sex=female,age=40..50,size>=m"``, or with "and" in place of commas: a value, a
            range with both ends (either may be left out), ``missing``, or several of them with
            ``|`` between; or a comparison by ``!=``, ``>``, ``>=``, ``<`` or ``<=``, which no
            missing value meets. Or by column a value, a pair (range), a list of values, ``{"min":
            ..., "max": ...}``, or None for missing.
        schema: of the rows.

    Raises:
        UsageError: an unknown column, or a value that the column does not have.

    Example:
        >>> from marginalsyn.table.schema import Schema
        >>> found = read_conditions("a=1..2", Schema.from_domain({"a": 4}))
        >>> found["a"].weights
        array([0., 1., 1., 0.])
    """
    spelt = isinstance(where, str)
    if isinstance(where, str):
        given = _parsed(where)
    else:
        given = {name: [("=", value)] for name, value in where.items()}
    if not given:
        raise UsageError(f"where ({where!r}) must name a column and its value, as in 'age=40..50'")
    for name in given:
        if name not in schema.names:
            raise UsageError(
                f"where ({name!r}) must name a column, one of {', '.join(schema.names)}"
                f"{like(name, schema.names)}"
            )
    return {name: _condition(schema.column(name), asked, spelt) for name, asked in given.items()}


def on_sources(
    conditions: Mapping[str, Condition], schema: Schema, names: Sequence[str]
) -> dict[str, Condition]:
    """The conditions, those on columns that follow from others being put on these."""
    found = dict(conditions)
    for name in names:
        if (asked := found.pop(name, None)) is None:
            continue
        source, mapping = schema.followers[name]
        column = schema.column(source)
        before = found.get(source) or Condition(column, np.ones(column.size))
        found[source] = replace(before, weights=before.weights * asked.weights[mapping])
        if not found[source].weights.any():
            raise UsageError(
                f"where ({', '.join(conditions)}) must leave a value of {source}, by which the "
                f"schema's rules list {name}"
            )
    return found


def kept_rows(
    draw: Callable[[int | None], pd.DataFrame],
    schema: Schema,
    rows: int | None,
    conditions: Mapping[str, Condition],
) -> pd.DataFrame:
    """Rows that agree, picked out of many: for methods that cannot draw them alone.

    ``draw`` gives so many rows, or as many as the method estimates, if ``rows`` is None, too.
    """

    def agreeing(frame: pd.DataFrame) -> pd.DataFrame:
        found = np.ones(len(frame), dtype=bool)
        for condition in conditions.values():
            found &= condition.holds(frame, schema)
        return frame[found]

    parts = [agreeing(draw(None if rows is None else _BATCH))]
    seen = _BATCH
    while rows is not None and sum(map(len, parts)) < rows and seen < _MOST:
        parts.append(agreeing(draw(_BATCH)))
        seen += _BATCH
    whole = pd.concat(parts, ignore_index=True)
    if not len(whole) or (rows is not None and len(whole) < rows):
        raise DataError(
            f"rows ({rows}) that agree with the condition must be common enough to be met: "
            f"{len(whole)} of {seen:,} were. Releases by aim, auto, mst or clique-tree draw such "
            "rows directly"
        )
    return whole if rows is None else whole.iloc[:rows].reset_index(drop=True)


def _parsed(text: str) -> dict[str, list[tuple[str, Any]]]:
    """By column, its comparisons: an operator and a value each."""
    given: dict[str, list[tuple[str, Any]]] = {}
    text = _AND.sub(r"\1,", text)
    # A comma that no "column=" follows belongs to the value before it.
    for part in re.split(r",(?=[^,=<>!]+[=<>!])", text):
        found = _COMPARISON.match(part)
        if not found:
            raise UsageError(
                f"where ({text!r}) must read column=value, as in 'sex=female,age=40..50', or "
                "compare with >, >=, <, <= or !="
            )
        name, sign, value = (group.strip() for group in found.groups())
        clauses = given.setdefault(name, [])
        if sign in ("=", "==") and any(before == "=" for before, _ in clauses):
            raise UsageError(f"where ({text!r}) must name {name!r} once: put | between")
        clauses.append(("=" if sign == "==" else sign, value))
    return given


def _condition(column: AnyColumn, clauses: Sequence[tuple[str, Any]], spelt: bool) -> Condition:
    """What all comparisons of one column leave; in a text, alternatives and ranges are spelt."""
    codes = np.ones(column.size, dtype=bool)
    spans: tuple[tuple[float, float], ...] = ((-math.inf, math.inf),)
    for sign, asked in clauses:
        some, ranges = compared(column, sign, asked, spelt)
        codes &= some
        spans = _merged([(max(a, c), min(b, d)) for a, b in spans for c, d in ranges])
    weights = codes.astype(float)
    if isinstance(column, NumberColumn):
        width, whole = (
            _overlaps(column, part)[2].sum(axis=0) if part else np.zeros(column.levels)
            for part in (spans, ((-math.inf, math.inf),))
        )
        weights[: column.levels] = np.minimum(width / whole, 1.0)
    if not (weights > 0).any():
        stated = " and ".join(f"{'' if s == '=' else s}{shown(asked)}" for s, asked in clauses)
        raise UsageError(
            f"{column.name} ({stated}) must leave a value: "
            + (
                "give a range such as 0.4..0.6"
                if any(low == high for low, high in spans) and not stepped(column)
                else f"it has those from {column.bound(column.lower)} to "
                f"{column.bound(column.upper)}"
                if isinstance(column, NumberColumn)
                else "none is named"
            )
        )
    return Condition(column, weights, spans if isinstance(column, NumberColumn) else ())


def compared(
    column: AnyColumn, sign: str, asked: Any, spelt: bool
) -> tuple[np.ndarray, tuple[tuple[float, float], ...]]:
    """The codes that one comparison leaves, and of a numeric column the ranges of values."""
    if sign in (">=", "<=", ">", "<"):
        _check_order(column, sign, asked)
        # Above a value are those that are not up to it.
        ends = (asked, None) if sign in (">=", "<") else (None, asked)
        codes, spans = agreeing(column, [ends])
    else:
        codes, spans = agreeing(column, alternatives(column, asked, spelt))
    if sign in (">=", "<=", "="):
        return codes, spans
    missing = column.missing_code
    present = np.arange(column.size) != (-1 if missing is None else missing)
    # A missing value is in no order, and is not known to differ.
    return present & ~codes, _complement(spans, stepped(column))


def _check_order(column: AnyColumn, sign: str, asked: Any) -> None:
    if asked == MISSING and not _listed_as(column, asked):
        raise UsageError(f"{column.name} ({sign}{asked}) must be = or !=: missing has no order")
    if not (isinstance(column, NumberColumn) or column.ordered):
        raise UsageError(
            f"{column.name} ({sign}{asked}) must be = or !=: the column's values have no order"
        )


def agreeing(
    column: AnyColumn, options: Sequence[Any]
) -> tuple[np.ndarray, tuple[tuple[float, float], ...]]:
    """The codes of values, ranges or missing, and of a numeric column the ranges of values."""
    codes = np.zeros(column.size, dtype=bool)
    spans = []
    for option in options:
        if option is None or (option == MISSING and not _listed_as(column, option)):
            if column.missing_code is None:
                raise UsageError(f"{column.name} (missing) must be a value: it is never missing")
            codes[column.missing_code] = True
        elif isinstance(column, NumberColumn):
            spans.append(_span(column, *_ends(option)))
        else:
            low, high = _ends(option, column.ordered)
            first = _code(column, low) if low is not None else 0
            last = _code(column, high) if high is not None else column.levels - 1
            if first > last:
                raise UsageError(f"{column.name} ({low!r}..{high!r}) must be in the column's order")
            codes[first : last + 1] = True
    return codes, _merged(spans)


def _complement(
    spans: Sequence[tuple[float, float]], stepped: bool
) -> tuple[tuple[float, float], ...]:
    """The values between the ranges."""
    lows, highs = [low for low, _ in spans], [high for _, high in spans]
    firsts = [high + 1 if stepped else math.nextafter(high, math.inf) for high in highs]
    lasts = [low - 1 if stepped else math.nextafter(low, -math.inf) for low in lows]
    return _merged(list(zip([-math.inf, *firsts], [*lasts, math.inf], strict=True)))


def alternatives(column: AnyColumn, asked: Any, spelt: bool) -> list[Any]:
    if not spelt:
        if isinstance(asked, list | set | frozenset):
            return list(asked)
        pair = isinstance(asked, tuple) and len(asked) == 2 and (column.ordered)
        return [asked] if pair or not isinstance(asked, tuple) else list(asked)
    if _listed_as(column, asked):
        return [asked]
    found = []
    for part in (part.strip() for part in _VALUE.findall(asked)):
        listed = _listed_as(column, part)
        if not listed and len(part) > 1 and part[0] == part[-1] in ("'", '"'):
            part, listed = part[1:-1], True
        ends = None if listed else _RANGE.match(part)
        found.append(tuple(end or None for end in ends.groups()) if ends else part)
    return found


def _ends(option: Any, ordered: bool = True) -> tuple[Any, Any]:
    if isinstance(option, Mapping) and set(option) <= {"min", "max"}:
        return option.get("min"), option.get("max")
    if isinstance(option, tuple) and len(option) == 2 and ordered:
        return option
    return option, option


def _listed_as(column: AnyColumn, text: Any) -> bool:
    """Whether a listed column has a value that is spelt exactly so."""
    return any(trim(value) == trim(text) for value in column.values)


def _code(column: AnyColumn, value: Any) -> int:
    try:
        if isinstance(value, str):
            same = [v for v in column.values if text_of(v).lower() == trim(value).lower()]
            value = same[0] if len(same) == 1 and not _listed_as(column, value) else value
        return column.code_of(value)
    except ValueError as error:
        raise UsageError(f"where: {error}") from None


def _span(column: NumberColumn, low: Any, high: Any) -> tuple[float, float]:
    """A range in the column's own steps, both ends included."""
    ends = [_number(column, low, up=False), _number(column, high, up=True)]
    if ends[0] > ends[1]:
        raise UsageError(f"{column.name} ({low}..{high}) must not end before it begins")
    if not stepped(column):
        return ends[0], ends[1]
    low, high = (end * scale_of(column) for end in ends)
    return float(np.ceil(low - 1e-6)), float(np.floor(high + 1e-6))


def _number(column: NumberColumn, value: Any, *, up: bool) -> float:
    if value is None:
        return math.inf if up else -math.inf
    if isinstance(column, MomentColumn):
        try:
            return float(column.count_of(value, up=up))
        except ValueError as error:
            raise UsageError(f"where: {error}") from None
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise UsageError(
            f"{column.name} ({shown(value)}) must be a number or a range such as "
            f"{column.bound(column.lower)}..{column.bound(column.upper)}"
        ) from None
    if math.isnan(found):
        raise UsageError(f"{column.name} ({value}) must be a number")
    return found


def _merged(spans: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The same values in ranges that do not overlap."""
    found: list[tuple[float, float]] = []
    for low, high in sorted(span for span in spans if span[0] <= span[1]):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def stepped(column: AnyColumn) -> bool:
    """Whether a numeric column holds multiples of a step."""
    if isinstance(column, ContinuousColumn):
        return column.decimals is not None
    return isinstance(column, IntegerColumn)


def scale_of(column: AnyColumn) -> float:
    """Steps in one unit of the column."""
    decimals = column.decimals if isinstance(column, ContinuousColumn) else None
    return 10.0 ** (decimals or 0)


def _overlaps(
    column: NumberColumn, spans: Sequence[tuple[float, float]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By range and bin: the first and the last value in both, and how much that is."""
    first, last = column.bin_extremes()
    if isinstance(column, ContinuousColumn) and stepped(column):
        first, last = (part.astype(float) for part in column.grid())
    low = np.maximum(first, np.array([span[0] for span in spans])[:, None])
    high = np.minimum(last, np.array([span[1] for span in spans])[:, None])
    width = np.maximum(high - low + (1.0 if stepped(column) else 0.0), 0.0)
    return low, high, width
