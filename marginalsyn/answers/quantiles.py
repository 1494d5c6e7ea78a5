"""Quantiles: between which bins of a column the answers put them, after Woodruff (1952)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.answers.code_combinations import CodeCombinations, inside
from marginalsyn.answers.quantities import (
    Estimates,
    Mask,
    Question,
    Ratios,
    Statistic,
    members,
)
from marginalsyn.errors import UsageError
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.schema import Schema

if TYPE_CHECKING:
    from marginalsyn.answers.estimation import Problem


@dataclass(frozen=True)
class Quantile(Question):
    """The value that a share of a numeric column's rows does not exceed.

    Its statistic is the cumulative share at each bin's end, from which the quantile is read as
    Woodruff (1952) does. Inside a bin the density is taken to be as even as next to it.
    """

    column: str
    level: float
    schema: Schema
    name: str = ""
    within: tuple[Mask, ...] = ()
    single = True

    def __post_init__(self) -> None:
        if not self.schema.column(self.column).numeric:
            raise UsageError(f"quantile ({self.column}) must be of a numeric column")
        if not 0 < self.level < 1:
            raise UsageError(f"quantile ({self.level:g}) must be between 0 and 1, such as 0.5")

    @property
    def title(self) -> str:
        return f"quantile {self.column} {self.level:g}" + (self.name and f": {self.name}")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.column, *(mask.column for mask in self.within))))

    def on(self, cells: CodeCombinations) -> Statistic:
        levels = self.schema.column(self.column).levels
        codes = cells.codes[:, cells.columns.index(self.column)]
        present = (codes < levels) * members(self.within, cells)
        tops = (codes[:, None] <= np.arange(levels)).astype(float)
        bottoms = np.repeat(present[:, None], levels, axis=1)
        tops *= bottoms
        names = [str(i) for i in range(levels)]
        ends = (0.0, 1.0)
        small = bool(self.within)
        return Ratios(names, tops, bottoms, np.eye(levels), ends, ends, small=small)

    def conclude(self, problem: Problem, confidence: float, errors: np.ndarray | None) -> Estimates:
        """The quantile out of the estimates of the cumulative shares, if all were measured."""
        found = super().conclude(problem, confidence, errors)
        bins = problem.evidence.bins(self.column)
        factor = np.ones(found.low.shape) if bins is None else bins.factor
        fitted, place = self.invert(found.fitted)
        value = low = high = float("nan")
        # The last share is 1 in any case, and a group that may be empty has no share at all.
        if not np.isnan(found.value[:-1]).any():
            value, place = self.invert(found.value)
            low, high = self.between(found.low, found.high, factor)
            value = min(max(value, low), high)

        own = slice(place, place + 1)
        return replace(
            found,
            names=[self.name or f"{self.level:g} quantile of {self.column}"],
            value=np.array([value]),
            low=np.array([low]),
            high=np.array([high]),
            fitted=np.array([fitted]),
            sampling=found.sampling[own],
            noise=found.noise[own],
            rows=found.rows[own],
            measured_share=found.measured_share.min(keepdims=True),
        )

    def printed(
        self, value: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ends = self.between(low, high, np.full(len(low), np.inf))
        return np.array([self.invert(value)[0]]), np.array(ends[:1]), np.array(ends[1:])

    def invert(self, shares: np.ndarray) -> tuple[float, int]:
        """Where cumulative shares pass the level, straight inside a bin; and in which bin."""
        rising = np.maximum.accumulate(np.clip(shares, 0.0, 1.0))
        rising[-1] = 1.0
        place = int(np.argmax(rising >= self.level))
        first, last = self._ends()
        before = rising[place - 1] if place else 0.0
        part = (self.level - before) / max(rising[place] - before, 1e-12)
        return float(first[place] + min(max(part, 0.0), 1.0) * (last[place] - first[place])), place

    def between(self, low: np.ndarray, high: np.ndarray, factor: np.ndarray) -> tuple[float, float]:
        """The ends of the quantile, by bounds of the cumulative shares and of the density."""
        first, last = self._ends()
        low, high = np.append(np.minimum(low[:-1], 1.0), 1.0), np.append(high[:-1], 1.0)
        # The quantile is below where the least share is above the level, and the other way round.
        ends = []
        for shares, end in ((np.maximum.accumulate(high), 0), (low, 1)):
            shares = np.minimum.accumulate(shares[::-1])[::-1] if end else shares
            place = int(np.argmax(shares >= self.level))
            before = float(max(shares[place - 1], 0.0)) if place else 0.0
            part = (self.level - before) / max(float(shares[place]) - before, 1e-12)
            # To hold so much of the bin's values so much of its width may be needed.
            least = inside(np.array(min(max(part, 0.0), 1.0)), factor[place])[end]
            ends.append(float(first[place] + least * (last[place] - first[place])))
        if isinstance(self.schema.column(self.column), IntegerColumn):
            return float(np.floor(ends[0])), float(np.ceil(ends[1]))
        return ends[0], ends[1]

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and last value of every bin."""
        column = self.schema.column(self.column)
        assert isinstance(column, IntegerColumn | ContinuousColumn)
        edges = column.edges
        return edges[:-1], edges[1:] - isinstance(column, IntegerColumn)
