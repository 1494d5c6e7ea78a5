"""A walk over a public set of candidates: each point sits on one of them and steps to another.

Potentials and distances of the candidates are cached, so a step costs O(points), whatever the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from marginalsyn.plugins.points.driver import Kernel, StepInfo
from marginalsyn.table.energy import FAST, distance_matrix
from marginalsyn.table.metric import PointSpace


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


class CandidateLaw(NamedTuple):
    """The law on sets of candidates: ``exp(-coefficient e)``, or with ``root`` of e's root.

    ``near`` lists each candidate's nearest others; ``offset`` is E|x - x'| of the rows, which
    matters under the root only.
    """

    candidates: np.ndarray
    potentials: np.ndarray
    distances: np.ndarray
    near: np.ndarray
    coefficient: float
    offset: float
    root: bool


class CandidateState(NamedTuple):
    """One candidate's index per point, and the set's energy."""

    indices: np.ndarray
    energy: float


def make_candidate_law(
    candidates: np.ndarray,
    potentials: np.ndarray,
    *,
    coefficient: float,
    root: bool,
    offset: float = 0.0,
    space: PointSpace | None = None,
    neighbours: int = 8,
) -> CandidateLaw:
    """Build the law from the candidates' potentials U(g) = E|x - g|, which may be noisy.

    Half of the proposals go to one of a candidate's ``neighbours`` nearest others; with 0 every
    proposal goes to any candidate.
    """
    distances = distance_matrix(candidates, candidates, space=space)
    count = min(neighbours, len(candidates) - 1)
    near = np.empty((len(candidates), count), dtype=np.int64)
    if count > 0:
        ranked = np.argpartition(
            distances + np.diag(np.full(len(distances), np.inf)), count - 1, axis=1
        )
        near = np.ascontiguousarray(ranked[:, :count])
    values = np.ascontiguousarray(potentials, dtype=float)
    places = np.ascontiguousarray(candidates, dtype=float)
    return CandidateLaw(
        places, values, distances, near, float(coefficient), float(offset), bool(root)
    )


def init(indices: np.ndarray, law: CandidateLaw) -> CandidateState:
    """The state at the candidates ``indices``, computed from scratch."""
    indices = np.array(indices, dtype=np.int64)
    distances = law.distances[np.ix_(indices, indices)].mean()
    energy = 2.0 * law.potentials[indices].mean() - distances - law.offset
    return CandidateState(indices, float(energy))


def candidate_log_density(indices: np.ndarray, law: CandidateLaw) -> float:
    """The law's unnormalised log density at the candidates ``indices``."""
    return float(-law.coefficient * height(init(indices, law).energy, law.root))


def step(
    rng: np.random.Generator, state: CandidateState, law: CandidateLaw, steps: int = 1
) -> tuple[CandidateState, StepInfo]:
    """Take ``steps`` steps.

    Example:
        >>> grid = np.linspace(0, 1, 5)[:, None]
        >>> law = make_candidate_law(grid, np.abs(grid[:, 0] - 0.5), coefficient=9.0, root=False)
        >>> state, info = step(np.random.default_rng(0), init(np.array([0, 4]), law), law, 100)
        >>> info.steps
        100
    """
    indices = state.indices.copy()
    energy, accepted = _walk(law, indices, state.energy, steps, rng)
    return CandidateState(indices, float(energy)), StepInfo(int(accepted), steps)


def build_kernel(law: CandidateLaw, points: int) -> Kernel[CandidateState]:
    """The kernel for sets of ``points`` points."""
    return Kernel(
        law,
        start=lambda rng: init(rng.integers(0, len(law.potentials), points), law),
        step=lambda rng, state, steps, beta, size: step(
            rng, state, law._replace(coefficient=beta), steps
        ),
        mean=lambda state: law.candidates[state.indices].mean(axis=0),
    )


@njit(cache=True, nogil=True)
def exchange_odds(law: Any, indices: Any, energy: Any, j: Any, new: Any) -> Any:
    """Log odds of moving point ``j`` to candidate ``new``, and the energy it would have."""
    n, count, degree = indices.shape[0], law.potentials.shape[0], law.near.shape[1]
    old = indices[j]
    ahead, back = law.distances[new], law.distances[old]
    spread = -ahead[old]  # the sum below compares ``new`` with the point that leaves, too
    for k in range(n):
        spread += ahead[indices[k]] - back[indices[k]]
    gain = 2.0 / n * (law.potentials[new] - law.potentials[old])
    after = energy + gain - 2.0 / (n * n) * spread
    odds = -law.coefficient * (height(after, law.root) - height(energy, law.root))
    if degree > 0:  # "near" need not be symmetric
        to, fro = 0, 0
        for k in range(degree):
            to += law.near[old, k] == new
            fro += law.near[new, k] == old
        if to != fro:
            odds += np.log((1.0 / count + fro / degree) / (1.0 / count + to / degree))
    return odds, after


@njit(cache=True, nogil=True)
def _walk(law: Any, indices: Any, energy: Any, steps: Any, rng: Any) -> Any:
    """Run the chain in place; return its energy and the number of accepted steps."""
    n, count, degree = indices.shape[0], law.potentials.shape[0], law.near.shape[1]
    accepted = 0
    for _ in range(steps):
        j = rng.integers(0, n)
        if degree == 0 or rng.random() < 0.5:
            new = rng.integers(0, count)
        else:
            new = law.near[indices[j], rng.integers(0, degree)]
        odds, after = exchange_odds(law, indices, energy, j, new)
        if np.log(rng.random()) < odds:
            indices[j] = new
            energy = after
            accepted += 1
    return energy, accepted
