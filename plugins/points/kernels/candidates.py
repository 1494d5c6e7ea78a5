"""A walk over a public set of candidates: each point sits on one of them and steps to another.

Potentials and distances of the candidates are cached, so a step costs O(points), whatever the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from marginalsyn.plugins.points.energy import distance_matrix
from marginalsyn.plugins.points.kernels.kernel import Kernel, StepInfo
from marginalsyn.plugins.points.kernels.moves import height
from marginalsyn.plugins.points.metric import PointSpace


class CandidateLaw(NamedTuple):
    """The law on sets of candidates: ``exp(-coefficient e)``, or with ``root`` of e's root.

    ``near`` lists each candidate's nearest others; ``offset`` is E|x - x'| of the rows, which
    matters under the root only.
    """

    candidates: np.ndarray
    potentials: np.ndarray
    apart: np.ndarray
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
    apart = distance_matrix(candidates, candidates, space=space)
    count = min(neighbours, len(candidates) - 1)
    near = np.empty((len(candidates), count), dtype=np.int64)
    if count > 0:
        ranked = np.argpartition(apart + np.diag(np.full(len(apart), np.inf)), count - 1, axis=1)
        near = np.ascontiguousarray(ranked[:, :count])
    values = np.ascontiguousarray(potentials, dtype=float)
    places = np.ascontiguousarray(candidates, dtype=float)
    return CandidateLaw(places, values, apart, near, float(coefficient), float(offset), bool(root))


def init(indices: np.ndarray, law: CandidateLaw) -> CandidateState:
    """The state at the candidates ``indices``, computed from scratch."""
    indices = np.array(indices, dtype=np.int64)
    apart = law.apart[np.ix_(indices, indices)].mean()
    energy = 2.0 * law.potentials[indices].mean() - apart - law.offset
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
    ahead, back = law.apart[new], law.apart[old]
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
