"""Chains reach the law they claim on spaces small enough to enumerate; caches stay exact."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from marginalsyn.errors import UsageError
from marginalsyn.plugins.points import walks
from marginalsyn.plugins.points.walks import (
    CandidateWalk,
    RandomWalk,
    make_candidate_law,
    make_law,
)
from marginalsyn.table.energy import energy_distance, potential, self_distance
from marginalsyn.table.metric import PointSpace

SPACE = PointSpace(2, np.array([0.75, 1.0]), 2.0, np.array([2, 3]), np.array([1, -1]))


@pytest.mark.parametrize("root", [False, True])
def test_the_cached_energy_stays_the_energy(root):
    rng = np.random.default_rng(1)
    rows = SPACE.uniform(80, rng)
    walk = RandomWalk(make_law(rows, coefficient=60.0, root=root, space=SPACE), 6)
    state = walk.start(rng)
    start = [np.copy(part) for part in state]
    moved, accepted = walk.step(rng, state, 2_000, 60.0, 0.2)
    assert 50 < accepted < 2_000
    fresh = walk.at(moved.points)
    assert moved.energy == pytest.approx(fresh.energy, abs=1e-5)
    assert moved.potentials == pytest.approx(fresh.potentials, abs=1e-6)
    exact = energy_distance(rows, moved.points, space=SPACE)
    assert moved.energy == pytest.approx(exact, abs=1e-5)
    for before, after in zip(start, state, strict=True):  # a kernel is a pure function
        assert np.array_equal(before, after)


@pytest.mark.parametrize("nearest", [2, 8])
def test_visits_on_a_grid_follow_the_exact_law(nearest, monkeypatch):
    monkeypatch.setattr(walks, "NEAREST", nearest)
    grid = np.array([[0.0], [0.1], [0.5], [0.9], [1.0]])
    rows = np.array([[0.05], [0.2], [0.95]])
    walk = CandidateWalk(make_candidate_law(grid, potential(rows, grid)), 2)
    sets = list(itertools.product(range(5), repeat=2))
    energies = np.array([energy_distance(rows, grid[list(s)]) for s in sets])
    law = np.exp(-4.0 * energies)
    law /= law.sum()
    rng = np.random.default_rng(3)
    state = walk.at(np.array([0, 0]))
    visits = np.zeros((5, 5))
    for _ in range(20_000):
        state, _ = walk.step(rng, state, 20, 4.0)
        visits[tuple(state.indices)] += 1
    expected = 20_000 * law
    statistic = np.sum((visits.ravel() - expected) ** 2 / expected)
    assert statistic < chi2.isf(1e-6, 24)
    wrong = 20_000 * (law**1.3 / np.sum(law**1.3))  # the test can tell a law that is off by 30%
    assert np.sum((visits.ravel() - wrong) ** 2 / wrong) > chi2.isf(1e-6, 24)
    assert state.energy == pytest.approx(walk.at(state.indices).energy, abs=1e-9)


def test_draws_on_the_line_follow_the_exact_law():
    rows = np.array([[0.1], [0.2], [0.8]], dtype=np.float32)
    walk = RandomWalk(make_law(rows, coefficient=5.0, root=True), 1)
    grid = (np.arange(4_000)[:, None] + 0.5) / 4_000
    energies = 2 * potential(rows, grid) - self_distance(rows)
    density = np.exp(-5.0 * np.sqrt(np.maximum(energies, 0)))
    cdf = np.concatenate([[0], np.cumsum(density) / density.sum()])
    rng = np.random.default_rng(4)
    state = walk.at(rng.random((1, 1)))
    draws = np.empty(3_000)
    for i in range(len(draws)):
        state, _ = walk.step(rng, state, 60, 5.0, 0.25)
        draws[i] = state.points[0, 0]
    edges = np.linspace(0, 1, 4_001)
    assert kstest(draws, lambda v: np.interp(v, edges, cdf)).pvalue > 1e-6
    assert kstest(draws, "uniform").pvalue < 1e-6


def test_draws_of_a_mixed_point_follow_the_exact_law():
    rows = np.array([[0.2, 0.3, 0, 0], [0.9, 0.5, 1, 2]], dtype=np.float32)
    walk = RandomWalk(make_law(rows, coefficient=2.0, root=False, space=SPACE), 1)
    side = (np.arange(60) + 0.5) / 60
    masses = {}
    for present, code in itertools.product((0, 1), range(3)):
        seconds = side if present == 0 else np.array([0.5])
        points = np.array([[a, b, present, code] for a in side for b in seconds])
        law = np.exp(-2.0 * 2.0 * potential(rows, points, space=SPACE))
        masses[present, code] = law.mean()
    total = sum(masses.values())
    rng = np.random.default_rng(5)
    state = walk.start(rng)
    counts = dict.fromkeys(masses, 0)
    for _ in range(8_000):
        state, _ = walk.step(rng, state, 30, 2.0, 0.5)
        counts[int(state.points[0, 2]), int(state.points[0, 3])] += 1
    statistic = sum(
        (counts[k] - 8_000 * m / total) ** 2 / (8_000 * m / total) for k, m in masses.items()
    )
    assert statistic < chi2.isf(1e-6, 5)


def test_a_finite_chain_has_no_finite_guarantee():
    """The walk of 101 steps whose target is 1-private spends delta(1) = 0.41."""
    grid = np.linspace(0, 1, 51)[:, None]
    laws = []
    for zeros in (50, 49):
        rows = np.repeat([[0.0], [1.0]], [zeros, 100 - zeros], axis=0)
        # Coefficient eps / (2 * 2 diam / N) = 25: the exponential mechanism of eps = 1.
        height = -25.0 * 2.0 * potential(rows, grid)
        matrix = np.zeros((51, 51))
        for i in range(51):
            for k in (i - 1, i + 1):
                if 0 <= k < 51:
                    matrix[i, k] = 0.5 * min(1.0, np.exp(height[k] - height[i]))
            matrix[i, i] = 1.0 - matrix[i].sum()
        start = np.zeros(51)
        start[25] = 1.0
        laws.append(start @ np.linalg.matrix_power(matrix, 101))
    spent = [np.maximum(a - np.e * b, 0).sum() for a, b in (laws, laws[::-1])]
    assert max(spent) == pytest.approx(0.414, abs=0.005)


def test_bad_chains_are_refused():
    with pytest.raises(UsageError, match="at least one"):
        make_law(np.zeros((0, 2)), coefficient=1.0, root=True)
