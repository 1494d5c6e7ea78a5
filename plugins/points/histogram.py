"""One noisy histogram of all columns: the simplest exact release of a small table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

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
from marginalsyn.graphical.estimation import project_to_simplex
from marginalsyn.plugins.points.expansion import keep_possible
from marginalsyn.plugins.points.grid import Grid
from marginalsyn.plugins.points.metric import Metric
from marginalsyn.plugins.points.point_generator import check_whole
from marginalsyn.privacy.charges import Pure

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.access.visit import Visit
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.privacy.charges import Charge
    from marginalsyn.progress import Progress
    from marginalsyn.table.schema import Schema

MOST_CELLS = 10**7


@dataclass(frozen=True, kw_only=True)
class HistogramConfig(GeneratorConfig):
    """Every combination of coarse bins is counted once, with Laplace noise; rows follow the counts.

    One row is in one cell, so one draw of noise a cell is all it takes, and the guarantee is pure.
    Bins are public: every column gets as many as the number of cells allows, the label first.
    It is the baseline that support points and kernel mean embedding are held against.

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
        told = "columns without bins of their own, drawn evenly: " + ", ".join(flat)
        return Plan(split={"measure": 1.0}, facts=facts, warnings=[told] if flat else [])

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        # Measure.
        progress.report("measure", text=f"{self.grid.cells:,} cells")
        counts = self.grid.count(self.grid.metric.weighed(visit))
        l1, whole = visit.neighbours.l1, visit.whole
        # Counts of persons are in parts of one; a power of two changes neither ratio nor cost.
        noisy = visit.laplace(
            counts, self.scale * whole, l1=l1 * whole, purpose="histogram of all columns"
        )
        noisy = noisy if whole == 1 else noisy / whole

        # Estimate: everything from here on is post-processing.
        if l1 > 1:
            total = max(visit.rows, 1)
        else:
            total = max(round(float(noisy.sum())), 1)
        shares = project_to_simplex(noisy.astype(float), float(total)) / total
        meta = {"bins": list(self.grid.bins), "rows": total}
        model = Model(kind=self.config.name, arrays={"shares": shares}, meta=meta)

        # Generate.
        progress.report("generate")
        frame = HistogramConfig.sample(model, self.schema, self.config.rows, visit.noise.post)
        spread = 0.0 if l1 > 1 else self.scale * float(np.sqrt(2.0 * self.grid.cells))
        notes = {"estimated_rows": total, "estimated_rows_sd": spread}
        return Synthesis(frame=frame, model=model, notes=notes, warnings=self.plan.warnings)
