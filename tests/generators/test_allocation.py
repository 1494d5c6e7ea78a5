"""One round's allocation against brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from marginalsyn.generators.clique_tree import choose

NAMES = [(f"q{i}",) for i in range(7)]


def total_error(split, errors, weights, cells, l2):
    """The expected weighted l1 error: noise where measured, the model's error elsewhere."""
    left = sum(weights[q] * errors[q] for q in errors if q not in split)
    noise = [weights[q] * cells[q] * l2 / math.sqrt(math.pi * rho) for q, rho in split.items()]
    return left + sum(noise)


def problem(seed):
    rng = np.random.default_rng(seed)
    errors = {q: float(e) for q, e in zip(NAMES, rng.gamma(1, 300, 7), strict=True)}
    weights = {q: float(w) for q, w in zip(NAMES, rng.integers(1, 5, 7), strict=True)}
    cells = {q: int(n) for q, n in zip(NAMES, rng.integers(2, 200, 7), strict=True)}
    return errors, weights, cells


def best_split(chosen, weights, cells, rho):
    """The best split of rho over some marginals, by numerical search."""
    n = np.array([weights[q] * cells[q] for q in chosen], float)

    def noise(x):
        shares = np.exp(x - x.max())
        return float((n / np.sqrt(rho * shares / shares.sum())).sum())

    x = minimize(noise, np.zeros(len(n)), method="BFGS", options={"gtol": 1e-9}).x
    shares = np.exp(x - x.max())
    return dict(zip(chosen, rho * shares / shares.sum(), strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_the_split_minimises_the_noise(seed):
    errors, weights, cells = problem(seed)
    errors = {q: 1e9 for q in errors}  # everything pays
    split = choose(errors, weights, cells, rho=0.02, l2=1.0, fits=lambda _: True)
    assert set(split) == set(NAMES)
    assert sum(split.values()) == pytest.approx(0.02, rel=1e-12)
    best = best_split(NAMES, weights, cells, 0.02)
    assert split == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("l2", [1.0, math.sqrt(2)])
def test_the_choice_is_near_the_best_of_all_subsets(l2):
    between = 0
    for seed in range(20):
        errors, weights, cells = problem(seed)
        totals = {}
        for chosen in itertools.chain.from_iterable(
            itertools.combinations(NAMES, k) for k in range(len(NAMES) + 1)
        ):
            price = {q: (weights[q] * cells[q]) ** (2 / 3) for q in chosen}
            split = {q: 0.1 * p / sum(price.values()) for q, p in price.items()}
            totals[chosen] = total_error(split, errors, weights, cells, l2)
        split = choose(errors, weights, cells, rho=0.1, l2=l2, fits=lambda _: True)
        best = min(totals, key=totals.__getitem__)
        assert total_error(split, errors, weights, cells, l2) <= 1.05 * totals[best]
        between += 0 < len(best) < len(NAMES)
    assert between > 15, "the problems must ask for a choice"


@given(st.integers(0, 1000), st.integers(0, 7), st.floats(1e-6, 10))
@settings(deadline=None)
def test_the_limit_is_kept_and_all_is_spent(seed, most, rho):
    errors, weights, cells = problem(seed)
    split = choose(errors, weights, cells, rho=rho, l2=1.0, fits=lambda chosen: len(chosen) <= most)
    assert len(split) <= most
    assert all(share > 0 for share in split.values())
    if split:
        assert sum(split.values()) == pytest.approx(rho, rel=1e-9)
