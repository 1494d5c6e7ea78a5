"""Exact l1 errors of a model on many marginals, in bounded memory, for private selections.

What it returns is private: scores for the exponential mechanism, or values to add noise to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.generators.pair_counts import MANY_PAIRS, PairCounts
from marginalsyn.generators.workload import Columns

if TYPE_CHECKING:
    from marginalsyn.access.visit import Visit
    from marginalsyn.graphical.model import Fitted

# Counts of the smallest marginals are kept, so many cells of them; the rest is counted each time.
KEPT_CELLS = 1 << 26
# Marginals are counted and answered together up to so many cells.
CHUNK_CELLS = 1 << 22
# A model's answers are rounded to so many binary digits behind the point.
FRACTION_BITS = 20
# And weights to so many, relative to the largest.
WEIGHT_BITS = 60
# Sums of numbers with these digits are exact up to 2^33: for a table of up to 2^32 rows and a model
# of no more. A larger model's answers are rounded to whole numbers.
_LARGE = 2.0**32
# Weights of scores that fit 64 bits, with differences up to so much.
PLAIN_BITS, _FAR = 28, 2.0**33


class CandidateErrors:
    """The true counts of some candidates, to compare models with.

    Args:
        visit: The paid access, with codes merged as the models have them.
        candidates: The marginals that may be asked about.
        domain: Sizes of the (merged) columns.

    Attributes:
        domain: The same sizes.
    """

    def __init__(
        self, visit: Visit, candidates: Sequence[Columns], domain: Mapping[str, int]
    ) -> None:
        self._visit, self.domain = visit, domain
        kept: list[Columns] = []
        held = 0
        pairs = sum(len(q) == 2 for q in candidates)
        self._pairs: PairCounts | None = None
        if pairs >= MANY_PAIRS and sum(domain.values()) ** 2 / 2 <= KEPT_CELLS:
            self._pairs = PairCounts(domain, visit.counts_many, self.chunks)
            candidates = [q for q in candidates if len(q) != 2]
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
        return math.prod(self.domain[c] for c in columns)

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
        """The model's l1 error on each query; one row moves each by at most l1, exactly.

        The model's answers, which are public, are rounded to multiples of 2^-20 or, with ``whole``,
        to whole numbers. All that is summed is a multiple of that and the sums stay below 2^53 of
        them, so nothing is rounded, in whatever order, however many cells there are.
        """
        known: dict[Columns, float] = {}
        pairs = [q for q in queries if len(q) == 2] if self._pairs else []
        if self._pairs and len(pairs) >= MANY_PAIRS:
            bits = 0 if whole or model.total >= _LARGE else FRACTION_BITS
            errors = self._pairs.errors(model, pairs, partial(_round, bits=bits))
            if errors is not None:
                known = dict(zip(pairs, errors.tolist(), strict=True))
        for chunk in self.chunks([q for q in queries if q not in known]):
            answers = model.marginals(chunk)
            counts = self._counts(chunk)
            for q in chunk:
                answer = answers.pop(q)
                _round(answer, 0 if whole or float(answer.sum()) >= _LARGE else FRACTION_BITS)
                answer -= counts[q]
                known[q] = float(np.abs(answer, out=answer).sum())
        return np.array([known[q] for q in queries])

    def _counts(self, queries: Sequence[Columns]) -> dict[Columns, np.ndarray]:
        """The counts of some queries: kept, or counted anew."""
        found = {q: self._kept[q] for q in queries if q in self._kept}
        if self._pairs:
            found.update({q: self._pairs.of(q) for q in queries if len(q) == 2})
        anew = [q for q in queries if q not in found]
        if anew:
            found.update(self._visit.counts_many(anew))
        return found

    def moves(self, before: Fitted, after: Fitted, queries: Sequence[Columns]) -> np.ndarray:
        """The l1 distance between two models on each query; nothing private."""
        found = []
        for chunk in self.chunks(queries):
            answers, others = before.marginals(chunk), after.marginals(chunk)
            found += [float(np.abs(answers[q] - others[q]).sum()) for q in chunk]
        return np.array(found)


def whole_scores(
    weights: np.ndarray, errors: np.ndarray, baselines: np.ndarray
) -> tuple[np.ndarray, float]:
    """``weights * (errors - baselines)`` in whole numbers, and how many of them are 1 in an error.

    In floating point the difference of a large error and a large baseline would be off by more
    than the proof of the exponential mechanism allows. Here weights are rounded, relative to the
    largest, and baselines as the errors were; both are public. The rest is exact.

    Args:
        weights: positive.
        errors: of :meth:`CandidateErrors.errors`.
        baselines: public numbers.

    Returns:
        The scores, of dtype object, and the most that a change of 1 in an error moves one of them.
    """
    unit, whole = 2**FRACTION_BITS, 2**WEIGHT_BITS
    shares = [round(float(w) * whole) for w in weights / weights.max()]
    apart = [round(e * unit) - round(b * unit) for e, b in zip(errors, baselines, strict=True)]
    scores = [share * d for share, d in zip(shares, apart, strict=True)]
    return np.array(scores, dtype=object), float(unit * whole)


def plain_scores(
    weights: np.ndarray, errors: np.ndarray, baselines: np.ndarray
) -> tuple[np.ndarray, float]:
    """As :func:`whole_scores`, of dtype int64, from errors against answers in whole numbers.

    Weights have fewer digits here, so that products fit. Errors of persons are fractions, which are
    cut off: what moves by at most a whole number moves by no more than that once it is cut off.
    """
    shares = np.rint(weights / weights.max() * 2.0**PLAIN_BITS).astype(np.int64)
    apart = np.floor(errors) - np.rint(baselines)
    return shares * np.clip(apart, -_FAR, _FAR).astype(np.int64), 2.0**PLAIN_BITS


def _round(answer: np.ndarray, bits: int) -> None:
    """Round, in place, to so many binary digits behind the point."""
    np.ldexp(answer, bits, out=answer)
    np.rint(answer, out=answer)
    np.ldexp(answer, -bits, out=answer)


def _compact(counts: np.ndarray) -> np.ndarray:
    """The counts in as few bytes as they need; counts of persons are no whole numbers."""
    if counts.dtype.kind == "f":
        return counts
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))
