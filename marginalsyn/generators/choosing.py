"""AIM's selections: the candidate that a model approximates worst, or several of them at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.generators.batches import Batch
from marginalsyn.generators.candidate_errors import CandidateErrors, plain_scores, whole_scores
from marginalsyn.generators.workload import Columns
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.one_way import noise_l1

if TYPE_CHECKING:
    from marginalsyn.access.visit import Visit


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What was chosen on one set of scores.

    Attributes:
        columns: the marginals, in the order of their selections.
        among: the candidates of the first selection.
        sensitivity: of the scores, in rows.
        step: what the model's answers were rounded to, where that is more than 2^-20.
    """

    columns: Sequence[Columns]
    among: Sequence[Columns]
    sensitivity: float
    step: float = 0.0


class Chooser:
    """Selects by the exponential mechanism among weighted candidates; each selection is paid."""

    def __init__(
        self, visit: Visit, truth: CandidateErrors, candidates: Mapping[Columns, float]
    ) -> None:
        self._visit, self._truth, self._candidates = visit, truth, candidates
        self._l1 = visit.neighbours.l1

    def worst(self, model: pgm.Fitted, limit: float, sigma: float, eps: float) -> Choice:
        """The worst approximated marginal among those that keep the model small."""
        small = self._small(model, limit)
        weights = np.array([self._candidates[q] for q in small])
        noise = np.array([noise_l1(sigma, self._truth.cells(q)) for q in small])
        scores, unit = whole_scores(weights, self._truth.errors(model, small), noise)
        pick = self._visit.select(scores, eps=eps, sensitivity=self._l1 * unit, purpose="round")
        heaviest = float(weights.max())
        return Choice(columns=[small[pick]], among=small, sensitivity=self._l1 * heaviest)

    def several(
        self, model: pgm.Fitted, limit: float, sigma: float, eps: float, picks: int
    ) -> Choice:
        """Up to so many marginals on one set of scores, none of which bears on another."""
        every = list(self._candidates)
        batch = Batch(every, model.cliques, self._truth.domain, limit)
        weights = np.array([self._candidates[q] for q in every])
        noise = np.array([noise_l1(sigma, self._truth.cells(q)) for q in every])
        errors = self._truth.errors(model, every, whole=True)
        scores, unit = plain_scores(weights, errors, noise)
        first = batch.open
        chosen: list[Columns] = []
        while len(chosen) < picks and (left := batch.open).size:
            pick = self._visit.select(
                scores[left], eps=eps, sensitivity=self._l1 * unit, purpose="round"
            )
            batch.take(int(left[pick]))
            chosen.append(every[left[pick]])
        return Choice(
            columns=chosen,
            among=[every[i] for i in first],
            sensitivity=self._l1 * float(weights.max()),
            step=2.0,
        )

    def _small(self, model: pgm.Fitted, limit: float) -> list[Columns]:
        """The candidates that the model already holds, or that keep it within ``limit`` MB."""
        cliques, size, domain = model.cliques, model.model_mb, self._truth.domain

        def fits(q: Columns) -> bool:
            # A column may join all cliques of a junction tree: that bounds the size from above.
            factor = min(math.prod(domain[c] for c in q if c not in held) for held in cliques)
            if factor == 1 or size * factor <= limit:
                return True
            if math.prod(domain[c] for c in q) * 8 / 2**20 > limit:
                return False
            return pgm.model_mb(domain, [*cliques, q]) <= limit

        return [q for q in self._candidates if fits(q)]
