"""Ridge logistic regression to a stated accuracy, and that of real against synthetic rows.

The objective is J(b) = sum over rows of m_i log(1 + exp(-y_i x_i'b)) + (L/2) ||b||^2 with labels
y_i of 1 or -1 and masses m_i; the constant is among the features and regularised like them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from marginalsyn.errors import PluginError
from marginalsyn.table.features import FeatureRows

# Rounding in a float64 sum over 10^8 rows stays far below.
TOLERANCE = 1e-6
_MOST_STEPS = 500


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
        >>> round(float(found.beta[0]), 6), round(math.log(2), 6)
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
