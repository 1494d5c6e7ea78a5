"""A random walk that moves one point per step; the faces of the cube reflect it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from marginalsyn.errors import UsageError
from marginalsyn.plugins.points.candidates import (
    fold,
    is_missing,
    move_odds,
    moves_code,
    recode,
)
from marginalsyn.plugins.points.driver import Kernel, StepInfo
from marginalsyn.table.energy import BLOCK, potential, self_distance, total_distance
from marginalsyn.table.metric import PointSpace


class RandomWalkState(NamedTuple):
    """A set of points, the rows' mean distance to each, and the set's energy."""

    points: np.ndarray
    potentials: np.ndarray
    energy: float


def init(points: np.ndarray, law: Law) -> RandomWalkState:
    """The state at ``points``, computed from scratch."""
    return RandomWalkState(*locate(points, law))


def step(
    rng: np.random.Generator, state: RandomWalkState, law: Law, steps: int = 1, *, size: float = 0.1
) -> tuple[RandomWalkState, StepInfo]:
    """Take ``steps`` steps whose Gaussian moves have the standard deviation ``size``.

    Example:
        >>> from marginalsyn.plugins.points.random_walk import make_law
        >>> rng = np.random.default_rng(0)
        >>> law = make_law(rng.random((100, 2)), coefficient=10.0, root=True)
        >>> state, info = step(rng, init(rng.random((5, 2)), law), law, 50)
        >>> info.steps
        50
    """
    points, potentials = state.points.copy(), state.potentials.copy()
    energy, accepted = _walk(law, points, potentials, state.energy, steps, size, rng)
    return RandomWalkState(points, potentials, float(energy)), StepInfo(int(accepted), steps)


def build_walk(law: Law, points: int) -> Kernel[RandomWalkState]:
    """The kernel for sets of ``points`` points under a law on rows."""
    return Kernel(
        law,
        start=lambda rng: init(law.space.uniform(points, rng), law),
        step=lambda rng, state, steps, beta, size: step(
            rng, state, law._replace(coefficient=beta), steps, size=size
        ),
        mean=lambda state: state.points.mean(axis=0),
    )


@njit(cache=True, nogil=True)
def _walk(
    law: Any, points: Any, potentials: Any, energy: Any, steps: Any, size: Any, rng: Any
) -> Any:
    """Run the chain in place; return its energy and the number of accepted steps.

    A proposal moves one point: its numeric coordinates by a Gaussian, or one categorical coordinate
    to another code. The proposed point is rounded to the rows' precision first, so that the cached
    potential is the potential of the point that is kept.
    """
    space = law.space
    n = points.shape[0]
    accepted = 0
    buffer = np.zeros(BLOCK, dtype=law.columns.dtype)
    probe = np.zeros(points.shape[1], dtype=law.columns.dtype)
    moved = np.zeros(points.shape[1])
    for _ in range(steps):
        j = rng.integers(0, n)
        moved[:] = points[j]
        if moves_code(space, rng):
            recode(moved, space, rng)
        else:
            for c in range(space.numeric):
                if not is_missing(moved, c, space):
                    moved[c] = fold(moved[c] + size * rng.standard_normal())
        probe[:] = moved
        moved[:] = probe
        reach = total_distance(law.columns, law.weights, 0, probe, space, buffer) / law.mass
        odds, new = move_odds(law, points, potentials, energy, j, moved, reach)
        if np.log(rng.random()) < odds:
            points[j] = moved
            potentials[j] = reach
            energy = new
            accepted += 1
    return energy, accepted


class Law(NamedTuple):
    """The law that a chain should reach, and the rows behind it.

    ``columns`` are the rows, transposed, in single precision: rounding a row is a public map of
    that row alone. ``offset`` is E|x - x'| of the rows; the root of the energy needs it, for the
    energy itself it cancels.
    """

    columns: np.ndarray
    weights: np.ndarray
    mass: float
    space: PointSpace
    coefficient: float
    offset: float
    root: bool


def make_law(
    rows: np.ndarray,
    *,
    coefficient: float,
    root: bool,
    space: PointSpace | None = None,
    weights: np.ndarray | None = None,
    offset: float | None = None,
) -> Law:
    """Build the law for rows of data.

    Args:
        rows: The data, one row per record, in the coordinates of ``space``.
        coefficient: The factor in front of the energy, or of its root.
        root: Whether the law is in the root of the energy.
        space: What the coordinates are; the unit cube by default.
        weights: Importance weights of the rows.
        offset: E|x - x'| if it is known already; it takes O(N^2) to compute.

    Example:
        >>> rows = np.random.default_rng(0).random((100, 2))
        >>> make_law(rows, coefficient=10.0, root=True).mass
        100.0
    """
    rows = np.asarray(rows, dtype=np.float32)
    if rows.ndim != 2 or len(rows) == 0:
        raise UsageError(f"rows (shape {rows.shape}) must hold at least one record")
    space = space or PointSpace.cube(rows.shape[1])
    if offset is None:
        offset = self_distance(rows, space=space, weights=weights)
    given = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=float)
    columns = np.ascontiguousarray(rows.T)
    mass = float(given.astype(np.float32).sum(dtype=np.float64))
    space = space._replace(weights=space.weights.astype(np.float32))
    return Law(
        columns,
        given.astype(np.float32),
        mass,
        space,
        float(coefficient),
        float(offset),
        bool(root),
    )


def locate(points: np.ndarray, law: Law) -> tuple[np.ndarray, np.ndarray, float]:
    """The points rounded as the rows are, their potentials, and their energy."""
    points = np.array(points, dtype=np.float32).astype(float)
    potentials = potential(law.columns.T, points, space=law.space, weights=law.weights)
    energy = 2.0 * potentials.mean() - self_distance(points, space=law.space) - law.offset
    return points, potentials, float(energy)
