"""A run stops before it wastes its budget; what it has paid for is not paid again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from marginalsyn import Ledger
from marginalsyn.cli import start
from marginalsyn.errors import BudgetError
from marginalsyn.records.runs import interrupted
from marginalsyn.release.folder import Release
from marginalsyn.table.frames import wasted_counts

Run = Callable[..., Result]
COLUMNS: list[dict[str, Any]] = [
    {"kind": "integer", "name": "a", "lower": 0, "upper": 4},
    {"kind": "categorical", "name": "note", "categories": ["x", "y"], "nullable": True},
    {"kind": "boolean", "name": "c", "true_label": "u", "false_label": "v"},
]


@pytest.fixture
def sparse(folder: Path) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    gone = rng.random(2000) < 0.95
    frame = pd.DataFrame(
        {
            "a": rng.integers(0, 5, 2000),
            "note": np.where(gone, "", rng.choice(["x", "y"], 2000)),
            "c": rng.choice(["u", "v"], 2000),
        }
    )
    frame.to_csv(folder / "sparse.csv", index=False)
    (folder / "sparse.json").write_text(json.dumps({"columns": COLUMNS}))
    return frame


ASKED = ("generate", "--data", "sparse.csv", "--schema", "sparse.json", "--method", "mst")


def spent(run: Run) -> float:
    return float(json.loads(run("ledger", "show", "--data", "sparse.csv", "--json").stdout)["eps"])


def test_it_stops_spends_no_more_and_goes_on_for_the_rest(
    run: Run, sparse: pd.DataFrame, folder: Path
) -> None:
    asked = (*ASKED, "--eps", "1", "--holdout", "0.2")
    stopped = run(*asked, code=1)
    assert "column note is 9" in stopped.stderr
    assert "the rest of the budget is not" in stopped.stderr
    assert not (folder / "release").exists()
    first = spent(run)
    assert 0.3 < first < 0.8
    shown = run("ledger", "show", "--data", "sparse.csv").stdout
    assert "(stopped)" in shown
    assert "marginalsyn generate --resume --go-on" in shown
    # A run that nobody insists on stays where it is.
    assert "stopped" in run("generate", "--resume", code=2).stderr
    assert spent(run) == first
    (kept,) = interrupted(folder / ".marginalsyn")
    before = kept.path.read_bytes()
    cap = ("ledger", "cap", "--data", "sparse.csv", "--eps")
    run(*cap, "0.7")
    assert "cap" in run(*asked, "--go-on", code=1).stderr
    assert spent(run) == first
    assert kept.path.read_bytes() == before
    run("ledger", "cap", "--data", "sparse.csv", "--none")
    made = run(*asked, "--go-on")
    assert "column note came out 9" in made.stderr
    assert spent(run) == pytest.approx(1.0)
    release = Release.read(folder / "release")
    assert release.statement.eps == pytest.approx(1.0)
    assert not interrupted(folder / ".marginalsyn")
    for command in ("show", "verify"):
        assert "column note came out 9" in run(command, "release").stderr
    # Who insists from the beginning never stops.
    assert run(*ASKED, "--eps", "1", "--go-on", "--out", "other").stdout.strip() == "other"


def test_a_run_is_given_up_and_its_charge_stays(
    run: Run, sparse: pd.DataFrame, folder: Path
) -> None:
    run(*ASKED, "--eps", "1", code=1)
    (kept,) = interrupted(folder / ".marginalsyn")
    assert kept.card.id[:8] in run("ledger", "runs").stdout
    (listed,) = json.loads(run("ledger", "runs", "--json").stdout)
    assert (listed["id"], listed["stopped"], "salt" in listed) == (kept.card.id, True, False)
    assert "must name one interrupted run" in run("ledger", "forget", "nothing", code=2).stderr
    before = spent(run)
    assert "its charge stays" in run("ledger", "forget", kept.card.id[:6]).stderr
    assert not list((folder / ".marginalsyn").rglob(f"{kept.card.id}*"))
    assert spent(run) == before
    assert "no interrupted run" in run("ledger", "runs").stdout
    assert "there is none here" in run("ledger", "forget", code=2).stderr


def test_the_answers_that_were_paid_for_are_those_of_the_release(
    run: Run, sparse: pd.DataFrame, folder: Path
) -> None:
    run(*ASKED, "--eps", "2", code=1)
    run("generate", "--resume", "--go-on")
    release = Release.read(folder / "release")
    one_way = [m for m in release.measurements() if len(m.columns) == 1]
    assert len(one_way) >= 3
    found = wasted_counts(one_way, release.schema)
    assert len(found) == 1
    assert "note" in found[0]
    assert len(json.loads((folder / "release" / "privacy.json").read_text())["payments"]) > 3


def test_start_asks(sparse: pd.DataFrame, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from marginalsyn.cli.main import cli

    monkeypatch.setattr(start, "_at_terminal", lambda: True)
    monkeypatch.setattr(start.click, "launch", lambda page: None)
    asked = ["start", "sparse.csv", "--method", "mst", "--label", "c", "--unit", "row"]
    asked += ["--kind", "note=categorical", "--holdout", "0"]
    answers = "\n".join(["", "public", "public", "public", "y", "n"]) + "\n"
    result = CliRunner().invoke(cli, asked, input=answers)
    assert result.exit_code == 0, result.output
    assert "Spend the rest of it all the same?" in result.stderr
    assert "What is paid is kept" in result.stderr
    assert not (folder / "release").exists()


def test_what_was_spent_as_a_whole_counts_where_a_run_stops() -> None:
    from marginalsyn.access.prepaid_budget import PrepaidBudget
    from marginalsyn.privacy.charges import ZCDP, Charge, SubsampledGaussian

    steps = SubsampledGaussian(noise_multiplier=1.0, rate=0.1, steps=5)
    trained = Charge(mechanism="steps", cost=steps)
    prepaid = PrepaidBudget([Charge(mechanism="counts", cost=ZCDP(rho=0.1)), trained])
    prepaid.pay("counts", rho=0.02)
    assert [charge.cost for charge in prepaid.spent()] == [ZCDP(rho=0.02 * (1 + 1e-15))]
    prepaid.pay_all()
    assert trained in prepaid.spent()


def test_a_settled_run_counts_again_when_it_goes_on(tmp_path: Path) -> None:
    from marginalsyn.privacy.charges import ZCDP, Charge

    def rho(amount: float) -> list[Charge]:
        return [Charge(mechanism="x", cost=ZCDP(rho=amount))]

    for path in (None, tmp_path / "ledger.jsonl"):
        ledger = Ledger(path)
        one = ledger.charge(rho(0.01), run="one", taken="a")
        ledger.advance(one, ["a"], "a", 4, "taken", rho(0.002))
        assert ledger.total().rho == 0.002
        two = ledger.charge(rho(0.005), run="two", taken="x")
        ledger.advance(two, ["x"], "y", 0)
        assert ledger.total().rho == pytest.approx(0.007)
        ledger.advance(one, ["a"], "b", 4)
        assert ledger.total().rho == pytest.approx(0.015)
        ledger.advance(one, ["b"], "b", 5, "taken", rho(0.002))
        ledger.set_cap(eps=0.8)
        with pytest.raises(BudgetError, match="cap"):
            ledger.advance(one, ["a", "b"], "c", 5)
        # What was refused has taken nothing up.
        assert ledger.read().progress[one].by == "b"
        assert ledger.total().rho == pytest.approx(0.007)
        assert not ledger.verify()
