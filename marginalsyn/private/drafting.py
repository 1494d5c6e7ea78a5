"""A first draft of a schema, read off a table: not private, and marked as such."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marginalsyn.errors import DataError, SchemaError
from marginalsyn.table import (
    MISSING_TOKENS,
    BooleanColumn,
    CategoricalColumn,
    Column,
    ContinuousColumn,
    IntegerColumn,
    OrdinalColumn,
    Schema,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir

MOST_CATEGORIES = 50
MOST_SPARSE_INTEGERS = 12
MOST_DECIMALS = 4
FEWEST_FOR_IDENTIFIER = 20
BOUNDLESS = 1e14
IDENTIFIER = re.compile(r"(^|_|\s|-)(id|uuid|guid|key|index|nr|no)$|[a-z]I[Dd]$", re.IGNORECASE)
LEADING_ZERO = "^[+-]?0[0-9]"
TRUTHS = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"}, {"1", "0"})


@dataclass(frozen=True)
class _Facts:
    """What the draft is based on, for one column."""

    rows: int
    known: int
    distinct: int
    numbers: int
    finite: int
    whole: int
    coded: int
    lower: float | None
    upper: float | None
    decimals: int | None

    @property
    def numeric(self) -> bool:
        return 0 < self.known == self.numbers and self.coded == 0

    @property
    def integer(self) -> bool:
        return self.numeric and self.whole == self.finite


def infer_schema(data: Any, label: str | None = None, *, sep: str | None = None) -> Schema:
    """Draft a schema by looking at the rows. The draft is **not private**: replace what it found.

    Few-valued text becomes categorical, two-valued truths boolean, whole numbers integer (sparse
    codes ordinal), other numbers continuous; bounds are widened to round numbers. Identifiers,
    free text and empty columns go to ``drop``.

    Args:
        data: a DataFrame, a path, a database address or an Ibis table.
        label: the column to predict; a label of two values gets the last as its positive class.
        sep: the separator of a CSV file.

    Returns:
        A schema with ``drafted_from_data`` set and a warning in its file.

    Raises:
        SchemaError: if the label is not a usable column.
        DataError: if there are no rows, or nothing in them to describe.

    Example:
        >>> import pandas as pd
        >>> infer_schema(pd.DataFrame({"ok": ["yes", "no"], "n": [3, 17]})).domain
        {'ok': 2, 'n': 17}
    """
    from marginalsyn.private.sources import open_source
    from marginalsyn.table import encoding, engine_errors

    source = open_source(data, sep=sep)
    if label is not None and label not in source.columns:
        raise SchemaError(f"label ({label!r}) must be one of {', '.join(source.columns)}")
    connection = source.connect()
    names = [name for name in source.columns if name not in source.nested]
    table = connection.table
    plain = table.select(
        *[encoding.as_text(encoding.plain(table[name])).name(name) for name in names]
    ).view()
    with engine_errors(source.name):
        facts = _survey(connection.backend, plain)
        if not any(fact.rows for fact in facts.values()):
            raise DataError(f"data ({source.name}) must have at least one row to draft from")
        columns: dict[str, Column] = {}
        for name, fact in facts.items():
            values = _values(connection.backend, plain[name], fact)
            column = _draft(name, fact, values, name == label)
            if column is not None:
                columns[name] = column
    if label is not None and label not in columns:
        raise SchemaError(
            f"label ({label!r}) must have few values: it looks like an identifier or free text"
        )
    if not columns:
        raise DataError(f"data ({source.name}) must have a column that is no identifier")
    return Schema(
        columns=tuple(columns.values()),
        label=label,
        positive=_positive(columns.get(label or "")),
        drop=tuple(name for name in source.columns if name not in columns),
        drafted_from_data=True,
    )


def _survey(backend: Any, plain: ir.Table) -> dict[str, _Facts]:
    """Collect the facts on every column in one query."""
    import ibis

    from marginalsyn.table import encoding

    def aggregates(value: Any) -> dict[str, Any]:
        known = ~encoding.missing(value, MISSING_TOKENS)
        number: Any = encoding.number(value)
        # Engines round to 64-bit integers: beyond the bound, infinity among them, they would fail.
        finite = ibis.ifelse(known & (number.abs() <= BOUNDLESS), number, ibis.null("float64"))
        found = {
            "known": known.sum(),
            "distinct": value.nunique(where=known),
            "numbers": (known & number.notnull()).sum(),
            "finite": finite.count(),
            "whole": (finite == finite.floor()).sum(),
            "lower": finite.min(),
            "upper": finite.max(),
        }
        if value.type().is_string():
            found["coded"] = (known & value.re_search(LEADING_ZERO)).sum()
        for decimals in range(1, MOST_DECIMALS + 1):
            scale = 10.0**decimals
            found[f"d{decimals}"] = ((finite * scale).round() / scale == finite).sum()
        return found

    # By position: a column may be called anything.
    query = plain.aggregate(
        [plain.count().name("rows")]
        + [
            expression.name(f"{number}_{what}")
            for number, name in enumerate(plain.columns)
            for what, expression in aggregates(plain[name]).items()
        ]
    )
    found = backend.to_pyarrow(query).to_pylist()[0]
    return {
        name: _facts(
            found["rows"],
            {
                key.partition("_")[2]: value
                for key, value in found.items()
                if key.startswith(f"{number}_")
            },
        )
        for number, name in enumerate(plain.columns)
    }


def _facts(rows: int, found: Mapping[str, Any]) -> _Facts:
    known, finite = int(found["known"] or 0), int(found["finite"] or 0)
    exact = [d for d in range(1, MOST_DECIMALS + 1) if finite and found[f"d{d}"] == finite]
    return _Facts(
        rows=int(rows),
        known=known,
        distinct=int(found["distinct"] or 0),
        numbers=int(found["numbers"] or 0),
        finite=finite,
        whole=int(found["whole"] or 0),
        coded=int(found.get("coded") or 0),
        lower=found["lower"],
        upper=found["upper"],
        decimals=exact[0] if exact else None,
    )


def _values(backend: Any, value: Any, fact: _Facts) -> list[Any]:
    """The distinct values, sorted, if there are few enough to list."""
    from marginalsyn.table import encoding

    if not 0 < fact.distinct <= MOST_CATEGORIES:
        return []
    table = value.name("value").as_table()
    known = table.filter(~encoding.missing(table["value"], MISSING_TOKENS)).distinct()
    return sorted(backend.to_pyarrow(known).column("value").to_pylist())


def _draft(name: str, fact: _Facts, values: list[Any], label: bool) -> Column | None:
    """The kind that fits the facts, or None for a column to drop."""
    common: dict[str, Any] = {"name": name, "nullable": fact.known < fact.rows}
    if not fact.known:
        return None
    truth = _truth(values)
    if truth is not None:
        return BooleanColumn(**common, false_label=truth[0], true_label=truth[1])
    if _identifies(name, fact):
        return None
    if fact.numeric and fact.lower is not None and fact.upper is not None:
        numbers = sorted({number for value in values if math.isfinite(number := float(value))})
        if fact.integer:
            return _integer(fact, [int(number) for number in numbers], label, common)
        if label and numbers:
            return CategoricalColumn(**common, categories=tuple(numbers), other=False)
        lower, upper = widen(fact.lower, fact.upper)
        return ContinuousColumn(**common, lower=lower, upper=upper, decimals=fact.decimals)
    if not values:
        return None
    texts = [str(value) for value in values]
    spare = next(text for text in ("OTHER", "(other)", "(any other)") if text not in texts)
    return CategoricalColumn(**common, categories=tuple(texts), other=not label, other_label=spare)


def _integer(fact: _Facts, numbers: list[int], label: bool, common: Mapping[str, Any]) -> Column:
    """Integers with bounds, or an ordinal column for a few scattered codes."""
    if numbers and label:
        return CategoricalColumn(**common, categories=tuple(numbers), other=False)
    scattered = numbers and numbers[-1] - numbers[0] + 1 > 3 * len(numbers)
    if scattered and len(numbers) <= MOST_SPARSE_INTEGERS < fact.known / 4:
        return OrdinalColumn(**common, categories=tuple(numbers))
    lower, upper = widen(fact.lower or 0, fact.upper or 0)
    return IntegerColumn(**common, lower=math.floor(lower), upper=math.ceil(upper))


def _identifies(name: str, fact: _Facts) -> bool:
    """Whether the values tell rows apart: all distinct, and named or numbered like an index."""
    if fact.distinct < fact.known or fact.known < FEWEST_FOR_IDENTIFIER:
        return False
    if not fact.numeric:
        return True
    if not fact.integer:
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


def _positive(column: Column | None) -> Any:
    if isinstance(column, BooleanColumn | CategoricalColumn) and column.levels == 2:
        return column.values[1]
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
