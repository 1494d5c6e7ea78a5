"""Bounds and bins of numeric columns, for which no code book gives public ones.

The search starts from the schema's own bounds, which are public. The exponential mechanism on a
fine public grid finds narrower bounds or quantile bins.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.drafting.tails import GRIDS, MOST_BINS, round_grid
from marginalsyn.errors import SchemaError, UsageError
from marginalsyn.purchases.purchase import grid_of, with_fields
from marginalsyn.purchases.quantiles import Grid, QuantilePurchase
from marginalsyn.table.moments import MomentColumn
from marginalsyn.table.numeric import IntegerColumn, NumberColumn
from marginalsyn.table.schema import Schema

CELLS = 4096
MOST_CELLS = 2**20
# Between bounds that are farther from each other a number is searched on round numbers.
BOUNDLESS = 1e9
DAY = 86_400
ROUND = (1, 2, 5)
# How many times the lower bound the upper one is, from which on bins may widen with the numbers.
DECADES = 30


@dataclass(frozen=True, kw_only=True)
class GridPurchase(QuantilePurchase):
    """A purchase of quantiles of numeric columns on a fine public grid.

    Attributes:
        columns: the columns to buy for; all numeric ones when empty.
        cells: of the grid; a whole-number column has at most one per value.

    Raises:
        SchemaError: a column is unknown or not numeric.
        UsageError: no numeric column, or a number that cannot be.
    """

    columns: Sequence[str] = ()
    cells: int = CELLS

    def __post_init__(self) -> None:
        if not 2 <= self.cells <= MOST_CELLS:
            raise UsageError(f"cells ({self.cells}) must be from 2 to {MOST_CELLS}")
        if not self.names:
            raise UsageError("schema must have a numeric column: only those have bounds and bins")
        for name in self.names:
            self._check_column(name)

    @abstractmethod
    def fields(self, column: NumberColumn, grid: Grid) -> dict[str, Any]:
        """The new fields of a column."""

    @property
    def names(self) -> Sequence[str]:
        numeric = [c.name for c in self.schema.columns if c.numeric]
        public = [name for name in numeric if name not in self.schema.derived]
        return list(dict.fromkeys(self.columns)) or public

    @cached_property
    def counted(self) -> Schema:
        """The columns on their grids.

        Example:
            >>> from marginalsyn.privacy.budget import Budget
            >>> schema = Schema(columns=(IntegerColumn(name="age", lower=0, upper=149, bins=5),))
            >>> Bounds(schema=schema, budget=Budget(eps=1)).counted.domain
            {'age': 150}
        """
        return grid_of(self.schema, {name: self._grid(name) for name in self.names})

    def complete(self, schema: Schema, visit: Visit) -> Schema:
        visit.prepare([(name,) for name in self.names])
        columns: dict[str, Any] = {name: schema.column(name) for name in self.names}
        found = {name: self.fields(one, self.grid(visit, name)) for name, one in columns.items()}
        return with_fields(schema, found)

    def _check_column(self, name: str) -> None:
        column = self.schema.column(name)
        if name in self.schema.derived:
            raise SchemaError(
                f"column ({name!r}) must not be the number of a person's rows: buy-max-rows buys it"
            )
        if not isinstance(column, NumberColumn):
            raise SchemaError(f"column ({name!r}) must be integer or continuous to have bounds")
        if isinstance(column, MomentColumn) and not column.style.dated:
            raise SchemaError(f"column ({name!r}) must have dates to have bounds: a day is one")

    def _grid(self, name: str) -> Any:
        column: Any = self.schema.column(name)
        if isinstance(column, MomentColumn):
            return "day" if column.count * column.unit <= self.cells * DAY else "year"
        if column.upper - column.lower > BOUNDLESS:
            return round_edges(column)
        return min(self.cells, _most_cells(column))


@dataclass(frozen=True, kw_only=True)
class Bounds(GridPurchase):
    """Narrower bounds, beyond each of which lies about ``tail`` of the rows.

    With ``widening`` bins between bounds that span decades widen; they follow from the bounds.
    """

    what = "bounds"
    selections = 2

    tail: float = 0.005
    widening: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.tail < 0.5:
            raise UsageError(f"tail ({self.tail}) must be at least 0 and below 0.5")
        super().__post_init__()

    def fields(self, column: NumberColumn, grid: Grid) -> dict[str, Any]:
        found = _bounded(column, *_around(column, *grid.bounds(self.tail), grid.edges))
        if self.widening and not isinstance(column, MomentColumn):
            found["bins"] = _widening(column, found["lower"], found["upper"]) or found["bins"]
        return found


@dataclass(frozen=True, kw_only=True)
class Bins(GridPurchase):
    """Bins of about equal weight: as many as ``bins``, or fewer where quantiles fall together."""

    what = "bins"

    bins: int = 10

    def __post_init__(self) -> None:
        if self.bins < 2:
            raise UsageError(f"bins ({self.bins}) must be 2 or more")
        super().__post_init__()

    @property
    def selections(self) -> int:
        return self.bins - 1

    def fields(self, column: NumberColumn, grid: Grid) -> dict[str, Any]:
        return {"bins": _inner(column, grid.bins(self.bins)[1:-1])}


def round_edges(column: NumberColumn) -> tuple[float, ...]:
    """Round numbers of every size between a column's bounds, of both signs.

    Example:
        >>> wide = IntegerColumn(name="age", lower=-(10**12), upper=10**12, bins=1)
        >>> [edge for edge in round_edges(wide) if 6 < edge < 300]
        [10, 20, 50, 100, 200]
    """
    decimals = 0 if isinstance(column, IntegerColumn) else column.decimals
    digits = 3 if decimals is None else decimals
    most = max(abs(column.lower), abs(column.upper))
    sizes = {
        round(part * 10.0**power, digits)
        for power in range(-digits, math.ceil(math.log10(most)) + 1)
        for part in ROUND
    }
    kind = int if isinstance(column, IntegerColumn) else float
    ends = {kind(sign * size) for size in {*sizes, 0.0} for sign in (-1, 1)}
    return tuple(sorted(end for end in ends if column.lower < end < column.upper))


def _most_cells(column: NumberColumn) -> int:
    """How many cells a grid can have without one that holds no value."""
    if isinstance(column, IntegerColumn):
        return column.count
    return MOST_CELLS if column.steps is None else column.steps


def _around(
    column: NumberColumn, low: float, high: float, edges: np.ndarray
) -> tuple[float, float]:
    """The bounds moved outward, where they leave no room for the public limits of detection."""
    if column.below is not None:
        low = min(low, float(edges[edges < column.below][-1]))
        high = max(high, float(edges[edges > column.below][0]))
    if column.above is not None:
        # The end of an integer grid is the first number beyond the last cell.
        beyond = column.above + column.whole
        low = min(low, float(edges[edges <= column.above][-1]))
        high = max(high, float([*edges[edges > beyond], edges[-1]][0]))
    return low, high


def _bounded(column: NumberColumn, low: float, high: float) -> dict[str, Any]:
    """The new bounds, with the bins that still lie inside them."""
    if isinstance(column, IntegerColumn):
        # The upper end of an integer grid is the first integer beyond its last cell.
        lower: float = int(low)
        upper: float = max(int(high) - 1, int(low))
        most = int(upper) - int(lower) + 1
    else:
        lower, upper = _outward(low, column.decimals, -1), _outward(high, column.decimals, 1)
        most = _most_cells(column.model_copy(update={"lower": lower, "upper": upper}))
    bins: Any = column.bins
    if isinstance(bins, tuple):
        bins = tuple(edge for edge in bins if lower < edge < upper) or 1
    elif isinstance(bins, int):
        bins = min(bins, most)
    if isinstance(bins, tuple):
        bins = tuple(column.bound(edge) for edge in bins)
    return {"lower": column.bound(lower), "upper": column.bound(upper), "bins": bins}


def _widening(column: NumberColumn, lower: float, upper: float) -> Any:
    """Round numbers of every size between two bounds; None where the bounds are too close.

    Example:
        >>> _widening(IntegerColumn(name="cost", lower=0, upper=10**6), 200, 9999)
        (300, 500, 700, 1000, 1500, 2000, 3000, 5000, 7000)
    """
    if lower <= 0 or upper < DECADES * lower:
        return None
    options = [np.array(round_grid(lower, upper, grid)) for grid in GRIDS]
    whole = [edges[edges % 1 == 0] if column.whole else edges for edges in options]
    options = [edges[edges > lower] for edges in whole]
    fitting = [edges for edges in options if 0 < len(edges) < MOST_BINS]
    return _inner(column, fitting[-1]) if fitting else None


def _inner(column: NumberColumn, cuts: np.ndarray) -> Any:
    """Cuts as a schema writes them; one bin where all quantiles fell together."""
    if isinstance(column, IntegerColumn):
        return tuple(column.bound(int(cut)) for cut in cuts) or 1
    rounded = {_outward(float(cut), column.decimals, 1) for cut in cuts}
    return tuple(sorted(cut for cut in rounded if column.lower < cut < column.upper)) or 1


def _outward(value: float, decimals: int | None, sign: int) -> float:
    """The number with so many decimals, rounded up (sign 1) or down (-1)."""
    if decimals is None:
        return value
    scale = 10**decimals
    return (math.ceil(value * scale) if sign > 0 else math.floor(value * scale)) / scale
