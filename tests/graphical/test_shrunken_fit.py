"""The pulled fit: its optimum against brute force, its strengths, and what they are good for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from marginalsyn.contract import Measurement
from marginalsyn.graphical.model import Fitted, fit
from marginalsyn.graphical.shrunken_fit import (
    COLUMN_STRENGTH,
    column_counts,
    find_strengths,
    take_off_means,
)
from marginalsyn.graphical.targets import FitTarget, Layout, merge

DOMAIN = {"a": 2, "b": 3, "c": 2}


def answers(sigma, seed=0, rows=300, related=True):
    """Noisy single columns and two pairs of a table whose columns are related, or not."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(12, 1.0 if related else 1e6)).reshape(2, 3, 2) * rows
    found = []
    for columns in (("a",), ("b",), ("c",), ("a", "b"), ("b", "c")):
        axes = tuple(i for i, c in enumerate("abc") if c not in columns)
        values = table.sum(axis=axes)
        found.append(Measurement(columns, values + rng.normal(0, sigma, values.shape), sigma))
    return found


@pytest.mark.parametrize("strengths", [(0.5, 0.5), (0.02, 3.0)])
def test_the_fit_is_the_optimum_that_brute_force_finds(strengths):
    measured, total = answers(8.0), 300.0
    shrinkage = dict(zip((("a", "b"), ("b", "c")), strengths, strict=True))
    model = fit(DOMAIN, measured, total=total, shrinkage=shrinkage, tolerance=1e-9, max_iters=5000)
    layout = Layout(DOMAIN)
    targets, _ = merge(layout, measured)
    columns = column_counts(layout.sizes, targets, total)
    base = np.einsum("i,j,k->ijk", *(c.values / total for c in columns))

    def loss(logs):
        p = np.exp(logs - logs.max()).reshape(2, 3, 2)
        p /= p.sum()
        value = total * float((p * np.log(p / base)).sum())
        for v, c in enumerate(columns):
            mu = total * p.sum(axis=tuple(i for i in range(3) if i != v))
            value += float((c.weight * (mu - c.values) ** 2).sum()) / (2 * COLUMN_STRENGTH)
        for scope, other in (((0, 1), 2), ((1, 2), 0)):
            rest = take_off_means(total * p.sum(axis=other) - targets[scope].values)
            value += float((rest**2).sum()) / (2 * shrinkage[layout.named(scope)] * 64.0)
        return value

    best = minimize(loss, np.log(base).ravel(), method="BFGS", options={"gtol": 1e-7})
    own = np.log(model.marginal(("a", "b", "c"))).ravel()
    assert loss(own) <= best.fun + 1e-4
    expected = np.exp(best.x - best.x.max())
    expected *= total / expected.sum()
    assert np.allclose(model.marginal(("a", "b", "c")).ravel(), expected, atol=0.05)


def test_a_pulled_fit_is_nearer_the_truth_than_the_likelihoods_where_noise_is_large():
    gains = []
    for seed in range(12):
        truth = answers(1e-9, seed=seed, related=seed % 2 > 0)
        noisy = answers(25.0, seed=seed, related=seed % 2 > 0)
        errors = []
        for shrinkage in (False, True):
            model = fit(DOMAIN, noisy, total=300.0, shrinkage=shrinkage)
            errors.append(
                sum(np.abs(model.marginal(m.columns) - m.values).sum() for m in truth[3:])
            )
        gains.append(errors[0] - errors[1])
    assert np.mean(gains) > 0
    assert np.median(gains) >= 0


def test_the_same_answers_and_strengths_give_the_same_model_again():
    measured = answers(10.0)
    first = fit(DOMAIN, measured, total=300.0, shrinkage=True)
    again = fit(DOMAIN, measured, total=300.0, shrinkage=first.shrinkage)
    assert set(first.shrinkage) == {("a", "b"), ("b", "c")}
    assert np.array_equal(first.marginal(("a", "b", "c")), again.marginal(("a", "b", "c")))
    arrays, meta = first.arrays()
    stored = Fitted.from_arrays(arrays, meta)
    assert stored.shrinkage == first.shrinkage
    assert np.allclose(stored.marginal(("a", "c")), first.marginal(("a", "c")))


def test_columns_that_nothing_measured_stay_uniform_and_zeros_stay_empty():
    impossible = np.zeros((2, 3), bool)
    impossible[0, 1] = True
    model = fit(
        {**DOMAIN, "d": 4},
        answers(5.0),
        total=300.0,
        shrinkage=True,
        zeros=[(("a", "b"), impossible)],
    )
    assert np.allclose(model.marginal(("d",)), 75)
    assert model.marginal(("a", "b"))[0, 1] == 0
    assert model.marginal(()) == pytest.approx(300)


def test_unlucky_noise_does_not_make_every_column_tell_the_label():
    """Twenty pairs that noise drowns: what is kept of them is a small share of the answers."""
    rng = np.random.default_rng(3)
    sizes, total, sigma = [4] * 20 + [2], 700.0, 106.0
    measured = {
        (v, 20): FitTarget(
            total / 8 + 1.3 * rng.normal(0, sigma, (4, 2)), np.full((4, 2), sigma**-2)
        )
        for v in range(20)
    }
    found = find_strengths(measured, column_counts(sizes, measured, total), total)
    kept = [87.5 / (87.5 + k * sigma**2) for k in found.values()]
    assert max(kept) < 0.3
