"""The one loop that runs chains: stages of burning in, then draws, on threads.

It knows nothing of what it moves; :mod:`marginalsyn.plugins.points.walks` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

ACCEPTANCE = 0.3  # what the step size is tuned to
SIZES = (1e-4, 2.0)  # how short and how long tuned steps may get
TUNINGS = 50  # how often a burn-in tunes the step size
DRAWS = 250  # states that are recorded of a tuned chain
TRACE = 100  # energies of a chain that a summary keeps, about


class ChainState(Protocol):
    """Where a chain is, with everything that is expensive to recompute."""

    @property
    def energy(self) -> float:
        """The energy there; each kernel says up to which constant."""
        ...


State = TypeVar("State", bound=ChainState)


class Kernel(Generic[State]):
    """A law, and how a chain moves in it."""

    def start(self, rng: np.random.Generator) -> State:
        """A state drawn uniformly."""
        raise NotImplementedError

    def step(
        self, rng: np.random.Generator, state: State, steps: int, beta: float, size: float
    ) -> tuple[State, int]:
        """The state after so many steps, and how many of them were accepted.

        ``beta`` is what multiplies the energy. Kernels without a length ignore the step size.
        """
        raise NotImplementedError

    def mean(self, state: State) -> np.ndarray:
        """A vector that does not depend on the points' order, to judge convergence by."""
        raise NotImplementedError


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
    def tuned(cls, beta: float, *, steps: int, burn: int) -> Schedule:
        """One temperature throughout, and ``burn`` steps that tune the step size."""
        chunk = max(burn // TUNINGS, 1)
        stages = (Stage(chunk, beta),) * (burn // chunk)
        return cls(burn=stages, steps=steps, draws=DRAWS, beta=beta, tune=True)


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
        state, accepted = kernel.step(rng, state, steps, beta, size)
        if tune:
            size = float(np.clip(size * np.exp(accepted / max(steps, 1) - ACCEPTANCE), *SIZES))
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
        report: Called with the share of the first chain's draws that is done.

    Example:
        >>> from marginalsyn.plugins.points.walks import RandomWalk, make_law
        >>> rng = np.random.default_rng(0)
        >>> law = make_law(rng.random((50, 2)), coefficient=5.0, root=True)
        >>> schedule = Schedule.tuned(law.coefficient, steps=100, burn=50)
        >>> run_chains(RandomWalk(law, 3), rng, schedule, chains=2).means.shape
        (2, 100, 2)
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
            state, more = kernel.step(source, state, int(steps), schedule.beta, size)
            energies.append(state.energy)
            means.append(kernel.mean(state))
            accepted += more
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


def _figures(draws: np.ndarray) -> dict[str, float | None]:
    """Rank-normalised split R-hat and effective sample sizes (Vehtari et al. 2021), or None."""
    from arviz_stats.base import array_stats

    if len(draws) == 1:  # a lone chain is compared with itself: its first half with its second
        half = draws.shape[-1] // 2
        draws = draws[:, : 2 * half].reshape(2, half)
    if draws.shape[-1] < 4 or np.ptp(draws) == 0:
        return {"rhat": None, "ess_bulk": None, "ess_tail": None}
    return {
        "rhat": float(array_stats.rhat(draws, method="rank")),
        "ess_bulk": float(array_stats.ess(draws, method="bulk")),
        # arviz-stats 1 has no default for the quantiles; these were 0.5's.
        "ess_tail": float(array_stats.ess(draws, method="tail", prob=(0.05, 0.95))),
    }


def summarise(run: ChainRun) -> dict[str, Any]:
    """R-hat, effective sample sizes, acceptance and energy traces of a run.

    ``energy`` has the figures of the energy, ``worst_mean`` those of the coordinate mean that
    mixes worst. Some hundred energies per chain are kept.

    Example:
        >>> from marginalsyn.plugins.points.walks import RandomWalk, make_law
        >>> rng = np.random.default_rng(0)
        >>> law = make_law(rng.random((50, 2)), coefficient=5.0, root=True)
        >>> schedule = Schedule.tuned(law.coefficient, steps=100, burn=50)
        >>> run = run_chains(RandomWalk(law, 3), rng, schedule)
        >>> summarise(run)["chains"]
        4
    """
    means = [_figures(run.means[:, :, c]) for c in range(run.means.shape[2])]
    worst = max(means, key=lambda figures: figures["rhat"] or 0.0, default={})
    every = max(run.energies.shape[1] // TRACE, 1)
    return {
        "chains": len(run.states),
        "acceptance": [round(float(a), 4) for a in run.acceptance],
        "step_sizes": run.step_sizes.tolist(),
        "energy": _figures(run.energies),
        "worst_mean": worst,
        "energy_trace": run.energies[:, ::every].tolist(),
    }
