"""Bought quantiles: their sensitivity by brute force, their accuracy, their price."""

from __future__ import annotations

import doctest
from itertools import combinations_with_replacement

import numpy as np
import pytest

import marginalsyn.private.quantiles
from marginalsyn.budget.charges import Neighbours
from marginalsyn.budget.zcdp import exponential_rho
from marginalsyn.noise.noise import SecureNoise, SeededNoise
from marginalsyn.private.quantiles import (
    cell_scores,
    quantile_bins,
    quantile_bounds,
    quantile_charge,
    quantiles,
    rank_scores,
    rank_sensitivity,
)

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
CELLS = 4
UP_TO = 5


def tables(rows):
    for cells in combinations_with_replacement(range(CELLS), rows):
        yield np.bincount(np.array(cells, dtype=int), minlength=CELLS)


def neighbours(counts, relation):
    """Every table one step away (removing is adding seen from the other side)."""
    for new in range(CELLS):
        more = counts.copy()
        more[new] += 1
        if relation is ADD:
            yield more
            continue
        for old in np.flatnonzero(counts):
            changed = more.copy()
            changed[old] -= 1
            yield changed


@pytest.mark.parametrize("scores", [rank_scores, cell_scores])
@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("q", [0.0, 0.1, 0.25, 0.5, 0.9, 1.0])
def test_sensitivity_by_brute_force(relation, q, scores):
    moves = [
        np.abs(scores(there, q) - scores(here, q)).max()
        for rows in range(UP_TO + 1)
        for here in tables(rows)
        for there in neighbours(here, relation)
    ]
    claimed = rank_sensitivity(q, relation)
    assert max(moves) <= claimed + 1e-12
    # Nor is it paid for twice: the claim is reached, up to ranks being whole numbers.
    assert max(moves) >= claimed * (0.99 if q in (0.0, 0.5, 1.0) or relation is ADD else 0.5)
    assert claimed <= rank_sensitivity(q) == 1


def exact(scores, *, eps, sensitivity):
    """A select without noise, to test the arithmetic alone."""
    assert eps > 0
    assert sensitivity > 0
    return int(np.argmax(scores))


def test_without_noise_they_are_the_quantiles():
    rng = np.random.default_rng(0)
    edges = np.linspace(0, 100, 201)
    values = rng.beta(2, 5, size=4_001) * 100
    counts = np.histogram(values, edges)[0]
    qs = [0.9, 0.1, 0.5]
    found = quantiles(counts, edges, qs, exact, 1.0)
    assert found == pytest.approx(np.quantile(values, sorted(qs)), abs=0.5)
    lower, upper = quantile_bounds(counts, edges, exact, 1.0, tail=0.01)
    assert ((values >= lower) & (values < upper)).mean() == pytest.approx(0.98, abs=0.01)
    bins = quantile_bins(counts, edges, 8, exact, 1.0)
    assert len(bins) == 9
    assert np.histogram(values, bins)[0] / len(values) == pytest.approx(np.full(8, 1 / 8), abs=0.02)


@pytest.mark.parametrize("relation", list(Neighbours))
def test_with_noise_the_ranks_are_close(relation):
    # P(rank error > t) <= M exp(-eps t / (2 sensitivity)): 70 ranks at 2,000 cells is below 1e-11.
    edges = np.linspace(-5, 5, 2_001)
    values = np.random.default_rng(1).normal(size=20_000)
    counts = np.histogram(np.clip(values, -5, 5), edges)[0]
    found = quantiles(counts, edges, [0.25, 0.5, 0.75], SecureNoise().select, 1.0, relation)
    for q, value in zip((0.25, 0.5, 0.75), found, strict=True):
        assert abs((values < value).sum() - q * len(values)) < 100


def test_every_selection_is_paid_and_declared_as_it_is():
    paid = []

    def select(scores, *, eps, sensitivity):
        paid.append((eps, sensitivity))
        return exact(scores, eps=eps, sensitivity=sensitivity)

    counts, edges = np.full(50, 10), np.linspace(0, 1, 51)
    quantile_bins(counts, edges, 4, select, 0.3, ADD)
    assert paid == [(0.3, 0.75), (0.3, 0.5), (0.3, 0.75)]
    charge = quantile_charge("age", 3, 0.3, REPLACE)
    assert charge.rho == pytest.approx(3 * exponential_rho(0.3))
    assert charge.neighbours is REPLACE
    assert charge.details["column"] == "age"


@pytest.mark.parametrize("counts", [np.zeros(6, dtype=int), np.array([0, 0, 900, 0, 0, 0])])
def test_empty_and_constant_columns_still_give_bins(counts):
    edges = np.arange(7.0)
    for seed in range(5):
        select = SeededNoise(seed).select
        bins = quantile_bins(counts, edges, 4, select, 1.0)
        assert bins[0] == 0
        assert bins[-1] == 6
        assert (np.diff(bins) > 0).all()
        lower, upper = quantile_bounds(counts, edges, select, 1.0)
        assert 0 <= lower < upper <= 6
    assert quantile_bins(counts, edges, 1, exact, 1.0).tolist() == [0, 6]


def test_bounds_at_the_upper_end_stay_apart():
    assert quantile_bounds(np.array([0, 9]), np.arange(3.0), lambda s, **_: 1, 1.0) == (1, 2)


def test_bounds_of_whole_numbers_are_tight():
    # Every value is shared by many rows: no edge cuts off 1% of them.
    counts = np.zeros(150, dtype=int)
    counts[20:61] = 500
    for seed in range(20):
        select = SeededNoise(seed).select
        assert quantile_bounds(counts, np.arange(151.0), select, 1.0, tail=0.01) == (20, 61)


@pytest.mark.parametrize(
    ("counts", "edges", "message"),
    [
        (np.zeros(0, dtype=int), np.zeros(1), "counts"),
        (np.zeros(3), np.arange(4.0), "counts"),
        (np.zeros((2, 2), dtype=int), np.arange(5.0), "counts"),
        (np.zeros(3, dtype=int), np.arange(3.0), "edges"),
        (np.zeros(3, dtype=int), np.array([0.0, 1, 1, 2]), "increase"),
        (np.zeros(2, dtype=int), np.array([0.0, 1, np.inf]), "edges"),
    ],
)
def test_bad_grids_are_refused(counts, edges, message):
    with pytest.raises(ValueError, match=message):
        quantiles(counts, edges, [0.5], exact, 1.0)


def test_bad_shares_are_refused():
    counts, edges = np.ones(3, dtype=int), np.arange(4.0)
    with pytest.raises(ValueError, match="q "):
        quantiles(counts, edges, [1.5], exact, 1.0)
    with pytest.raises(ValueError, match="tail"):
        quantile_bounds(counts, edges, exact, 1.0, tail=0.5)
    with pytest.raises(ValueError, match="k "):
        quantile_bins(counts, edges, 0, exact, 1.0)


def test_examples():
    assert doctest.testmod(marginalsyn.private.quantiles).failed == 0
