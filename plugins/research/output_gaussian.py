"""Weights with Gaussian noise on every log-weight; noise on the coefficients is better."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from marginalsyn.contract import LogWeights, Plan, Target
from marginalsyn.privacy.budget import Budget
from marginalsyn.progress import Progress
from marginalsyn.weights.coefficients import CoefficientNoise, LawName, NoisyRegression
from marginalsyn.weights.logistic import LinearConfig, Regression

PURPOSE = "log-weights of the synthetic rows"
WORSE = (
    "output-* adds noise to every row's log-weight out of one budget; beta-noised, whose noise is "
    "on the coefficients, needs far less of it at the same cost"
)


@dataclass(frozen=True, kw_only=True)
class OutputGaussianConfig(LinearConfig):
    """The log-weights of a logistic regression, noised row by row. **Prefer beta-noised.**

    The vector of all log-weights moves by at most ||X|| D2 for one person, with X the synthetic
    rows' features less their mean, ||X|| its spectral norm and D2 the coefficients' sensitivity:
    the budget is for all rows together (Ghalebikesabi et al. 2022 state it for a single one).
    Noise on the coefficients gives all log-weights at once and, with Gaussian noise, never more of
    it.

    Example:
        >>> OutputGaussianConfig().law
        'gaussian'
    """

    name = "output-gaussian"
    summary = "Gaussian noise on every log-weight; beta-noised needs less"
    law: ClassVar[LawName] = "gaussian"

    def configure(self, target: Target, budget: Budget) -> OutputNoised:
        def deviation(regression: Regression) -> float:
            return _noise(regression, self.law, budget).deviation

        regression = self.regression(target, budget.neighbours, deviation)
        return OutputNoised(regression=regression, noise=_noise(regression, self.law, budget))


class OutputNoised(NoisyRegression):
    """Calibrated: one draw of noise for every synthetic row."""

    purpose = PURPOSE

    @property
    def plan(self) -> Plan:
        plan = super().plan
        return replace(plan, noise=self.noise.deviation, scores=False, warnings=[WORSE])

    @property
    def facts(self) -> dict[str, Any]:
        return {**super().facts, "log_weights_l2_sensitivity": self.noise.l2}

    def __call__(self, rows: Any, *, progress: Progress) -> LogWeights:
        solution = self.regression.fit(rows, progress)
        values = self.regression.log_odds(solution.beta)
        values -= float(self.regression.synthetic.mean @ solution.beta)
        progress.report("noise", text=self.noise.law)
        return LogWeights(
            values=self.noise.add(rows, values, PURPOSE),
            warnings=[WORSE],
            notes=self.facts,
            diagnostics={"gradient_norm": solution.slope},
        )


def _noise(regression: Regression, law: LawName, budget: Budget) -> CoefficientNoise:
    """Noise on the vector of log-weights, whose sensitivity is ||X|| times the coefficients'.

    ||X|| is the largest singular value of the synthetic rows' features less their mean.
    """
    design = regression.synthetic
    norm = float(np.sqrt(design.rows * design.variances[-1])) * (1 + 1e-9)
    l2 = max(norm, 1e-9) * regression.l2
    return CoefficientNoise(law=law, dim=max(design.rows, 1), l2=l2, budget=budget)


@dataclass(frozen=True, kw_only=True)
class OutputLaplaceConfig(OutputGaussianConfig):
    """As ``output-gaussian`` with Laplace noise, which is pure. **Prefer beta-noised.**

    The vector of N log-weights moves by at most sqrt(N) ||X|| D2 in l1, and the noise of each has
    that over eps as its scale: eps is for all rows together.

    Example:
        >>> OutputLaplaceConfig().law
        'laplace'
    """

    name = "output-laplace"
    summary = "Laplace noise on every log-weight; beta-noised needs less"
    law = "laplace"
