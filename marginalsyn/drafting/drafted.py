"""A column of a draft, from what a survey says of it and what its texts look like. Not private."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

from marginalsyn.drafting.guess import (
    FEWEST_FOR_IDENTIFIER,
    MOST_CATEGORIES,
    OPEN,
    Guess,
    guess,
    guess_categories,
    guess_moment,
    guess_number,
    guess_open,
    id_pattern,
)
from marginalsyn.drafting.survey import MOST_TEXTS, Facts
from marginalsyn.errors import SchemaError
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn, Column, OrdinalColumn
from marginalsyn.table.made import ConstantColumn, IdentifierColumn
from marginalsyn.table.moments import DateColumn, DatetimeColumn, MomentColumn, TimeColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.wording import NumberFormat

MOST_SPARSE_INTEGERS = 12
IDENTIFIER = re.compile(r"(^|_|\s|-)(id|uuid|guid|key|index|nr|no)$|[a-z]I[Dd]$", re.IGNORECASE)
MOMENTS: dict[str, type[MomentColumn]] = {
    "date": DateColumn,
    "datetime": DatetimeColumn,
    "time": TimeColumn,
}
# Bounds before the rows have told theirs.
WIDE: dict[str, dict[str, Any]] = {
    "date": {"lower": "1800-01-01", "upper": "2199-12-31", "bins": 1},
    "datetime": {"lower": "1800-01-01", "upper": "2199-12-31", "bins": 1},
    "time": {"lower": "00:00", "upper": "23:59", "bins": 1},
}
KINDS = (
    *("categorical", OPEN, "ordinal", "integer", "continuous", "boolean", *MOMENTS),
    *("identifier", "constant"),
)
TRUTHS = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"}, {"1", "0"})


@dataclass(frozen=True)
class Found:
    """A column as drafted, or none, and the reason."""

    column: Any
    why: str


def typed_moment(kind: Any) -> str | None:
    """The kind of a column whose type in a database or file is a date or time."""
    if kind.is_timestamp():
        return "datetime"
    return "date" if kind.is_date() else "time" if kind.is_time() else None


def draft_column(
    name: str,
    fact: Facts,
    texts: list[tuple[Any, int]],
    label: bool,
    typed: str | None,
    asked: str | None,
) -> Found:
    """The kind that fits the facts, or None for a column to drop, and why."""
    common: dict[str, Any] = {"name": name, "nullable": fact.known < fact.rows}
    if not fact.known:
        return Found(None, "empty")
    if asked:
        return _forced(name, fact, texts, asked, common)
    if typed:
        day = guess_moment([(str(value), n) for value, n in texts], fact.known)
        fields = day.fields if day is not None and typed == "time" else {}
        kind = day.kind if day is not None and day.kind == "date" else typed
        return Found(MOMENTS[kind](**common, **WIDE[kind], **fields), f"of the type {typed}")
    values = sorted(value for value, _ in texts) if fact.distinct <= MOST_CATEGORIES else []
    truth = _truth(values)
    if truth is not None:
        words = f"two values: {truth[0]}, {truth[1]}"
        return Found(BooleanColumn(**common, false_label=truth[0], true_label=truth[1]), words)
    if fact.numeric and fact.lower is not None and fact.upper is not None:
        if asked is None and _numbers_rows(name, fact) and not label:
            return Found(IdentifierColumn(name=name), "whole numbers that number the rows")
        day = guess_moment([(str(value), n) for value, n in texts], fact.known) if texts else None
        if day is None or day.kind != "date":
            return _numeric(fact, values, label, common)
    spelt = [(str(value), count) for value, count in texts]
    if label and fact.distinct <= MOST_CATEGORIES:
        found = guess_categories(spelt, ())
    else:
        named = bool(IDENTIFIER.search(name))
        found = guess(name, spelt, rows=fact.known, distinct=fact.distinct, named_id=named)
    if asked is not None and found.kind in ("drop", "identifier"):
        few = fact.distinct <= MOST_CATEGORIES
        found = (
            guess_categories(spelt, found.tokens)
            if few
            else guess_open(spelt, found.tokens, fact.distinct)
        )
    return _of_guess(found, label, common)


def _of_guess(found: Guess, label: bool, common: Mapping[str, Any]) -> Found:
    """A guess as a column; bounds are wide until the rows have told theirs."""
    name = common["name"]
    if found.kind == "drop":
        return Found(None, found.why)
    if found.kind == "identifier":
        return Found(IdentifierColumn(name=name, **found.fields), found.why)
    fields: dict[str, Any] = {**common, **found.fields}
    why = found.why
    if found.tokens:
        fields.update(missing_tokens=found.tokens, nullable=True)
        why += f"; missing where {', '.join(found.tokens[:3])}"
    if found.kind == "boolean":
        return Found(BooleanColumn(**fields), why)
    if found.kind == OPEN:
        return Found(CategoricalColumn.model_validate({**fields, "categories": "private"}), why)
    if found.kind in ("categorical", "ordinal"):
        texts = fields["categories"]
        if found.kind == "ordinal":
            return Found(OrdinalColumn(**fields), why)
        spare = next(text for text in ("OTHER", "(other)", "(any other)") if text not in texts)
        fields.update(other=not label, other_label=spare)
        return Found(CategoricalColumn(**fields), why)
    if found.kind in MOMENTS:
        return Found(MOMENTS[found.kind](**{**wide_ends(found.kind, fields), **fields}), why)
    if found.kind == "integer":
        wide = _wide_format(fields)
        return Found(IntegerColumn(lower=-(10**12), upper=10**12, bins=1, **wide), why)
    decimals = fields.pop("decimals", None)
    loose = ContinuousColumn(lower=-1e12, upper=1e12, bins=1, **_wide_format(fields))
    return Found(loose.model_copy(update={"decimals": decimals}), why)


def _wide_format(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A worded column stays so until its bounds are known."""
    return {"format": NumberFormat(), **fields}


def bounded(column: Any, low: float | None, high: float | None) -> Any:
    """The column with bounds around its numbers, widened to round ones."""
    data = column.model_dump()
    if isinstance(column, MomentColumn):
        first, last = (str(column.bound(end)) for end in (low or 0, high or 0))
        if column.kind != "time":
            many = first[:4] != last[:4]
            first = first[:5] + ("01-01" if many else first[5:8] + "01")
            last = last[:5] + "12-31" if many else _month_end(last)
        else:
            first, last = first[:2] + ":00", last[:2] + ":59"
        return type(column)(**{**data, "lower": first, "upper": last, "bins": "auto"})
    limits = [limit for limit in (column.below, column.above) if limit is not None]
    ends = [*limits, *(end for end in (low, high) if end is not None and abs(end) < 1e12)]
    ends += [0.0] * (column.below is not None)
    lower, upper = widen(min(ends, default=0.0), max(ends, default=0.0))
    if column.above is not None and upper <= column.above:
        upper = 2 * column.above
    if column.whole:
        lower, upper = math.floor(lower), math.ceil(upper)
    elif lower == upper:
        upper = lower + 1
    if column.format == NumberFormat():
        data["format"] = None
    if column.format is not None and "%" in column.format.suffix and lower >= 0 and upper <= 100:
        lower, upper = type(lower)(0), type(upper)(100)
    return type(column)(**{**data, "lower": lower, "upper": upper, "bins": "auto"})


def _month_end(day: str) -> str:
    first = date.fromisoformat(day[:8] + "01")
    return ((first + timedelta(days=31)).replace(day=1) - timedelta(days=1)).isoformat()


def _forced(
    name: str,
    fact: Facts,
    texts: list[tuple[Any, int]],
    asked: str,
    common: dict[str, Any],
) -> Found:
    """The column as the kind that was asked for."""
    spelt = [(str(value), count) for value, count in texts]
    why = "as asked"
    if asked == "identifier":
        pattern = id_pattern([text for text, _ in spelt]) if spelt else "{n}"
        return Found(IdentifierColumn(name=name, pattern=pattern), why)
    if asked == "constant":
        return Found(ConstantColumn(name=name), why)
    if asked in ("integer", "continuous"):
        found = guess_number(spelt, fact.known)
        fields = {
            **common,
            "nullable": True,
            "format": NumberFormat(),
            **(found.fields if found else {}),
        }
        kind: Any = IntegerColumn if asked == "integer" else ContinuousColumn
        if asked == "integer":
            fields.pop("decimals", None)
        wide = 10**12 if asked == "integer" else 1e12
        decimals = fields.pop("decimals", fact.decimals if asked == "continuous" else None)
        column = kind(lower=-wide, upper=wide, bins=1, **fields)
        if decimals is not None:
            column = column.model_copy(update={"decimals": decimals})
        return Found(column, why)
    if asked in MOMENTS:
        found = guess_moment(spelt, fact.known)
        fields = found.fields if found and found.kind == asked else {}
        known = {**common, "nullable": True, **wide_ends(asked, fields), **fields}
        return Found(MOMENTS[asked](**known), why)
    if asked == OPEN:
        return _of_guess(replace(guess_open(spelt, (), fact.distinct), why=why), False, common)
    if not spelt or fact.distinct > MOST_TEXTS:
        raise SchemaError(
            f"column ({name!r}) must have at most {MOST_TEXTS:,} values to be {asked}: it has "
            f"{fact.distinct:,}"
        )
    if asked == "boolean":
        return _forced_truth(name, fact, spelt, common)
    found = guess_categories(spelt, ())
    return _of_guess(replace(found, kind=asked, why=why), False, common)


def wide_ends(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The widest bounds of a format: years of two digits stand for a hundred of them."""
    two_digits = {"lower": "1969-01-01", "upper": "2068-12-31"}
    short = kind != "time" and "%y" in str(fields.get("format", ""))
    return {**WIDE[kind], **(two_digits if short else {})}


def _forced_truth(
    name: str, fact: Facts, spelt: list[tuple[str, int]], common: dict[str, Any]
) -> Found:
    """Two words that nobody knows for yes and no, or those that are known, with others missing."""
    if len(spelt) == 2:
        false, true = sorted(text for text, _ in spelt)
        return Found(BooleanColumn(**common, true_label=true, false_label=false), "as asked")
    found = guess(name, spelt, rows=fact.known, distinct=fact.distinct, named_id=False)
    if found.kind != "boolean":
        raise SchemaError(
            f"column ({name!r}) must have two values to be boolean: it has {fact.distinct:,}"
        )
    return _of_guess(replace(found, why="as asked"), False, common)


def _numeric(fact: Facts, values: list[Any], label: bool, common: dict[str, Any]) -> Found:
    """Numbers without any words around them."""
    numbers = sorted({number for value in values if math.isfinite(number := float(value))})
    if fact.integer:
        column = _integer(fact, [int(number) for number in numbers], label, common)
        return Found(column, "whole numbers" if column.numeric else "few scattered whole numbers")
    if label and numbers:
        listed = CategoricalColumn(**common, categories=tuple(numbers), other=False)
        return Found(listed, "few numbers")
    lower, upper = widen(fact.lower or 0, fact.upper or 0)
    return Found(
        ContinuousColumn(**common, lower=lower, upper=upper, decimals=fact.decimals),
        "numbers" if fact.decimals is None else f"numbers of {fact.decimals} decimals",
    )


def _integer(fact: Facts, numbers: list[int], label: bool, common: Mapping[str, Any]) -> Column:
    """Integers with bounds, or an ordinal column for a few scattered codes."""
    if numbers and label:
        return CategoricalColumn(**common, categories=tuple(numbers), other=False)
    scattered = numbers and numbers[-1] - numbers[0] + 1 > 3 * len(numbers)
    if scattered and len(numbers) <= MOST_SPARSE_INTEGERS < fact.known / 4:
        return OrdinalColumn(**common, categories=tuple(numbers))
    lower, upper = widen(fact.lower or 0.0, fact.upper or 0.0)
    return IntegerColumn(**common, lower=math.floor(lower), upper=math.ceil(upper))


def _numbers_rows(name: str, fact: Facts) -> bool:
    """Whether whole numbers tell rows apart: all distinct, and named or numbered like an index."""
    if fact.distinct < fact.known or fact.known < FEWEST_FOR_IDENTIFIER or not fact.integer:
        return False
    span = (fact.upper or 0) - (fact.lower or 0) + 1
    return bool(IDENTIFIER.search(name)) or span == fact.known


def _truth(values: list[Any]) -> tuple[Any, Any] | None:
    """The false and the true label, if the values are a pair of truth values, spelt one way."""
    if not values or len(values) > 2:
        return None
    if all(isinstance(value, bool) for value in values):
        return False, True
    if all(not isinstance(value, str) and value in (0, 1) for value in values):
        return 0, 1
    texts = [str(value) for value in values]
    for true, false in (sorted(pair, reverse=True) for pair in TRUTHS):
        if not {text.lower() for text in texts} <= {true, false}:
            continue
        if true == "1":
            return 0, 1
        for spell in (str.lower, str.title, str.upper):
            if {*texts} <= {spell(true), spell(false)}:
                labels = spell(false), spell(true)
                return (False, True) if labels == ("False", "True") else labels
    return None


def widen(lower: float, upper: float) -> tuple[float, float]:
    """Return round bounds around both numbers.

    Example:
        >>> widen(17, 88)
        (10.0, 90.0)
    """
    span = upper - lower
    # Below the smallest normal number a power of ten is rounded to zero.
    if span < sys.float_info.min:
        return float(math.floor(lower)), float(max(math.ceil(upper), math.floor(lower)))
    exponent = math.floor(math.log10(span))
    step = 10.0**exponent
    if span / step < 3:
        step /= 5
        exponent -= 1
    digits = max(0, -exponent)
    return (
        min(lower, round(math.floor(lower / step) * step, digits)),
        max(upper, round(math.ceil(upper / step) * step, digits)),
    )
