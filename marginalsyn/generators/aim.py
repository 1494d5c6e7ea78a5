"""AIM: measure, round after round, the marginal that the model so far explains worst."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from marginalsyn.access.visit import Visit
from marginalsyn.contract import Measurement, Plan, Synthesis, option
from marginalsyn.generators.batch_selection import (
    Chooser,
    advise,
    batch_size,
    forecast,
    one_way_share,
)
from marginalsyn.generators.marginals import MarginalKnobs, WorkloadGenerator
from marginalsyn.generators.workload import Columns, model_pairs, not_yet_known
from marginalsyn.graphical.one_way import OneWay
from marginalsyn.privacy.budget import Budget
from marginalsyn.progress import Progress
from marginalsyn.table.schema import Schema

SELECT_SHARE = 0.1  # of each round's rho; the rest measures
ROUNDS_PER_COLUMN = 16
BETWEEN, FINAL = 1e-2, 1e-3  # tolerance of the fits between rounds and of the last one
ONE_WAY = 0.15  # the share of one-way marginals, of few columns
QUICK = 60  # most steps of a fit between two batches


@dataclass(frozen=True, kw_only=True)
class AIMConfig(MarginalKnobs):
    """Adaptive and iterative mechanism: https://arxiv.org/abs/2201.12677 (McKenna et al. 2022).

    Example:
        >>> aim = AIMConfig(degree=3).configure(schema, Budget(eps=1.0))
        >>> round(aim.cost[0].cost.mu, 4)
        0.182
    """

    name = "aim"
    summary = "adaptive selection of marginals on Private-PGM"
    audit_options = {"rounds": 3, "merge": 0.0}

    rounds: int | None = option(
        None, "The number of rounds that the budget is first split into. [default: 16 per column]"
    )
    batch: int | None = option(
        None,
        "How many marginals are chosen between two fits. [default: 1 up to 40 columns, then a "
        "tenth of them]",
    )
    one_way_share: float | None = option(
        None,
        "Share of the budget for the one-way marginals. [default: 0.15; 0.6 of more than 40 "
        "columns, and more of more than 200]",
    )
    label_share: float | None = option(
        None,
        "Share of the remaining budget for the label's pairs, measured before the rounds. 0 is "
        "AIM as published. [default: larger when there are few rows compared with the noise]",
    )

    def configure(self, schema: Schema, budget: Budget) -> AIM:
        """Split the budget over one-way marginals and rounds."""
        return AIM(config=self, schema=schema, budget=budget)


class AIM(WorkloadGenerator):
    """AIM with its budget split."""

    config: AIMConfig

    @property
    def rounds(self) -> int:
        """T: the number of rounds that the budget is first split for."""
        return self.config.rounds or ROUNDS_PER_COLUMN * len(self.schema.names)

    @cached_property
    def batch(self) -> int:
        """How many marginals are chosen between two fits."""
        if self.config.degree > 2 or self.config.workload is not None:
            return 1
        return batch_size(len(self.schema.names), self.config.batch)

    @property
    def one_way_rho(self) -> float:
        """What the one-way marginals cost."""
        share = self.config.one_way_share
        if share is None:
            columns = len(self.schema.names)
            share = ONE_WAY if self.batch == 1 else one_way_share(columns)
        return share * self.asked_share * self.budget.gaussian

    @property
    def one_way_sigma(self) -> float:
        """The noise of the one-way marginals."""
        return self.sigma_for(self.one_way_rho / self.columns_to_measure)

    @property
    def first_sigma(self) -> float:
        """The noise of the first rounds, which cost the same."""
        return self.sigma((self.budget.gaussian - self.one_way_rho) / self.rounds)

    def sigma(self, round_rho: float) -> float:
        """The noise that the measuring share of a round buys."""
        return self.sigma_for((1 - SELECT_SHARE) * round_rho)

    def candidates(self, domain: Mapping[str, int]) -> dict[Columns, float]:
        """What may be measured, with AIM's weights."""
        every = self.workload(domain).candidates(domain, self.config.max_cells)
        # Single columns stay, known or not, public ones if there are no others: they fit whatever
        # the model's size is.
        left = not_yet_known(every, self.known)
        singles = {(name,) for name in self.asked_columns or domain}
        return {q: weight for q, weight in every.items() if q in left or q in singles}

    @property
    def plan(self) -> Plan:
        """The workload, the split and the noise, before anything is read."""
        one_way, domain = self.one_way_rho, self.schema.domain
        return Plan(
            split={
                "one-way": one_way,
                "select": (self.budget.gaussian - one_way) * SELECT_SHARE,
                "measure": (self.budget.gaussian - one_way) * (1 - SELECT_SHARE),
            },
            workload=tuple(self.workload(domain).marginals),
            model_mb=self.model_mb,
            facts={
                "candidates": len(self.candidates(domain)),
                "rounds at first": self.rounds,
                "noise deviation of one-way marginals": round(self.one_way_sigma, 2),
                "noise deviation at first": round(self.first_sigma, 2),
                **self.purpose_facts,
                **(forecast(domain, self.config.rows) if self.batch > 1 else {}),
            },
            warnings=advise(len(domain), "aim") if self.batch == 1 else (),
        )

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        """Run all rounds and draw rows from the last model."""
        one_way = self.one_way(visit, progress, self.one_way_sigma, self.first_sigma / 2)
        merged = visit.merged(one_way.compression.maps)
        pairs = self._label_pairs(visit, merged, one_way)
        observed, released = [*one_way.observed, *pairs], [*one_way.measurements, *pairs]
        observed += self.known_pairs(visit, one_way)
        candidates = self.candidates(one_way.domain)
        chooser = Chooser(visit, merged, candidates, one_way.domain)
        # Between rounds what is still noise shows what to measure: only the last fit is shrunken.
        own = self.config.estimator
        between = "built-in" if own == "pulled" else own
        model = self.fit(one_way, observed, estimator=between)
        round_rho = visit.remaining / self.rounds
        steps = []
        last = False
        while not last:
            picks = min(self.batch, max(1, int(visit.remaining / round_rho)))
            if visit.remaining < (picks + 1) * round_rho:
                round_rho, last = visit.remaining / picks, True
            sigma = self.sigma(round_rho)

            # Select: the worst approximated marginals among those that keep the model small. The
            # limit grows with the share of the budget spent, this round's included.
            spent = 1 - (visit.remaining - picks * round_rho) / self.budget.gaussian
            limit = self.model_mb * spent
            eps = self.budget.selection_eps(SELECT_SHARE * round_rho)
            if self.batch == 1:
                choice = chooser.worst(model, limit, sigma, eps)
            else:
                choice = chooser.several(model, limit, sigma, eps, picks)
            lot = choice.columns

            # Measure
            before, judged = model, sigma
            if last and len(lot) < picks:
                sigma = self.sigma_for(visit.remaining / len(lot))
            merged.prepare(lot)
            news = [merged.measure(q, sigma, purpose="round") for q in lot]
            observed += news
            released += news
            steps += [
                {"columns": list(q), "sigma": sigma, "candidates": len(choice.among)} for q in lot
            ]
            progress.report(
                "estimate",
                fraction=1 - visit.remaining / self.budget.gaussian,
                text=f"round {len(steps)}: {' x '.join(lot[0])}, model {model.model_mb:.2f} MB",
            )

            # Estimate
            # Loosely between the rounds: the next one moves the model far more than the rest would.
            model = self.fit(
                one_way,
                observed,
                estimator=own if last else between,
                warm=before,
                tolerance=FINAL if last else BETWEEN,
                max_iters=1000 if last or self.batch == 1 else QUICK,
            )
            if not chooser.learned(before, model, lot, sigma):
                round_rho *= 4  # sigma halves and eps doubles: this noise level shows no more

        # Generate
        progress.report("generate", fraction=1.0, text="rows")
        # At most so many were measured: one a round, every column, every pair with a label.
        columns = len(self.schema.names)
        pairs_for = len(model_pairs(self.config.for_, self.schema.names, self.schema.stand_ins))
        bounds = chooser.bounds(
            choice,
            before,
            model,
            observed,
            label=self.schema.label,
            sigma=sigma,
            judged=judged,
            eps=eps,
            most=self.rounds + columns + max(columns, pairs_for),
        )
        return self.draw(visit, model, one_way, released, rounds=steps, bounds=bounds)

    def _label_pairs(self, visit: Visit, merged: Visit, one_way: OneWay) -> list[Measurement]:
        """Measure the label with every other column first, where few rows rise above the noise.

        By default their share of the rest is 80 noise deviations over the estimated rows, at most
        0.8: nearly all for hundreds of rows, nothing for tens of thousands.
        """
        label, share = self.schema.label, self.config.label_share
        if share is None and self.batch > 1:
            share = 0.0  # of many columns few matter to the label: the rounds find them
        domain = one_way.domain
        if share is None:
            over = one_way.total / self.sigma(self.budget.gaussian / (2 * len(domain)))
            share = min(0.8, 80 / over) if over < 800 else 0.0
        pairs = [tuple(c for c in domain if c in (name, label)) for name in domain if name != label]
        if self.config.for_:
            pairs = model_pairs(self.config.for_, domain, self.schema.stand_ins)
        elif label is None:
            pairs = []
        if not pairs or share == 0:
            return []
        sigma = self.sigma_for(share * visit.remaining / len(pairs))
        merged.prepare(pairs)
        return [merged.measure(pair, sigma, purpose="label pair") for pair in pairs]
