"""The one loop that runs chains: stages of burning in, then draws, on threads.

It knows nothing of what it moves; :mod:`marginalsyn.plugins.points.kernels` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from marginalsyn.plugins.points.kernels.kernel import Kernel, State

ACCEPTANCE = 0.3  # what the step size is tuned to
SIZES = (1e-4, 2.0)  # how short and how long tuned steps may get
TUNINGS = 50  # how often a burn-in tunes the step size


class Stage(NamedTuple):
    """Steps at one inverse temperature."""

    steps: int
    beta: float


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What every chain of a run does.

    Args:
        burn: The stages before anything is recorded.
        steps: Steps after them.
        draws: How many states to record in those steps, evenly spaced.
        beta: Inverse temperature of those steps.
        size: The step size, or where tuning starts.
        tune: Whether burning in tunes the step size, to 30% acceptance; it is fixed afterwards.

    Example:
        >>> Schedule(burn=cooling(1.0, 100.0, stages=3, steps=20), steps=50, draws=5, beta=100.0)
        ... # doctest: +ELLIPSIS
        Schedule(burn=(Stage(steps=20, beta=1.0), Stage(steps=20, beta=10.0), ...
    """

    burn: tuple[Stage, ...]
    steps: int
    draws: int
    beta: float
    size: float = 0.1
    tune: bool = False

    @classmethod
    def tuned(
        cls, beta: float, *, steps: int = 20_000, burn: int = 5_000, draws: int = 250
    ) -> Schedule:
        """One temperature throughout, and ``burn`` steps that tune the step size."""
        chunk = max(burn // TUNINGS, 1)
        stages = (Stage(chunk, beta),) * (burn // chunk)
        return cls(burn=stages, steps=steps, draws=draws, beta=beta, tune=True)


class ChainRun(NamedTuple):
    """What a group of chains did.

    Attributes:
        states: The chains' ends.
        energies: The recorded energies, (chains, draws).
        means: The kernel's mean of every recorded state, (chains, draws, coordinates).
        acceptance: Share of accepted steps after burning in, per chain.
        step_sizes: The tuned step sizes; none where they were not tuned.
        tallies: What ``tally`` added up over the recorded states, (chains, cells).
    """

    states: list[Any]
    energies: np.ndarray
    means: np.ndarray
    acceptance: np.ndarray
    step_sizes: np.ndarray
    tallies: np.ndarray


def cooling(first: float, last: float, *, stages: int, steps: int) -> tuple[Stage, ...]:
    """Stages from one inverse temperature to another, in equal ratios."""
    return tuple(Stage(steps, float(beta)) for beta in np.geomspace(first, last, stages))


def anneal(
    kernel: Kernel[State],
    state: State,
    stages: Iterable[Stage],
    rng: np.random.Generator,
    *,
    size: float = 0.1,
    tune: bool = False,
) -> tuple[State, float]:
    """Take one chain through the stages; return where it ends, and the step size at the end."""
    for steps, beta in stages:
        state, info = kernel.step(rng, state, steps, beta, size)
        if tune:
            size = float(np.clip(size * np.exp(info.acceptance - ACCEPTANCE), *SIZES))
    return state, size


def run_chains(
    kernel: Kernel[State],
    rng: np.random.Generator,
    schedule: Schedule,
    *,
    chains: int = 4,
    tally: Callable[[State, np.ndarray], None] | None = None,
    cells: int = 0,
    report: Callable[[float], None] | None = None,
) -> ChainRun:
    """Run independent chains from uniform starts, on threads, each with its own generator.

    Args:
        kernel: The law and how to move in it.
        rng: Source of all randomness; the run is reproducible from its state.
        schedule: What every chain does.
        chains: Number of chains.
        tally: Adds a recorded state to its chain's array of ``cells`` numbers, in place.
        cells: Length of that array.
        report: Told the share of the first chain's draws that is done.

    Example:
        >>> from marginalsyn.plugins.points.kernels.random_walk import build_walk
        >>> from marginalsyn.plugins.points.law import make_law
        >>> rng = np.random.default_rng(0)
        >>> law = make_law(rng.random((50, 2)), coefficient=5.0, root=True)
        >>> schedule = Schedule.tuned(law.coefficient, steps=100, burn=50, draws=20)
        >>> run_chains(build_walk(law, 3), rng, schedule, chains=2).means.shape
        (2, 20, 2)
    """
    sources = rng.spawn(chains)
    draws = max(min(schedule.draws, schedule.steps), 1)
    bounds = np.linspace(0, schedule.steps, draws + 1).astype(int)

    def one(source: np.random.Generator) -> tuple[State, list, list, float, float, np.ndarray]:
        state, size = anneal(
            kernel, kernel.start(source), schedule.burn, source,
            size=schedule.size, tune=schedule.tune,
        )  # fmt: skip
        energies, means, accepted, total = [], [], 0, np.zeros(cells)
        for i, steps in enumerate(np.diff(bounds)):
            state, info = kernel.step(source, state, int(steps), schedule.beta, size)
            energies.append(state.energy)
            means.append(kernel.mean(state))
            accepted += info.accepted
            if tally is not None:
                tally(state, total)
            if report is not None and source is sources[0]:
                report((i + 1) / draws)
        return state, energies, means, accepted / max(schedule.steps, 1), size, total

    with ThreadPoolExecutor(chains) as pool:
        ends, energies, means, rates, sizes, totals = zip(*pool.map(one, sources), strict=True)
    return ChainRun(
        list(ends),
        np.array(energies),
        np.array(means),
        np.array(rates),
        np.array(sizes if schedule.tune else ()),
        np.array(totals),
    )
