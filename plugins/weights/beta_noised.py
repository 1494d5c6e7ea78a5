"""Weights from a logistic regression of real against synthetic rows, its coefficients noised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from marginalsyn.contract import LogWeights, Plan, WeightEstimator, option
from marginalsyn.errors import UsageError
from marginalsyn.weights.coefficients import CoefficientNoise, LawName, quietest
from marginalsyn.weights.conditional import check_label, check_target
from marginalsyn.weights.discrimination import LinearConfig, Regression
from marginalsyn.weights.label_weights import LabelWeights

if TYPE_CHECKING:
    from marginalsyn.access.private_table import Unprotected
    from marginalsyn.access.visit import Visit
    from marginalsyn.contract import Target
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.privacy.charges import Charge
    from marginalsyn.progress import Progress


@dataclass(frozen=True, kw_only=True)
class NoisyCoefficients(LinearConfig):
    """The knobs of a regression whose coefficients are noised."""

    noise: Literal["auto", "gamma", "laplace", "gaussian"] = option(
        "auto",
        "The noise on the coefficients: gamma (K-norm noise, for at most 40 coefficients) and "
        "laplace give a pure guarantee, gaussian gives zCDP; auto takes the smallest noise (gamma "
        "for at most 20 coefficients).",
    )

    def _set_up(
        self, target: Target, budget: Budget, least: float = 0.0
    ) -> tuple[Regression, CoefficientNoise]:
        """The regression, its penalty chosen for the noise, and the noise."""

        def deviation(regression: Regression) -> float:
            return self._noise(regression, budget).deviation * regression.spread

        regression = self.regression(target, budget.neighbours, deviation, least)
        return regression, self._noise(regression, budget)

    def _noise(self, regression: Regression, budget: Budget) -> CoefficientNoise:
        dim, l2 = regression.features.width, regression.l2
        law: LawName = quietest(dim, l2, budget) if self.noise == "auto" else self.noise
        return CoefficientNoise(law=law, dim=dim, l2=l2, budget=budget)


@dataclass(frozen=True, kw_only=True)
class BetaNoisedConfig(NoisyCoefficients):
    """Noisy coefficients of a regularised logistic regression.

    The sensitivity is that of this objective: with sums rather than means, every row's features
    bounded by public bounds, and the constant regularised like every other coefficient, one person
    moves the coefficients by at most radius / penalty in Euclidean norm (Ghalebikesabi et al. 2022
    print a bound for i.i.d. Laplace noise that holds only for few features).

    Example:
        >>> BetaNoisedConfig(noise="gaussian").name
        'beta-noised'
    """

    name = "beta-noised"
    summary = "logistic regression with noise on its coefficients"
    counts_persons = True

    target: str | None = option(
        None,
        "What the regression learns: 'rows' (to tell real rows from synthetic ones) or 'label' "
        "(how the label's chances, given the other columns, differ from the released rows'; "
        "Gaussian noise on sums of clipped gradients). [default: rows]",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_target(self.target)
        if self.target == "label" and self.noise not in ("auto", "gaussian"):
            raise UsageError(
                f"noise ({self.noise}) must be auto or gaussian with --target label: sums of "
                "gradients are priced in zCDP"
            )

    def configure(self, target: Target, budget: Budget) -> WeightEstimator:
        if self.target == "label":
            check_label(target)
            mechanism = "clipped gradients of the label's chances"
            return LabelWeights(mechanism=mechanism, target=target, budget=budget)
        regression, law = self._set_up(target, budget)
        return BetaNoised(regression=regression, noise=law)


@dataclass(frozen=True, kw_only=True)
class BetaNoised(WeightEstimator):
    """Calibrated: one draw of noise on all coefficients."""

    regression: Regression
    noise: CoefficientNoise
    purpose = "coefficients of real against synthetic"

    @property
    def cost(self) -> tuple[Charge, ...]:
        return (self.noise.charge(self.purpose),)

    @property
    def plan(self) -> Plan:
        return Plan(
            noise=self.noise.deviation * self.regression.spread,
            kept=self.regression.kept,
            scores=True,
            facts=self.facts,
        )

    @property
    def facts(self) -> dict[str, Any]:
        """Public numbers for the statement."""
        return {
            **self.regression.facts,
            "noise": self.noise.law,
            "noise_scale": self.noise.scale,
        }

    def __call__(self, rows: Visit | Unprotected | None, *, progress: Progress) -> LogWeights:
        beta, diagnostics = self.fit(rows, progress)
        return LogWeights(
            values=self.regression.log_odds(beta),
            score=self.regression.score(lambda x: x @ beta),
            notes=self.facts,
            diagnostics=diagnostics,
        )

    def fit(self, rows: Any, progress: Progress) -> tuple[np.ndarray, dict[str, Any]]:
        """The coefficients with their noise, and what the curator alone may see of the fit."""
        solution = self.regression.fit(rows, progress)
        progress.report("noise", text=self.noise.law)
        beta = self.noise.add(rows, solution.beta, self.purpose)
        return beta, {"gradient_norm": solution.slope, "newton_steps": solution.steps}
