"""Weights from a logistic regression without any protection: a reference for research."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from marginalsyn.contract import LogWeights, Plan
from marginalsyn.weights import REFERENCE, LinearConfig, Regression

if TYPE_CHECKING:
    from marginalsyn.budget import Budget, Charge
    from marginalsyn.contract import Target
    from marginalsyn.private import Unprotected
    from marginalsyn.progress import Progress


@dataclass(frozen=True, kw_only=True)
class LogregConfig(LinearConfig):
    """The regression of ``beta-noised`` without noise. **Not private.**

    Example:
        >>> LogregConfig().private
        False
    """

    name: ClassVar[str] = "logreg"
    summary: ClassVar[str] = "logistic regression without noise; not private, for research"
    reference: ClassVar[str] = REFERENCE
    private: ClassVar[bool] = False

    def configure(self, target: Target, budget: Budget) -> Logreg:
        return Logreg(regression=self.regression(target, budget.neighbours, lambda _: 0.0))


@dataclass(frozen=True, kw_only=True)
class Logreg:
    """Ready to fit. It costs no budget because it gives no privacy."""

    regression: Regression

    @property
    def cost(self) -> tuple[Charge, ...]:
        return ()

    @property
    def plan(self) -> Plan:
        regression = self.regression
        return Plan(noise=0.0, kept=regression.kept, scores=True, facts=regression.facts)

    def __call__(self, rows: Unprotected, *, progress: Progress) -> LogWeights:
        progress.report("fit", text=f"{self.regression.features.width} features")
        solution = self.regression.fit(rows)
        return LogWeights(
            values=self.regression.log_odds(solution.beta),
            score=self.regression.score(lambda x: x @ solution.beta),
            notes=self.regression.facts,
            diagnostics={"gradient_norm": solution.slope, "newton_steps": solution.steps},
        )
