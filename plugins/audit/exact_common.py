"""Exact checks of what all mechanisms share: answers, charges, conversions, held-out rows."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.errors import BudgetError, UsageError
from marginalsyn.plugins.audit.exact import Check
from marginalsyn.plugins.audit.statistics import gaussian_delta, gaussian_eps
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import ZCDP, Charge, Neighbours
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.noise import SeededNoise, make_noise
from marginalsyn.privacy.zcdp import eps_of, exponential_eps, gaussian_rho, gaussian_sigma
from marginalsyn.records.ledger import Ledger
from marginalsyn.table.schema import Schema

_AIM = ("aim",)


def payments() -> list[Check]:
    """AIM never pays more than it declared, however few or many rounds it is given."""
    from marginalsyn.contract import make_config
    from marginalsyn.host import generate

    schema = Schema.from_domain({"a": 2, "b": 3, "c": 2}).model_copy(update={"label": "c"})
    rows = np.random.default_rng(0).integers(0, [2, 3, 2], (30, 3))
    frame, worst = pd.DataFrame(rows, columns=schema.names), 0.0
    settings = ((1, 0.15, None), (2, 0.15, 0.0), (3, 0.9, 0.5), (30, 0.15, 0.5))
    for relation in Neighbours:
        budget = Budget(eps=1.0, neighbours=relation)
        for rounds, one_way, label in settings:
            config = make_config(
                "aim", {"rounds": rounds, "one_way_share": one_way, "label_share": label}
            )
            table = PrivateTable.open(frame, schema)
            _, statement = generate(table, config, budget, noise=SeededNoise(1))
            paid = math.fsum(payment["rho"] for payment in statement.payments)
            worst = max(worst, paid / budget.rho)
    return [
        Check(
            name="payments of AIM over its charge",
            methods=_AIM,
            value=worst,
            how="1 to 30 rounds, with and without the label's pairs, both relations",
        )
    ]


def relations() -> list[Check]:
    """What a replaced record moves, and what is told of the number of rows."""
    table = np.zeros((2, 3))
    table[0, 0], other = 5.0, np.zeros((2, 3))
    other[0, 0], other[1, 2] = 4.0, 1.0
    moved = np.linalg.norm(table - other) / Neighbours.REPLACE.l2
    schema = Schema.from_domain({"a": 2})
    private, told = PrivateTable.open(pd.DataFrame({"a": [0, 1, 1]}), schema), 0
    charge = Charge(mechanism="gaussian", cost=ZCDP(rho=0.1))
    visit = private.charge([charge], noise=make_noise(0))
    with visit, contextlib.suppress(BudgetError):
        told += visit.rows
    return [
        Check(name="change of a marginal by a replaced record over its bound",
              value=float(moved), bound=1.0, how="a record that moves between two cells"),
        Check(name="exact numbers of rows told under add-remove", value=float(told), bound=0.0,
              how="a visit that is asked for it"),
    ]  # fmt: skip


def conversions() -> list[Check]:
    """Stated numbers against exact ones: the Gaussian mechanism's eps, dp-accounting's meaning."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    worst, spent = 0.0, 0.0
    for rho in (0.001, 0.015, 0.2, 1.0, 10.0):
        for delta in (1e-12, 1e-9, 1e-6):
            worst = max(worst, gaussian_eps(math.sqrt(2 * rho), delta) / eps_of(rho, delta))
        spent = max(spent, gaussian_rho(gaussian_sigma(rho)) / rho)
        spent = max(spent, exponential_eps(rho) ** 2 / 8 / rho)
    apart = 0.0
    for multiplier in (0.5, 1.0, 3.0):
        accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
        accountant.compose(GaussianDpEvent(multiplier))
        exact = gaussian_delta(1 / multiplier, 0.0)
        apart = max(apart, abs(accountant.get_delta(0.0) / exact - 1))
    return [
        Check(name="exact eps of a Gaussian over the stated one", value=worst, bound=1.0,
              how="rho from 0.001 to 10, delta from 1e-12 to 1e-6"),
        Check(name="cost of a calibrated scale over what was asked", value=spent, bound=1.0,
              how="Gaussian scales and selections at five costs"),
        Check(name="the accountant's delta(0) against 2 Phi(1 / 2z) - 1", value=apart, bound=1e-3,
              how="that a multiplier means one row added or removed"),
    ]  # fmt: skip


def ledgers() -> list[Check]:
    """Charges add up; large deltas and seeds are not called private."""
    charges = [Charge(mechanism="gaussian", cost=ZCDP(rho=0.01 * k)) for k in range(1, 8)]
    ledger = Ledger(None)
    for charge in charges:
        ledger.charge([charge])
    total = ledger.total(1e-9, Neighbours.ADD_REMOVE).eps
    at_once = compose([Charge(mechanism="gaussian", cost=ZCDP(rho=0.28))], 1e-9).eps
    accepted = 0
    for rows in (303, 455, 48_842):
        with contextlib.suppress(UsageError):
            Budget(eps=1.0, delta=1.0 / rows)
            accepted += 1
    return [
        Check(name="a ledger's total against its charges at once",
              value=abs(total / at_once - 1), bound=1e-9, how="seven charges, one after the other"),
        Check(name="deltas of one over the number of rows that are taken", value=float(accepted),
              bound=0.0, how="303, 455 and 48,842 rows"),
        Check(name="seeded noises that call themselves private",
              value=float(make_noise(7).private), bound=0.0, how="a noise with a seed"),
    ]  # fmt: skip


def certificates() -> list[Check]:
    """The certified excess loss against the measured one."""
    from scipy.special import expit

    from marginalsyn.certificates.ball_fit import fit_in_ball, mean_loss
    from marginalsyn.certificates.excess import bound_excess

    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(20):
        width, radius = int(rng.integers(1, 5)), float(rng.choice([0.5, 1.0, 2.0]))
        slope = 3.0 * rng.standard_normal(width)
        tables = []
        for side in range(2):
            x = np.clip(rng.uniform(-1, 1, (200, width)) + side * 0.2 * rng.uniform(-1, 1), -1, 1)
            chance = expit(x @ slope + 0.5 * side)
            tables.append((x, np.where(rng.random(200) < chance, 1.0, -1.0)))
        (x, y), (u, v) = tables
        label = float(np.abs(x.T @ y - u.T @ v).max()) / 200
        products = {2: float(np.abs(x.T @ x - u.T @ u).max()) / 200}
        ours = fit_in_ball(u, v, radius)
        excess = mean_loss(x, y, ours.w) - fit_in_ball(x, y, radius, tolerance=1e-7).loss
        worst = max(worst, excess / bound_excess(radius, label, products, gap=ours.gap).bound)
    return [
        Check(
            name="measured excess loss over the certified one",
            value=worst,
            how="20 pairs of random tables",
        )
    ]


def holdouts() -> list[Check]:
    """Rows that an evaluation tests on are not among those that a mechanism sees."""
    schema, rows = Schema.from_domain({"id": 500}), pd.DataFrame({"id": np.arange(500)})
    shared = 0
    for relation in Neighbours:
        table = PrivateTable.open(rows, schema, holdout=0.2, neighbours=relation)
        view = table.unprotected("audit of the held-out rows")
        shared += len(set(view.frame()["id"]) & set(view.holdout_frame()["id"]))
    return [
        Check(
            name="held-out rows that a mechanism sees",
            value=float(shared),
            bound=0.0,
            how="500 rows, a fifth held out, both relations",
        )
    ]


FAMILIES = (
    (_AIM, payments),
    ((), relations),
    ((), conversions),
    ((), ledgers),
    ((), certificates),
    ((), holdouts),
)
