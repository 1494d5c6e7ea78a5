"""The random walk's gradient form, the Metropolis-adjusted Langevin algorithm (MALA)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from marginalsyn.errors import UsageError
from marginalsyn.points.energy import BLOCK, FAST, distances
from marginalsyn.points.kernels.kernel import StepInfo
from marginalsyn.points.kernels.moves import distance, is_held, move_odds, moves_code, recode
from marginalsyn.points.law import Law, locate


class MalaState(NamedTuple):
    """As the random walk's; ``slopes`` are the gradients of the summed distances to the rows."""

    points: np.ndarray
    potentials: np.ndarray
    slopes: np.ndarray
    energy: float


def init(points: np.ndarray, law: Law) -> MalaState:
    """The state at ``points``, computed from scratch."""
    space = law.space
    if space.p != 2.0:
        raise UsageError(f"p ({space.p}) must be 2 with the kernel mala; take random-walk")
    points, potentials, energy = locate(points, law)
    slopes = np.zeros((len(points), space.numeric))
    buffer = np.zeros(BLOCK, dtype=np.float32)
    for point, out in zip(points.astype(np.float32), slopes, strict=True):
        _slope(law.columns, law.weights, point, space, buffer, out)
    return MalaState(points, potentials, slopes, energy)


def step(
    rng: np.random.Generator, state: MalaState, law: Law, steps: int = 1, *, size: float = 0.1
) -> tuple[MalaState, StepInfo]:
    """Take ``steps`` steps: Gaussian moves of standard deviation ``size`` after a drift uphill.

    Example:
        >>> from marginalsyn.points.law import make_law
        >>> rng = np.random.default_rng(0)
        >>> law = make_law(rng.random((100, 2)), coefficient=10.0, root=True)
        >>> state, info = step(rng, init(rng.random((5, 2)), law), law, 50)
        >>> info.steps
        50
    """
    points, potentials, slopes = (part.copy() for part in state[:3])
    energy, accepted = _walk(law, points, potentials, slopes, state.energy, steps, size, rng)
    return MalaState(points, potentials, slopes, float(energy)), StepInfo(int(accepted), steps)


@njit(cache=True, fastmath=FAST, nogil=True)
def _slope(columns: Any, weights: Any, point: Any, space: Any, buffer: Any, out: Any) -> float:
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
def _drift(points: Any, j: Any, at: Any, steep: Any, energy: Any, law: Any, out: Any) -> None:
    """Gradient of the log density in point ``j`` placed at ``at``, into ``out``."""
    space = law.space
    n = points.shape[0]
    for c in range(space.numeric):
        out[c] = steep[c] / law.mass
    for k in range(n):
        if k != j:
            apart = distance(at, points[k], space)
            if apart > 0:
                for c in range(space.numeric):
                    out[c] -= (at[c] - points[k, c]) / (apart * n)
    factor = law.coefficient
    if law.root:
        factor /= 2.0 * max(np.sqrt(max(energy, 0.0)), 1e-12)
    for c in range(space.numeric):
        out[c] = 0.0 if is_held(at, c, space) else -factor * 2.0 / n * out[c]


@njit(cache=True, nogil=True)
def _walk(
    law: Any,
    points: Any,
    potentials: Any,
    slopes: Any,
    energy: Any,
    steps: Any,
    size: Any,
    rng: Any,
) -> Any:
    """As the random walk's, with drift in the numeric coordinates.

    A step out of the cube is refused: a reflected one has no simple density.
    """
    space = law.space
    n = points.shape[0]
    accepted = 0
    buffer = np.zeros(BLOCK, dtype=law.columns.dtype)
    probe = np.zeros(points.shape[1], dtype=law.columns.dtype)
    moved = np.zeros(points.shape[1])
    steep = np.zeros(space.numeric)
    here = np.zeros(space.numeric)
    there = np.zeros(space.numeric)
    half = size * size / 2.0
    for _ in range(steps):
        j = rng.integers(0, n)
        moved[:] = points[j]
        inside = True
        recoded = moves_code(space, rng)
        if recoded:
            recode(moved, space, rng)
        else:
            _drift(points, j, points[j], slopes[j], energy, law, here)
            for c in range(space.numeric):
                if not is_held(moved, c, space):
                    moved[c] += size * rng.standard_normal()
                    moved[c] += half * here[c]
                    inside = inside and 0.0 <= moved[c] <= 1.0
        if not inside:
            continue
        probe[:] = moved
        moved[:] = probe
        reach = _slope(law.columns, law.weights, probe, space, buffer, steep) / law.mass
        odds, new = move_odds(law, points, potentials, energy, j, moved, reach)
        if not recoded:
            _drift(points, j, moved, steep, new, law, there)
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
