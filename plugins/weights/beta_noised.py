"""Weights from a logistic regression of real against synthetic rows, its coefficients noised."""

from __future__ import annotations

from dataclasses import dataclass

from marginalsyn.contract import Target, WeightEstimator, option
from marginalsyn.errors import UsageError
from marginalsyn.plugins.weights.label_weights import LabelWeights
from marginalsyn.privacy.budget import Budget
from marginalsyn.weights.coefficients import NoisyCoefficients, NoisyRegression
from marginalsyn.weights.conditional import check_label, check_target


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
            return LabelWeights(target=target, budget=budget)
        regression, noise = self.set_up(target, budget)
        return NoisyRegression(regression=regression, noise=noise)
