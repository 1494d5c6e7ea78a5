"""``weight`` and ``adopt`` on a file that another tool wrote: nothing misleads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

from marginalsyn.plugins.exchange.parcel import Parcel, Part
from marginalsyn.release.folder import Release

Run = Callable[..., Result]
SCHEMA = {
    "columns": [
        {"kind": "integer", "name": "age", "lower": 0, "upper": 99, "bins": 10},
        {"kind": "categorical", "name": "visit", "categories": ["Never", "Monthly"]},
        {"kind": "boolean", "name": "ill", "true_label": "yes", "false_label": "no"},
    ]
}


@pytest.fixture
def files(folder: Path) -> Path:
    """A private table, its schema without a label, and a foreign file with five kinds of faults."""
    rng = np.random.default_rng(0)
    real = pd.DataFrame(
        {
            "age": rng.integers(0, 99, 200),
            "visit": rng.choice(["Never", "Monthly"], 200),
            "ill": rng.choice(["yes", "no"], 200),
        }
    )
    real.to_csv("people.csv", index=False)
    Path("schema.json").write_text(json.dumps(SCHEMA))
    foreign = real.astype({"age": float}).assign(extra=1)
    foreign["age"] += 0.25
    foreign.loc[:9, "visit"] = "Weekly"
    foreign["age"] = foreign["age"].astype(object)
    foreign.loc[20:22, "age"] = "2024-05-01"
    foreign.loc[30, "age"] = 140.0
    foreign.to_csv("rows.csv", index=False)
    return folder


def test_the_label_is_named_or_said_to_be_missing(run: Run, files: Path) -> None:
    asked = ("weight", "rows.csv", "--schema", "schema.json", "--data", "people.csv", "--eps", 1)
    assert "no label is named: left out are" in run(*asked, "--dry-run").stderr
    raked = run(*asked, "--dry-run", "--method", "rake").stderr
    assert "predicted: of the error in the marginals that are measured" in raked
    told = run(*asked, "--dry-run", "--label", "ill").stderr
    assert "no label" not in told
    assert "of the error in the marginals" not in told
    run(*asked, "--label", "ill")
    assert Release.read("release").schema.label == "ill"
    again = run(
        "weight",
        "--method",
        "beta-noised",
        "release",
        "--label",
        "age",
        "--data",
        "people.csv",
        "--eps",
        1,
        code=2,
    )
    assert "--label" in again.stderr


def test_the_dry_run_promises_nothing_it_cannot_know(run: Run, files: Path) -> None:
    asked = ("--data", "people.csv", "--eps", 1, "--dry-run", "--method", "beta-noised", "--json")
    told = json.loads(
        run(
            "weight", "--method", "beta-noised", "rows.csv", "--schema", "schema.json", *asked
        ).stdout
    )
    assert told["methods"][0]["kept"] is None
    assert told["methods"][0]["kept_at_most"] > 0
    # A parcel whose rows leave out half of what was measured, and one that is drawn anew.
    counts = np.full((10, 2), 10.0)
    codes = np.column_stack([np.arange(200) % 10, np.zeros(200, int), np.arange(200) % 2])
    Parcel(
        domain={"age": 10, "visit": 3, "ill": 2},
        tool="mbi 1.1.0",
        measurements=(
            Part(columns=("age", "ill"), values=counts, sigma=0.5),
            Part(columns=("visit",), values=np.array([100.0, 100, 0]), sigma=0.5),
        ),
        rows=codes,
    ).write("parcel")
    adopt = ("adopt", "parcel", "--schema", "schema.json")
    warned = run(*adopt, "--no-redraw", "--out", "kept").stderr
    assert "of the real rows lie where no row of the file is" in warned
    support = Release.read("kept").statement.notes["adopted"]["support"]
    assert support["out_of_reach"] == pytest.approx(0.5, abs=0.02)
    run(*adopt, "--out", "drawn", "-q")
    lacking = json.loads(run("weight", "--method", "beta-noised", "kept", *asked).stdout)
    assert lacking["methods"][0]["kept"] is None
    assert lacking["support"]["out_of_reach"] > 0.45
    fine = json.loads(run("weight", "--method", "beta-noised", "drawn", *asked).stdout)
    assert fine["methods"][0]["kept"] > 0
    assert fine["support"]["out_of_reach"] < 0.02


def test_rows_of_another_tool_are_weighted_under_the_relation_that_is_asked_for(
    run: Run, files: Path
) -> None:
    how = ("weight", "rows.csv", "--schema", "schema.json", "--data", "people.csv", "--eps", 1)
    run(*how, "--method", "beta-noised", "--neighbours", "replace")
    statement = Release.read("release").statement
    assert statement.neighbours == "replace"
    assert {charge.neighbours for charge in statement.charges} == {"replace"}
    assert "replacing one row" in statement.unit
    run("verify", "release")
    # A release has its own relation, which is not chosen again.
    refused = run("weight", "release", "--eps", 1, "--neighbours", "add-remove", code=2).stderr
    assert "--neighbours (add-remove) must be replace" in refused
    run("weight", "release", "--eps", 1, "--neighbours", "replace", "--method", "beta-noised",
        "--name", "again")  # fmt: skip
