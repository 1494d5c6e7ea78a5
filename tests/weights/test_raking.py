"""Raking against brute force: the optimum, the risk, what no row can represent."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from marginalsyn.weights import raking
from marginalsyn.weights.raking import Answers, Cells, choose, degrees, fit, risk

DOMAIN = {"a": 3, "b": 2, "c": 4}
MARGINALS = [("a", "b"), ("b", "c")]
SIZE = 14


def rows(n=200, seed=0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, size, n) for size in DOMAIN.values()])


def answers(cells: Cells, sigma, seed=1, total=1000.0, tilt=0.0, slope=None) -> Answers:
    """Noisy counts of the rows, tilted by a known theta."""
    rng = np.random.default_rng(seed)
    theta = tilt * np.random.default_rng(99).normal(size=cells.cells)
    shares = np.exp(cells.scores(theta))
    truth = total * cells.totals(shares / shares.sum())
    sigma = np.broadcast_to(np.asarray(sigma, float), truth.shape)
    return Answers(
        counts=truth + sigma * rng.normal(size=len(truth)),
        sigma=sigma,
        total=total,
        slope=np.zeros(len(truth)) if slope is None else slope,
    )


def brute(x: np.ndarray, given: Answers, strength: float) -> np.ndarray:
    ridge = strength * given.sigma**2

    def loss(theta):
        scores = x @ theta
        level = logsumexp(scores)
        value = given.total * level - theta @ given.counts + ridge @ theta**2 / 2
        return value, given.total * (x.T @ np.exp(scores - level)) - given.counts + ridge * theta

    how = {"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-10}
    return minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options=how).x


@pytest.mark.parametrize("strength", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("sigma", [10.0, np.linspace(2, 40, SIZE)])
def test_optimum_equals_brute_force(strength, sigma) -> None:
    cells = Cells.of(rows(), DOMAIN, MARGINALS)
    given = answers(cells, sigma, tilt=0.8)
    found = fit(cells, given, strength, tolerance=1e-8)
    expected = brute(cells.dense(), given, strength)
    assert np.allclose(found.theta, expected, atol=1e-4)
    # y - mu = ridge * theta: what the optimum is, whoever found it.
    ridge = strength * given.sigma**2
    assert np.allclose(given.counts - found.counts, ridge * found.theta, atol=1e-2)
    assert np.isclose(np.exp(found.log_weights).mean(), 1)


def test_optimum_is_the_nearest_weighting() -> None:
    """The primal: relative entropy in counts plus misfit is no less for other weights."""
    cells = Cells.of(rows(40), DOMAIN, MARGINALS)
    given, strength = answers(cells, 10.0, tilt=0.8), 0.5
    found = fit(cells, given, strength, tolerance=1e-8)

    def cost(shares):
        misfit = (given.total * cells.totals(shares) - given.counts) ** 2 / given.sigma**2
        entropy = given.total * np.sum(shares * np.log(shares * len(shares)))
        return entropy + misfit.sum() / (2 * strength)

    rng = np.random.default_rng(2)
    best = cost(found.shares)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        other = found.shares * np.exp(size * rng.normal(size=40))
        assert cost(other / other.sum()) > best


def test_degrees_are_the_derivative() -> None:
    """Also where the total moves with the answers, and by random probes as by eigenvalues."""
    cells, strength = Cells.of(rows(), DOMAIN, MARGINALS), 0.7
    slope = np.full(SIZE, 0.5)
    given = answers(cells, np.linspace(5, 20, SIZE), tilt=0.8, slope=slope)
    found = fit(cells, given, strength, tolerance=1e-8)
    trace, h = 0.0, 0.1
    for at in range(SIZE):
        pair = []
        for sign in (-1, 1):
            counts = given.counts.copy()
            counts[at] += sign * h
            total = given.total + sign * h * slope[at]
            moved = Answers(counts=counts, sigma=given.sigma, total=total, slope=slope)
            pair.append(fit(cells, moved, strength, found.theta, 1e-8).counts[at])
        trace += (pair[1] - pair[0]) / (2 * h)
    exact = degrees(cells, given, found, strength, np.random.default_rng(0))
    assert np.isclose(exact, trace, rtol=1e-3)


def test_random_probes_agree_with_eigenvalues(monkeypatch) -> None:
    cells = Cells.of(rows(), DOMAIN, MARGINALS)
    given = answers(cells, 10.0, tilt=0.8, slope=np.full(SIZE, 0.5))
    found = fit(cells, given, 0.7)
    exact = degrees(cells, given, found, 0.7, np.random.default_rng(0))
    monkeypatch.setattr(raking, "MOST_EXACT", 0)
    monkeypatch.setattr(raking, "PROBES", 2000)
    assert np.isclose(degrees(cells, given, found, 0.7, np.random.default_rng(0)), exact, rtol=0.02)


@pytest.mark.parametrize("tilt", [0.0, 0.3, 1.0])
def test_risk_is_unbiased_and_choice_near_the_best(tilt) -> None:
    cells = Cells.of(rows(2000), DOMAIN, MARGINALS)
    truth = answers(cells, 1e-9, tilt=tilt).counts
    # Each marginal's cells add up to a total; N is estimated as the mean of the two.
    slope = np.full(SIZE, 0.5)
    slope[:6], slope[6:] = 8 / 14, 6 / 14
    told, made, chosen, plain, best, moved = [], [], [], [], [], []
    for seed in range(200):
        counts = truth + 30 * np.random.default_rng(1000 + seed).normal(size=SIZE)
        given = Answers(counts=counts, sigma=np.full(SIZE, 30.0), total=slope @ counts, slope=slope)
        found = fit(cells, given, 1.0, tolerance=1e-6)
        freedom = degrees(cells, given, found, 1.0, np.random.default_rng(0))
        told.append(risk(given, found.counts, freedom))
        made.append(np.sum((found.counts - truth) ** 2) / 900)
        if seed < 50:
            choice = choose(cells, given, np.random.default_rng(seed))
            chosen.append(np.sum((choice.fitted.counts - truth) ** 2) / 900)
            moved.append(choice.strength is not None)
            flat = given.total * cells.totals(np.full(2000, 1 / 2000))
            plain.append(np.sum((flat - truth) ** 2) / 900)
            at = [fit(cells, given, s).counts for s in (8.0, 1.0, 0.125)]
            best.append([np.sum((counts - truth) ** 2) / 900 for counts in at])
    gap = np.array(told) - np.array(made)
    assert abs(gap.mean()) < 5 * gap.std() / np.sqrt(len(gap))
    assert np.mean(chosen) < np.mean(plain) + 2.0
    assert np.mean(chosen) < min(np.mean(plain), *np.mean(best, axis=0)) + 2.5
    # Where nothing is missing, a lower risk is mostly luck.
    assert np.mean(moved) < 0.3 if tilt == 0 else np.mean(moved) > 0.9


def test_noise_alone_is_no_missing_mass() -> None:
    """The sum of max(0, y - 2 sigma) is large by noise alone; less its mean, it is told apart."""
    codes = rows()
    cells = Cells.of(codes[codes[:, 0] != 1], DOMAIN, [("a", "b"), ("a", "c")])
    assert cells.empty.sum() == 6
    rng = np.random.default_rng(3)
    noise = [raking.unreachable(cells, _only_noise(cells, rng)) for _ in range(1000)]
    means, spread = np.array(noise).mean(axis=0)
    assert abs(means) < 5 * spread / np.sqrt(1000)
    assert np.isclose(np.array(noise)[:, 0].std(), spread, rtol=0.15)
    counts = np.where(cells.empty, 200.0, 0.0)
    found, spread = raking.unreachable(
        cells, Answers(counts=counts, sigma=np.full(18, 10.0), total=1, slope=counts)
    )
    assert np.isclose(found, 6 * 180, rtol=0.01)
    assert found > 4 * spread


def _only_noise(cells: Cells, rng) -> Answers:
    counts = 100 * rng.normal(size=cells.cells)
    return Answers(counts=counts, sigma=np.full(cells.cells, 100.0), total=1, slope=counts)


def test_outlook_is_what_a_simulation_gives() -> None:
    cells, sigma = Cells.of(rows(500), DOMAIN, MARGINALS), 30.0
    noise, kept = raking.outlook(cells, np.full(SIZE, sigma), 1000.0, np.random.default_rng(0))
    spread = [
        fit(cells, answers(cells, sigma, seed=seed), 1.0).log_weights.std() for seed in range(40)
    ]
    assert np.isclose(noise, np.sqrt(np.mean(np.square(spread))), rtol=0.3)
    assert 0 < kept < 1
    _, more = raking.outlook(cells, np.full(SIZE, 3.0), 1000.0, np.random.default_rng(0))
    assert more > kept
