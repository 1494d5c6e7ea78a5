"""Exact laws of mechanisms small enough to list every outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from marginalsyn.access.rows import RowBatch
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.selection import ExponentialMechanism
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
    from marginalsyn.plugins.points.kernels.candidates import (
        candidate_log_density,
        make_candidate_law,
    )
    from marginalsyn.table.energy import potential

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
    """A visit whose draws follow a script, and which adds up their log-probability."""

    def __init__(
        self, rows: np.ndarray, neighbours: Neighbours, script: Sequence[int], total: int
    ) -> None:
        self._rows, self.neighbours, self._script = rows, neighbours, list(script)
        self.noise = SimpleNamespace(post=np.random.default_rng(0))
        self.log_probability, self.spent, self.rows = 0.0, 0.0, total
        self.whole = 1

    def batches(self, **how: Any) -> Iterator[RowBatch]:
        """The rows, as unit coordinates; each is a person of its own."""
        yield RowBatch(self._rows)

    def measure(self, columns: Any, sigma: float, purpose: str = "") -> SimpleNamespace:
        """The number of rows, released: the same for both tables."""
        return SimpleNamespace(values=np.array(self.rows))

    def draw(self, law: ExponentialMechanism, scores: np.ndarray, *, purpose: str = "") -> int:
        """The index in the script, at its probability."""
        index = self._script.pop(0)
        logs = normalised(law.eps * scores / (2 * law.sensitivity))
        self.log_probability += float(logs[index])
        self.spent += law.eps
        return index


def delta_between(first: np.ndarray, second: np.ndarray, eps: float) -> float:
    """The delta at ``eps`` between two laws over the same outcomes, in the worse order."""
    factor = np.exp(eps)
    gaps = [np.maximum(p - factor * q, 0).sum() for p, q in ((first, second), (second, first))]
    return float(max(gaps))
