"""Fitting points to released potentials or counts: post-processing, so it costs no privacy.

Noise of equal strength in every direction of the Hilbert space makes ``exp(-beta * energy)`` the
likelihood of a set of points, with ``beta = rows^2 / (2 sigma^2)``. Chains near that temperature
are averaged, which removes noise that no points could fit; then points are fitted to the average.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from marginalsyn.plugins.points.driver import ChainRun, Schedule, anneal, cooling, run_chains
from marginalsyn.plugins.points.kernels import candidates, slice_walk
from marginalsyn.plugins.points.kernels.candidates import CandidateLaw, CandidateState
from marginalsyn.plugins.points.kernels.slice_walk import LONGEST, SliceState
from marginalsyn.plugins.points.slices import public_slices
from marginalsyn.plugins.points.support import support_points

if TYPE_CHECKING:
    from marginalsyn.plugins.points.field import Field
    from marginalsyn.plugins.points.metric import PointSpace
    from marginalsyn.plugins.points.slices import Slices

# How much colder than the likelihood the chains are, since uniform points are too strong a prior.
# On slices the factor is per coordinate: the more there are, the stronger that prior pulls.
COLDER = 3.0
COLDER_ON_SLICES, MOST_COLDER = 2.0, 10.0
WARM = 10.0  # inverse temperature per point at which a point far from home still moves
WITHOUT_NOISE = 1e7  # an inverse temperature at which points follow exact counts
SWEEP = 20  # steps per point between two draws
SWEEP_ON_SLICES = 4  # the same, per coordinate


def fit_field(
    field: Field,
    potentials: np.ndarray,
    points: int,
    rng: np.random.Generator,
    *,
    beta: float,
    chains: int = 4,
    draws: int = 100,
    cool: int = 20,
    restarts: int = 8,
) -> tuple[np.ndarray, np.ndarray, ChainRun]:
    """Points whose energy to the noisy potentials is low, by annealing and descent.

    Args:
        field: What was measured.
        potentials: What :meth:`Field.potentials` gave.
        points: How many points.
        rng: All randomness; nothing here protects anybody.
        beta: The likelihood's inverse temperature, from :meth:`Field.beta`.
        chains: Independent chains, from uniform starts.
        draws: Draws per chain for the average.
        cool: Stages of cooling before them.
        restarts: Starts of the final coordinate descent.

    Returns:
        The points, the averaged law on the lattice, and the record of the chains. All of it
        may be published, since the potentials may.
    """
    law = candidates.make_candidate_law(
        field.lattice, potentials, coefficient=beta * COLDER, root=False, space=field.space
    )
    cold, sweep = law.coefficient, SWEEP * points

    def tally(state: CandidateState, mass: np.ndarray) -> None:
        np.add.at(mass, state.indices, 1.0 / (points * draws))

    burn = cooling(cold / 1000, cold, stages=cool, steps=sweep)
    plan = Schedule(burn=burn, steps=sweep * draws, draws=draws, beta=cold)
    kernel = candidates.build_kernel(law, points)
    run = run_chains(kernel, rng, plan, chains=chains, tally=tally, cells=len(potentials))
    mass = np.mean(run.tallies, axis=0)
    smooth = law._replace(potentials=field.apart @ mass)
    starts = [state.indices for state in run.states]
    starts += [rng.choice(len(mass), points, p=mass / mass.sum()) for _ in range(restarts)]
    return field.lattice[_descend_from(starts, smooth)], mass, run


def fit_slices(
    slices: Slices,
    survival: np.ndarray,
    points: int,
    rng: np.random.Generator,
    *,
    beta: float,
    chains: int = 2,
    draws: int = 25,
    cool: int = 20,
) -> tuple[np.ndarray, np.ndarray, ChainRun]:
    """Points that fit noisy sliced counts.

    Args:
        slices: What was measured.
        survival: The noisy share of rows beyond every threshold.
        points: How many points.
        rng: All randomness; nothing here protects anybody.
        beta: The likelihood's inverse temperature.
        chains: Independent chains, from uniform starts.
        draws: Draws per chain for the average, one sweep apart.
        cool: Stages of cooling before and after.

    Returns:
        The points, the averaged share beyond every threshold, and the record of the chains. All of
        it may be published, since the counts may.
    """
    dimension = slices.space.dimension
    sweep = points * dimension * SWEEP_ON_SLICES
    cold = beta * min(COLDER_ON_SLICES * dimension, MOST_COLDER)

    def tally(state: SliceState, average: np.ndarray) -> None:
        average += slices.beyond(state.points) / (points * draws)

    burn = cooling(min(cold / 1000, WARM * points), cold, stages=cool, steps=sweep)
    plan = Schedule(burn=burn, steps=sweep * draws, draws=draws, beta=cold, size=LONGEST)
    kernel = slice_walk.build_kernel(slices, survival, points)
    run = run_chains(kernel, rng, plan, chains=chains, tally=tally, cells=len(survival))
    average = np.mean(run.tallies, axis=0)
    state, _ = anneal(
        slice_walk.build_kernel(slices, average, points),
        slice_walk.init(run.states[0].points, slices, average),
        cooling(cold / 10, cold * 1000, stages=cool, steps=sweep),
        rng,
        size=LONGEST,
    )
    return state.points, average, run


def mixed_support_points(
    rows: np.ndarray, points: int, space: PointSpace, rng: np.random.Generator
) -> np.ndarray:
    """Support points of rows with categories, by their sliced counts without noise. Not private.

    Of numbers alone by the usual procedure.
    """
    if not len(space.sizes):
        return support_points(rows, points, rng)
    slices = public_slices(space, None, 24, rng)
    survival = slices.beyond(rows) / len(rows)
    return fit_slices(slices, survival, points, rng, beta=WITHOUT_NOISE)[0]


def _descend_from(starts: Sequence[np.ndarray], law: CandidateLaw) -> np.ndarray:
    """The set of least energy that coordinate descent reaches from any of the starts."""
    best, lowest = starts[0], np.inf
    for start in starts:
        indices = start.copy()
        descend(law.potentials, law.apart, indices, 100)
        energy = candidates.init(indices, law).energy
        if energy < lowest:
            best, lowest = indices, energy
    return best


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
