"""Sets of parents for a Bayesian network, and how strongly a column depends on each.

PrivBayes (Zhang et al. 2017, section 5) scores a column X with parents P by half the l1 distance
between the joint distribution and the product of its marginals, whose sensitivity needs the number
of rows. Here the share of each code x is replaced by its released estimate q(x), and counts stay
counts::

    score(X, P) = 1/2 sum over x, p of |c(x, p) - q(x) c(p)|

One row with codes (x, p) adds ``(e_x - q) e_p`` to the table inside the norm, whatever the other
rows are and however many. Half its l1 norm is ``1 - q(x)``, at most 1. So one added or removed row
moves every score by at most 1, one replaced row by at most 2: ``Neighbours.l1``, and no number of
rows is needed. Since q is released before, it is a constant. (With the true shares in its place,
half the l1 norm moves by up to 2 and by up to 3.)

Where persons are counted, the rows of one person weigh 1 together. What the person adds to the
table is then a mean of such ``(e_x - q) e_p``, and half its l1 norm is at most 1 again: the bound
is the same, whatever the number of the person's rows is. It is so because q is a constant. (Of the
paper's score, and of mutual information, one person with twenty rows breaks the bound for rows.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.graphical.compression import compress_column

# Of every parent its column and the number of one of its levels, finest first; by column.
Parents = tuple[tuple[int, int], ...]

# Counts kept at a time, in cells.
CHUNK_CELLS = 1 << 23
# Shares are rounded down to so many binary digits: then sums are exact up to 2^32 rows.
SHARE_BITS = 20
# Of persons, weights have as many digits again. Products are then rounded: what that moves a score
# by stays below a part in 2^53 of the persons for each of some fifty additions, which for the 2^33
# persons that can be counted is a tenth of this.
ROUNDING = 1e-3


class Dependence:
    """Scores sets of parents, with what is public about the columns.

    Args:
        shares: for every column the released share q of each code.
        levels: for every column the ways to group its codes: at each level a group of each code.
    """

    def __init__(
        self, shares: Sequence[np.ndarray], levels: Sequence[Sequence[np.ndarray]]
    ) -> None:
        # Rounded down, so that they still add up to 1 at most, which is all that the proof needs.
        self._shares = [np.ldexp(np.floor(np.ldexp(s, SHARE_BITS)), -SHARE_BITS) for s in shares]
        self._levels = levels
        self._sizes = [[int(groups.max()) + 1 for groups in level] for level in levels]

    def scores(
        self, visit: Visit, questions: Mapping[Parents, Sequence[int]]
    ) -> dict[tuple[Parents, int], float]:
        """Score columns with sets of parents; private, one row moves each score by at most l1.

        Args:
            visit: the paid access, with codes merged as the shares have them.
            questions: for every set of parents the columns to score with it.
        """
        scores = {}
        for chunk in self._chunks(questions):
            for key, found in self._counts(visit, chunk).items():
                share = self._shares[key[1]]
                joint = found.reshape(-1, share.size)
                expected = joint.sum(axis=1, keepdims=True) * share
                scores[key] = float(np.abs(joint - expected).sum()) / 2
        return scores

    @staticmethod
    def sensitivity(visit: Visit) -> float:
        """How much one row, or one person, moves a score."""
        return visit.neighbours.l1 * (1 + ROUNDING if visit.persons else 1)

    def _counts(
        self, visit: Visit, chunk: Mapping[Parents, Sequence[int]]
    ) -> dict[tuple[Parents, int], np.ndarray]:
        """The joint counts of parents and column, flat, in one pass over the rows."""
        kind = np.float64 if visit.persons else np.int64
        counts: dict[tuple[Parents, int], np.ndarray] = {
            (parents, column): np.zeros(self._cells(parents, column), dtype=kind)
            for parents, columns in chunk.items()
            for column in columns
        }
        used = {parent for parents in chunk for parent in parents}
        for batch, weights, _ in visit.batches(weighted=True):
            codes = np.ascontiguousarray(batch.T)
            groups = {(c, level): self._levels[c][level][codes[c]] for c, level in used}
            for parents, columns in chunk.items():
                rows = np.zeros(len(batch), dtype=np.intp)
                for column, level in parents:
                    rows *= self._sizes[column][level]
                    rows += groups[column, level]
                for column in columns:
                    total = counts[parents, column]
                    cells = rows * self._shares[column].size + codes[column]
                    total += np.bincount(cells, weights, minlength=total.size)
        return counts

    def _cells(self, parents: Parents, column: int) -> int:
        return self._shares[column].size * math.prod(self._sizes[c][level] for c, level in parents)

    def _chunks(self, questions: Mapping[Parents, Sequence[int]]) -> Iterator[dict[Parents, list]]:
        """The questions in their order, so many at a time that their counts fit in memory."""
        chunk: dict[Parents, list[int]] = {}
        size = 0
        for parents, columns in questions.items():
            for column in columns:
                cells = self._cells(parents, column)
                if chunk and size + cells > CHUNK_CELLS:
                    yield chunk
                    chunk, size = {}, 0
                chunk.setdefault(parents, []).append(column)
                size += cells
        if chunk:
            yield chunk


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
        found = []
        for count in range(min(self._most, len(chosen))):
            for columns in itertools.combinations(others, count):
                sets = self._leveled(sorted((*columns, new)), limit)
                found += [s for s in sets if self.largest(s, chosen, limit)]
        return found

    def largest(self, parents: Parents, chosen: Sequence[int], limit: float) -> bool:
        """Whether no column of ``chosen`` can be added, nor one be seen more finely."""
        cells, used = self.cells(parents), {column for column, _ in parents}
        for column, level in parents:
            sizes = self._sizes[column]
            if level > 0 and cells // sizes[level] * sizes[level - 1] <= limit:
                return False
        if len(parents) >= self._most:
            return True
        return all(c in used or cells * self._sizes[c][-1] > limit for c in chosen)

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
