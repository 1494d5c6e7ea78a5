"""Kernel mean embedding: one noisy mean of random features, and points fitted to it for free."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.contract import Plan, Synthesis, option
from marginalsyn.errors import UsageError
from marginalsyn.graphical.estimation import warn_of_noise
from marginalsyn.plugins.points.point_generator import (
    BANDWIDTH,
    BANDWIDTH_SHARE,
    CountedConfig,
    PointGenerator,
    averaged,
    check_whole,
    count_rows,
)
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge
from marginalsyn.privacy.zcdp import gaussian_sigma

if TYPE_CHECKING:
    from marginalsyn.access.visit import Visit
    from marginalsyn.plugins.points.fourier_features import RandomFourierFeatures
    from marginalsyn.progress import Progress
    from marginalsyn.table.schema import Schema

PUBLIC_SEED = 20_180_710  # of the waves: public geometry, the same for everybody


@dataclass(frozen=True, kw_only=True)
class KMEConfig(CountedConfig):
    """The mean of the rows in random Fourier features, with one Gaussian noise (Balog et al. 2018).

    Every row is a vector of one length, whatever the row, so the sensitivity of the sum is a
    constant and the guarantee is exact. Points are then fitted to the noisy mean (Algorithm 2 of
    Balog, Tolstikhin and Schoelkopf), as many and as often as one likes. It is the baseline that
    support points are compared with.

    Example:
        >>> generator = KMEConfig(rows=5000).configure(schema, Budget(eps=1))
        >>> round(generator.cost[0].cost.mu, 4)
        0.182
    """

    name = "kme"
    summary = (
        "kernel mean embedding: a noisy mean of random features, points fitted for free; exact"
    )
    audit_options = {
        "points": 1,
        "features": 2,
        # So narrow that some rows lie at opposite ends of a wave.
        "kernel_width": 0.02,
        "bandwidth": "0.1",
    }

    points: int = option(200, "Number of fitted points; public. More points cost no privacy.")
    features: int = option(500, "Number of random waves, each a cosine and a sine.")
    kernel_width: float = option(
        0.3, "The kernel's standard deviation, as a share of the largest possible distance."
    )
    total_share: float = option(
        0.05, "Share of the budget for the number of rows, if that is private."
    )
    bandwidth: str = BANDWIDTH
    bandwidth_share: float = BANDWIDTH_SHARE

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("features", self.features, 1, 100_000)
        if not 0.001 <= self.kernel_width <= 10:
            raise UsageError(f"kernel_width ({self.kernel_width}) must be from 0.001 to 10")

    def configure(self, schema: Schema, budget: Budget) -> KME:
        """One Gaussian measurement, after the number of rows."""
        return KME(config=self, schema=schema, budget=budget)


class KME(PointGenerator):
    """Calibrated: the waves are public, and so is the noise."""

    config: KMEConfig
    main, exact = "embedding", True

    @cached_property
    def feature_map(self) -> RandomFourierFeatures:
        from marginalsyn.plugins.points.fourier_features import RandomFourierFeatures

        rng, config = np.random.default_rng(PUBLIC_SEED), self.config
        return RandomFourierFeatures.draw(
            self.metric.space, config.features, config.kernel_width, rng
        )

    @cached_property
    def sigma(self) -> float:
        """The noise of every sum, in units of the grid."""
        rho = self.budget.gaussian * self.shares["embedding"] * (1 - 1e-12)
        l2 = self.feature_map.sensitivity(self.budget.neighbours, averaged=averaged(self.schema))
        return gaussian_sigma(rho, l2=l2)

    @property
    def cost(self) -> tuple[Charge, ...]:
        details = {"features": self.config.features, "sigma": self.sigma}
        law, cost = self.budget.gaussian_law, self.budget.gaussian_cost
        return (self.budget.charge(law, "kernel mean embedding", cost, details),)

    @property
    def plan(self) -> Plan:
        """Shares, the features and the noise."""
        facts = {
            "points": self.config.points,
            "features": self.config.features,
            "coordinates": self.metric.space.dimension,
            "sigma": self.sigma,
            "guarantee": "exact",
        }
        return Plan(split=self.split, facts=facts)

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        config, feature_map, rng = self.config, self.feature_map, visit.noise.post

        # Measure.
        progress.report("measure", text="mean of the features")
        total, spread = count_rows(visit, self.budget.gaussian * self.shares["number of rows"])
        sums, _ = feature_map.measure(self.metric.weighed(visit), visit.whole)
        l2 = feature_map.sensitivity(visit.neighbours, averaged=visit.whole > 1)
        released = visit.draw(visit.gaussian(self.sigma), sums, l2=l2, purpose="mean embedding")

        # Estimate: post-processing, free of privacy cost unless a bandwidth is bought.
        progress.report("estimate", text="fit points to the mean")
        mean = feature_map.mean(released, total, self.sigma)
        points = feature_map.fit(mean, config.points, rng)

        # Generate.
        return self.draw(
            visit,
            points,
            progress,
            loss=lambda drawn: feature_map.loss(mean, drawn),
            arrays={"released": released},
            warnings=warn_of_noise(total, spread) if spread else (),
            notes={"estimated_rows": total, "estimated_rows_sd": spread},
        )
