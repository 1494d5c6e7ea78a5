"""Fitting points to released potentials or counts: post-processing, so it costs no privacy.

Noise of equal strength in every direction of the Hilbert space makes ``exp(-beta * energy)`` the
likelihood of a set of points, with ``beta = rows^2 / (2 sigma^2)``. Chains near that temperature
are averaged, which removes noise that no points could fit; then points are fitted to the average.

The whole potential of a table on a public lattice, released with one Gaussian noise.

With the kernel ``k(u, v) = U_nu(u) + U_nu(v) - |u - v| - I_nu`` (nu the uniform law on the cube's
corners, U_nu its potential) a row is a vector phi(x) in a Hilbert space and
``|phi(x) - phi(x')|^2 = 2 |x - x'|``, so the energy distance is the squared distance of mean
vectors. Rows are first moved to the nearest lattice point, a public map of a single row; the
lattice's vectors are written out by the eigenvectors of K, scaled and rounded to integers. Then a
table is a sum of integer vectors and its sensitivity is a maximum over a public finite set,
computed in integers. Gaussian noise of the same strength in every direction of the Hilbert space
is all it takes: how many points are fitted afterwards, and how often, costs nothing.

Why corners: under add-remove one row adds phi(x), and ``|phi(x)|^2 = 2 U_nu(x) - I_nu`` is convex
in x, largest at the corners, and by symmetry equal to I_nu there. No other centre has a smaller
maximum, since ``max_x |phi(x)|^2 >= E_nu |phi(x)|^2 = I_nu`` for every centre. In two dimensions
that is 0.854, where the cube's middle as centre gives 1.414.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from marginalsyn.errors import UsageError
from marginalsyn.plugins.points.driver import (
    ChainRun,
    Kernel,
    Schedule,
    State,
    anneal,
    cooling,
    run_chains,
)
from marginalsyn.plugins.points.slices import Slices, public_slices
from marginalsyn.plugins.points.walks import (
    LONGEST,
    CandidateState,
    CandidateWalk,
    SliceState,
    SliceWalk,
    make_candidate_law,
)
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.table.energy import FAST, distance_matrix, energy_distance
from marginalsyn.table.metric import Batch, PointSpace, weights_of

VECTOR_LENGTH = 2**20  # length of the longest vector after rounding to integers


@dataclass(frozen=True)
class Field:
    """A lattice of ``side`` points per axis over the cube of a numeric space.

    Example:
        >>> field = Field(PointSpace.cube(2), side=9)
        >>> len(field.lattice)
        81
    """

    space: PointSpace
    side: int

    def __post_init__(self) -> None:
        if len(self.space.weights) or self.space.numeric < 1:
            raise UsageError(
                "the field form takes numeric and ordinal columns without missing values only; "
                "use the form 'slices'"
            )

    @cached_property
    def lattice(self) -> np.ndarray:
        """The lattice points, in the order of their flat index."""
        axis = np.linspace(0.0, 1.0, self.side)
        axes = np.meshgrid(*[axis] * self.space.numeric, indexing="ij")
        return np.stack(axes, axis=-1).reshape(-1, self.space.numeric)

    @cached_property
    def distances(self) -> np.ndarray:
        """All distances between lattice points."""
        return distance_matrix(self.lattice, self.lattice, space=self.space)

    @cached_property
    def reach(self) -> np.ndarray:
        """U_nu on the lattice: the mean distance to the corners."""
        corner = np.all((self.lattice == 0.0) | (self.lattice == 1.0), axis=1)
        return self.distances[:, corner].mean(axis=1)

    @cached_property
    def _vectors(self) -> tuple[np.ndarray, float]:
        """Integer vectors of the lattice points, and the length of their unit."""
        corner = np.all((self.lattice == 0.0) | (self.lattice == 1.0), axis=1)
        inner = (
            self.reach[:, None] + self.reach[None, :] - self.distances - self.reach[corner].mean()
        )
        values, directions = np.linalg.eigh(inner)
        kept = values > values[-1] * 1e-13
        vectors = directions[:, kept] * np.sqrt(values[kept])
        unit = float(np.sqrt(np.max(np.sum(vectors**2, axis=1)))) / VECTOR_LENGTH
        return np.rint(vectors / unit).astype(np.int64), unit

    def snap(self, points: np.ndarray) -> np.ndarray:
        """Flat index of the nearest lattice point."""
        steps = np.rint(np.clip(points, 0.0, 1.0) * (self.side - 1)).astype(np.int64)
        return np.ravel_multi_index(tuple(steps.T), (self.side,) * self.space.numeric)

    def vectors(self, points: np.ndarray) -> np.ndarray:
        """What each point adds to the integer sums."""
        return self._vectors[0][self.snap(points)]

    def measure(self, batches: Iterable[Batch], whole: int = 1) -> tuple[np.ndarray, int]:
        """The integer sums to add noise to, and the number of rows. One pass, flat memory.

        Sums of rows that weigh ``whole`` together are divided by it and rounded down, at the end.
        """
        cells, rows = np.zeros(len(self.lattice), dtype=np.int64), 0
        for batch in batches:
            points, weights = weights_of(batch)
            np.add.at(cells, self.snap(points), weights)
            rows += len(points)
        # Undivided, sums could pass 2^63 with 2^23 persons; no lattice is large enough for the
        # second product to.
        units, parts = np.divmod(cells, whole)
        vectors = self._vectors[0]
        return units @ vectors + parts @ vectors // whole, rows

    def sensitivity(self, neighbours: Neighbours, *, averaged: bool = False) -> float:
        """How much one row moves the integer sums, in Euclidean norm: a maximum over the lattice.

        All squared lengths are integers below 2^53, so they are exact in double precision. A
        person's weighted rows move them by an average of those (``averaged``), and rounding down
        moves each by less than 1 more.
        """
        vectors = self._vectors[0].astype(float)
        squares = np.sum(vectors**2, axis=1)
        if neighbours is Neighbours.ADD_REMOVE:
            largest = float(squares.max())
        else:
            inner = vectors @ vectors.T
            largest = float((squares[:, None] + squares[None, :] - 2.0 * inner).max())
        slack = math.sqrt(vectors.shape[1]) if averaged else 0.0
        return math.nextafter(math.sqrt(largest) + slack, math.inf)

    def answers(self, sums: np.ndarray, total: float) -> np.ndarray:
        """Mean distances to the rows from (noisy) sums, up to a constant that does not matter."""
        vectors, unit = self._vectors
        return self.reach - vectors @ (np.asarray(sums, dtype=float) / total) * unit**2

    def loss(self, potentials: np.ndarray, points: np.ndarray) -> float:
        """Energy of points, moved to the lattice, to (noisy) potentials, up to a constant."""
        mass = np.bincount(self.snap(points), minlength=len(potentials)) / len(points)
        return float(2.0 * mass @ potentials - mass @ self.distances @ mass)

    def beta(self, total: float, sigma: float) -> float:
        """The likelihood's inverse temperature, ``rows^2 / (2 s^2)``, s the noise in H."""
        return total**2 / (2.0 * (sigma * self._vectors[1]) ** 2)


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


def _run_cooled(
    kernel: Kernel[State],
    rng: np.random.Generator,
    *,
    first: float,
    cold: float,
    sweep: int,
    draws: int,
    chains: int,
    cells: int,
    tally: Callable[[State, np.ndarray], None],
) -> tuple[np.ndarray, ChainRun]:
    """Cool independent chains from uniform starts; the average of what they tally, and the run."""
    burn = cooling(first, cold, stages=STAGES, steps=sweep)
    plan = Schedule(burn=burn, steps=sweep * draws, draws=draws, beta=cold, size=LONGEST)
    run = run_chains(kernel, rng, plan, chains=chains, tally=tally, cells=cells)
    return np.mean(run.tallies, axis=0), run


def fit_field(
    field: Field,
    potentials: np.ndarray,
    points: int,
    rng: np.random.Generator,
    *,
    beta: float,
    chains: int,
) -> tuple[np.ndarray, ChainRun]:
    """Points whose energy to the noisy potentials is low, by annealing and descent.

    Args:
        field: What was measured.
        potentials: What :meth:`Field.answers` gave.
        points: How many points.
        rng: All randomness; nothing here protects anybody.
        beta: The likelihood's inverse temperature, from :meth:`Field.beta`.
        chains: Independent chains, from uniform starts.

    Returns:
        The points and the record of the chains. They may be published, since the potentials may.
    """
    law, cold = make_candidate_law(field.lattice, potentials, field.space), float(beta * COLDER)

    def tally(state: CandidateState, mass: np.ndarray) -> None:
        np.add.at(mass, state.indices, 1.0 / (points * DRAWS))

    mass, run = _run_cooled(
        CandidateWalk(law, points), rng, first=cold / 1000, cold=cold, sweep=SWEEP * points,
        draws=DRAWS, chains=chains, cells=len(potentials), tally=tally,
    )  # fmt: skip
    smooth = CandidateWalk(law._replace(potentials=field.distances @ mass), points)
    starts = [state.indices for state in run.states]
    starts += [rng.choice(len(mass), points, p=mass / mass.sum()) for _ in range(RESTARTS)]
    return field.lattice[_descend_from(starts, smooth)], run


def fit_slices(
    slices: Slices,
    survival: np.ndarray,
    points: int,
    rng: np.random.Generator,
    *,
    beta: float,
    chains: int = 2,
) -> tuple[np.ndarray, ChainRun]:
    """Points that fit noisy sliced counts; the arguments are as those of :func:`fit_field`.

    ``survival`` is the noisy share of rows beyond every threshold.
    """
    dimension = slices.space.dimension
    sweep = points * dimension * SWEEP_ON_SLICES
    cold = beta * min(COLDER_ON_SLICES * dimension, MOST_COLDER)

    def tally(state: SliceState, average: np.ndarray) -> None:
        average += slices.beyond(state.points) / (points * DRAWS_ON_SLICES)

    average, run = _run_cooled(
        SliceWalk(slices, survival, points), rng, first=min(cold / 1000, WARM * points), cold=cold,
        sweep=sweep, draws=DRAWS_ON_SLICES, chains=chains, cells=len(survival), tally=tally,
    )  # fmt: skip
    smooth = SliceWalk(slices, average, points)
    state, _ = anneal(
        smooth,
        smooth.at(run.states[0].points),
        cooling(cold / 10, cold * 1000, stages=STAGES, steps=sweep),
        rng,
        size=LONGEST,
    )
    return state.points, run


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


def _descend_from(starts: Sequence[np.ndarray], walk: CandidateWalk) -> np.ndarray:
    """The set of least energy that coordinate descent reaches from any of the starts."""
    best, lowest = starts[0], np.inf
    for start in starts:
        indices = start.copy()
        descend(walk.law.potentials, walk.law.distances, indices, 100)
        energy = walk.at(indices).energy
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
