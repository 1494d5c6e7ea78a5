"""Weights fitted to marginals of the private rows that were bought with noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.access.visit import Visit
from marginalsyn.contract import (
    LogWeights,
    Measurement,
    Plan,
    Target,
    WeightConfig,
    WeightEstimator,
    option,
)
from marginalsyn.errors import UsageError
from marginalsyn.graphical.estimation import estimate_total
from marginalsyn.graphical.one_way import L1_PER_CELL
from marginalsyn.plugins.weights.marginal_choice import (
    Choosing,
    Columns,
    choose_marginals,
    label_and_others,
    predict_marginals,
)
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.progress import Progress
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.weights.columns import Bought, check_bought, read_bought
from marginalsyn.weights.prediction import predict_share
from marginalsyn.weights.raking import Answers, Cells, Choice, choose, fit, outlook, unreachable

REFERENCE = "https://arxiv.org/abs/2201.12677"
SELECT_SHARE = 0.1
# The pull stops where the rows would be worth a smaller share of their number.
LEAST_EFFECTIVE = 0.25
# A model's counts are rounded to so many binary digits, so that sums of errors are exact.
FRACTION_BITS = 10
# Counts of persons have so many themselves.
PERSON_BITS = 20
# Missing mass is warned of from so many of its standard deviations and such a share of the rows on.
CLEAR, LARGE = 4.0, 0.01
SERVES = (
    "the measured marginals: the strength has the least estimated error there, or keeps a quarter "
    "of the rows effective; models are often served better by --strength 0.5"
)
CHOSEN_BY = "estimated for marginals fixed beforehand; these were selected, so it is approximate"


@dataclass(frozen=True, kw_only=True)
class RakeConfig(WeightConfig):
    """Marginals of the private rows are measured, and the rows weighted towards the answers.

    The log-weight of a row is a sum of one parameter per measured marginal, for the cell that the
    row lies in: the weights nearest to equal ones, in relative entropy, for what they give up in
    fit. By default the label is measured with every pair of columns; without a label pairs are
    selected round by round as AIM does (McKenna et al. 2022), the weighted rows being the model.

    Example:
        >>> RakeConfig(for_="income ~ age + sex").reads
        True
    """

    name = "rake"
    summary = "rows weighted to noisy marginals; lowers marginal errors, too"
    reference = REFERENCE
    counts_persons = True

    marginals: tuple[tuple[str, ...], ...] = option(
        (), "The marginals to measure, such as 'age,sex;age,income'."
    )
    for_: str | None = option(
        None, "The model that the weights are for: 'income ~ .', or 'income ~ age + sex'."
    )
    degree: int | None = option(
        None, "Measure the label with so many columns less one: 2 or 3. [default=by the budget]"
    )
    max_cells: int = option(1500, "No larger triple or selected pair is measured.")
    rounds: int = option(4, "Rounds of selection, where there is no label.")
    strength: float | None = option(
        None,
        "The ridge, in units of the noise's variance; less pulls harder. [default=the least "
        "estimated error of the measured marginals]",
    )
    from_: str | None = option(
        None, "A release whose weights were raked: its answers are used again, and nothing spent."
    )

    def __post_init__(self) -> None:
        if self.degree not in (None, 2, 3):
            raise UsageError(f"degree ({self.degree}) must be 2 or 3")
        for name, most in (("max_cells", 10**7), ("rounds", 1000)):
            if not 1 <= getattr(self, name) <= most:
                raise UsageError(f"{name} ({getattr(self, name)}) must be from 1 to {most:,}")
        if self.strength is not None and not 1e-6 <= self.strength <= 1e9:
            raise UsageError(f"strength ({self.strength}) must be from 1e-6 to 1e9")

    @property
    def reads(self) -> bool:  # type: ignore[override]
        """Whether private rows are read at all."""
        return self.from_ is None

    def configure(self, target: Target, budget: Budget) -> Rake:
        if self.from_ is not None:
            source = Release.read(self.from_)
            _check_unit(source, target)
            bought = read_bought(source)
            for one in bought:
                if target.release is not None:
                    check_bought(one, target.release)
            columns = [m.columns for one in bought for m in one.measurements if m.columns]
            # Several answers to one question are each a measurement of it.
            chosen = Choosing(kind="bought before", marginals=tuple(columns))
            return Rake(self, target, budget, chosen, tuple(bought))
        chosen = choose_marginals(
            target.schema,
            rho=budget.gaussian,
            l2=budget.neighbours.l2,
            rows=target.rows,
            released=len(target.frame),
            given=self.marginals,
            formula=self.for_,
            degree=self.degree,
            max_cells=self.max_cells,
        )
        return Rake(self, target, budget, chosen)


@dataclass(frozen=True)
class Rake(WeightEstimator):
    """Calibrated: which marginals, with how much noise."""

    config: RakeConfig
    target: Target
    budget: Budget
    chosen: Choosing
    bought: tuple[Bought, ...] = ()

    @property
    def cost(self) -> tuple[Charge, ...]:
        if self.bought:
            return ()
        purpose = f"marginals to weight rows by: {self.chosen.kind}"
        return (self.budget.charge("rake", purpose, self.budget.gaussian_cost),)

    @property
    def rounds(self) -> int:
        """Rounds of selection; one where all is fixed beforehand."""
        return 1 if self.chosen.picks is None else min(self.config.rounds, self.chosen.picks)

    @property
    def measured(self) -> int:
        """How many marginals are measured."""
        return self.chosen.picks or len(self.chosen.marginals)

    @property
    def sigma(self) -> float:
        """The noise of every marginal that will be measured."""
        share = 1 - SELECT_SHARE if self.chosen.picks else 1.0
        return gaussian_sigma(
            share * self.budget.gaussian / self.measured, self.budget.neighbours.l2
        )

    @property
    def kept(self) -> float:
        """The share of the log ratio that noise and ridge leave, at strength 1."""
        return self._expected[1]

    @property
    def plan(self) -> Plan:
        noise, kept = self._expected
        return Plan(noise=noise, kept=kept, scores=True, facts={**self.facts, **self.prediction})

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Public numbers for the statement."""
        facts: dict[str, Any] = {"marginals": self.chosen.kind, "measured": self.measured}
        if self.bought:
            return {**facts, "from": str(self.config.from_)}
        selecting = {"rounds": self.rounds, "candidates": len(self.chosen.marginals)}
        return {**facts, "sigma": self.sigma, **(selecting if self.chosen.picks else {})}

    @cached_property
    def prediction(self) -> dict[str, Any]:
        """What the weights may gain, by what noise leaves and what the release did not measure.

        A share of the error in the label's relations (without a label, of the measured marginals'),
        and with a label the fall of the log loss of models of it.
        """
        label, others = label_and_others(self.config.for_, self.target.schema)
        if label is None:
            wanted = [set(columns) for columns in self.chosen.marginals]
        else:
            wanted = [{label, name} for name in others]
        share = predict_share(self.target, wanted, self.kept)
        marginals = self.chosen.marginals
        return share | predict_marginals(self.target, label, marginals, self.budget)

    def __call__(self, rows: Visit | None, *, progress: Progress) -> LogWeights:
        if rows is None:
            found = [m for one in self.bought for m in one.measurements]
        else:
            found = self._measure(rows, progress)
        progress.report("fit", text=f"{sum(m.values.size for m in found):,} cells")
        asked = [m for m in found if m.columns]
        total, slope = self._total(found)
        cells = self._cells([m.columns for m in asked])
        answers = _answers(asked, total, slope)
        choice = self._fit(cells, answers)
        theta, level = choice.fitted.theta, choice.fitted.log_weights
        offset = float(np.mean(level - cells.scores(theta))) if cells.rows else 0.0

        def score(frame: pd.DataFrame) -> np.ndarray:
            return self._cells([m.columns for m in asked], frame).scores(theta) + offset

        missing, warnings = self._missing(cells, answers, asked)
        serves = CHOSEN_BY if self.chosen.picks else SERVES
        return LogWeights(
            values=level,
            score=score,
            warnings=warnings,
            notes={
                **self.facts,
                "cells": cells.cells,
                "rows_estimate": total,
                "strength": choice.strength,
                "degrees_of_freedom": choice.freedom,
                "estimated_error": choice.risk,
                "estimated_error_unweighted": choice.plain,
                "cells_without_rows": missing,
                "serves": "a strength given by hand" if self.config.strength else serves,
            },
            measurements=found if rows is not None else (),
            fixed=self.chosen.fixed,
            reused=self.bought,
        )

    # -- measuring --------------------------------------------------------------------------------

    def _measure(self, visit: Visit, progress: Progress) -> list[Measurement]:
        """Buy the marginals; the number of rows is added where it is public."""
        found = []
        if visit.neighbours.l1 > 1:
            rows = np.array(float(max(visit.rows, 1)))
            found.append(Measurement(columns=(), values=rows, sigma=0.0, purpose="rows (public)"))
        if self.chosen.picks is None:
            visit.prepare(self.chosen.marginals)
            for at, columns in enumerate(self.chosen.marginals):
                progress.report("measure", fraction=at / self.measured, text=" x ".join(columns))
                found.append(visit.measure(columns, self.sigma, purpose="rake"))
            return found
        left = list(self.chosen.marginals)
        shares = np.array_split(np.arange(self.measured), self.rounds)
        for at, share in enumerate(shares):
            progress.report("select", fraction=at / self.rounds, text=f"round {at + 1}")
            counts = self._model(found, left)
            picked = []
            for _ in share:
                place = self._select(visit, left, counts)
                picked.append(left.pop(place))
                counts.pop(place)
            found += [visit.measure(columns, self.sigma, purpose="rake") for columns in picked]
        return found

    def _select(self, visit: Visit, left: Sequence[Columns], counts: Sequence[np.ndarray]) -> int:
        """The candidate that the weighted rows get worst: AIM's score, in whole numbers."""
        unit = self._unit
        exact = visit.counts_many(left)
        scores = [
            int(np.abs(exact[columns].ravel() * unit - model).sum())
            - round(L1_PER_CELL * self.sigma * model.size * unit)
            for columns, model in zip(left, counts, strict=True)
        ]
        law = ExponentialMechanism(
            eps=self.budget.selection_eps(SELECT_SHARE * self.budget.gaussian / self.measured),
            sensitivity=visit.neighbours.l1 * unit,
        )
        return visit.draw(law, np.array(scores, dtype=object), purpose="rake: select")

    @property
    def _unit(self) -> int:
        """What a row or a person counts in scores, so that they are whole numbers."""
        return 1 << (FRACTION_BITS if self.target.schema.unit is None else PERSON_BITS)

    def _model(self, found: Sequence[Measurement], left: Sequence[Columns]) -> list[np.ndarray]:
        """What the rows, weighted to the answers so far, say of the candidates; public numbers."""
        asked = [m for m in found if m.columns]
        total, slope = self._total(found)
        shares = self.target.persons / max(float(self.target.persons.sum()), 1e-300)
        if asked:
            cells = self._cells([m.columns for m in asked])
            shares = self._fit(cells, _answers(asked, total, slope)).fitted.shares
        unit = self._unit
        return [
            np.rint(self._cells([columns]).totals(total * unit * shares)).astype(np.int64)
            for columns in left
        ]

    # -- fitting ----------------------------------------------------------------------------------

    def _fit(self, cells: Cells, answers: Answers) -> Choice:
        rng = np.random.default_rng(0)  # probes of a trace; they protect nothing
        if self.config.strength is None:
            return choose(cells, answers, rng, LEAST_EFFECTIVE)
        found = fit(cells, answers, self.config.strength)
        return Choice.of(cells, answers, found, self.config.strength, rng)

    def _total(self, found: Sequence[Measurement]) -> tuple[float, np.ndarray]:
        """The number of rows, and how it moves with the answers.

        Public where an answer says so; the release's own estimate where the answers agree with it;
        else from the answers.
        """
        asked = [m for m in found if m.columns]
        known = [float(m.values) for m in found if not m.columns]
        cells = sum(m.values.size for m in asked)
        estimated = self.target.estimated
        if known or not asked:
            return (known[0] if known else max(self.target.rows, 1.0)), np.zeros(cells)
        total, spread = estimate_total(asked)
        if estimated is not None and abs(estimated - total) <= 2 * spread and estimated >= 1:
            return estimated, np.zeros(cells)
        trust = [1 / (m.values.size * float(np.mean(np.square(m.sigma)))) for m in asked]
        slope = [np.full(m.values.size, t / sum(trust)) for m, t in zip(asked, trust, strict=True)]
        return max(total, 1.0), np.concatenate(slope)

    def _cells(self, marginals: Sequence[Columns], frame: pd.DataFrame | None = None) -> Cells:
        domain = self.target.schema.domain
        if frame is not None:
            return Cells.of(Codec(self.target.schema).encode(frame), domain, marginals)
        return Cells.of(self._codes, domain, marginals, self.target.masses)

    @cached_property
    def _codes(self) -> np.ndarray:
        return Codec(self.target.schema).encode(self.target.frame)

    # -- expectations and warnings ----------------------------------------------------------------

    @cached_property
    def _expected(self) -> tuple[float, float]:
        """The noise in a log-weight and the share of the log ratio kept, at strength 1."""
        marginals = self.chosen.marginals[: self.measured]
        cells = self._cells(marginals)
        if not cells.rows:
            return 0.0, 0.0
        if self.bought:
            asked = [m for one in self.bought for m in one.measurements if m.columns]
            sigma = _answers(asked, 1.0, np.zeros(cells.cells)).sigma
        else:
            sigma = np.full(cells.cells, self.sigma)
        return outlook(cells, sigma, max(self.target.rows, 1.0), np.random.default_rng(0))

    def _missing(
        self, cells: Cells, answers: Answers, asked: Sequence[Measurement]
    ) -> tuple[float, list[str]]:
        """The share of the rows in cells that no released row lies in, and a warning of it."""
        mass, spread = unreachable(cells, answers)
        share = mass / (answers.total * max(len(asked), 1))
        if not (mass > CLEAR * spread and share > LARGE):
            return max(share, 0.0), []
        return share, [
            f"about {share:.1%} of the private rows lie, on average over the measured marginals, "
            "in cells without any released row: no weights can represent them. Sample more rows "
            "from the release's model, or generate again with another method"
        ]


def _check_unit(source: Release, target: Target) -> None:
    """Refuse answers about persons for a release of rows, or the other way round."""
    units = [
        schema.unit.noun if schema.unit else "rows" for schema in (source.schema, target.schema)
    ]
    if units[0] != units[1]:
        raise UsageError(
            f"from ({source.path.name}, for {units[0]}) must be a release for {units[1]}: answers "
            "about persons and about rows are different counts, and their promises do not add up"
        )


def _answers(asked: Sequence[Measurement], total: float, slope: np.ndarray) -> Answers:
    """The answers in one row, with their noise."""
    none = np.zeros(0)
    return Answers(
        counts=np.concatenate([none, *(np.ravel(m.values).astype(float) for m in asked)]),
        sigma=np.concatenate(
            [none, *(np.ravel(np.broadcast_to(m.sigma, m.values.shape)) for m in asked)]
        ),
        total=total,
        slope=slope,
    )
