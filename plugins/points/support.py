"""Support points of a data set: few points of least energy distance to it. Not private.

The convex-concave procedure (Mak and Joseph 2018) is for teaching and comparison, and for the
dissertation's Algorithm 1, which scores releases through these points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from marginalsyn.errors import UsageError
from marginalsyn.plugins.points.energy import FAST, energy_distance

ITERATIONS, TOLERANCE = 500, 1e-5  # when the procedure stops: so many, or no coordinate moves on


@njit(cache=True, fastmath=FAST, nogil=True)
def _update(rows: Any, weights: Any, points: Any, out: Any) -> float:
    """One step of the convex-concave procedure for all points at once; the largest move.

    Equation (22) of Mak and Joseph (2018): the attraction is majorised by a quadratic with
    weights 1 / |x_i - y_j|, the repulsion is linear at the current points.
    """
    n, d = points.shape
    largest = 0.0
    pull, push = np.zeros(d), np.zeros(d)
    for j in range(n):
        pull[:], push[:] = 0.0, 0.0
        mass = 0.0
        for i in range(rows.shape[0]):
            square = 0.0
            for c in range(d):
                square += (rows[i, c] - points[j, c]) ** 2
            # The floor keeps the weight finite where a point sits on a row.
            factor = weights[i] / np.sqrt(max(square, 1e-18))
            mass += factor
            for c in range(d):
                pull[c] += factor * rows[i, c]
        for k in range(n):
            square = 0.0
            for c in range(d):
                square += (points[k, c] - points[j, c]) ** 2
            if square > 0.0:
                factor = 1.0 / (np.sqrt(square) * n)
                for c in range(d):
                    push[c] += factor * (points[j, c] - points[k, c])
        for c in range(d):
            out[j, c] = min(max((push[c] + pull[c]) / mass, 0.0), 1.0)
            largest = max(largest, abs(out[j, c] - points[j, c]))
    return largest


def support_points(
    rows: np.ndarray,
    points: int,
    rng: np.random.Generator,
    *,
    starts: int = 1,
) -> np.ndarray:
    """Support points of rows in the unit cube (Euclidean norm), by the convex-concave procedure.

    Args:
        rows: The data, one row per record, in [0, 1].
        points: How many points.
        rng: Chooses the starts, which are rows of the data with a little jitter.
        starts: Runs, of which the best is returned.

    Returns:
        An array of shape (points, dimension). It reveals rows: never publish it.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> support_points(rng.random((100, 2)), 5, rng).shape
        (5, 2)
    """
    rows = np.ascontiguousarray(rows, dtype=float)
    if rows.ndim != 2 or len(rows) == 0 or points < 1:
        raise UsageError(f"rows (shape {rows.shape}) and points ({points}) must both be at least 1")
    shares = np.full(len(rows), 1.0 / len(rows))
    best, lowest = np.empty(0), np.inf
    for _ in range(starts):
        place = rows[rng.choice(len(rows), points, replace=points > len(rows), p=shares)]
        place = np.clip(place + rng.normal(0.0, 1e-3, place.shape), 0.0, 1.0)
        out = np.empty_like(place)
        for _ in range(ITERATIONS):
            moved = _update(rows, shares, place, out)
            place, out = out, place
            if moved < TOLERANCE:
                break
        energy = energy_distance(rows, place) if starts > 1 else 0.0
        if energy < lowest:
            best, lowest = place, energy
    return best
