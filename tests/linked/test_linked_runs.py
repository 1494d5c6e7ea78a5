"""Runs on linked tables that end early: what is kept, what is paid, and what may go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import Result
from clinic_tables import TREE, VISITS, clinic, write

from marginalsyn import (
    Budget,
    Charge,
    Ledger,
    LinkedRelease,
    LinkedSchema,
    PrivateForest,
    PrivateTable,
    Unit,
    generate,
    make_config,
    make_noise,
)
from marginalsyn.errors import (
    BudgetError,
    DataError,
    Interrupted,
    LedgerError,
    MarginalsynError,
    UsageError,
)
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.records.resume import RunRecorder
from marginalsyn.records.runs import Journal
from marginalsyn.table.schema import Schema


class Stopping:
    """Stops a run as Ctrl-C does, when it comes to a view."""

    def __init__(self, view: str) -> None:
        self.view = view

    def report(self, stage: str, *, fraction: float | None = None, text: str = "") -> None:
        if (stage, text) == ("view", self.view):
            raise KeyboardInterrupt


def attempt(folder: Path, *, resume: bool, stop: str = "", **changes: Any) -> Any:
    """A run on a clinic of 80 persons that is begun, or goes on, with some things changed."""
    asked = {
        "data": clinic(80),
        "tree": TREE,
        "eps": 8.0,
        "config": make_config("clique-tree", {"rows": 20}),
        "ledger": folder / "ledger",
        "noise": make_noise(5),
        "salt": "salt",
        **changes,
    }
    ledger = Ledger(asked["ledger"])
    forest = PrivateForest.open(
        asked["data"], asked["tree"], ledger=ledger, holdout=0.2, holdout_salt=asked["salt"]
    )
    with RunRecorder(folder, command="generate", source="clinic", resume=resume) as recorder:
        made, statement = generate(
            forest,
            asked["config"],
            Budget(eps=asked["eps"]),
            noise=asked["noise"],
            recorder=recorder,
            progress=Stopping(stop),
        )
        recorder.finish()
    return made, statement, ledger


def fewer(tree: LinkedSchema) -> LinkedSchema:
    root, visits, drugs = tree.tables
    return LinkedSchema((root, replace(visits, max_children=5), drugs))


def without_a_row(table: str) -> dict[str, pd.DataFrame]:
    data = clinic(80)
    return {**data, table: data[table].iloc[1:]}


def test_a_run_goes_on_only_with_the_same_questions_on_the_same_rows(tmp_path: Path) -> None:
    whole, stated, _ = attempt(tmp_path / "whole", resume=False)
    with pytest.raises(Interrupted, match="answers so far are kept"):
        attempt(tmp_path, resume=False, stop="drugs first")
    for changes, error, named in (
        ({"data": without_a_row("drugs")}, DataError, "must be as it was"),
        ({"data": without_a_row("patients")}, DataError, "must be as it was"),
        ({"tree": fewer(TREE)}, UsageError, "options must be those"),
        ({"eps": 9.0}, UsageError, "eps was 8.0, is 9.0"),
        ({"config": make_config("aim", {"rows": 20})}, UsageError, "method was"),
        ({"config": make_config("clique-tree", {"rows": 21})}, UsageError, "parameters was"),
        ({"salt": "another"}, UsageError, "holdout"),
        ({"ledger": tmp_path / "other"}, LedgerError, "must hold the charge"),
        ({"noise": make_noise(6)}, UsageError, "seed was 5, is 6"),
    ):
        with pytest.raises(error, match=named):
            attempt(tmp_path, resume=True, **changes)
    found, statement, ledger = attempt(tmp_path, resume=True)
    for name, frame in whole.frames.items():
        pd.testing.assert_frame_equal(found.frames[name], frame)
    assert statement == stated
    assert len(ledger.read().entries) == 1
    assert ledger.total().rho == pytest.approx(statement.rho)
    with pytest.raises(UsageError, match="must have an interrupted run"):
        attempt(tmp_path, resume=True)


def test_answers_that_are_paid_are_not_drawn_again(tmp_path: Path) -> None:
    """Without a seed: what was measured before the stop stands in the release as it was."""
    with pytest.raises(Interrupted):
        attempt(tmp_path, resume=False, stop="visits next", noise=make_noise())
    (path,) = (tmp_path / "journals").glob("*.journal")
    journal = Journal.read(path)
    kept = [journal.answer(number).value for number in range(len(journal))]
    journal.close()
    found, statement, ledger = attempt(tmp_path, resume=True, noise=make_noise())
    measured = [one for view in ("patients", "visits first") for one in found.measurements[view]]
    for one in measured:
        assert any(
            answer.shape == one.values.shape and (answer / 2**20 == one.values).all()
            for answer in kept
        ), one.columns
    assert len(ledger.read().entries) == 1
    assert {payment["view"] for payment in statement.payments} == set(found.measurements)


@pytest.mark.parametrize("linked", [True, False])
def test_a_run_that_is_not_yet_written_is_drawn_again_as_it_was(
    linked: bool, tmp_path: Path
) -> None:
    """Without a seed, rows come from the stream of the run that began, also a person's several."""
    tables = clinic(60)
    unit = Unit(column="id", max_rows=4)
    schema = Schema(**{**VISITS.model_dump(), "drop": ["vid"]}).with_unit(unit)
    found = []
    for resume in (False, True):
        ledger = Ledger(tmp_path / "ledger")
        source: Any = (
            PrivateForest.open(tables, TREE, ledger=ledger)
            if linked
            else PrivateTable.open(tables["visits"], schema, ledger=ledger)
        )
        with RunRecorder(tmp_path, command="generate", resume=resume) as recorder:
            config, noise = make_config("clique-tree"), make_noise()
            made, _ = generate(source, config, Budget(eps=8), noise=noise, recorder=recorder)
            # Killed here, before the release is written and the run is ended.
        found.append(made.frames if linked else {"rows": made.frame})
    for name, frame in found[0].items():
        pd.testing.assert_frame_equal(found[1][name], frame)


def test_first_counts_stop_a_run_and_the_rest_is_not_spent(
    run: Callable[..., Result], folder: Path
) -> None:
    """Counts and gaps may lie at an end, as the number of drugs does here."""
    wards = VISITS.model_dump(mode="json")
    wards["columns"][1]["categories"] = ["surgery"]
    root, visits, drugs = TREE.tables
    tree = LinkedSchema((root, replace(visits, schema=Schema(**wards)), drugs))
    write(folder, clinic(500), tree)
    source = ("--data", "clinic", "--schema", "clinic.schema.json", "--method", "clique-tree")
    said = run("generate", *source, "--eps", 30, "--rows", 20, code=1).output
    assert "column visits.ward is" in said
    assert "OTHER" in said
    assert not (folder / "release").exists()
    (file,) = (folder / ".marginalsyn" / "ledgers").glob("*.sqlite")
    ledger, whole = Ledger(file), Budget(eps=30).gaussian
    assert 0.3 * whole < float(ledger.total().rho or 0) < 0.45 * whole
    assert "stopped after its first counts" in run("ledger", "show").output
    run("generate", *source, "--eps", 30, "--rows", 20, "--go-on")
    assert ledger.total().rho == pytest.approx(whole)
    assert len(ledger.read().entries) == 1
    assert LinkedRelease.read(folder / "release").statement.eps == pytest.approx(30)


def test_what_persons_are_asked_goes_on_with_the_same_tables_and_hold_out(tmp_path: Path) -> None:
    charge = [Charge(mechanism="test", cost=ZCDP(rho=0.1))]

    def ask(resume: bool, salt: str = "a", table: str = "") -> None:
        data = without_a_row(table) if table else clinic(80)
        forest = PrivateForest.open(
            data, TREE, ledger=Ledger(tmp_path / "ledger"), holdout=0.5, holdout_salt=salt
        )
        with RunRecorder(tmp_path, command="weight", resume=resume) as recorder:
            table_of = forest.persons_table()
            table_of.charge(charge, noise=make_noise(), persons=True, recorder=recorder)

    ask(False)
    with pytest.raises(DataError, match="must be as it was"):
        ask(True, table="drugs")
    with pytest.raises(UsageError, match="holdout"):
        ask(True, salt="b")
    ask(True)


def test_what_a_schema_cost_for_rows_does_not_add_up_with_persons() -> None:
    bought = Charge(mechanism="quantiles", purpose="bounds of day", cost=ZCDP(rho=0.1))
    root, visits, drugs = TREE.tables
    paid = Schema(**{**VISITS.model_dump(), "charges": [bought]})
    ledger = Ledger(None)
    tree = LinkedSchema((root, replace(visits, schema=paid), drugs))
    forest = PrivateForest.open(clinic(20), tree, ledger=ledger)
    config = make_config("clique-tree")
    with pytest.raises(BudgetError, match="do not add up"):
        generate(forest, config, Budget(eps=1), noise=make_noise(1))
    assert not ledger.made()
    persons = bought.model_copy(update={"details": {"unit": TREE.family.noun}})
    paid = Schema(**{**VISITS.model_dump(), "charges": [persons]})
    tree = LinkedSchema((root, replace(visits, schema=paid), drugs))
    forest = PrivateForest.open(clinic(20), tree, ledger=ledger)
    _, statement = generate(forest, config, Budget(eps=1), noise=make_noise(1))
    assert statement.charges[0] == persons
    assert statement.rho == pytest.approx(Budget(eps=1).gaussian + 0.1)


def test_tables_that_do_not_fit_together_are_no_release(monkeypatch: pytest.MonkeyPatch) -> None:
    from marginalsyn.linked.drawing import ForestModel

    draw = ForestModel.draw

    def wrong(self: Any, *given: Any, **how: Any) -> dict[str, pd.DataFrame]:
        tables = draw(self, *given, **how)
        return {**tables, "visits": tables["visits"].assign(id=10**9)}

    monkeypatch.setattr(ForestModel, "draw", wrong)
    forest = PrivateForest.open(clinic(40), TREE)
    with pytest.raises(MarginalsynError, match=r"broke its contract.*must have a parent"):
        generate(forest, make_config("clique-tree"), Budget(eps=4), noise=make_noise(1))
