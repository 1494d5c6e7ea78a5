"""All pairs at once: equal to one answer after the other, whatever the model's cliques."""

from __future__ import annotations

import numpy as np
import pytest

from marginalsyn.graphical import queries as pairs
from marginalsyn.graphical.model import Fitted


def random_model(seed):
    """A model of eight columns of 1 to 4 codes with some random cliques of up to three."""
    rng = np.random.default_rng(seed)
    domain = {f"c{i}": int(rng.integers(1, 5)) for i in range(8)}
    potentials = {}
    for _ in range(seed % 12):
        chosen = sorted(rng.choice(8, int(rng.integers(1, 4)), replace=False).tolist())
        columns = tuple(f"c{i}" for i in chosen)
        potentials[columns] = rng.normal(0, 2, [domain[c] for c in columns])
    return Fitted.of_potentials(domain, potentials, 100.0)


@pytest.mark.parametrize("codes", [5, 1024])
def test_all_pairs_at_once_equal_one_answer_after_the_other(codes, monkeypatch):
    monkeypatch.setattr(pairs, "_CODES", codes)
    for seed in range(15):
        model = random_model(seed)
        names, starts = list(model.domain), np.cumsum([0, *model.domain.values()])
        met = []
        for a, block in model.pair_blocks():
            met.append(a)
            np.testing.assert_allclose(block.sum(axis=1), 8 * model.marginal((names[a],)))
            for b, name in enumerate(names):
                found = block[:, starts[b] : starts[b + 1]]
                expected = (
                    np.diag(model.marginal((name,))) if a == b else model.marginal((names[a], name))
                )
                np.testing.assert_allclose(found, expected, atol=1e-9)
        assert sorted(met) == list(range(8))


def test_models_of_large_cliques_are_not_answered_at_once(monkeypatch):
    monkeypatch.setattr(pairs, "_MOST_CELLS", 3)
    assert random_model(11).pair_blocks() is None
