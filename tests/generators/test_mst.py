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


def test_a_third_of_the_budget_chooses_the_tree():
    rho = Budget(eps=1.0).gaussian
    paid = run_generator(MSTConfig, chain(200), SCHEMA).statement.payments
    edges = [p for p in paid if p["purpose"] == "tree edge"]
    assert [p["eps"] for p in edges] == [Budget(eps=1.0).selection_eps(rho / 9)] * 3
    for purpose, share in MSTConfig().configure(SCHEMA, Budget(eps=1.0)).plan.split.items():
        names = {"select": "tree edge", "measure": "tree"}
        spent = sum(p["mu"] ** 2 / 2 for p in paid if p["purpose"] == names.get(purpose, purpose))
        assert spent == pytest.approx(share, rel=1e-6)
