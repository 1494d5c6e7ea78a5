"""A grid of public cells over the coordinates of a schema's columns, for histograms."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from marginalsyn.plugins.points.metric import Batch, Metric, weights_of
from marginalsyn.table.numeric import IntegerColumn
from marginalsyn.table.schema import AnyColumn

FINEST = 64  # bins of a number, at most
MOST_LEVELS = 100_000  # of whole numbers that are listed


@dataclass(frozen=True)
class Grid:
    """Cells: so many bins of every column, in schema order.

    Numbers and ranks have bins of one width; categories are grouped by their order where there are
    fewer bins than codes; of a column with missing entries the last bin holds those.
    """

    metric: Metric
    bins: tuple[int, ...]

    @classmethod
    def even(cls, metric: Metric, bins: int) -> Grid:
        """The same number of bins for every column, but for those that have fewer values."""
        return cls(metric, tuple(min(bins, most) for most in _finest(metric)))

    @classmethod
    def within(cls, metric: Metric, cells: int) -> Grid:
        """As many bins as the cells allow: the coarsest column first, the label before all.

        Example:
            >>> from marginalsyn.table.schema import Schema
            >>> Grid.within(Metric(Schema.from_domain({"a": 3, "b": 9})), 20).bins
            (3, 6)
        """
        most, schema = _finest(metric), metric.schema
        order = sorted(range(len(most)), key=lambda at: schema.names[at] != schema.label)
        bins = [1] * len(most)
        while True:
            room = [
                at
                for at in order
                if bins[at] < most[at] and math.prod(bins) // bins[at] * (bins[at] + 1) <= cells
            ]
            if not room:
                return cls(metric, tuple(bins))
            bins[min(room, key=lambda at: (bins[at], order.index(at)))] += 1

    @property
    def cells(self) -> int:
        """Number of cells."""
        return math.prod(self.bins)

    def fits(self, shares: np.ndarray) -> bool:
        """Whether numbers, from an untrusted file perhaps, are shares of these cells."""
        right = len(self.bins) == len(self.metric.places)
        right = right and all(
            1 <= size <= most for size, most in zip(self.bins, _finest(self.metric), strict=True)
        )
        total = shares.sum() if right and shares.shape == (self.cells,) else np.nan
        return bool(np.isfinite(shares).all() and (shares >= 0).all() and abs(total - 1) < 1e-6)

    def count(self, batches: Iterable[Batch]) -> np.ndarray:
        """Rows in every cell, or what they weigh."""
        found = np.zeros(self.cells, dtype=np.int64)
        for batch in batches:
            points, weights = weights_of(batch)
            np.add.at(found, self.places(points), weights)
        return found

    def places(self, points: np.ndarray) -> np.ndarray:
        """The flat index of each point's cell."""
        numeric, sizes = self.metric.space.numeric, self.metric.space.sizes
        found = np.zeros(len(points), dtype=np.int64)
        for bins, place in zip(self.bins, self.metric.places, strict=True):
            if place.scale is None:
                assert place.code is not None
                codes = points[:, numeric + place.code].astype(np.int64)
                at = codes * bins // int(sizes[place.code])
            else:
                present = bins if place.code is None else max(bins - 1, 1)
                level = np.clip(points[:, place.scale], 0.0, 1.0)
                at = _bin(level, present)
                if place.code is not None:
                    at = np.where(points[:, numeric + place.code] > 0, bins - 1, at)
            found = found * bins + at
        return found

    def draw(self, shares: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Points: as many in each cell as its share says, but for rounding; even inside a cell."""
        from marginalsyn.graphical.estimation import round_counts

        space = self.metric.space
        counts = round_counts(shares * rows, rows, rng)
        cells = rng.permutation(np.repeat(np.arange(self.cells), counts))
        digits = np.unravel_index(cells, self.bins)
        points = np.zeros((rows, space.dimension))
        columns = self.metric.schema.columns
        for column, bins, at, place in zip(
            columns, self.bins, digits, self.metric.places, strict=True
        ):
            size = 1 if place.code is None else int(space.sizes[place.code])
            if place.scale is None:
                low = -(-at * size // bins)
                high = -(-(at + 1) * size // bins)
                codes = low + (rng.random(rows) * (high - low)).astype(np.int64)
                points[:, space.numeric + (place.code or 0)] = codes
                continue
            present = bins if place.code is None else max(bins - 1, 1)
            points[:, place.scale] = _inside(at, present, _levels(column), rng)
            if place.code is not None:
                lacking = (at == bins - 1) & (bins > 1)
                marks = 1 + (rng.random(rows) * (size - 1)).astype(np.int64)
                points[:, space.numeric + place.code] = np.where(lacking, marks, 0)
                points[lacking, place.scale] = 0.5
        return points


def _bin(level: np.ndarray, bins: int) -> np.ndarray:
    """The bin of unit coordinates."""
    return np.minimum((level * bins).astype(np.int64), bins - 1)


def _inside(at: np.ndarray, bins: int, levels: int, rng: np.random.Generator) -> np.ndarray:
    """Unit coordinates in bins: any of the levels there, or any number where there are none."""
    drawn = rng.random(len(at))
    if not levels:
        return np.minimum((at + drawn) / bins, 1.0)
    level = np.arange(levels) / max(levels - 1, 1)
    starts = np.searchsorted(_bin(level, bins), np.arange(bins + 1))
    low, high = starts[at], starts[np.minimum(at + 1, bins)]
    return level[np.minimum(low + (drawn * (high - low)).astype(np.int64), levels - 1)]


def _levels(column: AnyColumn) -> int:
    """How many places a column has between its bounds; 0 where they are too many to list."""
    many = column.levels
    if isinstance(column, IntegerColumn):
        many = column.upper - column.lower + 1
    elif column.numeric:
        many = 0
    return many if many <= MOST_LEVELS else 0


def _finest(metric: Metric) -> list[int]:
    """The most bins of every column."""
    found = []
    for column, place in zip(metric.schema.columns, metric.places, strict=True):
        size = 1 if place.code is None else int(metric.space.sizes[place.code])
        if place.scale is None:
            found.append(size)
        else:
            levels = _levels(column) or FINEST
            found.append(min(levels, FINEST) + (place.code is not None))
    return found
