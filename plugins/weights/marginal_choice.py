"""Which marginals raking buys, and what they will gain: public arithmetic."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from marginalsyn.contract import Target
from marginalsyn.errors import UsageError
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.table.schema import Schema
from marginalsyn.weights.conditional import Conditional, has_label
from marginalsyn.weights.label_correction import LabelCorrection
from marginalsyn.weights.prediction import predict_gain

Columns = tuple[str, ...]
# Triples are carried by a budget whose noise in one, as a length, is at most so many times the
# number of rows; with more of it pairs show the label's relations better.
MOST_NOISE = 2.0
# Numbers kept for every row: the memory that one-hot rows may take.
MOST_ENTRIES = 2 * 10**8
# Against sums of clipped gradients at the same price, by the benchmark of places.
WORTH = 0.5
# Marginals chosen by private selection, as many times the columns.
PICKS_PER_COLUMN = 2


@dataclass(frozen=True, kw_only=True)
class Choosing:
    """Marginals to be bought, and whether all at once or by private selection among them.

    Attributes:
        kind: in words, for the statement.
        marginals: all of them, or the candidates.
        picks: how many of the candidates are chosen; None where all are bought.
        fixed: whether the release had no part in the choice: neither its estimate of the number of
            private rows nor its own rows.
    """

    kind: Literal["given", "label triples", "label pairs", "selected pairs", "all", "bought before"]
    marginals: tuple[Columns, ...]
    picks: int | None = None
    fixed: bool = True


def label_and_others(formula: str | None, schema: Schema) -> tuple[str | None, tuple[str, ...]]:
    """The column that a model is for and its predictors: ``income ~ .`` or ``y ~ a + b``."""
    if formula is None:
        label = schema.label
        return label, tuple(n for n in schema.names if n != label and n not in schema.followers)
    label, tilde, right = (part.strip() for part in formula.partition("~"))
    if not tilde or not label or not right:
        raise UsageError(f"for ({formula}) must read 'label ~ .' or 'label ~ a + b'")
    rest = tuple(n for n in schema.names if n != label and n not in schema.followers)
    others = rest if right == "." else tuple(part.strip() for part in right.split("+"))
    _check_names((label, *others), schema, "for")
    return label, others


def choose_marginals(
    schema: Schema,
    *,
    rho: float,
    l2: float,
    rows: float,
    released: int,
    given: Sequence[Sequence[str]] = (),
    formula: str | None = None,
    degree: int | None = None,
    max_cells: int = 1500,
) -> Choosing:
    """The marginals of a schema.

    Args:
        schema: of the table.
        rho: what they may cost together.
        l2: how much one person changes the counts of one.
        rows: a public estimate of the number of private rows.
        released: the number of released rows.
        given: fixed by hand.
        formula: the model that the weights are for; the schema's label and all columns if None.
        degree: 2 or 3; chosen by the budget if None.
        max_cells: no larger triple is bought.
    """
    domain = schema.domain
    if given:
        for columns in given:
            _check_names(columns, schema, "marginals")
        order = {name: at for at, name in enumerate(domain)}
        sets = {tuple(sorted(set(columns), key=order.__getitem__)) for columns in given}
        return Choosing(kind="given", marginals=tuple(sorted(sets)))
    label, others = label_and_others(formula, schema)
    if label is None or not others:
        return _among_pairs(schema.without(schema.followers).domain, max_cells)
    pairs = tuple((label, name) for name in others)
    small = [
        (label, *two)
        for two in itertools.combinations(others, 2)
        if size(domain, (label, *two)) <= max_cells
    ]
    covered = {name for columns in small for name in columns}
    triples = (*small, *(pair for pair in pairs if pair[1] not in covered))
    if degree == 2 or not small:
        return Choosing(kind="label pairs", marginals=pairs)
    # The length of the noise in a typical triple.
    cells = sum(size(domain, columns) for columns in triples) / len(triples)
    noise = gaussian_sigma(rho / len(triples), l2) * math.sqrt(cells)
    carried = degree == 3 or noise <= MOST_NOISE * max(rows, 1.0)
    if carried and len(triples) * max(released, 1) <= MOST_ENTRIES:
        return Choosing(kind="label triples", marginals=triples, fixed=False)
    return Choosing(kind="label pairs", marginals=pairs, fixed=False)


def predict_marginals(
    target: Target, label: str | None, marginals: Sequence[Columns], budget: Budget
) -> dict[str, Any]:
    """The gain of models of the label, where there is one: see :func:`predict_gain`.

    A triple shows a pair with the noise of all cells that are added up, so where triples are
    bought a pair has fewer of the budget's bits: half of the third column's size less.
    """
    schema = target.schema.model_copy(update={"label": label})
    target = replace(target, schema=schema)
    if label is None or not has_label(target):
        return {}
    others = [len(columns) - 2 for columns in marginals if label in columns]
    sizes = [size for name, size in schema.domain.items() if name != label]
    spread = float(np.mean(others)) * (float(np.mean(sizes)) / 2 - 1) if others else 0.0
    rho = WORTH * budget.gaussian / max(1.0 + spread, 1.0)
    made = Conditional(target)
    correction = LabelCorrection(conditional=made, neighbours=budget.neighbours, rho=rho)
    return predict_gain(target, made, correction.foresee)


def size(domain: Mapping[str, int], columns: Sequence[str]) -> int:
    """The number of cells of a marginal."""
    return math.prod(domain[name] for name in columns)


def _among_pairs(domain: Mapping[str, int], max_cells: int) -> Choosing:
    """Pairs chosen round by round; all of them where they are few, columns where there are none."""
    pairs = tuple(p for p in itertools.combinations(domain, 2) if size(domain, p) <= max_cells)
    picks = PICKS_PER_COLUMN * len(domain)
    if not pairs:
        return Choosing(kind="all", marginals=tuple((name,) for name in domain))
    if len(pairs) <= picks:
        return Choosing(kind="all", marginals=pairs)
    return Choosing(kind="selected pairs", marginals=pairs, picks=picks, fixed=False)


def _check_names(names: Sequence[str], schema: Schema, option: str) -> None:
    unknown = [name for name in names if name not in schema.domain]
    if unknown or len(set(names)) < len(names):
        wrong = unknown[0] if unknown else "twice the same"
        raise UsageError(
            f"{option} ({wrong}) must name columns of the schema, each once: "
            f"{', '.join(schema.names)}"
        )
