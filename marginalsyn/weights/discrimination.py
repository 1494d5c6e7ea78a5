"""What the linear estimators share: one regularised regression of real against synthetic rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.contract import WeightConfig, option
from marginalsyn.errors import UsageError
from marginalsyn.table.features import MOST_FEATURES, FeatureRows, Features, split_crosses
from marginalsyn.weights.logistic import (
    TOLERANCE,
    Solution,
    choose_penalty,
    kept_share,
    minimise,
    sensitivity,
)

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.access.private_table import Unprotected
    from marginalsyn.access.visit import Visit
    from marginalsyn.contract import Target
    from marginalsyn.privacy.charges import Neighbours
    from marginalsyn.progress import Progress

# Generators match the columns on their own: what is left to correct is how they go together.
DEFAULT_CROSSES = "label"
REFERENCE = "Ghalebikesabi et al. 2022, https://arxiv.org/abs/2108.10934"


@dataclass(frozen=True, kw_only=True)
class LinearConfig(WeightConfig):
    """The public knobs of every linear estimator."""

    reference = REFERENCE

    penalty: float | None = option(
        None,
        "The penalty L in L/2 ||b||^2; public. [default: balances noise against shrinkage, from "
        "public numbers only]",
    )
    crosses: str = option(
        DEFAULT_CROSSES,
        "Add products of columns as features: 'none', 'label' (the label with all others), 'all', "
        "or pairs such as 'age:sex,age:income'.",
    )
    tolerance: float = option(
        TOLERANCE,
        "Newton's method stops when the gradient's norm falls below this. It enters the "
        "sensitivity.",
    )

    def __post_init__(self) -> None:
        if self.penalty is not None and not 1e-6 <= self.penalty <= 1e12:
            raise UsageError(f"penalty ({self.penalty}) must lie between 1e-6 and 1e12")
        if not 1e-8 <= self.tolerance <= 1.0:
            raise UsageError(f"tolerance ({self.tolerance}) must lie between 1e-8 and 1")
        split_crosses(self.crosses)

    def regression(
        self,
        target: Target,
        neighbours: Neighbours,
        noise_of: Callable[[Regression], float],
        least: float = 0.0,
    ) -> Regression:
        """The regression on a target, its penalty chosen for a noise unless one is given.

        Args:
            target: the synthetic rows.
            neighbours: the relation of the sensitivity.
            noise_of: the noise's standard deviation in a log-weight, given the regression.
            least: no chosen penalty is smaller.
        """
        given = self.penalty if self.penalty is not None else 1.0
        features = Features(target.schema, self.crosses)
        if self.crosses == DEFAULT_CROSSES and features.count > MOST_FEATURES:
            features = Features(target.schema)
        whole = Regression(
            target=target,
            features=features,
            neighbours=neighbours,
            penalty=given,
            tolerance=self.tolerance,
        )
        if self.penalty is not None:
            return whole
        # Noise is proportional to 1 / penalty.
        penalty = choose_penalty(
            whole.synthetic, rows=target.rows, noise=noise_of(whole), least=max(1.0, least)
        )
        return whole.with_penalty(penalty)


@dataclass(frozen=True, kw_only=True)
class Regression:
    """A regression that is set up and not yet fitted; all of it is public.

    Example:
        >>> from marginalsyn.privacy.charges import Neighbours
        >>> from marginalsyn.release.folder import Release
        >>> from marginalsyn.contract import Target
        >>> target, relation = Target.of(Release.read("release")), Neighbours.ADD_REMOVE
        >>> config = LinearConfig(penalty=4.0)
        >>> regression = config.regression(target, relation, lambda regression: 0.1)
        >>> round(regression.l2, 4)
        0.3125
    """

    target: Target
    features: Features
    neighbours: Neighbours
    penalty: float
    tolerance: float

    def with_penalty(self, penalty: float) -> Regression:
        """The same with another penalty."""
        other = Regression(
            target=self.target,
            features=self.features,
            neighbours=self.neighbours,
            penalty=penalty,
            tolerance=self.tolerance,
        )
        other.__dict__["synthetic"] = self.synthetic
        return other

    @cached_property
    def synthetic(self) -> FeatureRows:
        """The synthetic rows' features."""
        codes = self.features.codes_of(self.target.frame)
        return FeatureRows(self.features, codes, self.target.masses)

    @property
    def l2(self) -> float:
        """How far one person moves the coefficients, in Euclidean norm.

        A person's rows weigh 1 together: their part of the gradient is a mean of vectors that are
        each as long as one row's may be, and two such means are no farther apart than two vectors.
        """
        return sensitivity(self.features.reach(self.neighbours), self.penalty, self.tolerance)

    @property
    def spread(self) -> float:
        """Root mean square distance of the synthetic rows from their mean.

        What noise of a given size does to self-normalised log-weights is proportional to it.
        """
        return float(np.sqrt(self.synthetic.variances.sum()))

    @property
    def kept(self) -> float:
        """The share of a log ratio that the penalty leaves, averaged over its directions."""
        return kept_share(self.synthetic, self.target.rows, self.penalty)

    def fit(self, rows: Visit | Unprotected, progress: Progress | None = None) -> Solution:
        """The coefficients on private and synthetic rows, to within the tolerance."""
        if progress is not None:
            progress.report("fit", text=f"{self.features.width} features")
        private = self.features.private_rows(rows)
        return minimise(private, self.synthetic, self.penalty, self.tolerance)

    def log_odds(self, beta: np.ndarray) -> np.ndarray:
        """x'b of every synthetic row."""
        return self.synthetic.map(lambda x: x @ beta)

    def score(
        self, function: Callable[[np.ndarray], np.ndarray]
    ) -> Callable[[pd.DataFrame], np.ndarray]:
        """A function of feature vectors as one of rows of the schema."""

        def of(frame: pd.DataFrame) -> np.ndarray:
            return FeatureRows(self.features, self.features.codes_of(frame)).map(function)

        return of

    @property
    def facts(self) -> dict[str, Any]:
        """Public numbers for the statement."""
        return {
            "penalty": self.penalty,
            "features": self.features.width,
            "crosses": self.features.crosses,
            "radius": self.features.radius,
            "l2_sensitivity": self.l2,
            "gradient_tolerance": self.tolerance,
        }
