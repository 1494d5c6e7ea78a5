"""Batches: several marginals chosen on one set of scores, each where no other of them bears.

A score says how wrong the model is now. Once a pair is chosen, the scores of pairs that the next
model would answer differently are stale: those that join the same two parts of the model, or whose
way through a part crosses the way of the chosen one. They wait for the next batch. All this follows
from the released model and from sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from marginalsyn.generators.workload import Columns
from marginalsyn.graphical.clique_forest import CliqueForest

# Up to so many columns marginals are chosen one by one, as published.
NARROW = 40
# The least share of the budget for single columns of more: every pair shows their errors. From two
# hundred columns on, all pairs together get what eighty columns would: the more columns, the fewer
# of their pairs are related, and the errors of the others are those of the columns.
ONE_WAY_WIDE, _PAIRS_WORTH = 0.6, 80
# The most that a model of more columns may take.
WIDE_MB = 1.0
_MEBIBYTE = 2.0**20


class Batch:
    """The candidates that may still join a batch, and what the model may grow to.

    Args:
        candidates: single columns and pairs.
        cliques: of the model so far.
        domain: sizes of the (merged) columns.
        limit: in MB, for the model with the whole batch.
    """

    def __init__(
        self,
        candidates: Sequence[Columns],
        cliques: Sequence[Columns],
        domain: Mapping[str, int],
        limit: float,
    ) -> None:
        place = {name: i for i, name in enumerate(domain)}
        self._first, self._second = (
            np.array([place[q[at]] for q in candidates], dtype=np.intp) for at in (0, -1)
        )
        sizes = np.array(list(domain.values()), dtype=float)
        self._forest = CliqueForest(
            list(domain.values()), [[place[c] for c in clique] for clique in cliques]
        )
        self._parts = self._forest.parts.copy()
        self._joining = self._parts[self._first] != self._parts[self._second]
        # A pair of two parts becomes a clique; one within a part widens all cliques on its way.
        cells = sizes[self._first] * sizes[self._second]
        growth = self._forest.growth[self._first, self._second]
        self._added = np.where(self._joining, cells, growth) * 8 / _MEBIBYTE
        held = self._first == self._second
        self._added[held] = 0.0
        self._free = np.ones(len(candidates), dtype=bool)
        self._used: set[int] = set()
        self._limit, self._size = limit, self._forest.cells * 8 / _MEBIBYTE

    @property
    def open(self) -> np.ndarray:
        """Positions of the candidates that may be chosen next."""
        fits = (self._size + self._added <= self._limit) | (self._added == 0)
        return np.flatnonzero(self._free & fits)

    def take(self, chosen: int) -> None:
        """Close what the chosen candidate bears on."""
        a, b = int(self._first[chosen]), int(self._second[chosen])
        self._size += float(self._added[chosen])
        self._free[chosen] = False
        if self._joining[chosen]:
            self._parts[self._parts == self._parts[a]] = self._parts[b]
            together = self._parts[self._first] == self._parts[self._second]
            self._free &= ~(self._joining & together)
        elif a != b:
            self._used.update(self._forest.way(a, b))
            region = self._forest.regions(self._used)
            near, far = region[self._first], region[self._second]
            apart = (near != far) | (near < 0) | (far < 0)
            within = ~self._joining & (self._first != self._second)
            self._free &= ~(within & apart)


def batch_size(columns: int, given: int | None) -> int:
    """How many marginals are chosen between two fits: one, unless there are many columns."""
    return given or (1 if columns <= NARROW else math.ceil(columns / 10))


def one_way_share(columns: int) -> float:
    """The share of the budget for the single columns of a table of many."""
    return max(ONE_WAY_WIDE, 1 - _PAIRS_WORTH / columns)


def model_limit(columns: int, given: float) -> float:
    """The size limit of a model in MB: of many columns, what hundreds of steps can go through."""
    return given if columns <= NARROW else min(given, WIDE_MB)
