"""The chains that move points: in the cube, on a public set of candidates, and on sliced counts.

A step moves one point. Each walk is a kernel for :mod:`marginalsyn.plugins.points.driver`; its
states keep what is expensive to recompute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from marginalsyn.errors import UsageError
from marginalsyn.plugins.points.driver import Kernel
from marginalsyn.plugins.points.slices import Slices, bin_of
from marginalsyn.table.energy import (
    BLOCK,
    FAST,
    distance_matrix,
    potential,
    self_distance,
    total_distance,
)
from marginalsyn.table.metric import PointSpace


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
def is_missing(point: Any, coordinate: Any, space: Any) -> bool:
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


# -- in the cube -----------------------------------------------------------------------------------


class Law(NamedTuple):
    """The law that a chain should reach, and the rows behind it.

    The density is ``exp(-coefficient e)`` of the energy e, or with ``root`` of its root.
    ``columns`` are the rows, transposed, in single precision: rounding a row is a public map of
    that row alone; ``weights`` are ones. ``offset`` is E|x - x'| of the rows; the root of the
    energy needs it, for the energy itself it cancels.
    """

    columns: np.ndarray
    weights: np.ndarray
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
    offset: float | None = None,
) -> Law:
    """Build the law for rows of data.

    Args:
        rows: The data, one row per record, in the coordinates of ``space``.
        coefficient: The factor in front of the energy, or of its root.
        root: Whether the law is in the root of the energy.
        space: What the coordinates are; the unit cube by default.
        offset: E|x - x'| if it is known already; it takes O(N^2) to compute.

    Example:
        >>> rows = np.random.default_rng(0).random((100, 2))
        >>> make_law(rows, coefficient=10.0, root=True).columns.shape
        (2, 100)
    """
    rows = np.asarray(rows, dtype=np.float32)
    if rows.ndim != 2 or len(rows) == 0:
        raise UsageError(f"rows (shape {rows.shape}) must hold at least one record")
    space = space or PointSpace.cube(rows.shape[1])
    if offset is None:
        offset = self_distance(rows, space=space)
    columns, weights = np.ascontiguousarray(rows.T), np.ones(len(rows), dtype=np.float32)
    space = space._replace(weights=space.weights.astype(np.float32))
    return Law(columns, weights, space, float(coefficient), float(offset), bool(root))


class RandomWalkState(NamedTuple):
    """A set of points, the rows' mean distance to each, and the set's energy."""

    points: np.ndarray
    potentials: np.ndarray
    energy: float


@dataclass(frozen=True)
class RandomWalk(Kernel[RandomWalkState]):
    """Gaussian moves of a point, or one new code of it; the faces of the cube reflect it.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> law = make_law(rng.random((100, 2)), coefficient=10.0, root=True)
        >>> walk = RandomWalk(law, 5)
        >>> state, accepted = walk.step(rng, walk.start(rng), 50, law.coefficient, 0.1)
        >>> state.points.shape
        (5, 2)
    """

    law: Law
    points: int

    def at(self, points: np.ndarray) -> RandomWalkState:
        """The state at points, rounded as the rows are, computed from scratch."""
        law, points = self.law, np.array(points, dtype=np.float32).astype(float)
        potentials = potential(law.columns.T, points, space=law.space, weights=law.weights)
        energy = 2.0 * potentials.mean() - self_distance(points, space=law.space) - law.offset
        return RandomWalkState(points, potentials, float(energy))

    def start(self, rng: np.random.Generator) -> RandomWalkState:
        return self.at(self.law.space.uniform(self.points, rng))

    def step(
        self,
        rng: np.random.Generator,
        state: RandomWalkState,
        steps: int,
        beta: float,
        size: float,
    ) -> tuple[RandomWalkState, int]:
        points, potentials = state.points.copy(), state.potentials.copy()
        energy, accepted = _walk(self.law, beta, points, potentials, state.energy, steps, size, rng)
        return RandomWalkState(points, potentials, float(energy)), int(accepted)

    def mean(self, state: RandomWalkState) -> np.ndarray:
        return state.points.mean(axis=0)


@njit(cache=True, nogil=True)
def _recode(point: Any, space: Any, rng: Any) -> None:
    """Give one categorical coordinate another code, both chosen uniformly."""
    c = rng.integers(0, space.sizes.shape[0])
    code = other_code(point[space.numeric + c], space.sizes[c], rng)
    value = rng.random()
    point[space.numeric + c] = code
    if space.links[c] >= 0:
        point[space.links[c]] = value if code == 0 else 0.5


@njit(cache=True, nogil=True)
def _height(energy: Any, root: Any) -> Any:
    """What the coefficient multiplies: the energy or its root."""
    return np.sqrt(max(energy, 0.0)) if root else energy


@njit(cache=True, nogil=True)
def _walk(
    law: Any, beta: Any, points: Any, potentials: Any, energy: Any, steps: Any, size: Any, rng: Any
) -> Any:
    """Run the chain in place; return its energy and the number of accepted steps.

    A proposal moves one point: its numeric coordinates by a Gaussian, or one categorical coordinate
    to another code (half of the time where there are both). The proposed point is rounded to the
    rows' precision first, so that the cached potential is the potential of the point that is kept.
    A move changes 2 U(Y) by 2 / n (U(y') - U(y)) and E|y - y'| by
    2 / n^2 sum_k (|y' - y_k| - |y - y_k|); the rows' own term does not change.
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
        if space.sizes.shape[0] > 0 and (space.numeric == 0 or rng.random() < 0.5):
            _recode(moved, space, rng)
        else:
            for c in range(space.numeric):
                if not is_missing(moved, c, space):
                    moved[c] = fold(moved[c] + size * rng.standard_normal())
        probe[:] = moved
        moved[:] = probe
        reach = total_distance(law.columns, law.weights, 0, probe, space, buffer)
        reach /= law.columns.shape[1]
        spread = 0.0
        for k in range(n):
            if k != j:
                spread += distance(moved, points[k], space)
                spread -= distance(points[j], points[k], space)
        new = energy + 2.0 / n * (reach - potentials[j]) - 2.0 / (n * n) * spread
        if np.log(rng.random()) < -beta * (_height(new, law.root) - _height(energy, law.root)):
            points[j] = moved
            potentials[j] = reach
            energy = new
            accepted += 1
    return energy, accepted


# -- on candidates ---------------------------------------------------------------------------------

NEAREST = 8
"""Half of the proposals go to one of so many nearest other candidates, the others anywhere."""


class CandidateLaw(NamedTuple):
    """A law on sets of candidates, by the energy of their potentials U(g) = E|x - g|.

    ``near`` lists each candidate's nearest others.
    """

    candidates: np.ndarray
    potentials: np.ndarray
    distances: np.ndarray
    near: np.ndarray


def make_candidate_law(
    candidates: np.ndarray, potentials: np.ndarray, space: PointSpace | None = None
) -> CandidateLaw:
    """Build the law from the candidates' potentials, which may be noisy."""
    distances = distance_matrix(candidates, candidates, space=space)
    count = min(NEAREST, len(candidates) - 1)
    others = distances + np.diag(np.full(len(distances), np.inf))
    near = np.ascontiguousarray(np.argpartition(others, count - 1, axis=1)[:, :count])
    values = np.ascontiguousarray(potentials, dtype=float)
    return CandidateLaw(np.ascontiguousarray(candidates, dtype=float), values, distances, near)


class CandidateState(NamedTuple):
    """One candidate's index per point, and the set's energy up to the rows' own term."""

    indices: np.ndarray
    energy: float


@dataclass(frozen=True)
class CandidateWalk(Kernel[CandidateState]):
    """Each point sits on one of the candidates, of which there are two or more.

    Their potentials and distances are cached, so a step costs O(points), whatever the rows.

    Example:
        >>> grid = np.linspace(0, 1, 5)[:, None]
        >>> walk = CandidateWalk(make_candidate_law(grid, np.abs(grid[:, 0] - 0.5)), 2)
        >>> rng = np.random.default_rng(0)
        >>> walk.step(rng, walk.at(np.array([0, 4])), 100, 9.0)[0].indices.shape
        (2,)
    """

    law: CandidateLaw
    points: int

    def at(self, indices: np.ndarray) -> CandidateState:
        """The state at some candidates, computed from scratch."""
        indices = np.array(indices, dtype=np.int64)
        distances = self.law.distances[np.ix_(indices, indices)].mean()
        return CandidateState(indices, float(2.0 * self.law.potentials[indices].mean() - distances))

    def start(self, rng: np.random.Generator) -> CandidateState:
        return self.at(rng.integers(0, len(self.law.potentials), self.points))

    def step(
        self,
        rng: np.random.Generator,
        state: CandidateState,
        steps: int,
        beta: float,
        size: float = 0.0,
    ) -> tuple[CandidateState, int]:
        indices = state.indices.copy()
        energy, accepted = _exchange(self.law, beta, indices, state.energy, steps, rng)
        return CandidateState(indices, float(energy)), int(accepted)

    def mean(self, state: CandidateState) -> np.ndarray:
        return self.law.candidates[state.indices].mean(axis=0)


@njit(cache=True, nogil=True)
def _exchange_odds(law: Any, beta: Any, indices: Any, energy: Any, j: Any, new: Any) -> Any:
    """Log odds of moving point ``j`` to candidate ``new``, and the energy it would have."""
    n, count, degree = indices.shape[0], law.potentials.shape[0], law.near.shape[1]
    old = indices[j]
    ahead, back = law.distances[new], law.distances[old]
    spread = -ahead[old]  # the sum below compares ``new`` with the point that leaves, too
    for k in range(n):
        spread += ahead[indices[k]] - back[indices[k]]
    gain = 2.0 / n * (law.potentials[new] - law.potentials[old])
    after = energy + gain - 2.0 / (n * n) * spread
    odds = -beta * (after - energy)
    to, fro = 0, 0  # "near" need not be symmetric
    for k in range(degree):
        to += law.near[old, k] == new
        fro += law.near[new, k] == old
    if to != fro:
        odds += np.log((1.0 / count + fro / degree) / (1.0 / count + to / degree))
    return odds, after


@njit(cache=True, nogil=True)
def _exchange(law: Any, beta: Any, indices: Any, energy: Any, steps: Any, rng: Any) -> Any:
    """Run the chain in place; return its energy and the number of accepted steps."""
    n, count, degree = indices.shape[0], law.potentials.shape[0], law.near.shape[1]
    accepted = 0
    for _ in range(steps):
        j = rng.integers(0, n)
        if rng.random() < 0.5:
            new = rng.integers(0, count)
        else:
            new = law.near[indices[j], rng.integers(0, degree)]
        odds, after = _exchange_odds(law, beta, indices, energy, j, new)
        if np.log(rng.random()) < odds:
            indices[j] = new
            energy = after
            accepted += 1
    return energy, accepted


# -- on sliced counts ------------------------------------------------------------------------------

LONGEST = 0.3  # the default standard deviation of the longest moves
SCALES = 4.0  # moves are down to exp(-4) as long


class SliceState(NamedTuple):
    """Points, their projections and bins, and the running sums of what is left of the target.

    ``energy`` is the weighted squared difference between the target's survival functions and the
    points' own.
    """

    points: np.ndarray
    shadows: np.ndarray
    places: np.ndarray
    prefix: np.ndarray
    energy: float


@dataclass(frozen=True)
class SliceWalk(Kernel[SliceState]):
    """A step moves one point in one coordinate; the target is the share beyond every threshold."""

    slices: Slices
    survival: np.ndarray
    points: int

    def at(self, points: np.ndarray) -> SliceState:
        """The state at points, computed from scratch."""
        slices, points = self.slices, np.array(points, dtype=float)
        left = self.survival - slices.beyond(points) / len(points)
        energy = float(np.sum(slices.factors * left**2))
        prefix = np.zeros(slices.starts[-1] + slices.count)
        for k, start in enumerate(slices.law.prefix_start):
            part = left[slices.starts[k] : slices.starts[k + 1]]
            prefix[start + 1 : start + 1 + len(part)] = np.cumsum(part)
        return SliceState(points, *slices.project(points), prefix, energy)

    def start(self, rng: np.random.Generator) -> SliceState:
        return self.at(self.slices.space.uniform(self.points, rng))

    def step(
        self,
        rng: np.random.Generator,
        state: SliceState,
        steps: int,
        beta: float,
        size: float = LONGEST,
    ) -> tuple[SliceState, int]:
        points, shadows, places, prefix = (part.copy() for part in state[:4])
        law = self.slices.law
        change, accepted = _shift(law, points, shadows, places, prefix, beta, size, steps, rng)
        energy = state.energy + float(change)
        return SliceState(points, shadows, places, prefix, energy), int(accepted)

    def mean(self, state: SliceState) -> np.ndarray:
        return state.points.mean(axis=0)


@njit(cache=True, nogil=True)
def _shift(
    law: Any, points: Any, shadows: Any, places: Any, prefix: Any, beta: Any, size: Any,
    steps: Any, rng: Any,
) -> Any:  # fmt: skip
    """Run the chain in place; return the change of the energy and the number of accepted steps.

    ``shadows`` and ``places`` (n, K) are projections and bins; ``prefix`` holds, per direction, the
    running sums of target minus own survival function. Point j going from bin a to bin c along
    direction k changes the energy by w h (|c - a| / n^2 - 2 / n (prefix[c] - prefix[a])).
    """
    n, numeric = points.shape[0], law.numeric
    coordinates = points.shape[1]
    change, accepted = 0.0, 0
    moved = np.zeros(law.step.shape[0])
    landed = np.zeros(law.step.shape[0], dtype=np.int64)
    for _ in range(steps):
        j = rng.integers(0, n)
        c = rng.integers(0, coordinates)
        link, value, code = -1, 0.0, 0
        if c < numeric:
            if is_missing(points[j], c, law):
                continue
            if rng.random() < 0.25:
                value = rng.random()
            else:
                # Steps of many lengths: long ones while hot, short ones while cold.
                value = size * np.exp(-SCALES * rng.random()) * rng.standard_normal()
                value = fold(points[j, c] + value)
        else:
            code = other_code(points[j, c], law.sizes[c - numeric], rng)
            link = law.links[c - numeric]
            if link >= 0:
                value = rng.random() if code == 0 else 0.5
        first, last = law.touch_start[c], law.touch_start[c + 1]
        delta = 0.0
        for t in range(first, last):
            k = law.touch[t]
            shadow = shadows[j, k]
            if c < numeric:
                shadow += law.scales[k, c] * (value - points[j, c])
            else:
                at = law.table_start[c - numeric]
                shadow += law.table[k, at + code] - law.table[k, at + int(points[j, c])]
                if link >= 0:
                    shadow += law.scales[k, link] * (value - points[j, link])
            moved[t - first] = shadow
            place = bin_of(shadow, law.low[k], law.step[k], law.bins[k])
            landed[t - first] = place
            old = places[j, k]
            if place != old:
                row = law.prefix_start[k]
                gain = abs(place - old) / (n * n)
                gain -= 2.0 / n * (prefix[row + place] - prefix[row + old])
                delta += law.weight[k] * gain
        if np.log(rng.random()) < -beta * delta:
            accepted += 1
            change += delta
            for t in range(first, last):
                k = law.touch[t]
                shadows[j, k] = moved[t - first]
                old, place = places[j, k], landed[t - first]
                if place == old:
                    continue
                row = law.prefix_start[k]
                low, high = min(old, place), max(old, place)
                sign = -1.0 / n if place > old else 1.0 / n
                for b in range(low + 1, law.bins[k] + 1):
                    prefix[row + b] += sign * (min(b, high) - low)
                places[j, k] = place
            if c < numeric:
                points[j, c] = value
            else:
                points[j, c] = code
                if link >= 0:
                    points[j, link] = value
    return change, accepted
