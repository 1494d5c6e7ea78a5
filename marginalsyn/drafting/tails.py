"""The ends of numeric columns: numbers that stand for a missing value, and bins for long tails.

Both are read off the rows and are not private: a draft shows them and is marked as drafted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ibis.expr.types as ir
import numpy as np

from marginalsyn.drafting.survey import lots, numbers_of
from marginalsyn.table.numeric import NumberColumn, NumericColumn, Shape

# Numbers that tables have in place of a missing value.
CODES = (
    *(-1, -7, -8, -9, -77, -88, -97, -98, -99, -777, -888, -998, -999, -9999, -99999),
    *(0, 77, 88, 97, 98, 99, 777, 888, 998, 999, 9999, 99999, 999999, 9999999),
    *(SMALL := (8, 9)),
)
# A code above the rest is so far away; a small one, as for no answer next to 1 to 5, never clear.
FAR = 3
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
            alone &= count <= MOST_SHARE * self.known and code not in SMALL
            if alone and count >= FEWEST:
                clear.append(code)
            elif gap >= max(0.1 * spread, FAR * (code > 0)) and (
                code < 0 <= self.low or (code and count >= FEWEST)
            ):
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
    found = {}
    for names in lots(numbers.columns):
        wanted = {}
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


def tail_bins(
    backend: Any, numbers: ir.Table, columns: Sequence[NumericColumn]
) -> dict[str, NumericColumn]:
    """The columns of a table of numbers that get bins of their own, with these bins."""
    quantiles = _quantiles(backend, numbers, {one.name: -BEYOND for one in columns})
    lower = {one.name: float(one.lower) for one in columns if isinstance(one, NumberColumn)}
    crowded = {n: lower[n] for n, own in quantiles.items() if n in lower and own[2] <= lower[n]}
    quantiles |= _quantiles(backend, numbers, crowded)
    new = {
        one.name: with_tail_bins(one, quantiles[one.name], one.name in crowded)
        for one in columns
        if one.name in quantiles
    }
    return {one.name: new[one.name] for one in columns if new.get(one.name, one) is not one}


def _quantiles(
    backend: Any, numbers: ir.Table, above: Mapping[str, float]
) -> dict[str, list[float]]:
    """The quantiles of :data:`LEVELS` of the numbers above one, of every column that has any."""
    found = {}
    for names in lots(list(above)):
        wanted = {
            name: {
                f"q{place}": numbers[name].quantile(
                    level, where=(numbers[name] > above[name]) & (numbers[name] < BEYOND)
                )
                for place, level in enumerate(LEVELS)
            }
            for name in names
        }
        for name, parts in numbers_of(backend, numbers, wanted).items():
            if all(value is not None for value in parts.values()):
                found[name] = [float(value) for value in parts.values()]
    return found


def with_tail_bins(column: Any, quantiles: Sequence[float], crowded: bool = False) -> Any:
    """The column with bins that widen towards its ends, if equal ones are bad.

    Equal bins are bad where the middle half of the rows lies in two of them, or half in one, and
    others are better where they cut most of the rows into more parts. A ``crowded`` lower bound
    has a bin of its own, and the quantiles are those of the other rows.

    Example:
        >>> crp = ContinuousColumn(name="crp", lower=0, upper=500, decimals=1)
        >>> with_tail_bins(crp, [0.3, 0.6, 2, 4.6, 11, 60, 130, 400]).bins
        (0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 70.0, 100.0)
    """
    if not isinstance(column, NumberColumn) or column.bins != "auto":
        return column
    lower, upper = float(column.lower), float(column.upper)
    first, low, middle, high, late, last = quantiles[1:7]
    width = (upper - lower) / MOST_BINS
    if column.whole and width <= 2:
        return column
    if high - low >= 2 * width and middle - first >= width and not crowded:
        return column
    step = column._step() or (upper - lower) * 1e-6
    own = [lower + step] if crowded else []
    if lower >= 0:
        start = next((value for value in quantiles[1:] if value > lower), upper)
        grids = [round_grid(max(start, step), upper, grid) for grid in GRIDS]
    else:
        # Numbers on both sides of a middle: distances from it.
        start, last = max((high - low) / 4, step), upper
        away = [round_grid(start, max(upper - middle, middle - lower), grid) for grid in GRIDS]
        grids = [[middle, *(middle + sign * d for d in one for sign in (1, -1))] for one in away]
    places = max(0, -math.floor(math.log10(step)))
    parts = MOST_BINS - crowded
    # Where few rows are, more bins would show noise: the last one falls off by a power.
    end = float(f"{last:.1e}")
    options = [
        (np.linspace(lower, upper, parts + 1)[1:-1].tolist(), upper),
        (np.linspace(lower, end, parts)[1:].tolist(), end),
        *((edges, max(last, min(edges, default=0.0))) for edges in reversed(grids)),
    ]
    found = list[tuple[int, int, list[float]]]()
    for place, (edges, most) in enumerate(options):
        inside = {round(edge, places) for edge in (*own, *edges) if lower < edge < upper}
        cut = sorted(edge for edge in inside if edge <= most)
        if 0 < len(cut) < MOST_BINS:
            cuts = sum(first <= edge <= late for edge in cut)
            found.append((-cuts, place, cut))
    # Those that cut most of the rows into the most parts, and among them the first.
    for _, place, cut in sorted(found):
        if not (place or crowded):
            return column  # its own bins are equal
        bins = tuple(int(edge) for edge in cut) if column.whole else tuple(cut)
        shape = _falling(quantiles, bins[-1], upper, places) if place and lower >= 0 else None
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


def round_grid(start: float, end: float, grid: Sequence[float]) -> list[float]:
    """Round numbers from about the first to the second, each decade cut alike."""
    decades = range(math.floor(math.log10(start)), math.ceil(math.log10(end)) + 1)
    edges = [float(f"{cut}e{power}") for power in decades for cut in grid]
    return [edge for edge in edges if start <= edge < end]
