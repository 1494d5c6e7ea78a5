"""Differences of ratios whose groups may be small: Fieller's intervals, put together by recovery.

A ratio's interval holds what the answers do not tell apart from it: all r for which the mean of
top - r * bottom may be zero (Fieller 1954). It stays honest where the group's own size is mostly
noise. Two of them give that of the difference by recovering their variances, with the correlation
of the two ratios (Zou and Donner 2008): it is negative where a margin that both share is known
better than either, and leaving it out makes the interval too narrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.answers.telling import joint_noise, tell

if TYPE_CHECKING:
    from marginalsyn.answers.estimation import Problem
    from marginalsyn.answers.quantities import Ratios


def differ(problem: Problem, statistic: Ratios, z: float) -> tuple[np.ndarray, ...]:
    """Estimates of all differences, and their lower and upper ends."""
    weights = problem.weights
    both = np.hstack([statistic.tops, statistic.bottoms])
    lines, projected = tell(problem.evidence, problem.atoms, weights, both)
    told = np.array([line.value(problem.evidence) for line in lines])  # type: ignore[arg-type]
    means = weights @ both + told - weights @ projected
    covariance = joint_noise(problem.evidence, lines, means)
    if problem.target == "population":
        centred = projected - weights @ projected
        covariance += centred.T @ (weights[:, None] * centred) / problem.evidence.total[0]
        covariance[np.diag_indices(len(lines))] += problem.evidence.total[0] ** -2
    rest = both - projected
    rest -= problem.reach @ rest
    covariance += problem.drift * (rest.T @ (problem.reach[:, None] * rest))
    size = statistic.tops.shape[1]
    centre, low, high = np.empty((3, size))
    model = weights @ statistic.tops / np.maximum(weights @ statistic.bottoms, 1e-12)
    for k in range(size):
        pair = [k, size + k]
        centre[k], low[k], high[k] = fieller(
            float(means[k]),
            float(means[size + k]),
            covariance[np.ix_(pair, pair)],
            z,
            statistic.inside,
            float(model[k]),
        )
    # How each ratio moves with the top and the bottom: to first order, for the correlation alone.
    below = np.maximum(means[size:], 1e-12)
    moves = np.hstack([np.diag(1 / below), np.diag(-np.clip(centre, *statistic.inside) / below)])
    together = moves @ covariance @ moves.T
    spread = np.sqrt(np.maximum(np.diag(together), 1e-300))
    found = []
    for line in statistic.contrast:
        first, second = int(np.argmax(line)), int(np.argmin(line))
        value = centre[first] - centre[second]
        alike = float(np.clip(together[first, second] / spread[first] / spread[second], -1, 1))
        down = _side(centre[first] - low[first], high[second] - centre[second], alike)
        up = _side(high[first] - centre[first], centre[second] - low[second], alike)
        found.append((value, value - down, value + up))
    return tuple(np.array(found).T)


def _side(first: float, second: float, alike: float) -> float:
    """How far a difference reaches, from how far its two parts do and their correlation.

    Example:
        >>> _side(3.0, 4.0, 0.0), _side(3.0, 4.0, -1.0)
        (5.0, 7.0)
    """
    return max(first**2 + second**2 - 2 * alike * first * second, 0.0) ** 0.5


def fieller(
    top: float,
    bottom: float,
    covariance: np.ndarray,
    z: float,
    limits: tuple[float, float],
    fallback: float,
) -> tuple[float, float, float]:
    """A ratio and its interval within limits: all of them where the bottom may be zero.

    Example:
        >>> fieller(2.0, 4.0, np.zeros((2, 2)), 1.96, (0.0, 1.0), 0.5)
        (0.5, 0.5, 0.5)
    """
    a = bottom**2 - z**2 * covariance[1, 1]
    b = top * bottom - z**2 * covariance[0, 1]
    c = top**2 - z**2 * covariance[0, 0]
    if a <= 0 or bottom <= 0:
        return (fallback, *limits)
    root = max(b * b - a * c, 0.0) ** 0.5
    value, low, high = np.clip([top / bottom, (b - root) / a, (b + root) / a], *limits).tolist()
    return value, low, high
