"""Columns that tell persons apart are noticed, and the number of their rows is bought.

Taken for granted, and tested: one person moves every rank by one at most, whatever the person's
rows; what was bought for persons is never added up with what is bought for rows.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.drafting.draft import draft_schema
from marginalsyn.errors import BudgetError, SchemaError, UsageError
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.noise import make_noise
from marginalsyn.purchases.bounds import Bins, Bounds
from marginalsyn.purchases.purchase import Purchase, buy, whole_counts
from marginalsyn.purchases.quantiles import MaxRows, cell_scores, rank_scores
from marginalsyn.records.ledger import Ledger
from marginalsyn.sources.persons import WHOLE
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import Unit

BASE = Schema.from_domain({"a": 3})


def visits(persons: int = 60, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(persons), rng.integers(1, 9, persons))
    return pd.DataFrame({"patient_id": who, "a": rng.integers(0, 3, len(who))})


def table_of(frame: pd.DataFrame, schema: Schema) -> PrivateTable:
    return PrivateTable.open(frame.reset_index(drop=True), schema)


def bought(frame: pd.DataFrame, asked: Purchase, seed: int | None = None) -> Schema:
    return buy(table_of(frame, asked.counted), asked, noise=make_noise(seed))


def test_a_draft_notices_persons_with_several_rows_and_keeps_their_names_out() -> None:
    frame = visits().assign(visit_id=np.arange(len(visits())))
    draft = draft_schema(frame)
    assert [one.name for one in draft.repeats] == ["patient_id"]
    assert (draft.repeats[0].values, draft.repeats[0].rows) == (60, len(frame))
    assert draft.schema.drop == ("patient_id",)
    assert "several rows" in draft.schema.drop_reasons["patient_id"]
    assert not draft_schema(visits().drop_duplicates("patient_id")).repeats
    assert draft_schema(frame.rename(columns={"patient_id": "Patient"})).schema.drop == ("Patient",)
    # Who asks for it gets it.
    assert "patient_id" in draft_schema(frame, keep=["patient_id"]).schema.names


@pytest.mark.parametrize("relation", list(Neighbours))
def test_one_person_moves_every_rank_by_one_at_most(relation: Neighbours) -> None:
    """Both for the number of rows and for a column of them, with 1 row or with 50."""
    frame, rng = visits(), np.random.default_rng(1)
    counted = BASE.with_unit(Unit(column="patient_id", max_rows=6))
    for rows in (1, 50):
        joined = pd.DataFrame({"patient_id": -1, "a": rng.integers(0, 3, rows)})
        other = pd.DataFrame({"patient_id": -2, "a": rng.integers(0, 3, 2)})
        before = frame if relation is Neighbours.ADD_REMOVE else pd.concat([frame, other])
        for schema, column in ((counted, "a"), (counted, "rows_of_person")):
            found = []
            for one in (before, pd.concat([frame, joined])):
                with table_of(one, schema).charge(
                    [_charge()], noise=make_noise(), persons=True
                ) as visit:
                    found.append(whole_counts(visit, column))
            for q in (0.05, 0.5, 0.95):
                limit = max(q, 1 - q) if relation is Neighbours.ADD_REMOVE else 1.0
                for score in (rank_scores, cell_scores):
                    moved = np.abs(score(found[0], q) - score(found[1], q)).max() / WHOLE
                    assert moved <= limit + 1e-12


def _charge() -> object:
    from marginalsyn.privacy.charges import ZCDP, Charge

    return Charge(mechanism="test", cost=ZCDP(rho=0.01))


def test_max_rows_is_a_quantile_of_persons_and_costs_what_was_given() -> None:
    """9 in 10 persons have 3 rows, one in ten has 60: rows would say otherwise."""
    k = np.where(np.arange(2000) % 10 == 0, 60, 3)
    frame = pd.DataFrame({"patient_id": np.repeat(np.arange(2000), k)}).assign(a=0)
    for tail, most in ((0.2, 3), (0.05, 50)):
        asked = MaxRows(schema=BASE, budget=Budget(eps=1), unit="patient_id", cap=50, tail=tail)
        table = table_of(frame, asked.counted)
        found = buy(table, asked, noise=make_noise())
        assert found.unit == Unit(column="patient_id", max_rows=most)
        assert found.names == (["a", "rows_of_person"])
        total = table.ledger.total()
        assert total.eps == pytest.approx(1.0, rel=1e-6)
        assert total.eps <= 1.0 + 1e-9
        (charge,) = found.charges
        assert charge.details["unit"] == "persons by column 'patient_id'"
    _, statement = generate(
        table_of(frame, found), make_config("mst"), Budget(eps=1), noise=make_noise()
    )
    assert statement.eps > 1.0
    assert not statement.problems()


def test_the_number_of_rows_is_drawn_by_the_exponential_mechanism() -> None:
    """Frequencies against the exact softmax; 2,000 draws, chi-square at 1e-6 or better."""
    from scipy.stats import chisquare

    from marginalsyn.privacy.zcdp import exponential_eps

    frame, budget = visits(40), Budget(eps=0.8)
    asked = MaxRows(schema=BASE, budget=budget, unit="patient_id", cap=8, tail=0.3)
    table = table_of(frame, asked.counted)
    noise, seen = make_noise(5), np.zeros(8)
    for _ in range(400):
        found = buy(table, asked, noise=noise)
        assert found.unit is not None
        seen[found.unit.max_rows - 1] += 1
    persons = np.bincount(frame.groupby("patient_id").size().clip(upper=8), minlength=9)[1:]
    scores = cell_scores(persons, 0.7)
    weights = np.exp(exponential_eps(budget.rho) * scores / (2 * 0.7))
    assert chisquare(seen, weights / weights.sum() * 400).pvalue > 1e-6
    wrong = np.exp(1.6 * exponential_eps(budget.rho) * scores / (2 * 0.7))
    assert chisquare(seen, wrong / wrong.sum() * 400).pvalue < 1e-6


def test_bounds_and_bins_of_persons_are_those_of_the_persons() -> None:
    """One person with 5,000 rows at 90 moves nothing; as rows they would be all."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"patient_id": np.arange(3000), "a": rng.integers(20, 60, 3000)})
    heavy = pd.DataFrame({"patient_id": -1, "a": [95] * 5000})
    schema = Schema.from_domain({"a": 100}).with_unit(Unit(column="patient_id", max_rows=9))
    every = pd.concat([frame, heavy])
    asked = Bounds(schema=schema, budget=Budget(eps=2), tail=0.01)
    assert asked.counted.names == ["a", "rows_of_person"]
    found = bought(every, asked, seed=1)
    assert 19 <= found.column("a").lower <= 21
    assert 58 <= found.column("a").upper <= 60
    assert found.unit == schema.unit
    quarters = bought(every, Bins(schema=schema, budget=Budget(eps=4), bins=4), seed=1)
    assert np.allclose(quarters.column("a").bins, [30, 40, 50], atol=2)
    with pytest.raises(SchemaError, match="buy-max-rows"):
        Bounds(schema=schema, budget=Budget(eps=1), columns=["rows_of_person"])


def test_promises_of_two_units_are_not_added_up() -> None:
    frame, base = visits().assign(b=0), Schema.from_domain({"a": 3, "b": 2})
    counted = bought(frame, MaxRows(schema=base, budget=Budget(eps=1), unit="patient_id"))
    ledger = Ledger(None, source="here")
    for schema in (counted.with_unit(None), counted.with_unit(Unit(column="a", max_rows=2))):
        table = PrivateTable.open(frame, schema, ledger=ledger)
        with pytest.raises(BudgetError, match="do not add up"):
            generate(table, make_config("mst"), Budget(eps=1), noise=make_noise())
    assert not ledger.read().entries


def test_what_cannot_be_bought_is_said() -> None:
    for word, fields in (
        ("--unit", {}),
        ("cap", {"unit": "who", "cap": 1}),
        ("tail", {"unit": "who", "tail": 0}),
    ):
        with pytest.raises(UsageError, match=word):
            MaxRows(schema=BASE, budget=Budget(eps=1), **fields)
