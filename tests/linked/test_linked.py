"""Releases of linked tables: numbers of children, first rows, transitions, gaps and effects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from clinic_tables import PATIENTS, TREE, VISITS, clinic, write

from marginalsyn import (
    Budget,
    LinkedRelease,
    LinkedSchema,
    PrivateForest,
    Release,
    generate,
    make_config,
    make_noise,
    sample_linked,
    verify,
)
from marginalsyn.errors import MarginalsynError, ReleaseError, SchemaError, UsageError
from marginalsyn.people.views import views_of
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import Unit


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> LinkedRelease:
    forest = PrivateForest.open(clinic(), TREE)
    found, statement = generate(forest, make_config("auto"), Budget(eps=60), noise=make_noise(1))
    assert forest.ledger.total().rho == pytest.approx(statement.rho)
    path = tmp_path_factory.mktemp("linked") / "release"
    return LinkedRelease.write(found.frames, found.measurements, found.model, TREE, statement, path)


def shares(values: pd.Series, of: list[object]) -> np.ndarray:
    return values.value_counts(normalize=True).reindex(of, fill_value=0).to_numpy()


def test_a_release_holds_what_it_says(made: LinkedRelease) -> None:
    assert verify(made.path) == []
    tables = LinkedRelease.read(made.path).frames()
    assert tables["visits"]["id"].isin(tables["patients"]["id"]).all()
    assert tables["drugs"]["vid"].isin(tables["visits"]["vid"]).all()
    assert "at most 6 rows of visits" in made.statement.unit
    assert made.statement.eps == pytest.approx(60)
    views = [view.name for view in views_of(TREE)]
    assert list(made.measurements()) == views
    with pytest.raises(ReleaseError, match="must hold one table"):
        Release.read(made.path)


def test_numbers_of_children_and_effects_across_links_are_right(made: LinkedRelease) -> None:
    real, drawn = clinic(), made.frames()
    for tables in (real, drawn):
        counts = tables["visits"]["id"].value_counts()
        tables["patients"]["visits"] = tables["patients"]["id"].map(counts).fillna(0)
    for sex in (0, 1):
        one = shares(real["patients"].query(f"sex == {sex}")["visits"], list(range(7)))
        other = shares(drawn["patients"].query(f"sex == {sex}")["visits"], list(range(7)))
        assert np.abs(one - other).sum() / 2 < 0.05

    def effect(tables: dict[str, pd.DataFrame]) -> float:
        rows = tables["drugs"].merge(tables["visits"], on="vid").merge(tables["patients"], on="id")
        by_sex = rows.assign(a=rows["code"] == "a").groupby("sex")["a"].mean()
        return float(by_sex[1] - by_sex[0])

    assert effect(drawn) == pytest.approx(effect(real), abs=0.08)


def test_sequences_begin_go_on_and_stay_as_they_do(made: LinkedRelease) -> None:
    def about(tables: dict[str, pd.DataFrame]) -> tuple[float, float, np.ndarray]:
        rows = tables["visits"].merge(tables["patients"], on="id")
        rows = rows.assign(day=pd.to_datetime(rows["day"])).sort_values(["id", "day"])
        first = rows.groupby("id").head(1)
        begins = float((first[first["sex"] == 1]["ward"] == "w0").mean())
        later = rows[rows["id"].eq(rows["id"].shift())]
        before = rows["ward"].shift()[later.index]
        gaps = (rows["day"] - rows["day"].shift()).dt.days[later.index]
        assert (gaps >= 0).all()
        return begins, float((later["ward"] == before).mean()), gaps.to_numpy()

    real, drawn = about(clinic()), about(made.frames())
    assert drawn[0] > 0.9
    assert drawn[1] == pytest.approx(real[1], abs=0.05)
    assert np.mean(drawn[2]) == pytest.approx(np.mean(real[2]), rel=0.1)


def test_more_persons_and_those_of_a_kind_cost_nothing(made: LinkedRelease) -> None:
    rng = np.random.default_rng(0)
    found = sample_linked(made, 50, rng, where="sex=1,number of visits=3..6")
    assert len(found["patients"]) == 50
    assert found["patients"]["sex"].eq(1).all()
    assert found["visits"]["id"].value_counts().between(3, 6).all()
    assert len(sample_linked(made, None, rng)["patients"]) == pytest.approx(3000, rel=0.05)
    with pytest.raises(UsageError, match="must name a column"):
        sample_linked(made, 5, rng, where="ward=w0")


def test_the_commands(run: Callable[..., Result], folder: Path) -> None:
    write(folder, clinic(300), TREE)
    source = ("--data", "clinic", "--schema", "clinic.schema.json")
    planned = run("generate", *source, "--eps", 2, "--dry-run").output
    assert "visits next" in planned
    for word in ("Workload", "Model", "Noise deviation of one-way marginals"):
        assert word in planned
    planned = json.loads(run("generate", *source, "--eps", 2, "--dry-run", "--json").output)
    assert planned["shares"]["visits next"] == pytest.approx(1 / 6)
    assert sum(planned["split"].values()) == pytest.approx(planned["mu"] ** 2 / 2)
    assert (
        planned["facts"]["noise deviation of one-way marginals"].keys() == planned["split"].keys()
    )
    run("generate", *source, "--eps", 2, "--holdout", 0.2, "--out", "made", "--seed", 1)
    assert "verified" in run("verify", "made").output
    assert "of patients, at most 6 rows each" in run("show", "made").output
    assert json.loads(run("show", "made", "--json").output)["tables"]["patients"] > 0
    run("sample", "made", "--rows", 20, "--out", "more", "--where", "sex=1")
    assert len(pd.read_csv(folder / "more" / "patients.csv")) == 20
    for wrong in (
        ("generate", *source, "--eps", 1, "--unit", "id", "--max-rows", 3, "--out", "x"),
        ("generate", *source, "--eps", 1, "--method", "independent", "--out", "x"),
        ("generate", *source, "--eps", 1, "--neighbours", "replace", "--out", "x"),
        ("sample", "made", "--rows", 20),
    ):
        run(*wrong, code=2)
    # Whether weights pay is left to auto: here persons are weighted in any case.
    assert "a new charge" in run("weight", "made", "--method", "rake", "--eps", 1).output


def test_sequences_of_one_table_by_the_command(run: Callable[..., Result], folder: Path) -> None:
    tables = clinic(400)
    rows = tables["visits"].merge(tables["patients"], on="id").drop(columns="vid")
    rows.to_csv(folder / "visits.csv", index=False)
    Schema(columns=(*PATIENTS.columns, *VISITS.columns), drop=("id",)).write(folder / "s.json")
    asked = ("generate", "--data", "visits.csv", "--schema", "s.json", "--eps", 20, "--seed", 1)
    unit = ("--unit", "id", "--max-rows", 6, "--order", "day", "--sequence", "--constant", "sex")
    run(*asked, *unit)
    made = LinkedRelease.read(folder / "release").frames()
    assert list(made) == ["persons", "visits"]
    assert list(made["visits"]) == ["id", "day", "ward"]
    days = pd.to_datetime(made["visits"]["day"])
    assert (days.groupby(made["visits"]["id"]).diff().dropna() >= pd.Timedelta(0)).all()
    run(*asked, "--unit", "id", "--max-rows", 6, "--sequence", "--out", "x", code=2)


def test_a_key_of_a_public_table_is_a_category_with_its_attributes(folder: Path) -> None:
    from marginalsyn.operations.linked import resolved

    pd.DataFrame({"code": ["a", "a", "b"], "kind": ["old", "new", "new"]}).to_csv(
        folder / "codes.csv", index=False
    )
    data = json.loads(TREE.to_json())
    kinds = {"kind": "categorical", "name": "kind", "categories": ["old", "new"], "other": False}
    data["tables"][2]["lookups"] = [
        {"column": "code", "file": "codes.csv", "key": "code", "columns": [kinds]}
    ]
    tree = resolved(LinkedSchema.from_json(json.dumps(data)), folder)
    assert tree.table("drugs").lookups[0].values == (("a", ("old",)), ("b", ("new",)))
    assert LinkedSchema.from_json(tree.to_json()) == tree
    forest = PrivateForest.open(clinic(400), tree)
    found, _ = generate(forest, make_config("aim"), Budget(eps=20), noise=make_noise(1))
    assert list(found.frames["drugs"]) == ["vid", "code"]
    names = [m.columns for m in found.measurements["drugs first"]]
    assert ("drugs.code.kind",) in names


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"parent": "nobody"}, "must be a table"),
        ({"parent": "drugs"}, "must have a key|circle"),
        ({"max_children": 0}, "max_children"),
        ({"link": None}, "link must name"),
        ({"order": "when"}, "order"),
        ({"name": "a b"}, "plain word"),
        ({"schema": Schema.from_domain({"vid": 2})}, "keys are made up"),
        ({"schema": PATIENTS.with_unit(Unit(column="x", max_rows=2))}, "no unit"),
        (
            {"schema": VISITS.changed(margins=({"columns": "ward", "shares": {"w0": 1}},))},
            "no margins",
        ),
        (
            {"schema": VISITS.changed(survey_weight={"column": "w", "bound": 9})},
            "no survey_weight",
        ),
        ({"parent": None, "link": None, "max_children": 0, "order": None}, "must be one, the root"),
    ],
)
def test_a_schema_that_contradicts_itself_is_refused(change: dict, named: str) -> None:
    from dataclasses import replace

    tables = [TREE.tables[0], replace(TREE.tables[1], **change), TREE.tables[2]]
    with pytest.raises(SchemaError, match=named):
        LinkedSchema(tuple(tables))


@pytest.mark.parametrize("empty", ["drugs", "visits", "patients"])
def test_tables_without_rows_fail_no_other_way_than_full_ones(empty: str) -> None:
    data = clinic(30)
    data[empty] = data[empty].head(0)
    forest = PrivateForest.open(data, TREE)
    made, _ = generate(forest, make_config("auto"), Budget(eps=1), noise=make_noise(1))
    assert len(made.frames["patients"]) > 0


def test_methods_and_relations_that_cannot_are_refused_before_anything_is_charged() -> None:
    forest = PrivateForest.open(clinic(20), TREE)
    for config, budget in (
        (make_config("mst"), Budget(eps=1)),
        (make_config("aim"), Budget(eps=1, neighbours="replace")),
        (make_config("aim", {"workload": "w.json"}), Budget(eps=1)),
    ):
        with pytest.raises(MarginalsynError):
            generate(forest, config, budget, noise=make_noise(1))
    assert not forest.ledger.made()
