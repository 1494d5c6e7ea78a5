"""PrivBayes against brute force: scores, candidates, choices, conditional tables, rows, charges."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from marginalsyn.access.rows import RowBatch
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.generators.dependence import Dependence, levels
from marginalsyn.generators.privbayes import PrivBayesConfig, shrink_departures
from marginalsyn.graphical.bayes_net import BayesNet, Node, Parent
from marginalsyn.plugins.audit.testkit.generators import run_generator
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import GDP, Neighbours, Pure
from marginalsyn.privacy.composition import compose
from marginalsyn.release.sampling import draw
from marginalsyn.table.schema import Schema

SIZES = (2, 3, 4)
LEVELS = [[np.arange(2)], [np.arange(3)], [np.arange(4), np.array([0, 0, 1, 1])]]
SHARES = [np.array([0.9, 0.1]), np.array([0.2, 0.8, 0.0]), np.array([0.1, 0.2, 0.3, 0.4])]


# As scores take them: rounded down to multiples of 2^-20.
DOWN = [np.floor(share * 2**20) / 2**20 for share in SHARES]


class Rows:
    """As much of a visit as a score needs."""

    persons = False

    def __init__(self, codes):
        self.codes = np.asarray(codes, dtype=np.int32).reshape(-1, len(SIZES))

    def batches(self, *, weighted):
        assert weighted
        for start in range(0, len(self.codes), 7):
            yield RowBatch(self.codes[start : start + 7])


def brute_score(codes, parents, column):
    """The score by its definition, one cell after the other."""
    total = 0.0
    seen = [tuple(int(LEVELS[c][lv][row[c]]) for c, lv in parents) for row in codes]
    for p in set(seen):
        here = [row[column] for row, key in zip(codes, seen, strict=True) if key == p]
        for x in range(SIZES[column]):
            total += abs(here.count(x) - DOWN[column][x] * len(here))
    return total / 2


QUESTIONS = {(): [0, 1, 2], ((0, 0),): [1, 2], ((0, 0), (2, 1)): [1], ((1, 0), (2, 0)): [0]}


def random_rows(rng, n):
    return [tuple(int(rng.integers(s)) for s in SIZES) for _ in range(n)]


def test_scores_are_those_of_the_definition():
    codes = random_rows(np.random.default_rng(0), 40)
    scores = Dependence(SHARES, LEVELS).scores(Rows(codes), QUESTIONS)
    assert len(scores) == 7
    for (parents, column), score in scores.items():
        assert score == brute_score(codes, parents, column)  # to the last bit, in any order


def test_one_row_moves_no_score_by_more_than_its_sensitivity():
    rng, dependence = np.random.default_rng(1), Dependence(SHARES, LEVELS)
    worst = dict.fromkeys(Neighbours, 0.0)
    for _ in range(300):
        rows = random_rows(rng, int(rng.integers(0, 9)))
        old, new = random_rows(rng, 2)
        before = dependence.scores(Rows([*rows, old]), QUESTIONS)
        for relation, other in (
            (Neighbours.ADD_REMOVE, rows),
            (Neighbours.REPLACE, [*rows, new]),
        ):
            after = dependence.scores(Rows(other), QUESTIONS)
            moved = max(abs(after[key] - score) for key, score in before.items())
            worst[relation] = max(worst[relation], moved)
    # A code that no row was estimated to have attains the bound of an added row.
    assert 1 - 2.0**-20 < worst[Neighbours.ADD_REMOVE] <= Neighbours.ADD_REMOVE.l1
    assert 1.0 < worst[Neighbours.REPLACE] <= Neighbours.REPLACE.l1


def test_levels_grow_coarser_and_keep_neighbours_together():
    counts = np.array([1.0, 2, 3, 50, 10, 10, 4, 20])
    found = levels(counts, ordered=True)
    sizes = [int(groups.max()) + 1 for groups in found]
    assert sizes[0] == 8
    assert sizes == sorted(set(sizes), reverse=True)
    assert min(sizes) >= 2
    for groups in found:
        assert (np.diff(groups) >= 0).all()
    assert len(levels(np.ones(1), ordered=True)) == 1


def table(rows=4000, seed=0):
    """a, then b and c that follow it, then d that needs both b and c."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, rows)
    b = np.where(rng.random(rows) < 0.8, a, rng.integers(0, 3, rows))
    c = np.where(rng.random(rows) < 0.7, a == 0, rng.random(rows) < 0.5).astype(int)
    d = np.where(rng.random(rows) < 0.9, (b + c) % 2, rng.integers(0, 2, rows))
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": d})


SCHEMA = Schema.from_domain({"a": 3, "b": 3, "c": 2, "d": 2}).model_copy(update={"label": "a"})


def network(run):
    names = SCHEMA.names
    sizes = list(SCHEMA.domain.values())
    model = run.synthesis.model
    return {
        n.column: n for n in BayesNet.read(model.meta["network"], model.arrays, sizes).nodes
    }, names


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_without_noise_the_tables_are_normalised_counts(noise):
    frame = table()
    run = run_generator(
        PrivBayesConfig, frame, SCHEMA, options={"noise": noise, "merge": 0}, eps=900
    )
    nodes, names = network(run)
    assert list(run.statement.notes["network"][0]["parents"]) == []
    assert run.statement.notes["network"][0]["column"] == "a", "the label is the root"
    parents = {e["column"]: set(e["parents"]) for e in run.statement.notes["network"]}
    assert parents["d"] == {"a", "b", "c"}
    codes = frame.to_numpy().T
    for column, node in nodes.items():
        keys = node.keys(codes)
        for key in np.unique(keys):
            rows = codes[column][keys == key]
            if len(rows) >= 20:
                true = np.bincount(rows, minlength=node.table.shape[1]) / len(rows)
                assert np.abs(node.table[key] - true).max() < 3 / len(rows) + 0.01
    assert names == ["a", "b", "c", "d"]


def test_rows_follow_the_product_of_the_tables():
    rng = np.random.default_rng(5)
    groups = np.array([0, 1, 1])
    nodes = (
        Node(1, (), np.array([[0.2, 0.5, 0.3]])),
        Node(0, (Parent(1, groups),), np.array([[0.9, 0.1], [0.4, 0.6]])),
        Node(2, (Parent(0, np.arange(2)), Parent(1, np.arange(3))), rng.dirichlet([1, 1], 6)),
    )
    exact = np.zeros((2, 3, 2))
    for x0, x1, x2 in np.ndindex(exact.shape):
        p0, p2 = nodes[1].table[groups[x1], x0], nodes[2].table[3 * x0 + x1, x2]
        exact[x0, x1, x2] = nodes[0].table[0, x1] * p0 * p2
    n, net = 60_000, BayesNet(nodes)
    rows = net.rows(n, rng)
    drawn = np.zeros(exact.shape)
    np.add.at(drawn, tuple(rows.T), 1)
    assert np.abs(drawn / n - exact).max() < 5 * math.sqrt(0.25 / n)
    # One row alone follows the same law: nothing of it hangs on how many are drawn.
    single = np.zeros(exact.shape)
    for _ in range(3000):
        single[tuple(net.rows(1, rng)[0])] += 1
    assert np.abs(single / 3000 - exact).max() < 6 * math.sqrt(0.25 / 3000)
    # In random order: the first rows are like the last.
    assert abs(rows[: n // 2, 1].mean() - rows[n // 2 :, 1].mean()) < 0.03


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_ledger_holds_exactly_the_budget_and_payments_use_it_up(noise, neighbours):
    run = run_generator(
        PrivBayesConfig,
        table(300),
        SCHEMA,
        options={"noise": noise},
        eps=1.5,
        neighbours=neighbours,
    )
    budget = Budget(eps=1.5, neighbours=neighbours)
    (charge,) = run.ledger.read().charges
    total = compose([charge], budget.delta, neighbours)
    paid = run.statement.payments
    if noise == "laplace":
        assert charge.cost == Pure(eps=1.5)
        assert (total.eps, total.delta) == (1.5, 0)
        assert math.fsum(p["eps"] for p in paid) == pytest.approx(1.5, rel=1e-9)
    else:
        assert charge.cost == GDP(mu=budget.mu)
        assert math.fsum(p["mu"] ** 2 / 2 for p in paid) == pytest.approx(budget.gaussian, rel=1e-9)
    assert [p["purpose"] for p in paid].count("parents") == 3
    assert len(run.synthesis.measurements) == 8
    shares = PrivBayesConfig(noise=noise).configure(SCHEMA, budget).shares
    assert math.fsum(shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_tables_carry_the_declared_noise(noise):
    frame = table(2000)
    residuals = []
    for seed in range(6):
        run = run_generator(
            PrivBayesConfig, frame, SCHEMA, options={"noise": noise, "merge": 0}, eps=20, seed=seed
        )
        for m in run.synthesis.measurements:
            exact = np.zeros(m.values.shape)
            if exact.shape == tuple(SCHEMA.domain[c] for c in m.columns):
                np.add.at(exact, tuple(frame[c] for c in m.columns), 1)
                residuals.append(((m.values - exact) / m.sigma).ravel())
    z = np.concatenate(residuals)
    assert z.size > 300
    assert 0.8 < z.std() < 1.2


def test_theta_bounds_the_cells_of_every_table():
    frame = table(500)
    for theta in (0.5, 4.0, 30.0):
        config = PrivBayesConfig(theta=theta)
        run = run_generator(PrivBayesConfig, frame, SCHEMA, options={"theta": theta, "merge": 0})
        limit = config.configure(SCHEMA, Budget(eps=1.0)).limit(
            run.statement.notes["estimated_rows"] + 1
        )
        for m in run.synthesis.measurements:
            assert len(m.columns) == 1 or m.values.size <= limit
    assert all(not e["parents"] for e in run.statement.notes["network"]), "30 is out of reach"


def test_noise_is_pulled_out_of_departures():
    rng = np.random.default_rng(0)
    truth = np.zeros((2000, 6))
    truth[:1000, 0] = 30.0
    noisy = truth + rng.normal(0, 3, truth.shape)
    shrunken = shrink_departures(noisy, 3.0)
    assert np.square(shrunken - truth).sum() < 0.7 * np.square(noisy - truth).sum()
    assert np.abs(shrink_departures(truth[:1], 1e-9) - truth[:1]).max() < 1e-6


@pytest.mark.parametrize(
    "damage",
    [
        lambda meta, arrays: arrays.pop("table0"),
        lambda meta, arrays: arrays.update(table1=arrays["table1"] * 2),
        lambda meta, arrays: arrays.update(table1=arrays["table1"] * np.nan),
        lambda meta, arrays: arrays.update(table0=np.array([["a"]])),
        lambda meta, arrays: meta["network"].reverse(),
        lambda meta, arrays: meta["network"].pop(),
        lambda meta, arrays: meta["network"][1].update(column=99),
        lambda meta, arrays: meta.update(network=7),
        lambda meta, arrays: meta.update(rows="many"),
        lambda meta, arrays: meta["network"].append({"column": 0, "parents": []}),
    ],
)
def test_a_damaged_model_is_refused(damage):
    run = run_generator(PrivBayesConfig, table(), SCHEMA, options={"merge": 0}, eps=100)
    model = run.synthesis.model
    assert any(entry["parents"] for entry in model.meta["network"])
    damage(model.meta, model.arrays)
    with pytest.raises(ReleaseError, match="model"):
        draw(model, SCHEMA, 10, np.random.default_rng(0))


@pytest.mark.parametrize(
    "options", [{"noise": "none"}, {"theta": 0}, {"parents": -1}, {"candidates": 0}], ids=str
)
def test_knobs_out_of_range_are_refused(options):
    with pytest.raises(UsageError, match="must be"):
        PrivBayesConfig(**options)
