"""``start``: from a messy file to a release in one command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hospital
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from marginalsyn.cli import start, start_commands
from marginalsyn.errors import UsageError
from marginalsyn.release import Release
from marginalsyn.table import Schema

Run = Callable[..., Result]


@pytest.fixture
def truth(folder: Path) -> pd.DataFrame:
    text, truth = hospital.hospital(2000)
    (folder / "hospital.csv").write_text(text)
    return truth


@pytest.mark.slow
def test_yes_goes_from_the_hospital_s_file_to_a_release(
    run: Run, folder: Path, truth: pd.DataFrame
) -> None:
    asked = ("--label", "readmitted", "--method", "independent", "--eps", "4", "--yes")
    result = run("start", "hospital.csv", *asked)
    assert "NOT PRIVATE" in result.stdout  # the evaluation
    for words in ("to expect: counts of one column off by about", "time: about", "--public"):
        assert words in result.stderr
    release = Release.read(folder / "release")
    assert release.statement.schema_drafted
    assert not release.statement.problems()
    assert (folder / "evaluation" / "report.html").exists()
    wanted = {**hospital.KINDS, "own_share": "integer"}
    schema = Schema.read(folder / "hospital.schema.json")
    for column in (*schema.columns, *schema.made):
        assert column.kind == wanted[column.name]
    assert schema.drop == ("notes",)
    rows = pd.read_csv(release.path / "synthetic.csv", dtype=str, keep_default_na=False)
    for name in ("age", "bmi", "crp", "smoker", "severity", "discharged_at"):
        missing = (rows[name] == "").mean()
        assert abs(missing - truth[name].isna().mean()) < 0.04, name
    # The script is the same again, in plain commands.
    lines = (folder / "hospital.sh").read_text().splitlines()
    for line in lines:
        if line.startswith("marginalsyn "):
            run(*[word.replace("$out", "again") for word in shlex.split(line)[1:]])
    again = Release.read(folder / "again").schema
    assert again.names == release.schema.names
    # What was bought differs by its noise.
    pairs = zip(again.columns, release.schema.columns, strict=True)
    assert [a.name for a, b in pairs if a != b] in ([], ["diagnosis"])


def test_questions_are_answered_in_words(
    people: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from marginalsyn.cli.main import cli

    monkeypatch.setattr(start, "_at_terminal", lambda: True)
    opened: list[str] = []
    monkeypatch.setattr(start.click, "launch", opened.append)
    answers = ["wrd=drop", "ward=drop", "", "il", "ill", "y", "y", "n"]
    asked = ["start", "people.csv", "--method", "independent", "--holdout", "0.3"]
    result = CliRunner().invoke(cli, asked, input="\n".join(answers) + "\n")
    assert result.exit_code == 0, result.output
    assert "did you mean 'ward'?" in result.stderr
    assert "did you mean 'ill'?" in result.stderr
    assert "Nothing was spent." in result.stderr
    assert not (folder / "release").exists()
    assert not opened
    answers[-1] = "y"
    result = CliRunner().invoke(cli, asked, input="\n".join(answers) + "\n")
    assert result.exit_code == 0, result.output
    found = Release.read(folder / "release")
    assert (found.schema.drafted_from_data, found.schema.label) == (False, "ill")
    assert "ward" in found.schema.drop
    assert opened == ["evaluation/report.html"]


def test_start_asks_whom_a_row_stands_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from marginalsyn.cli.main import cli

    monkeypatch.setattr(start, "_at_terminal", lambda: True)
    rows = [f"{number // 4},{number % 3},{number % 2}" for number in range(320)]
    (folder / "visits.csv").write_text("\n".join(["patient_id,ward,ill", *rows]) + "\n")
    asked = ["start", "visits.csv", "--method", "mst", "--label", "ill", "--holdout", "0"]
    answers = ["", "n", "patientid", "", "5", "y", "n"]
    result = CliRunner().invoke(cli, asked, input="\n".join(answers) + "\n")
    assert result.exit_code == 0, result.output
    for words in (
        "80 values in 320 rows",
        "Is every person in one row at most? [y/N]",
        "unit (patientid) must be a column of the table; did you mean 'patient_id'?",
        "of 80 persons",
        "at most 5 rows counted",
    ):
        assert words in result.stderr, words
    # Rows are meant: the script says so.
    answers = ["", "y", "y", "y"]
    meant = CliRunner().invoke(cli, asked, input="\n".join(answers) + "\n")
    assert "of 320 rows" in meant.stderr
    assert "--unit row" in (folder / "visits.sh").read_text()
    noticed = CliRunner().invoke(cli, [*asked, "--yes", "--eps", "1", "--out", "o", "--unit", "x"])
    assert "--max-rows" in noticed.stderr


def test_what_cannot_go_on_is_said_before_anything_is_read(run: Run, folder: Path) -> None:
    assert "--yes" in run("start", "hospital.csv", code=2).stderr
    assert "existing file" in run("start", "hospital.csv", "--yes", code=1).stderr
    (folder / "release").mkdir()
    (folder / "release" / "mine.txt").write_text("x")
    assert "release folder" in run("start", "hospital.csv", "--yes", code=1).stderr


def test_names_with_spaces_are_typed_in_quotes() -> None:
    assert start._words("'blood pressure=integer' zip=drop") == [
        "blood pressure=integer",
        "zip=drop",
    ]
    with pytest.raises(UsageError, match="close its quotes"):
        start._words("'blood pressure=integer")


def test_the_password_of_an_address_serves_the_evaluation_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    with start_commands.password_of("postgres://ann:s3%2Fcret@host/db?table=t"):
        assert os.environ["PGPASSWORD"] == "s3/cret"
    assert "PGPASSWORD" not in os.environ
    for data in ("postgres://ann@host/db?table=t", "people.csv", "duckdb:///x:y@z?table=t"):
        with start_commands.password_of(data):
            assert "PGPASSWORD" not in os.environ
    monkeypatch.setenv("PGPASSWORD", "own")
    with start_commands.password_of("postgres://ann:other@host/db?table=t"):
        assert os.environ["PGPASSWORD"] == "own"


def test_a_password_is_not_written_into_the_script(tmp_path: Path) -> None:
    address = "postgres://ann:s3cr3t@host:5432/db?table=ward.people"
    choices: Any = start_commands.Choices(
        data=address,
        label=None,
        kinds={},
        keep=(),
        sep=None,
        eps=1.0,
        method="independent",
        holdout=0.0,
        public=True,
        out=Path("release"),
        schema_path=Path("people.schema.json"),
        evaluation=Path("evaluation"),
    )
    script = start_commands.script(start_commands.commands(choices, False), choices)
    assert "s3cr3t" not in script
    assert "postgres://ann@host:5432/db?table=ward.people" in script
    assert start_commands.stem(address) == "ward-people"
