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

from marginalsyn.errors import UsageError
from marginalsyn.plugins.points.driver import ChainRun, Schedule, anneal, cooling, run_chains
from marginalsyn.plugins.points.kernels import candidates, slice_walk
from marginalsyn.plugins.points.kernels.candidates import CandidateLaw, CandidateState
from marginalsyn.plugins.points.kernels.slice_walk import LONGEST, SliceState
from marginalsyn.plugins.points.slices import public_slices
from marginalsyn.table.energy import FAST, energy_distance

if TYPE_CHECKING:
    from marginalsyn.plugins.points.field import Field
    from marginalsyn.plugins.points.slices import Slices
    from marginalsyn.table.metric import PointSpace


# How much colder than the likelihood the chains are, since uniform points are too strong a prior.
# On slices the factor is per coordinate: the more there are, the stronger that prior pulls.
COLDER = 3.0
COLDER_ON_SLICES, MOST_COLDER = 2.0, 10.0
WARM = 10.0  # inverse temperature per point at which a point far from home still moves
WITHOUT_NOISE = 1e7  # an inverse temperature at which points follow exact counts
SWEEP = 20  # steps per point between two draws
SWEEP_ON_SLICES = 4  # the same, per coordinate
DRAWS, DRAWS_ON_SLICES = 100, 25  # for the average, in each chain
STAGES = 20  # of cooling
RESTARTS = 8  # of the final coordinate descent


def fit_field(
    field: Field,
    potentials: np.ndarray,
    points: int,
    rng: np.random.Generator,
    *,
    beta: float,
    chains: int = 4,
) -> tuple[np.ndarray, np.ndarray, ChainRun]:
    """Points whose energy to the noisy potentials is low, by annealing and descent.

    Args:
        field: What was measured.
        potentials: What :meth:`Field.answers` gave.
        points: How many points.
        rng: All randomness; nothing here protects anybody.
        beta: The likelihood's inverse temperature, from :meth:`Field.beta`.
        chains: Independent chains, from uniform starts.

    Returns:
        The points, the averaged law on the lattice, and the record of the chains. All of it
        may be published, since the potentials may.
    """
    law = candidates.make_candidate_law(
        field.lattice, potentials, coefficient=beta * COLDER, root=False, space=field.space
    )
    cold, sweep = law.coefficient, SWEEP * points

    def tally(state: CandidateState, mass: np.ndarray) -> None:
        np.add.at(mass, state.indices, 1.0 / (points * DRAWS))

    burn = cooling(cold / 1000, cold, stages=STAGES, steps=sweep)
    plan = Schedule(burn=burn, steps=sweep * DRAWS, draws=DRAWS, beta=cold)
    kernel = candidates.build_kernel(law, points)
    run = run_chains(kernel, rng, plan, chains=chains, tally=tally, cells=len(potentials))
    mass = np.mean(run.tallies, axis=0)
    smooth = law._replace(potentials=field.distances @ mass)
    starts = [state.indices for state in run.states]
    starts += [rng.choice(len(mass), points, p=mass / mass.sum()) for _ in range(RESTARTS)]
    return field.lattice[_descend_from(starts, smooth)], mass, run


def fit_slices(
    slices: Slices,
    survival: np.ndarray,
    points: int,
    rng: np.random.Generator,
    *,
    beta: float,
    chains: int = 2,
) -> tuple[np.ndarray, np.ndarray, ChainRun]:
    """Points that fit noisy sliced counts.

    Args:
        slices: What was measured.
        survival: The noisy share of rows beyond every threshold.
        points: How many points.
        rng: All randomness; nothing here protects anybody.
        beta: The likelihood's inverse temperature.
        chains: Independent chains, from uniform starts.

    Returns:
        The points, the averaged share beyond every threshold, and the record of the chains. All of
        it may be published, since the counts may.
    """
    dimension = slices.space.dimension
    sweep = points * dimension * SWEEP_ON_SLICES
    cold = beta * min(COLDER_ON_SLICES * dimension, MOST_COLDER)

    def tally(state: SliceState, average: np.ndarray) -> None:
        average += slices.beyond(state.points) / (points * DRAWS_ON_SLICES)

    burn = cooling(min(cold / 1000, WARM * points), cold, stages=STAGES, steps=sweep)
    plan = Schedule(
        burn=burn,
        steps=sweep * DRAWS_ON_SLICES,
        draws=DRAWS_ON_SLICES,
        beta=cold,
        size=LONGEST,
    )
    kernel = slice_walk.build_kernel(slices, survival, points)
    run = run_chains(kernel, rng, plan, chains=chains, tally=tally, cells=len(survival))
    average = np.mean(run.tallies, axis=0)
    state, _ = anneal(
        slice_walk.build_kernel(slices, average, points),
        slice_walk.init(run.states[0].points, slices, average),
        cooling(cold / 10, cold * 1000, stages=STAGES, steps=sweep),
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
        descend(law.potentials, law.distances, indices, 100)
        energy = candidates.init(indices, law).energy
        if energy < lowest:
            best, lowest = indices, energy
    return best


@njit(cache=True, nogil=True)
def descend(potentials: Any, distances: Any, indices: Any, sweeps: Any) -> None:
    """Coordinate descent over candidates, in place: each point in turn goes where it is best."""
    n, count = indices.shape[0], potentials.shape[0]
    field = np.zeros(count)
    for j in range(n):
        field += distances[indices[j]]
    for _ in range(sweeps):
        moved = False
        for j in range(n):
            old = indices[j]
            field -= distances[old]
            best = old
            lowest = potentials[old] - field[old] / n
            for g in range(count):
                value = potentials[g] - field[g] / n
                if value < lowest:
                    lowest, best = value, g
            indices[j] = best
            moved = moved or best != old
            field += distances[best]
        if not moved:
            break


ITERATIONS, TOLERANCE = 500, 1e-5  # when the procedure stops: so many, or no coordinate moves on


@njit(cache=True, fastmath=FAST, nogil=True)
def _update(rows: Any, weights: Any, points: Any, out: Any) -> float:
    """One step of the convex-concave procedure for all points at once; the largest move.

    Equation (22) of Mak and Joseph (2018): the attraction is majorised by a quadratic with
    weights 1 / |x_i - y_j|, the repulsion is linear at the current points.
    """
    n, d = points.shape
    largest = 0.0
    pull, push = np.zeros(d), np.zeros(d)
    for j in range(n):
        pull[:], push[:] = 0.0, 0.0
        mass = 0.0
        for i in range(rows.shape[0]):
            square = 0.0
            for c in range(d):
                square += (rows[i, c] - points[j, c]) ** 2
            # The floor keeps the weight finite where a point sits on a row.
            factor = weights[i] / np.sqrt(max(square, 1e-18))
            mass += factor
            for c in range(d):
                pull[c] += factor * rows[i, c]
        for k in range(n):
            square = 0.0
            for c in range(d):
                square += (points[k, c] - points[j, c]) ** 2
            if square > 0.0:
                factor = 1.0 / (np.sqrt(square) * n)
                for c in range(d):
                    push[c] += factor * (points[j, c] - points[k, c])
        for c in range(d):
            out[j, c] = min(max((push[c] + pull[c]) / mass, 0.0), 1.0)
            largest = max(largest, abs(out[j, c] - points[j, c]))
    return largest


def support_points(
    rows: np.ndarray,
    points: int,
    rng: np.random.Generator,
    *,
    starts: int = 1,
) -> np.ndarray:
    """Support points of rows in the unit cube (Euclidean norm), by the convex-concave procedure.

    Args:
        rows: The data, one row per record, in [0, 1].
        points: How many points.
        rng: Chooses the starts, which are rows of the data with a little jitter.
        starts: Runs, of which the best is returned.

    Returns:
        An array of shape (points, dimension). It reveals rows: never publish it.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> support_points(rng.random((100, 2)), 5, rng).shape
        (5, 2)
    """
    rows = np.ascontiguousarray(rows, dtype=float)
    if rows.ndim != 2 or len(rows) == 0 or points < 1:
        raise UsageError(f"rows (shape {rows.shape}) and points ({points}) must both be at least 1")
    shares = np.full(len(rows), 1.0 / len(rows))
    best, lowest = np.empty(0), np.inf
    for _ in range(starts):
        place = rows[rng.choice(len(rows), points, replace=points > len(rows), p=shares)]
        place = np.clip(place + rng.normal(0.0, 1e-3, place.shape), 0.0, 1.0)
        out = np.empty_like(place)
        for _ in range(ITERATIONS):
            moved = _update(rows, shares, place, out)
            place, out = out, place
            if moved < TOLERANCE:
                break
        energy = energy_distance(rows, place) if starts > 1 else 0.0
        if energy < lowest:
            best, lowest = place, energy
    return best
