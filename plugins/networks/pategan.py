"""PATE-GAN: a student learns noisy votes of teachers, and the generator learns from the student.

Teachers that vote on generated rows, and the student that learns from their noisy votes.

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
from functools import cached_property, partial
from typing import Any

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.contract import Plan, Synthesis, option
from marginalsyn.errors import UsageError
from marginalsyn.plugins.networks.adversarial import (
    ANCHOR,
    BATCH,
    COUNTS,
    GENERATOR_HIDDEN,
    GENERATOR_RATE,
    LATENT,
    Layout,
    Maker,
    MakerConfig,
    MakerGenerator,
    MakerNetwork,
    score_rows,
)
from marginalsyn.plugins.networks.heads import Heads
from marginalsyn.plugins.networks.tensorflow_engine import Network
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.privacy.streams import Key, need_key
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.progress import Progress
from marginalsyn.table.schema import Schema
from marginalsyn.weights.dense import Adam, pack_layers

# What is added to the covariance of generated rows' features, as a share of its mean variance.
_RIDGE = 0.01
_NEWTON_STEPS = 8
# Private rows' features are summed in whole multiples of this: a sum of floats would depend on the
# order of its terms, so that one row could turn the vote of a teacher that it does not belong to.
_GRID = 2.0**-20
# Rows whose vectors are in memory at a time.
_CHUNK = 65_536
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
    codes: np.ndarray, heads: Heads, teachers: int, key: Key
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Deal private rows to teachers by the key: yield some rows' vectors and the teacher of each.

    Args:
        codes: of all rows.
        heads: of the columns.
        teachers: how many.
        key: from ``noise.key()``.
    """
    marks = heads.marks(codes, need_key(key, "which teacher a row belongs to"))
    for start in range(0, len(codes), _CHUNK):
        part = slice(start, start + _CHUNK)
        vectors = heads.keyed_rows(codes[part], key, marks[part], 0)
        yield vectors, key.integers(marks[part], teachers)


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
        return np.tanh(rounded @ self.kernel + self.bias)


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
        found = ((queries - space.centre) @ directions.T > 0).sum(axis=1)
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


VOTES = "votes of the teachers"
MOST_TEACHERS = 20_000
_FAKES = 2000


@dataclass(frozen=True, kw_only=True)
class PATEGANConfig(MakerConfig):
    """Private aggregation of teachers, for a generator (Jordon, Yoon and van der Schaar 2019).

    Every private row belongs to one teacher, by a secret key and the row's content. In each round
    the teachers vote on generated rows; the counts of votes get Gaussian noise; a student
    learns the noisy shares, and the generator learns from the student. A row that comes or goes
    changes one teacher, so each count of votes by at most one; a row that is replaced, two.

    The cost is fixed before training: so many queries in zCDP, whatever the votes are. (The
    published accountant computes its epsilon from the votes: that number is itself a leak.)
    Teachers are linear discriminants on public random features, and so is the student, whose
    log-odds can serve as weights (method ``discriminator``) at no further cost.

    Example:
        >>> PATEGANConfig(queries=1000).rounds
        40
    """

    name = "pategan"
    summary = "adversarial network that learns from noisy votes of many teachers"
    audit_options = {
        "queries": 4,
        "rounds": 2,
        "teachers": 3,
        "features": 4,
        "generator_hidden": (2,),
        "latent": 1,
        "moves": 1,
    }
    ranges = {
        "queries": (1, 10**6),
        "rounds": (1, 10_000),
        "teachers": (1, MOST_TEACHERS),
        "teacher_rows": (0.1, 1e6),
        "features": (1, 4096),
        "marginals": (0.001, 0.9),
        "anchor": (0, 1e6),
        "settle": (0, 0.9),
        "latent": (0, 1024),
        "generator_rate": (1e-6, 1),
        "moves": (1, 10_000),
    }

    queries: int = option(4000, "Number of votes; the more votes, the more noise on each.")
    rounds: int = option(
        40, "Number of rounds of votes, each followed by training steps of the generator."
    )
    teachers: int | None = option(
        None, "Number of teachers. [default: the estimated number of rows / teacher_rows]"
    )
    teacher_rows: float = option(2.0, "Approximate number of rows per teacher.")
    features: int = option(128, "Number of random features that the teachers and the student see.")
    marginals: float = option(0.2, "Share of the budget for one-way marginals.")
    anchor: float = ANCHOR
    settle: float = option(
        0.25, "Share of the rounds that train the student against the finished generator."
    )
    generator_hidden: tuple[int, ...] = GENERATOR_HIDDEN
    latent: int = LATENT
    generator_rate: float = GENERATOR_RATE
    moves: int = option(
        20, "Number of training steps of the generator per round. Costs no privacy."
    )

    score = staticmethod(partial(score_rows, "student"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.queries < self.rounds:
            raise UsageError(f"queries ({self.queries}) must be at least rounds ({self.rounds})")

    def configure(self, schema: Schema, budget: Budget) -> PATEGAN:
        return PATEGAN(config=self, schema=schema, budget=budget)


class PATEGAN(MakerGenerator):
    """Calibrated: one-way marginals, then a public number of noisy counts of votes."""

    config: PATEGANConfig

    @property
    def counts_rho(self) -> float:
        return self.budget.gaussian * self.config.marginals

    @property
    def votes_rho(self) -> float:
        return self.budget.gaussian - self.counts_rho

    @property
    def counts_sigma(self) -> float:
        share = self.counts_rho / len(self.schema.names) * (1 - 1e-12)
        return gaussian_sigma(share, l2=self.budget.neighbours.l2)

    @cached_property
    def votes_sigma(self) -> float:
        """The noise in one count of votes: all queries together cost ``votes_rho``."""
        return gaussian_sigma(self.votes_rho * (1 - 1e-12), l2=self.reach(self.config.queries))

    def reach(self, queries: int) -> float:
        """How much one row changes the counts of so many votes."""
        return vote_reach(queries, self.budget.neighbours)

    @property
    def cost(self) -> tuple[Charge, ...]:
        details = {"queries": self.config.queries, "sigma": self.votes_sigma}
        return (self.budget.gaussian_charge(f"{COUNTS} and {VOTES}", details),)

    @property
    def facts(self) -> dict[str, Any]:
        """Public numbers for the statement."""
        return {
            "queries": self.config.queries,
            "rounds": self.config.rounds,
            "votes_sigma": self.votes_sigma,
            "counts_sigma": self.counts_sigma,
        }

    @property
    def plan(self) -> Plan:
        return Plan(
            split={"marginals": self.counts_rho, "votes": self.votes_rho},
            workload=[(name,) for name in self.schema.names],
            facts=self.facts,
        )

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        config, rng = self.config, visit.noise.post

        # Measure.
        singles = [(name,) for name in self.schema.names]
        measured, counted, heads = self.count(visit, progress, singles, self.counts_sigma)
        total, _ = counted

        # Train: of private rows, only noisy counts of votes leave their teachers.
        progress.report("train", fraction=0.0, text="TensorFlow")
        features = RandomFeatures.draw(heads.width, config.features, rng)
        count = config.teachers or round(total / config.teacher_rows)
        count = min(max(count, 1), MOST_TEACHERS)
        dealt = deal_rows(visit.all_rows().values, heads, count, visit.noise.key())
        teachers = Teachers.train(dealt, features, count)
        making = MakerNetwork(Layout(heads, (), config.latent), config.generator_hidden, rng)
        maker, student = self._play(visit, heads, features, teachers, total, making, progress)

        # Generate: post-processing from here on.
        progress.report("generate")
        return self.draw(
            visit,
            maker,
            measured,
            counted,
            scorer=pack_layers("student", student),
            meta={"given": []},
            notes={"teachers": count, **self.facts},
        )

    def _play(
        self,
        visit: Visit,
        heads: Heads,
        features: RandomFeatures,
        teachers: Teachers,
        total: float,
        making: MakerNetwork,
        progress: Progress,
    ) -> tuple[Maker, list[tuple[np.ndarray, np.ndarray]]]:
        """Train student and generator by rounds of votes; the last rounds train the student
        alone.
        """
        config, rng = self.config, visit.noise.post
        count = len(teachers.rows)
        network = Network(heads.width, (config.features,), rng)
        gradient = making.gradient_against(network, config.anchor)
        adam = Adam(making.parameters.size, config.generator_rate)
        # A teacher's vote varies by at most 1/2 about its expectation; the rest is noise.
        label_sd = float(np.hypot(self.votes_sigma / count, 0.5 / np.sqrt(count)))
        student = Student(teacher_rows=max(total / count, 0.1), label_sd=label_sd)
        shared = config.rounds - max(1, round(config.settle * config.rounds))
        path, kept = np.zeros(making.parameters.size), 0
        maker = making.maker()
        layers = []
        for number, queries in enumerate(_rounds(config.queries, config.rounds)):
            progress.report("train", fraction=number / config.rounds, text=f"round {number}")
            fakes = features(heads.rows(maker.codes(_FAKES + queries, rng), rng))
            space, asked = FeatureSpace.of(fakes[:_FAKES]), fakes[_FAKES:]
            votes, reach = teachers.votes(space, asked), self.reach(queries)
            noisy = visit.draw(visit.gaussian(self.votes_sigma), votes, l2=reach, purpose=VOTES)
            student.learn(space, asked, noisy / count)
            layers = student.layers(features, space)
            if number >= shared:
                continue
            network.assign(np.concatenate([part.ravel() for layer in layers for part in layer]))
            for _ in range(config.moves):
                making.parameters = making.parameters - adam.move(gradient(BATCH, rng))
                if number >= shared // 2:
                    path, kept = path + making.parameters, kept + 1
            maker = making.maker(path / kept if number == shared - 1 else None)
        return maker, layers


def _rounds(queries: int, rounds: int) -> Iterator[int]:
    """The number of queries of every round."""
    for number in range(rounds):
        yield queries * (number + 1) // rounds - queries * number // rounds
