"""How far a chain may be from its law: L-lag couplings (Biswas, Jacob and Vanetti 2019).

Two copies of a chain, one L steps ahead, are driven by shared randomness until they meet. With
meeting time tau the total variation distance after t steps is at most
``E[max(0, ceil((tau - L - t) / L))]``, which is estimated over independent pairs. It is a figure
for the data at hand: it says nothing about other data, so it turns no chain into a private
mechanism, and for a target on private rows it must not be published.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from marginalsyn.points.energy import BLOCK, total_distance
from marginalsyn.points.kernels import candidates, random_walk
from marginalsyn.points.kernels.candidates import CandidateLaw, exchange_odds
from marginalsyn.points.kernels.moves import (
    fold,
    is_held,
    move_odds,
    moves_code,
    other_code,
    set_code,
)
from marginalsyn.points.law import Law


@dataclass(frozen=True, kw_only=True)
class TotalVariationBound:
    """The bound after ``steps`` steps, its standard error, and how many pairs of chains met.

    ``value`` is None where a pair did not meet within the limit: then nothing is known.
    """

    value: float | None
    error: float | None
    steps: int
    lag: int
    met: int
    pairs: int

    def __str__(self) -> str:
        if self.value is None:
            return f"not computed: {self.pairs - self.met} of {self.pairs} pairs did not meet"
        return f"{min(self.value, 1.0):.3g} (standard error {self.error:.2g}, {self.pairs} pairs)"


@njit(cache=True, nogil=True)
def _paired_noise(a: Any, b: Any, size: Any, space: Any, rng: Any, left: Any, right: Any) -> None:
    """Gaussian steps from ``a`` and ``b`` that end in one place as often as any coupling allows.

    Reflection-maximal coupling: the second step is the first seen from its own start where the
    densities allow it, and otherwise the first mirrored in the plane between the starts.
    """
    gap, along = 0.0, 0.0
    same = True
    for c in range(space.numeric):
        left[c] = 0.0 if is_held(a, c, space) else rng.standard_normal()
        same = same and is_held(a, c, space) == is_held(b, c, space)
        right[c] = (a[c] - b[c]) / size
        gap += right[c] * right[c]
    if not same:  # different entries are missing: share what can be shared
        for c in range(space.numeric):
            right[c] = 0.0 if is_held(b, c, space) else left[c]
            if is_held(a, c, space) and not is_held(b, c, space):
                right[c] = rng.standard_normal()
        return
    for c in range(space.numeric):
        along += right[c] * left[c]
    # phi(z + e) / phi(e) with z = (a - b) / size
    if np.log(rng.random()) < -along - gap / 2.0:
        for c in range(space.numeric):
            right[c] += left[c]
    else:
        for c in range(space.numeric):
            right[c] = left[c] - 2.0 * along / gap * right[c] if gap > 0 else left[c]


@njit(cache=True, nogil=True)
def _meet(
    law: Any,
    lead: Any,
    lead_reach: Any,
    lead_energy: Any,
    lag: Any,
    lag_reach: Any,
    lag_energy: Any,
    size: Any,
    limit: Any,
    rng: Any,
) -> Any:
    """Steps of the lagging chain until both random walks are equal; -1 if they do not meet."""
    space = law.space
    n = lead.shape[0]
    buffer = np.zeros(BLOCK, dtype=law.columns.dtype)
    probe = np.zeros(lead.shape[1], dtype=law.columns.dtype)
    first, second = np.zeros(space.numeric), np.zeros(space.numeric)
    moved, other = lead[0].copy(), lag[0].copy()
    apart = 0
    for j in range(n):
        apart += int(np.any(lead[j] != lag[j]))
    for step in range(limit):
        if apart == 0:
            return step
        j = rng.integers(0, n)
        was = int(np.any(lead[j] != lag[j]))
        moved[:], other[:] = lead[j], lag[j]
        if moves_code(space, rng):
            c = rng.integers(0, space.sizes.shape[0])
            a, b = lead[j, space.numeric + c], lag[j, space.numeric + c]
            code = other_code(a, space.sizes[c], rng)
            value = rng.random()
            set_code(moved, c, code, value, space)
            set_code(other, c, a if code == b else code, value, space)
        else:
            _paired_noise(lead[j], lag[j], size, space, rng, first, second)
            for c in range(space.numeric):
                if not is_held(moved, c, space):
                    moved[c] = fold(lead[j, c] + size * first[c])
                if not is_held(other, c, space):
                    other[c] = fold(lag[j, c] + size * second[c])
        probe[:] = moved
        moved[:] = probe
        reach = total_distance(law.columns, law.weights, 0, probe, space, buffer)
        reach /= law.mass
        odds, new = move_odds(law, lead, lead_reach, lead_energy, j, moved, reach)
        probe[:] = other
        other[:] = probe
        far = total_distance(law.columns, law.weights, 0, probe, space, buffer) / law.mass
        chance, next_energy = move_odds(law, lag, lag_reach, lag_energy, j, other, far)
        level = np.log(rng.random())
        if level < odds:
            lead[j] = moved
            lead_reach[j] = reach
            lead_energy = new
        if level < chance:
            lag[j] = other
            lag_reach[j] = far
            lag_energy = next_energy
        apart += int(np.any(lead[j] != lag[j])) - was
    return -1


@njit(cache=True, nogil=True)
def _meet_candidates(
    law: Any, lead: Any, lead_energy: Any, lag: Any, lag_energy: Any, limit: Any, rng: Any
) -> Any:
    """The same on candidates: both chains are offered the same point, candidate and level."""
    n, count, degree = lead.shape[0], law.potentials.shape[0], law.near.shape[1]
    apart = np.sum(lead != lag)
    for step in range(limit):
        if apart == 0:
            return step
        j = rng.integers(0, n)
        was = lead[j] != lag[j]
        if degree == 0 or rng.random() < 0.5:
            new = rng.integers(0, count)
            other = new
        else:
            slot = rng.integers(0, degree)
            new, other = law.near[lead[j], slot], law.near[lag[j], slot]
        odds, energy = exchange_odds(law, lead, lead_energy, j, new)
        chance, next_energy = exchange_odds(law, lag, lag_energy, j, other)
        level = np.log(rng.random())
        if level < odds:
            lead[j] = new
            lead_energy = energy
        if level < chance:
            lag[j] = other
            lag_energy = next_energy
        apart += int(lead[j] != lag[j]) - int(was)
    return -1


def meeting_times(
    law: Law | CandidateLaw,
    points: int,
    rng: np.random.Generator,
    *,
    lag: int,
    pairs: int = 32,
    limit: int = 100_000,
    step_size: float = 0.1,
) -> np.ndarray:
    """Meeting times of pairs of chains from uniform starts; -1 where ``limit`` was not enough.

    Times count the steps of the leading chain, so the smallest possible one is ``lag``. Only the
    random walk is coupled: MALA's drift would have to be coupled as well.
    """

    def on_rows(law: Law, source: np.random.Generator) -> int:
        ahead, behind = (random_walk.init(law.space.uniform(points, source), law) for _ in range(2))
        ahead, _ = random_walk.step(source, ahead, law, lag, size=step_size)
        return int(_meet(law, *ahead, *behind, step_size, limit, source))

    def on_candidates(law: CandidateLaw, source: np.random.Generator) -> int:
        start = candidates.build_kernel(law, points).start
        ahead, behind = start(source), start(source)
        ahead, _ = candidates.step(source, ahead, law, lag)
        return int(_meet_candidates(law, *ahead, *behind, limit, source))

    def one(source: np.random.Generator) -> int:
        if isinstance(law, CandidateLaw):
            steps = on_candidates(law, source)
        else:
            steps = on_rows(law, source)
        return steps + lag if steps >= 0 else -1

    with ThreadPoolExecutor() as pool:
        return np.array(list(pool.map(one, rng.spawn(pairs))))


def total_variation_bound(times: np.ndarray, *, lag: int, steps: int) -> TotalVariationBound:
    """Bound on the total variation distance between the chain's law after ``steps`` and its target.

    Example:
        >>> total_variation_bound(np.array([100, 150]), lag=100, steps=60).value
        0.0
    """
    met = int(np.sum(times >= 0))
    if met < len(times) or len(times) < 2:
        return TotalVariationBound(
            value=None, error=None, steps=steps, lag=lag, met=met, pairs=len(times)
        )
    excess = np.maximum(0.0, np.ceil((times - lag - steps) / lag))
    error = float(excess.std(ddof=1) / np.sqrt(len(times)))
    return TotalVariationBound(
        value=float(excess.mean()), error=error, steps=steps, lag=lag, met=met, pairs=len(times)
    )
