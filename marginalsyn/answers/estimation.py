"""Estimates with honest intervals: one step from the model to the answers, then replays.

The model's own value is moved by one Newton step: the unbiased mean of its projected influence, as
the noisy answers give it, less the model's. That takes away, to first order, what the fit's
constraints (no negative count, a pull towards zero) did to the answers: near zero the fitted
value's own bootstrap covers half of what it claims. The step's variance follows in closed form.
What is not linear is judged by replays of the release, studentised by that variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import norm

from marginalsyn.answers import ratios
from marginalsyn.answers.evidence import Evidence, Target
from marginalsyn.answers.fields import DRIFT, FieldEvidence
from marginalsyn.answers.quantities import Question, Ratios, Statistic
from marginalsyn.answers.telling import AnyEvidence, atoms_of, joint_noise, tell, weights_of

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


@dataclass(frozen=True)
class Estimates:
    """Estimates of one question: an entry for each of its numbers, all in its own scale.

    Attributes:
        value: the estimate.
        low, high: the interval.
        fitted: what the model, and rows drawn from it, show.
        sampling, noise, rows: the parts of the variance: which rows the table happened to hold,
            privacy noise, and what stands in for answers: drawn rows, or the model's independence.
        measured_share: of each influence's variance, what measured marginals decide. Where it is
            too small for an interval, value, low and high are NaN.
    """

    names: Sequence[str]
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    fitted: np.ndarray
    sampling: np.ndarray
    noise: np.ndarray
    rows: np.ndarray
    measured_share: np.ndarray


class Problem:
    """One question on one release, ready to be estimated and replayed."""

    def __init__(
        self, evidence: AnyEvidence, question: Question, target: Target, rng: np.random.Generator
    ) -> None:
        self.evidence, self.question, self.target = evidence, question, target
        counted, columns = evidence.counted, question.columns
        if counted is not None and counted not in columns:
            columns = (*columns, counted)
        self.atoms = atoms_of(evidence, columns, rng)
        self.statistic: Statistic = question.on(self.atoms.only(question.columns))
        if counted is not None:
            number = self.atoms.frame[counted].to_numpy(float, na_value=1.0)
            self.statistic = self.statistic.times(number, whole=question.scale == "count")
        self.weights = weights_of(evidence, self.atoms)
        self.fitted = self.statistic.value(self.weights)
        self.influence = self.statistic.influence(self.weights, self.fitted)
        self.linear, self.projected = tell(evidence, self.atoms, self.weights, self.influence)
        self.value = self.stepped(evidence, self.fitted, self.weights)
        left = _variance(self.reach, self.influence - self.projected)
        self.measured_share = self.share_of(self.projected)
        # An error in the number of rows counts in a share of them, and more in a count.
        means = self.weights @ self.projected
        if isinstance(evidence, FieldEvidence):  # whose points may be far from what sums tell
            means = means + self.value - self.fitted
        self.about = -self.fitted if question.scale == "count" else means
        self.noise = np.array(
            [
                line.noise(evidence, mean)  # type: ignore[arg-type]
                for line, mean in zip(self.linear, self.about.tolist(), strict=True)
            ]
        )
        self.rows = left * self.drift
        # Of points it is a part of the drift.
        self.unmeasured = left * (UNMEASURED**2 if isinstance(evidence, Evidence) else 0.0)

    @property
    def marginals(self) -> Evidence:
        """The evidence, where it is of marginals."""
        assert isinstance(self.evidence, Evidence)
        return self.evidence

    @property
    def reach(self) -> np.ndarray:
        """The weights under which the spread of what is not measured is taken.

        A cell that the model holds empty counts a little: that it is empty need not be known.
        """
        if isinstance(self.evidence, FieldEvidence):
            return self.evidence.reach
        return (1 - _EVEN) * self.weights + _EVEN / len(self.weights)

    @property
    def drift(self) -> float:
        """The variance of a rest's mean, in its own: rows that were drawn, or points, stand in."""
        if self.atoms.shape is not None:
            return 0.0
        # Of support points nothing says what the rest is, but the points themselves.
        points = DRIFT**2 if isinstance(self.evidence, FieldEvidence) else 0.0
        return points + 1 / len(self.weights)

    @property
    def size(self) -> float:
        """What a share is multiplied by."""
        return self.evidence.total[0] if self.question.scale == "count" else 1.0

    @cached_property
    def sampling(self) -> np.ndarray:
        """The variance of drawing the table's rows; none where the table itself is meant."""
        return self._sampling(self.weights)

    @property
    def error(self) -> np.ndarray:
        """The standard error of the estimate in one step."""
        return np.sqrt(self.sampling + self.noise + self.rows)

    @property
    def needs_replays(self) -> bool:
        """Whether anything in it is not linear in the answers."""
        bent = (self.measured_share < MEASURED) | (not self.statistic.exact)
        return bool((bent & self.answered).any()) and self.atoms.shape is not None

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
        if isinstance(self.evidence, FieldEvidence):  # whose intervals hold the rest, by its drift
            return np.ones(len(self.value), dtype=bool)
        return np.asarray(self.measured_share >= ANSWERED)

    def covariances(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What sampling, privacy noise and rows that stand in give all numbers together."""
        size = len(self.value)
        sampling = np.zeros((size, size))
        if self.target == "population":
            centred = self.projected - self.weights @ self.projected
            sampling = centred.T @ (self.weights[:, None] * centred) / self.evidence.total[0]
        noise = joint_noise(self.evidence, self.linear, self.about)
        rest = self.influence - self.projected
        rest = rest - self.reach @ rest
        return sampling, noise, self.drift * (rest.T @ (self.reach[:, None] * rest))

    def replayed(self, replay: Evidence) -> np.ndarray:
        """The studentised error of the estimate on a replay, whose truth is this model."""
        weights = self.atoms.weights(replay)
        value = self.stepped(replay, self.statistic.value(weights), weights)
        spread = np.sqrt(self._sampling(weights) + self.noise + self.rows)
        return np.asarray((value - self.fitted) / np.maximum(spread, 1e-300))

    def repeated(self, again: Evidence, rng: np.random.Generator) -> np.ndarray:
        """The studentised error on a release made anew, with marginals of its own choice."""
        other = Problem(again, self.question, self.target, rng)
        error = np.maximum(other.error * other.size, 1e-300)
        return np.asarray((other.value * other.size - self.fitted * self.size) / error)

    def conclude(self, confidence: float, errors: np.ndarray | None) -> Estimates:
        """The estimate with its interval, from studentised errors of replays, if any."""
        z = float(norm.ppf(0.5 + confidence / 2))
        below = above = np.full(len(self.value), z)
        if errors is not None and len(errors) >= _MANY:
            tail = (1 - confidence) / 2
            above, below = np.quantile(errors, [tail, 1 - tail], axis=0) * [[-1.0], [1.0]]
        elif errors is not None and len(errors) > 1:
            mean, spread = errors.mean(axis=0), errors.std(axis=0, ddof=1)
            # As sure as so few replays allow.
            below, above = mean + z * spread, z * spread - mean
        error, value = self.error, self.value
        low, high = value - below * error, value + above * error
        least, most = self.statistic.limits
        if isinstance(self.statistic, Ratios) and self.statistic.apart and errors is None:
            value, low, high = ratios.differ(self, self.statistic, z)
        # Replays are drawn from the model, and so know nothing of what was not measured.
        middle, half = (low + high) / 2, np.hypot((high - low) / 2, z * np.sqrt(self.unmeasured))
        low, high = kept_inside(middle - half, middle + half, error, least, most)
        size = self.size
        there = np.where(self.answered, size, np.nan)
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

    def stepped(self, evidence: AnyEvidence, fitted: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The model's value, moved by what the answers say of its projected influence."""
        answers = np.array([line.value(evidence) for line in self.linear])  # type: ignore[arg-type]
        return fitted + answers - weights @ self.projected

    def _sampling(self, weights: np.ndarray) -> np.ndarray:
        if self.target == "table":
            return np.zeros(self.projected.shape[1])
        rows = self.evidence.total[0]
        # One row more where the model holds none: its empty cells need not be empty.
        reach = np.ptp(self.projected, axis=0) / rows
        return np.asarray(_variance(weights, self.projected) / rows + reach**2)


def kept_inside(
    low: np.ndarray, high: np.ndarray, error: np.ndarray, least: float, most: float
) -> tuple[np.ndarray, np.ndarray]:
    """An interval cut to what is possible, never narrower than one standard error for that."""
    low, high = np.minimum(low, most - error), np.maximum(high, least + error)
    return np.maximum(low, least), np.minimum(high, most)


def _variance(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    mean = weights @ values
    return np.asarray(np.maximum(weights @ np.square(values) - np.square(mean), 0.0))
