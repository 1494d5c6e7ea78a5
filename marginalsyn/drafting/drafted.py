"""A column of a draft, by the facts of a survey and the form of its texts. Not private."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

from marginalsyn.drafting.guess import (
    FEWEST_FOR_IDENTIFIER,
    MOST_CATEGORIES,
    OPEN,
    guess,
    guess_categories,
    guess_open,
    guess_truth,
    id_pattern,
)
from marginalsyn.drafting.spellings import Guess, guess_moment, guess_number
from marginalsyn.drafting.survey import MOST_TEXTS, Facts
from marginalsyn.drafting.tails import Ends
from marginalsyn.errors import SchemaError
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn, Column, OrdinalColumn
from marginalsyn.table.made import ConstantColumn, IdentifierColumn
from marginalsyn.table.moments import MOMENTS, MomentColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.unit import PEOPLE
from marginalsyn.table.wording import NumberFormat

MOST_SPARSE_INTEGERS = 12
# A kind that a person asks for must read this share of the values.
LEAST_ASKED = 0.05
# Whole numbers that no one adds up: postal codes.
POSTAL = re.compile(
    r"(^|_|\s|-)(zip|zipcode|plz|post|postal|postcode|postleitzahl|cap)(\d|_|\s|-|$)", re.IGNORECASE
)
IDENTIFIER = re.compile(
    rf"(^|_|\s|-)(id|uuid|guid|key|index|nr|no)$|[a-z]I[Dd]$|^({PEOPLE})$", re.IGNORECASE
)
# Bounds before those of the rows are known.
WIDE: dict[str, dict[str, Any]] = {
    "date": {"lower": "1800-01-01", "upper": "2199-12-31", "bins": 1},
    "datetime": {"lower": "1800-01-01", "upper": "2199-12-31", "bins": 1},
    "time": {"lower": "00:00", "upper": "23:59", "bins": 1},
}
KINDS = (
    *("categorical", OPEN, "ordinal", "integer", "continuous", "boolean", *MOMENTS),
    *("identifier", "constant"),
)


@dataclass(frozen=True)
class Found:
    """A column as drafted, or none, and the reason."""

    column: Any
    why: str


def with_tokens(found: Found, tokens: Sequence[Any]) -> Found:
    """A drafted column in which some numbers mean missing."""
    known = dict.fromkeys((*found.column.missing_tokens, *tokens))
    fields = {**found.column.model_dump(), "missing_tokens": tuple(known), "nullable": True}
    why = f"{found.why}; missing where {', '.join(map(str, tokens[:3]))}"
    return Found(type(found.column)(**fields), why)


def without_codes(fact: Facts, codes: Sequence[float], ends: Ends) -> Facts:
    """The facts on the numbers of a column that remain without some codes."""
    gone = sum(ends.codes[code] for code in codes)
    lower, upper = ends.without(codes)
    return replace(
        fact,
        known=fact.known - gone,
        distinct=fact.distinct - len(codes),
        numbers=fact.numbers - gone,
        finite=fact.finite - gone,
        whole=fact.whole - gone,
        lower=fact.lower if lower is None or not codes else lower,
        upper=fact.upper if upper is None or not codes else upper,
    )


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
    spelt = [(str(value), count) for value, count in texts]
    if asked:
        return _column_of(_guess_as_asked(name, fact, spelt, asked), False, common)
    if typed:
        day = guess_moment(spelt, fact.known)
        fields = day.fields if day is not None and typed == "time" else {}
        kind = day.kind if day is not None and day.kind == "date" else typed
        return _column_of(Guess(kind, f"of the type {typed}", fields), label, common)
    few = fact.distinct <= MOST_CATEGORIES

    def listed(tokens: tuple[str, ...] = ()) -> Guess:
        return guess_categories(spelt, tokens) if few else guess_open(spelt, tokens, fact.distinct)

    values = sorted(value for value, _ in texts) if few else []
    if truth := values and _truth(values):
        words = f"two values: {truth[0]}, {truth[1]}"
        return Found(BooleanColumn(**common, false_label=truth[0], true_label=truth[1]), words)
    if fact.numeric and fact.lower is None and asked is None:
        if fact.distinct == fact.known >= FEWEST_FOR_IDENTIFIER:
            return Found(IdentifierColumn(name=name), "every row has another one")
        return Found(None, "numbers beyond 10^14, which are not counted")
    if not few and fact.decimals == 3 and fact.pointed == fact.known < 50 * fact.whole:
        fields = {"format": NumberFormat(decimal=",", thousands=".")}
        why = "numbers with thousands '.', which could be the decimal sign"
        return _column_of(Guess("integer", why, fields), label, common)
    if fact.numeric and fact.lower is not None and fact.upper is not None:
        if asked is None and _numbers_rows(name, fact) and not label:
            return Found(IdentifierColumn(name=name), "whole numbers that number the rows")
        day = guess_moment(spelt, sum(count for _, count in spelt)) if spelt else None
        if POSTAL.search(name) and spelt and fact.integer and not label:
            return _column_of(listed(), label, common)
        if day is None or day.kind != "date":
            return _numeric(fact, values, label, common)
    if label and few:
        found = guess_truth(spelt, fact.known) or listed()
    else:
        named = bool(IDENTIFIER.search(name))
        found = guess(name, spelt, rows=fact.known, distinct=fact.distinct, named_id=named)
    if asked is not None and found.kind in ("drop", "identifier"):
        found = listed(found.tokens)
    return _column_of(found, label, common)


def _column_of(found: Guess, label: bool, common: Mapping[str, Any]) -> Found:
    """A guess as a column; bounds are wide until those of the rows are known."""
    name = common["name"]
    if found.kind == "drop":
        return Found(None, found.why)
    if found.kind == "identifier":
        return Found(IdentifierColumn(name=name, **found.fields), found.why)
    if found.kind == "constant":
        return Found(ConstantColumn(name=name), found.why)
    fields: dict[str, Any] = {**common, **found.fields}
    why = found.why
    if found.tokens:
        fields.update(missing_tokens=found.tokens, nullable=True)
        why += f"; missing where {', '.join(found.tokens[:3])}"
    if found.kind == "boolean":
        return Found(BooleanColumn(**fields), why)
    if found.kind == OPEN:
        return Found(CategoricalColumn.model_validate({**fields, "categories": "private"}), why)
    if found.kind == "ordinal":
        return Found(OrdinalColumn(**fields), why)
    if found.kind == "categorical":
        texts = fields["categories"]
        spare = next(text for text in ("OTHER", "(other)", "(any other)") if text not in texts)
        fields.update(other=not label, other_label=spare)
        return Found(CategoricalColumn(**fields), why)
    if found.kind in MOMENTS:
        return Found(MOMENTS[found.kind](**{**wide_ends(found.kind, fields), **fields}), why)
    # A worded column stays so until its bounds are known.
    fields.setdefault("format", NumberFormat())
    decimals = fields.pop("decimals", None)
    if found.kind == "integer":
        return Found(IntegerColumn(lower=-(10**12), upper=10**12, bins=1, **fields), why)
    loose = ContinuousColumn(lower=-1e12, upper=1e12, bins=1, **fields)
    return Found(loose.model_copy(update={"decimals": decimals}), why)


def widest(column: Any, bins: int) -> Any:
    """The column with bounds that no row decides: as wide as its kind, for a search to narrow."""
    data = column.model_dump()
    if isinstance(column, MomentColumn):
        return type(column)(**{**data, **wide_ends(column.kind, data), "bins": bins})
    # Numbers hold 15 digits.
    upper = 10.0 ** min(12, 15 - (data.get("decimals") or 0))
    lower = -upper if column.below is None else min(0.0, 2 * column.below)
    if column.above is not None:
        upper = max(0.0, 2 * column.above)
    if column.whole:
        lower, upper = int(lower), int(upper)
    return type(column)(**{**data, "lower": lower, "upper": upper, "bins": bins, "shape": None})


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


def _guess_as_asked(name: str, fact: Facts, spelt: list[tuple[str, int]], asked: str) -> Guess:
    """A guess of the kind that was asked for."""
    why = "as asked"
    if asked == "identifier":
        pattern = id_pattern([text for text, _ in spelt]) if spelt else "{n}"
        return Guess(asked, why, {"pattern": pattern})
    if asked == "constant":
        return Guess(asked, why)
    if asked in ("integer", "continuous") or asked in MOMENTS:
        moment = asked in MOMENTS
        guess_it = guess_moment if moment else guess_number
        found = guess_it(spelt, sum(count for _, count in spelt), LEAST_ASKED)
        if found is None and (moment or not fact.numbers):
            raise SchemaError(
                f"column ({name!r}) must hold values of the kind {asked}: it has texts such as "
                f"{spelt[0][0]!r}; --kind {name}=categorical, or drop"
            )
        fields = {"nullable": True} if moment else {"nullable": True, "decimals": fact.decimals}
        if found is None:
            return Guess(asked, why, fields)
        if not moment or found.kind == asked:
            fields |= found.fields
        return Guess(asked, f"{why}: {found.why}", fields, found.tokens)
    if asked == OPEN:
        return replace(guess_open(spelt, (), fact.distinct), why=why)
    if not spelt or fact.distinct > MOST_TEXTS:
        raise SchemaError(
            f"column ({name!r}) must have at most {MOST_TEXTS:,} values to be {asked}: it has "
            f"{fact.distinct:,}"
        )
    if asked != "boolean":
        return replace(guess_categories(spelt, ()), kind=asked, why=why)
    if len(spelt) == 2:
        # Two words that nobody knows for yes and no.
        false, true = sorted(text for text, _ in spelt)
        return Guess(asked, why, {"true_label": true, "false_label": false})
    found = guess(name, spelt, rows=fact.known, distinct=fact.distinct, named_id=False)
    if found.kind != "boolean":
        raise SchemaError(
            f"column ({name!r}) must have two values to be boolean: it has {fact.distinct:,}"
        )
    return replace(found, why=why)


def wide_ends(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The widest bounds of a format: two digits stand for the hundred years up to the next one."""
    ends, last = dict(WIDE[kind]), date.today().year + 1
    if any("%y" in style for style in (str(fields.get("format", "")), *fields.get("also", ()))):
        ends.update(lower=f"{last - 99}-01-01", upper=f"{last}-12-31")
    return ends


def _numeric(fact: Facts, values: list[Any], label: bool, common: dict[str, Any]) -> Found:
    """Numbers without any words around them."""
    kind: Any = int if fact.integer else float
    numbers = sorted({kind(number) for one in values if math.isfinite(number := float(one))})
    if label and numbers:
        listed = CategoricalColumn(**common, categories=tuple(numbers), other=False)
        return Found(listed, "few numbers")
    if fact.integer:
        column = _integer(fact, numbers, common)
        return Found(column, "whole numbers" if column.numeric else "few scattered whole numbers")
    lower, upper = widen(fact.lower or 0, fact.upper or 0)
    return Found(
        ContinuousColumn(**common, lower=lower, upper=upper, decimals=fact.decimals),
        "numbers" if fact.decimals is None else f"numbers of {fact.decimals} decimals",
    )


def _integer(fact: Facts, numbers: list[Any], common: Mapping[str, Any]) -> Column:
    """Integers with bounds, or an ordinal column for a few scattered codes."""
    scattered = numbers and numbers[-1] - numbers[0] + 1 >= 3 * len(numbers)
    if scattered and len(numbers) <= MOST_SPARSE_INTEGERS < fact.known / 4:
        return OrdinalColumn(**common, categories=tuple(numbers))
    lower, upper = widen(fact.lower or 0.0, fact.upper or 0.0)
    return IntegerColumn(**common, lower=math.floor(lower), upper=math.ceil(upper))


def _numbers_rows(name: str, fact: Facts) -> bool:
    """Whether whole numbers number the rows: all distinct, and named or spaced like an index."""
    if fact.distinct < fact.known or fact.known < FEWEST_FOR_IDENTIFIER or not fact.integer:
        return False
    span = (fact.upper or 0) - (fact.lower or 0) + 1
    return bool(IDENTIFIER.search(name)) or span == fact.known


def _truth(values: list[Any]) -> tuple[Any, Any] | None:
    """The false and the true label of values that are no words: truth values, 0 and 1."""
    if {*map(str, values)} <= {"False", "True"}:
        return False, True
    return (0, 1) if all(value in (0, 1, "0", "1") for value in values) else None


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
