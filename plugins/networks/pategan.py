"""PATE-GAN: a student learns noisy votes of teachers, and the generator learns from the student."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.contract import Plan, Synthesis, option
from marginalsyn.errors import UsageError
from marginalsyn.graphical.estimation import known_total
from marginalsyn.plugins.networks.adversarial import Maker, MakerNetwork
from marginalsyn.plugins.networks.heads import Heads, shares_of
from marginalsyn.plugins.networks.makers import (
    ANCHOR,
    COUNTS,
    GENERATOR_HIDDEN,
    GENERATOR_RATE,
    LATENT,
    MakerConfig,
    MakerGenerator,
    score_rows,
)
from marginalsyn.plugins.networks.teachers import (
    FeatureSpace,
    RandomFeatures,
    Student,
    Teachers,
    deal_rows,
    vote_reach,
)
from marginalsyn.plugins.networks.tensorflow_engine import Network
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.table.row_identity import ranked
from marginalsyn.weights.dense import Adam, pack_layers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from marginalsyn.access.visit import Visit
    from marginalsyn.progress import Progress
    from marginalsyn.table.schema import Schema

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
        law, cost = self.budget.gaussian_law, self.budget.gaussian_cost
        return (self.budget.charge(law, f"{COUNTS} and {VOTES}", cost, details),)

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
        progress.report("measure", text=COUNTS)
        looks = [(name,) for name in self.schema.names]
        measured = [visit.measure(c, self.counts_sigma, purpose=COUNTS) for c in looks]
        visit.review(measured)
        total, spread = known_total(visit, measured)
        heads = Heads(self.schema, shares_of(measured, total))

        # Train: of private rows, only noisy counts of votes leave their teachers.
        progress.report("train", fraction=0.0, text="TensorFlow")
        features = RandomFeatures.draw(heads.width, config.features, rng)
        count = config.teachers or round(total / config.teacher_rows)
        count = min(max(count, 1), MOST_TEACHERS)
        rows = ranked(
            lambda: (b.values for b in visit.batches()), heads.sizes, int(visit.counts(()))
        )
        teachers = Teachers.train(deal_rows(rows, heads, count, visit.noise.key()), features, count)
        making = MakerNetwork(heads, (), config.latent, config.generator_hidden, rng)
        maker, student = self._play(visit, heads, features, teachers, total, making, progress)

        # Generate: post-processing from here on.
        progress.report("generate")
        return self.draw(
            visit,
            maker,
            measured,
            (total, spread),
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
        layers: list[tuple[np.ndarray, np.ndarray]] = []
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
                making.parameters = making.parameters - adam.move(gradient(256, rng))
                if number >= shared // 2:
                    path, kept = path + making.parameters, kept + 1
            maker = making.maker(path / kept if number == shared - 1 else None)
        return maker, layers


def _rounds(queries: int, rounds: int) -> Iterator[int]:
    """The number of queries of every round."""
    for number in range(rounds):
        yield queries * (number + 1) // rounds - queries * number // rounds
