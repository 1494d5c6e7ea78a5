"""The price in mu: conversions against integration at 60 digits, selections, adaptivity."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from marginalsyn.privacy.gdp import (
    amount_of,
    delta_of,
    eps_of_mu,
    gaussian_mu,
    mu_of,
    mu_of_amount,
    pure_mu,
    selection_eps,
    selection_mu,
)
from marginalsyn.privacy.zcdp import eps_of, rho_of

mpmath = pytest.importorskip("mpmath")
DELTAS = ("1e-12", "1e-9", "1e-5")
EPS = (0.001, 0.5, 2.0, 10.0, 1000.0)


def integrated(eps, mu):
    """delta(eps) by quadrature of max(0, p - e^eps q) over the line, to 60 digits."""
    with mpmath.workdps(60):
        eps, mu = mpmath.mpf(eps), mpmath.mpf(mu)
        start = eps / mu + mu / 2  # beyond it p is the larger of N(mu, 1) and e^eps N(0, 1)

        def gap(x):
            return mpmath.npdf(x, mu, 1) - mpmath.exp(eps) * mpmath.npdf(x)

        stops = [start, *(start + k for k in (mpmath.mpf(1) / 4, 1, 3, 8, 20, 40))]
        return mpmath.quad(gap, stops)


@pytest.mark.parametrize("eps", EPS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_conversion_is_exact_and_rounded_to_the_safe_side(eps, delta):
    mu = mu_of(eps, float(delta))
    asked, exact = mpmath.mpf(float(delta)), integrated(eps, mu)
    assert exact <= asked
    # No more is kept back than a billionth.
    assert integrated(eps, mu * (1 + 1e-9)) > asked
    back = eps_of_mu(mu, float(delta))
    assert eps * (1 - 1e-9) < back <= eps * (1 + 1e-12)
    assert integrated(back, mu) <= asked
    assert integrated(back * (1 - 1e-9), mu) > asked
    assert float(exact) == pytest.approx(delta_of(eps, mu), rel=1e-9)
    assert delta_of(eps, mu) >= exact


@pytest.mark.parametrize("mu", [1e-5, 0.003, 0.7, 14.0])
@pytest.mark.parametrize("delta", [2e-323, 1.4e-322, 5.5e-321, 3e-316, 1e-309, 1e-300])
def test_a_delta_at_the_end_of_floating_point_is_no_excuse(mu, delta):
    with mpmath.workdps(400):
        eps = mpmath.mpf(eps_of_mu(mu, delta))
        up, down = (mpmath.ncdf(-eps / mu + sign * mpmath.mpf(mu) / 2) for sign in (1, -1))
        assert up - mpmath.exp(eps) * down <= mpmath.mpf(delta)


def test_what_it_gains_over_zcdp():
    """The figures of the issue: the ratio of sigma for one statement, new over old."""
    for delta, low, high in ((1e-9, 0.950, 0.957), (1e-5, 0.920, 0.930)):
        for eps in (1.0, 2.0):
            ratio = math.sqrt(2 * rho_of(eps, delta)) / mu_of(eps, delta)
            assert low < ratio < high
    for mu in (0.01, 0.3, 2.0):
        assert eps_of_mu(mu, 1e-9) < eps_of(amount_of(mu), 1e-9)


def worst_of_range(eps):
    """The largest mu that a two-outcome pair needs whose log-ratios span eps."""
    t = np.linspace(eps * 1e-4, eps * (1 - 1e-4), 20001)
    q = (1 - np.exp(t - eps)) / (np.exp(t) - np.exp(t - eps))
    return float(np.max(norm.ppf(np.exp(t) * q) - norm.ppf(q)))


@pytest.mark.parametrize("eps", [0.01, 0.1, 0.5, 1.0, 3.0, 8.0])
def test_the_price_of_a_selection_covers_the_worst_pair_and_no_more(eps):
    assert worst_of_range(eps) <= selection_mu(eps) <= worst_of_range(eps) * (1 + 1e-5)
    with mpmath.workdps(60):
        half = mpmath.mpf(eps) / 2
        p = mpmath.exp(half) / (1 + mpmath.exp(half))
        exact = 2 * mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)
        assert exact <= selection_mu(eps) <= exact * (1 + mpmath.mpf("1e-13"))
    # The trade-off of pure noise has one corner, on the diagonal.
    corner = 1 / (1 + math.exp(eps))
    assert pure_mu(eps) == pytest.approx(norm.isf(corner) - norm.ppf(corner), rel=1e-9)


@pytest.mark.parametrize("amount", [1e-12, 1e-6, 0.01, 0.3, 2.0, 50.0, 700.0])
def test_inverses_never_cost_more_than_asked(amount):
    assert amount_of(selection_mu(selection_eps(amount))) <= amount
    assert amount_of(selection_mu(selection_eps(amount) * (1 + 1e-9))) > amount
    assert amount_of(mu_of_amount(amount)) >= amount
    assert mu_of_amount(amount) <= math.sqrt(2 * amount) * (1 + 1e-15)


def test_numbers_that_bound_nothing_are_refused():
    for wrong in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="must be"):
            eps_of_mu(wrong, 1e-9)
        with pytest.raises(ValueError, match="must be"):
            selection_mu(wrong)
    for wrong in (0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match="must be"):
            gaussian_mu(wrong)
        with pytest.raises(ValueError, match="must be"):
            selection_eps(wrong)
    assert (eps_of_mu(0.0, 1e-9), amount_of(0.0), mu_of_amount(0.0)) == (0.0, 0.0, 0.0)


# -- adaptivity -----------------------------------------------------------------------------------


def realised(loss, eps):
    """The delta at eps that simulated losses under one table show, and its standard error."""
    lost = np.maximum(0.0, -np.expm1(eps - loss))
    return lost.mean(), lost.std() / math.sqrt(loss.size)


def losses(choose, total, rounds, size, rng):
    """Losses of Gaussian answers whose mu is chosen by the loss so far, within a total."""
    loss, left = np.zeros(size), np.full(size, total**2)
    for at in range(rounds):
        mu = np.minimum(choose(at, loss, left), np.sqrt(left))
        left = np.maximum(left - mu**2, 0.0)
        loss = loss + mu * (mu + rng.standard_normal(size)) - mu**2 / 2
    return loss


@pytest.mark.parametrize(
    ("choose", "rounds"),
    [
        # Stops where the loss is high, and spends all that is left where it is low.
        (lambda at, loss, left: np.where(loss > 0.2, 0.0, np.sqrt(left) if at else 0.6), 2),
        # The other way round.
        (lambda at, loss, left: np.where(loss > 0.2, np.sqrt(left), 0.05), 6),
        # Many small draws, until the loss is as high as it wishes.
        (lambda at, loss, left: np.where(loss > 1.0, 0.0, 0.15), 60),
    ],
)
def test_an_adversary_gains_nothing_by_choosing_each_mu_after_the_answers(choose, rounds):
    rng = np.random.default_rng(0)
    loss = losses(choose, 1.0, rounds, 400_000, rng)
    for eps in (0.0, 0.5, 1.0, 2.0):
        found, error = realised(loss, eps)
        assert found <= delta_of(eps, 1.0) + 5.5 * error
