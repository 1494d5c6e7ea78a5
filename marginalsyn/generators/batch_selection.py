"""Batches: several marginals chosen on one set of scores, each where no other of them bears.

A score says how wrong the model is now. Once a pair is chosen, the scores of pairs that the next
model would answer differently are stale: those that join the same two parts of the model, or whose
way through a part crosses the way of the chosen one. They wait for the next batch. All this follows
from the released model and from sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.certificates.marginal_bounds import Gap, Selection, aim_bounds
from marginalsyn.contract import KNOWN, Measurement
from marginalsyn.generators.candidate_errors import CandidateErrors, plain_scores, whole_scores
from marginalsyn.generators.workload import Columns
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.junction_tree import CliqueForest
from marginalsyn.graphical.one_way import noise_l1
from marginalsyn.graphical.sampling import MOST
from marginalsyn.privacy.selection import ExponentialMechanism

# Up to so many columns marginals are chosen one by one, as published.
NARROW = 40
# The least share of the budget for single columns of more: every pair shows their errors. From two
# hundred columns on, all pairs together get what eighty columns would: the more columns, the fewer
# of their pairs are related, and the errors of the others are those of the columns.
ONE_WAY_WIDE, _PAIRS_WORTH = 0.6, 80
# Of more candidates only the label's marginals have a bound; the printed bounds fail together with
# at most this chance.
MOST_BOUNDS, BETA = 2000, 0.05
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
        single = self._first == self._second
        self._added[single] = 0.0
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
            separate = (near != far) | (near < 0) | (far < 0)
            within = ~self._joining & (self._first != self._second)
            self._free &= ~(within & separate)


def batch_size(columns: int, given: int | None) -> int:
    """How many marginals are chosen between two fits: one, unless there are many columns."""
    return given or (1 if columns <= NARROW else math.ceil(columns / 10))


def one_way_share(columns: int) -> float:
    """The share of the budget for the single columns of a table of many."""
    return max(ONE_WAY_WIDE, 1 - _PAIRS_WORTH / columns)


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
        self,
        visit: Visit,
        merged: Visit,
        candidates: Mapping[Columns, float],
        domain: Mapping[str, int],
    ) -> None:
        self._visit, self._candidates = visit, candidates
        self._truth = CandidateErrors(merged, list(candidates), domain)
        self._l1 = visit.neighbours.l1

    def learned(
        self, before: pgm.Fitted, after: pgm.Fitted, lot: Sequence[Columns], sigma: float
    ) -> bool:
        """Whether a new model moved further on its marginals than their noise alone would."""
        noise = sum(noise_l1(sigma, self._truth.cells(q)) for q in lot)
        return sum(self._truth.moves(before, after, lot).values()) > noise

    def bounds(
        self,
        choice: Choice,
        before: pgm.Fitted,
        model: pgm.Fitted,
        observed: Sequence[Measurement],
        *,
        label: str | None,
        sigma: float,
        judged: float,
        eps: float,
        most: int,
    ) -> dict[str, Any]:
        """Bounds on the l1 error of the model's marginals, over merged codes, as shares of rows.

        Args:
            choice: the last one.
            before: the model that it was made on.
            model: the last one.
            observed: all that the last model was fitted to.
            label: where there are very many candidates, only its marginals have a bound.
            sigma: the noise of what was measured last.
            judged: the noise that the last choice reckoned with.
            eps: of the last choice.
            most: how many measurements there may have been.
        """
        chosen, bounded = choice.columns[0], list(choice.among)
        if len(bounded) > MOST_BOUNDS:
            bounded = [q for q in bounded if label in q or q == chosen]
        (news,) = (m for m in observed[-len(choice.columns) :] if m.columns == chosen)
        final = Selection(
            chosen=chosen,
            weights=self._candidates,
            cells={q: self._truth.cells(q) for q in bounded},
            gap=float(np.abs(news.values - before.marginal(chosen)).sum()),
            moved=self._truth.moves(before, model, bounded),
            sigma=sigma,
            eps=eps,
            sensitivity=choice.sensitivity,
            candidates=len(choice.among),
            step=choice.step,
            judged=judged,
        )
        measured = [
            Gap(
                m.columns,
                float(np.abs(m.values - model.marginal(m.columns)).sum()),
                m.values.size,
                m.sigma,
            )
            for m in observed
            if isinstance(m.sigma, float) and m.purpose != KNOWN
        ]
        found = aim_bounds([final], measured, beta=BETA, max_rounds=most)
        marginals = [
            {"columns": list(q), "l1": round(bound / model.total, 6), "measured": own}
            for q, (bound, own) in sorted(found.items())
        ]
        return {"confidence": 1 - BETA, "marginals": marginals}

    def worst(self, model: pgm.Fitted, limit: float, sigma: float, eps: float) -> Choice:
        """The worst approximated marginal among those that keep the model small."""
        small = self._small(model, limit)
        weights = np.array([self._candidates[q] for q in small])
        noise = np.array([noise_l1(sigma, self._truth.cells(q)) for q in small])
        scores, unit = whole_scores(weights, self._truth.errors(model, small), noise)
        law = ExponentialMechanism(eps, sensitivity=self._l1 * unit)
        pick = self._visit.draw(law, scores, purpose="round")
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
            law = ExponentialMechanism(eps, sensitivity=self._l1 * unit)
            pick = self._visit.draw(law, scores[left], purpose="round")
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
            factor = min(math.prod(domain[c] for c in q if c not in clique) for clique in cliques)
            if factor == 1 or size * factor <= limit:
                return True
            if math.prod(domain[c] for c in q) * 8 / 2**20 > limit:
                return False
            return pgm.model_mb(domain, [*cliques, q]) <= limit

        return [q for q in self._candidates if fits(q)]


# -- what a run on many columns will take ----------------------------------------------------------

# Fitted to runs of benchmarks/wide_table.py; machines differ, and the rows are not known before
# they are counted, so it is to be right within a factor of two.
# Taken for the number of rows where none is given.
ASSUMED_ROWS = 50_000
# Seconds for each: start, cell read or drawn, row of a pair counted, column fitted, pair of codes.
_START, _VALUE, _COUNT, _COLUMN, _CODES = 1.0, 4e-7, 1.4e-9, 0.05, 2.5e-6
# MB: the process, each value of the table, each pair of codes, each code that pairs are judged by.
_BASE_MB, _VALUE_MB, _CODES_MB, _CODE_MB = 330.0, 3e-5, 3e-6, 0.03


def forecast(
    domain: Mapping[str, int], rows: int | None, *, batches: bool = True
) -> dict[str, Any]:
    """Facts for a plan: what a run by batches takes, or a spanning tree.

    Args:
        domain: sizes of the columns.
        rows: about how many there are; 50,000 if that is not given.
        batches: whether pairs are judged again and again, or once.
    """
    n, columns, codes = rows or ASSUMED_ROWS, len(domain), sum(domain.values())
    seconds = _START + _VALUE * columns * n + _COUNT * columns**2 * n + _COLUMN * columns / 2
    memory = _BASE_MB + _VALUE_MB * columns * n
    if batches:
        # The less is left for pairs, the fewer batches there are.
        batch_share = (1 - one_way_share(columns)) / (1 - ONE_WAY_WIDE)
        seconds += _COLUMN * columns / 2 + _CODES * codes**2 * batch_share
        memory += _CODES_MB * codes**2 + _CODE_MB * codes
    return {
        "predicted seconds": _two_digits(seconds),
        "predicted MB": _two_digits(memory),
        "predicted for": f"{n:,} rows, one processor",
    }


# A chain's seconds: its start, and a sweep of a row over a code, and over a code of a table.
_CHAIN_START, _CODE, _TABLE_CODE = 1.0, 1e-9, 1.2e-10
# The sweeps that most fits need, with those that draw the rows.
_USUAL_SWEEPS = 120


def forecast_chain(domain: Mapping[str, int], sweeps: int) -> dict[str, Any]:
    """Facts for a plan: what a chain of rows would take over all pairs, if it pays.

    Example:
        >>> forecast_chain(dict.fromkeys("abcdefgh", 20), 300)
        {'a chain of rows, if it pays, takes': 'about 3.6 s and 49 MB more'}
    """
    codes, columns = sum(domain.values()), len(domain)
    row = _CODE * codes + _TABLE_CODE * 2 * codes * (columns - 1)
    seconds = _CHAIN_START + row * MOST * min(sweeps, _USUAL_SWEEPS)
    cells = (codes**2 - sum(size**2 for size in domain.values())) / 2
    # Twenty sets of rows, the rows and their draws; potentials in six copies.
    memory = 40.0 + 44e-6 * columns * MOST / 2 + 5e-5 * cells
    about = f"{_two_digits(seconds):g} s and {_two_digits(memory):g} MB more"
    return {"a chain of rows, if it pays, takes": f"about {about}"}


def advise(columns: int, method: str) -> tuple[str, ...]:
    """A warning where a method that judges marginals one by one meets many columns."""
    if columns <= NARROW:
        return ()
    return (
        f"{method} will be slow on {columns} columns (more than {NARROW}): aim and auto, at degree "
        "2 and without a workload, choose pairs by batches, with lower errors in less time",
    )


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")
