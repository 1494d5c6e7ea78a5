"""Support points one at a time: the exponential mechanism, drawn exactly on public candidates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from marginalsyn.contract import Plan, Synthesis, option
from marginalsyn.plugins.points.point_generator import (
    BANDWIDTH,
    BANDWIDTH_SHARE,
    NORM,
    CountedConfig,
    PointGenerator,
    candidates,
    check_whole,
    count_rows,
)
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, Neighbours, Pure
from marginalsyn.privacy.laws import DiscreteLaplace
from marginalsyn.privacy.selection import ExponentialMechanism

if TYPE_CHECKING:
    from marginalsyn.access.visit import Visit
    from marginalsyn.progress import Progress
    from marginalsyn.table.schema import Schema


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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("candidates", self.candidates, 2, 20_000)

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
        from marginalsyn.table.energy import distance_matrix, stream_potential

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
            return count_rows(visit, self.budget.rho * share)
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
