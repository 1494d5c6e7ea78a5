"""Weights in two steps: rows raked to bought marginals, then the label's chances corrected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from marginalsyn.access.visit import Visit
from marginalsyn.contract import LogWeights, Plan, Target, WeightConfig, WeightEstimator, option
from marginalsyn.errors import UsageError
from marginalsyn.plugins.weights.label_weights import LabelWeights, keep_measured
from marginalsyn.plugins.weights.rake import Rake, RakeConfig
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge
from marginalsyn.progress import Progress
from marginalsyn.weights.conditional import has_label
from marginalsyn.weights.per_row import choose_engine


@dataclass(frozen=True, kw_only=True)
class RakeDpMlpConfig(WeightConfig):
    """Marginals for the columns together, and the label's chances for models of it.

    A part of the budget buys marginals that the rows are raked to; the rest corrects the label's
    chances, given the other columns, of the raked rows. Without a label all of it rakes.

    Example:
        >>> RakeDpMlpConfig(marginals_share=0.3).residual
        'linear'
    """

    name = "rake+dp-mlp"
    summary = "half for marginals, half for the label's chances"
    reference = RakeConfig.reference
    counts_persons = True
    audit_options = {"engine": "numpy"}

    marginals_share: float = option(0.5, "The share of the budget, in rho, that buys marginals.")
    residual: Literal["linear", "network"] = option(
        "linear", "How the label's chances are corrected: linear, or by a network of 32 units."
    )
    degree: int | None = option(
        None, "Measure the label with so many columns less one: 2 or 3. [default=by the budget]"
    )
    strength: float | None = option(
        None, "The ridge of the raking, in units of the noise's variance. [default=estimated]"
    )
    engine: str | None = option(
        None,
        "What clips the network's gradients: 'tensorflow-privacy' or 'numpy'. [default: "
        "tensorflow-privacy where the extra is installed, else numpy]",
    )

    def __post_init__(self) -> None:
        if not 0.01 <= self.marginals_share <= 0.99:
            raise UsageError(f"marginals_share ({self.marginals_share}) must be from 0.01 to 0.99")
        choose_engine(self.engine)
        RakeConfig(degree=self.degree, strength=self.strength)

    def configure(self, target: Target, budget: Budget) -> Rake | RakeDpMlp:
        rake = RakeConfig(degree=self.degree, strength=self.strength)
        if not has_label(target):
            return rake.configure(target, budget)
        return RakeDpMlp(
            rake=rake.configure(target, budget.part(self.marginals_share)),
            second=LabelWeights(
                target=target,
                budget=budget.part(1 - self.marginals_share),
                units=32 if self.residual == "network" else 0,
                engine=choose_engine(self.engine) if self.residual == "network" else "numpy",
            ),
        )


@dataclass(frozen=True)
class RakeDpMlp(WeightEstimator):
    """Calibrated: marginals first, then sums of gradients on the raked rows."""

    rake: Rake
    second: LabelWeights

    @property
    def cost(self) -> tuple[Charge, ...]:
        return (*self.rake.cost, *self.second.cost)

    @cached_property
    def plan(self) -> Plan:
        first, second = self.rake.plan, self.second.plan
        noise = float(np.hypot(first.noise or 0.0, second.noise or 0.0))
        kept = max(first.kept or 0.0, second.kept or 0.0)
        facts = {**self.rake.facts, **self.second.facts, **self.prediction}
        return Plan(noise=noise, kept=kept, scores=True, facts=facts)

    @cached_property
    def prediction(self) -> dict[str, Any]:
        """What models of the label will gain: what the second step's noise leaves.

        Raked rows show it what no line has words for; those raked to triples of the label, how it
        goes with two columns together.
        """
        triples = self.rake.chosen.kind == "label triples"
        pairs = self.rake.kept if triples else 0.0
        return replace(self.second, sees=1.0, pairs=pairs).prediction

    def prepare(self, *, progress: Progress) -> None:
        self.second.prepare(progress=progress)

    def __call__(self, rows: Visit, *, progress: Progress) -> LogWeights:
        raked = self.rake(rows, progress=progress)
        found = replace(self.second, log_weights=raked.values, known=None)(rows, progress=progress)
        first, second = raked.score, found.score
        assert first is not None
        assert second is not None

        def score(frame: pd.DataFrame) -> np.ndarray:
            return first(frame) + second(frame)

        both = LogWeights(
            values=raked.values + found.values,
            score=score,
            warnings=[*raked.warnings, *found.warnings],
            notes={"marginals": dict(raked.notes), "label": dict(found.notes)},
            measurements=raked.measurements,
            fixed=raked.fixed,
        )
        return keep_measured(both, self.rake.target, raked.values)
