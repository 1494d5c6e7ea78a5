"""Errors of models on many marginals: equal to brute force however they are cut into chunks."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import Measurement
from marginalsyn.generators import candidate_errors
from marginalsyn.generators.aim import AIMConfig
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.one_way import noise_l1
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import ZCDP, Charge, Neighbours
from marginalsyn.privacy.noise import SeededNoise, make_noise
from marginalsyn.privacy.selection import ExponentialMechanism, _on_grid
from marginalsyn.table.schema import Schema

DOMAIN = {"a": 4, "b": 3, "c": 5, "d": 2}
CODES = np.random.default_rng(0).integers(0, list(DOMAIN.values()), (300, 4))
QUERIES = [q for k in (1, 2, 3) for q in itertools.combinations(DOMAIN, k)]


def model(seed):
    values = np.random.default_rng(seed).gamma(1.0, 10.0, (4, 3))
    return pgm.fit(DOMAIN, [Measurement(("a", "b"), values, 1.0)], total=300)


def counts(q):
    table = np.zeros([DOMAIN[c] for c in q])
    np.add.at(table, tuple(CODES[:, list(DOMAIN).index(c)] for c in q), 1)
    return table


@pytest.mark.parametrize(("kept", "chunk"), [(10**6, 10**6), (40, 10**6), (0, 30), (100, 1)])
def test_errors_equal_brute_force(kept, chunk, monkeypatch):
    monkeypatch.setattr(candidate_errors, "KEPT_CELLS", kept)
    monkeypatch.setattr(candidate_errors, "CHUNK_CELLS", chunk)
    table = PrivateTable.open(pd.DataFrame(CODES, columns=list(DOMAIN)), Schema.from_domain(DOMAIN))
    first, second = model(1), model(2)
    charge = Charge(mechanism="test", cost=ZCDP(rho=1.0))
    with table.charge([charge], noise=make_noise(0), delta=1e-9) as visit:
        truth = candidate_errors.CandidateErrors(visit, QUERIES, DOMAIN)
        for queries in (QUERIES, QUERIES[::-2]):
            expected = [np.abs(counts(q) - first.marginal(q)).sum() for q in queries]
            np.testing.assert_allclose(truth.errors(first, queries), expected)
            whole = truth.errors(first, queries, whole=True)
            rounded = [np.abs(counts(q) - np.rint(first.marginal(q))).sum() for q in queries]
            np.testing.assert_array_equal(whole, rounded)
            apart = [np.abs(first.marginal(q) - second.marginal(q)).sum() for q in queries]
            np.testing.assert_allclose(list(truth.moves(first, second, queries).values()), apart)
        chunks = list(truth.chunks(QUERIES))
    assert [q for c in chunks for q in c] == QUERIES
    assert all(len(c) == 1 or sum(map(truth.cells, c)) <= chunk for c in chunks)


CELLS = (1000, 1000)


class Wide:
    """A visit and a model of two columns with a million cells."""

    def __init__(self, seed: int, rows: int) -> None:
        rng = np.random.default_rng(seed)
        self.answers = {("a", "b"): rng.gamma(0.01, rows / 1e4, CELLS)}
        self.answers["a",] = rng.gamma(1.0, rows / 1000, CELLS[0])
        self.table = rng.multinomial(rows, np.full(10**6, 1e-6)).reshape(CELLS)

    def marginals(self, queries):
        return {q: self.answers[q].copy() for q in queries}

    def counts_many(self, queries):
        every = {("a", "b"): self.table, ("a",): self.table.sum(axis=1)}
        return {q: every[q] for q in queries}


def test_scores_of_a_million_cells_keep_within_their_allowance():
    """At eps 0.01 on a million cells: moved by a row, exact scores move by no more than its l1."""
    queries, weights = [("a",), ("a", "b")], np.array([1.0, 2.0])
    sigma, eps = 30_000.0, 0.01
    baselines = np.array([noise_l1(sigma, 1000), noise_l1(sigma, 10**6)])
    wide, floats, wholes = Wide(0, 100_000), [], []
    places = [tuple(p) for p in np.random.default_rng(1).integers(0, 1000, (12, 2))]
    for place in [None, *places]:
        if place:
            wide.table[place] += 1
        truth = candidate_errors.CandidateErrors(wide, queries, {"a": 1000, "b": 1000})
        errors = truth.errors(wide, queries)
        # Exact: the same in any order, and by whole-number arithmetic.
        scaled = [np.rint(wide.answers[q] * 2**20).astype(np.int64) for q in queries]
        found = wide.counts_many(queries)
        exact = [
            int(np.abs(s - (found[q] << 20)).sum()) for s, q in zip(scaled, queries, strict=True)
        ]
        assert [int(e * 2**20) for e in errors] == exact
        scores, unit = candidate_errors.whole_scores(weights, errors, baselines)
        # 2^20 of errors and 2^60 of weights over the largest.
        offsets = [round(Fraction(b) * 2**20) for b in baselines]
        assert list(scores) == [
            2**59 * int(w) * (e - b) for w, e, b in zip(weights, exact, offsets, strict=True)
        ]
        assert unit == 2.0**80
        wholes.append(scores)
        plain = [np.abs(wide.answers[q] - found[q]).sum() for q in queries]
        floats.append(weights * (np.array(plain) - baselines))
        if place:
            wide.table[place] -= 1
    for moved in wholes[1:]:
        assert max(abs(int(v)) for v in moved - wholes[0]) <= unit
        (here, rate), (there, _) = (_on_grid(s, eps, unit) for s in (wholes[0], moved))
        ratios = [rate * (a - b) for a, b in zip(here, there, strict=True)]
        assert max(ratios) - min(ratios) <= Fraction(eps)
    # Sums of floats would not do: the difference of two large numbers is off by more than half the
    # grid's step, a quarter of a millionth of the sensitivity at least.
    grid = 2.0**-20 * 2.0
    off = [
        abs(Fraction(f) - Fraction(int(w), int(unit)) * 2)
        for fs, ws in zip(floats, wholes, strict=True)
        for f, w in zip(fs - floats[0], ws - wholes[0], strict=True)
    ]
    assert max(off) > grid / 2


def test_aim_hands_over_whole_scores():
    asked = []

    class Listening(SeededNoise):
        def draw(self, law, values):
            if isinstance(law, ExponentialMechanism):
                asked.append((values, law.sensitivity))
            return super().draw(law, values)

    schema = Schema.from_domain({"a": 30, "b": 40})
    frame = pd.DataFrame({"a": np.arange(300) % 30, "b": np.arange(300) % 37})
    for neighbours in Neighbours:
        table, budget = PrivateTable.open(frame, schema), Budget(eps=0.01, neighbours=neighbours)
        config = AIMConfig(rounds=2, merge=0.0, rows=5)
        generate(table, config, budget, noise=Listening(1))
    assert len(asked) == 4
    for scores, _ in asked:
        assert all(isinstance(v, int) for v in scores)
    # A row moves an error by 1, or by 2 where it is replaced.
    assert (
        asked[-1][1]
        == 2 * asked[0][1]
        == 2.0 ** (1 + candidate_errors.FRACTION_BITS + candidate_errors.WEIGHT_BITS)
    )


def test_a_model_of_billions_is_rounded_to_whole_numbers():
    wide = Wide(2, 1000)
    wide.answers["a",] = np.full(1000, 2.0**23 + 0.25)
    (error,) = candidate_errors.CandidateErrors(wide, [("a",)], {"a": 1000}).errors(wide, [("a",)])
    assert error == np.abs(2**23 - wide.table.sum(axis=1)).sum()
