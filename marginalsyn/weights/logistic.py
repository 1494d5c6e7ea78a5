"""Regularised logistic regression of real against synthetic rows, to a stated accuracy.

The objective is J(b) = sum over private rows of log(1 + exp(-x'b)) + sum over synthetic rows of
log(1 + exp(x'b)) + (L/2) ||b||^2, with the constant among the features and regularised like them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from marginalsyn.errors import PluginError
from marginalsyn.table import FeatureRows

# Rounding in a float64 sum over 10^8 rows stays far below.
TOLERANCE = 1e-6
_MOST_STEPS = 500


@dataclass(frozen=True)
class Solution:
    """Coefficients and how far from the exact minimiser they can be (``slope`` / penalty)."""

    beta: np.ndarray
    slope: float
    steps: int


def sensitivity(reach: float, penalty: float, tolerance: float = TOLERANCE) -> float:
    """How far one person moves the computed coefficients, in Euclidean norm.

    J is L-strongly convex, so two objectives whose gradients differ by at most ``reach`` have
    minimisers at most reach / L apart (Chaudhuri, Monteleoni and Sarwate 2011); each computed
    solution lies within tolerance / L of its minimiser.

    Example:
        >>> round(sensitivity(2.0, 4.0, tolerance=0.0), 6)
        0.5
    """
    return (reach + 2 * tolerance) / penalty * (1 + 1e-12)


def minimise(
    private: FeatureRows, synthetic: FeatureRows, penalty: float, tolerance: float = TOLERANCE
) -> Solution:
    """Find coefficients with ||grad J|| <= tolerance by Newton's method.

    Halving a step until the gradient's norm falls makes it converge from anywhere.
    """
    beta = np.zeros(private.width)
    gradient, hessian = _derivatives(beta, private, synthetic, penalty)
    slope = float(np.linalg.norm(gradient))
    for steps in range(_MOST_STEPS):
        if slope <= tolerance:
            return Solution(beta, slope, steps)
        direction = np.linalg.solve(hessian, gradient)
        length = 1.0
        while True:
            trial = beta - length * direction
            gradient, hessian = _derivatives(trial, private, synthetic, penalty)
            new = float(np.linalg.norm(gradient))
            if new < (1 - length / 4) * slope or new <= tolerance:
                break
            length /= 2
            if length < 1e-12:
                raise PluginError("Newton's method must converge: choose a larger penalty")
        beta, slope = trial, new
    raise PluginError("Newton's method must converge: choose a larger penalty")


def _derivatives(
    beta: np.ndarray, private: FeatureRows, synthetic: FeatureRows, penalty: float
) -> tuple[np.ndarray, np.ndarray]:
    gradient, hessian = penalty * beta, penalty * np.eye(len(beta))
    for design, sign in ((private, -1.0), (synthetic, 1.0)):
        for x in design:
            chance = expit(sign * (x @ beta))
            gradient = gradient + sign * (chance @ x)
            hessian += (x * (chance * (1 - chance))[:, None]).T @ x
    return gradient, hessian


def expit(values: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-v)) without overflow."""
    small = np.exp(-np.abs(values))
    return np.where(values >= 0, 1.0, small) / (1.0 + small)


def choose_penalty(
    synthetic: FeatureRows, *, rows: float, noise: float, effect: float = 0.5, least: float = 1.0
) -> float:
    """The penalty L that balances noise against shrinkage, from public numbers only.

    Noise in a log-weight has a standard deviation of ``noise`` / L; a log ratio is shrunk by
    L / (L + h) along an eigenvector of the Hessian at 0 with eigenvalue h. What is minimised is the
    sum of their squares, for a log ratio that is spread evenly over the eigenvectors.

    Args:
        synthetic: the synthetic rows, which are public.
        rows: a public estimate of the number of private rows.
        noise: the standard deviation at a penalty of 1.
        effect: the root mean square that the log ratio is thought to have.
        least: the smallest penalty to choose.
    """
    curvature = _curvature(synthetic, rows)
    grid = np.exp(np.linspace(math.log(least), math.log(least) + 28.0, 400))
    lost = grid[:, None] / (grid[:, None] + curvature)
    errors = (noise / grid) ** 2 + effect**2 * np.mean(lost**2, axis=1)
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
