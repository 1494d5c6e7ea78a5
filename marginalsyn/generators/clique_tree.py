"""Clique tree: one private selection of marginals that one model can hold, measured once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.contract import Plan, Synthesis, option
from marginalsyn.generators.allocation import choose
from marginalsyn.generators.batches import NARROW
from marginalsyn.generators.candidate_errors import CandidateErrors
from marginalsyn.generators.forecast import advise
from marginalsyn.generators.known import bought, known_pairs, unknown
from marginalsyn.generators.marginals import MarginalKnobs, WorkloadGenerator
from marginalsyn.generators.purposes import model_pairs
from marginalsyn.generators.workload import Columns
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.clique_forest import CliqueForest
from marginalsyn.graphical.one_way import OneWay
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.zcdp import gaussian_sigma

if TYPE_CHECKING:
    from marginalsyn.access.visit import Visit
    from marginalsyn.progress import Progress
    from marginalsyn.table.schema import Schema


@dataclass(frozen=True, kw_only=True)
class CliqueTreeConfig(MarginalKnobs):
    """One selection, one round of measurements, one fit; for wide tables and large budgets.

    The idea of measuring a budgeted subset of a large clique tree is SWIFT's, of
    https://github.com/google/dpsynth; the selection and allocation here are our own.

    Example:
        >>> generator = CliqueTreeConfig(max_model_mb=20).configure(schema, Budget(eps=2.0))
        >>> round(generator.cost[0].cost.rho, 4)
        0.0561
    """

    name = "clique-tree"
    summary = "one round of measurements on a large clique tree; for wide tables"

    one_way_share: float = option(0.15, "Share of the budget for the one-way marginals.")
    select_share: float = option(
        0.1, "Share of the budget for choosing which marginals to measure."
    )

    def configure(self, schema: Schema, budget: Budget) -> CliqueTree:
        """Three shares: one-way marginals, judging, measuring."""
        model_pairs(self.for_, schema.names)
        return CliqueTree(config=self, schema=schema, budget=budget)


class CliqueTree(WorkloadGenerator):
    """The clique-tree generator with its budget split."""

    config: CliqueTreeConfig

    @property
    def one_way_sigma(self) -> float:
        """The noise of the one-way marginals."""
        columns = bought(self.schema.names, self.config.known)
        return self.sigma_for(self.config.one_way_share * self.budget.rho / columns)

    @property
    def guess(self) -> float:
        """What the noise of a larger marginal will be, about."""
        return self.sigma_for(self.budget.rho / (2 * max(len(self.schema.names), 1)))

    def judge_sigma(self, candidates: int) -> float:
        """The noise on each of the ``candidates`` l1 errors; one row moves each by at most l1."""
        l2 = self.budget.neighbours.l1 * math.sqrt(max(candidates, 1))
        return gaussian_sigma(self.config.select_share * self.budget.rho, l2)

    def candidates(self, domain: Mapping[str, int]) -> dict[Columns, float]:
        """What may be measured beyond single columns, with the workload's weights."""
        every = self.workload(domain).candidates(domain, self.config.max_cells)
        return unknown({q: w for q, w in every.items() if len(q) > 1}, self.config.known)

    @property
    def plan(self) -> Plan:
        """The split and the noise, before anything is read."""
        config = self.config
        candidates = self.candidates(self.schema.domain)
        return Plan(
            split={
                "one-way": config.one_way_share * self.budget.rho,
                "select": config.select_share * self.budget.rho,
                "measure": (1 - config.one_way_share - config.select_share) * self.budget.rho,
            },
            workload=tuple(self.workload(self.schema.domain).marginals),
            model_mb=self.model_mb,
            facts={
                "candidates": len(candidates),
                "noise deviation of one-way marginals": round(self.one_way_sigma, 2),
                "noise deviation of judging": round(self.judge_sigma(len(candidates)), 2),
                **self.purpose_facts,
            },
            warnings=advise(len(self.schema.names), CliqueTreeConfig.name),
        )

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        """Measure, score the candidates, choose, measure, fit, draw."""
        look = self.first_look(visit, progress=progress)
        return self.serve(visit, look, progress=progress)

    def first_look(self, visit: Visit, *, progress: Progress) -> OneWay:
        """Measure the one-way marginals."""
        return self.one_way(visit, progress, self.one_way_sigma, self.guess)

    def serve(
        self,
        visit: Visit,
        look: OneWay,
        *,
        progress: Progress,
        chosen: Sequence[Columns] | None = None,
    ) -> Synthesis:
        """Spend what is left on larger marginals, fit and draw; ``chosen`` ones are not judged."""
        merged = visit.merged(look.compression.maps)
        known = known_pairs(visit.known, look, self.model_mb)
        model = self.fit(look, [*look.observed, *known])

        # Select, unless that is settled
        if chosen is None:
            shares = self._selected(visit, merged, model, look, progress=progress)
        else:
            shares = {q: visit.remaining / len(chosen) for q in chosen}
        if not shares:  # nothing pays: what is left makes the single columns exact
            shares = {(c,): visit.remaining / len(look.domain) for c in look.domain}

        # Measure
        observed, released = [*look.observed, *known], list(look.measurements)
        merged.prepare(list(shares))
        for i, (columns, rho) in enumerate(shares.items()):
            progress.report(
                "measure", fraction=0.2 + 0.2 * i / len(shares), text=" x ".join(columns)
            )
            measured = merged.measure(columns, self.sigma_for(rho), purpose="measure")
            observed.append(measured)
            released.append(measured)

        # Estimate
        progress.report("estimate", fraction=0.4, text=f"{len(observed)} marginals")
        model = self.fit(look, observed, warm=model)

        # Generate
        progress.report("generate", fraction=0.95, text="rows")
        return self.draw(visit, model, look, released, measured=[list(q) for q in shares])

    def _selected(
        self, visit: Visit, merged: Visit, model: pgm.Fitted, look: OneWay, *, progress: Progress
    ) -> dict[Columns, float]:
        """The marginals that pay, with their shares: by noisy l1 errors of all at once."""
        progress.report("select", fraction=0.1, text="judging marginals")
        candidates = self.candidates(look.domain)
        errors = self._errors(visit, merged, model, list(candidates))
        return choose(
            errors,
            candidates,
            {q: math.prod(look.domain[c] for c in q) for q in candidates},
            rho=visit.remaining,
            l2=self.budget.neighbours.l2,
            fits=self._room(look),
        )

    def _errors(
        self, visit: Visit, merged: Visit, model: pgm.Fitted, candidates: Sequence[Columns]
    ) -> dict[Columns, float]:
        """The model's l1 error on every candidate, with noise."""
        if not candidates:
            return {}
        # Whole-number answers keep the errors whole: no rounding can raise their sensitivity.
        # Errors of persons are fractions, which are cut off: what moves by at most a whole number
        # moves by no more than that once it is cut off.
        errors = CandidateErrors(merged, candidates, model.domain).errors(
            model, candidates, whole=True
        )
        l2 = self.budget.neighbours.l1 * math.sqrt(len(candidates))
        noisy = visit.gaussian(
            errors.astype(np.int64),
            self.judge_sigma(len(candidates)),
            l2=l2,
            purpose="l1 errors of candidates",
        )
        return {q: float(e) for q, e in zip(candidates, noisy, strict=True)}

    def _room(self, look: OneWay) -> Callable[[Sequence[Columns]], bool]:
        """Whether a model of some marginals stays within the size limit; the last one is new.

        Of many columns each answer is a bound from the cliques so far, without a triangulation.
        """
        limit, zeros = self.model_mb, [columns for columns, _ in look.zeros]
        if len(look.domain) <= NARROW:
            return lambda cliques: pgm.model_mb(look.domain, [*cliques, *zeros]) <= limit
        place = {name: i for i, name in enumerate(look.domain)}
        sizes = list(look.domain.values())
        held: list[Columns] = [*zeros]
        forest = CliqueForest(sizes, [[place[c] for c in q] for q in held])

        def fits(cliques: Sequence[Columns]) -> bool:
            nonlocal forest, held
            before = [*zeros, *cliques[:-1]]
            if len(before) != len(held):
                held = before
                forest = CliqueForest(sizes, [[place[c] for c in q] for q in held])
            added = forest.added([place[c] for c in cliques[-1]])
            return (forest.cells + added) * 8 / 2**20 <= limit

        return fits
