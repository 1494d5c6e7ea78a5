"""``marginalsyn generate`` end to end: what it writes, prints, spends and remembers."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Literal

import pandas as pd
import pytest
from click.testing import Result

from marginalsyn import Charge, Neighbours, PrivateTable, make_noise, registry
from marginalsyn import host as synthesis
from marginalsyn.access.ledgers import open_ledger
from marginalsyn.contract import option
from marginalsyn.errors import BudgetError
from marginalsyn.generators.independent import Independent, IndependentConfig
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.release.folder import Release
from marginalsyn.sources.source import TextSource

Run = Callable[..., Result]
HEART = ("generate", "--dataset", "heart", "--method", "independent")
PEOPLE = ("generate", "--data", "people.csv", "--schema", "people.json", "--method", "independent")


def statement(release: Path) -> dict[str, Any]:
    return json.loads((release / "privacy.json").read_text(encoding="utf-8"))


def test_release_of_a_csv_has_nothing_of_its_name(run: Run, people: Path) -> None:
    quiet = run(*PEOPLE, "--eps", 2, "--rows", 50, "--out", "r", "--format", "parquet", "--quiet")
    assert quiet.stderr == ""
    frame = pd.read_parquet(people.parent / "r" / "synthetic.parquet")
    assert list(frame.columns) == ["age", "income", "ward", "ill"]
    assert len(frame) == 50
    for file in (people.parent / "r").iterdir():
        assert b"people.csv" not in file.read_bytes()
        assert str(people.parent).encode() not in file.read_bytes()


def test_the_ledger_adds_up_and_the_cap_holds(run: Run, people: Path) -> None:
    run(*PEOPLE, "--eps", 1, "--out", "one")
    run(*PEOPLE, "--eps", 1, "--out", "two")
    shown = json.loads(run("ledger", "show", "--json").stdout)
    assert 1.2 < shown["eps"] < 2
    assert [entry["run"] for entry in shown["entries"]] == ["generate independent"] * 2
    assert shown["source"] == str(people.resolve())
    run("ledger", "cap", "--eps", 1.5)
    people.unlink()
    people.touch()  # an empty file: reading it would be another error
    people.write_text("id,age,income,ward,ill\n", encoding="utf-8")
    refused = run(*PEOPLE, "--eps", 1, "--out", "three", code=1)
    assert "cap" in refused.stderr
    assert not (people.parent / "three").exists()
    assert len(json.loads(run("ledger", "show", "--json").stdout)["entries"]) == 2
    run("ledger", "cap", "--none")
    assert json.loads(run("ledger", "show", "--json").stdout)["cap"] is None


def test_an_existing_release_needs_force(run: Run, folder: Path) -> None:
    run(*HEART, "--eps", 1)
    before = (folder / "release" / "privacy.json").read_bytes()
    refused = run(*HEART, "--eps", 1, code=1)
    assert "--force" in refused.stderr
    assert "--out" in refused.stderr
    assert (folder / "release" / "privacy.json").read_bytes() == before
    assert len(json.loads(run("ledger", "show", "--json").stdout)["entries"]) == 1
    run(*HEART, "--eps", 0.5, "--force")
    assert statement(folder / "release")["eps"] == pytest.approx(0.5, rel=1e-6)


def test_holdout_is_remembered(run: Run, people: Path) -> None:
    from marginalsyn.records.workspace import Workspace

    run(*PEOPLE, "--eps", 100, "--holdout", 0.5)
    last = Workspace.here().read_last()
    assert last["holdout"] == 0.5
    assert last["holdout_salt"]
    assert 60 < len(pd.read_csv(people.parent / "release" / "synthetic.csv")) < 140
    again = run("generate", "--dataset", "heart", "--eps", 1, "--holdout", 0.5, code=2)
    assert "--holdout" in again.stderr


def test_the_schema_of_the_last_run_is_taken_again(run: Run, people: Path) -> None:
    asked = ("generate", "--data", "people.csv", "--method", "independent", "--eps", 1)
    assert "schema infer" in run(*asked, code=2).stderr
    run(*PEOPLE, "--eps", 1)
    run(*asked, "--out", "again")


def test_diagnostics_go_to_the_evaluation_folder(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = synthesis.generate

    def chatty(*args: Any, **kwargs: Any) -> Any:
        found, said = original(*args, **kwargs)
        return dataclasses.replace(found, diagnostics={"secret_rate": 0.25}), said

    monkeypatch.setattr(synthesis, "generate", chatty)
    run(*HEART, "--eps", 1)
    kept = json.loads((folder / "evaluation" / "release.diagnostics.json").read_text())
    assert kept["secret_rate"] == 0.25
    assert "not private" in kept["stamp"]
    for file in (folder / "release").iterdir():
        assert b"secret_rate" not in file.read_bytes()
    # A release of that folder's own name is no place for them either.
    shutil.rmtree(folder / "evaluation")
    assert "must not be a release" in run(*HEART, "--eps", 1, "--out", "evaluation").stderr
    for file in (folder / "evaluation").iterdir():
        assert b"secret_rate" not in file.read_bytes()


class TestMethodOptions:
    def test_help_shows_the_method_s_options(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        register(monkeypatch)
        shown = run("generate", "--method", "probe", "--help").stdout
        assert "--depth" in shown
        assert "How deep." in shown
        assert "--no-fast" in shown
        assert "[default=2]" in shown
        assert "--hidden" not in shown
        assert "--depth" not in run("generate", "--help").stdout


PLANNED: list[Any] = []


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProbeConfig(IndependentConfig):
    """A method with options of every kind."""

    name: ClassVar[str] = "probe"

    depth: int | None = option(2, "How deep.")
    rate: float = option(0.1, "How often.")
    fast: bool = option(True, "Hurry.")
    mode: Literal["a", "b"] = option("a", "Which way.")
    names: tuple[str, ...] = option((), "Which columns.")
    pairs: tuple[tuple[str, ...], ...] = option((), "Which pairs.")
    hidden: int = option(0, "Not for the command line.", flag=False)

    def configure(self, schema: Any, budget: Any) -> Independent:
        PLANNED.append(self)
        return super().configure(schema, budget)


class ProbeEntry(metadata.EntryPoint):
    """An entry point that needs no installed distribution."""

    def load(self) -> Any:
        return ProbeConfig


def register(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Install the method ``probe``; returns the configs that were planned."""
    entry = ProbeEntry(name="probe", value="probe:ProbeConfig", group=registry.GENERATORS)
    probe = registry.Plugin(
        name="probe", kind=registry.GENERATORS, distribution="probe", version="1", entry=entry
    )
    original = registry.plugins

    def plugins(kind: str | None = None) -> list[registry.Plugin]:
        return [*original(kind), probe]

    monkeypatch.setattr(registry, "plugins", plugins)
    monkeypatch.setattr("marginalsyn.cli.command.plugins", plugins)
    PLANNED.clear()
    return PLANNED


def test_a_password_is_never_shown(run: Run, people: Path) -> None:
    asked = ("generate", "--data", "postgres://me:hunter2@nowhere.invalid/db?table=people")
    asked += ("--schema", "people.json", "--method", "independent", "--eps", 1)
    shown = run(*asked, "--dry-run")
    assert "me@nowhere.invalid" in shown.output
    assert "hunter2" not in shown.output
    assert "hunter2" not in run(*asked, code=1).output
    kept = [file for file in people.parent.rglob("*") if file.is_file()]
    assert not any(b"hunter2" in file.read_bytes() for file in kept)


REPLACE = ("--neighbours", "replace")


def test_another_relation_is_refused_before_anything_is_read(run: Run, people: Path) -> None:
    run(*PEOPLE, "--eps", 1)
    rows = people.read_text()
    people.write_text(rows.splitlines()[0] + "\n")  # whoever read it would find no row
    result = run(*PEOPLE, "--eps", 1, *REPLACE, "--out", "second", code=1)
    assert "neighbours (replace) must be add-remove, as for all other charges" in result.stderr
    assert "--void-earlier-promises" in result.stderr
    people.write_text(rows)
    bounds = ("schema", "buy-bounds", people, "people.json", "--eps", 0.1, "--out", "new.json")
    assert "all other charges in this ledger" in run(*bounds, *REPLACE, code=1).stderr
    assert len(json.loads(run("ledger", "show", "--json").stdout)["entries"]) == 1
    void = ("--void-earlier-promises", "--out", "second")
    told = run(*PEOPLE, "--eps", 1, *REPLACE, *void).stderr
    assert "void: every add-remove promise" in told
    shown = json.loads(run("ledger", "show", "--json").stdout)
    assert shown["neighbours"] == "replace"
    assert "void: every add-remove promise" in shown["marks"][0]
    assert "void: every add-remove promise" in run("ledger", "show").stdout


@pytest.mark.parametrize("unit", [(), ("--unit", "id", "--max-rows", 2)], ids=["rows", "persons"])
def test_another_hold_out_is_refused_before_anything_is_read(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch, unit: tuple[object, ...]
) -> None:
    asked = (*PEOPLE[:2], people, "--schema", people.with_suffix(".json"), *PEOPLE[5:])
    asked = (*asked, *unit, "--eps", 0.5, *REPLACE)
    how = ("--method", "beta-noised", "--eps", 0.5)
    run(*asked, "--holdout", 0.4)
    run(*asked, "--holdout", 0.4, "--out", "second")
    stated = statement(Path("release"))
    assert stated["split"].startswith("0.4 ")
    assert stated["split"] == statement(Path("second"))["split"]
    memory = json.loads(Path(".marginalsyn/workspace.json").read_text())
    salt = memory["sources"][str(people.resolve())]["holdout_salt"]
    shown = run("ledger", "show", "--json").stdout
    assert salt not in shown + json.dumps(stated)
    elsewhere = people.parent / "elsewhere"
    elsewhere.mkdir()
    bounds = ("schema", "buy-bounds", people, people.with_suffix(".json"), "--column", "age")
    bounds = (*bounds, *unit, "--eps", 0.1, *REPLACE, "--out", "new.json")
    release = people.parent / "release"
    with monkeypatch.context() as unread:
        reads = lambda self: pytest.fail("the rows are read")  # noqa: E731
        unread.setattr(TextSource, "check_format", reads)
        unread.setattr(TextSource, "connect", reads)
        for share in (0, 0.2):
            said = run(*asked, "--holdout", share, "--out", "third", code=1).stderr
            assert f"holdout ({share}) must be 0.4, and pick the same rows" in said
            assert "--void-earlier-promises" in said
        assert "holdout (0) must be 0.4" in run(*bounds, code=1).stderr
        unread.chdir(elsewhere)
        said = run(*asked, "--holdout", 0.4, "--out", "third", code=1).stderr
        assert "holdout (0.4) must be 0.4, and pick the same rows" in said
        # Nothing was remembered of the first release here, nor of a salt that would fit it.
        for what in (("weight", release, *how), ("certify", release, "--eps", 0.1)):
            assert "holdout (0) must be that" in run(*what, "--data", people, code=2).stderr
    assert run("ledger", "show", "--data", people, "--json").stdout == shown
    run("weight", "release", *how)
    if not unit:
        run("certify", "release", "--eps", 0.1)
    # Python charges the same ledger by the same rule.
    book = open_ledger(people)
    schema = Release.read(release).schema
    table = PrivateTable.open(people, schema, ledger=book, neighbours="replace")
    charge = Charge(mechanism="m", cost=ZCDP(rho=0.1), neighbours=Neighbours.REPLACE)
    with pytest.raises(BudgetError, match=r"holdout \(0\) must be 0\.4"):
        table.charge([charge], noise=make_noise(), persons=True)
    said = run(*asked, "--holdout", 0.2, "--out", "third", "--void-earlier-promises").stderr
    assert "void: every replace promise" in said
    assert "void: every replace promise" in run("ledger", "show").stdout
    # The weights of the first release would now be for other rows than the last one's.
    assert "must be 0.2" in run("weight", "release", *how, "--name", "more", code=1).stderr


def test_seeded_runs_and_drafted_schemas_are_marked(run: Run, people: Path) -> None:
    result = run(*PEOPLE, "--eps", 1, "--seed", 5, "--quiet")
    assert "seeded, not private" in result.stderr
    assert "NOT PRIVATE" in run("verify").stderr
    drafted = json.loads(Path("people.json").read_text())
    drafted["drafted_from_data"] = True
    Path("people.json").write_text(json.dumps(drafted))
    refused = run(*PEOPLE, "--eps", 1, "--out", "second", code=2)
    assert "--accept-nonprivate-schema" in refused.stderr
    assert not Path("second").exists()
    told = run(*PEOPLE, "--eps", 1, "--accept-nonprivate-schema", "--out", "second").stderr
    assert "not covered: 1 run seeded, not private" in told
    assert "not covered: 1 run on a schema drafted from the rows" in told
    assert statement(Path("second"))["schema_drafted"] is True
    entries = json.loads(run("ledger", "show", "--json").stdout)["entries"]
    marks = [(entry["seeded"], entry["drafted"]) for entry in entries]
    assert marks == [(True, False), (False, True)]
    assert "(seeded)" in run("ledger", "show").stdout


def test_the_total_says_what_it_is_and_the_cap_its_own_figure(run: Run, people: Path) -> None:
    run("ledger", "cap", "--data", people, "--eps", 2)
    told = run(*PEOPLE, "--eps", 1).stderr
    assert "(so far, if the amounts had been fixed beforehand)" in told
    assert "of its cap:      mu 0.18" in told
    shown = json.loads(run("ledger", "show", "--json").stdout)
    assert shown["total_is"] == "so far, if the amounts had been fixed beforehand"
    assert shown["of_the_cap"].startswith("mu 0.18")
    with_sampled = run("ledger", "cap", "--eps", 2, "--sampled").stderr
    assert "Renyi divergence of order" in with_sampled
