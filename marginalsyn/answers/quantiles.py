"""Quantiles: between which bins of a column the answers put them, after Woodruff (1952)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from marginalsyn.answers.atoms import Atoms
from marginalsyn.answers.estimation import Estimates
from marginalsyn.answers.quantities import Ratios, Scale, Statistic
from marginalsyn.errors import UsageError
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.schema import Schema


@dataclass(frozen=True)
class Quantile:
    """The value that a share of a numeric column's rows does not exceed.

    Its statistic is the cumulative share at each bin's end; :meth:`read` turns these into the
    quantile. A release knows no place inside a bin: the interval goes to the ends of its bins.
    """

    column: str
    level: float
    schema: Schema
    scale: Scale = "value"

    def __post_init__(self) -> None:
        if not self.schema.column(self.column).numeric:
            raise UsageError(f"quantile ({self.column}) must be of a numeric column")
        if not 0 < self.level < 1:
            raise UsageError(f"quantile ({self.level:g}) must be between 0 and 1, such as 0.5")

    @property
    def title(self) -> str:
        return f"quantile {self.column} {self.level:g}"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def on(self, atoms: Atoms) -> Statistic:
        levels = self.schema.column(self.column).levels
        codes = atoms.codes[:, 0]
        tops = (codes[:, None] <= np.arange(levels)).astype(float)
        bottoms = np.repeat((codes < levels).astype(float)[:, None], levels, axis=1)
        tops *= bottoms
        return Ratios([str(i) for i in range(levels)], tops, bottoms, np.eye(levels), (0.0, 1.0))

    def read(self, found: Estimates) -> Estimates:
        """The quantile out of the estimates of the cumulative shares, if all were measured."""
        fitted, place = self.invert(found.fitted)
        value = low = high = float("nan")
        if not np.isnan(found.value).any():
            value, place = self.invert(found.value)
            low, high = self.between(found.low, found.high)
            value = min(max(value, low), high)

        def one(number: float) -> np.ndarray:
            return np.array([number])

        return replace(
            found,
            names=[f"{self.level:g} quantile of {self.column}"],
            value=one(value),
            low=one(low),
            high=one(high),
            fitted=one(fitted),
            sampling=found.sampling[place : place + 1],
            noise=found.noise[place : place + 1],
            rows=found.rows[place : place + 1],
            measured_share=one(float(found.measured_share.min())),
        )

    def invert(self, shares: np.ndarray) -> tuple[float, int]:
        """Where cumulative shares pass the level, straight inside a bin; and in which bin."""
        rising = np.maximum.accumulate(np.clip(shares, 0.0, 1.0))
        rising[-1] = 1.0
        place = int(np.argmax(rising >= self.level))
        first, last = self._ends()
        before = rising[place - 1] if place else 0.0
        part = (self.level - before) / max(rising[place] - before, 1e-12)
        return float(first[place] + min(max(part, 0.0), 1.0) * (last[place] - first[place])), place

    def between(self, low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
        """The ends of the bins that may hold the quantile, by bounds of the cumulative shares."""
        first, last = self._ends()
        bottom = np.append(0.0, np.minimum(low, 1.0)[:-1])
        top = np.append(high[:-1], 1.0)
        able = np.flatnonzero((bottom <= self.level) & (top >= self.level))
        return float(first[able[0]]), float(last[able[-1]])

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and last value of every bin."""
        column = self.schema.column(self.column)
        assert isinstance(column, IntegerColumn | ContinuousColumn)
        edges = column.edges
        return edges[:-1], edges[1:] - isinstance(column, IntegerColumn)
