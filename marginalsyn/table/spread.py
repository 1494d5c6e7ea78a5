"""Columns that say nearly nothing: all missing, OTHER or in one bin.

Found in synthetic rows or in noisy counts, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

import numpy as np
import pandas as pd

from marginalsyn.table.codec import Codec
from marginalsyn.table.numeric import NumberColumn
from marginalsyn.table.schema import AnyColumn, Schema

MOSTLY = 0.8
# Many real columns are zero nearly everywhere.
ONE_END = 0.98
FEWEST_ROWS = 50
FEWEST_BINS = 4
MOST_ROWS = 20_000


class Counts(Protocol):
    """A noisy marginal: see :class:`marginalsyn.contract.Measurement`."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def values(self) -> np.ndarray: ...

    @property
    def sigma(self) -> float | np.ndarray: ...


def wasted_counts(measured: Iterable[Counts], schema: Schema) -> list[str]:
    """One sentence for every column that is nearly all missing, OTHER or clipped, by noisy counts.

    A share counts that is large enough even with two standard deviations of the noise less. A bin
    of a single value counts for nothing: it may be a code, which most rows may well have.

    Example:
        >>> from marginalsyn.contract import Measurement
        >>> from marginalsyn.table.schema import Schema
        >>> schema = Schema(columns=({"kind": "categorical", "name": "ward", "categories": ["A"]},))
        >>> counts = Measurement(columns=("ward",), values=np.array([12, 980]), sigma=4.0)
        >>> wasted_counts([counts], schema)[0][:24]
        'column ward is 99% OTHER'
    """
    found = []
    for one in measured:
        if len(one.columns) != 1:
            continue
        counts, sigma = np.asarray(one.values, dtype=float), float(np.max(one.sigma))
        total = counts.sum()
        # Where noise may be most of the rows nothing can be said.
        if total < FEWEST_ROWS + 3 * sigma * math.sqrt(counts.size):
            continue
        column = schema.column(one.columns[0])
        shares = np.clip(counts, 0, None) / total
        sentence = _sentence(column, shares, slack=2 * sigma / total, codes=False)
        if sentence:
            found.append(f"column {column.name} is {sentence}")
    return found


def wasted(frame: pd.DataFrame, schema: Schema) -> list[str]:
    """One sentence for every column on which budget was spent for next to nothing.

    Reads synthetic rows alone, so it costs no privacy.

    Example:
        >>> import pandas as pd
        >>> from marginalsyn.table.schema import Schema
        >>> schema = Schema(columns=({"kind": "integer", "name": "a", "lower": 0, "upper": 9,
        ...                           "nullable": True},))
        >>> wasted(pd.DataFrame({"a": pd.array([None] * 90 + [1] * 10, dtype="Int64")}), schema)[0]
        'column a came out 90% missing: check how the source spells its values, or drop it'
    """
    if len(frame) < FEWEST_ROWS:
        return []
    codes = Codec(schema).encode(frame.iloc[:MOST_ROWS])
    found = []
    for position, column in enumerate(schema.columns):
        shares = np.bincount(codes[:, position], minlength=column.size) / len(codes)
        sentence = _sentence(column, shares)
        if sentence:
            found.append(f"column {column.name} came out {sentence}")
    return found


def _sentence(
    column: AnyColumn, shares: np.ndarray, slack: float = 0.0, *, codes: bool = True
) -> str:
    """What a column's shares show to be wasted; of single values at its ends if ``codes``."""
    if column.missing_code is not None and shares[column.missing_code] - slack >= MOSTLY:
        share = shares[column.missing_code]
        return f"{share:.0%} missing: check how the source spells its values, or drop it"
    if column.other_code is not None and shares[column.other_code] - slack >= MOSTLY:
        name = column.labels()[column.other_code]
        share = f"{shares[column.other_code]:.0%} {name}"
        return f'{share}: check its categories (does case differ? "ignore_case": true), or drop it'
    if not isinstance(column, NumberColumn) or column.levels < FEWEST_BINS:
        return ""
    known = shares[: column.levels].sum()
    for end, side, code in (("first", "lower", 0), ("last", "upper", column.levels - 1)):
        if known > 0 and shares[code] - slack >= ONE_END * known:
            share, label = f"{shares[code] / known:.0%}", column.labels()[code]
            if not column.whole or column.edges[code + 1] - column.edges[code] > 1:
                return (
                    f"{share} in its {end} bin, {label}: check its bounds, or buy bins with "
                    "`marginalsyn schema buy-bins`"
                )
            if codes:
                return f"{share} {label}: where values beyond occur, move its {side} bound"
    return ""
