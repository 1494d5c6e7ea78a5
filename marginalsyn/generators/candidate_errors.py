"""Exact l1 errors of a model on many marginals, in bounded memory, for private selections.

What it returns is private: scores for the exponential mechanism, or values to add noise to.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.generators.workload import Columns
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
        kept = []
        size = 0
        pairs = sum(len(q) == 2 for q in candidates)
        self._pairs: PairCounts | None = None
        if pairs >= MANY_PAIRS and sum(domain.values()) ** 2 / 2 <= KEPT_CELLS:
            self._pairs = PairCounts(domain, visit.counts_many, self.chunks)
            candidates = [q for q in candidates if len(q) != 2]
        for q in sorted(candidates, key=self.cells):
            size += self.cells(q)
            if size > KEPT_CELLS:
                break
            kept.append(q)
        self._kept: dict[Columns, np.ndarray] = {}
        for chunk in self.chunks(kept):
            counts = visit.counts_many(chunk)
            for q, values in counts.items():
                # In as few bytes as they need; counts of persons are no whole numbers.
                least = (
                    values.dtype
                    if values.dtype.kind == "f"
                    else np.min_scalar_type(values.max(initial=0))
                )
                self._kept[q] = values.astype(least, copy=False)

    def cells(self, columns: Columns) -> int:
        """The number of cells of a marginal."""
        return math.prod(self.domain[c] for c in columns)

    def chunks(self, queries: Sequence[Columns]) -> Iterator[list[Columns]]:
        """The queries in their order, so many at a time that their answers fit in memory."""
        chunk: list[Columns] = []
        size = 0
        for q in queries:
            if chunk and size + self.cells(q) > CHUNK_CELLS:
                yield chunk
                chunk, size = [], 0
            chunk.append(q)
            size += self.cells(q)
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
        """The counts of some queries: kept, or counted again."""
        found = {q: self._kept[q] for q in queries if q in self._kept}
        if self._pairs:
            found.update({q: self._pairs.of(q) for q in queries if len(q) == 2})
        rest = [q for q in queries if q not in found]
        if rest:
            found.update(self._visit.counts_many(rest))
        return found

    def moves(
        self, before: Fitted, after: Fitted, queries: Sequence[Columns]
    ) -> dict[Columns, float]:
        """The l1 distance between two models on each query; nothing private."""
        found: dict[Columns, float] = {}
        for chunk in self.chunks(queries):
            answers, others = before.marginals(chunk), after.marginals(chunk)
            found |= {q: float(np.abs(answers[q] - others[q]).sum()) for q in chunk}
        return found


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
    pairs = zip(errors, baselines, strict=True)
    differences = [round(e * unit) - round(b * unit) for e, b in pairs]
    scores = [share * d for share, d in zip(shares, differences, strict=True)]
    return np.array(scores, dtype=object), float(unit * whole)


def plain_scores(
    weights: np.ndarray, errors: np.ndarray, baselines: np.ndarray
) -> tuple[np.ndarray, float]:
    """As :func:`whole_scores`, of dtype int64, from errors against answers in whole numbers.

    Weights have fewer digits here, so that products fit. Errors of persons are fractions, which are
    cut off: what moves by at most a whole number moves by no more than that once it is cut off.
    """
    shares = np.rint(weights / weights.max() * 2.0**PLAIN_BITS).astype(np.int64)
    differences = np.floor(errors) - np.rint(baselines)
    return shares * np.clip(differences, -_FAR, _FAR).astype(np.int64), 2.0**PLAIN_BITS


def _round(answer: np.ndarray, bits: int) -> None:
    """Round, in place, to so many binary digits behind the point."""
    np.ldexp(answer, bits, out=answer)
    np.rint(answer, out=answer)
    np.ldexp(answer, -bits, out=answer)


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
        count: Callable[[Sequence[Columns]], Mapping[Columns, np.ndarray]],
        chunks: Callable[[Sequence[Columns]], Iterator[list[Columns]]],
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
