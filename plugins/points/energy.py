"""Energy distance between weighted point sets, in bounded memory, and the potentials behind it.

For measures X and Y the (squared) energy distance is
``e(X, Y) = 2 E|x - y| - E|x - x'| - E|y - y'|`` (Szekely and Rizzo 2013), which is the squared
distance of the two mean embeddings in a Hilbert space when the norm's p is in (1, 2]. Note that
``scipy.stats.energy_distance`` is one-dimensional and returns the *root* of this quantity.

All functions take points as rows of an ``(n, m)`` array; ``space`` says what the coordinates are
(default: the unit cube with the Euclidean norm). Weights are self-normalised.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit

from marginalsyn.errors import UsageError
from marginalsyn.plugins.points.metric import Batch, PointSpace, weights_of

# Reassociation lets sums vectorise; NaN and infinities keep their meaning.
FAST = {"reassoc", "contract", "arcp", "nsz"}
BLOCK = 512


@njit(cache=True, fastmath=FAST, nogil=True)
def distances(columns: Any, start: Any, point: Any, space: Any, out: Any) -> None:
    """Distances of columns ``start, start + 1, ...`` of ``columns`` (m, N) to ``point``."""
    numeric, scales, p = space.numeric, space.weights, space.p
    out[:] = 0
    w = out.shape[0]
    end = start + w
    zero = out[0]
    c = 0
    if p == 2.0:
        while c + 4 <= numeric:  # four coordinates at a time: fewer passes over ``out``
            a, b = columns[c, start:end], columns[c + 1, start:end]
            e, f = columns[c + 2, start:end], columns[c + 3, start:end]
            ya, yb, ye, yf = point[c], point[c + 1], point[c + 2], point[c + 3]
            for i in range(w):
                ta, tb, te, tf = a[i] - ya, b[i] - yb, e[i] - ye, f[i] - yf
                out[i] += ta * ta + tb * tb + te * te + tf * tf
            c += 4
        while c < numeric:
            a, ya = columns[c, start:end], point[c]
            for i in range(w):
                ta = a[i] - ya
                out[i] += ta * ta
            c += 1
    else:
        while c < numeric:
            a, ya = columns[c, start:end], point[c]
            for i in range(w):
                out[i] += abs(a[i] - ya) ** p
            c += 1
    for c in range(numeric, columns.shape[0]):
        a, ya, scale = columns[c, start:end], point[c], scales[c - numeric]
        for i in range(w):
            out[i] += scale if a[i] != ya else zero
    if p == 2.0:
        for i in range(w):
            out[i] = np.sqrt(out[i])
    else:
        for i in range(w):
            out[i] = out[i] ** (1.0 / p)


@njit(cache=True, fastmath=FAST, nogil=True)
def total_distance(
    columns: Any, weights: Any, first: Any, point: Any, space: Any, buffer: Any
) -> float:
    """Weighted sum of the distances of columns ``first, ...`` of ``columns`` to ``point``.

    ``buffer`` has BLOCK entries of the same type as ``columns``: blocks stay in the first cache,
    and only a block's sum is taken in that type.
    """
    count = columns.shape[1]
    total = 0.0
    for start in range(first, count, BLOCK):
        width = min(BLOCK, count - start)
        out = buffer[:width]
        distances(columns, start, point, space, out)
        block = weights[start : start + width]
        part = out[0] * block[0]
        for i in range(1, width):
            part += out[i] * block[i]
        total += part
    return total


@njit(cache=True, nogil=True)
def _totals(columns: Any, weights: Any, points: Any, space: Any, result: Any) -> None:
    """``total_distance`` for every row of ``points``, into ``result``."""
    buffer = np.empty(BLOCK)
    for j in range(points.shape[0]):
        result[j] = total_distance(columns, weights, 0, points[j], space, buffer)


@njit(cache=True, nogil=True)
def _pairs(columns: Any, weights: Any, first: Any, step: Any, space: Any) -> float:
    """Weighted sum of the distances of pairs i < j, over i = first, first + step, ..."""
    buffer = np.empty(BLOCK)
    total = 0.0
    probe = np.empty(columns.shape[0])
    for i in range(first, columns.shape[1] - 1, step):
        probe[:] = columns[:, i]
        total += weights[i] * total_distance(columns, weights, i + 1, probe, space, buffer)
    return total


@njit(cache=True, nogil=True)
def _matrix(columns: Any, points: Any, space: Any, result: Any) -> None:
    """All distances between rows of ``points`` (n, m) and columns of ``columns`` (m, N)."""
    for j in range(points.shape[0]):
        distances(columns, 0, points[j], space, result[j])


def _points(
    values: np.ndarray, space: PointSpace | None, name: str
) -> tuple[np.ndarray, PointSpace]:
    """Check a point set against its space."""
    points = np.ascontiguousarray(values, dtype=np.float64)
    if points.ndim == 1:
        points = points[:, None]
    if space is None:
        space = PointSpace.cube(points.shape[1])
    if points.ndim != 2 or points.shape[1] != space.dimension:
        raise UsageError(
            f"{name} (shape {points.shape}) must have one row per point and {space.dimension} "
            "coordinates per row"
        )
    return points, space


def _normalised(weights: np.ndarray | None, count: int, name: str) -> np.ndarray:
    """Weights that sum to one; equal ones by default."""
    if count == 0:
        raise UsageError(f"{name} (0 points) must hold at least one point")
    if weights is None:
        return np.full(count, 1.0 / count)
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    if weights.shape != (count,) or not (np.all(weights >= 0) and 0 < weights.sum() < np.inf):
        raise UsageError(
            f"weights of {name} (shape {weights.shape}) must be {count} finite numbers of at least "
            "0, not all of them 0"
        )
    return weights / weights.sum()


def _in_threads(task: Any, parts: int) -> list[Any]:
    """Run ``task(0..parts-1)`` on threads: the compiled kernels release the interpreter's lock."""
    if parts == 1:
        return [task(0)]
    with ThreadPoolExecutor(parts) as pool:
        return list(pool.map(task, range(parts)))


def _workers(work: float) -> int:
    """Threads worth starting for ``work`` coordinate differences."""
    return min(os.cpu_count() or 1, 1 + int(work // 1e7))


def total_potential(
    rows: np.ndarray,
    points: np.ndarray,
    *,
    space: PointSpace | None = None,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Sum over rows of ``weights * dist(row, point)``, for every point; weights are taken as given.

    Sums of batches add up: one pass over any number of rows serves any number of points.
    """
    rows, space = _points(rows, space, "rows")
    points, _ = _points(points, space, "points")
    given = np.ones(len(rows)) if weights is None else np.ascontiguousarray(weights, dtype=float)
    result = np.zeros(len(points))
    if len(rows) == 0 or len(points) == 0:
        return result
    columns = np.ascontiguousarray(rows.T)
    parts = min(len(points), _workers(float(rows.size) * len(points)))
    bounds = np.linspace(0, len(points), parts + 1).astype(int)

    def task(part: int) -> None:
        span = slice(bounds[part], bounds[part + 1])
        _totals(columns, given, points[span], space, result[span])

    _in_threads(task, parts)
    return result


def potential(
    rows: np.ndarray,
    points: np.ndarray,
    *,
    space: PointSpace | None = None,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Mean distance from the rows to each point, U(y) = E|x - y|.

    Example:
        >>> potential([[0.0], [1.0]], [[0.25]])
        array([0.5])
    """
    rows, space = _points(rows, space, "rows")
    return total_potential(
        rows, points, space=space, weights=_normalised(weights, len(rows), "rows")
    )


def stream_potential(
    batches: Iterable[Batch],
    points: np.ndarray,
    *,
    space: PointSpace | None = None,
    whole: int = 1,
) -> tuple[np.ndarray, int]:
    """Sum of distances from all rows of all batches to each point, and the number of rows.

    Rows with weights count for their share of ``whole``.
    """
    points, space = _points(points, space, "points")
    total, count = np.zeros(len(points)), 0
    for batch in batches:
        rows, weights = weights_of(batch)
        total += total_potential(rows, points, space=space, weights=weights / whole)
        count += len(rows)
    return total, count


def distance_matrix(
    left: np.ndarray, right: np.ndarray, *, space: PointSpace | None = None
) -> np.ndarray:
    """All distances between two point sets, (len(left), len(right))."""
    left, space = _points(left, space, "left")
    right, _ = _points(right, space, "right")
    result = np.empty((len(left), len(right)))
    _matrix(np.ascontiguousarray(right.T), left, space, result)
    return result


def self_distance(
    points: np.ndarray, *, space: PointSpace | None = None, weights: np.ndarray | None = None
) -> float:
    """Mean distance between two independent draws from the points, I(Y) = E|y - y'|."""
    points, space = _points(points, space, "points")
    weights = _normalised(weights, len(points), "points")
    columns = np.ascontiguousarray(points.T)
    parts = _workers(float(points.size) * len(points) / 2)
    # Row i has N-1-i partners: dealing rows out in turn gives every thread the same work.
    sums = _in_threads(lambda part: _pairs(columns, weights, part, parts, space), parts)
    return 2.0 * float(np.sum(sums))


def energy_distance(
    x: np.ndarray,
    y: np.ndarray,
    *,
    space: PointSpace | None = None,
    x_weights: np.ndarray | None = None,
    y_weights: np.ndarray | None = None,
) -> float:
    """Squared energy distance ``2 E|x - y| - E|x - x'| - E|y - y'|`` between weighted point sets.

    Args:
        x: Points, one per row.
        y: Points, one per row.
        space: What the coordinates are; the unit cube with the Euclidean norm by default.
        x_weights: Importance weights of ``x``; they are divided by their sum.
        y_weights: The same for ``y``.

    Returns:
        A number of at least 0 (up to rounding); 0 only if the weighted sets agree.

    Example:
        >>> energy_distance([[0.0]], [[1.0]])
        2.0
    """
    x, space = _points(x, space, "x")
    y, _ = _points(y, space, "y")
    x_weights = _normalised(x_weights, len(x), "x")
    y_weights = _normalised(y_weights, len(y), "y")
    if len(x) < len(y):  # the longer set is the one that is streamed
        x, y, x_weights, y_weights = y, x, y_weights, x_weights
    cross = total_potential(x, y, space=space, weights=x_weights) @ y_weights
    return float(
        2.0 * cross
        - self_distance(x, space=space, weights=x_weights)
        - self_distance(y, space=space, weights=y_weights)
    )


def mmd(
    x: np.ndarray,
    y: np.ndarray,
    *,
    bandwidth: float = 0.2,
    space: PointSpace | None = None,
    x_weights: np.ndarray | None = None,
    y_weights: np.ndarray | None = None,
) -> float:
    """Squared maximum mean discrepancy with the kernel ``exp(-|u-v|^2 / (2 b^2))``, in blocks.

    One row of N changes the MMD's part that depends on the other set by at most 2 / N.
    """
    if not bandwidth > 0:
        raise UsageError(f"bandwidth ({bandwidth}) must be above 0")
    x, space = _points(x, space, "x")
    y, _ = _points(y, space, "y")
    wx, wy = _normalised(x_weights, len(x), "x"), _normalised(y_weights, len(y), "y")

    def mean(u: np.ndarray, v: np.ndarray, wu: np.ndarray, wv: np.ndarray) -> float:
        total = 0.0
        for start in range(0, len(u), BLOCK):
            apart = distance_matrix(u[start : start + BLOCK], v, space=space) / bandwidth
            values = np.exp(-(apart**2) / 2)
            total += float(wu[start : start + BLOCK] @ values @ wv)
        return total

    return mean(x, x, wx, wx) + mean(y, y, wy, wy) - 2.0 * mean(x, y, wx, wy)
