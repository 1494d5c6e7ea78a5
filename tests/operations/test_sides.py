"""An evaluation says how many persons it is about, and whose rows are on both sides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginalsyn import PrivateTable, Schema, Unit
from marginalsyn.errors import UsageError
from marginalsyn.operations.comparison import both_sides, counted

UNIT = Unit(column="patient_id", max_rows=3, order="day")
SCHEMA = Schema(columns=Schema.from_domain({"a": 3, "b": 2}).columns, drop=["day"]).with_unit(UNIT)


def visits(first: int = 0, size: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(first)
    who = np.repeat(np.arange(first, first + size), rng.integers(1, 6, size))
    values = {"a": rng.integers(0, 3, len(who)), "b": rng.integers(0, 2, len(who))}
    return pd.DataFrame({"patient_id": who, **values, "day": rng.integers(0, 9, len(who))})


def test_rows_that_are_named_get_the_number_of_each_person_s_rows() -> None:
    frame = visits()
    found = counted(frame, SCHEMA)
    sizes = frame.groupby("patient_id").size().clip(upper=3)
    assert sorted(found["rows_of_person"]) == sorted(
        np.repeat(sizes, frame.groupby("patient_id").size())
    )
    assert counted(found, SCHEMA) is found
    rows = SCHEMA.with_unit(None)
    assert counted(frame, rows) is frame
    with pytest.raises(UsageError, match="identifies persons"):
        counted(frame.drop(columns="patient_id"), SCHEMA)


def test_persons_on_both_sides_are_counted() -> None:
    one, other = visits(0), visits(50)
    for schema in (SCHEMA, SCHEMA.with_unit(None)):
        (said,) = both_sides(one, other, schema)
        assert "10 of 60 persons (patient_id)" in said
        assert not both_sides(one, visits(100), schema)
    assert not both_sides(one, None, SCHEMA)


def test_the_split_goes_by_person_where_persons_are_protected() -> None:
    """By rows most persons are on both sides, which is what is warned of."""
    frame = visits(0, 300)
    rows = SCHEMA.with_unit(None)
    found = {}
    for name, schema in (("persons", SCHEMA), ("rows", rows)):
        table = PrivateTable.open(frame, schema, holdout=0.4, holdout_salt="s")
        found[name] = table.unprotected("test").persons("patient_id")
    assert found["persons"][2] == 0
    assert found["persons"][0] + found["persons"][1] == 300
    assert found["rows"][2] > 100


def test_shadows_of_persons_are_refused_with_what_to_do(folder: Path) -> None:
    from marginalsyn import Release

    release = made_of(visits(0, 40), folder)
    with pytest.raises(UsageError, match="--unit person"):
        Release.read(release).evaluate(
            real=visits(90, 40), train=visits(0, 40), reports=["membership"], shadow=4
        )


def made_of(frame: pd.DataFrame, folder: Path) -> Path:
    from marginalsyn.contract import make_config
    from marginalsyn.host import generate
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.privacy.noise import make_noise
    from marginalsyn.release.folder import Release

    table = PrivateTable.open(frame, SCHEMA)
    made, said = generate(table, make_config("mst"), Budget(eps=4), noise=make_noise(0))
    return Release.write(made, SCHEMA, said, folder / "persons").path


def test_the_command_says_it(folder: Path, run: Callable[..., Any]) -> None:
    visits(0, 200).to_csv("visits.csv", index=False)
    SCHEMA.write("s.json")
    made = ("generate", "--data", "visits.csv", "--schema", "s.json", "--method", "independent")
    run(*made, "--eps", "2", "--holdout", "0.3", "-q")
    judged = run("evaluate", "release", "--reports", "marginals", "--out", "e")
    assert "persons" in judged.stdout.splitlines()[0]
    assert "both sides" not in judged.stderr
    ledger = ("--ledger", "rows.jsonl")
    run(*made, "--eps", "2", "--holdout", "0.3", "--unit", "row", "--out", "r", "-q", *ledger)
    judged = run("evaluate", "r", "--reports", "marginals", "--out", "e", "--force")
    assert "rows of one person are on both sides" in judged.stderr
    assert "rows of one person are on both sides" in (folder / "e" / "report.html").read_text()
