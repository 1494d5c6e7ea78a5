"""Private categories: what is told, what it costs, and that one person's own values are not.

Taken for granted, and tested: a row counts in one text of each length; one row or person more moves
the counts of shared texts by at most one in l2; a text of one person alone is told with a chance
of delta at most; what is not told is written nowhere; the charge is the whole run's.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from marginalsyn import (
    Budget,
    Charge,
    Ledger,
    MarginalsynError,
    Neighbours,
    PrivateTable,
    Schema,
    Synthesizer,
    Unit,
    make_noise,
)
from marginalsyn.contract import make_config, make_weights
from marginalsyn.errors import BudgetError, SchemaError, UsageError
from marginalsyn.host import calibrate, generate, weigh
from marginalsyn.privacy.charges import ZCDP, Approximate
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.noise import SeededNoise
from marginalsyn.privacy.selection import union_delta, union_threshold
from marginalsyn.purchases.categories import Categories, open_up
from marginalsyn.purchases.purchase import buy
from marginalsyn.records.resume import RunRecorder
from marginalsyn.release.folder import Release
from marginalsyn.sources.persons import WHOLE
from marginalsyn.table.codec import Codec

CODE: dict[str, Any] = {
    "kind": "categorical",
    "name": "code",
    "categories": "private",
    "prefixes": [1, 3],
    "nullable": True,
}
SEX: dict[str, Any] = {"kind": "categorical", "name": "sex", "categories": ["f", "m"]}
SCHEMA = Schema(columns=(CODE, SEX))
COMMON = {"C34.1": 400, "C34.2": 300, "E11.9": 350, "E11.5": 8, "E10.1": 90, "J45": 5}


def rows_of(counts: dict[Any, int] = COMMON) -> pd.DataFrame:
    codes = [code for code, count in counts.items() for _ in range(count)]
    return pd.DataFrame({"code": codes, "sex": ["fm"[i % 2] for i in range(len(codes))]})


def charges(rho: float = 0.1, delta: float = 0.5) -> list[Charge]:
    return [
        Charge(mechanism="set union", cost=ZCDP(rho=rho)),
        Charge(mechanism="set union", cost=Approximate(eps=0, delta=delta)),
    ]


def exact(frame: pd.DataFrame, schema: Schema, length: int | None) -> dict[str, int]:
    table = PrivateTable.open(frame.reset_index(drop=True), schema)
    with table.charge(charges(), noise=make_noise(), persons=True) as visit:
        return visit._rows.texts("code", length)


def test_texts_are_counted_as_they_are_read() -> None:
    found = exact(
        rows_of({" E11.9 ": 2, "E11.9": 1, "NA": 3, "OTHER": 4, "": 5, "N1": 1}), SCHEMA, None
    )
    assert found == {"E11.9": 3, "N1": 1}
    # What would read as missing or as the rest is no start of anything.
    frame = rows_of({"NAB": 1, "OTHER": 1, "OTHER1": 1, "E1": 1, None: 2})
    five = Schema(columns=({**CODE, "prefixes": [2, 5]}, SEX))
    assert exact(frame, five, 2) == {"OT": 1, "E1": 1}
    assert exact(frame, five, 5) == {"NAB": 1, "E1": 1}
    # No query can name a text with a zero byte, so nobody is told one.
    assert exact(rows_of({"E1": 2, "E1\0": 3}), SCHEMA, None) == {"E1": 2}
    typed = pd.DataFrame({"code": [2139, 2139, 7], "sex": "f"})
    assert exact(typed, SCHEMA, None) == {"2139": 2, "7": 1}
    assert exact(typed, SCHEMA, 3) == {"213": 2, "7": 1}


def test_a_collation_tells_no_spelling_of_a_single_row(tmp_path: Path) -> None:
    """An engine groups such texts together, and names the group by any one of them."""
    with duckdb.connect(str(tmp_path / "t.duckdb")) as con:
        con.execute("CREATE TABLE t (code TEXT COLLATE NOCASE, sex TEXT)")
        con.execute("INSERT INTO t VALUES ('Jo', 'f'), ('jo', 'f'), ('jo', 'f')")
    table = PrivateTable.open(f"duckdb://{tmp_path / 't.duckdb'}?table=t", SCHEMA)
    with table.charge(charges(), noise=make_noise()) as visit:
        assert visit._rows.texts("code") == {"Jo": 1, "jo": 2}


@pytest.mark.parametrize("unit", [None, Unit(column="who", max_rows=3)])
def test_one_more_moves_the_counts_by_one(unit: Unit | None) -> None:
    rng = np.random.default_rng(3)
    schema = Schema(columns=SCHEMA.columns, drop=("who",)).with_unit(unit)
    whole = 1 if unit is None else WHOLE
    for trial in range(4):
        size = int(rng.integers(0, 30))
        frame = pd.DataFrame(
            {
                "code": rng.choice(["A1", "A2", "B", None], size).astype(object),
                "sex": "f",
                "who": [f"p{i}" for i in rng.integers(0, 8, size)],
            }
        )
        count = 1 if unit is None else int(rng.integers(1, 6))
        own = [f"new{trial}{i}" if rng.random() < 0.5 else "A1" for i in range(count)]
        more = pd.concat([frame, pd.DataFrame({"code": own, "sex": "f", "who": "x"})])
        for length in (None, 1):
            before, after = exact(frame, schema, length), exact(more, schema, length)
            assert set(before) <= set(after)
            moved = [after[text] - before.get(text, 0) for text in after]
            assert min(moved, default=0) >= 0
            assert sum(moved) <= whole
            new = [after[text] for text in after if text not in before]
            assert len(new) <= (1 if unit is None else unit.max_rows)
            if unit is not None and new:
                assert min(new) >= whole // min(count, unit.max_rows)


def test_a_text_of_one_row_is_told_with_the_chance_that_was_paid_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sigma, delta, runs = 2.0, 0.05, 3000
    threshold = union_threshold(sigma, delta)
    table = PrivateTable.open(rows_of({"C34.1": 40, "mine": 1}), SCHEMA)
    rho = runs * 0.5 / sigma**2 * 1.001
    paid = charges(min(rho, 1e6), 0.99)
    noise, seen, noisy = SeededNoise(11), 0, []
    with table.charge(paid, noise=noise) as visit:
        visit._prepaid._amounts["delta"] = float(runs)
        found = visit._rows.texts("code")
        assert found == {"C34.1": 40, "mine": 1}
        monkeypatch.setattr(visit._source_rows, "texts", lambda *_: found)
        for _ in range(runs):
            told = visit.texts("code", sigma, threshold, delta=delta)
            seen += "mine" in told
            noisy.append(told["C34.1"] - 40)
        assert {"mine"} >= set(told) - {"C34.1"}
        with pytest.raises(BudgetError, match="threshold"):
            visit.texts("code", sigma, threshold - 1, delta=delta)
    chance = union_delta(sigma, threshold)
    assert stats.binomtest(seen, runs, chance).pvalue > 1e-6
    # Another chance would be seen: that of the threshold below.
    assert stats.binomtest(seen, runs, union_delta(sigma, threshold - 1)).pvalue < 1e-6
    spread = np.array(noisy) + np.random.default_rng(0).random(runs) - 0.5
    true = math.sqrt(sigma**2 + 1 / 12)
    assert stats.kstest(spread / true, "norm").pvalue > 1e-6
    assert stats.kstest(spread / true * 1.5, "norm").pvalue < 1e-6


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("unit", [None, Unit(column="who", max_rows=2)])
def test_a_run_pays_for_its_categories_and_tells_all_of_it(
    tmp_path: Path, neighbours: Neighbours, unit: Unit | None
) -> None:
    frame = rows_of().assign(who=lambda rows: [f"p{i // 2}" for i in range(len(rows))])
    schema = Schema(columns=SCHEMA.columns, drop=("who",)).with_unit(unit)
    ledger, budget = Ledger(None), Budget(eps=8, neighbours=neighbours)
    table = PrivateTable.open(frame, schema, ledger=ledger, neighbours=neighbours)
    made, statement = generate(table, make_config("mst"), budget, noise=make_noise())
    assert made.schema is not None
    assert list(statement.charges) == list(ledger.read().charges)
    assert statement.eps <= 8
    assert statement.eps > 7.9
    assert statement.delta == pytest.approx(1e-9)
    union = [c for c in statement.charges if c.mechanism == "set union"]
    assert list(made.schema.charges) == union
    rho, delta = union[0].cost, union[1].cost
    sigma = union[0].details["sigma"]
    assert rho.rho == pytest.approx(3 * neighbours.l2**2 / (2 * sigma**2))
    most, whole = (1, 1) if unit is None else (2, WHOLE)
    threshold = round(union[0].details["threshold"] * whole)
    assert delta.delta >= 3 * union_delta(sigma, threshold, most, whole)
    assert delta.delta <= 2e-10
    counted = sum(line.count for line in statement.samplers if line.law == "discrete Gaussian")
    assert counted == sum(p["laws"] == ["discrete Gaussian"] for p in statement.payments)
    release = Release.write(made, schema, statement, tmp_path / "release")
    assert release.schema == made.schema
    assert not Release.read(release.path).statement.problems()
    column = release.schema.column("code")
    assert column.origin == "bought"
    assert {"C34.1", "E11.9"} <= set(column.categories) <= {*COMMON, "C34", "C", "E10", "E", "E11"}
    assert set(release.frame()["code"].dropna()) <= {*column.categories, "OTHER"}


@pytest.mark.parametrize(
    "method",
    [
        *("independent", "privbayes", "support-points-herding", "auto"),
        pytest.param("dpgan", marks=pytest.mark.slow),
    ],
)
def test_what_is_left_for_the_generator_is_the_rest(method: str) -> None:
    budget = Budget(eps=1)
    generator, total = calibrate(make_config(method), SCHEMA, budget)
    assert compose(generator.cost, budget.delta, budget.neighbours) == total
    assert 0.9 < total.eps <= 1
    assert "noisy rows" in generator.plan.facts["categories"]


def test_values_fall_back_to_what_is_listed() -> None:
    bought = {**CODE, "categories": ["E11.9", "E11", "E", "N", "O"], "origin": "bought"}
    codec = Codec(Schema(columns=(bought,)))
    given = ["E11.9", "E11.3", "E12", "E", "J45", "NA", "OTHER", None, "NAB", " E11 ", "Oh"]
    codes = codec.encode(pd.DataFrame({"code": given}))[:, 0]
    named = [codec.schema.columns[0].labels()[code] for code in codes]
    assert named == [
        *("E11.9", "E11", "E", "E", "OTHER", "missing", "OTHER", "missing", "N", "E11", "O"),
    ]
    # What is written comes back as it was.
    frame = codec.decode(np.arange(7)[:, None], np.random.default_rng(0))
    assert codec.encode(frame)[:, 0].tolist() == list(range(7))


def test_what_is_not_told_is_written_nowhere(tmp_path: Path) -> None:
    frame, budget = rows_of({**COMMON, "secret": 3}), Budget(eps=2)
    ledger = Ledger(tmp_path / "ledger.jsonl")

    class StopError(MarginalsynError):
        pass

    class Breaking:
        def report(self, stage: str, **told: Any) -> None:
            if stage == "estimate":
                raise StopError

    def run(resume: bool, progress: Any = None) -> Any:
        table = PrivateTable.open(frame, SCHEMA, ledger=ledger)
        recorder = RunRecorder(tmp_path / "kept", command="generate", source="x", resume=resume)
        with recorder:
            made = generate(
                table,
                make_config("independent"),
                budget,
                noise=make_noise(),
                progress=progress,
                recorder=recorder,
            )
            recorder.finish()
        return made

    with pytest.raises(StopError):
        run(False, Breaking())
    journal = next((tmp_path / "kept").rglob("*.journal"))
    raw = journal.read_bytes()
    assert b"C34.1" in raw
    assert b"secret" not in raw
    assert b"E11.5" not in raw
    told = [pair for text in re.findall(rb'\[\[".*?\]\]', raw) for pair in json.loads(text)]
    before = ledger.read().charges
    made, statement = run(True)
    assert ledger.read().charges == before
    # What is short is the start of codes.
    assert {code for code, _ in told if "." in code} <= set(made.schema.column("code").categories)
    assert not statement.problems()


def test_open_schemas_are_refused_where_nothing_buys_them(tmp_path: Path) -> None:
    synth = Synthesizer(method="independent", eps=4, schema=SCHEMA).fit(rows_of())
    assert not synth.schema_.open
    release = synth.release(tmp_path / "r")
    table = PrivateTable.open(rows_of(), SCHEMA)
    with pytest.raises(UsageError, match="bought first"):
        table.charge([Charge(mechanism="x", cost=ZCDP(rho=1))], noise=make_noise())
    with pytest.raises(UsageError, match="schema of the private table"):
        weigh(release, make_weights("beta-noised"), Budget(eps=1), table, noise=make_noise())
    release.weight(method="beta-noised", eps=1.0)
    for wrong in (
        {**CODE, "kind": "ordinal"},
        {**CODE, "other": False},
        {**CODE, "synonyms": {"a": "b"}},
        {**CODE, "categories": "privat"},
        {**CODE, "prefixes": [3, 1]},
    ):
        with pytest.raises(SchemaError):
            Schema(columns=(wrong,))
    with pytest.raises(SchemaError, match="categorical"):
        open_up(Schema.from_domain({"a": 3}), ["a"])
    with pytest.raises(UsageError, match="private"):
        open_up(Schema.from_domain({"a": 3}), [])


def test_they_are_bought_alone_and_counted_by_every_release() -> None:
    ledger = Ledger(None)
    public = Schema(columns=({**CODE, "categories": ["x"], "prefixes": []}, SEX))
    asked = Categories(schema=open_up(public, ["code"]), budget=Budget(eps=0.5))
    table = PrivateTable.open(rows_of(), asked.counted, ledger=ledger)
    schema = buy(table, asked, noise=make_noise(), run="buy")
    assert 0.49 < ledger.total().eps <= 0.5
    assert "C34.1" in schema.column("code").categories
    assert Schema.from_json(schema.to_json()) == schema
    again = PrivateTable.open(rows_of(), schema, ledger=ledger)
    _, statement = generate(again, make_config("independent"), Budget(eps=1), noise=make_noise())
    assert statement.charges[:2] == schema.charges
    assert statement.eps == pytest.approx(ledger.total().eps)


def test_plans_are_public_arithmetic() -> None:
    part = Budget(eps=1).part(0.2)
    plan = Categories(schema=SCHEMA, budget=part)
    assert plan.lengths == {"code": (None, 3, 1)}
    assert sum(c.rho or 0 for c in plan.charges()) == pytest.approx(part.gaussian)
    two = Schema(columns=(CODE, {**CODE, "name": "zip", "prefixes": []}))
    assert Categories(schema=two, budget=part).sigma > plan.sigma


@pytest.mark.parametrize("rows", [0, 3])
def test_points_are_found_where_no_value_was_bought(rows: int) -> None:
    """A single code, OTHER: a fault here showed whether there is a row at all."""
    schema = Schema(columns=({**CODE, "nullable": False, "prefixes": []}, SEX))
    table = PrivateTable.open(rows_of({"C34.1": 3}).iloc[:rows], schema)
    config = make_config("support-points-gp", {"rows": 20, "points": 5, "form": "slices"})
    made, _ = generate(table, config, Budget(eps=1), noise=make_noise())
    assert made.frame["code"].eq("OTHER").all()


def test_persons_of_one_row_each_have_categories() -> None:
    frame = rows_of({"C34.1": 400, "E11.9": 350}).assign(who=lambda rows: rows.index.astype(str))
    schema = Schema(columns=SCHEMA.columns, drop=("who",))
    asked = Categories(
        schema=schema.with_unit(Unit(column="who", max_rows=1)), budget=Budget(eps=4)
    )
    found = buy(PrivateTable.open(frame, asked.counted), asked, noise=make_noise())
    assert {"C34.1", "E11.9"} <= set(found.column("code").categories)
