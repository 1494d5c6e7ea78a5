"""Auto: what it chooses, by what it may know, and what it says of it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from marginalsyn.generators import auto
from marginalsyn.generators.auto import FEW, MANY, AutoConfig
from marginalsyn.plugins.audit.testkit.generators import run_generator
from marginalsyn.privacy.budget import Budget
from marginalsyn.table.schema import Schema

DOMAIN = {"a": 3, "b": 4, "c": 2, "d": 3}
SCHEMA = Schema.from_domain(DOMAIN).model_copy(update={"label": "c"})


def table(rows):
    """Columns a, b and c in a chain, d alone."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, rows)
    b = np.where(rng.random(rows) < 0.8, a, rng.integers(0, 4, rows))
    c = (rng.random(rows) < np.array([0.1, 0.4, 0.9, 0.5])[b]).astype(int)
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": rng.integers(0, 3, rows)})


def chosen(rows=2000, schema=SCHEMA, eps=1.0, **options):
    done = run_generator(AutoConfig, table(rows), schema, options=options, eps=eps)
    return done, done.statement.notes["choice"]


def test_a_wide_table_is_taken_by_batches_unless_a_workload_is_given(monkeypatch, tmp_path):
    monkeypatch.setattr(auto, "NARROW", 3)
    done, choice = chosen()
    assert choice["method"] == "aim"
    assert done.statement.notes["rounds"]
    plan = AutoConfig().configure(SCHEMA, Budget(eps=1)).plan
    assert plan.facts["chosen"] == "aim"
    assert "4 columns" in plan.facts["why"]
    file = tmp_path / "workload.json"
    file.write_text(json.dumps([["a", "b"]]), encoding="utf-8")
    done, choice = chosen(workload=str(file))
    assert choice["method"] == "clique-tree"
    assert done.statement.notes["measured"] == [["a", "b"]]


@pytest.mark.parametrize("narrow", [1, 80])
def test_whatever_is_chosen_costs_the_charge_and_no_more(monkeypatch, narrow):
    monkeypatch.setattr(auto, "NARROW", narrow)
    done, _ = chosen()
    budget = Budget(eps=1.0)
    paid = sum(payment["mu"] ** 2 / 2 for payment in done.statement.payments)
    assert paid == pytest.approx(budget.gaussian, rel=1e-9)
    assert paid <= budget.gaussian * (1 + 1e-12)
    plan = AutoConfig().configure(SCHEMA, budget).plan
    assert sum(plan.split.values()) == pytest.approx(budget.gaussian)


def test_the_choice_follows_from_paid_answers_alone():
    """Two tables that gave the same one-way answers get the same choice."""
    generator = AutoConfig().configure(SCHEMA, Budget(eps=1.0))

    class Look:
        total, domain = 321.0, DOMAIN

    assert generator.label_weight(Look()) == generator.label_weight(Look())
    totals = np.geomspace(1, 1e7, 30)
    weights = []
    for total in totals:
        Look.total = total
        weights.append(generator.label_weight(Look()))
    assert weights == sorted(weights, reverse=True)
    assert {weights[0], weights[-1]} == {FEW, MANY}


def test_a_few_rows_take_the_label_with_every_column_unjudged():
    done, choice = chosen(40)
    assert choice["method"] == "fixed-marginals"
    assert "too few to judge pairs" in choice["why"]
    assert done.statement.notes["measured"] == [["a", "c"], ["b", "c"], ["c", "d"]]
    assert "l1 errors of candidates" not in {p["purpose"] for p in done.statement.payments}
    paid = sum(p["mu"] ** 2 / 2 for p in done.statement.payments)
    assert paid == pytest.approx(Budget(eps=1.0).gaussian)
    done, choice = chosen(40, for_=["a ~ d"])
    assert done.statement.notes["measured"] == [["a", "d"]]
    unlabelled = Schema.from_domain(DOMAIN)
    assert chosen(40, schema=unlabelled)[1]["method"] == "clique-tree"
    assert chosen(40, degree=3)[1]["method"] == "clique-tree"


def test_rare_codes_are_merged_more_readily_for_a_label_that_is_a_number():
    number = Schema.model_validate(
        {
            "label": "y",
            "columns": [
                {"name": "y", "kind": "continuous", "lower": 0, "upper": 300, "bins": 20},
                {"name": "x", "kind": "categorical", "categories": ["a", "b"]},
            ],
        }
    )
    for schema, merge in ((SCHEMA, None), (number, auto.FULL_MERGE)):
        made = AutoConfig().configure(schema, Budget(eps=1))
        assert made.tree().config.merge == merge
        own = AutoConfig(merge=0.0).configure(schema, Budget(eps=1))
        assert own.tree().config.merge == 0
