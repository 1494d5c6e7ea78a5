"""All weights equal to one: the release as it is, as a weight column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginalsyn.contract import LogWeights, Plan, Target, WeightConfig, WeightEstimator
from marginalsyn.privacy.budget import Budget
from marginalsyn.progress import Progress


@dataclass(frozen=True, kw_only=True)
class NoneConfig(WeightConfig):
    """No weighting: it costs nothing, reads nothing, and serves as the baseline.

    Example:
        >>> NoneConfig().name
        'none'
    """

    name = "none"
    summary = "all weights one; costs nothing"
    reads = False

    def configure(self, target: Target, budget: Budget) -> Unweighted:
        return Unweighted(rows=len(target.frame))


@dataclass(frozen=True, kw_only=True)
class Unweighted(WeightEstimator):
    """As many ones as there are rows."""

    rows: int

    @property
    def plan(self) -> Plan:
        return Plan(noise=0.0, kept=0.0)

    def __call__(self, rows: None, *, progress: Progress) -> LogWeights:
        return LogWeights(values=np.zeros(self.rows))
