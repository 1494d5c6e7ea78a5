"""What a kernel hands to the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np


class ChainState(Protocol):
    """Where a chain is, with everything that is expensive to recompute."""

    @property
    def energy(self) -> float:
        """The energy there; each kernel says up to which constant."""
        ...


State = TypeVar("State", bound=ChainState)


class StepInfo(NamedTuple):
    """How many of a call's steps were accepted."""

    accepted: int
    steps: int

    @property
    def acceptance(self) -> float:
        """Share of the steps that were accepted."""
        return self.accepted / max(self.steps, 1)


class Kernel(NamedTuple, Generic[State]):
    """A kernel bound to its law.

    Attributes:
        law: What the chain should reach.
        start: A state drawn uniformly.
        step: From a generator, a state, a number of steps, an inverse temperature (what multiplies
            the energy) and a step size: the state after those steps, and what happened. Kernels
            without a length ignore the step size.
        mean: A vector that does not depend on the points' order, to judge convergence by.
    """

    law: Any
    start: Callable[[np.random.Generator], State]
    step: Callable[[np.random.Generator, State, int, float, float], tuple[State, StepInfo]]
    mean: Callable[[State], np.ndarray]
