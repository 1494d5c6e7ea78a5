"""The choice among weight estimators, by what each is predicted to gain: public numbers alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from marginalsyn.contract import (
    LogWeights,
    Plan,
    WeightConfig,
    WeightEstimator,
    make_weights,
    option,
)
from marginalsyn.weights.conditional import has_label
from marginalsyn.weights.label_weights import LabelWeights
from marginalsyn.weights.prediction import say_gain

if TYPE_CHECKING:
    from marginalsyn.access.private_table import Unprotected
    from marginalsyn.access.visit import Visit
    from marginalsyn.contract import Target
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.privacy.charges import Charge
    from marginalsyn.progress import Progress

# No budget is spent where the log loss is predicted to fall by less, in nats; or, without a label,
# where a smaller share of the error is predicted to go away.
LEAST_GAIN, LEAST_SHARE = 0.006, 0.02
# What a network sees beside what a line does, as a share of that.
INTERACTIONS = 0.05
LINE, NETWORK, RAKE = "beta-noised --target label", "dp-mlp", "rake"


@dataclass(frozen=True, kw_only=True)
class AutoConfig(WeightConfig):
    """Takes the estimator that fits the release and the budget, or spends nothing.

    Compared is what each is predicted to gain, from the release's own record and its rows: how much
    of the label's relations is likely to be missing there, and how much of that the noise leaves.
    Models of the label are served by its chances, corrected by a linear residual or a network;
    marginals, and tables without a label, by raking.

    Example:
        >>> AutoConfig().name
        'auto'
    """

    name = "auto"
    summary = "chooses a method by its predicted gain, or spends nothing"
    reference = "docs/weights.md"
    counts_persons = True

    serve: Literal["models", "marginals"] = option(
        "models",
        "What the weights are for: 'models' of the label, or 'marginals', which are raked. Tables "
        "without a label are raked.",
    )

    def configure(self, target: Target, budget: Budget) -> WeightEstimator:
        if self.serve == "marginals" or not has_label(target):
            return _rake(target, budget)
        line = make_weights("beta-noised", {"target": "label"}).configure(target, budget)
        network = make_weights("dp-mlp", {"target": "label"}).configure(target, budget)
        assert isinstance(line, LabelWeights)
        assert isinstance(network, LabelWeights)
        # The released rows are looked at once.
        found = {LINE: line, NETWORK: replace(network, told=line.conditional)}
        gains = {one: estimator.prediction["predicted_gain"] for one, estimator in found.items()}
        sees_more = gains[NETWORK][1] * (1 + INTERACTIONS) > gains[LINE][1]
        chosen = NETWORK if sees_more else LINE
        told = {"predicted": gains, "chosen": chosen, "predicted_gain": gains[chosen]}
        if gains[chosen][1] >= LEAST_GAIN:
            return Chosen(estimator=found[chosen], facts=told)
        return Abstaining(
            rows=len(target.frame),
            facts={**line.prediction, **told, "chosen": "nothing"},
            because=f"the log loss of models of the label is predicted to fall by "
            f"{say_gain(gains[chosen])}, which is less than {LEAST_GAIN}",
        )


def _rake(target: Target, budget: Budget) -> WeightEstimator:
    """Marginals are bought, but for those that the release has bought already."""
    rake = make_weights("rake").configure(target, budget)
    facts = rake.plan.facts
    told = {"predicted": {RAKE: facts["predicted_share"]}, "chosen": RAKE}
    least, middle, most = facts["predicted_share"]
    if middle >= LEAST_SHARE:
        return Chosen(estimator=rake, facts=told)
    return Abstaining(
        rows=len(target.frame),
        facts={**told, "predicted_share": [least, middle, most], "chosen": "nothing"},
        because=f"weights are predicted to take away {middle:.1%} of the error in these marginals "
        f"({least:.1%} to {most:.1%})",
    )


@dataclass(frozen=True, kw_only=True)
class Chosen(WeightEstimator):
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
        self.estimator.prepare(progress=progress)

    def __call__(self, rows: Visit | Unprotected | None, *, progress: Progress) -> LogWeights:
        found = self.estimator(rows, progress=progress)
        return replace(found, notes={**found.notes, "auto": self.facts})


@dataclass(frozen=True, kw_only=True)
class Abstaining(WeightEstimator):
    """Spends nothing: all weights are 1."""

    rows: int
    because: str
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        return Plan(noise=0.0, kept=0.0, scores=True, facts=self.facts, warnings=[self.why])

    @property
    def why(self) -> str:
        """What to tell the curator."""
        return (
            f"do not spend: {self.because}. Nothing was charged; name a --method to spend all the "
            "same"
        )

    def __call__(self, rows: Visit | Unprotected | None, *, progress: Progress) -> LogWeights:
        del rows, progress
        return LogWeights(
            values=np.zeros(self.rows),
            score=lambda frame: np.zeros(len(frame)),
            warnings=[self.why],
            notes={"auto": self.facts},
        )
