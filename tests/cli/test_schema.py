"""``marginalsyn schema``: drafts, checks, and bounds bought with privacy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import clinic_tables
import numpy as np
import pytest
from click.testing import Result

from marginalsyn import Budget, Neighbours, PrivateTable, Schema, make_noise
from marginalsyn.errors import SchemaError, UsageError
from marginalsyn.privacy.composition import compose
from marginalsyn.purchases.bounds import Bins, Bounds
from marginalsyn.purchases.purchase import buy

Run = Callable[..., Result]


def test_linked_tables_are_checked_one_by_one_and_their_keys(run: Run, folder: Path) -> None:
    clinic_tables.write(folder, clinic_tables.clinic(60), clinic_tables.TREE)
    run("schema", "check", "clinic", "clinic.schema.json")
    places = {name: folder / "clinic" / f"{name}.csv" for name in ("patients", "visits", "drugs")}
    for name, lines in {
        "patients": ["0,1", ",1"],  # a double key, and none
        "visits": ["0,1,2020-01-02,w1", "900,77,2020-01-02,w1", ",1,2020-01-02,elsewhere"],
        "drugs": ["900,a", "888,b", ",c"],  # a parent that is an orphan itself, none, no link
    }.items():
        places[name].write_text(places[name].read_text() + "\n".join(lines) + "\n")
    found = run("schema", "check", "clinic", "clinic.schema.json", "--json")
    tables = json.loads(found.stdout)["tables"]
    odd = ("unlinked", "orphans", "keyless", "double", "shared")
    counted = {name: [sums.get(what) for what in odd] for name, sums in tables.items()}
    assert counted == {
        "patients": [1, 0, 0, 1, None],
        "visits": [0, 1, 1, 1, 1],
        "drugs": [1, 2, None, None, None],
    }
    assert tables["visits"]["columns"]["ward"]["unseen"] == 1
    said = run("schema", "check", "clinic", "clinic.schema.json").stderr
    assert "drugs: orphans (2) are left out" in said
    assert "not private" in said
    # Rules between a table and those above it, and of one table, count their rows.
    rows = clinic_tables.clinic(60)
    for name, frame in rows.items():
        frame.to_csv(places[name], index=False)
    rules = ("patients.sex = 1 -> visits.ward = w0", "drugs.code != c or patients.sex = 0")
    tree = json.loads((folder / "clinic.schema.json").read_text())
    (folder / "ruled.json").write_text(json.dumps({**tree, "rules": [*rules]}))
    sex = rows["patients"].set_index("id")["sex"]
    of_visit = rows["visits"].set_index("vid")["id"].map(sex)
    moved = (rows["visits"]["id"].map(sex) == 1) & (rows["visits"]["ward"] != "w0")
    given = (rows["drugs"]["code"] == "c") & (rows["drugs"]["vid"].map(of_visit) == 1)
    counted = json.loads(run("schema", "check", "clinic", "ruled.json", "--json").stdout)["tables"]
    assert [*counted["visits"]["rules"].values()] == [moved.sum()]
    assert [*counted["drugs"]["rules"].values()] == [given.sum()]
    assert "rows that break it" in run("schema", "check", "clinic", "ruled.json").stdout
    places["drugs"].write_text(places["drugs"].read_text().replace("code", "kode", 1))
    wrong = run("schema", "check", "clinic", "clinic.schema.json", "--json", code=1)
    assert "'kode'" in json.loads(wrong.stdout)["problems"][0]


def test_values_that_rules_exclude_are_named_before_a_charge(
    run: Run, people: Path, monkeypatch: Any
) -> None:
    schema = Schema.read(people.parent / "people.json")
    schema.with_rules(["age < 30 -> ill = yes", "age < 30 -> ill = no"]).write("ruled.json")
    line = "can occur in no row that keeps the rules: age < 30 -> ill = yes; age < 30 -> ill = no"
    assert line in run("schema", "check", "people.csv", "ruled.json").stderr
    how = ("generate", "--data", "people.csv", "--eps", "5", "--method", "independent")
    dry = run(*how, "--schema", "ruled.json", "--dry-run", "--json")
    assert any(line in warning for warning in json.loads(dry.stdout)["warnings"])
    assert line not in run(*how, "--schema", "people.json", "--dry-run").stderr
    charged = []

    def charge(*_: Any, **__: Any) -> None:
        charged.append(True)
        raise UsageError("stopped where the run would charge")

    monkeypatch.setattr("marginalsyn.host.generate", charge)
    assert line in run(*how, "--schema", "ruled.json", code=2).stderr
    assert charged


class TestInfer:
    def test_a_draft_says_that_it_is_not_private(self, run: Run, people: Path) -> None:
        result = run("schema", "infer", "people.csv", "--label", "ill")
        draft = json.loads(result.stdout)
        assert draft["drafted_from_data"] is True
        assert "NOT PRIVATE" in draft["warning"]
        assert "NOT PRIVATE" in result.stderr
        assert draft["label"] == "ill"
        kinds = {column["name"]: column["kind"] for column in draft["columns"]}
        assert kinds["id"] == "identifier"
        for name, kind in kinds.items():
            assert re.search(rf"{name} +{kind} ", result.stderr), name

    def test_a_file_is_not_overwritten(self, run: Run, people: Path) -> None:
        before = (people.parent / "people.json").read_bytes()
        refused = run("schema", "infer", "people.csv", "--out", "people.json", code=2)
        assert "--force" in refused.stderr
        assert (people.parent / "people.json").read_bytes() == before
        run("schema", "infer", "people.csv", "--out", "people.json", "--force")
        assert Schema.read(people.parent / "people.json").drafted_from_data


def test_no_hint_repeats_a_password(run: Run, folder: Path, monkeypatch: Any) -> None:
    """What is said of a database names it without its password."""
    import pandas as pd

    from marginalsyn.drafting import check, draft

    frame = pd.DataFrame({"a": [1, 2, 2], "b": ["x", "y", "y"]})
    draft_schema = draft.draft_schema
    monkeypatch.setattr(draft, "draft_schema", lambda data, *a, **k: draft_schema(frame))
    monkeypatch.setattr(check, "propose_rules", lambda *a, **k: ())
    address = "postgres://ann:s3cr3t@host/db?table=t"
    told = run("schema", "infer", address, "--out", "d.json").stderr
    assert "schema check postgres://ann@host/db?table=t d.json" in told
    refused = run("generate", "--data", address, "--eps", "1", code=2).stderr
    assert "s3cr3t" not in told + refused
    assert "PGPASSWORD" in told


def test_a_huge_field_is_no_open_quote(run: Run, folder: Path) -> None:
    (folder / "big.csv").write_text("a,b\n1,2\n" + "x" * 3_000_000 + ",3\n")
    told = run("schema", "infer", "big.csv", code=1).stderr
    assert "line 3) must have no line beyond 2 MB" in told


class TestCheck:
    def test_a_wrong_layout_exits_with_1(self, run: Run, people: Path) -> None:
        people.write_text("id,age,income,ward\n1,2,3,A\n", encoding="utf-8")
        result = run("schema", "check", "people.csv", "people.json", code=1)
        assert "ill" in result.stdout


class TestBuy:
    def test_bounds_are_charged_and_counted_by_releases(self, run: Run, people: Path) -> None:
        asked = ("schema", "buy-bounds", "people.csv", "people.json", "--column", "income")
        result = run(*asked, "--eps", 5, "--cells", 100, "--out", "new.json")
        assert result.stdout == "new.json\n"
        new, old = Schema.read("new.json"), Schema.read("people.json")
        assert new.column("income").lower >= 0  # type: ignore[union-attr]
        assert new.column("income").upper <= 1000  # type: ignore[union-attr]
        assert new.column("age") == old.column("age")
        spent = json.loads(run("ledger", "show", "--data", "people.csv", "--json").stdout)
        assert spent["eps"] == pytest.approx(5, rel=1e-6)
        assert spent["entries"][0]["run"] == "schema buy-bounds"

        asked = ("generate", "--data", "people.csv", "--schema", "new.json", "--eps", 1)
        run(*asked, "--method", "independent")
        statement = json.loads((people.parent / "release" / "privacy.json").read_text())
        total = json.loads(run("ledger", "show", "--json").stdout)
        assert statement["eps"] == pytest.approx(total["eps"], rel=1e-8)
        assert statement["eps"] > 5
        assert len(statement["charges"]) == 2
        assert "files verified" in run("verify").stdout

    def test_a_plan_spends_nothing(self, run: Run, people: Path) -> None:
        planned = run("schema", "buy-bounds", "people.csv", "people.json", "--eps", 1, "--dry-run")
        assert "bounds of age, income" in planned.stdout
        assert "quantiles of income" in planned.stdout
        assert not (people.parent / ".marginalsyn").exists()
        assert "nothing spent" in run("ledger", "show", "--data", "people.csv").stdout

    def test_python_buys_the_same_and_pays_the_same(self, folder: Path, people: Path) -> None:
        import pandas as pd

        from marginalsyn import Ledger, buy_bounds, buy_max_rows

        schema = Schema.read("people.json")
        for data in (pd.read_csv("people.csv"), "people.csv"):
            given = {"eps": 5, "columns": ["income"], "ledger": f"{type(data).__name__}.sqlite"}
            new = buy_bounds(data, schema, **given, out="new.json", force=True)
            assert Schema.read("new.json") == new
            assert new.column("age") == schema.column("age")
            total = Ledger(Path(given["ledger"])).total(1e-9, Neighbours.ADD_REMOVE)
            assert total.eps == pytest.approx(5, rel=1e-6)
        with pytest.raises(UsageError, match=r"add unit=COLUMN"):
            buy_max_rows(data, schema, eps=1)
        with pytest.raises(UsageError, match="eps must be given"):
            buy_bounds(data, schema)
        with pytest.raises(UsageError, match="schema must be"):
            buy_bounds(data, eps=1)

    def test_bins(self, run: Run, people: Path) -> None:
        asked = ("schema", "buy-bins", "people.csv", "people.json", "--column", "age")
        run(*asked, "--eps", 50, "--bins", 4, "--out", "new.json")
        edges = Schema.read("new.json").column("age").edges  # type: ignore[union-attr]
        assert len(edges) == 5
        assert np.abs(edges[1:4] - [22, 44, 67]).max() < 8

    def test_the_cap_is_refused_before_anything_is_read(self, run: Run, people: Path) -> None:
        run("ledger", "cap", "--data", "people.csv", "--eps", 0.5)
        asked = ("schema", "buy-bounds", "people.csv", "people.json", "--out", "new.json")
        assert "cap" in run(*asked, "--eps", 1, code=1).stderr
        assert not (people.parent / "new.json").exists()


class TestLibrary:
    SCHEMA = Schema(
        columns=(
            {"kind": "integer", "name": "age", "lower": 0, "upper": 149, "bins": (18, 30, 65)},
            {"kind": "continuous", "name": "rate", "lower": -10, "upper": 10, "decimals": 1},
            {"kind": "boolean", "name": "ill"},
        )
    )

    def test_the_charges_are_the_budget(self) -> None:
        for relation in Neighbours:
            budget = Budget(eps=0.5, neighbours=relation)
            given = {"schema": self.SCHEMA, "budget": budget}
            for asked in (Bounds(**given), Bins(**given, bins=8)):
                assert asked.counted.domain == {"age": 150, "rate": 200}
                total = compose(asked.charges(), 1e-9, relation)
                assert total.eps == pytest.approx(0.5, rel=1e-6)
                assert total.eps <= 0.5 * (1 + 1e-9)

    @pytest.mark.parametrize("relation", list(Neighbours))
    def test_bounds_of_a_concentrated_table(self, relation: Neighbours) -> None:
        import pandas as pd

        rng = np.random.default_rng(1)
        frame = pd.DataFrame(
            {
                "age": rng.integers(20, 61, 20_000),
                "rate": rng.normal(2.0, 0.5, 20_000).round(1),
                "ill": rng.random(20_000) < 0.5,
            }
        )
        budget = Budget(eps=4, neighbours=relation)
        asked = Bounds(schema=self.SCHEMA, budget=budget, tail=0.01)
        table = PrivateTable.open(frame, asked.counted, neighbours=relation)
        new = buy(table, asked, noise=make_noise(3))
        age, rate = new.column("age"), new.column("rate")
        assert (age.lower, age.upper) == pytest.approx((20, 60), abs=3)  # type: ignore[union-attr]
        assert (rate.lower, rate.upper) == pytest.approx((0.8, 3.2), abs=0.3)  # type: ignore[union-attr]
        assert age.bins == (30,) or age.bins == (30, 65)  # type: ignore[union-attr]
        assert table.ledger.total(1e-9, relation).eps <= 4 * (1 + 1e-9)
        assert Schema.from_json(new.to_json()) == new

    def test_what_cannot_be_bought(self) -> None:
        budget = Budget(eps=1)
        with pytest.raises(SchemaError, match="ill"):
            Bounds(schema=self.SCHEMA, budget=budget, columns=["ill"])
        with pytest.raises(UsageError, match="cells"):
            Bounds(schema=self.SCHEMA, budget=budget, columns=["age"], cells=1)
        with pytest.raises(UsageError, match="numeric"):
            Bounds(schema=self.SCHEMA.select(["ill"]), budget=budget)
        with pytest.raises(UsageError, match="bins"):
            Bins(schema=self.SCHEMA, budget=budget, bins=1)


class TestUnit:
    @pytest.fixture
    def visits(self, folder: Path) -> Path:
        rng = np.random.default_rng(0)
        who = np.repeat(np.arange(70), rng.integers(1, 6, 70))
        lines = [f"P{w},{rng.integers(0, 3)},{rng.integers(0, 99)}" for w in who]
        path = folder / "visits.csv"
        path.write_text("\n".join(["patient_id,ward,age", *lines, ",1,5"]) + "\n")
        return path

    def test_infer_and_check_say_what_a_promise_for_rows_means(
        self, run: Run, visits: Path
    ) -> None:
        result = run("schema", "infer", "visits.csv", "--out", "s.json")
        assert "patient_id looks like a column that identifies persons" in result.stderr
        assert re.search(r"70 values in \d+ rows", result.stderr)
        assert "identifies persons" in run("schema", "check", "visits.csv", "s.json").stderr
        for command in (("infer", "visits.csv"), ("check", "visits.csv", "s.json")):
            assert "Each row is" not in run("schema", *command, "--unit", "row").stderr

    def test_infer_writes_the_unit_that_is_said_and_nothing_of_the_column(
        self, run: Run, visits: Path
    ) -> None:
        said = ("--unit", "patient_id", "--max-rows", "3")
        text = run("schema", "infer", "visits.csv", *said).stdout
        assert json.loads(text)["unit"]["max_rows"] == 3
        assert "P1" not in text
        Path("s.json").write_text(text)
        checked = run("schema", "check", "visits.csv", "s.json")
        assert "70 persons" in checked.stdout
        assert "1 rows belong to nobody" in checked.stdout
        assert json.loads(run("schema", "check", "visits.csv", "s.json", "--json").stdout)["unit"]
        lost = run("schema", "infer", "visits.csv", "--unit", "patient", "--max-rows", "3", code=2)
        assert "patient" in lost.stderr
        few = run("schema", "infer", "visits.csv", "--unit", "patient_id", code=2)
        assert "buy-max-rows" in few.stderr

    def test_buy_max_rows_charges_resumes_and_is_counted(
        self, run: Run, visits: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from marginalsyn.operations import files

        columns = [{"kind": "integer", "name": "ward", "lower": 0, "upper": 2}]
        schema = {"columns": columns, "drop": ["patient_id", "age"]}
        Path("s.json").write_text(json.dumps(schema))
        asked = ("schema", "buy-max-rows", "visits.csv", "s.json", "--unit", "patient_id")
        with monkeypatch.context() as patched:
            patched.setattr(files, "replace_file", _fails)
            stopped = run(*asked, "--eps", "0.5", "--cap", "9", "--out", "new.json", code=1)
        assert "--resume" in stopped.stderr
        result = run(*asked, "--resume")
        assert "unit: one person (column 'patient_id')" in result.stderr
        new = Schema.read("new.json")
        assert new.unit is not None
        assert 1 <= new.unit.max_rows <= 9
        spent = json.loads(run("ledger", "show", "--data", "visits.csv", "--json").stdout)
        assert len(spent["entries"]) == 1
        bounds = ("schema", "buy-bounds", "visits.csv", "s.json", "--column", "ward", "--eps", "1")
        result = run(*bounds, "--unit", "patient_id", "--max-rows", "4")
        assert json.loads(result.stdout)["unit"]["max_rows"] == 4
        made = ("generate", "--data", "visits.csv", "--schema", "new.json", "--method", "mst")
        told = json.loads(run(*made, "--eps", "1", "--json").stdout)
        assert told["eps"] > 1.0


def _fails(*_: object) -> None:
    raise OSError("no space left")


def test_categories_are_bought_apart_or_in_a_run(run: Run, people: Path, folder: Path) -> None:
    data = json.loads((folder / "people.json").read_text())
    for column in data["columns"]:
        if column["name"] == "ward":
            column.pop("categories")
            column.update(kind="categorical", categories="private", other=True)
    (folder / "open.json").write_text(json.dumps(data))
    asked = ("people.csv", "open.json")
    result = run("schema", "buy-categories", *asked, "--eps", "4", "--out", "listed.json")
    assert "ward: A, B, C, OTHER" in result.stderr
    assert Schema.read(folder / "listed.json").column("ward").origin == "bought"
    assert "categories of ward" in run("ledger", "show", "--data", "people.csv").stdout
    assert "open.json" not in run("schema", "check", *asked).stderr
    refused = run("schema", "buy-categories", "people.csv", "listed.json", "--eps", "1", code=2)
    assert '"categories": "private"' in refused.stderr
    named = ("generate", "--data", "people.csv", "--schema", "open.json", "--method", "independent")
    plan = run(*named, "--eps", "8", "--dry-run").stdout
    assert "categories of ward" in plan
    assert "noisy rows" in plan
    run(*named, "--eps", "8", "--out", "made")
    assert "C" in Schema.read(folder / "made" / "schema.json").column("ward").categories
    run("verify", "made")
    run("evaluate", "made", "--in-sample", "--out", "seen", "--reports", "marginals")
    run("weight", "made", "--method", "beta-noised", "--eps", "1")
