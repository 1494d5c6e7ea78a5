"""Rows given codes that differ from row to row, against the whole table of a small model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from marginalsyn.graphical.conditional import ConditionalDraws
from marginalsyn.graphical.model import Fitted

DOMAIN = {"a": 3, "b": 4, "c": 3, "d": 2, "e": 3, "f": 2}
SCOPES = [("a", "c"), ("b", "d"), ("c", "d"), ("a", "d"), ("d", "e"), ("b", "c"), ("a", "f")]


def make_model(seed: int) -> Fitted:
    rng = np.random.default_rng(seed)
    potentials = {s: rng.normal(size=[DOMAIN[c] for c in s]) * 1.5 for s in SCOPES}
    return Fitted.of_potentials(DOMAIN, potentials, 1000.0)


@pytest.mark.parametrize("own", [("c", "d", "e", "f"), ("e",), ("a", "b", "c", "d", "e", "f")])
def test_draws_follow_the_conditional_distribution(own: tuple[str, ...]) -> None:
    model, rng, rows = make_model(1), np.random.default_rng(2), 200_000
    whole = model.marginal(tuple(DOMAIN))
    given = [name for name in DOMAIN if name not in own]
    known = {name: rng.integers(0, DOMAIN[name], rows) for name in given}
    codes = {**known, **ConditionalDraws(model, own).draw(known, rows, rng)}
    axes = tuple(i for i, name in enumerate(DOMAIN) if name in own)
    conditional = whole / whole.sum(axis=axes, keepdims=True)
    index = np.ravel_multi_index([codes[name] for name in DOMAIN], whole.shape)
    seen = np.bincount(index, minlength=whole.size).reshape(whole.shape)
    wanted = conditional * seen.sum(axis=axes, keepdims=True)
    large = wanted >= 5
    statistic = float((np.square(seen - wanted)[large] / wanted[large]).sum())
    assert statistic < stats.chi2.isf(1e-6, int(large.sum()))
    # Draws without regard to what is known do not pass.
    free = {name: rng.permutation(codes[name]) for name in own}
    index = np.ravel_multi_index([{**codes, **free}[name] for name in DOMAIN], whole.shape)
    seen = np.bincount(index, minlength=whole.size).reshape(whole.shape)
    statistic = float((np.square(seen - wanted)[large] / wanted[large]).sum())
    assert statistic > stats.chi2.isf(1e-6, int(large.sum()))
