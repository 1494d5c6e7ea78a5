"""Teachers that vote on generated rows, and the student that learns from their noisy votes.

Teachers and student see rows through the same public random features. A teacher compares the mean
of its own rows with that of generated rows, and votes for a row that lies on its rows' side. A
secret key assigns every private row to a teacher by the row's content and its rank among equal
rows. So under any key, adding or removing a row changes one teacher, and each count of votes by at
most one; replacing a row may change two teachers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from marginalsyn.plugins.networks.heads import Heads
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.streams import Key, need_key
from marginalsyn.table.occurrences import unpack

# What is added to the covariance of generated rows' features, as a share of its mean variance.
_RIDGE = 0.01
_NEWTON_STEPS = 8
# Private rows' features are summed in whole multiples of this: a sum of floats would depend on the
# order of its terms, so that one row could turn the vote of a teacher that it does not belong to.
_GRID = 2.0**-20
# Vectors and directions are whole multiples of these, and directions bounded, so that their
# products add up without rounding: a row's features depend on it alone to the last bit, wherever
# in a batch it stands.
_VECTOR_GRID, _KERNEL_GRID, _MOST = 2.0**-12, 2.0**-20, 16.0


def vote_reach(queries: int, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> float:
    """The most that one row changes the counts of votes on ``queries`` rows, in Euclidean norm.

    A teacher that changes may turn all of its votes: one teacher if a row is added or removed, two
    if it is replaced.
    """
    return neighbours.l1 * math.sqrt(queries)


def deal_rows(
    rows: Iterable[tuple[np.ndarray, np.ndarray]], heads: Heads, teachers: int, key: Key
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Deal private rows to teachers by the key: yield the rows' vectors and the teacher of each.

    Args:
        rows: words and ranks, see :func:`marginalsyn.table.occurrences.ranked`.
        heads: of the columns.
        teachers: how many.
        key: from ``noise.key()``.
    """
    need_key(key, "which teacher a row belongs to")
    for words, ranks in rows:
        marks = key.marks(words, ranks)
        vectors = heads.keyed_rows(unpack(words, heads.sizes), key, marks, 0)
        yield vectors, key.integers(marks, teachers)


@dataclass(frozen=True)
class RandomFeatures:
    """Public random tanh features of rows' vectors."""

    kernel: np.ndarray
    bias: np.ndarray

    @classmethod
    def draw(cls, width: int, count: int, rng: np.random.Generator) -> RandomFeatures:
        """Draw ``count`` features, each with a random direction and threshold."""
        kernel = rng.standard_normal((width, count)) * (1.5 / math.sqrt(max(width, 1)) * 2.0)
        kernel = np.clip(np.rint(kernel / _KERNEL_GRID) * _KERNEL_GRID, -_MOST, _MOST)
        return cls(kernel, rng.uniform(-1.0, 1.0, count))

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        rounded = np.rint(vectors / _VECTOR_GRID) * _VECTOR_GRID
        found: np.ndarray = np.tanh(rounded @ self.kernel + self.bias)
        return found


@dataclass(frozen=True)
class Teachers:
    """The mean features of every teacher's rows; a teacher without rows casts no votes."""

    means: np.ndarray
    rows: np.ndarray

    @classmethod
    def train(
        cls, owned: Iterable[tuple[np.ndarray, np.ndarray]], features: RandomFeatures, teachers: int
    ) -> Teachers:
        """Average the features of every teacher's rows, as :func:`deal_rows` yields them."""
        sums = np.zeros((teachers, features.bias.size), dtype=np.int64)
        rows = np.zeros(teachers, dtype=np.int64)
        for vectors, owner in owned:
            np.add.at(sums, owner, np.rint(features(vectors) / _GRID).astype(np.int64))
            rows += np.bincount(owner, minlength=teachers)
        return cls(sums * _GRID / np.maximum(rows, 1)[:, None], rows)

    def votes(self, space: FeatureSpace, queries: np.ndarray) -> np.ndarray:
        """Count, for each row's features, the teachers who find it on their own rows' side."""
        directions = (self.means - space.centre) @ space.precision
        directions[self.rows == 0] = 0.0
        found: np.ndarray = ((queries - space.centre) @ directions.T > 0).sum(axis=1)
        return found.astype(np.int64)


@dataclass(frozen=True)
class FeatureSpace:
    """Mean and inverse covariance of generated rows' features."""

    centre: np.ndarray
    precision: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray) -> FeatureSpace:
        covariance = np.cov(features, rowvar=False, bias=True).reshape(2 * features.shape[1:])
        ridge = _RIDGE * max(float(np.trace(covariance)) / len(covariance), 1e-6)
        covariance = covariance + ridge * np.eye(len(covariance))
        return cls(features.mean(axis=0), np.linalg.inv(covariance), covariance)

    def lengths(self, features: np.ndarray) -> np.ndarray:
        """Mahalanobis distances from the centre."""
        away = features - self.centre
        return np.sqrt(np.maximum(((away @ self.precision) * away).sum(axis=1), 1e-12))


@dataclass
class Student:
    """The log-odds that a row is real, linear in its features, from noisy votes.

    A teacher of n rows knows the difference of the means up to noise of covariance S / n. So the
    share of teachers that vote for a row whose features lie z from the centre is
    Phi(sqrt(n) l / |z|), with l = w'z the linear discriminant's log-odds and |z| its length under
    S^-1: the votes tell the log-odds itself. ``w`` is fitted by penalised least squares, past
    rounds counting less.

    Attributes:
        teacher_rows: n, from the noisy number of rows.
        label_sd: standard deviation of the noise in a share of votes.
        memory: what a round counts for relative to the next one.
        spread: the prior standard deviation of the log-odds.
    """

    teacher_rows: float
    label_sd: float
    memory: float = 0.9
    spread: float = 1.0
    weights: np.ndarray = field(default_factory=lambda: np.empty(0))
    _rounds: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    def learn(self, space: FeatureSpace, queries: np.ndarray, shares: np.ndarray) -> None:
        """Add a round's noisy shares of votes and refit ``weights``."""
        away = queries - space.centre
        slopes = away * (math.sqrt(self.teacher_rows) / space.lengths(queries))[:, None]
        self._rounds.append((slopes, shares))
        ages = np.arange(len(self._rounds))[::-1]
        kept = [(r, self.memory**age) for r, age in zip(self._rounds, ages, strict=True)]
        kept = [(r, weight) for r, weight in kept if weight > 0.01]
        x = np.concatenate([slopes for (slopes, _), _ in kept])
        y = np.concatenate([shares for (_, shares), _ in kept])
        trust = np.concatenate([np.full(len(r[1]), weight) for r, weight in kept])
        self.weights = self._fit(x, y, trust / self.label_sd**2, space)

    def layers(
        self, features: RandomFeatures, space: FeatureSpace
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """The student as a network of one hidden layer."""
        last = (self.weights[:, None], np.array([-float(self.weights @ space.centre)]))
        return [(features.kernel, features.bias), last]

    def _fit(
        self, x: np.ndarray, y: np.ndarray, trust: np.ndarray, space: FeatureSpace
    ) -> np.ndarray:
        """Gauss-Newton steps on sum trust (y - Phi(x'w))^2 / 2 and the penalty."""
        from scipy.special import ndtr

        penalty = space.covariance * (len(space.centre) / self.spread**2)
        found = self.weights if self.weights.size else np.zeros(x.shape[1])
        for _ in range(_NEWTON_STEPS):
            at = np.clip(x @ found, -3.0, 3.0)
            density = np.exp(-(at**2) / 2) / math.sqrt(2 * math.pi)
            slopes = x * density[:, None]
            gap = y - ndtr(at) + density * at
            square = slopes.T @ (slopes * trust[:, None]) + penalty
            found = np.linalg.solve(square, slopes.T @ (trust * gap))
        return found
