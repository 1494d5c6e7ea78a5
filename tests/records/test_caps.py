"""A cap holds against budgets chosen after looking, and says in which currency it is kept."""

from __future__ import annotations

import math

import numpy as np
import pytest

from marginalsyn import Charge, Ledger, Neighbours
from marginalsyn.errors import BudgetError, UsageError
from marginalsyn.privacy import caps
from marginalsyn.privacy.charges import GDP, ZCDP, Approximate, Pure, SubsampledGaussian
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.gdp import mu_of
from marginalsyn.privacy.zcdp import rho_of

AR, R1 = Neighbours.ADD_REMOVE, Neighbours.REPLACE
STEPS = SubsampledGaussian(noise_multiplier=2.0, rate=0.01, steps=500)


def charge(cost, neighbours=AR):
    return Charge(mechanism="m", cost=cost, neighbours=neighbours)


@pytest.mark.parametrize("eps", [0.01, 0.3, 1.0, 4.0])
def test_pure_eps_in_zcdp(eps):
    """Randomised response is the worst case of eps-DP: its divergences stay below the line."""
    p = np.array([math.exp(eps), 1]) / (1 + math.exp(eps))
    for order in (1.0001, 1.5, 2, 8, 64):
        renyi = math.log(float((p**order * p[::-1] ** (1 - order)).sum())) / (order - 1)
        assert renyi <= order * caps.zcdp_of(Pure(eps=eps)) * (1 + 1e-9)
    assert caps.zcdp_of(Pure(eps=eps, bounded_range=True)) == pytest.approx(eps**2 / 8)
    assert caps.zcdp_of(Approximate(eps=eps, delta=1e-9)) == caps.zcdp_of(Pure(eps=eps))


def test_a_cap_records_its_limit_and_is_met_exactly():
    ledger = Ledger(None)
    ledger.set_cap(1.0, currency="rho")
    assert ledger.read().cap.rho == rho_of(1.0, 1e-9)
    ledger.charge([charge(ZCDP(rho=ledger.read().cap.rho / 4))] * 4)
    with pytest.raises(BudgetError):
        ledger.charge([charge(ZCDP(rho=1e-9))])
    assert ledger.read().of_the_cap() == "rho 0.0149731 of 0.0149731"


def test_a_cap_is_not_the_best_of_all_curves():
    """Pure charges that Renyi curves would add up to less stop at the cap's own two sums."""
    cost = Pure(eps=0.5)
    ledger = Ledger(None)
    ledger.set_cap(3.0)
    ledger.charge([charge(cost)] * 6)
    with pytest.raises(BudgetError, match=r"or pure eps 3\.5 of 3"):
        ledger.charge([charge(cost)])


def test_a_charge_with_a_delta_of_its_own_needs_its_share():
    ledger = Ledger(None)
    ledger.set_cap(5.0)
    with pytest.raises(BudgetError, match="delta 1e-11 of 0"):
        ledger.charge([charge(Approximate(eps=0.1, delta=1e-11))])
    ledger.set_cap(5.0, own_delta=1e-10)
    assert ledger.read().cap.mu == mu_of(5.0, 8e-10)
    ledger.charge([charge(Approximate(eps=0.1, delta=1e-11))])
    for wrong in (-1e-12, 5e-10):
        with pytest.raises(UsageError, match="own_delta"):
            ledger.set_cap(5.0, own_delta=wrong)


def test_sampled_steps_need_a_cap_at_the_recorded_order():
    ledger = Ledger(None)
    ledger.set_cap(2.0)
    ledger.charge([charge(GDP(mu=0.04))])
    with pytest.raises(BudgetError, match="--sampled"):
        ledger.charge([charge(STEPS)])
    assert len(ledger.read().charges) == 1
    ledger.set_cap(2.0, sampled=True)
    order = ledger.read().cap.order
    assert order == caps.order_for(2.0, 1e-9)
    ledger.charge([charge(STEPS)])
    used = caps.add_up(ledger.read().charges, AR, order).renyi
    assert used >= order * 0.04**2 / 2
    assert f"Renyi divergence of order {order:g}" in ledger.read().of_the_cap()
    # The order stays, whatever cap comes next, and a ledger with sampled charges is kept at it.
    ledger.set_cap(9.0)
    assert ledger.read().cap.order == order
    with pytest.raises(BudgetError, match="order"):
        ledger.charge([charge(ZCDP(rho=5.0))])


def test_the_order_is_recorded_with_the_first_charge(tmp_path):
    ledger = Ledger(tmp_path / "l")
    ledger.charge([charge(STEPS)], delta=1e-9)
    recorded = Ledger(tmp_path / "l").read().account.order
    assert recorded == caps.best_order([charge(STEPS)], AR, 1e-9)
    ledger.set_cap(50.0)
    assert ledger.read().cap.order == recorded


@pytest.mark.parametrize("neighbours", [AR, R1])
def test_one_order_is_never_better_than_the_best(neighbours):
    mixed = [charge(c, neighbours) for c in (STEPS, ZCDP(rho=0.01), Pure(eps=0.3))]
    best = compose(mixed[:2], 1e-9, AR).eps if neighbours is AR else 0.0
    for order in (2.0, 8.0, 20.0, 64.0):
        used = caps.add_up(mixed, neighbours, order).renyi
        assert used + caps._conversion(order, 1e-9) >= best
        assert caps.renyi_limit(order, used + caps._conversion(order, 1e-9), 1e-9) == (
            pytest.approx(used)
        )


# What the filter is there for: a run that chooses its next budget after looking.


SIZE = 0.025  # of each randomised response of the first stage


def tail(order, renyi):
    """The worst last step of a Renyi divergence: (p, loss) of its one bad outcome.

    The other outcome's loss follows from both tables' probabilities adding up to one.
    """

    # Where the conversion to (eps, delta) is tight, one has e^(loss - eps) = order / (order - 1).
    def divergence(p, loss):
        rest = order * math.log1p(-p) + (1 - order) * math.log1p(-p * math.exp(-loss))
        return np.logaddexp(math.log(p) + (order - 1) * loss, rest) / (order - 1)

    def solve(loss):
        low, high = -200.0, -1e-9
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (
                (middle, high) if divergence(math.exp(middle), loss) < renyi else (low, middle)
            )
        return math.exp(low)

    return solve


def lost(eps, delta, choose):
    """The delta at eps of a play: some randomised responses, then a worst last step.

    ``choose`` says at which order the rest of the budget is spent, given the loss so far.
    """
    flips, size = 60, SIZE
    single = divergence_of_flip(size)
    found = 0.0
    for heads in range(flips + 1):
        loss = (2 * heads - flips) * size
        weight = math.comb(flips, heads) * flip(size) ** heads * (1 - flip(size)) ** (flips - heads)
        order = choose(loss)
        left = caps.renyi_limit(order, eps, delta) - flips * single(order)
        bad = eps - loss + math.log(order / (order - 1))
        p = tail(order, left)(bad)
        found += weight * p * (1 - math.exp(eps - loss - bad))
    return found


def flip(size):
    return math.exp(size) / (1 + math.exp(size))


def divergence_of_flip(size):
    p = flip(size)

    def at(order):
        terms = (p**order * (1 - p) ** (1 - order), (1 - p) ** order * p ** (1 - order))
        return math.log(sum(terms)) / (order - 1)

    return at


def test_the_least_of_several_curves_is_false_and_one_order_is_not():
    """Passing while either of two orders is within its budget loses more than the delta claimed.

    Every play is worked out exactly. Kept at one order from the first step, the same plays stay
    within; so they do where each order has half of delta.
    """
    eps, delta, orders = 3.0, 1e-5, (6.0, 16.0)
    one = [lost(eps, delta, lambda loss, a=a: a) for a in orders]
    assert all(0.5 * delta < found <= delta for found in one)

    best = max(lost(eps, delta, lambda loss, at=at: orders[loss > at]) for at in (0.2, 0.3, 0.4))
    assert best > 1.56e-5
    half = lost(eps, delta / 2, lambda loss: orders[loss > 0.4])
    assert half <= delta


def test_a_cap_without_its_limit_allows_no_zcdp():
    ledger = Ledger(None)
    ledger.set_cap(1.0)
    cap = ledger.read().cap.model_copy(update={"mu": None})
    assert caps.within(cap, [charge(Pure(eps=1.0))], AR)
    assert not caps.within(cap, [charge(ZCDP(rho=1e-6))], AR)
    assert not caps.within(cap, [charge(GDP(mu=1e-6))], AR)
