"""A column's counts under noise: what the answers alone say of how even or how uneven it is.

The counts of a column's codes are taken for draws from one gamma distribution, whose mean is that
of the column. Its shape, from spiky to even, is weighed by the likelihood of the answers. So counts
that stand clear of the noise stay as they were answered, codes that the noise would drown come out
alike where the others are, and rare where few others are seen; none is lost.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammainc, gammaincc

# Shapes that are weighed: from a few codes that have nearly all rows, to all codes alike.
SHAPES = np.geomspace(0.02, 50.0, 12)
# Places at which a count is weighed, in deviations of its noise.
_STEPS = np.linspace(-6.0, 6.0, 49)
_NONE = 1e-300


def settle(values: np.ndarray, weights: np.ndarray, total: float) -> np.ndarray:
    """The expected counts given noisy ones: positive, summing to ``total``.

    Args:
        values: noisy counts.
        weights: one over the variance of the noise of each.
        total: the number of rows.

    Example:
        >>> settle(np.array([52.0, -2.0, 30.0]), np.full(3, 1.0), 80.0).round(1)
        array([51. ,  0.1, 29. ])
    """
    size, mean = values.size, total / values.size
    variance = 1.0 / weights
    # Their sum is known: the noise that it shows is taken off, of each by its variance.
    values = values + (total - values.sum()) * variance / variance.sum()
    sigma = np.sqrt(variance * (1.0 - variance / variance.sum()) if size > 1 else variance)[:, None]
    edges = np.maximum(values[:, None], 0.0) + sigma * _STEPS
    edges = np.concatenate([np.zeros_like(sigma), np.maximum(edges, 0.0)], axis=1)
    found, evidence = [], []
    for shape in SHAPES:
        scaled = edges * (shape / mean)
        mass = _between(shape, scaled)
        place = mean * _between(shape + 1.0, scaled) / np.maximum(mass, _NONE)
        place = np.clip(place, edges[:, :-1], edges[:, 1:])
        log = np.log(np.maximum(mass, _NONE)) - 0.5 * np.square((place - values[:, None]) / sigma)
        top = log.max(axis=1, keepdims=True)
        likely = np.exp(log - top)
        likely /= likely.sum(axis=1, keepdims=True)
        counts = (likely * place).sum(axis=1)
        spread = (likely * np.square(place - counts[:, None])).sum(axis=1)
        # What the sum still lacks goes to the counts that are known least.
        lack = total - counts.sum()
        found.append(np.maximum(counts + lack * spread / max(spread.sum(), _NONE), 0.5 * counts))
        evidence.append(float((top[:, 0] - np.log(likely.max(axis=1))).sum()))
    shares = np.exp(np.array(evidence) - max(evidence))
    counts = np.tensordot(shares / shares.sum(), np.stack(found), axes=1)
    return np.asarray(counts * (total / counts.sum()))


def _between(shape: float, edges: np.ndarray) -> np.ndarray:
    """The mass of a gamma distribution between neighbouring edges, in its far tail too."""
    low, high = gammainc(shape, edges), gammaincc(shape, edges)
    return np.where(low[:, :-1] < 0.5, low[:, 1:] - low[:, :-1], high[:, :-1] - high[:, 1:]).clip(
        0.0
    )
