"""Exact laws of mechanisms small enough to list every outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.table.numeric import ContinuousColumn
from marginalsyn.table.schema import Schema


def cube(dimension: int) -> Schema:
    """So many numbers between 0 and 1."""
    return Schema(
        columns=tuple(ContinuousColumn(name=f"x{i}", lower=0, upper=1) for i in range(dimension))
    )


def halves(count: int, ones: int) -> np.ndarray:
    """``count`` rows of one number: zeros, and ``ones`` ones."""
    return np.repeat([[0.0], [1.0]], [count - ones, ones], axis=0)


def normalised(logs: Any) -> np.ndarray:
    """Logarithms of weights as those of probabilities."""
    values = np.asarray(logs, dtype=float)
    return values - np.logaddexp.reduce(values)


def loss(first: np.ndarray, second: np.ndarray) -> float:
    """The eps between two log laws over the same outcomes."""
    return float(np.max(np.abs(first - second)))


def support_law(
    rows: np.ndarray,
    grid: np.ndarray,
    sets: Sequence[tuple[int, ...]],
    config: Any,
    budget: Budget,
) -> np.ndarray:
    """The log law that ``support-points`` aims at, over all sets of candidates.

    Args:
        rows: the data.
        grid: the candidates.
        sets: indices of every set of points.
        config: of the generator.
        budget: what it may spend.
    """
    from marginalsyn.plugins.points.energy import potential
    from marginalsyn.plugins.points.kernels.candidates import (
        candidate_log_density,
        make_candidate_law,
    )

    generator = config.configure(cube(grid.shape[1]), budget)
    target = generator._target(rows, np.random.default_rng(0))
    on_grid = make_candidate_law(
        grid,
        potential(target.columns.T, grid),
        coefficient=target.coefficient,
        root=target.root,
        offset=target.offset,
        neighbours=0,
    )
    return normalised([candidate_log_density(np.array(s), on_grid) for s in sets])


class Scripted:
    """A visit that is told what every draw gives, and adds up the log-probability of that."""

    def __init__(
        self, rows: np.ndarray, neighbours: Neighbours, script: Sequence[int], total: int
    ) -> None:
        self._rows, self.neighbours, self._script = rows, neighbours, list(script)
        self.noise = SimpleNamespace(post=np.random.default_rng(0))
        self.log_probability, self.spent, self.rows = 0.0, 0.0, total
        self.whole = 1

    def weighted_unit_batches(self, absent: float = 0.5) -> Iterator[tuple[np.ndarray, None]]:
        """The rows, none of which belongs to the person of another."""
        yield self._rows, None

    def measure(self, columns: Any, sigma: float, purpose: str = "") -> SimpleNamespace:
        """The number of rows, released: the same for both tables."""
        return SimpleNamespace(values=np.array(self.rows))

    def select(
        self, scores: np.ndarray, *, eps: float, sensitivity: float, purpose: str = ""
    ) -> int:
        """What the script says, at its probability."""
        index = self._script.pop(0)
        self.log_probability += float(normalised(eps * scores / (2 * sensitivity))[index])
        self.spent += eps
        return index


def delta_between(first: np.ndarray, second: np.ndarray, eps: float) -> float:
    """The delta at ``eps`` between two laws over the same outcomes, in the worse order."""
    factor = np.exp(eps)
    gaps = [np.maximum(p - factor * q, 0).sum() for p, q in ((first, second), (second, first))]
    return float(max(gaps))
