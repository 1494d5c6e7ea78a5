"""Batches: what may be chosen together, what is paid for it, and that scores keep their bound."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import Measurement
from marginalsyn.generators import candidate_errors, clique_tree
from marginalsyn.generators.aim import AIMConfig
from marginalsyn.generators.batch_selection import Batch, Chooser
from marginalsyn.generators.clique_tree import CliqueTreeConfig
from marginalsyn.graphical import model as pgm
from marginalsyn.operations.generate import Generate
from marginalsyn.plugins.audit.testkit.generators import run_generator
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import ZCDP, Charge, Neighbours
from marginalsyn.privacy.noise import make_noise
from marginalsyn.privacy.selection import _on_grid
from marginalsyn.table.schema import Schema

DOMAIN = dict(zip("abcdefgh", (3, 2, 4, 2, 3, 2, 2, 3), strict=True))
PAIRS = list(itertools.combinations(DOMAIN, 2))


def chains(columns=50, rows=3000, seed=0):
    """Chains of five columns each, strongly related."""
    rng = np.random.default_rng(seed)
    table = {}
    for j in range(columns):
        fresh = rng.integers(0, 3, rows)
        before = table.get(f"c{j - 1}")
        keep = rng.random(rows) < 0.85
        table[f"c{j}"] = fresh if j % 5 == 0 else np.where(keep, before, fresh)
    return pd.DataFrame(table), Schema.from_domain(dict.fromkeys(table, 3))


def test_a_batch_joins_no_two_parts_twice():
    cliques = [("a", "b"), ("b", "c"), ("d", "e"), ("f",), ("g",), ("h",)]
    batch = Batch(PAIRS, cliques, DOMAIN, 1.0)
    batch.take(PAIRS.index(("a", "d")))
    left = {PAIRS[i] for i in batch.open}
    assert not left & set(itertools.product("abc", "de"))
    assert {("a", "f"), ("d", "f"), ("a", "c"), ("f", "g")} <= left
    batch.take(PAIRS.index(("a", "f")))
    left = {PAIRS[i] for i in batch.open}
    assert ("d", "f") not in left, "it would close a ring over two new pairs"
    batch.take(PAIRS.index(("a", "c")))
    assert ("a", "b") not in {PAIRS[i] for i in batch.open}, "the way from a to c goes by it"


@pytest.mark.parametrize("batch", [3, 7])
def test_a_run_by_batches_pays_its_plan_and_finds_what_is_related(batch):
    frame, schema = chains()
    options = {"batch": batch, "merge": 0, "rounds": 60}
    done = run_generator(AIMConfig, frame, schema, options=options, eps=8.0)
    paid = [p for p in done.statement.payments if p["purpose"] == "round"]
    picks = [p for p in paid if p["mechanism"] == "exponential"]
    assert len(picks) == len(paid) - len(picks) == len(done.statement.notes["rounds"])
    rho = Budget(eps=8.0).gaussian
    spent = sum(p["mu"] ** 2 / 2 for p in done.statement.payments)
    assert spent == pytest.approx(rho, rel=1e-9)
    assert spent <= rho * (1 + 1e-12)
    chosen = {tuple(step["columns"]) for step in done.statement.notes["rounds"]}
    true = {(f"c{j}", f"c{j + 1}") for j in range(49) if j % 5 != 4}
    assert len(true & chosen) >= 0.9 * len(true)
    for step in done.statement.notes["bounds"]["marginals"]:
        assert step["l1"] > 0


def test_clique_tree_takes_many_columns(monkeypatch):
    monkeypatch.setattr(clique_tree, "NARROW", 5)
    frame, schema = chains(columns=15)
    done = run_generator(CliqueTreeConfig, frame, schema, options={"merge": 0}, eps=4.0)
    measured = {tuple(q) for q in done.statement.notes["measured"]}
    true = {(f"c{j}", f"c{j + 1}") for j in range(14) if j % 5 != 4}
    assert len(true & measured) >= 0.9 * len(true)


def test_errors_of_many_pairs_are_exact_and_move_by_one_with_a_row():
    frame, schema = chains()
    domain = schema.domain
    queries = [*((c,) for c in domain), *itertools.combinations(domain, 2)]
    rng = np.random.default_rng(3)
    model = pgm.fit(
        domain,
        [
            Measurement((f"c{j}", f"c{j + 7}"), rng.gamma(1.0, 333.0, (3, 3)), 1.0)
            for j in range(20)
        ],
        total=3000,
    )
    more = pd.concat([frame, frame.iloc[:1].map(lambda _: 2)], ignore_index=True)
    charge = Charge(mechanism="test", cost=ZCDP(rho=1.0))
    exact, plain = [], []
    weights = rng.uniform(0.3, 1.0, len(queries))
    for rows in (frame, more):
        door = PrivateTable.open(rows, schema)
        with door.charge([charge], noise=make_noise(0), delta=1e-9) as visit:
            truth = candidate_errors.CandidateErrors(visit, queries, domain)
            assert truth._pairs is not None
            exact.append(truth.errors(model, queries))
            whole = truth.errors(model, queries, whole=True)
            plain.append(candidate_errors.plain_scores(weights, whole, np.full(len(queries), 9.7)))
            if rows is frame:
                for q in queries[::37]:
                    counts = visit.counts(q)
                    np.testing.assert_allclose(
                        exact[0][queries.index(q)], np.abs(counts - model.marginal(q)).sum()
                    )
    moved = exact[1] - exact[0]
    assert np.abs(moved).max() <= 1, "answers are rounded, so sums are exact"
    (before, unit), (after, _) = plain
    assert before.dtype == np.int64
    assert np.abs(after - before).max() <= unit
    # The grid of the exponential mechanism is the same for 64 bits and for Python's integers.
    for scores in (before, after, -before):
        (here, rate), (there, same) = (
            _on_grid(s, 0.1, unit) for s in (scores, scores.astype(object))
        )
        assert rate == same
        assert here.tolist() == there.tolist()
    gaps = [
        rate * int(b - a)
        for a, b in zip(*(_on_grid(s, 0.1, unit)[0] for s in (before, after)), strict=True)
    ]
    assert max(gaps) - min(gaps) <= Fraction(0.1)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_every_choice_of_a_batch_is_drawn_at_its_own_price(neighbours):
    """One row more moves the scores of each draw by what it says they move, and no further."""
    frame, schema = chains()
    moved = frame.iloc[:1].map(lambda _: 2)
    other = pd.concat([frame.iloc[1:], moved], ignore_index=True)
    if neighbours is Neighbours.ADD_REMOVE:
        other = pd.concat([frame, moved], ignore_index=True)
    domain, asked = schema.domain, []
    candidates = {q: 2.0 - (q[0] == "c7") for q in itertools.combinations(domain, 2)}
    model = pgm.fit(domain, [Measurement(("c0", "c9"), np.full((3, 3), 333.0), 1.0)], total=3000)
    charge = Charge(mechanism="test", cost=ZCDP(rho=1.0), neighbours=neighbours)
    for rows in (frame, other):
        door = PrivateTable.open(rows, schema)
        with door.charge([charge], noise=make_noise(0), delta=1e-9) as visit:

            def draw(law, scores, *, purpose):
                asked.append((scores, law.eps, law.sensitivity))
                return 100  # the same on both tables, so that what is left is the same

            visit.draw = draw
            found = Chooser(visit, visit, candidates, domain).several(model, 1.0, 5.0, 0.25, 4)
            assert len(found.columns) == 4
    for (here, eps, least), (there, same, _) in zip(asked[:4], asked[4:], strict=True):
        assert eps == same == 0.25
        assert 0.5 * least < np.abs(there - here).max() <= least


def test_the_plan_of_many_columns_tells_time_and_memory_and_advises():
    few, many = (Schema.from_domain({f"c{i}": 4 for i in range(n)}) for n in (10, 60))
    budget = Budget(eps=1)

    def plan(config, schema):
        return config.configure(schema, budget).plan

    told = [plan(AIMConfig(rows=n), many).facts for n in (1000, 10**6)]
    assert told[0]["predicted seconds"] < told[1]["predicted seconds"]
    assert told[0]["predicted MB"] < told[1]["predicted MB"]
    assert told[1]["predicted for"].startswith("1,000,000 rows")
    assert "predicted seconds" not in plan(AIMConfig(), few).facts
    for slow in (CliqueTreeConfig(), AIMConfig(degree=3)):
        assert "choose pairs by batches" in plan(slow, many).warnings[0]
        assert not plan(slow, few).warnings
    assert not plan(AIMConfig(), many).warnings


@pytest.mark.parametrize(("name", "taken"), [("adult", 3.7), ("telco", 4.8)])
def test_the_seconds_of_a_chain_are_forecast_within_a_factor_of_two(name, taken):
    """As measured by benchmarks/chain_seconds.py."""
    facts = Generate(dataset=name, eps=2).plan().json["facts"]
    said = next(value for fact, value in facts.items() if "chain" in fact)
    assert taken / 2 <= float(re.search(r"[\d.]+", said)[0]) <= 2 * taken
