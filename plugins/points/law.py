"""The law of a set of points by its energy distance to rows of data.

Over n points Y it is ``exp(-c e(X, Y))`` or, with ``root``, ``exp(-c sqrt(e(X, Y)))`` (Diesendruck
2019, section 5.4). The kernels reach it in the limit only: a finite run is never a draw from it,
so nothing here yields a privacy guarantee by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.plugins.points.energy import potential, self_distance
from marginalsyn.plugins.points.metric import PointSpace


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
