"""Support points by the exponential mechanism, sampled by Metropolis-Hastings: asymptotic only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.contract import Plan, Synthesis, option
from marginalsyn.errors import UsageError
from marginalsyn.plugins.points.driver import Schedule, run_chains, summarise
from marginalsyn.plugins.points.point_generator import (
    BANDWIDTH,
    BANDWIDTH_SHARE,
    NORM,
    CountedConfig,
    PointConfig,
    PointGenerator,
    candidates,
)
from marginalsyn.plugins.points.walks import Law, RandomWalk, make_law
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, Neighbours, Pure
from marginalsyn.privacy.laws import DiscreteLaplace
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.privacy.streams import need_secret
from marginalsyn.privacy.zcdp import exponential_eps
from marginalsyn.progress import Progress
from marginalsyn.table.energy import distance_matrix, stream_potential
from marginalsyn.table.schema import Schema

WHY = (
    "The points are the end of a Markov chain whose limit law has the stated eps. A chain stopped "
    "after finitely many steps is not a draw from that law, and no diagnostic bounds how far off "
    "it is for every possible table: the guarantee is asymptotic. support-points-gp and "
    "support-points-herding have an exact one."
)
PAPER = (
    "The score goes through the support points of the data (Algorithm 1 of Diesendruck 2019). One "
    "row can move all of them, so the sensitivity is twice the diameter however many rows there "
    "are, and that is what the charged eps is calibrated to."
)


@dataclass(frozen=True, kw_only=True)
class SupportPointsConfig(PointConfig):
    """Private support points: Diesendruck 2019, chapter 5 (dissertation, UT Austin).

    The exponential mechanism draws n points with a probability that falls with their energy
    distance to the private rows. ``score``: ``root-energy`` is the distance in the Hilbert space
    of the energy, whose sensitivity sqrt(2 diam) / N keeps the law sharp near the optimum;
    ``energy`` is its square, as the dissertation has it, with its exact sensitivity; ``paper``
    scores through the support points of the data.

    Example:
        >>> generator = SupportPointsConfig(points=20).configure(schema, Budget(eps=5))
        >>> generator.cost[0].cost.eps
        5.0
    """

    name = "support-points"
    summary = (
        "few points by the exponential mechanism and Metropolis-Hastings; asymptotic guarantee"
    )
    audit_options = {"points": 1, "steps": 500, "burn": 100, "chains": 1}
    ranges = {
        "chains": (1, 256), "steps": (1, 10**9), "burn": (0, 10**9), "releases": (1, 1000)
    }  # fmt: skip

    points: int = option(50, "Number of support points; public.")
    score: Literal["root-energy", "energy", "paper"] = option(
        "root-energy",
        "The score of the exponential mechanism: root-energy (the best), energy, or paper "
        "(compares with the data's own support points; nearly useless once calibrated correctly).",
    )
    chains: int = option(
        4, "Number of chains. The diagnostics compare them; the first one is released."
    )
    steps: int = option(20_000, "Number of steps per chain after burn-in.")
    burn: int = option(5_000, "Number of burn-in steps per chain; they also tune the step size.")
    releases: int = option(1, "Number of independent draws to release. Their costs add up.")
    bandwidth: str = BANDWIDTH
    bandwidth_share: float = BANDWIDTH_SHARE
    p: float = NORM

    def configure(self, schema: Schema, budget: Budget) -> SupportPoints:
        """A pure budget for the points, and a part of it for a privately chosen bandwidth."""
        if self.score == "paper" and self.p != 2.0:
            raise UsageError(f"p ({self.p}) must be 2 with the score paper; take root-energy")
        return SupportPoints(config=self, schema=schema, budget=budget)


class SupportPoints(PointGenerator):
    """Calibrated: eps (or rho) split over the releases."""

    config: SupportPointsConfig

    @property
    def eps_each(self) -> float:
        """One release's eps: basic composition, or zCDP's where there are many of them."""
        main, releases = 1.0 - self.width_share, self.config.releases
        if self.bandwidth_eps or releases == 1:
            return self.budget.pure * main / releases
        # A bounded-range draw costs eps^2 / 8 in rho (Cesar and Rogers 2021).
        many = exponential_eps(self.budget.rho / releases) * (1 - 1e-9)
        return max(self.budget.pure / releases, many)

    @property
    def bandwidth_eps(self) -> float:
        return self.budget.pure * self.width_share

    @property
    def cost(self) -> tuple[Charge, ...]:
        config = self.config
        details: dict[str, Any] = {
            "score": config.score,
            "points": config.points,
            "chains": max(config.chains, config.releases),
            "steps": config.steps,
            "burn": config.burn,
            "kernel": "random-walk",
            "diameter": self.metric.space.diameter,
        }
        if config.score == "paper":
            details["calibration"] = PAPER
        draw = Charge(
            mechanism="exponential mechanism, sampled by Metropolis-Hastings",
            purpose="support points",
            neighbours=self.budget.neighbours,
            guarantee="asymptotic",
            cost=Pure(eps=self.eps_each, bounded_range=True),
            details=details,
        )
        charges = (draw,) * config.releases
        if not self.bandwidth_eps:
            return charges
        cost = Pure(eps=self.bandwidth_eps, bounded_range=True)
        return (*charges, self.budget.charge(config.bandwidth, "bandwidth", cost))

    @property
    def coefficient(self) -> float:
        """What multiplies the summed score of the rows in the exponent.

        Energy: sum_i e(x_i, Y) moves by 0 to 2 diam when a row is added and by at most 2 diam
        either way when one is replaced. Root: N sqrt(e) moves by at most sqrt(2 diam) under both.
        Paper: e(Y, Y*) moves by at most 2 diam either way.
        """
        diameter = self.metric.space.diameter
        if self.config.score == "root-energy":
            return self.eps_each / (2.0 * math.sqrt(2.0 * diameter))
        if self.config.score == "energy" and self.budget.neighbours is Neighbours.ADD_REMOVE:
            return self.eps_each / (2.0 * diameter)
        return self.eps_each / (4.0 * diameter)

    @property
    def plan(self) -> Plan:
        """What one draw may spend, before anything is read."""
        config = self.config
        share = self.width_share
        return Plan(
            split={"points": 1.0 - share, **({"bandwidth": share} if share else {})},
            facts={
                "eps_per_release": self.eps_each,
                "points": config.points * config.releases,
                "coordinates": self.metric.space.dimension,
                "steps": (config.steps + config.burn) * max(config.chains, config.releases),
                "guarantee": "asymptotic",
            },
            warnings=(WHY, *([PAPER] if config.score == "paper" else [])),
        )

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        config = self.config
        for _ in range(config.releases):
            visit.pay(
                "exponential mechanism, Metropolis-Hastings",
                eps=self.eps_each,
                bounded_range=True,
                purpose="support points",
            )

        # The chains' ends are one answer: stopped before, chains start again when a run goes on,
        # which is no second look, since nothing but the share of steps done was seen of them.
        diagnostics: dict[str, Any] = {"chains": "not looked at: they ended before an interruption"}

        def draw() -> np.ndarray:
            points, found = self._draw(visit, progress)
            diagnostics.clear()
            diagnostics.update(found)
            return points

        points = visit.noise.answer("support points", draw)

        # Generate.
        notes: dict[str, Any] = {"releases": config.releases}
        if config.score == "paper":
            notes["calibration"] = PAPER
            if visit.neighbours is Neighbours.REPLACE:
                # Line 2 of Algorithm 1 takes 2 diam (2 N - 1) / N^2 in place of 2 diam.
                count = max(visit.rows, 1)
                notes["eps_that_algorithm_1_would_claim"] = (
                    self.eps_each * (2 * count - 1) / count**2
                )
        return self.draw(
            visit, points, progress, warnings=[WHY], notes=notes, diagnostics=diagnostics
        )

    def _draw(self, visit: Visit, progress: Progress) -> tuple[np.ndarray, dict[str, Any]]:
        """The released chains' ends, and figures of all chains for the curator."""
        config, metric = self.config, self.metric
        # The guarantee is about the law of the chains' ends over their own moves, which meet the
        # exact potentials: whoever knows the moves knows more than the points tell.
        moves = need_secret(visit.noise.secret(), "support points")

        # Score: the law of the exponential mechanism.
        progress.report("score")
        parts = list(metric.batches(visit))
        rows = np.concatenate([np.empty((0, metric.space.dimension)), *parts])
        target = self._target(rows, moves)

        # Sample.
        run = run_chains(
            RandomWalk(target, config.points),
            moves,
            Schedule.tuned(target.coefficient, steps=config.steps, burn=config.burn),
            chains=max(config.chains, config.releases),
            report=lambda done: progress.report("sample", fraction=done),
        )
        points = np.concatenate([s.points for s in run.states[: config.releases]])
        for _ in range(config.releases):
            visit.drew("Markov chain")
        return points, summarise(run)

    def _target(self, rows: np.ndarray, rng: np.random.Generator) -> Law:
        from marginalsyn.plugins.points.fitting import mixed_support_points

        config, space = self.config, self.metric.space
        if not len(rows):
            # The law is uniform; the chains run all the same, for nobody shall see that they need
            # not.
            place = np.zeros((1, space.dimension))
            return make_law(place, coefficient=0.0, root=False, space=space, offset=0.0)
        if config.score == "paper":
            rows = mixed_support_points(rows, config.points, space, rng)
            return make_law(rows, coefficient=self.coefficient, root=False, space=space)
        root = config.score == "root-energy"
        # The rows' own term cancels in the energy's law; under the root it does not.
        return make_law(
            rows,
            coefficient=self.coefficient * len(rows),
            root=root,
            space=space,
            offset=None if root else 0.0,
        )


@dataclass(frozen=True, kw_only=True)
class SupportPointsHerdingConfig(CountedConfig):
    """Sequential conditional exponential mechanism on the energy of Diesendruck 2019.

    Given the points chosen so far, the energy after adding candidate g is, up to what does not
    depend on g, sum_i |x_i - g| - (N / t) sum_k |g - y_k|. Only the first sum depends on rows, and
    one row moves it by at most the diameter. Every draw is exact, and the draws compose adaptively.

    Example:
        >>> generator = SupportPointsHerdingConfig(points=20).configure(schema, Budget(eps=5))
        >>> round(generator.cost[0].cost.rho, 4)
        0.3117
    """

    name = "support-points-herding"
    summary = "few points, one exact draw of the exponential mechanism each; exact guarantee"
    audit_options = {"points": 3, "candidates": 16}
    ranges = {"candidates": (2, 20_000)}

    points: int = option(50, "Number of support points; public.")
    candidates: int = option(
        1024, "Approximate size of the public set that points are chosen from."
    )
    composition: Literal["zcdp", "pure"] = option(
        "zcdp",
        "How the costs of the draws add up: zcdp (better from about ten points on) or pure "
        "(delta is 0).",
    )
    total_share: float = option(
        0.1, "Share of the budget for the number of rows, if that is private."
    )
    bandwidth: str = BANDWIDTH
    bandwidth_share: float = BANDWIDTH_SHARE
    p: float = NORM

    def configure(self, schema: Schema, budget: Budget) -> SupportPointsHerding:
        """The number of rows, the bandwidth if it is bought, and n equal draws."""
        return SupportPointsHerding(config=self, schema=schema, budget=budget)


class SupportPointsHerding(PointGenerator):
    """Calibrated: n draws of equal eps."""

    config: SupportPointsHerdingConfig

    @property
    def eps_each(self) -> float:
        """What one draw may spend: n eps^2 / 8 in rho, or n eps."""
        share, points = self.shares["points"] * (1 - 1e-12), self.config.points
        if self.config.composition == "pure":
            return self.budget.pure * share / points
        return math.sqrt(8.0 * self.budget.rho * share / points)

    @property
    def cost(self) -> tuple[Charge, ...]:
        pure = self.config.composition == "pure"
        mechanism, purpose = "exponential mechanism, drawn exactly", "support points, one at a time"
        cost = Pure(eps=self.budget.pure) if pure else None
        details = {"points": self.config.points, "eps_per_point": self.eps_each}
        return (self.budget.charge(mechanism, purpose, cost, details=details),)

    @property
    def plan(self) -> Plan:
        """Shares, and what one draw may spend."""
        return Plan(
            split=self.split,
            facts={
                "eps_per_point": self.eps_each,
                "points": self.config.points,
                "coordinates": self.metric.space.dimension,
                "guarantee": "exact",
            },
        )

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:

        config, metric = self.config, self.metric
        space = metric.space

        # Measure: the number of rows, which sets the strength of the repulsion.
        total, spread = self._count(visit)

        # Select: one point at a time.
        progress.report("measure", text="potentials of the candidates")
        places = candidates(space, config.candidates)
        sums, _ = stream_potential(metric.weighed(visit), places, space=space, whole=visit.whole)
        added = visit.neighbours is Neighbours.ADD_REMOVE
        # A row adds a number between 0 and the diameter to every candidate's sum, and so does the
        # average of a person's rows; replacing one moves it by at most the diameter either way.
        sensitivity = space.diameter / 2.0 if added else space.diameter
        repulsion, chosen = np.zeros(len(places)), []
        for t in range(1, config.points + 1):
            law = ExponentialMechanism(self.eps_each, sensitivity)
            index = visit.draw(law, total / t * repulsion - sums, purpose="support point")
            chosen.append(index)
            repulsion += distance_matrix(places[[index]], places, space=space)[0]
            progress.report("select", fraction=t / config.points)
        points = places[chosen]

        # Generate.
        notes = {"estimated_rows": total, "estimated_rows_sd": spread}
        return self.draw(visit, points, progress, notes=notes)

    def _count(self, visit: Visit) -> tuple[float, float]:
        share = self.shares["number of rows"]
        if self.config.composition == "zcdp" or not share:
            return self.count_rows(visit)
        eps = self.budget.pure * share * (1 - 1e-12)
        # So many persons are whole, though their counts elsewhere are not.
        rows = np.rint(visit.counts(())).astype(np.int64)
        noisy = visit.draw(DiscreteLaplace(1.0 / eps), rows, l1=1.0, purpose="number of rows")
        return float(max(int(noisy), 1)), math.sqrt(2.0) / eps

    @property
    def bandwidth_eps(self) -> float:
        if self.config.composition == "pure":
            return self.budget.pure * self.width_share
        return super().bandwidth_eps
