"""Rules and real rows: how many rows break each, and which would hold. Not private."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from marginalsyn.drafting.check import columns_of_rows, values_of_rows
from marginalsyn.table.keeping import cells_of
from marginalsyn.table.moments import MomentColumn
from marginalsyn.table.numeric import NumberColumn
from marginalsyn.table.rules import quantity_of, quoted, unit_of
from marginalsyn.table.schema import AnyColumn, Schema

# Rows that a proposal is read off, at most, and rows that must speak for it.
_ROWS, _LEAST, _MOST = 200_000, 30, 40


def rule_counts(data: Any, schema: Schema, *, sep: str | None = None) -> dict[str, int]:
    """By rule, how many rows of a table break it. Not private.

    Example:
        >>> import pandas as pd
        >>> columns = Schema.from_domain({"a": 4, "b": 4}).columns
        >>> frame = pd.DataFrame({"a": [1, 3], "b": [2, 2]})
        >>> rule_counts(frame, Schema(columns=columns, rules=["a <= b"]))
        {'a <= b': 1}
    """
    if not schema.rules:
        return {}
    columns = columns_of_rows(schema)
    cells = cells_of(columns, values_of_rows(data, schema, columns, sep))
    names = {column.name for column in columns}
    counted = [rule for rule in schema.kept_rules if names.issuperset(rule.names)]
    return {rule.text: int(rule.broken(cells).sum()) for rule in counted}


def propose_rules(data: Any, schema: Schema, *, sep: str | None = None) -> tuple[str, ...]:
    """Orders, dependencies and joint absences that hold in the rows of a table. Not private."""
    columns = columns_of_rows(schema)
    codes, numbers = values_of_rows(data, schema, columns, sep, _ROWS)
    if len(codes) < _LEAST:
        return ()
    places = {column.name: codes[:, place] for place, column in enumerate(columns)}
    known = {column.name: places[column.name] != column.missing_code for column in columns}
    pairs = list(itertools.permutations(columns, 2))
    found: list[str] = []
    for left, right in pairs:
        both = known[left.name] & known[right.name]
        if isinstance(left, NumberColumn) and isinstance(right, NumberColumn):
            if both.sum() >= _LEAST and quantity_of(left) == quantity_of(right):
                found += _order(left, right, numbers, both)
        elif not isinstance(left, NumberColumn) and not isinstance(right, NumberColumn):
            found += _dependency(left, right, places)
    for left, right in pairs:
        found += _absence(left, right, places[right.name], known, numbers)
    return tuple(found[:_MOST])


def _name(column: AnyColumn) -> str:
    return column.name if column.name.isidentifier() else quoted(column.name, '"')


def _order(
    left: NumberColumn, right: NumberColumn, numbers: dict[str, np.ndarray], both: np.ndarray
) -> Iterator[str]:
    low, high = (unit_of(column) * numbers[column.name][both] for column in (left, right))
    if (low <= high).all() and low.max() > high.min():
        yield f"{_name(left)} <= {_name(right)}"


def _dependency(left: AnyColumn, right: AnyColumn, places: dict[str, np.ndarray]) -> Iterator[str]:
    counts = np.zeros((left.size, right.size), bool)
    counts[places[left.name], places[right.name]] = True
    groups = int(counts.any(axis=1).sum())
    varies, often = counts.any(axis=0).sum() > 1, groups * 3 <= len(places[left.name])
    if varies and often and counts.sum() == groups:
        yield f"{_name(left)} determines {_name(right)}"


def _absence(
    left: AnyColumn,
    right: AnyColumn,
    codes: np.ndarray,
    known: dict[str, np.ndarray],
    numbers: dict[str, np.ndarray],
) -> Iterator[str]:
    there, other = known[left.name], known[right.name]
    if min(there.sum(), (~there).sum()) < _LEAST:
        return
    if (there == other).all():
        if left.name < right.name:
            yield f"missing({_name(left)}) iff missing({_name(right)})"
    elif isinstance(right, NumberColumn):
        values = numbers[right.name]
        if other.all() and values[~there].max() < values[there].min():
            least = values[there].min()
            shown = right.bound(least) if isinstance(right, MomentColumn) else f"{least:.12g}"
            yield f"missing({_name(left)}) iff {_name(right)} < {shown}"
    else:
        absent = np.unique(codes[~there])
        if len(absent) <= 5 and not np.isin(codes[there], absent).any() and other.all():
            texts = ", ".join(quoted(right.labels()[code], "'") for code in absent)
            yield f"missing({_name(left)}) iff {_name(right)} in {{{texts}}}"
