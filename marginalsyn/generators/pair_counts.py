"""Exact counts of all pairs of columns, side by side, to compare a whole model with at once.

What it returns is private: scores for the exponential mechanism, or values to add noise to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from marginalsyn.graphical.model import Fitted

# From so many pairs on it pays to answer all of them at once.
MANY_PAIRS = 1000
_MOST = np.iinfo(np.int32).max

Round = Callable[[np.ndarray], None]


class PairCounts:
    """The counts of every pair of columns.

    Args:
        domain: sizes of the (merged) columns.
        count: exact counts of some pairs, by their columns in domain order.
        chunks: splits pairs into lots whose counts fit in memory.
    """

    def __init__(
        self,
        domain: Mapping[str, int],
        count: Callable[[Sequence[tuple[str, ...]]], Mapping[tuple[str, ...], np.ndarray]],
        chunks: Callable[[Sequence[tuple[str, ...]]], Iterator[list[tuple[str, ...]]]],
    ) -> None:
        self._place = {name: i for i, name in enumerate(domain)}
        sizes = list(domain.values())
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        width = int(self._starts[-1])
        self._rows: list[np.ndarray] = []
        for lot in chunks(list(itertools.combinations(domain, 2))):
            for q, counts in count(lot).items():
                a, b = (self._place[name] for name in q)
                if len(self._rows) <= a:
                    left = width - int(self._starts[a + 1])
                    self._rows.append(np.empty((sizes[a], left), dtype=np.int32))
                # Counts of persons are fractions; those of many rows need their eight bytes.
                if counts.dtype.kind == "f" or counts.max(initial=0) > _MOST:
                    kind = np.result_type(counts, self._rows[a])
                    self._rows[a] = self._rows[a].astype(kind, copy=False)
                self._codes(a, b)[...] = counts

    def of(self, pair: Sequence[str]) -> np.ndarray:
        """The counts of one pair, in domain order."""
        a, b = (self._place[name] for name in pair)
        return self._codes(a, b)

    def errors(
        self, model: Fitted, pairs: Sequence[Sequence[str]], rounded: Round
    ) -> np.ndarray | None:
        """The l1 errors of a model on some pairs; ``rounded`` rounds its answers in place.

        None where the model cannot answer all pairs at once.
        """
        blocks = model.pair_blocks()
        if blocks is None:
            return None
        norms = np.zeros((len(self._place), len(self._place)))
        for a, block in blocks:
            if a == len(norms) - 1:
                continue
            first = int(self._starts[a + 1])
            answers = block[:, first:]
            rounded(answers)
            answers -= self._rows[a]
            np.abs(answers, out=answers)
            norms[a, a + 1 :] = np.add.reduceat(
                answers.sum(axis=0), self._starts[a + 1 : -1] - first
            )
        return np.array([norms[self._place[p], self._place[q]] for p, q in pairs])

    def _codes(self, a: int, b: int) -> np.ndarray:
        """A view of one pair's counts."""
        start = int(self._starts[a + 1])
        return self._rows[a][:, int(self._starts[b]) - start : int(self._starts[b + 1]) - start]
