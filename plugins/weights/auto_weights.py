"""The choice among weight estimators, by what each is predicted to gain: public numbers alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from marginalsyn.access.private_table import Unprotected
from marginalsyn.access.visit import Visit
from marginalsyn.contract import (
    LogWeights,
    Plan,
    Target,
    WeightConfig,
    WeightEstimator,
    make_weights,
    option,
)
from marginalsyn.plugins.weights.label_weights import LabelWeights
from marginalsyn.plugins.weights.rake_dp_mlp import RakeDpMlp
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge
from marginalsyn.progress import Progress
from marginalsyn.weights.conditional import has_label

LINE, BOTH, RAKE = "beta-noised --target label", "rake+dp-mlp", "rake"


@dataclass(frozen=True, kw_only=True)
class AutoConfig(WeightConfig):
    """Takes the estimator that fits the release and the budget.

    Compared is what each is predicted to gain, from the release's own record and its rows: how much
    of the label's relations is likely to be missing there, how much of that the estimator has words
    for, and how much of it the noise leaves. Models of the label are served by its chances,
    corrected by a linear residual alone or after raking; marginals, and tables without a label, by
    raking. A network was never the best by more than chance, but where only three columns together
    show something. Whether the gain is worth its price is asked by ``weight``.

    Example:
        >>> AutoConfig().name
        'auto'
    """

    name = "auto"
    summary = "chooses a method by its predicted gain"
    reference = "docs/weights.md"
    counts_persons = True

    serve: Literal["models", "marginals"] = option(
        "models",
        "What the weights are for: 'models' of the label, or 'marginals', which are raked. Tables "
        "without a label are raked.",
    )

    def configure(self, target: Target, budget: Budget) -> Chosen:
        if self.serve == "marginals" or not has_label(target):
            rake = make_weights("rake").configure(target, budget)
            share = {RAKE: rake.plan.facts["predicted_share"]}
            return Chosen(estimator=rake, facts={"predicted": share, "chosen": RAKE})
        line = make_weights("beta-noised", {"target": "label"}).configure(target, budget)
        both = make_weights("rake+dp-mlp").configure(target, budget)
        assert isinstance(line, LabelWeights)
        assert isinstance(both, RakeDpMlp)
        # The label's chances in the released rows are fitted once.
        both = replace(both, second=replace(both.second, known=line.conditional))
        found: dict[str, LabelWeights | RakeDpMlp] = {LINE: line, BOTH: both}
        gains = {one: estimator.prediction["predicted_gain"] for one, estimator in found.items()}
        # Of methods that are predicted alike, the first.
        chosen = max(gains, key=lambda one: gains[one][1])
        facts = {"predicted": gains, "chosen": chosen, "predicted_gain": gains[chosen]}
        return Chosen(estimator=found[chosen], facts=facts)


@dataclass(frozen=True, kw_only=True)
class Chosen(WeightEstimator):
    """The estimator that was chosen, with the reasons among its facts."""

    estimator: WeightEstimator
    facts: dict[str, Any]

    @property
    def cost(self) -> tuple[Charge, ...]:
        return tuple(self.estimator.cost)

    @cached_property
    def plan(self) -> Plan:
        plan = self.estimator.plan
        return replace(plan, facts={**plan.facts, **self.facts})

    def prepare(self, *, progress: Progress) -> None:
        self.estimator.prepare(progress=progress)

    def __call__(self, rows: Visit | Unprotected | None, *, progress: Progress) -> LogWeights:
        found = self.estimator(rows, progress=progress)
        return replace(found, notes={**found.notes, "auto": self.facts})
