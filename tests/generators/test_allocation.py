"""One round's allocation against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from marginalsyn.generators.clique_tree import cells_of_errors, choose

NAMES = [(f"q{i}",) for i in range(7)]


def total_error(split, errors, weights, cells, l2):
    """The expected weighted l1 error after a shrunken fit: what error and noise have in common."""
    total = 0.0
    for q, error in errors.items():
        rho = split.get(q, 0.0)
        noise = cells[q] * l2 / math.sqrt(math.pi * rho) if rho > 0 else math.inf
        total += weights[q] * (
            error if noise == math.inf else error * noise / math.hypot(error, noise)
        )
    return total


def problem(seed):
    rng = np.random.default_rng(seed)
    errors = {q: float(e) for q, e in zip(NAMES, rng.gamma(1, 300, 7), strict=True)}
    weights = {q: float(w) for q, w in zip(NAMES, rng.integers(1, 5, 7), strict=True)}
    cells = {q: int(n) for q, n in zip(NAMES, rng.integers(2, 200, 7), strict=True)}
    return errors, weights, cells


def best_split(rho, *problem):
    """The best split of rho over all marginals, by numerical search."""

    def shares(x):
        parts = np.exp(x - x.max())
        return dict(zip(NAMES, rho * parts / parts.sum(), strict=True))

    def error(x):
        return total_error(shares(x), *problem)

    found = [
        minimize(error, start, method="BFGS", options={"gtol": 1e-9})
        for start in np.vstack([np.zeros(7), 4 * np.eye(7)])
    ]
    return shares(min(found, key=lambda one: one.fun).x)


@pytest.mark.parametrize("l2", [1.0, math.sqrt(2)])
def test_the_split_leaves_the_least_error(l2):
    between = 0
    for seed in range(8):
        problem_, rho = problem(seed), 0.1
        if seed == 7:  # everything pays
            problem_, rho = (dict.fromkeys(NAMES, 1e6), *problem_[1:]), 0.02
        split = choose(*problem_, rho=rho, l2=l2, fits=lambda _: True)
        assert sum(split.values()) == pytest.approx(rho, rel=1e-12)
        best = total_error(best_split(rho, *problem_, l2), *problem_, l2)
        assert total_error(split, *problem_, l2) <= best * (1 + 1e-6)
        between += 0 < len(split) < len(NAMES)
    assert between > 5, "the problems must ask for a choice"


@given(st.integers(0, 1000), st.integers(0, 7), st.floats(1e-6, 10))
@settings(deadline=None)
def test_the_limit_is_kept_and_all_is_spent(seed, most, rho):
    errors, weights, cells = problem(seed)
    split = choose(errors, weights, cells, rho=rho, l2=1.0, fits=lambda chosen: len(chosen) <= most)
    assert len(split) <= most
    assert all(share > 0 for share in split.values())
    if split:
        assert sum(split.values()) == pytest.approx(rho, rel=1e-9)


def test_an_error_lies_in_fewer_cells_than_its_marginal_has():
    rng = np.random.default_rng(3)
    shares = {name: rng.dirichlet(np.full(n, 0.4)) for name, n in [("a", 7), ("b", 4), ("c", 30)]}
    for query in [("a", "b"), ("b", "c"), ("a", "b", "c")]:
        joint = math.prod(np.ix_(*(shares[c] for c in query)))
        errors = joint.ravel() ** 0.75
        found = cells_of_errors([query], shares)[query]
        assert found == pytest.approx(errors.sum() ** 2 / (errors**2).sum())
        assert found < 0.8 * joint.size
    even = {"a": np.full(5, 0.2), "b": np.full(2, 0.5), "c": np.ones(1)}
    assert cells_of_errors([("a", "b", "c")], even) == {("a", "b", "c"): pytest.approx(10)}
