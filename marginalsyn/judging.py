"""Exact l1 errors of a model on many marginals, in bounded memory: the inside of a selection.

What it returns is private: scores for the exponential mechanism, or values to add noise to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.workload import Columns

if TYPE_CHECKING:
    from marginalsyn.pgm import Fitted
    from marginalsyn.visit import Visit

# Counts of the smallest marginals are kept, so many cells of them; the rest is counted each time.
KEPT_CELLS = 1 << 26
# Marginals are counted and answered together up to so many cells.
CHUNK_CELLS = 1 << 22


class Judge:
    """The true counts of some candidates, to hold models against.

    Args:
        visit: The paid access, with codes merged as the models have them.
        candidates: The marginals that may be asked about.
        domain: Sizes of the (merged) columns.
    """

    def __init__(
        self, visit: Visit, candidates: Sequence[Columns], domain: Mapping[str, int]
    ) -> None:
        self._visit, self._domain = visit, domain
        kept: list[Columns] = []
        held = 0
        for q in sorted(candidates, key=self.cells):
            held += self.cells(q)
            if held > KEPT_CELLS:
                break
            kept.append(q)
        self._kept: dict[Columns, np.ndarray] = {}
        for chunk in self.chunks(kept):
            counts = visit.counts_many(chunk)
            self._kept.update({q: _compact(values) for q, values in counts.items()})

    def cells(self, columns: Columns) -> int:
        """The number of cells of a marginal."""
        return math.prod(self._domain[c] for c in columns)

    def chunks(self, queries: Sequence[Columns]) -> Iterator[list[Columns]]:
        """The queries in their order, so many at a time that their answers fit in memory."""
        chunk: list[Columns] = []
        held = 0
        for q in queries:
            if chunk and held + self.cells(q) > CHUNK_CELLS:
                yield chunk
                chunk, held = [], 0
            chunk.append(q)
            held += self.cells(q)
        if chunk:
            yield chunk

    def errors(
        self, model: Fitted, queries: Sequence[Columns], *, whole: bool = False
    ) -> np.ndarray:
        """The model's l1 error on each query; one row moves each by at most l1.

        ``whole`` rounds the model's answers, so that the errors are whole numbers.
        """
        found = []
        for chunk in self.chunks(queries):
            answers = model.marginals(chunk)
            anew = [q for q in chunk if q not in self._kept]
            counts = self._visit.counts_many(anew) if anew else {}
            for q in chunk:
                answer = answers.pop(q)
                if whole:
                    np.rint(answer, out=answer)
                answer -= counts[q] if q in counts else self._kept[q]
                found.append(float(np.abs(answer, out=answer).sum()))
        return np.array(found)

    def moves(self, before: Fitted, after: Fitted, queries: Sequence[Columns]) -> np.ndarray:
        """The l1 distance between two models on each query; nothing private."""
        found = []
        for chunk in self.chunks(queries):
            answers, others = before.marginals(chunk), after.marginals(chunk)
            found += [float(np.abs(answers[q] - others[q]).sum()) for q in chunk]
        return np.array(found)


def _compact(counts: np.ndarray) -> np.ndarray:
    """The counts in as few bytes as they need."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))
