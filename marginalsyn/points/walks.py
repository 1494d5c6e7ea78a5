"""The compiled steps behind :mod:`marginalsyn.points.chains`: plain loops without any state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from marginalsyn.points.energy import BLOCK, FAST, distances, total_distance


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


@njit(cache=True, fastmath=FAST, nogil=True)
def slope(columns: Any, weights: Any, point: Any, space: Any, buffer: Any, out: Any) -> float:
    """Sum of distances to ``point`` and, into ``out``, its numeric gradient (Euclidean norm)."""
    total = 0.0
    out[:] = 0.0
    for start in range(0, columns.shape[1], BLOCK):
        width = min(BLOCK, columns.shape[1] - start)
        near = buffer[:width]
        distances(columns, start, point, space, near)
        for i in range(width):
            weight = weights[start + i]
            total += weight * near[i]
            # At a row itself any subgradient will do; 0 is one.
            near[i] = weight / near[i] if near[i] > 0 else near[i] * 0
        for c in range(space.numeric):
            row, at = columns[c, start : start + width], point[c]
            part = near[0] * 0
            for i in range(width):
                part += near[i] * (at - row[i])
            out[c] += part
    return total


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
def move_odds(
    target: Any, points: Any, potentials: Any, energy: Any, j: Any, moved: Any, reach: Any
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
            spread += distance(moved, points[k], target.space)
            spread -= distance(points[j], points[k], target.space)
    new = energy + 2.0 / n * (reach - potentials[j]) - 2.0 / (n * n) * spread
    odds = -target.coefficient * (height(new, target.root) - height(energy, target.root))
    return odds, new


@njit(cache=True, nogil=True)
def drift(points: Any, j: Any, at: Any, steep: Any, energy: Any, target: Any, out: Any) -> None:
    """Gradient of the log density in point ``j`` placed at ``at``, into ``out``."""
    space = target.space
    n = points.shape[0]
    for c in range(space.numeric):
        out[c] = steep[c] / target.mass
    for k in range(n):
        if k != j:
            apart = distance(at, points[k], space)
            if apart > 0:
                for c in range(space.numeric):
                    out[c] -= (at[c] - points[k, c]) / (apart * n)
    factor = target.coefficient
    if target.root:
        factor /= 2.0 * max(np.sqrt(max(energy, 0.0)), 1e-12)
    for c in range(space.numeric):
        out[c] = 0.0 if is_held(at, c, space) else -factor * 2.0 / n * out[c]


@njit(cache=True, nogil=True)
def walk(
    target: Any,
    points: Any,
    potentials: Any,
    slopes: Any,
    energy: Any,
    steps: Any,
    size: Any,
    gradient: Any,
    rng: Any,
) -> Any:
    """Run the chain in place; return its energy and the number of accepted steps.

    A proposal moves one point: its numeric coordinates by a Gaussian (``gradient``: with drift),
    or one categorical coordinate to another code. The proposed point is rounded to the data's
    precision first, so that the cached potential is the potential of the point that is kept.
    """
    space = target.space
    n = points.shape[0]
    accepted = 0
    buffer = np.zeros(BLOCK, dtype=target.columns.dtype)
    probe = np.zeros(points.shape[1], dtype=target.columns.dtype)
    moved = np.zeros(points.shape[1])
    steep = np.zeros(space.numeric)
    here = np.zeros(space.numeric)
    there = np.zeros(space.numeric)
    half = size * size / 2.0
    for _ in range(steps):
        j = rng.integers(0, n)
        moved[:] = points[j]
        inside = True
        recode = space.sizes.shape[0] > 0 and (space.numeric == 0 or rng.random() < 0.5)
        if recode:
            c = rng.integers(0, space.sizes.shape[0])
            code = other_code(moved[space.numeric + c], space.sizes[c], rng)
            set_code(moved, c, code, rng.random(), space)
        else:
            if gradient:
                drift(points, j, points[j], slopes[j], energy, target, here)
            for c in range(space.numeric):
                if not is_held(moved, c, space):
                    moved[c] += size * rng.standard_normal()
                    if gradient:  # a step out of the cube is refused: a fold has no simple density
                        moved[c] += half * here[c]
                        inside = inside and 0.0 <= moved[c] <= 1.0
                    else:
                        moved[c] = fold(moved[c])
        if not inside:
            continue
        probe[:] = moved
        moved[:] = probe
        if gradient:
            total = slope(target.columns, target.weights, probe, space, buffer, steep)
        else:
            total = total_distance(target.columns, target.weights, 0, probe, space, buffer)
        reach = total / target.mass
        odds, new = move_odds(target, points, potentials, energy, j, moved, reach)
        if gradient and not recode:
            drift(points, j, moved, steep, new, target, there)
            for c in range(space.numeric):
                ahead = moved[c] - points[j, c] - half * here[c]
                back = points[j, c] - moved[c] - half * there[c]
                odds += (ahead * ahead - back * back) / (2.0 * size * size)
        if np.log(rng.random()) < odds:
            points[j] = moved
            potentials[j] = reach
            slopes[j] = steep
            energy = new
            accepted += 1
    return energy, accepted


@njit(cache=True, nogil=True)
def grid_odds(target: Any, indices: Any, energy: Any, j: Any, new: Any, coefficient: Any) -> Any:
    """Log odds of moving point ``j`` to candidate ``new``, and the energy it would have."""
    n, count, degree = indices.shape[0], target.potentials.shape[0], target.near.shape[1]
    old = indices[j]
    ahead, back = target.apart[new], target.apart[old]
    spread = -ahead[old]  # the sum below compares ``new`` with the point that leaves, too
    for k in range(n):
        spread += ahead[indices[k]] - back[indices[k]]
    gain = 2.0 / n * (target.potentials[new] - target.potentials[old])
    after = energy + gain - 2.0 / (n * n) * spread
    odds = -coefficient * (height(after, target.root) - height(energy, target.root))
    if degree > 0:  # "near" need not be symmetric
        to, fro = 0, 0
        for k in range(degree):
            to += target.near[old, k] == new
            fro += target.near[new, k] == old
        if to != fro:
            odds += np.log((1.0 / count + fro / degree) / (1.0 / count + to / degree))
    return odds, after


@njit(cache=True, nogil=True)
def grid_walk(
    target: Any, indices: Any, energy: Any, coefficient: Any, steps: Any, rng: Any
) -> Any:
    """The same over candidates whose potentials and distances are cached: O(n) a step.

    Half of the proposals are any candidate, half one of the near ones.
    """
    n, count, degree = indices.shape[0], target.potentials.shape[0], target.near.shape[1]
    accepted = 0
    for _ in range(steps):
        j = rng.integers(0, n)
        if degree == 0 or rng.random() < 0.5:
            new = rng.integers(0, count)
        else:
            new = target.near[indices[j], rng.integers(0, degree)]
        odds, after = grid_odds(target, indices, energy, j, new, coefficient)
        if np.log(rng.random()) < odds:
            indices[j] = new
            energy = after
            accepted += 1
    return energy, accepted


@njit(cache=True, nogil=True)
def descend(potentials: Any, apart: Any, indices: Any, sweeps: Any) -> None:
    """Coordinate descent over candidates, in place: each point in turn goes where it is best."""
    n, count = indices.shape[0], potentials.shape[0]
    field = np.zeros(count)
    for j in range(n):
        field += apart[indices[j]]
    for _ in range(sweeps):
        moved = False
        for j in range(n):
            old = indices[j]
            field -= apart[old]
            best = old
            lowest = potentials[old] - field[old] / n
            for g in range(count):
                value = potentials[g] - field[g] / n
                if value < lowest:
                    lowest, best = value, g
            indices[j] = best
            moved = moved or best != old
            field += apart[best]
        if not moved:
            break
