"""Estimates with honest intervals: one step from the model to the answers, then replays.

The model's own value is moved by one Newton step: the unbiased mean of its projected influence, as
the noisy answers give it, less the model's. That takes away, to first order, what the fit's
constraints (no negative count, a pull towards zero) did to the answers: near zero the fitted
value's own bootstrap covers half of what it claims. The step's variance follows in closed form.
What is not linear is judged by replays of the release, studentised by that variance.

Groups of a difference of ratios may be small. A ratio's interval is then Fieller's (1954): all r
for which the mean of top - r * bottom may be zero. It stays honest where the group's own size is
mostly noise. Two of them give that of the difference by recovering their variances, with the
correlation of the two ratios (Zou and Donner 2008): it is negative where a margin that both share
is known better than either, and leaving it out makes the interval too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from marginalsyn.answers.code_combinations import CodeCombinations
from marginalsyn.answers.evidence import Evidence, Target
from marginalsyn.answers.quantities import Estimates, Question, Ratios, Statistic

# The answers alone decide a quantity if they measured this share of its influence's variance.
MEASURED = 0.999
# Of a quantity of which less was measured, a release of marginals gives no interval.
ANSWERED = 0.9
# The population's shares, over those of the model, may lie this far from 1 where nothing was
# measured (root mean square): see benchmarks/coverage.py for what populations do.
UNMEASURED = 0.1
# So much of the weight is spread over all combinations, so that empty ones count.
_EVEN = 1e-6
# An interval is clearly wider where what was not measured adds this share of its variance.
_CLEARLY = 0.1
# Of fewer replays only the mean and the spread are used, of more the quantiles.
_MANY = 1000


class Problem:
    """One question on one release, ready to be estimated and replayed."""

    def __init__(
        self, evidence: Any, question: Question, target: Target, rng: np.random.Generator
    ) -> None:
        self.evidence, self.question, self.target = evidence, question, target
        counted, schema = evidence.counted, evidence.schema
        asked = [*question.columns, *([] if counted is None else [counted])]
        # What follows from a column is asked of that column.
        follow = [name for name in asked if name in evidence.followers]
        columns = [schema.followers[c].source if c in follow else c for c in asked]
        self.cells = evidence.cells(tuple(dict.fromkeys(columns)), rng)
        self.asked = self.cells.with_followers(schema, follow)
        self.statistic = self.statistic_on(question, self.asked)
        self.weights = evidence.weights(self.cells)
        self.fitted = self.statistic.value(self.weights)
        self.influence = self.statistic.influence(self.weights, self.fitted)
        self.linear, self.projected = self._measure(self.influence)
        self.value = self.stepped(evidence, self.fitted, self.weights)
        left = _variance(self.reach, self.influence - self.projected)
        self.measured_share = self.share_of(self.projected)
        # An error in the number of rows counts in a share of them, and more in a count.
        means = self.weights @ self.projected
        if evidence.drift:  # whose points may be far from what sums measure
            means = means + self.value - self.fitted
        self.about = -self.fitted if question.scale == "count" else means
        self.noise = np.array(
            [
                line.noise(evidence, mean)
                for line, mean in zip(self.linear, self.about.tolist(), strict=True)
            ]
        )
        self.rows = left * self.drift
        # Of points it is a part of the drift.
        self.unmeasured = left * (UNMEASURED**2 if isinstance(evidence, Evidence) else 0.0)

    @property
    def graphical(self) -> Evidence:
        """The evidence, where it is of marginals."""
        assert isinstance(self.evidence, Evidence)
        return self.evidence

    @property
    def reach(self) -> np.ndarray:
        """The weights under which the spread of what is not measured is taken.

        A combination that is empty in the model counts a little: it need not be empty.
        """
        if self.evidence.drift:
            return np.asarray(self.evidence.reach)
        return (1 - _EVEN) * self.weights + _EVEN / len(self.weights)

    @property
    def drift(self) -> float:
        """The variance of a rest's mean, in its own: rows that were drawn, or points, stand in."""
        if self.cells.shape is not None:
            return 0.0
        # Of support points nothing but the points themselves says what the rest is.
        return float(self.evidence.drift) ** 2 + 1 / len(self.weights)

    @property
    def size(self) -> float:
        """What a share is multiplied by."""
        return self.evidence.total[0] if self.question.scale == "count" else 1.0

    @cached_property
    def sampling(self) -> np.ndarray:
        """The variance of drawing the table's rows; none where the table itself is meant."""
        return self.sampling_of(self.weights)

    @property
    def error(self) -> np.ndarray:
        """The standard error of the estimate in one step."""
        return np.sqrt(self.sampling + self.noise + self.rows)

    @property
    def needs_replays(self) -> bool:
        """Whether anything in it is not linear in the answers."""
        bent = (self.measured_share < MEASURED) | (not self.statistic.exact)
        return bool((bent & self.answered).any()) and self.cells.shape is not None

    def share_of(self, projected: np.ndarray) -> np.ndarray:
        """The share of each number's influence, by its variance, that is in a projection of it."""
        whole = _variance(self.reach, self.influence)
        left = _variance(self.reach, self.influence - projected)
        # What has no influence at all has nothing left to measure.
        return 1.0 - np.minimum(np.divide(left, whole, out=0 * left, where=whole > 1e-15), 1.0)

    @property
    def widened(self) -> np.ndarray:
        """Which intervals are clearly wider for what was not measured."""
        return np.asarray(self.answered & (self.unmeasured > _CLEARLY * np.square(self.error)))

    @property
    def answered(self) -> np.ndarray:
        """Which numbers get an interval: those of which enough was measured."""
        if self.evidence.drift:  # whose intervals include the rest
            return np.ones(len(self.value), dtype=bool)
        return np.asarray(self.measured_share >= ANSWERED)

    def covariances(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What sampling, privacy noise and rows that stand in give all numbers together."""
        noise = self.evidence.joint_noise(self.linear, self.about)
        sampling = self._sampling_covariance(self.projected)
        return sampling, noise, self._rest_covariance(self.influence - self.projected)

    def conclude(self, confidence: float, errors: np.ndarray | None) -> Estimates:
        """The estimate with its interval, from studentised errors of replays, if any."""
        z = float(norm.ppf(0.5 + confidence / 2))
        below = above = np.full(len(self.value), z)
        if errors is not None and len(errors) >= _MANY:
            tail = (1 - confidence) / 2
            above, below = np.quantile(errors, [tail, 1 - tail], axis=0) * [[-1.0], [1.0]]
        elif errors is not None and len(errors) > 1:
            mean, many = errors.mean(axis=0), len(errors)
            # As sure as so few replays allow.
            half = student.ppf(0.5 + confidence / 2, many - 1) * (1 + 1 / many) ** 0.5
            half = half * errors.std(axis=0, ddof=1)
            below, above = mean + half, half - mean
        error, value = self.error, self.value
        low, high = value - below * error, value + above * error
        least, most = self.statistic.limits
        known = self.answered
        if isinstance(self.statistic, Ratios) and (self.statistic.small or self.statistic.quotient):
            ends = self._compared(self.statistic, z)
            known = known & np.isfinite(ends[0])
            if errors is None:
                value, low, high = ends
        # Replays are drawn from the model, and so know nothing of what was not measured.
        with np.errstate(invalid="ignore"):  # ends that are not known are infinite
            middle = (low + high) / 2
            half = np.hypot((high - low) / 2, z * np.sqrt(self.unmeasured))
            low, high = kept_inside(middle - half, middle + half, error, least, most)
        size = self.size
        there = np.where(known, size, np.nan)
        return Estimates(
            names=self.statistic.names,
            value=np.clip(value, least, most) * there,
            low=low * there,
            high=high * there,
            fitted=self.fitted * size,
            sampling=self.sampling * size**2,
            noise=self.noise * size**2,
            rows=(self.rows + self.unmeasured) * size**2,
            measured_share=self.measured_share,
        )

    def cut_reach(self) -> np.ndarray:
        """How far bins that conditions cut may move each number down and up, a row each."""
        down, up = np.zeros((2, len(self.value)))
        for key, mask in list(self.cells.cut.items()):
            bins = self.evidence.bins(mask.column)
            if bins is None:
                continue
            for end in (0, 1):
                moved = {**self.cells.cut, key: mask.moved(bins, end)}
                statistic = self.statistic_on(self.question, replace(self.asked, cut=moved))
                effect = statistic.value(self.weights) - self.fitted
                down, up = np.maximum(down, -effect), np.maximum(up, effect)
        return np.array([down, up]) * self.size

    def stepped(self, evidence: Any, fitted: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The model's value, moved by the answers' estimate of its projected influence."""
        answers = np.array([line.value(evidence) for line in self.linear])
        return fitted + answers - weights @ self.projected

    def statistic_on(self, question: Question, cells: CodeCombinations) -> Statistic:
        """The statistic of a question like this one on combinations."""
        counted = self.evidence.counted
        found = question.on(cells.only(question.columns))
        if counted is None:
            return found
        number = self.cells.frame[counted].to_numpy(float, na_value=1.0)
        return found.times(number, whole=question.scale == "count")

    def _measure(self, functions: np.ndarray) -> tuple[Sequence[Any], np.ndarray]:
        """Estimates, of the evidence's own kind, of what was measured of functions; its values."""
        return self.evidence.mean_estimates(self.cells, self.weights, functions)

    def sampling_of(self, weights: np.ndarray) -> np.ndarray:
        """The same under other weights."""
        if self.target == "table":
            return np.zeros(self.projected.shape[1])
        rows = self.evidence.total[0]
        # One row more where the model has none: its empty cells need not be empty.
        reach = np.ptp(self.projected, axis=0) / rows
        return np.asarray(_variance(weights, self.projected) / rows + reach**2)

    def _sampling_covariance(self, projected: np.ndarray) -> np.ndarray:
        if self.target == "table":
            return np.zeros((projected.shape[1],) * 2)
        centred = projected - self.weights @ projected
        return np.asarray(centred.T @ (self.weights[:, None] * centred) / self.evidence.total[0])

    def _rest_covariance(self, rest: np.ndarray) -> np.ndarray:
        rest = rest - self.reach @ rest
        return np.asarray(self.drift * (rest.T @ (self.reach[:, None] * rest)))

    def _compared(self, statistic: Ratios, z: float) -> tuple[np.ndarray, ...]:
        """Estimates of ratios, and of what they are next to each other, with their ends.

        NaN stands for what nothing is known of: a group that may be empty.
        """
        both = np.hstack([statistic.tops, statistic.bottoms])
        lines, projected = self._measure(both)
        measured = np.array([line.value(self.evidence) for line in lines])
        means = self.weights @ both + measured - self.weights @ projected
        covariance = self.evidence.joint_noise(lines, means)
        if self.target == "population":
            covariance += self._sampling_covariance(projected)
            covariance[np.diag_indices(len(lines))] += self.evidence.total[0] ** -2
        covariance += self._rest_covariance(both - projected)
        size = statistic.tops.shape[1]
        inside = statistic.inside
        ends = np.empty((3, size))
        for k in range(size):
            own = covariance[np.ix_([k, size + k], [k, size + k])]
            ends[:, k] = fieller(float(means[k]), float(means[size + k]), own, z, inside)
        # How each ratio moves with top and bottom: to first order, for the correlation alone.
        below = np.maximum(means[size:], 1e-12)
        moves = np.hstack([np.diag(1 / below), np.diag(-ends[0] / below)])
        together = moves @ np.nan_to_num(covariance) @ np.nan_to_num(moves).T
        spread = np.sqrt(np.maximum(np.diag(together), 1e-300))
        if statistic.quotient:
            with np.errstate(divide="ignore"):
                ends = np.log(ends)
        centre, low, high = ends.tolist()
        results = []
        for line in statistic.contrast:
            first, second = int(np.argmax(line)), int(np.argmin(line))
            if line[second] >= 0:
                results.append((centre[first], low[first], high[first]))
                continue
            value = centre[first] - centre[second]
            alike = float(np.clip(together[first, second] / spread[first] / spread[second], -1, 1))
            down = _side(centre[first] - low[first], high[second] - centre[second], alike)
            up = _side(high[first] - centre[first], centre[second] - low[second], alike)
            results.append((value, value - down, value + up))
        value, low, high = np.array(results).T
        if statistic.quotient:
            value, low, high = np.exp([value, low, high])
            value = np.where(np.isfinite(value) & np.isfinite(high), value, np.nan)
        return value, low, high


def kept_inside(
    low: np.ndarray, high: np.ndarray, error: np.ndarray, least: float, most: float
) -> tuple[np.ndarray, np.ndarray]:
    """An interval cut to what is possible, never narrower than one standard error for that."""
    low, high = np.minimum(low, most - error), np.maximum(high, least + error)
    return np.maximum(low, least), np.minimum(high, most)


def _variance(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    mean = weights @ values
    return np.asarray(np.maximum(weights @ np.square(values) - np.square(mean), 0.0))


def _side(first: float, second: float, alike: float) -> float:
    """How far a difference reaches, from how far its two parts do and their correlation.

    Example:
        >>> _side(3.0, 4.0, 0.0), _side(3.0, 4.0, -1.0)
        (5.0, 7.0)
    """
    if math.isinf(first) or math.isinf(second):
        return math.inf
    return float(np.sqrt(np.maximum(first**2 + second**2 - 2 * alike * first * second, 0.0)))


def fieller(
    top: float, bottom: float, covariance: np.ndarray, z: float, limits: tuple[float, float]
) -> tuple[float, float, float]:
    """A ratio and its interval within limits; nothing is known where the bottom may be zero.

    Example:
        >>> fieller(2.0, 4.0, np.zeros((2, 2)), 1.96, (0.0, 1.0))
        (0.5, 0.5, 0.5)
    """
    a = bottom**2 - z**2 * covariance[1, 1]
    b = top * bottom - z**2 * covariance[0, 1]
    c = top**2 - z**2 * covariance[0, 0]
    if a <= 0 or bottom <= 0:
        return (math.nan,) * 3
    root = max(b * b - a * c, 0.0) ** 0.5
    value, low, high = np.clip([top / bottom, (b - root) / a, (b + root) / a], *limits).tolist()
    return (math.nan,) * 3 if (low, high) == limits else (value, low, high)
