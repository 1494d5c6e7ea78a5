"""Purchases: all of a list are charged, each is made once, and what they cost goes into the schema.

Bounds, bins, categories and shapes may be bought in one visit, or each by itself.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Budget, PrivateTable, Schema, make_noise
from marginalsyn.errors import BudgetError
from marginalsyn.privacy.noise import SeededNoise
from marginalsyn.purchases.bounds import Bins, Bounds
from marginalsyn.purchases.categories import Categories
from marginalsyn.purchases.purchase import Purchase, buy, buy_all, charges_of
from marginalsyn.purchases.shapes import Shapes

SCHEMA = Schema(
    columns=(
        {"kind": "categorical", "name": "code", "categories": "private"},
        {"kind": "integer", "name": "gain", "lower": 0, "upper": 9999, "shape": "private"},
        {"kind": "integer", "name": "age", "lower": 0, "upper": 999},
    )
)


def rows() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "code": rng.choice(["A", "B"], 4000),
            "gain": np.where(rng.random(4000) < 0.5, 0, rng.integers(2900, 3100, 4000)),
            "age": rng.integers(20, 61, 4000),
        }
    )


def wanted(eps: float = 8) -> list[Purchase]:
    budget = Budget(eps=eps).part(0.2)
    return [
        Categories(schema=SCHEMA, budget=budget),
        Shapes(schema=SCHEMA, budget=budget),
        Bounds(schema=SCHEMA, budget=budget, columns=["age"], tail=0.01),
        Bins(schema=SCHEMA, budget=budget, columns=["age"], bins=3),
    ]


def test_each_purchase_of_a_visit_is_charged_and_made_once() -> None:
    asked, noise = wanted(), SeededNoise(4)
    table = PrivateTable.open(rows(), SCHEMA)
    charges = charges_of(asked, noise)
    with table.charge(charges, noise=noise) as visit:
        found = buy_all(asked, SCHEMA, visit, noise)
        paid = list(visit._prepaid.entries)
    assert list(found.charges) == charges == list(table.ledger.read().charges)
    for purchase in asked:
        for charge in purchase.charges():
            if charge.rho is not None:
                words = {charge.purpose, charge.purpose.replace("quantiles", "quantile")}
                mine = [entry["rho"] for entry in paid if entry["purpose"] in words]
                assert math.fsum(mine) > 0.99 * charge.rho
    assert math.fsum(entry["rho"] for entry in paid) <= sum(c.rho or 0 for c in charges) * (
        1 + 1e-9
    )
    assert found.column("code").categories == ("A", "B")
    assert found.column("gain").shape is not None
    assert 15 <= found.column("age").lower <= 22
    assert 58 <= found.column("age").upper <= 66


@pytest.mark.parametrize("place", range(4))
def test_each_purchase_alone_is_in_the_schema_that_it_completes(place: int) -> None:
    purchase = wanted()[place]
    table = PrivateTable.open(rows(), purchase.counted)
    found = buy(table, purchase, noise=make_noise())
    assert list(found.charges) == list(table.ledger.read().charges)
    # The open columns that were not bought are left to others.
    assert list(found.open) == ([] if isinstance(purchase, Categories) else ["code"])
    with table.charge(purchase.charges(), noise=make_noise()) as visit:
        buy_all([purchase], SCHEMA, visit, None)
        with pytest.raises(BudgetError, match="covered"):
            buy_all([purchase], SCHEMA, visit, None)


def test_a_run_buys_what_its_schema_leaves_open_and_no_more() -> None:
    budget = Budget(eps=1)
    assert Categories.open_in(SCHEMA) == ["code"]
    assert Shapes.open_in(SCHEMA) == ["gain"]
    assert Bounds.open_in(SCHEMA) == ()
    share = Categories.within(SCHEMA, budget).budget.gaussian
    assert share == pytest.approx(0.2 * budget.gaussian)
