"""The compiled parts that the kernels share: proposals and acceptance odds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from marginalsyn.plugins.points.energy import FAST


@njit(cache=True, nogil=True)
def height(energy: Any, root: Any) -> Any:
    """What the coefficient multiplies: the energy or its root."""
    return np.sqrt(max(energy, 0.0)) if root else energy


@njit(cache=True, fastmath=FAST, nogil=True)
def distance(a: Any, b: Any, space: Any) -> Any:
    """Distance of two points."""
    total = 0.0
    if space.p == 2.0:
        for c in range(space.numeric):
            total += (a[c] - b[c]) * (a[c] - b[c])
    else:
        for c in range(space.numeric):
            total += abs(a[c] - b[c]) ** space.p
    for c in range(space.numeric, a.shape[0]):
        if a[c] != b[c]:
            total += space.weights[c - space.numeric]
    return np.sqrt(total) if space.p == 2.0 else total ** (1.0 / space.p)


@njit(cache=True, nogil=True)
def fold(value: Any) -> Any:
    """Reflect a number into [0, 1]."""
    value = abs(value) % 2.0
    return 2.0 - value if value > 1.0 else value


@njit(cache=True, nogil=True)
def is_held(point: Any, coordinate: Any, space: Any) -> bool:
    """Whether a numeric coordinate is fixed at 1/2 because its entry is missing."""
    for c in range(space.links.shape[0]):
        if space.links[c] == coordinate and point[space.numeric + c] != 0:
            return True
    return False


@njit(cache=True, nogil=True)
def other_code(code: Any, size: Any, rng: Any) -> Any:
    """A code that differs from ``code``, each equally likely."""
    new = rng.integers(0, size - 1)
    return new + 1 if new >= code else new


@njit(cache=True, nogil=True)
def set_code(point: Any, c: Any, code: Any, value: Any, space: Any) -> None:
    """Give categorical coordinate ``c`` a code; ``value`` is used if its entry becomes present."""
    point[space.numeric + c] = code
    if space.links[c] >= 0:
        point[space.links[c]] = value if code == 0 else 0.5


@njit(cache=True, nogil=True)
def moves_code(space: Any, rng: Any) -> Any:
    """Whether to propose a new code: half of the time where there are numbers, too, else always."""
    return space.sizes.shape[0] > 0 and (space.numeric == 0 or rng.random() < 0.5)


@njit(cache=True, nogil=True)
def recode(point: Any, space: Any, rng: Any) -> None:
    """Give one categorical coordinate another code, both chosen uniformly."""
    c = rng.integers(0, space.sizes.shape[0])
    code = other_code(point[space.numeric + c], space.sizes[c], rng)
    set_code(point, c, code, rng.random(), space)


@njit(cache=True, nogil=True)
def move_odds(
    law: Any, points: Any, potentials: Any, energy: Any, j: Any, moved: Any, reach: Any
) -> Any:
    """Log odds of point ``j`` going to ``moved``, and the energy it would have.

    ``reach`` is the mean distance of the rows to ``moved``. A move changes 2 U(Y) by
    2 / n (U(y') - U(y)) and E|y - y'| by 2 / n^2 sum_k (|y' - y_k| - |y - y_k|); the rows' own term
    does not change.
    """
    n = points.shape[0]
    spread = 0.0
    for k in range(n):
        if k != j:
            spread += distance(moved, points[k], law.space)
            spread -= distance(points[j], points[k], law.space)
    new = energy + 2.0 / n * (reach - potentials[j]) - 2.0 / (n * n) * spread
    odds = -law.coefficient * (height(new, law.root) - height(energy, law.root))
    return odds, new
