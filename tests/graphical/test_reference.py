"""A fit to a reference: its optimum by brute force, and what becomes of a wrong reference."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from marginalsyn.contract import Measurement
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.compression import identity
from marginalsyn.graphical.model import fit
from marginalsyn.graphical.reference import CodedReference, ReferenceModel
from marginalsyn.graphical.shrunken_fit import (
    COLUMN_STRENGTH,
    Prior,
    column_counts,
    settle_to,
    take_off_means,
)
from marginalsyn.graphical.targets import Layout, merge

DOMAIN = {"a": 2, "b": 3, "c": 2}
TOTAL, SIGMA = 300.0, 8.0
PAIRS = {("a", "b"): (0, 1), ("b", "c"): (1, 2)}


def table(seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(12)).reshape(2, 3, 2) * TOTAL


def without(axes, kept):
    return tuple(i for i in range(axes) if i not in kept)


def answers(truth, sigma=SIGMA, columns=("a", "b", "c", "ab", "bc"), seed=1):
    rng = np.random.default_rng(seed)
    found = []
    for names in map(tuple, columns):
        values = truth.sum(axis=without(3, ["abc".index(c) for c in names]))
        found.append(Measurement(names, values + rng.normal(0, sigma, values.shape), sigma))
    return found


def rows_of(truth, rows, seed=2):
    cells = np.random.default_rng(seed).choice(12, rows, p=truth.ravel() / truth.sum())
    codes = np.stack(np.unravel_index(cells, (2, 3, 2)), axis=1)
    return CodedReference(tuple("abc"), codes, (2, 3, 2), float(rows))


def prior_of(truth, rows=200):
    return ReferenceModel([rows_of(truth, rows)], identity(DOMAIN), (), TOTAL).prior((), 1.0)


def optimum(loss):
    """The table that minimises a loss, from its logs, by brute force."""

    def counts(logs):
        found = np.exp(logs - logs.max()).reshape(2, 3, 2)
        return found / found.sum()

    best = minimize(lambda logs: loss(counts(logs)), np.zeros(12), options={"gtol": 1e-7})
    return counts(best.x)


@pytest.mark.parametrize("strengths", [(0.5, 0.5), (0.02, 3.0)])
def test_the_fit_to_a_reference_is_the_optimum_that_brute_force_finds(strengths):
    truth = table()
    measured, prior = answers(truth), prior_of(truth)
    assert {q for q in prior.logs if len(q) > 1} >= {*PAIRS.values()}
    shrinkage = dict(zip(PAIRS, strengths, strict=True))
    model = fit(
        DOMAIN,
        measured,
        total=TOTAL,
        shrinkage=shrinkage,
        prior=prior,
        tolerance=1e-9,
        max_iters=5000,
    )
    assert min(model.leaned[q] for q in PAIRS) > 0
    layout = Layout(DOMAIN)
    targets, _ = merge(layout, measured)
    columns = column_counts(layout.sizes, targets, TOTAL, prior)
    logs = sum(
        each.reshape([size if v in q else 1 for v, size in enumerate((2, 3, 2))])
        for q, each in prior.logs.items()
    )
    reference = np.exp(logs - logs.max())
    reference /= reference.sum()

    def to_columns(p, base):
        value = TOTAL * float((p * np.log(p / base)).sum())
        for v, c in enumerate(columns):
            rest = TOTAL * p.sum(axis=without(3, [v])) - c.values
            value += float((c.weight * rest**2).sum()) / (2 * COLUMN_STRENGTH)
        return value

    moved = optimum(lambda p: to_columns(p, reference))

    def loss(p):
        value = to_columns(p, moved)
        for columns, scope in PAIRS.items():
            rest = TOTAL * p.sum(axis=without(3, scope)) - targets[scope].values
            square = float((take_off_means(rest) ** 2).sum())
            value += square / (2 * shrinkage[columns] * SIGMA**2)
        return value

    own = model.marginal(("a", "b", "c")) / TOTAL
    best = optimum(loss)
    assert loss(own) <= loss(best) + 1e-3
    assert np.allclose(own * TOTAL, best * TOTAL, atol=0.1)


def test_columns_that_answers_refute_are_trusted_in_none_of_them():
    """Two columns are plainly others; the third is drowned in noise and believes them."""
    clear, total = np.array([800.0, 150.0, 50.0]), 1000.0
    right, wrong = clear / total, clear[::-1] / total

    def settled(shares):
        known = {v: (clear, np.full(3, 10.0**-2)) for v in range(2)}
        known[2] = np.array([500.0, 100.0, 400.0]), np.full(3, 600.0**-2)
        return settle_to(known, dict.fromkeys(range(3), (shares, 0.5)), total)

    good, bad = settled(right), settled(wrong)
    assert min(one.trusted for one in good.values()) > 0.8
    assert max(one.trusted for one in bad.values()) < 0.35
    assert np.abs(good[2].counts - clear).sum() < 0.5 * np.abs(bad[2].counts - clear).sum()
    # Clear answers stay what they are, whatever the reference says.
    assert np.abs(bad[0].counts - clear).max() < 15
    assert good[0].leaned < 0.3 < good[2].leaned


def test_pairs_whose_answers_refute_a_reference_are_those_of_a_fit_without_it():
    truth = np.einsum("i,j,k->ijk", [0.5, 0.5], [0.3, 0.3, 0.4], [0.5, 0.5]) * TOTAL
    crossed = np.zeros((2, 3, 2))
    crossed[0, :, 0] = crossed[1, :, 1] = truth.sum(axis=(0, 2)) / 2
    pairs = PAIRS | {("a", "c"): (0, 2)}
    measured = answers(truth, 3.0, ("a", "b", "c", *map("".join, pairs)))
    prior = prior_of(crossed)
    # What it says of a measured pair is wrong.
    assert {q for q in prior.logs if len(q) > 1} == {(0, 2)}
    leaning = fit(DOMAIN, measured, total=TOTAL, shrinkage=True, prior=prior)
    alone = fit(DOMAIN, measured, total=TOTAL, shrinkage=True, prior=Prior(prior.columns, {}))
    assert all(leaning.leaned[q] == 0 for q in pairs)
    for pair in pairs:
        assert np.allclose(leaning.marginal(pair), alone.marginal(pair), atol=1.0)


def test_what_was_not_measured_is_the_references_and_columns_are_the_answers():
    truth = table(3)
    model = fit(
        DOMAIN, answers(truth, 2.0, "abc"), total=TOTAL, shrinkage=True, prior=prior_of(truth, 5000)
    )
    for pair, scope in PAIRS.items():
        assert np.abs(model.marginal(pair) - truth.sum(axis=without(3, scope))).sum() < 30
    other = table(4)
    moved = fit(
        DOMAIN, answers(other, 0.5, "abc"), total=TOTAL, shrinkage=True, prior=prior_of(truth)
    )
    for v, name in enumerate("abc"):
        assert np.allclose(moved.marginal((name,)), other.sum(axis=without(3, [v])), atol=4)


def test_the_pairs_of_a_reference_leave_a_model_within_its_limit():
    rng, names = np.random.default_rng(0), tuple("abcdef")
    codes = rng.integers(0, 6, (500, 1)) + rng.integers(0, 6, (500, 6))
    table = CodedReference(names, codes, (11,) * 6, 500.0)
    whole = ReferenceModel([table], identity(dict.fromkeys(names, 11)), (), 500.0)
    tree = [("a", name) for name in "bcdef"]

    def pairs(cliques, limit):
        return [q for q in whole.prior(cliques, limit).logs if len(q) > 1]

    assert len(pairs((), 1.0)) > len(pairs((), 0.005)) > 0
    for limit in (0.005, 0.05):
        named = [tuple(names[v] for v in q) for q in pairs(tree, limit)]
        size = pgm.model_mb(dict.fromkeys(names, 11), [*tree, *named])
        assert size <= max(limit, pgm.model_mb(dict.fromkeys(names, 11), tree))
