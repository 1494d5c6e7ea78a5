"""One price in statement, ledger, verify and visit: mu for rounded Gaussian noise and selections.

Taken for granted, and tested: what is charged in mu is drawn from a law that has one; a cap counts
one currency whatever was chosen after looking; what earlier versions charged in rho stays in rho.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from marginalsyn.access.prepaid_budget import PrepaidBudget
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.certificates.measured import verify
from marginalsyn.contract import make_config, make_weights
from marginalsyn.errors import BudgetError, UsageError
from marginalsyn.host import calibrate, generate, weigh
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import GDP, ZCDP, Approximate, Charge, Neighbours, Pure
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.gdp import eps_of_mu, mu_of, selection_mu
from marginalsyn.privacy.laws import DiscreteGaussian
from marginalsyn.privacy.noise import SeededBits, make_noise
from marginalsyn.privacy.rounded_normal import RoundedGaussian
from marginalsyn.privacy.zcdp import eps_of, rho_of
from marginalsyn.records.entries import Cap
from marginalsyn.records.ledger import Ledger
from marginalsyn.release.folder import Release
from marginalsyn.table.schema import Schema
from marginalsyn.weights.columns import publish

SCHEMA = Schema.from_domain({"a": 4, "b": 3, "c": 2}).model_copy(update={"label": "c"})
FRAME = pd.DataFrame(
    np.random.default_rng(0).integers(0, [4, 3, 2], (400, 3)), columns=SCHEMA.names
)


def charge(cost: Any, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Charge:
    return Charge(mechanism="m", cost=cost, neighbours=neighbours)


# -- the budget -----------------------------------------------------------------------------------


def test_what_has_no_price_in_mu_is_never_paid_from_a_charge_in_mu() -> None:
    ledger = Ledger(None)
    table = PrivateTable.open(FRAME, SCHEMA, ledger=ledger)
    with table.charge([charge(GDP(mu=0.5))], noise=make_noise(1)) as visit:
        counts = visit.counts(["a"])
        with pytest.raises(BudgetError, match="has no price in mu"):
            visit.draw(DiscreteGaussian(100.0), counts, l2=1.0)
        with pytest.raises(BudgetError, match="has no price in mu"):
            visit.pay("mine", rho=1e-9)
        assert visit.payments == []
        visit.measure(["a"], sigma=4.0)
        visit.draw(visit.gaussian(np.full(4, 4.0)), counts, whitened_l2=0.25)
        assert [p["mu"] for p in visit.payments] == pytest.approx([0.25, 0.25], rel=1e-12)
        assert {law for p in visit.payments for law in p["laws"]} == {"rounded Gaussian"}
        left = 0.5**2 - 2 * 0.25**2
        with pytest.raises(BudgetError, match="must be covered"):
            visit.measure(["b"], sigma=1 / math.sqrt(left) * (1 - 1e-6))
        visit.measure(["b"], sigma=1 / math.sqrt(left))
        assert visit.remaining == pytest.approx(0.0, abs=1e-12)


def test_a_charge_in_rho_draws_as_it_did_and_takes_payments_in_mu_too() -> None:
    prepaid = PrepaidBudget([charge(ZCDP(rho=0.01))])
    assert not prepaid.exact
    prepaid.pay("m", mu=0.1)
    assert prepaid.left("rho") == pytest.approx(0.005)
    prepaid.pay("m", eps=0.1, bounded_range=True)
    assert "mu" not in prepaid.entries[1]
    assert prepaid.left("rho") == pytest.approx(0.005 - 0.1**2 / 8)


def test_selections_cost_their_mu_and_a_promise_in_rho_is_kept_too() -> None:
    mu = math.sqrt(2) * selection_mu(0.3)
    prepaid = PrepaidBudget([charge(GDP(mu=mu, rho=2 * 0.3**2 / 8))])
    prepaid.pay("select", eps=0.3, bounded_range=True)
    # In mu there is room for this noise, in rho there is none.
    with pytest.raises(BudgetError, match="must be covered"):
        prepaid.pay("gaussian", mu=selection_mu(0.3))
    prepaid.pay("select", eps=0.3, bounded_range=True)
    with pytest.raises(BudgetError, match="must be covered"):
        prepaid.pay("select", eps=1e-3, bounded_range=True)
    (spent,) = prepaid.spent()
    assert spent.mu == pytest.approx(mu)
    assert spent.rho == pytest.approx(2 * 0.3**2 / 8)


@pytest.mark.parametrize("sigma", [0.4, 1.7, 12.5, np.array([0.9, 30.0])])
def test_the_draws_have_the_law_at_the_new_scale_and_no_other(sigma: Any) -> None:
    size, source = 60_000, SeededBits(np.random.SeedSequence(5))
    zeros = np.zeros((size, np.size(sigma)), dtype=np.int64)
    drawn = RoundedGaussian(sigma).draw(zeros, source)

    def misfit(values: np.ndarray, scale: float) -> float:
        reach = max(math.ceil(4 * scale), 2)
        edges = np.concatenate([[-np.inf], np.arange(-reach, reach + 1) + 0.5, [np.inf]])
        expected = np.diff(stats.norm.cdf(edges / scale)) * size
        observed = np.histogram(values, bins=edges)[0]
        keep = expected > 5
        expected = np.append(expected[keep], max(expected[~keep].sum(), 1e-9))
        observed = np.append(observed[keep], observed[~keep].sum())
        return float(stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue)

    for column, scale in zip(drawn.T, np.atleast_1d(sigma), strict=True):
        assert misfit(column, float(scale)) > 1e-4
        for wrong in (0.95, 1.05):  # what the price saved is seen
            assert misfit(column, float(scale) * wrong) < 1e-6


# -- totals and caps ------------------------------------------------------------------------------


def test_mixed_ledgers_add_up_in_rho_and_never_the_other_way_round() -> None:
    old, new = charge(ZCDP(rho=0.02)), charge(GDP(mu=0.2))
    assert compose([new, new]).eps == eps_of_mu(math.hypot(0.2, 0.2) * (1 + 1e-15), 1e-9)
    both = compose([old, new])
    assert both.mu is None
    assert both.rho == pytest.approx(0.04)
    assert both.eps == pytest.approx(eps_of(0.04, 1e-9))
    assert old.mu is None
    # Pure noise and selections have a price in every currency; the least counts.
    pure = compose([new, charge(Pure(eps=0.5, bounded_range=True))])
    assert pure.mu == pytest.approx(math.hypot(0.2, selection_mu(0.5)))
    assert pure.eps <= eps_of_mu(pure.mu, 1e-9)
    # A delta of its own is taken from the whole, and a replaced row is two.
    rough = compose([new, charge(Approximate(eps=0.0, delta=4e-10))], 1e-9)
    assert rough.eps == pytest.approx(eps_of_mu(0.2, 6e-10))
    assert rough.delta == pytest.approx(1e-9)
    replaced = compose([new], 1e-9, Neighbours.REPLACE)
    assert replaced.eps == pytest.approx(eps_of_mu(0.4, 1e-9))


def test_a_cap_in_mu_is_met_exactly_and_counts_nothing_else() -> None:
    ledger = Ledger(None)
    ledger.set_cap(1.0)
    whole = mu_of(1.0, 1e-9)
    assert ledger.read().cap.mu == whole
    ledger.charge([charge(GDP(mu=whole / 2))] * 2)
    # The adversary of two currencies: rho has a price, and by it there would be room.
    assert compose([*ledger.read().charges, charge(ZCDP(rho=1e-4))]).rho < rho_of(1.0, 1e-9)
    before = list(ledger.read().lines)
    with pytest.raises(BudgetError, match=r"counts mu, in which.*--currency rho"):
        ledger.charge([charge(ZCDP(rho=1e-4))])
    assert ledger.read().lines == before, "a refused charge is written nowhere"
    ledger.charge([charge(GDP(mu=whole / 2))] * 2)
    with pytest.raises(BudgetError, match=r"mu 0\.181978 of 0\.181975"):
        ledger.charge([charge(GDP(mu=1e-3))])
    assert ledger.read().of_the_cap() == "mu 0.181975 of 0.181975"


def test_the_currency_of_a_cap_stays_until_somebody_names_another() -> None:
    ledger = Ledger(None)
    ledger.set_cap(1.0, currency="rho")
    for eps in (None, 2.0, None, 0.5):
        ledger.set_cap(eps)
    assert ledger.read().cap.currency == "rho"
    ledger.set_cap(1.0, currency="mu")
    assert ledger.read().cap.currency == "mu"
    # A charge without a price in mu keeps a ledger from counting it.
    ledger = Ledger(None)
    ledger.charge([charge(ZCDP(rho=1e-4))])
    with pytest.raises(UsageError, match=r"currency \(mu\) must be one that every charge"):
        ledger.set_cap(1.0, currency="mu")
    ledger.set_cap(1.0)
    assert ledger.read().cap.currency == "rho"


def test_a_cap_of_an_earlier_version_goes_on_counting_rho(tmp_path: Path) -> None:
    limit = rho_of(1.0, 1e-9)
    line = {"record": "cap", "time": "", "previous": None, "eps": 1.0, "delta": 1e-9, "rho": limit}
    cap = Cap.model_validate_json(json.dumps(line))
    assert cap.currency == "rho"
    ledger = Ledger(tmp_path / "ledger")
    ledger.set_cap(1.0, currency="rho")
    # A run in mu costs mu^2 / 2 of it: the whole eps does not fit, but a little less does.
    with pytest.raises(BudgetError, match=r"rho 0\.0165.* of 0\.01497"):
        ledger.charge([charge(GDP(mu=mu_of(1.0, 1e-9)))])
    ledger.charge([charge(GDP(mu=math.sqrt(2 * limit) * (1 - 1e-12)))])
    assert ledger.read().of_the_cap() == "rho 0.0149731 of 0.0149731"


# -- one price everywhere -------------------------------------------------------------------------


def release_of(tmp_path: Path, ledger: Ledger, method: str = "aim", **options: Any) -> Release:
    table = PrivateTable.open(FRAME, SCHEMA, ledger=ledger)
    config = make_config(method, {"rows": 50, **options})
    made, statement = generate(table, config, Budget(eps=1), noise=make_noise(3))
    return Release.write(made, made.schema or SCHEMA, statement, tmp_path / "release")


def test_statement_ledger_and_verify_say_the_same_also_after_weights(tmp_path: Path) -> None:
    ledger = Ledger(None)
    release = release_of(tmp_path, ledger, rounds=3)
    weighted = weigh(
        release,
        make_weights("beta-noised", {"noise": "gaussian"}),
        Budget(eps=0.5),
        PrivateTable.open(FRAME, SCHEMA, ledger=ledger),
        noise=make_noise(4),
    )
    release = publish(release, weighted, noise=make_noise(4))
    statement, total = release.statement, ledger.total()
    assert statement.mu == pytest.approx(total.mu)
    assert total.mu == pytest.approx(math.hypot(mu_of(1, 1e-9), mu_of(0.5, 1e-9)))
    assert statement.eps == pytest.approx(total.eps)
    assert total.eps == pytest.approx(eps_of_mu(statement.mu, 1e-9))
    assert math.hypot(*(p["mu"] for p in statement.payments)) == pytest.approx(statement.mu)
    assert verify(release.path) == []
    assert [row["cost"].split(" (")[0] for row in ledger.read().summary()] == [
        "mu 0.181975",
        "mu 0.0936865",
    ]


def test_verify_derives_the_price_from_the_recorded_draws(tmp_path: Path) -> None:
    statement = release_of(tmp_path, Ledger(None), "independent").statement
    assert statement.problems() == []

    def problems(**changes: Any) -> str:
        first, *rest = statement.payments
        changed = statement.model_copy(update={"payments": ({**first, **changes}, *rest)})
        return "; ".join(changed.problems())

    mu, sigma = statement.payments[0]["mu"], statement.payments[0]["sigma"]
    assert "must cover its draw" in problems(mu=mu * 0.9)
    assert "must cover its draw" in problems(sigma=sigma / 2)
    assert "charges must cover the payments" in problems(mu=mu * 1.1, rho=mu**2)
    assert "in numbers" in problems(sigma=None)
    assert "in numbers" in problems(l2="x")
    assert "discrete Gaussian noise has no mu" in problems(laws=["discrete Gaussian"])
    # Noise of no scale, half a row's influence, and prices that are left out or too low.
    assert "in numbers" in problems(sigma=-math.inf)
    assert "counts that a row moves by 1" in problems(l2=0.5)
    assert "must cover its draw" in problems(rho=mu**2 / 2.1)
    assert "prices in numbers" in problems(mu=None)
    assert "prices in numbers" in problems(rho=None)
    less = [{k: v for k, v in p.items() if k not in ("mu", "l2")} for p in statement.payments]
    assert "in numbers" in "; ".join(statement.model_copy(update={"payments": less}).problems())
    assert "rho (0.001) must be" in "; ".join(
        statement.model_copy(update={"rho": 0.001}).problems()
    )
    tiny = statement.model_copy(update={"target_delta": 1e-16})
    pure = tiny.model_copy(update={"eps": tiny.total().eps, "delta": 0.0})
    assert "delta (0.0) must be" in "; ".join(pure.problems())
    assert "mu (0.1) must be" in "; ".join(statement.model_copy(update={"mu": 0.1}).problems())


def test_private_categories_add_their_delta_and_what_is_left_states_its_own_eps() -> None:
    column = {"kind": "categorical", "name": "code", "categories": "private"}
    two = {"kind": "categorical", "name": "s", "categories": ["x", "y"]}
    schema = Schema(columns=(column, two))
    frame = pd.DataFrame({"code": ["u", "v"] * 300, "s": ["x", "x", "y"] * 200})
    ledger = Ledger(None)
    _, statement = generate(
        PrivateTable.open(frame, schema, ledger=ledger),
        make_config("auto", {"rows": 20}),
        Budget(eps=1),
        noise=make_noise(1),
    )
    kinds = [c.cost.kind for c in statement.charges]
    assert kinds == ["gdp", "approximate", "gdp"]
    spent = [c.cost for c in statement.charges]
    mu = math.hypot(spent[0].mu, spent[2].mu)
    assert statement.eps == pytest.approx(eps_of_mu(mu, 1e-9 - spent[1].delta), rel=1e-9)
    assert 0.999 < statement.eps <= 1
    assert statement.delta <= 1e-9
    # The generator's own share states the eps that follows from its mu, at its own delta.
    mechanism, _ = calibrate(make_config("auto", {}), schema, Budget(eps=1))
    rest = mechanism.rest
    assert rest.mu == spent[2].mu
    assert rest.eps == eps_of_mu(rest.mu, rest.delta) != rest.pure
