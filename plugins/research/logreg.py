"""Weights from a logistic regression without any protection: a reference for research."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from marginalsyn.contract import LogWeights, Plan, WeightEstimator
from marginalsyn.weights.discrimination import LinearConfig, Regression

if TYPE_CHECKING:
    from marginalsyn.access.private_table import Unprotected
    from marginalsyn.contract import Target
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.progress import Progress


@dataclass(frozen=True, kw_only=True)
class LogregConfig(LinearConfig):
    """The regression of ``beta-noised`` without noise. **Not private.**

    Example:
        >>> LogregConfig().private
        False
    """

    name = "logreg"
    summary = "logistic regression without noise; not private, for research"
    private = False

    def configure(self, target: Target, budget: Budget) -> Logreg:
        return Logreg(regression=self.regression(target, budget.neighbours, lambda _: 0.0))


@dataclass(frozen=True, kw_only=True)
class Logreg(WeightEstimator):
    """Ready to fit. It costs no budget because it gives no privacy."""

    regression: Regression

    @property
    def plan(self) -> Plan:
        regression = self.regression
        return Plan(noise=0.0, kept=regression.kept, scores=True, facts=regression.facts)

    def __call__(self, rows: Unprotected, *, progress: Progress) -> LogWeights:
        solution = self.regression.fit(rows, progress)
        return LogWeights(
            values=self.regression.log_odds(solution.beta),
            score=self.regression.score(lambda x: x @ solution.beta),
            notes=self.regression.facts,
            diagnostics={"gradient_norm": solution.slope, "newton_steps": solution.steps},
        )
