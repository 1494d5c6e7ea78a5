"""Errors of models on many marginals: equal to brute force however they are cut into chunks."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from marginalsyn import judging, pgm
from marginalsyn.budget import ZCDP, Charge
from marginalsyn.noise import make_noise
from marginalsyn.pgm import Observed
from marginalsyn.private import PrivateTable
from marginalsyn.schema import Schema

DOMAIN = {"a": 4, "b": 3, "c": 5, "d": 2}
CODES = np.random.default_rng(0).integers(0, list(DOMAIN.values()), (300, 4))
QUERIES = [q for k in (1, 2, 3) for q in itertools.combinations(DOMAIN, k)]


def model(seed):
    values = np.random.default_rng(seed).gamma(1.0, 10.0, (4, 3))
    return pgm.fit(DOMAIN, [Observed(("a", "b"), values, 1.0)], total=300)


def counts(q):
    table = np.zeros([DOMAIN[c] for c in q])
    np.add.at(table, tuple(CODES[:, list(DOMAIN).index(c)] for c in q), 1)
    return table


@pytest.mark.parametrize(("kept", "chunk"), [(10**6, 10**6), (40, 10**6), (0, 30), (100, 1)])
def test_errors_equal_brute_force(kept, chunk, monkeypatch):
    monkeypatch.setattr(judging, "KEPT_CELLS", kept)
    monkeypatch.setattr(judging, "CHUNK_CELLS", chunk)
    table = PrivateTable.open(pd.DataFrame(CODES, columns=list(DOMAIN)), Schema.from_domain(DOMAIN))
    first, second = model(1), model(2)
    charge = Charge(mechanism="test", cost=ZCDP(rho=1.0))
    with table.charge([charge], noise=make_noise(0), delta=1e-9) as visit:
        judge = judging.Judge(visit, QUERIES, DOMAIN)
        for queries in (QUERIES, QUERIES[::-2]):
            expected = [np.abs(counts(q) - first.marginal(q)).sum() for q in queries]
            np.testing.assert_allclose(judge.errors(first, queries), expected)
            whole = judge.errors(first, queries, whole=True)
            rounded = [np.abs(counts(q) - np.rint(first.marginal(q))).sum() for q in queries]
            np.testing.assert_array_equal(whole, rounded)
            apart = [np.abs(first.marginal(q) - second.marginal(q)).sum() for q in queries]
            np.testing.assert_allclose(judge.moves(first, second, queries), apart)
        chunks = list(judge.chunks(QUERIES))
    assert [q for c in chunks for q in c] == QUERIES
    assert all(len(c) == 1 or sum(map(judge.cells, c)) <= chunk for c in chunks)
