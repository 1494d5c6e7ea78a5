"""Private quantiles of numeric columns: the exponential mechanism on a fine public grid.

A grid of M cells gives M + 1 candidate edges. The score of edge v for the quantile q is
-|#{x < v} - q N| (Smith 2011). Bounds are chosen among the M cells instead, with the score
-max(0, #{x < cell} - q N, q N - #{x <= cell}): where many rows share one value no edge is near the
quantile, but the cell that has them is. One row added or removed moves either score by at most
max(q, 1 - q), one replaced row by at most 1. Where persons are counted a person's rows weigh a
public whole number together, and scores are divided by it.

How many rows of a person are to be counted at most.

A person counts once, in the bin of the number of the person's rows, at most a public cap. So one
person more or less moves every rank by one, whatever the number of rows is, and the exponential
mechanism finds a quantile of persons at the price of a quantile of rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.errors import UsageError
from marginalsyn.privacy.charges import GDP, ZCDP, Charge, Cost, Neighbours
from marginalsyn.privacy.gdp import amount_of, selection_mu
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.privacy.zcdp import exponential_eps, exponential_rho
from marginalsyn.purchases.purchase import Purchase, whole_counts
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import MOST_ROWS, Unit


@dataclass(frozen=True, kw_only=True)
class QuantilePurchase(Purchase):
    """A purchase that is made by quantiles of columns, all at the same price."""

    @property
    def law(self) -> str:
        return ExponentialMechanism.name

    @property
    @abstractmethod
    def selections(self) -> int:
        """How many quantiles of every column are found."""

    @property
    def eps_each(self) -> float:
        """The eps of one selection: all of them together cost the budget's rho."""
        return exponential_eps(self.budget.rho / (len(self.names) * self.selections))

    @property
    def _cost(self) -> Cost:
        """What the quantiles of one column cost; selections are cheaper in rho than in mu."""
        rho = self.selections * exponential_rho(self.eps_each)
        if self.budget.mu is None:
            return ZCDP(rho=rho)
        mu = math.sqrt(self.selections) * selection_mu(self.eps_each) * (1 + 1e-15)
        return GDP(mu=mu, rho=min(rho, amount_of(mu)))

    def prices(self) -> Iterator[tuple[Charge, int]]:
        unit, cost = self.counted.unit, self._cost
        for name in self.names:
            details = {"column": name, "selections": self.selections, "eps_each": self.eps_each}
            charge = self.budget.charge(
                "exponential-quantile",
                f"quantiles of {name}",
                cost,
                {**details, **({"unit": unit.noun} if unit is not None else {})},
            )
            yield charge, self.selections

    def grid(self, visit: Visit, name: str) -> Grid:
        """The private counts of a column, with selections that are paid for."""

        def select(scores: np.ndarray, *, eps: float, sensitivity: float) -> int:
            purpose, scores = f"quantile of {name}", scores / visit.whole
            law = ExponentialMechanism(eps, sensitivity)
            return visit.draw(law, scores, purpose=purpose)

        edges = visit.schema.column(name).edges  # type: ignore[union-attr]
        counts = whole_counts(visit, name)[: len(edges) - 1]
        return Grid(counts, edges, select, self.eps_each, self.neighbours)


@dataclass(frozen=True)
class Grid:
    """Private counts of the cells of a public grid, from which quantiles are drawn.

    Attributes:
        counts: integers; values outside the grid belong in its end cells.
        edges: the grid's ``len(counts) + 1`` increasing edges.
        select: draws an index by the exponential mechanism from scores, eps and sensitivity, and
            pays for it.
        eps: the bounded-range eps of each selection.
        neighbours: the relation; replace is valid for both, add-remove draws sharper.

    Example:
        >>> from marginalsyn.privacy.noise import SeededNoise
        >>> from marginalsyn.privacy.selection import ExponentialMechanism
        >>> noise = SeededNoise(0)
        >>> select = lambda scores, **how: noise.draw(ExponentialMechanism(**how), scores)
        >>> grid = Grid(np.full(100, 1000), np.linspace(0, 1, 101), select, eps=1.0)
        >>> grid.quantiles([0.2, 0.5]).tolist(), grid.bins(4).tolist()
        ([0.2, 0.5], [0.0, 0.25, 0.5, 0.75, 1.0])
    """

    counts: np.ndarray
    edges: np.ndarray
    select: Callable[..., int]
    eps: float
    neighbours: Neighbours = Neighbours.REPLACE

    def __post_init__(self) -> None:
        counts, edges = self.counts, self.edges
        if counts.ndim != 1 or counts.size == 0 or counts.dtype.kind not in "iu":
            raise ValueError("counts must be a one-dimensional array of integers")
        if edges.shape != (counts.size + 1,) or not np.isfinite(edges).all():
            raise ValueError(f"edges must be {counts.size + 1} finite numbers, one more than cells")
        if not (np.diff(edges) > 0).all():
            raise ValueError("edges must increase")

    def quantiles(self, qs: Sequence[float]) -> np.ndarray:
        """For each share of the rows an edge below which about so many lie, in increasing order."""
        return np.sort(self.edges[[self.draw(rank_scores(self.counts, q), q) for q in qs]])

    def cell(self, q: float) -> int:
        """The cell that a quantile lies in."""
        return self.draw(cell_scores(self.counts, q), q)

    def bounds(self, tail: float) -> tuple[float, float]:
        """Bounds that leave about ``tail`` of the rows out each side, at least one cell wide."""
        cells = self.cell(tail), self.cell(1 - tail)
        return float(self.edges[min(cells)]), float(self.edges[max(cells) + 1])

    def bins(self, k: int) -> np.ndarray:
        """Edges of about ``k`` bins of about equal weight between the grid's ends.

        Quantiles that fall on one edge are merged, so there may be fewer bins, but at least one.
        """
        inner = self.quantiles([i / k for i in range(1, k)])
        return np.unique(np.concatenate([self.edges[:1], inner, self.edges[-1:]]))

    def draw(self, scores: np.ndarray, q: float) -> int:
        """An index, by scores for the quantile ``q``."""
        if not 0 <= q <= 1:
            raise ValueError(f"q ({q}) must lie between 0 and 1")
        return self.select(scores, eps=self.eps, sensitivity=rank_sensitivity(q, self.neighbours))


def rank_scores(counts: np.ndarray, q: float) -> np.ndarray:
    """The score of every edge of the grid for the quantile ``q``."""
    below = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return -np.abs(below - q * below[-1])


def cell_scores(counts: np.ndarray, q: float) -> np.ndarray:
    """The score of every cell of the grid for the quantile ``q``; 0 where it lies there."""
    upto = np.cumsum(counts, dtype=np.int64)
    target = q * upto[-1]
    return -np.maximum(0.0, np.maximum(upto - counts - target, target - upto))


def rank_sensitivity(q: float, neighbours: Neighbours = Neighbours.REPLACE) -> float:
    """How much one row can move a score; the value for replace is valid for both relations."""
    return 1.0 if neighbours is Neighbours.REPLACE else max(q, 1 - q)


CAP = 200


@dataclass(frozen=True, kw_only=True)
class MaxRows(QuantilePurchase):
    """``max_rows``: a number that all but a share of the persons do not exceed.

    The number ends a bin of the number of rows: it is 1, 2, ... 15, 20, 27 and so on by a third.

    Attributes:
        unit: the column that names persons; by default the schema's own.
        order: see :class:`~marginalsyn.table.Unit`; by default the schema's own.
        cap: no more rows of a person are read. A public number.
        tail: the share of persons who may have more rows than are counted.

    Raises:
        UsageError: no unit, or a number that cannot be.

    Example:
        >>> from marginalsyn.privacy.budget import Budget
        >>> found = MaxRows(schema=schema, budget=Budget(eps=1), unit="who", cap=5)
        >>> found.counted.domain["rows_of_person"]
        5
    """

    what = "most rows"
    selections = 1

    unit: str | None = None
    order: str | None = None
    cap: int = CAP
    tail: float = 0.05

    def __post_init__(self) -> None:
        if self.schema.unit is None and self.unit in (None, "row"):
            raise UsageError("unit must be the column that identifies persons: add --unit COLUMN")
        if not 2 <= self.cap <= MOST_ROWS:
            raise UsageError(f"cap ({self.cap}) must be from 2 to {MOST_ROWS}")
        if not 0 < self.tail < 1:
            raise UsageError(f"tail ({self.tail}) must be above 0 and below 1")

    @cached_property
    def capped(self) -> Unit:
        """Persons with at most as many rows as the cap."""
        known, order = self.schema.unit, self.order
        if known is not None and self.unit in (None, known.column):
            changed = {"max_rows": self.cap, "order": order or known.order}
            return known.model_copy(update=changed)
        return Unit(column=str(self.unit), max_rows=self.cap, order=order)

    @property
    def names(self) -> Sequence[str]:
        return [self.capped.count]

    @cached_property
    def counted(self) -> Schema:
        return self.schema.with_unit(self.capped)

    def complete(self, schema: Schema, visit: Visit) -> Schema:
        grid = self.grid(visit, self.capped.count)
        most = int(grid.edges[grid.cell(1 - self.tail) + 1]) - 1
        return schema.with_unit(self.capped.model_copy(update={"max_rows": most}))

    def notes(self, bought: Schema) -> Iterator[str]:
        if bought.unit is not None:
            yield f"unit: {bought.unit.text}"
