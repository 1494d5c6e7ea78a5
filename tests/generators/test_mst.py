"""MST: the tree that is found, and what it costs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from marginalsyn.generators.mst import MSTConfig
from marginalsyn.plugins.audit.testkit.generators import run_generator
from marginalsyn.privacy.budget import Budget
from marginalsyn.table.schema import Schema


def chain(rows=3000):
    """Four columns, each a noisy copy of the one before."""
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 4, rows)]
    for _ in range(3):
        copied = rng.random(rows) < 0.8
        codes.append(np.where(copied, codes[-1], rng.integers(0, 4, rows)))
    return pd.DataFrame(np.stack(codes, axis=1), columns=list("abcd"))


SCHEMA = Schema.from_domain(dict.fromkeys("abcd", 4))


def test_a_chain_is_found_at_a_large_budget():
    done = run_generator(MSTConfig, chain(), SCHEMA, eps=50)
    tree = {frozenset(pair) for pair in done.statement.notes["tree"]}
    assert tree == {frozenset("ab"), frozenset("bc"), frozenset("cd")}
    # Columns that no pair of the tree holds are related through it, as in the source.
    for a, b in ("ad", "ac"):
        real, drawn = (
            pd.crosstab(f[a], f[b], normalize=True) for f in (chain(), done.synthesis.frame)
        )
        assert np.abs(real.to_numpy() - drawn.to_numpy()).sum() / 2 < 0.05


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_every_table_gets_a_spanning_tree(columns):
    names = list("abcd")[:columns]
    done = run_generator(MSTConfig, chain(50)[names], SCHEMA.select(names), eps=0.5)
    tree = done.statement.notes["tree"]
    assert len(tree) == columns - 1
    component = {name: {name} for name in names}
    for a, b in tree:
        assert component[a] is not component[b], "no loop"
        merged = component[a] | component[b]
        component.update(dict.fromkeys(merged, merged))


def test_a_third_of_the_budget_chooses_the_tree():
    rho = Budget(eps=1.0).gaussian
    paid = run_generator(MSTConfig, chain(200), SCHEMA).statement.payments
    edges = [p for p in paid if p["purpose"] == "tree edge"]
    assert [p["eps"] for p in edges] == [Budget(eps=1.0).selection_eps(rho / 9)] * 3
    for purpose, share in MSTConfig().configure(SCHEMA, Budget(eps=1.0)).plan.split.items():
        names = {"select": "tree edge", "measure": "tree"}
        spent = sum(p["mu"] ** 2 / 2 for p in paid if p["purpose"] == names.get(purpose, purpose))
        assert spent == pytest.approx(share, rel=1e-6)
