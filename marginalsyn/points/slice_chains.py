"""Fitting points to sliced counts by Metropolis-Hastings: post-processing, so it costs no privacy.

Noise of equal strength along every direction makes ``exp(-N^2 / (2 sigma^2) * energy)`` the
likelihood of a set of points. Chains at that temperature are averaged, which removes noise that no
points could fit, and a last chain at temperature zero fits the average.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from marginalsyn.points.chains import ChainRun
from marginalsyn.points.slice_walks import slice_walk
from marginalsyn.points.slices import Slices

# Times colder than the likelihood's own temperature, per coordinate: uniform points are a prior
# that pulls the stronger the more coordinates there are.
COLDER, MOST_COLDER = 2.0, 10.0
WARM = 10.0
SWEEP = 4  # proposals per coordinate of every point in one sweep
STEP = 0.3  # the longest of the steps' widths


class SliceState(NamedTuple):
    """Points, and what is cached of their projections; ``energy`` is relative to the target."""

    points: np.ndarray
    shadows: np.ndarray
    places: np.ndarray
    prefix: np.ndarray
    energy: float


def init_slices(points: np.ndarray, slices: Slices, survival: np.ndarray) -> SliceState:
    """A state at ``points`` for a target given as the share beyond every threshold."""
    points = np.array(points, dtype=float)
    left = survival - slices.beyond(points) / len(points)
    energy = float(np.sum(slices.factors * left**2))
    prefix = np.zeros(slices.starts[-1] + slices.count)
    for k, start in enumerate(slices.law.prefix_start):
        part = left[slices.starts[k] : slices.starts[k + 1]]
        prefix[start + 1 : start + 1 + len(part)] = np.cumsum(part)
    return SliceState(points, *slices.project(points), prefix, energy)


def advance_slices(
    state: SliceState,
    slices: Slices,
    steps: int,
    rng: np.random.Generator,
    *,
    beta: float,
    size: float = STEP,
) -> tuple[SliceState, int]:
    """Run ``steps`` steps of inverse temperature ``beta``; the state given is left as it was."""
    points, shadows, places, prefix = (part.copy() for part in state[:4])
    change, accepted = slice_walk(
        slices.law, points, shadows, places, prefix, beta, size, steps, rng
    )
    return SliceState(points, shadows, places, prefix, state.energy + float(change)), int(accepted)


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
        slices: what was measured.
        survival: the noisy share of rows beyond every threshold.
        points: how many points.
        rng: all randomness; nothing here protects anybody.
        beta: ``rows^2 / (2 sigma^2)``, the inverse temperature of the likelihood.
        chains: independent chains, from uniform starts.
        draws: draws per chain for the average, one sweep apart.
        cool: sweeps of cooling before and after.

    Returns:
        The points, the averaged share beyond every threshold, and the record of the chains. All of
        it may be published, since the counts may.
    """
    sweep = points * slices.space.dimension * SWEEP
    warm = WARM * points  # where a move of a point far from home is still accepted
    cold = beta * min(COLDER * slices.space.dimension, MOST_COLDER)

    def one(source: np.random.Generator) -> tuple[SliceState, np.ndarray, np.ndarray, list, float]:
        state = init_slices(slices.space.uniform(points, source), slices, survival)
        for warmer in np.geomspace(min(cold / 1000, warm), cold, cool):
            state, _ = advance_slices(state, slices, sweep, source, beta=warmer)
        average, accepted = np.zeros(len(survival)), 0
        energies, means = np.empty(draws), []
        for i in range(draws):
            state, moved = advance_slices(state, slices, sweep, source, beta=cold)
            average += slices.beyond(state.points) / (points * draws)
            energies[i], accepted = state.energy, accepted + moved
            means.append(state.points.mean(axis=0))
        return state, average, energies, means, accepted / (sweep * draws)

    with ThreadPoolExecutor(chains) as pool:
        states, averages, energies, means, acceptance = zip(
            *pool.map(one, rng.spawn(chains)), strict=True
        )
    average = np.mean(averages, axis=0)
    state = init_slices(states[0].points, slices, average)
    for colder in np.geomspace(cold / 10, cold * 1000, cool):
        state, _ = advance_slices(state, slices, sweep, rng, beta=colder)
    run = ChainRun(
        list(states), np.array(energies), np.array(means), np.array(acceptance), np.zeros(0)
    )
    return state.points, average, run
