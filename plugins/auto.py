"""The choice among weight estimators, by what each is predicted to gain: public numbers alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from marginalsyn.contract import LogWeights, Plan, make_weights
from marginalsyn.weights import has_label

if TYPE_CHECKING:
    from marginalsyn.budget import Budget, Charge
    from marginalsyn.contract import Target, WeightEstimator
    from marginalsyn.private import Unprotected, Visit
    from marginalsyn.progress import Progress

# No budget is spent where at most so much of the error is predicted to go away.
LEAST_GAIN = 0.02
# From here on a network sees as much as a line does, and interactions, too.
NETWORK_FROM = 0.9
LINE, NETWORK, RAKE = "beta-noised --target label", "dp-mlp", "rake"
CHOICES: dict[str, tuple[str, dict[str, Any]]] = {
    LINE: ("beta-noised", {"target": "label"}),
    NETWORK: ("dp-mlp", {"target": "label"}),
    RAKE: ("rake", {}),
}


@dataclass(frozen=True, kw_only=True)
class AutoConfig:
    """Takes the estimator that fits the release and the budget, or spends nothing.

    What an estimator is predicted to gain is the share of a log ratio that its noise leaves, times
    the share of the label's pairs that the release did not measure, by its own record. With a label
    a linear residual of the label's chances is taken, or a network where the budget is so large
    that it keeps nine tenths; without a label the rows are raked.

    Example:
        >>> AutoConfig().name
        'auto'
    """

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "chooses a method by its predicted gain, or spends nothing"
    reference: ClassVar[str] = "docs/weights.md"
    private: ClassVar[bool] = True

    def configure(self, target: Target, budget: Budget) -> WeightEstimator:
        names = (LINE, NETWORK) if has_label(target) else (RAKE,)
        found = {}
        for one in names:
            method, options = CHOICES[one]
            found[one] = make_weights(method, options).configure(target, budget)
        gains = {one: estimator.plan.facts["predicted_gain"] for one, estimator in found.items()}
        kept = {one: estimator.plan.kept or 0.0 for one, estimator in found.items()}
        chosen = NETWORK if kept.get(NETWORK, 0.0) >= NETWORK_FROM else names[0]
        told = {"predicted": gains, "chosen": chosen, "predicted_gain": gains[chosen]}
        if gains[chosen][1] < LEAST_GAIN:
            return Abstaining(rows=len(target.frame), facts={**told, "chosen": "nothing"})
        return Chosen(estimator=found[chosen], facts=told)


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The estimator that was chosen, with the reasons beside its own facts."""

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
        """Load what the estimator needs, before anything is charged."""
        prepare = getattr(self.estimator, "prepare", None)
        if prepare is not None:
            prepare(progress=progress)

    def __call__(self, rows: Visit | Unprotected | None, *, progress: Progress) -> LogWeights:
        found = self.estimator(rows, progress=progress)
        return replace(found, notes={**found.notes, "auto": self.facts})


@dataclass(frozen=True, kw_only=True)
class Abstaining:
    """Spends nothing: all weights are 1."""

    rows: int
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def cost(self) -> tuple[Charge, ...]:
        return ()

    @property
    def plan(self) -> Plan:
        return Plan(noise=0.0, kept=0.0, scores=True, facts=self.facts, warnings=[self.why])

    @property
    def why(self) -> str:
        """What to tell the curator."""
        least, middle, most = self.facts["predicted_gain"]
        return (
            f"do not spend: weights are predicted to take away {middle:.1%} of the error in the "
            f"label's relations ({least:.1%} to {most:.1%}). Nothing was charged; name a --method "
            "to spend all the same"
        )

    def __call__(self, rows: Visit | Unprotected | None, *, progress: Progress) -> LogWeights:
        del rows, progress
        return LogWeights(
            values=np.zeros(self.rows),
            score=lambda frame: np.zeros(len(frame)),
            warnings=[self.why],
            notes={"auto": self.facts},
        )
