"""Weights from a logistic regression without any protection: a reference for research."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from marginalsyn.weights.logistic import LinearConfig, LinearEstimator

if TYPE_CHECKING:
    from marginalsyn.contract import Target
    from marginalsyn.privacy.budget import Budget


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

    def configure(self, target: Target, budget: Budget) -> LinearEstimator:
        regression = self.regression(target, budget.neighbours, lambda _: 0.0)
        return LinearEstimator(regression=regression)
