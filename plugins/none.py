"""All weights equal to one: the release as it is, as a weight column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from marginalsyn.contract import LogWeights, Plan

if TYPE_CHECKING:
    from marginalsyn.budget import Budget, Charge
    from marginalsyn.contract import Target
    from marginalsyn.progress import Progress


@dataclass(frozen=True, kw_only=True)
class NoneConfig:
    """No weighting: it costs nothing, reads nothing, and serves as the baseline.

    Example:
        >>> NoneConfig().name
        'none'
    """

    name: ClassVar[str] = "none"
    summary: ClassVar[str] = "all weights one; costs nothing"
    reference: ClassVar[str] = ""
    private: ClassVar[bool] = True
    reads: ClassVar[bool] = False

    def configure(self, target: Target, budget: Budget) -> Unweighted:
        return Unweighted(rows=len(target.frame))


@dataclass(frozen=True, kw_only=True)
class Unweighted:
    """As many ones as there are rows."""

    rows: int

    @property
    def cost(self) -> tuple[Charge, ...]:
        return ()

    @property
    def plan(self) -> Plan:
        return Plan(noise=0.0, kept=0.0)

    def __call__(self, rows: None, *, progress: Progress) -> LogWeights:
        return LogWeights(values=np.zeros(self.rows))
