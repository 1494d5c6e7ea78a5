"""Ridge logistic regression to a stated accuracy, and what the linear estimators share.

The objective is J(b) = sum over rows of m_i log(1 + exp(-y_i x_i'b)) + (L/2) ||b||^2 with labels
y_i of 1 or -1 and masses m_i; the constant is among the features and regularised like them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import Unprotected
from marginalsyn.access.visit import Visit
from marginalsyn.contract import LogWeights, Plan, Target, WeightConfig, WeightEstimator, option
from marginalsyn.errors import PluginError, UsageError
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.progress import Progress
from marginalsyn.table.features import MOST_FEATURES, FeatureRows, Features, split_crosses

# Rounding in a float64 sum over 10^8 rows stays far below.
TOLERANCE = 1e-6
_MOST_STEPS = 500
# The root mean square that a log ratio is thought to have.
EFFECT = 0.5
# Generators match the columns on their own: what is left to correct is how they go together.
DEFAULT_CROSSES = "label"
REFERENCE = "Ghalebikesabi et al. 2022, https://arxiv.org/abs/2108.10934"


class Labelled(NamedTuple):
    """Chunks of feature vectors, with one label and mass for all, or arrays for a single chunk."""

    chunks: Iterable[np.ndarray]
    labels: float | np.ndarray
    masses: float | np.ndarray = 1.0


@dataclass(frozen=True)
class Solution:
    """Coefficients within ``slope`` / penalty of the exact minimiser, and J'' there."""

    beta: np.ndarray
    slope: float
    steps: int
    hessian: np.ndarray


def sensitivity(reach: float, penalty: float, tolerance: float = TOLERANCE) -> float:
    """How far one person moves the computed coefficients, in Euclidean norm.

    J is L-strongly convex, so two objectives whose gradients differ by at most ``reach`` have
    minimisers within reach / L of each other (Chaudhuri, Monteleoni and Sarwate 2011); each
    computed solution lies within tolerance / L of its minimiser.

    Example:
        >>> round(sensitivity(2.0, 4.0, tolerance=0.0), 6)
        0.5
    """
    return (reach + 2 * tolerance) / penalty * (1 + 1e-12)


def minimise(
    private: FeatureRows, synthetic: FeatureRows, penalty: float, tolerance: float = TOLERANCE
) -> Solution:
    """Regress private (1) against synthetic rows (-1), of mass 1 unless they have their own."""
    rows = [Labelled(private, 1.0), Labelled(synthetic, -1.0)]
    return fit_logistic(rows, private.width, penalty, tolerance)


def fit_logistic(
    rows: Sequence[Labelled], width: int, penalty: float, tolerance: float = TOLERANCE
) -> Solution:
    """Find coefficients with ||grad J|| <= tolerance by Newton's method.

    Halving a step until the gradient's norm falls makes it converge from anywhere.

    Example:
        >>> x = np.array([[1.0], [1.0], [1.0]])
        >>> found = fit_logistic([Labelled([x], np.array([1, 1, -1]))], 1, penalty=1e-9)
        >>> round(float(found.beta[0]), 6), round(float(np.log(2)), 6)
        (0.693147, 0.693147)
    """
    beta = np.zeros(width)
    gradient, hessian = _derivatives(beta, rows, penalty)
    slope = float(np.linalg.norm(gradient))
    for steps in range(_MOST_STEPS):
        if slope <= tolerance:
            return Solution(beta, slope, steps, hessian)
        direction = np.linalg.solve(hessian, gradient)
        length = 1.0
        while True:
            trial = beta - length * direction
            gradient, hessian = _derivatives(trial, rows, penalty)
            new = float(np.linalg.norm(gradient))
            if new < (1 - length / 4) * slope or new <= tolerance:
                break
            length /= 2
            if length < 1e-12:
                raise PluginError("Newton's method did not converge: choose a larger penalty")
        beta, slope = trial, new
    raise PluginError("Newton's method did not converge: choose a larger penalty")


def _derivatives(
    beta: np.ndarray, rows: Sequence[Labelled], penalty: float
) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import expit

    gradient, hessian = penalty * beta, penalty * np.eye(len(beta))
    for chunks, labels, given in rows:
        own = chunks.weighted() if isinstance(chunks, FeatureRows) else ((x, given) for x in chunks)
        for x, masses in own:
            chance = expit(-labels * (x @ beta))
            gradient = gradient - (labels * masses * chance) @ x
            hessian += (x * (masses * chance * (1 - chance))[:, None]).T @ x
    return gradient, hessian


def choose_penalty(synthetic: FeatureRows, *, rows: float, noise: float) -> float:
    """The penalty L that balances noise against shrinkage, from public numbers only.

    Noise in a log-weight has a standard deviation of ``noise`` / L; a log ratio is shrunk by
    L / (L + h) along an eigenvector of the Hessian at 0 with eigenvalue h. What is minimised is the
    sum of their squares, for a log ratio that is spread evenly over the eigenvectors.

    Args:
        synthetic: the synthetic rows, which are public.
        rows: a public estimate of the number of private rows.
        noise: the standard deviation at a penalty of 1.
    """
    curvature = _curvature(synthetic, rows)
    grid = np.exp(np.linspace(0.0, 28.0, 400))
    lost = grid[:, None] / (grid[:, None] + curvature)
    errors = (noise / grid) ** 2 + EFFECT**2 * np.mean(lost**2, axis=1)
    return float(grid[int(np.argmin(errors))])


def kept_share(synthetic: FeatureRows, rows: float, penalty: float) -> float:
    """The mean of h / (L + h) over the eigenvalues h of the Hessian at 0."""
    curvature = _curvature(synthetic, rows)
    return float(np.mean(curvature / (penalty + curvature)))


def _curvature(synthetic: FeatureRows, rows: float) -> np.ndarray:
    """Eigenvalues above 0 of the Hessian at 0, were the private rows like the synthetic ones."""
    variances = synthetic.variances
    kept = variances[variances > 1e-9 * max(variances[-1], 1e-9)]
    # Of n against m rows, each with chance m / (n + m) or n / (n + m), once b has its constant.
    pooled = rows * synthetic.rows / max(rows + synthetic.rows, 1.0)
    return kept * pooled if kept.size else np.zeros(1)


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
        self, target: Target, neighbours: Neighbours, noise_of: Callable[[Regression], float]
    ) -> Regression:
        """The regression on a target, its penalty chosen for a noise unless one is given.

        Args:
            target: the synthetic rows.
            neighbours: the relation of the sensitivity.
            noise_of: the noise's standard deviation in a log-weight, given the regression.
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
        penalty = choose_penalty(whole.synthetic, rows=target.rows, noise=noise_of(whole))
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
        other = replace(self, penalty=penalty)
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
        each as long as one row's may be, and two such means differ by no more than two vectors do.
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


@dataclass(frozen=True, kw_only=True)
class LinearEstimator(WeightEstimator):
    """Calibrated: a regression to be fitted to private rows; by itself it adds no noise."""

    regression: Regression

    @property
    def plan(self) -> Plan:
        return Plan(noise=0.0, kept=self.regression.kept, scores=True, facts=self.facts)

    @property
    def facts(self) -> dict[str, Any]:
        """Public numbers for the statement."""
        return self.regression.facts

    def __call__(self, rows: Any, *, progress: Progress) -> LogWeights:
        beta, diagnostics = self.solve(rows, progress)
        return self.weigh(lambda x: x @ beta, diagnostics)

    def solve(self, rows: Any, progress: Progress) -> tuple[np.ndarray, dict[str, Any]]:
        """The coefficients, and what the curator alone may see of the fit."""
        found = self.regression.fit(rows, progress)
        return found.beta, {"gradient_norm": found.slope, "newton_steps": found.steps}

    def weigh(
        self,
        function: Callable[[np.ndarray], np.ndarray],
        diagnostics: dict[str, Any],
        warnings: Sequence[str] = (),
    ) -> LogWeights:
        """Log-weights that are a function of feature vectors."""
        return LogWeights(
            values=self.regression.synthetic.map(function),
            score=self.regression.score(function),
            notes=self.facts,
            warnings=warnings,
            diagnostics=diagnostics,
        )
