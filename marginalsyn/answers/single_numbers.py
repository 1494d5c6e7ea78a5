"""Questions whose statistic is read as one number: quantiles, and tests of independence.

Between which bins of a column the answers put a quantile is found after Woodruff (1952).

Whether two columns go together is tested with the privacy noise in the p-value. For groups g of one
column and numbers y of the other (a mean, or a 1 for each value) the statistic rests on the mean of
(1[g] - p_g) (y - mean): no noisy count is divided by another's, so that small groups do no harm.
Their squares, each over what it would vary by in a table of the same margins, are those of
Pearson's chi-square. Their law, if nothing goes together, is a sum of squared normal numbers with
the eigenvalues of the covariance of sampling and noise (Rao and Scott 1981).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.stats import chi2

from marginalsyn.answers.code_combinations import CodeCombinations, inside
from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.quantities import (
    Estimates,
    Interval,
    Mask,
    Question,
    Ratios,
    Statistic,
    members,
)
from marginalsyn.answers.subgroups import MOST_GROUPS
from marginalsyn.errors import UsageError
from marginalsyn.table.numeric import IntegerColumn, NumberColumn
from marginalsyn.table.schema import Schema


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
    text: str = ""
    single = True

    def __post_init__(self) -> None:
        if not self.schema.column(self.column).numeric:
            raise UsageError(
                f"quantile ({self.column}) must be of a number: ask for share({self.column})"
            )
        if not 0 < self.level < 1:
            raise UsageError(f"quantile ({self.level:g}) must be between 0 and 1, such as 0.5")

    @property
    def title(self) -> str:
        return self.text or f"quantile {self.column} {self.level:g}"

    @property
    def about(self) -> str:
        return self.title + (self.name and f" ({self.name})")

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
        """The quantile out of the estimates of the cumulative shares that were measured."""
        found = super().conclude(problem, confidence, errors)
        bins = problem.evidence.bins(self.column)
        factor = np.ones(found.low.shape) if bins is None else bins.factor
        # A share that is not known lies between those next to it.
        known = ~np.isnan(found.value)
        least, most = pd.Series(found.low).ffill(), pd.Series(found.high).bfill()
        low, high = self.between(least.fillna(0.0).to_numpy(), most.fillna(1.0).to_numpy(), factor)
        value, place = self.invert(np.where(known, found.value, found.fitted))
        first, last = self._ends()
        answered = known[:-1].any() and (low, high) != (first[0], last[-1])
        there = np.array([1.0 if answered else np.nan])
        own = slice(place, place + 1)
        return replace(
            found,
            names=[self.name or f"{self.level:g} quantile of {self.column}"],
            value=min(max(value, low), high) * there,
            low=low * there,
            high=high * there,
            fitted=np.array([self.invert(found.fitted)[0]]),
            sampling=found.sampling[own],
            noise=found.noise[own],
            rows=found.rows[own],
            measured_share=found.measured_share[known | (not answered)].min(keepdims=True),
        )

    def printed(self, found: Interval) -> Interval:
        value, low, high = found
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
        assert isinstance(column, NumberColumn)
        edges = column.edges
        return edges[:-1], edges[1:] - isinstance(column, IntegerColumn)


@dataclass(frozen=True)
class Covariances(Statistic):
    """How each group goes together with each number: the mean of their centred product."""

    groups: np.ndarray
    numbers: np.ndarray
    present: np.ndarray
    exact = True

    @property
    def names(self) -> list[str]:  # type: ignore[override]
        """The number of each pair."""
        return [str(i) for i in range(self.groups.shape[1] * self.numbers.shape[1])]

    def shares(self, weights: np.ndarray) -> np.ndarray:
        """By row its share of all that are there."""
        own = weights * self.present
        return np.asarray(own / max(own.sum(), 1e-12))

    def centred(self, weights: np.ndarray) -> np.ndarray:
        """By row the product of every group and number, each less its mean."""
        own = self.shares(weights)
        groups, numbers = self.groups - own @ self.groups, self.numbers - own @ self.numbers
        return np.asarray((groups[:, :, None] * numbers[:, None, :]).reshape(len(groups), -1))

    def scale(self, weights: np.ndarray) -> np.ndarray:
        """What each mean is divided by: the root of its variance times the rows, if independent."""
        own = self.shares(weights)
        share, centre = own @ self.groups, own @ self.numbers
        spread = own @ np.square(self.numbers - centre)
        # A column of a 1 for each value: Pearson's sum runs over cells.
        spread = spread if self.numbers.shape[1] == 1 else centre
        return np.sqrt(np.maximum(np.outer(share, spread), 1e-9).ravel())

    def value(self, weights: np.ndarray) -> np.ndarray:
        return np.asarray(self.shares(weights) @ self.centred(weights))

    def influence(self, weights: np.ndarray, value: np.ndarray) -> np.ndarray:
        there = self.present[:, None]
        whole = max(float(weights @ self.present), 1e-12)
        return np.asarray(there * (self.centred(weights) - value) / whole)

    def times(self, number: np.ndarray, *, whole: bool) -> Covariances:
        del whole
        return replace(self, present=self.present * number)


@dataclass(frozen=True)
class Independence(Question):
    """A test of whether a column's values, or its mean, differ between those of another."""

    column: str
    by: str
    schema: Schema
    name: str = ""
    within: tuple[Mask, ...] = ()
    single = True

    @property
    def title(self) -> str:
        return f"test {self.column}, {self.by}" + (self.name and f" where {self.name}")

    @property
    def columns(self) -> tuple[str, ...]:
        more = (mask.column for mask in self.within)
        return tuple(dict.fromkeys((self.column, self.by, *more)))

    def on(self, cells: CodeCombinations) -> Statistic:
        column, group = self.schema.column(self.column), self.schema.column(self.by)
        sizes = [column.levels, group.levels]
        if min(sizes) < 2 or sizes[1] > MOST_GROUPS or not (column.numeric or sizes[0] < 61):
            raise UsageError(
                f"test ({self.column}, {self.by}) must be of a number or a list of values, and "
                f"groups of 2 to {MOST_GROUPS} values"
            )
        codes = cells.codes[:, cells.columns.index(self.column)]
        own = cells.codes[:, cells.columns.index(self.by)]
        present = members(self.within, cells) * (codes < sizes[0]) * (own < sizes[1])
        if column.numeric and column.levels > 2:
            numbers = cells.frame[self.column].fillna(0.0).to_numpy(float)[:, None]
            numbers = numbers / max(float(np.abs(numbers).max()), 1e-12)
        else:
            numbers = (codes[:, None] == np.arange(sizes[0])).astype(float)
        return Covariances((own[:, None] == np.arange(sizes[1])).astype(float), numbers, present)

    def conclude(self, problem: Problem, confidence: float, errors: np.ndarray | None) -> Estimates:
        """The adjusted chi-square with its p-value; no interval."""
        if self.schema.survey_weight is not None:
            raise UsageError(
                f"test ({self.column}, {self.by}) must be of a release without survey weights: "
                "which rows were sampled is in replicate weights, which are not counted; ask for "
                "a difference, whose interval covers the noise"
            )
        if problem.target == "table":
            raise UsageError(
                "target (table) must be population for a test: in a table the shares of two "
                "columns nearly always differ a little, and a difference shows by how much"
            )
        statistic = problem.statistic
        assert isinstance(statistic, Covariances)
        scale = statistic.scale(problem.weights)
        parts = [part / np.outer(scale, scale) for part in problem.covariances()]
        values, axes = np.linalg.eigh(sum(parts))
        free = values > 1e-6 * max(float(values.max()), 1e-300)
        # What was not measured varies only as groups and values can that add up to all rows.
        rest, axes = problem.unmeasured / scale**2, axes[:, free]
        added = axes.T @ (rest[:, None] * axes)
        added *= rest.sum() / max(float(np.trace(added)), 1e-300)
        values = np.linalg.eigvalsh(np.diag(values[free]) + added)
        total = float(np.sum(np.square(problem.value / scale)))
        kind = "equality of means" if statistic.numbers.shape[1] == 1 else "chi-square"
        known = problem.answered.all()
        nothing = np.array([np.nan])
        sampling, noise, rows = (np.array([np.trace(part)]) for part in parts)
        return Estimates(
            names=[f"{kind}, {len(values)} degree{'s' * (len(values) != 1)} of freedom"],
            value=np.array([total / float(values.mean())]) if known else nothing,
            low=nothing,
            high=nothing,
            fitted=nothing,
            sampling=sampling,
            noise=noise,
            rows=rows,
            measured_share=problem.measured_share.min(keepdims=True),
            p=np.array([tail(total, values)]) if known else nothing,
        )


def tail(total: float, values: np.ndarray) -> float:
    """The chance that a sum of squared normal numbers, times values, is as large as a total.

    By a chi-square of the same three moments (Imhof 1961), which is exact for equal values.

    Example:
        >>> round(tail(3.84, np.ones(1)), 2), round(tail(16.92, np.ones(9)), 2)
        (0.05, 0.05)
    """
    first, second, third = (float(np.sum(values**power)) for power in (1, 2, 3))
    degrees = second**3 / third**2
    return float(chi2.sf((total - first) * (degrees / second) ** 0.5 + degrees, degrees))
