"""Models given what is known of some columns, against brute force over all cells."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from marginalsyn.errors import DataError
from marginalsyn.graphical.model import Fitted

DOMAIN = {"a": 4, "b": 3, "c": 5, "d": 2}
SCOPES = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]


def make_model(rng: np.random.Generator) -> Fitted:
    potentials = {s: rng.normal(size=[DOMAIN[c] for c in s]) for s in SCOPES}
    potentials[("a", "b")][0, 0] = -np.inf
    return Fitted.of_potentials(
        DOMAIN,
        {s: np.where(np.isfinite(t), t, -50.0) for s, t in potentials.items()},
        100.0,
        zeros=[(("a", "b"), ~np.isfinite(potentials[("a", "b")]))],
    )


@pytest.mark.parametrize("seed", range(3))
def test_marginals_given_evidence_are_those_of_the_whole_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = make_model(rng)
    whole = model.marginal(tuple(DOMAIN))
    likely = {"a": rng.random(4), "c": np.array([0.0, 1, 0, 0.5, 0])}
    wanted = whole * likely["a"][:, None, None, None] * likely["c"][:, None]
    found = model.given(likely)
    assert found.total == pytest.approx(wanted.sum())
    for pair in itertools.combinations(DOMAIN, 2):
        others = tuple(i for i, name in enumerate(DOMAIN) if name not in pair)
        assert np.allclose(found.marginal(pair), wanted.sum(axis=others))
    rows = found.rows(2000, rng)
    assert set(np.unique(rows[:, 2])) == {1, 3}
    assert not ((rows[:, 0] == 0) & (rows[:, 1] == 0)).any()
    # The model itself is as it was.
    assert np.allclose(model.marginal(tuple(DOMAIN)), whole)


def test_evidence_without_mass_is_refused() -> None:
    model = make_model(np.random.default_rng(0))
    with pytest.raises(DataError, match="none does"):
        model.given({"a": np.eye(4)[0], "b": np.eye(3)[0]})
