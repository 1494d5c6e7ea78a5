"""The arithmetic of privacy: conversions, budgets, charges and their composition."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from marginalsyn.errors import BudgetError, UsageError
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import (
    ZCDP,
    Approximate,
    Charge,
    Neighbours,
    Pure,
    SubsampledGaussian,
    covers,
    show_number,
)
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.zcdp import (
    DEFAULT_DELTA,
    check_delta,
    check_eps,
    eps_of,
    exponential_eps,
    exponential_rho,
    gaussian_rho,
    gaussian_sigma,
    rho_of,
)

ROOT = Path(__file__).parents[2]
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
EPS = st.floats(1e-3, 1000)
DELTA = st.floats(-30, -2).map(lambda power: 10**power)
RHO = st.floats(-12, 3).map(lambda power: 10**power)


def charge(cost, neighbours=ADD, **rest):
    return Charge(mechanism="test", cost=cost, neighbours=neighbours, **rest)


def test_neighbours_give_the_sensitivity_of_one_marginal():
    assert (ADD.l1, ADD.l2) == (1, 1)
    assert (REPLACE.l1, REPLACE.l2) == (2, math.sqrt(2))
    assert REPLACE.l2**2 >= 2
    assert str(REPLACE) == "replace"


# Conversions


@settings(deadline=None)
@given(EPS, DELTA)
def test_rho_and_eps_are_inverse_and_err_on_the_safe_side(eps, delta):
    rho = rho_of(eps, delta)
    assert rho > 0
    assert eps_of(rho, delta) <= eps
    assert eps_of(rho, delta) == pytest.approx(eps, rel=1e-10 if delta > 1e-4 else 1e-12)


@settings(deadline=None)
@given(RHO, DELTA)
def test_conversion_is_the_minimum_over_all_orders(rho, delta):
    a = np.exp(np.linspace(-25, 75, 20_001))
    curve = (1 + a) * rho - np.log1p(1 / a) + (-np.log(delta) - np.log1p(a)) / a
    assert eps_of(rho, delta) <= max(0.0, curve.min()) * (1 + 1e-9) + 1e-12
    assert eps_of(rho, delta) == pytest.approx(max(0.0, curve.min()), rel=1e-3, abs=1e-12)
    # Bun and Steinke's simpler bound is never better.
    assert eps_of(rho, delta) <= rho + 2 * math.sqrt(rho * -math.log(delta))


def gaussian_delta(mu, eps):
    """delta of a Gaussian with sensitivity over sigma ``mu``, exactly (Balle and Wang 2018)."""
    norm = stats.norm
    return norm.cdf(mu / 2 - eps / mu) - math.exp(eps) * norm.cdf(-mu / 2 - eps / mu)


@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.5, 4.0])
def test_conversion_covers_the_gaussian_and_is_close(rho):
    # A Gaussian with sigma^2 = 1 / (2 rho) is rho-zCDP; its exact delta may not be larger.
    eps = eps_of(rho, 1e-9)
    exact = gaussian_delta(math.sqrt(2 * rho), eps)
    assert 1e-9 / 30 < exact <= 1e-9


@pytest.mark.parametrize("rho", [1e-3, 0.05, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_conversion_agrees_with_the_renyi_accountant(rho, delta):
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders=1 + np.geomspace(1e-2, 1e5, 5_000))
    accountant.compose(GaussianDpEvent(1 / math.sqrt(2 * rho)))
    theirs = accountant.get_epsilon(delta)
    assert eps_of(rho, delta) <= theirs * (1 + 1e-12)
    assert eps_of(rho, delta) == pytest.approx(theirs, rel=1e-5)


def test_known_values():
    assert rho_of(1.0, 1e-9) == pytest.approx(0.0149731, rel=1e-5)
    assert eps_of(0, 1e-9) == 0


def test_extreme_values_stay_numbers():
    for rho in (1e-300, 1e-30, 1e6, 1e12):
        assert 0 <= eps_of(rho, 1e-9) < math.inf
        assert eps_of(rho, 1e-300) < math.inf
    assert rho_of(1000, 1e-300) > 0
    assert rho_of(1e-12, 1e-9) >= 0


@given(RHO, st.sampled_from([1.0, math.sqrt(2), 17.0]))
def test_mechanism_parameters_never_cost_more_than_asked(rho, l2):
    sigma, eps = gaussian_sigma(rho, l2), exponential_eps(rho)
    assert gaussian_rho(sigma, l2) <= rho
    assert gaussian_rho(sigma, l2) == pytest.approx(rho, rel=1e-13)
    assert exponential_rho(eps) <= rho
    assert exponential_rho(eps) == pytest.approx(rho, rel=1e-13)


def test_mechanism_parameters_mean_what_they_say():
    assert gaussian_rho(2.0) == pytest.approx(1 / 8)
    assert gaussian_rho(2.0, math.sqrt(2)) == pytest.approx(1 / 4)
    assert exponential_rho(2.0) == pytest.approx(1 / 2)
    for function in (gaussian_rho, gaussian_sigma, exponential_rho, exponential_eps):
        for bad in (0.0, -1.0, math.nan, math.inf):
            with pytest.raises(ValueError, match="must be a positive number"):
                function(bad)


@pytest.mark.parametrize("eps", [0, -1, math.nan, math.inf, 1000.1])
def test_bad_eps_is_refused(eps):
    for use in (check_eps, lambda e: Budget(eps=e), lambda e: rho_of(e, 1e-9)):
        with pytest.raises(UsageError, match=r"eps \(.*\) must be"):
            use(eps)


@pytest.mark.parametrize("delta", [0, -1e-9, 1, 2, math.nan, math.inf])
def test_bad_delta_is_refused(delta):
    for use in (
        lambda d: check_delta(d, allow_large=True),
        lambda d: Budget(eps=1, delta=d, allow_large_delta=True),
        lambda d: eps_of(0.1, d),
        lambda d: compose([], d),
    ):
        with pytest.raises(UsageError, match=r"delta \(.*\) must"):
            use(delta)


def test_large_delta_must_be_allowed():
    assert check_delta(0.999e-6) == 0.999e-6
    assert check_delta(1e-5, allow_large=True) == 1e-5
    with pytest.raises(UsageError, match="below 1e-06"):
        check_delta(1e-6)
    with pytest.raises(UsageError, match="below 1e-06"):
        Budget(eps=1, delta=1e-5)
    assert Budget(eps=1, delta=1e-5, allow_large_delta=True).rho > Budget(eps=1).rho


def test_budget():
    budget = Budget(eps=2, neighbours="replace")
    assert budget.delta == DEFAULT_DELTA
    assert budget.neighbours is REPLACE
    assert budget.rho == rho_of(2, DEFAULT_DELTA)
    back = Budget.of_rho(0.05, 1e-8, REPLACE)
    assert (back.rho, back.delta, back.neighbours) == (0.05, 1e-8, REPLACE)
    assert back.eps == eps_of(0.05, 1e-8)


@settings(deadline=None)
@given(st.floats(0.01, 100), st.lists(st.floats(0.01, 1), min_size=1, max_size=40))
def test_a_budget_split_in_parts_is_never_exceeded(eps, weights):
    budget = Budget(eps=eps)
    shares = [budget.rho * w / sum(weights) for w in weights]
    assert compose([charge(ZCDP(rho=s)) for s in shares]).eps <= eps


# Charges


COSTS = [
    ZCDP(rho=0.1),
    Pure(eps=0.5),
    Pure(eps=0.5, bounded_range=True),
    SubsampledGaussian(noise_multiplier=1.0, rate=0.01, steps=100),
    Approximate(eps=0.5, delta=1e-12),
]


@pytest.mark.parametrize("cost", COSTS, ids=lambda c: c.kind)
def test_charges_survive_json(cost):
    one = charge(cost, purpose="p", details={"columns": ["a"], "sigma": 3.5})
    assert Charge.model_validate_json(one.model_dump_json()) == one
    assert str(cost)


@pytest.mark.parametrize(
    "cost",
    [
        {"kind": "zcdp", "rho": -1},
        {"kind": "zcdp", "rho": math.inf},
        {"kind": "zcdp", "rho": math.nan},
        {"kind": "zcdp", "rho": 1, "eps": 2},
        {"kind": "pure", "eps": -0.1},
        {"kind": "subsampled-gaussian", "noise_multiplier": 0, "rate": 0.1, "steps": 1},
        {"kind": "subsampled-gaussian", "noise_multiplier": 1, "rate": 1.1, "steps": 1},
        {"kind": "subsampled-gaussian", "noise_multiplier": 1, "rate": 0.1, "steps": 0},
        {"kind": "approximate", "eps": 1, "delta": 1},
        {"kind": "free"},
    ],
)
def test_impossible_costs_are_refused(cost):
    with pytest.raises(ValueError, match="validation error"):
        Charge(mechanism="test", cost=cost)


def test_rho_of_a_charge():
    assert charge(ZCDP(rho=0.3)).rho == 0.3
    assert charge(Pure(eps=2)).rho == pytest.approx(2)
    assert charge(Pure(eps=2, bounded_range=True)).rho == pytest.approx(0.5)
    assert charge(Pure(eps=0)).rho == 0
    assert charge(SubsampledGaussian(noise_multiplier=2, rate=1, steps=4)).rho == pytest.approx(0.5)
    assert charge(COSTS[3]).rho is None
    assert charge(COSTS[4]).rho is None


# Composition


def test_zcdp_adds_up():
    total = compose([charge(ZCDP(rho=r)) for r in (0.1, 0.02, 0.003)], 1e-8)
    assert total.rho == pytest.approx(0.123)
    assert total.eps == pytest.approx(eps_of(0.123, 1e-8), rel=1e-12)
    assert total.delta == 1e-8


def test_few_pure_charges_add_up_with_delta_zero():
    total = compose([charge(Pure(eps=0.5)), charge(Pure(eps=0.25, bounded_range=True))])
    assert (total.eps, total.delta) == (0.75, 0)


def test_many_pure_charges_do_better_in_zcdp():
    total = compose([charge(Pure(eps=0.1, bounded_range=True))] * 100)
    assert total.delta == DEFAULT_DELTA
    assert total.eps == pytest.approx(eps_of(100 * 0.01 / 8, DEFAULT_DELTA), rel=1e-9)
    # Without bounded range the price is four times as high.
    loose = compose([charge(Pure(eps=0.1))] * 100)
    assert loose.rho == pytest.approx(100 * 0.01 / 2)
    assert loose.eps > total.eps


@pytest.mark.parametrize("eps", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("rho", [0.001, 0.1, 2.0])
def test_pure_and_zcdp_together_are_the_best_order(eps, rho):
    total = compose([charge(Pure(eps=eps)), charge(ZCDP(rho=rho))])
    a = np.exp(np.linspace(-12, 20, 200_001))
    curve = np.minimum(eps, (1 + a) * eps**2 / 2) + (1 + a) * rho
    best = (curve - np.log1p(1 / a) + (-np.log(DEFAULT_DELTA) - np.log1p(a)) / a).min()
    assert total.eps == pytest.approx(best, rel=1e-7)
    assert total.eps <= (eps + eps_of(rho, DEFAULT_DELTA)) * (1 + 1e-9)


def test_subsampled_steps():
    # Mironov, Talwar and Zhang 2019 by dp-accounting; the loss distribution is tighter.
    cost = SubsampledGaussian(noise_multiplier=1.0, rate=0.01, steps=1000)
    total = compose([charge(cost)], 1e-5)
    assert total.eps == pytest.approx(1.83, abs=0.01)
    assert total.rho is None
    # In two halves it is the same mechanism.
    half = SubsampledGaussian(noise_multiplier=1.0, rate=0.01, steps=500)
    assert compose([charge(half)] * 2, 1e-5).eps == pytest.approx(total.eps, rel=1e-6)
    assert compose([charge(half)], 1e-5).eps < total.eps
    # Under replace by group privacy: (2 eps, (1 + e^eps) delta).
    assert compose([charge(cost)], 1e-5, REPLACE).eps == pytest.approx(4.23, abs=0.01)
    # What it was run for changes nothing about what it does.
    assert compose([charge(cost, REPLACE)], 1e-5, REPLACE).eps == pytest.approx(4.23, abs=0.01)


def test_subsampled_steps_beside_others():
    steps = charge(SubsampledGaussian(noise_multiplier=1.0, rate=0.01, steps=1000))
    alone, rho = compose([steps]), charge(ZCDP(rho=0.01))
    both = compose([steps, rho])
    assert alone.eps < both.eps <= 1.2 * (alone.eps + compose([rho]).eps)
    other = charge(ZCDP(rho=0.01), REPLACE)
    mixed = compose([steps, other], 1e-9, REPLACE)
    assert mixed.eps > compose([steps], 1e-9, REPLACE).eps
    assert mixed.delta <= 1e-9


def test_subsampling_everything_is_plain_composition():
    steps = SubsampledGaussian(noise_multiplier=3.0, rate=1.0, steps=9)
    assert compose([charge(steps)]).eps == pytest.approx(eps_of(0.5, DEFAULT_DELTA))
    assert compose([charge(steps, REPLACE)], neighbours=REPLACE).rho == pytest.approx(2.0)
    # Almost everything is almost that, and never more.
    nearly = SubsampledGaussian(noise_multiplier=3.0, rate=0.999, steps=9)
    assert compose([charge(nearly)]).eps <= compose([charge(steps)]).eps


def test_hopeless_subsampling_still_has_a_bound_under_replace():
    steps = SubsampledGaussian(noise_multiplier=0.1, rate=0.5, steps=100)
    total = compose([charge(steps)], 1e-9, REPLACE)
    assert math.isfinite(total.eps)
    assert total.eps <= eps_of(4 * gaussian_rho(0.1, 10.0), 1e-9) * (1 + 1e-9)


def test_approximate_charges_are_added_on_top():
    rough = charge(Approximate(eps=0.5, delta=4e-10))
    total = compose([rough, charge(ZCDP(rho=0.1))])
    assert total.eps == pytest.approx(0.5 + eps_of(0.1, 6e-10), rel=1e-9)
    assert total.delta == DEFAULT_DELTA
    alone = compose([rough, rough])
    assert (alone.eps, alone.delta) == (1.0, pytest.approx(8e-10))
    with pytest.raises(BudgetError, match="delta"):
        compose([rough] * 3)
    with pytest.raises(BudgetError, match="delta"):
        compose([charge(Approximate(eps=0.5, delta=1e-9)), charge(ZCDP(rho=0.1))])


def test_add_remove_counts_for_replace_by_group_privacy():
    assert compose([charge(ZCDP(rho=0.1))], 1e-9, REPLACE).rho == pytest.approx(0.4)
    assert compose([charge(Pure(eps=0.5))], 1e-9, REPLACE).eps == 1.0
    assert compose([charge(COSTS[2])], 1e-9, REPLACE).rho == pytest.approx(4 * 0.25 / 8)
    rough = compose([charge(Approximate(eps=0.5, delta=1e-12))], 1e-9, REPLACE)
    assert rough.eps == 1.0
    assert rough.delta == pytest.approx((1 + math.exp(0.5)) * 1e-12)
    both = [charge(ZCDP(rho=0.1)), charge(ZCDP(rho=0.1), REPLACE)]
    assert compose(both, 1e-9, REPLACE).rho == pytest.approx(0.5)


@pytest.mark.parametrize("cost", COSTS, ids=lambda c: c.kind)
def test_replace_never_counts_for_add_remove(cost):
    with pytest.raises(BudgetError, match="replacing a row"):
        compose([charge(cost, REPLACE)], 1e-9, ADD)


def test_one_asymptotic_charge_makes_the_total_asymptotic():
    exact, chain = charge(ZCDP(rho=0.1)), charge(Pure(eps=1), guarantee="asymptotic")
    assert compose([exact]).guarantee == "exact"
    assert compose([exact, chain]).guarantee == "asymptotic"


CHEAP = st.one_of(
    st.floats(1e-6, 2).map(lambda r: ZCDP(rho=r)),
    st.tuples(st.floats(1e-3, 3), st.booleans()).map(lambda p: Pure(eps=p[0], bounded_range=p[1])),
    st.floats(0, 2).map(lambda e: Approximate(eps=e, delta=1e-11)),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(CHEAP, min_size=1, max_size=5), CHEAP, st.sampled_from(Neighbours))
def test_more_charges_cost_more_and_order_does_not_matter(costs, extra, neighbours):
    charges = [charge(c) for c in costs]
    before = compose(charges, 1e-9, neighbours)
    after = compose([*charges, charge(extra)], 1e-9, neighbours)
    assert after.eps >= before.eps * 0.99
    random.Random(0).shuffle(charges)
    assert compose(charges, 1e-9, neighbours).eps == before.eps
    if neighbours is REPLACE:
        assert before.eps >= compose(charges, 1e-9).eps * 0.99


# What dp-accounting is taken to mean: pinned, since later versions changed it.


@pytest.mark.parametrize("z", [0.5, 1.0, 3.0])
def test_gaussian_of_the_loss_distribution_accountant_is_add_remove(z):
    from dp_accounting import GaussianDpEvent, NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(GaussianDpEvent(z))
    assert accountant.get_delta(0.0) == pytest.approx(2 * stats.norm.cdf(1 / (2 * z)) - 1, rel=1e-3)


def test_no_code_asks_dp_accounting_for_replace():
    """Versions differ in it: up to 0.4 it meant add-remove, from 0.5 on twice the sensitivity."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    accountant.compose(GaussianDpEvent(1.5))
    meanings = [2 * stats.norm.cdf(reach / (2 * 1.5)) - 1 for reach in (1, 2)]
    assert min(abs(accountant.get_delta(0.0) - meaning) for meaning in meanings) < 1e-6
    for path in ROOT.glob("marginalsyn/**/*.py"):
        text = path.read_text(encoding="utf-8")
        assert "REPLACE_ONE" not in text, path
        assert "REPLACE_SPECIAL" not in text, path


@pytest.mark.parametrize(
    ("multiplier", "rate", "steps", "add", "replace"),
    [
        (1.0, 0.1, 100, 8.0586084, 26.2442939),
        (0.8, 0.02, 50, 2.7821502, 7.4373563),
        (2.0, 1.0, 30, 17.1570467, 42.3675986),
    ],
)
def test_sampled_steps_cost_the_same_whatever_the_version(multiplier, rate, steps, add, replace):
    cost = SubsampledGaussian(noise_multiplier=multiplier, rate=rate, steps=steps)
    # Under replace a Renyi order that does not converge in 0.6 costs a little.
    assert compose([charge(cost)], 1e-6).eps == pytest.approx(add, rel=1e-7)
    assert compose([charge(cost)], 1e-6, REPLACE).eps == pytest.approx(replace, rel=1e-4)


def one_step_delta(multiplier, rate, eps):
    """delta of one subsampled step by integrating both directions of the pair."""
    x = np.linspace(-12 * multiplier - 2, 12 * multiplier + 2, 400_001)
    p = stats.norm.pdf(x, 0, multiplier)
    q = (1 - rate) * p + rate * stats.norm.pdf(x, 1, multiplier)
    step = x[1] - x[0]
    return max(
        np.maximum(p - math.exp(eps) * q, 0).sum() * step,
        np.maximum(q - math.exp(eps) * p, 0).sum() * step,
    )


def test_one_subsampled_step_against_integration():
    steps = SubsampledGaussian(noise_multiplier=1.0, rate=0.1, steps=1)
    eps = compose([charge(steps)], 1e-5).eps
    assert one_step_delta(1.0, 0.1, eps) <= 1e-5
    assert one_step_delta(1.0, 0.1, 0.99 * eps) > 1e-5


# For people


def test_numbers_are_shown_rounded_up():
    assert show_number(0.123456789) == "0.123457"
    assert show_number(1.0000001) == "1.00001"
    assert show_number(0.1 + 0.2) == "0.3"
    assert show_number(0.0) == "0"
    assert show_number(1e-9) == "1e-09"
    assert show_number(12345678.0) == "1.23457e+07"
    assert show_number(math.inf) == "inf"
    total = compose([charge(ZCDP(rho=0.1))])
    assert str(total) == "eps 2.71549, delta 1e-09 (rho 0.1), add-remove, exact"


def test_covers_forgives_rounding_only():
    assert covers(0.3, 0.1 + 0.2)
    assert not covers(0.3, 0.3 * (1 + 1e-8))
