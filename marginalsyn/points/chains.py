"""Metropolis-Hastings over sets of points whose law is given by their energy distance to data.

The target over n points Y is ``exp(-c e(X, Y))`` or, with ``root``, ``exp(-c sqrt(e(X, Y)))``. One
step moves one point (Diesendruck 2019, section 5.4): a Gaussian random walk that is reflected at
the faces of the cube, or its gradient form (MALA), and for categories a uniformly chosen other
code. In the manner of blackjax a kernel is a pure function of a generator and a state; the loop
behind it is compiled, so a step costs one pass over the data for the moved point and nothing else.

A finite run is never a draw from the target, so nothing here yields a privacy guarantee by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.points.energy import distance_matrix, potential, self_distance
from marginalsyn.points.metric import PointSpace
from marginalsyn.points.walks import grid_walk, height, slope, walk

KernelName = Literal["random-walk", "mala"]
ACCEPTANCE = 0.3  # what the step size is tuned to


class Law(NamedTuple):
    """The law that a chain should reach, and the data behind it.

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


class GridTarget(NamedTuple):
    """The same law on a public set of candidates: their potentials and distances are cached."""

    potentials: np.ndarray
    apart: np.ndarray
    near: np.ndarray
    coefficient: float
    offset: float
    root: bool


class ChainState(NamedTuple):
    """Where a chain is, with all that is dear to recompute."""

    points: np.ndarray
    potentials: np.ndarray
    slopes: np.ndarray
    energy: float


class GridState(NamedTuple):
    """Where a chain on candidates is: one index per point, and the energy."""

    indices: np.ndarray
    energy: float


class StepInfo(NamedTuple):
    """How many of the steps since the last report were accepted."""

    accepted: int
    steps: int

    @property
    def acceptance(self) -> float:
        """Share of the steps that were accepted."""
        return self.accepted / max(self.steps, 1)


class ChainRun(NamedTuple):
    """What a group of chains did. ``energies`` and ``means`` hold one draw per report.

    ``energies`` is (chains, draws); ``means`` (chains, draws, coordinates) are the points' means,
    which do not depend on the order of the points.
    """

    states: list
    energies: np.ndarray
    means: np.ndarray
    acceptance: np.ndarray
    step_sizes: np.ndarray


def make_target(
    rows: np.ndarray,
    *,
    coefficient: float,
    root: bool,
    space: PointSpace | None = None,
    weights: np.ndarray | None = None,
    offset: float | None = None,
) -> Law:
    """Build the target for rows of data.

    Args:
        rows: The data, one row per record, in the coordinates of ``space``.
        coefficient: The factor in front of the energy, or of its root.
        root: Whether the law is in the root of the energy.
        space: What the coordinates are; the unit cube by default.
        weights: Importance weights of the rows.
        offset: E|x - x'| if it is known already; it takes O(N^2) to compute.

    Example:
        >>> rows = np.random.default_rng(0).random((100, 2))
        >>> law = make_target(rows, coefficient=10.0, root=True)
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


def make_grid_target(
    candidates: np.ndarray,
    potentials: np.ndarray,
    *,
    coefficient: float,
    root: bool,
    offset: float = 0.0,
    space: PointSpace | None = None,
    neighbours: int = 8,
) -> GridTarget:
    """Build the target on candidates from their potentials U(g) = E|x - g| (noisy ones are fine).

    ``neighbours`` near candidates of each are proposed half of the time; 0 proposes any candidate.
    """
    apart = distance_matrix(candidates, candidates, space=space)
    count = min(neighbours, len(candidates) - 1)
    near = np.empty((len(candidates), count), dtype=np.int64)
    if count > 0:
        ranked = np.argpartition(apart + np.diag(np.full(len(apart), np.inf)), count - 1, axis=1)
        near = np.ascontiguousarray(ranked[:, :count])
    values = np.ascontiguousarray(potentials, dtype=float)
    return GridTarget(values, apart, near, float(coefficient), float(offset), bool(root))


def log_density(energy: float, target: Law | GridTarget) -> float:
    """Unnormalised log density of the target at a state of this energy."""
    return float(-target.coefficient * height(float(energy), target.root))


def init(points: np.ndarray, target: Law, *, kernel: KernelName = "random-walk") -> ChainState:
    """A chain's state at ``points``, with its potentials and energy computed from scratch."""
    points = np.array(points, dtype=np.float32).astype(float)  # a point is rounded as the rows are
    rows, space = target.columns.T, target.space
    potentials = potential(rows, points, space=space, weights=target.weights)
    energy = 2.0 * potentials.mean() - self_distance(points, space=space) - target.offset
    slopes = np.zeros((len(points), space.numeric))
    if kernel == "mala":
        if space.p != 2.0:
            raise UsageError(f"p ({space.p}) must be 2 with the kernel mala; take random-walk")
        buffer = np.zeros(512, dtype=np.float32)
        for point, out in zip(points, slopes, strict=True):
            slope(
                target.columns, target.weights, point.astype(np.float32), target.space, buffer, out
            )
    return ChainState(points, potentials, slopes, float(energy))


def init_grid(indices: np.ndarray, target: GridTarget) -> GridState:
    """A chain's state at the candidates ``indices``."""
    indices = np.array(indices, dtype=np.int64)
    apart = target.apart[np.ix_(indices, indices)].mean()
    energy = 2.0 * target.potentials[indices].mean() - apart - target.offset
    return GridState(indices, float(energy))


def advance(
    state: ChainState,
    target: Law,
    steps: int,
    rng: np.random.Generator,
    *,
    step_size: float,
    kernel: KernelName = "random-walk",
) -> tuple[ChainState, StepInfo]:
    """Run ``steps`` steps from ``state``, which is left as it was."""
    points, potentials, slopes = (part.copy() for part in state[:3])
    energy, accepted = walk(
        target, points, potentials, slopes, state.energy, steps, step_size, kernel == "mala", rng
    )
    return ChainState(points, potentials, slopes, float(energy)), StepInfo(int(accepted), steps)


def advance_grid(
    state: GridState,
    target: GridTarget,
    steps: int,
    rng: np.random.Generator,
    *,
    coefficient: float | None = None,
) -> tuple[GridState, StepInfo]:
    """The same on candidates; ``coefficient`` overrides the target's, for annealing."""
    indices = state.indices.copy()
    factor = target.coefficient if coefficient is None else float(coefficient)
    energy, accepted = grid_walk(target, indices, state.energy, factor, steps, rng)
    return GridState(indices, float(energy)), StepInfo(int(accepted), steps)


def build_kernel(
    target: Law, *, step_size: float, kernel: KernelName = "random-walk"
) -> Callable[[np.random.Generator, ChainState], tuple[ChainState, StepInfo]]:
    """One Metropolis-Hastings step as a pure function of a generator and a state.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> law = make_target(rng.random((100, 2)), coefficient=10.0, root=True)
        >>> step = build_kernel(law, step_size=0.1)
        >>> state, info = step(rng, init(rng.random((5, 2)), law))
    """

    def step(rng: np.random.Generator, state: ChainState) -> tuple[ChainState, StepInfo]:
        return advance(state, target, 1, rng, step_size=step_size, kernel=kernel)

    return step


def run_chains(
    target: Law,
    points: int,
    rng: np.random.Generator,
    *,
    chains: int = 4,
    steps: int = 20_000,
    burn: int = 5_000,
    kernel: KernelName = "random-walk",
    step_size: float = 0.1,
    draws: int = 250,
    report: Callable[[float], None] | None = None,
) -> ChainRun:
    """Run independent chains from uniform starts.

    The step size is tuned to 30% acceptance while burning in and never afterwards; what is
    reported is taken after that. Chains run on threads, each with its own generator.

    Args:
        target: The law.
        points: Points per set.
        rng: Source of all randomness; the run is reproducible from its state.
        chains: Number of chains.
        steps: Steps of each chain after burning in.
        burn: Steps of each chain during which the step size is tuned.
        kernel: ``random-walk`` or ``mala``.
        step_size: Where tuning starts.
        draws: How many reports to keep per chain.
        report: Told the share of the first chain that is done.
    """

    def one(source: np.random.Generator) -> tuple[ChainState, np.ndarray, np.ndarray, float, float]:
        state = init(target.space.uniform(points, source), target, kernel=kernel)
        size, chunk = step_size, max(burn // 50, 1)
        for _ in range(burn // chunk):
            state, info = advance(state, target, chunk, source, step_size=size, kernel=kernel)
            size = float(np.clip(size * np.exp(info.acceptance - ACCEPTANCE), 1e-4, 2.0))
        kept = max(min(draws, steps), 1)
        bounds = np.linspace(0, steps, kept + 1).astype(int)
        energies, means, accepted = np.empty(kept), np.empty((kept, points_dimension)), 0
        for i in range(kept):
            state, info = advance(
                state, target, bounds[i + 1] - bounds[i], source, step_size=size, kernel=kernel
            )
            energies[i], means[i] = state.energy, state.points.mean(axis=0)
            accepted += info.accepted
            if report is not None and source is sources[0]:
                report((i + 1) / kept)
        return state, energies, means, accepted / max(steps, 1), size

    points_dimension = target.space.dimension
    sources = rng.spawn(chains)
    with ThreadPoolExecutor(chains) as pool:
        results = list(pool.map(one, sources))
    states, energies, means, acceptance, sizes = zip(*results, strict=True)
    return ChainRun(
        list(states), np.array(energies), np.array(means), np.array(acceptance), np.array(sizes)
    )


def run_grid_chains(
    target: GridTarget,
    points: int,
    rng: np.random.Generator,
    *,
    chains: int = 4,
    steps: int = 100_000,
    burn: int = 20_000,
    draws: int = 250,
) -> ChainRun:
    """The same on candidates; ``means`` are the means of the points' potentials."""

    def one(
        source: np.random.Generator,
    ) -> tuple[GridState, np.ndarray, np.ndarray, float, float]:
        state = init_grid(source.integers(0, len(target.potentials), points), target)
        state, _ = advance_grid(state, target, burn, source)
        kept = max(min(draws, steps), 1)
        bounds = np.linspace(0, steps, kept + 1).astype(int)
        energies, means, accepted = np.empty(kept), np.empty((kept, 1)), 0
        for i in range(kept):
            state, info = advance_grid(state, target, bounds[i + 1] - bounds[i], source)
            energies[i], means[i] = state.energy, target.potentials[state.indices].mean()
            accepted += info.accepted
        return state, energies, means, accepted / max(steps, 1), float("nan")

    with ThreadPoolExecutor(chains) as pool:
        results = list(pool.map(one, rng.spawn(chains)))
    states, energies, means, acceptance, sizes = zip(*results, strict=True)
    return ChainRun(
        list(states), np.array(energies), np.array(means), np.array(acceptance), np.array(sizes)
    )
