"""Sets of parents for a Bayesian network: coarser levels of columns, and the largest sets that fit.

All of it rests on public knowledge and on released counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from marginalsyn.graphical.compression import compress_column

# A parent is a column and a level of it; a set of parents is ordered by column.
Parents = tuple[tuple[int, int], ...]

# The least share of the rows in a group, level after level.
SHARES = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 3)
# Sets of columns that a new column may be joined to: where there are more, sets have fewer columns.
MOST_SETS = 300


def levels(counts: np.ndarray, *, ordered: bool) -> tuple[np.ndarray, ...]:
    """The ways to group a column's codes, finest first: at each level the groups are larger.

    Neighbours share a group in ordered columns, rare codes in others (what a taxonomy would do if
    there were one). ``counts`` are released, so levels cost nothing.
    """
    counts = np.asarray(counts, dtype=float)
    found = [np.arange(counts.size)]
    for share in SHARES:
        groups = compress_column(counts, ordered=ordered, threshold=share * counts.sum()).groups
        if 1 < groups.max(initial=-1) + 1 < found[-1].max(initial=-1) + 1:
            found.append(groups.astype(np.intp))
    return tuple(found)


class ParentSets:
    """The largest sets of parents whose combinations stay within a limit.

    Args:
        sizes: for every column the numbers of groups of its levels, finest first.
        most: parents a set may have; fewer in wide tables, where there would be too many sets.
    """

    def __init__(self, sizes: Sequence[Sequence[int]], most: int) -> None:
        while most > 1 and math.comb(max(len(sizes) - 2, 0), most - 1) > MOST_SETS:
            most -= 1
        self._sizes, self._most = sizes, most

    def cells(self, parents: Parents) -> int:
        """The number of combinations."""
        return math.prod(self._sizes[column][level] for column, level in parents)

    def with_column(self, new: int, others: Sequence[int], limit: float) -> list[Parents]:
        """All largest sets that hold ``new`` and otherwise columns of ``others``."""
        chosen = [*others, new]
        found: list[Parents] = []
        for count in range(min(self._most, len(chosen))):
            for columns in itertools.combinations(others, count):
                sets = self._leveled(sorted((*columns, new)), limit)
                found += [s for s in sets if self.largest(s, chosen, limit)]
        return found

    def largest(self, parents: Parents, chosen: Sequence[int], limit: float) -> bool:
        """Whether no column of ``chosen`` can be added, nor one be seen more finely."""
        cells, held = self.cells(parents), {column for column, _ in parents}
        for column, level in parents:
            sizes = self._sizes[column]
            if level > 0 and cells // sizes[level] * sizes[level - 1] <= limit:
                return False
        if len(parents) >= self._most:
            return True
        return all(c in held or cells * self._sizes[c][-1] > limit for c in chosen)

    def _leveled(self, columns: Sequence[int], limit: float) -> list[Parents]:
        """All choices of levels for these columns that stay within the limit."""
        partial: list[tuple[Parents, int]] = [((), 1)]
        rest = [
            math.prod(self._sizes[c][-1] for c in columns[i + 1 :]) for i in range(len(columns))
        ]
        for column, least in zip(columns, rest, strict=True):
            partial = [
                ((*parents, (column, level)), cells * size)
                for parents, cells in partial
                for level, size in enumerate(self._sizes[column])
                if cells * size * least <= limit
            ]
        return [parents for parents, _ in partial]
