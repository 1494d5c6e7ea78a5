"""The certificate is never below the truth; its polynomials are as near as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from marginalsyn.certificates.excess import (
    VACUOUS,
    approximate,
    bound_excess,
    fit_in_ball,
    mean_loss,
    psi,
    taylor,
    uniform_error,
)
from marginalsyn.errors import UsageError
from marginalsyn.plugins.reports.bounds_report import paper_bounds


def errors_of(
    real: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray], order: int
) -> tuple[float, dict[int, float]]:
    """Moment errors by listing every product."""
    label = np.abs(real[0].T @ real[1] / len(real[1]) - other[0].T @ other[1] / len(other[1])).max()
    found, powers = {}, [real[0], other[0]]
    for k in range(2, order + 1):
        powers = [
            (p[:, :, None] * x[:, None, :]).reshape(len(x), -1)
            for p, x in zip(powers, (real[0], other[0]), strict=True)
        ]
        if k % 2 == 0:
            found[k] = float(np.abs(powers[0].mean(axis=0) - powers[1].mean(axis=0)).max())
    return float(label), found


def problem(rng: np.random.Generator) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Two tables of bounded features and labels, more or less alike."""
    d, w = int(rng.integers(1, 5)), rng.standard_normal(4) * rng.choice([0.5, 3.0])
    tables = []
    noise = rng.choice([0.0, 0.1, 1.0])
    for side in range(2):
        n = int(rng.integers(20, 400))
        x = np.clip(rng.uniform(-1, 1, (n, d)) + side * noise * rng.uniform(-1, 1, d), -1, 1)
        if rng.random() < 0.5:
            x[:, 0] = 1.0
        p = 1 / (1 + np.exp(-(x @ w[:d]) - side * noise))
        tables.append((x, np.where(rng.random(n) < p, 1.0, -1.0)))
    return tuple(tables)


def test_never_below_the_measured_excess() -> None:
    rng = np.random.default_rng(0)
    tight = 0.0
    for _ in range(300):
        real, other = problem(rng)
        label, products = errors_of(real, other, 4)
        radius = float(rng.choice([0.5, 1.0, 2.0, 4.0]))
        ours = fit_in_ball(*other, radius)
        best = fit_in_ball(*real, radius, tolerance=1e-7)
        excess = mean_loss(*real, ours.w) - best.loss
        for known in ({2: products[2]}, products):
            bound = bound_excess(radius, label, known, gap=ours.gap).bound
            assert excess <= bound + 1e-9, (excess, bound, radius)
        tight = max(tight, excess / bound)
    # The test would notice a bound that is half as large.
    assert tight > 0.2


@pytest.mark.parametrize("radius", [0.5, 1.0, 2.0, 5.0, 10.0])
@pytest.mark.parametrize("nu", [0.0, 0.001, 0.05, 1.0])
def test_eta_holds_everywhere(radius: float, nu: float) -> None:
    t = np.random.default_rng(0).uniform(-radius, radius, 200_000)
    two, four = approximate(radius, {2: nu}), approximate(radius, {2: nu, 4: nu})
    for found in (taylor(radius), two, four):
        values = sum(a * t ** (2 * k) for k, a in enumerate(found.coefficients))
        assert np.abs(psi(t) - values).max() <= found.eta


def test_a_wrong_eta_would_be_noticed() -> None:
    poor = (math.log(2), 0.125, 0.0)
    assert uniform_error(2.0, poor) > uniform_error(2.0, taylor(2.0).coefficients)
    exact = float(np.abs(psi(np.array([2.0])) - math.log(2) - 0.5)[0])
    assert uniform_error(2.0, poor) >= exact


def test_known_values() -> None:
    assert bound_excess(1.0, 0.0, {2: 0.0}).bound <= 1 / 96 + 1e-9
    table = ((0.05, 1, 0.063), (0.05, 2, 0.157), (0.01, 3, 0.067), (0.001, 2, 0.005))
    for nu, radius, told in table:
        assert bound_excess(radius, nu, {2: nu, 4: nu}).bound == pytest.approx(told, abs=6e-4)
    assert bound_excess(2.0, 0.02, {2: 0.02}).bound <= 2 * 0.02 + 16 / 96 + 0.02 + 1e-9


def test_no_information_from_ln_2_on() -> None:
    found = bound_excess(5.0, 0.5, {2: 0.5})
    assert found.bound > VACUOUS
    assert not found.informative
    assert bound_excess(1.0, 0.01, {2: 0.01}).informative


def test_refusals() -> None:
    for radius in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(UsageError, match="radius"):
            bound_excess(radius, 0.1, {2: 0.1})
    for orders in ({}, {4: 0.1}, {2: 0.1, 6: 0.1}, {3: 0.1}):
        with pytest.raises(UsageError, match="orders"):
            bound_excess(1.0, 0.1, orders)
    for label, product in ((-0.1, 0.1), (math.nan, 0.1), (0.1, -0.1)):
        with pytest.raises(UsageError, match="zero or more"):
            bound_excess(1.0, label, {2: product})


def test_the_published_theorems_are_vacuous() -> None:
    found = paper_bounds(10, 1.0, 4, 0.001)
    assert found.vacuous
    assert found.logistic > 15
    # By hand: m = 1, tau = 1, d = 2: R = 1, k = 1.
    small = paper_bounds(1, 1.0, 2, 0.1)
    spread = 2 * math.log(1 + math.e) * 2 * 0.1
    assert small.lipschitz == pytest.approx(10 + spread)
    assert small.logistic == pytest.approx(0.5 + spread)
    with pytest.raises(UsageError, match="degree"):
        paper_bounds(3, 1.0, 1, 0.1)


def test_the_fit_in_a_ball_is_the_best() -> None:
    rng = np.random.default_rng(3)
    for radius in (0.3, 2.0, 50.0):
        x = np.hstack([rng.uniform(-1, 1, (200, 3)), np.ones((200, 1))])
        y = np.where(rng.random(200) < 1 / (1 + np.exp(-3 * x[:, 0])), 1.0, -1.0)
        masses = rng.random(200)
        fit = fit_in_ball(x, y, radius, masses=masses, tolerance=1e-8)
        assert np.abs(fit.w).sum() <= radius * (1 + 1e-9)
        assert fit.gap <= 1e-7
        # w = p - q with p, q >= 0 makes the ball smooth for a general solver.
        found = minimize(
            lambda v, x=x, y=y, m=masses: np.average(
                np.logaddexp(0.0, -y * (x @ (v[:4] - v[4:]))), weights=m
            ),
            np.full(8, 0.01),
            bounds=[(0, None)] * 8,
            constraints={"type": "ineq", "fun": lambda v, r=radius: r - v.sum()},
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-12},
        )
        assert fit.loss <= found.fun + 1e-6
