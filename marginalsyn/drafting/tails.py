"""The ends of numeric columns: numbers that stand for a missing value, and bins for long tails.

Both are read off the rows and are not private: a draft shows them and is marked as drafted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marginalsyn.drafting.survey import lots, numbers_of
from marginalsyn.table.numeric import NumberColumn, Shape

if TYPE_CHECKING:
    import ibis.expr.types as ir

# Numbers that tables have in place of a missing value.
CODES = (
    *(-1, -7, -8, -9, -77, -88, -97, -98, -99, -777, -888, -998, -999, -9999, -99999),
    *(0, 99, 777, 888, 998, 999, 9999, 99999, 999999, 9999999),
)
# A code of which there is one only may be a value like any other.
FEWEST = 2
# Zero may mean missing where there are so many other values.
FEWEST_FOR_ZERO = 20
# A code is a value of the column rather than missing if more rows than this have it.
MOST_SHARE = 0.5
BEYOND = 1e12
LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)
# How fast a tail falls: beyond its beginning L a share (L / x) ** power is larger than x.
POWERS = (1, 1.5, 2, 3, 5)
PIECES = 8
# Bins of a long tail: as many as a table of some thousand rows supports.
MOST_BINS = 16
# What a power of ten is cut at, from the coarsest grid to the finest.
GRIDS = ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5), (1, 1.5, 2, 3, 5, 7))


@dataclass(frozen=True)
class Ends:
    """The numbers of a column: those that may stand for a missing value, and the rest.

    Attributes:
        codes: how many rows have each of :data:`CODES`.
        low: the least of the other numbers; None where there are none.
        high: the largest of them.
        known: how many numbers there are.
        distinct: how many different ones there are among the rest.
    """

    codes: Mapping[float, int]
    low: float | None
    high: float | None
    known: int
    distinct: int

    def missing(self) -> tuple[list[float], list[float]]:
        """The codes that clearly mean missing, and those that may: they lie outside the rest."""
        clear: list[float] = []
        perhaps: list[float] = []
        if self.low is None or self.high is None:
            return clear, perhaps
        spread = self.high - self.low
        for code, count in self.codes.items():
            if not count or self.low <= code <= self.high:
                continue
            gap = self.low - code if code < self.low else code - self.high
            if code < 0 <= self.low:
                alone = code < -1
            else:
                # None is a value like others where there are few.
                alone = gap >= spread and gap >= abs(code) / 2
                alone &= code != 0 or self.distinct >= FEWEST_FOR_ZERO
            alone &= count <= MOST_SHARE * self.known
            if alone and count >= FEWEST:
                clear.append(code)
            elif gap >= 0.1 * spread and (code < 0 <= self.low or (code and count >= FEWEST)):
                perhaps.append(code)
        return clear, perhaps

    def known_codes(self) -> list[float]:
        """The codes that some row has."""
        return [code for code, count in self.codes.items() if count]

    def without(self, codes: Sequence[float]) -> tuple[float | None, float | None]:
        """The least and the largest number that remain without some codes."""
        left = [code for code in self.known_codes() if code not in codes]
        ends = [*left, *(end for end in (self.low, self.high) if end is not None)]
        return (min(ends), max(ends)) if ends else (None, None)


def ends_of(backend: Any, numbers: ir.Table, also: Sequence[float] = ()) -> dict[str, Ends]:
    """The ends of every column of a table of numbers; ``also`` names further codes."""
    codes = [*dict.fromkeys((*map(float, CODES), *also))]
    found: dict[str, Ends] = {}
    for names in lots(numbers.columns):
        wanted: dict[Any, dict[str, Any]] = {}
        for name in names:
            value = numbers[name]
            rest = ~value.isin(codes) & (value.abs() < BEYOND)
            counts = {f"c{place}": (value == code).sum() for place, code in enumerate(codes)}
            low, high = value.min(where=rest), value.max(where=rest)
            wanted[name] = {**counts, "low": low, "high": high, "known": value.count()}
            wanted[name]["distinct"] = value.nunique(where=rest)
        for name, parts in numbers_of(backend, numbers, wanted).items():
            many = {code: int(parts[f"c{at}"] or 0) for at, code in enumerate(codes)}
            known, distinct = int(parts["known"] or 0), int(parts["distinct"] or 0)
            found[name] = Ends(many, parts["low"], parts["high"], known, distinct)
    return found


def quantiles_of(backend: Any, numbers: ir.Table) -> dict[str, list[float]]:
    """The quantiles of :data:`LEVELS` of every column of a table of numbers that has any."""
    found = {}
    for names in lots(numbers.columns):
        wanted = {
            name: {
                f"q{place}": numbers[name].quantile(level, where=numbers[name].abs() < BEYOND)
                for place, level in enumerate(LEVELS)
            }
            for name in names
        }
        for name, parts in numbers_of(backend, numbers, wanted).items():
            if all(value is not None for value in parts.values()):
                found[name] = [float(value) for value in parts.values()]
    return found


def with_tail_bins(column: Any, quantiles: Sequence[float]) -> Any:
    """The column with bins that widen with their distance from most rows, if equal ones are bad.

    Equal bins are bad where the middle half of the rows lies in two of them, or half in one.

    Example:
        >>> crp = ContinuousColumn(name="crp", lower=0, upper=500, decimals=1)
        >>> with_tail_bins(crp, [0.3, 0.6, 2, 4.6, 11, 60, 130, 400]).bins
        (0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 70.0, 100.0)
    """
    if not isinstance(column, NumberColumn) or column.bins != "auto":
        return column
    lower, upper = float(column.lower), float(column.upper)
    first, low, middle, high = (quantiles[at] for at in (1, 2, 3, 4))
    width = (upper - lower) / MOST_BINS
    if column.whole and width <= 2:
        return column
    if high - low >= 2 * width and middle - first >= width:
        return column
    step = column._step() or (upper - lower) * 1e-6
    if lower >= 0:
        sizes = [value for value in quantiles[1:] if value > lower] or [upper]
        grids = [_grid(max(sizes[0], step), upper, grid) for grid in GRIDS]
        many = [lower + step] if low <= lower else []
        options = [sorted({*many, *edges}) for edges in grids]
    else:
        # Numbers on both sides of a middle: distances from it.
        reach, start = max(upper - middle, middle - lower), max((high - low) / 4, step)
        options = []
        for grid in GRIDS:
            away = _grid(start, reach, grid)
            options.append(
                sorted({middle, *(middle + d for d in away), *(middle - d for d in away)})
            )
    for edges in reversed(options):
        places = max(0, -math.floor(math.log10(step)))
        # Where few rows are, more bins would show noise: the last one falls off by a power.
        last = max(quantiles[6], edges[0]) if lower >= 0 else upper
        cut = sorted(
            {round(edge, places) for edge in edges if lower < edge < upper and edge <= last}
        )
        if not cut or len(cut) >= MOST_BINS:
            continue
        bins = tuple(int(edge) for edge in cut) if column.whole else tuple(cut)
        shape = _falling(quantiles, bins[-1], upper, places) if lower >= 0 else None
        try:
            return type(column)(**{**column.model_dump(), "bins": bins, "shape": shape})
        except ValueError:
            continue  # the column's decimals leave a bin without a value
    return column


def _falling(quantiles: Sequence[float], start: float, end: float, places: int) -> Shape | None:
    """How the values of the last bin lie in it: their number falls with a round power."""
    far = math.log(max(quantiles[7] / max(quantiles[6], 1e-300), 1 + 1e-9))
    power = min(POWERS, key=lambda one: abs(math.log(one * far / math.log(10))))
    steps = [start * (end / start) ** (place / PIECES) for place in range(PIECES)]
    edges = sorted({*(round(edge, places) for edge in steps), end})
    if start <= 0 or len(edges) < 3:
        return None
    left = [(edge / start) ** -power for edge in edges]
    return Shape(
        edges=tuple(edges),
        weights=tuple(round(1000 * (a - b), 1) for a, b in itertools.pairwise(left)),
    )


def _grid(start: float, end: float, grid: Sequence[float]) -> list[float]:
    """Round numbers from about the first to the second, each decade cut alike."""
    decades = range(math.floor(math.log10(start)), math.ceil(math.log10(end)) + 1)
    edges = [float(f"{cut}e{power}") for power in decades for cut in grid]
    return [edge for edge in edges if start <= edge < end]
