"""One noisy histogram of all columns: the simplest exact release of a small table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from marginalsyn.access.visit import Visit
from marginalsyn.contract import (
    Calibrated,
    GeneratorConfig,
    Model,
    Plan,
    Synthesis,
    check_rows,
    option,
)
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.graphical.estimation import project_to_simplex, round_counts
from marginalsyn.plugins.points.point_generator import check_whole, keep_possible
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, Pure
from marginalsyn.privacy.laws import DiscreteLaplace
from marginalsyn.progress import Progress
from marginalsyn.table.metric import Batch, Metric, weights_of
from marginalsyn.table.numeric import IntegerColumn
from marginalsyn.table.schema import AnyColumn, Schema

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


MOST_CELLS = 10**7


@dataclass(frozen=True, kw_only=True)
class HistogramConfig(GeneratorConfig):
    """Every combination of coarse bins is counted once, with Laplace noise; rows follow the counts.

    One row is in one cell, so one draw of noise a cell is all it takes, and the guarantee is pure.
    Bins are public: every column gets as many as the number of cells allows, the label first.
    It is the baseline that support points and kernel mean embedding are compared with.

    Example:
        >>> HistogramConfig(bins=4).configure(schema, Budget(eps=1)).cost[0].mechanism
        'discrete Laplace'
    """

    name = "histogram"
    summary = "one noisy histogram of all columns, in coarse bins; exact, delta 0"
    counts_persons = True
    audit_options = {"cells": 64}

    cells: int = option(1024, "The most cells; public.")
    bins: int | None = option(
        None,
        "Bins of every column, its categories at most. [default: as many as the cells allow, a "
        "column at a time, the label first]",
    )
    rows: int | None = option(None, "Number of synthetic rows; the estimated number if not given.")

    def __post_init__(self) -> None:
        check_rows(self.rows)
        check_whole("cells", self.cells, 1, MOST_CELLS)
        if self.bins is not None:
            check_whole("bins", self.bins, 1, 1024)

    def configure(self, schema: Schema, budget: Budget) -> Histogram:
        """One histogram, with noise of one scale."""
        metric = Metric(schema)
        if self.bins is None:
            grid = Grid.within(metric, self.cells)
        else:
            grid = Grid.even(metric, self.bins)
            if grid.cells > MOST_CELLS:
                raise UsageError(
                    f"bins ({self.bins}) must give at most {MOST_CELLS:,} cells, not "
                    f"{grid.cells:.3g}: take fewer bins, or --cells and leave the bins out"
                )
        return Histogram(config=self, schema=schema, budget=budget, grid=grid)

    @classmethod
    def sample(
        cls, model: Model, schema: Schema, rows: int | None, rng: np.random.Generator
    ) -> pd.DataFrame:
        """Rows from a stored histogram."""
        metric = Metric(schema)
        try:
            grid = Grid(metric, tuple(int(size) for size in model.meta["bins"]))
            shares = np.asarray(model.arrays["shares"], dtype=float)
            total = int(model.meta["rows"])
            fine = grid.fits(shares) and total >= 1
        except (KeyError, TypeError, ValueError):
            fine = False
        if not fine:
            raise ReleaseError("model must hold the shares of a histogram's cells and its bins")
        check_rows(rows)

        def draw(count: int) -> np.ndarray:
            return grid.draw(shares, count, rng)

        wanted = total if rows is None else rows
        return metric.frame(keep_possible(draw(wanted), metric, draw, rng))


@dataclass(frozen=True, kw_only=True)
class Histogram(Calibrated):
    """Calibrated: the cells are public, and so is the noise."""

    config: HistogramConfig
    grid: Grid

    @property
    def scale(self) -> float:
        """Of the Laplace noise of every cell."""
        return float(np.nextafter(self.budget.neighbours.l1 / self.budget.pure, np.inf))

    @property
    def cost(self) -> tuple[Charge, ...]:
        purpose, cost = "histogram of all columns", Pure(eps=self.budget.pure)
        details = {"cells": self.grid.cells, "scale": self.scale}
        return (self.budget.charge("discrete Laplace", purpose, cost, details=details),)

    @cached_property
    def plan(self) -> Plan:
        """The cells and the noise."""
        bins = dict(zip(self.schema.names, self.grid.bins, strict=True))
        facts = {"cells": self.grid.cells, "bins": bins, "scale": self.scale}
        flat = [name for name, size in bins.items() if size == 1]
        warning = "columns without bins of their own, drawn evenly: " + ", ".join(flat)
        return Plan(split={"measure": 1.0}, facts=facts, warnings=[warning] if flat else [])

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        # Measure.
        progress.report("measure", text=f"{self.grid.cells:,} cells")
        counts = self.grid.count(self.grid.metric.weighed(visit))
        l1, whole = visit.neighbours.l1, visit.whole
        # Counts of persons are in parts of one; a power of two changes neither ratio nor cost.
        law, purpose = DiscreteLaplace(self.scale * whole), "histogram of all columns"
        noisy = visit.draw(law, counts, l1=l1 * whole, purpose=purpose)
        noisy = noisy if whole == 1 else noisy / whole

        # Estimate: everything from here on is post-processing.
        total = max(visit.rows, 1) if l1 > 1 else max(round(float(noisy.sum())), 1)
        shares = project_to_simplex(noisy.astype(float), float(total)) / total
        meta = {"bins": list(self.grid.bins), "rows": total}
        model = Model(kind=self.config.name, arrays={"shares": shares}, meta=meta)

        # Generate.
        progress.report("generate")
        frame = HistogramConfig.sample(model, self.schema, self.config.rows, visit.noise.post)
        spread = 0.0 if l1 > 1 else self.scale * float(np.sqrt(2.0 * self.grid.cells))
        notes = {"estimated_rows": total, "estimated_rows_sd": spread}
        return Synthesis(frame=frame, model=model, notes=notes, warnings=self.plan.warnings)
