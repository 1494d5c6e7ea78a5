"""Bundled linked tables: what is recorded of them, what their schemas say, and the commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from marginalsyn import PrivateForest, datasets
from marginalsyn.datasets import linked
from marginalsyn.errors import DataError, UsageError


@pytest.mark.parametrize("name", linked.names())
def test_tables_are_as_recorded_and_fit_their_schema(name: str) -> None:
    facts, found = linked.describe(name), linked.load(name)
    assert [table.name for table in found.tree.tables] == list(facts["tables"])
    for table, told in facts["tables"].items():
        assert found.tables[table].shape == (told["rows"], told["columns"])
    PrivateForest.open(found.tables, found.tree).check_layout()
    assert not found.tree.drafted_from_data
    for table in found.tree.tables[1:]:
        keys = found.tables[str(table.parent)][str(found.tree.table(str(table.parent)).key)]
        assert keys.is_unique
        assert found.tables[table.name][str(table.link)].isin(keys).all()


def test_values_of_the_clinical_table_come_through_their_schema() -> None:
    found = linked.load("pbc")
    frames = PrivateForest.open(found.tables, found.tree).unprotected("test").frames()
    visits = frames["visits"]
    assert visits["stage"].between(1, 4).all()
    assert visits["day"].between(0, 5500).all()
    # Nothing is missing but what is missing in the source.
    for name in visits:
        empty = found.tables["visits"][name].eq("").sum()
        assert visits[name].isna().sum() == empty, name
    assert frames["patients"]["status"].value_counts()["dead"] == 140


def test_linked_tables_are_no_single_table_and_names_are_guessed() -> None:
    with pytest.raises(UsageError, match="datasets export pbc"):
        datasets.load("pbc")
    with pytest.raises(UsageError, match="did you mean 'flights'"):
        linked.load("flight")


def test_a_changed_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pbc").mkdir()
    for file in ("patients.csv.gz", "visits.csv.gz"):
        (tmp_path / "pbc" / file).write_bytes(
            (linked.files.HERE / "flights/planes.csv.gz").read_bytes()
        )
    (tmp_path / "linked.json").write_text((linked.files.HERE / "linked.json").read_text())
    monkeypatch.setattr(linked.files, "HERE", tmp_path)
    with pytest.raises(DataError, match="not the published file"):
        linked.export("pbc", tmp_path / "out")


def test_the_commands_list_show_and_export(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "284,170 flights" in run("datasets", "list").output
    assert json.loads(run("datasets", "list", "--json").stdout)[-1]["name"] == "pbc"
    assert "CC0" in run("datasets", "show", "flights").output
    assert run("datasets", "show", "pbc", "--json").stdout
    run("datasets", "export", "pbc")
    assert "must not hold" in run("datasets", "export", "pbc", code=2).output
    planned = run(
        *("generate", "--data", "pbc", "--schema", "pbc.schema.json", "--eps", "1", "--dry-run")
    )
    assert "at most 16 rows of visits" in planned.output
