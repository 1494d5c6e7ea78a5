"""Strata: every pair is also served within the values of one or two columns."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Synthesizer
from marginalsyn.errors import SchemaError, UsageError
from marginalsyn.generators.auto import AutoConfig
from marginalsyn.generators.clique_tree import CliqueTreeConfig
from marginalsyn.plugins.audit.testkit.generators import run_generator
from marginalsyn.plugins.reports.marginal_errors import marginal_errors
from marginalsyn.plugins.reports.marginals_report import strata_errors
from marginalsyn.privacy.budget import Budget
from marginalsyn.table.codec import Codec
from marginalsyn.table.design import CodedRows
from marginalsyn.table.schema import Schema

DOMAIN = {"region": 6, **dict.fromkeys("abcdef", 5)}
SCHEMA = Schema.from_domain(DOMAIN)


def table(rows=3000, seed=0):
    """Six columns that differ by region, two of them strongly related in all regions."""
    rng = np.random.default_rng(seed)
    region = rng.integers(0, 6, rows)
    shares = np.random.default_rng(9).dirichlet(np.full(5, 2.0), size=(6, 6))
    frame = {"region": region}
    for j, name in enumerate("abcdef"):
        reach = shares[j][region].cumsum(axis=1)
        frame[name] = (rng.random((rows, 1)) > reach).sum(axis=1).clip(max=4)
    frame["b"] = np.where(rng.random(rows) < 0.6, frame["a"], frame["b"])
    return pd.DataFrame(frame)


def within(frame, schema=SCHEMA):
    real, made = (CodedRows.of(f, schema) for f in (table(), frame))
    return np.mean([*strata_errors(real, made, ["region"], seed=0)[0].values()])


def test_each_column_is_measured_within_the_strata_and_all_costs_the_charge():
    schema, budget = SCHEMA.stratified("region"), Budget(eps=1.0)
    done = run_generator(CliqueTreeConfig, table(), schema, eps=1.0)
    payments = done.statement.payments
    plan = CliqueTreeConfig().configure(schema, budget).plan
    assert [*plan.split] == ["one-way", "select", "strata", "measure"]
    assert sum(p["mu"] ** 2 / 2 for p in payments) == pytest.approx(budget.gaussian)
    paid = sum(p["mu"] ** 2 / 2 for p in payments if p["purpose"] == "strata")
    assert paid == pytest.approx(plan.split["strata"])
    measured = [tuple(q) for q in done.statement.notes["measured"]]
    assert {("region", name) for name in "abcdef"} <= {*measured}
    assert len({*measured}) == len(measured)
    assert plan.facts["by"] == ["region"]


def test_what_noise_would_drown_within_strata_is_left_to_the_choice():
    schema, options = SCHEMA.stratified("region"), {"merge": 0}
    done = run_generator(CliqueTreeConfig, table(40), schema, options=options, eps=0.1)
    assert "strata" not in {p["purpose"] for p in done.statement.payments}
    few = run_generator(AutoConfig, table(40), schema, eps=0.5).statement
    assert few.notes["choice"]["method"] == "fixed-marginals"
    assert few.notes["measured"] == [["region", name] for name in "abcdef"]


def test_a_hierarchy_holds_in_every_row_and_adds_up():
    """Each county lies in one state: what is released of a state is the sum of its counties."""
    states = {0: [0, 1, 2], 1: [3, 4], 2: [5]}
    impossible = [
        {"state": s, "county": [c for c in range(6) if c not in counties]}
        for s, counties in states.items()
    ]
    rows = table().rename(columns={"region": "county"})
    rows.insert(0, "state", np.array([0, 0, 0, 1, 1, 2])[rows["county"]])
    domain = {"state": 3, "county": 6, **dict.fromkeys("abcdef", 5)}
    schema = Schema(**{**Schema.from_domain(domain).model_dump(), "impossible": impossible})
    fitted = Synthesizer(schema=schema, by=["state", "county"], eps=1, seed=1).fit(rows)
    made = fitted.synthetic_
    assert fitted.schema_.by == ("state", "county")
    assert (made["state"] == np.array([0, 0, 0, 1, 1, 2])[made["county"]]).all()
    measured = {m.columns for m in fitted.measurements_}
    assert {(by, name) for by in ("state", "county") for name in "abcdef"} <= measured
    single = [*itertools.product(["state"], "abcdef")]
    codes = [Codec(schema).encode(frame) for frame in (rows, made)]
    assert max(marginal_errors(*codes, domain, workload=single).values()) < 0.15


def test_strata_are_named_in_the_schema_or_by_the_caller():
    schema = SCHEMA.stratified("region, a")
    assert schema.by == ("region", "a")
    assert Schema.from_json(schema.to_json()) == schema
    assert schema.select(["a", "b"]).by == ("a",)
    assert '"by"' not in SCHEMA.to_json()
    assert schema.stratified(()).by == ("region", "a")
    for wrong in ("regio", "a,b,c"):
        with pytest.raises(SchemaError, match=r"by .* must be one or two of region, a, b"):
            SCHEMA.stratified(wrong)
    for schema, by in ((SCHEMA, "region"), (SCHEMA.stratified("region"), None)):
        with pytest.raises(UsageError, match=r"mst.* cannot serve strata \(by region\)"):
            Synthesizer(schema=schema, method="mst", by=by).fit(table())


def test_errors_within_strata_are_those_of_the_rows_of_each_stratum():
    one, two = (CodedRows.of(table(600, seed), SCHEMA) for seed in (1, 2))
    found, fresh = strata_errors(one, two, ["region"], seed=0)
    assert [*found] == [*fresh] == [f"region {code}" for code in range(6)]
    parts = [t.codes[t.codes[:, 0] == 2] for t in (one, two)]
    errors = [
        sum(
            abs(*np.diff([(p[:, q] == cell).all(axis=1).mean() for p in parts]))
            for cell in itertools.product(range(5), repeat=2)
        )
        for q in itertools.combinations(range(1, 7), 2)
    ]
    assert found["region 2"] == pytest.approx(np.mean(errors))
    absent = CodedRows.of(table(600, 2).query("region != 3"), SCHEMA)
    assert strata_errors(one, absent, ["region"], seed=0)[0]["region 3"] == 2
