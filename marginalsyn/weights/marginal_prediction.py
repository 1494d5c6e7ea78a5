"""What bought marginals will do for models of the label, told before they are bought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.weights.conditional import Conditional, has_label
from marginalsyn.weights.marginal_choice import Columns
from marginalsyn.weights.prediction import predict_gain
from marginalsyn.weights.tilting import Tilting

if TYPE_CHECKING:
    from marginalsyn.contract import Target
    from marginalsyn.privacy.budget import Budget

# Against sums of clipped gradients at the same price, by the benchmark of places.
WORTH = 0.5


def predict_marginals(
    target: Target, label: str | None, marginals: Sequence[Columns], budget: Budget
) -> dict[str, Any]:
    """The gain of models of the label, where there is one: see :func:`predict_gain`.

    A triple tells of a pair with the noise of all cells that are added up, so where triples are
    bought a pair has fewer of the budget's bits: half of the third column's size less.
    """
    schema = target.schema.model_copy(update={"label": label})
    target = replace(target, schema=schema)
    if label is None or not has_label(target):
        return {}
    others = [len(columns) - 2 for columns in marginals if label in columns]
    sizes = [size for name, size in schema.domain.items() if name != label]
    spread = float(np.mean(others)) * (float(np.mean(sizes)) / 2 - 1) if others else 0.0
    rho = WORTH * budget.rho / max(1.0 + spread, 1.0)
    made = Conditional(target)
    tilting = Tilting(conditional=made, neighbours=budget.neighbours, rho=rho)
    return predict_gain(target, made, tilting.foresee)
