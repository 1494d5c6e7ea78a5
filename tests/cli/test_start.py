"""``start``: from a messy file to a release in one command."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import clinic_tables
import hospital
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from marginalsyn import LinkedRelease, Schema, infer_schema
from marginalsyn.cli import start, start_forecast
from marginalsyn.release.folder import Release

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
    run("weight", "--method", "beta-noised", "--eps", "1", "--accept-nonprivate-schema")
    run("verify")
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
    monkeypatch.setattr(start, "_open", lambda page: opened.append(str(page)))
    words = ["leek", "public", "public"]
    answers = ["wrd=drop", "ward=drop", "", "il", "ill", "y", *words, "n"]
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
    answers = ["", "n", "patientid", "", "5", "leak", "leak", "leak", "n"]
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
    answers = ["", "y", "leak", "leak", "leak", "y"]
    meant = CliRunner().invoke(cli, asked, input="\n".join(answers) + "\n")
    assert "of 320 rows" in meant.stderr
    assert "--unit row" in (folder / "visits.sh").read_text()
    noticed = CliRunner().invoke(cli, [*asked, "--yes", "--eps", "1", "--out", "o", "--unit", "x"])
    assert "--max-rows" in noticed.stderr


def answered(*words: str, commands: tuple[str, ...] = ()) -> Result:
    """The dialogue, and of the commands that it runs those that are named."""
    from marginalsyn.cli.main import cli

    asked = ["start", "t.csv", "--method", "independent", "--holdout", "0", "--eps", "4"]
    answers, really = ["", "", "y", *words, "y"], start_forecast.run

    def some(name: str, arguments: list[str]) -> None:
        if name in commands:
            really(name, arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start, "_at_terminal", lambda: True)
        patch.setattr(start_forecast, "run", some)
        patch.setattr(start, "_open", lambda page: None)
        return CliRunner().invoke(cli, asked, input="\n".join(answers) + "\n")


def table(folder: Path, last: str = "") -> None:
    days = [f"2021-{1 + n % 12:02d}-{1 + n % 28:02d}" for n in range(4000)]
    rows = [
        f"{('flu', 'cold', 'cough')[n % 3]},{20 + n % 60},{n % 900 / 10},{day},{8 + n % 9:02d}:30,"
        f"{('none', 'mild', 'severe')[n % 3]}"
        for n, day in enumerate(days)
    ]
    header = "diagnosis,age,crp,day,seen,pain"
    (folder / "t.csv").write_text("\n".join([header, *rows, *([last] if last else [])]) + "\n")


def test_all_that_a_schema_says_was_shown_before_it_is_called_public(folder: Path) -> None:
    table(folder)
    result = answered("public", "public", "public")
    assert result.exit_code == 0, result.output
    schema = Schema.read(folder / "t.schema.json")
    assert not schema.drafted_from_data
    assert not schema.drop_reasons
    for column in json.loads(schema.to_json())["columns"]:
        line = [t for t in result.stderr.splitlines() if t.startswith(f"  {column['name']}:")]
        plain = ("missing_tokens", "true_label", "false_label", "other_label", "kind")
        values = [v for name, v in column.items() if name not in plain and v not in (None, "")]
        for value in values:
            for one in value if isinstance(value, list) else [value]:
                assert isinstance(one, bool) or str(one) in "\n".join(line), (column["name"], one)


@pytest.mark.parametrize(("rows", "words"), [(80, "[y/N]"), (4000, "[Y/n]")])
def test_bounds_that_would_be_noise_are_not_bought_by_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch, rows: int, words: str
) -> None:
    from marginalsyn.cli.main import cli

    lines = [f"{n % 7 / 10000:.4f},{n % 40},{'mf'[n % 2]}" for n in range(rows)]
    (folder / "t.csv").write_text("\n".join(["share,age,sex", *lines]) + "\n")
    ran: list[str] = []
    monkeypatch.setattr(start, "_at_terminal", lambda: True)
    monkeypatch.setattr(start, "_open", lambda page: None)
    monkeypatch.setattr(start_forecast, "run", lambda name, words: ran.append(name))
    asked = ["start", "t.csv", "--method", "independent", "--holdout", "0", "--eps", "4"]
    answers = ["", "", "y", "public", "public", "private", ""]
    result = CliRunner().invoke(cli, asked, input="\n".join(answers) + "\n")
    assert result.exit_code == 0, result.output
    assert f"Spend this budget now? {words}" in result.stderr
    assert bool(ran) == (rows == 4000)
    assert ("bought bounds would mostly be noise" in result.stderr) == (rows == 80)


def test_what_is_bought_depends_on_no_row(folder: Path) -> None:
    schemas = []
    for last in ("", "xanthoma,999999,123456.7,1931-02-03,03:59,mild"):
        table(folder, last)
        result = answered("public", "", "", commands=("schema buy-bounds", "generate"))
        assert result.exit_code == 0, result.output
        schemas.append((folder / "t.schema.json").read_text())
        release = Release.read(folder / "release")
        assert not release.statement.schema_drafted
        assert not release.statement.problems()
        # Bounds and rows together cost what was asked for.
        assert 3.5 < release.statement.eps <= 4
        text = release.schema.to_json()
        assert "xanthoma" not in text
        assert release.schema.column("diagnosis").labels() == ["cold", "cough", "flu", "OTHER"]
        age, day = release.schema.column("age"), release.schema.column("day")
        assert (age.lower, age.upper) == (20, 99)  # type: ignore[union-attr]
        assert (day.lower, day.upper) == (18628, 18992)  # type: ignore[union-attr]
        shutil.rmtree(folder / "release")
    assert schemas[0] == schemas[1]
    again = (folder / "t.sh").read_text()
    assert "schema buy-bounds t.csv t.schema.json" in again
    assert "--widening" in again
    assert "--schema t.bounds.schema.json" in again


def test_a_leak_of_any_kind_is_stated(folder: Path) -> None:
    table(folder)
    for words in (("leak", "public", "public"), ("public", "leak", ""), ("public", "", "leak")):
        assert "the privacy statement will say so; --public" in answered(*words).stderr
        assert Schema.read(folder / "t.schema.json").drafted_from_data
        assert "--accept-nonprivate-schema" in (folder / "t.sh").read_text()


def test_nobody_vouches_for_a_schema_unseen(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(folder)
    monkeypatch.setattr(start_forecast, "run", lambda name, words: ran.append([name, *words]))
    ran: list[list[str]] = []
    for asked in (("--yes", "--public"), ("--public", "--yes"), ("--public",)):
        result = run("start", "t.csv", *asked, code=2)
        assert "must name the schema file" in result.stderr or "on a terminal" in result.stderr
    run("schema", "infer", "t.csv", "--out", "mine.json")
    asked = ("start", "t.csv", "--yes", "--method", "independent", "--public", "mine.json")
    assert "drafted_from_data" in run(*asked, code=2).stderr
    assert not (folder / "release").exists()
    data = json.loads((folder / "mine.json").read_text())
    # Rules that a draft read off rows are no part of what a person vouches for.
    assert data["proposed_rules"]
    (folder / "mine.json").write_text(json.dumps({**data, "drafted_from_data": False}))
    assert "move what is public to rules" in run(*asked, code=2).stderr
    moved = {"proposed_rules": [], "drafted_from_data": False}
    (folder / "mine.json").write_text(json.dumps({**data, **moved}))
    assert "--kind" in run(*asked, "--kind", "age=drop", code=2).stderr
    assert not ran
    assert "as the schema says" in run(*asked).stderr
    assert "mine.json" in ran[0]
    assert "--accept-nonprivate-schema" not in ran[0]
    # The file is not changed for the label: what is used stands next to it.
    run(*asked, "--label", "pain")
    assert "t.schema.json" in ran[2]
    assert Schema.read(folder / "mine.json").label is None
    assert Schema.read(folder / "t.schema.json").label == "pain"
    run(*asked, "--unit", "age", "--max-rows", 3, "--order", "day")
    assert Schema.read(folder / "t.schema.json").unit is not None


def test_what_cannot_go_on_is_said_before_anything_is_read(run: Run, folder: Path) -> None:
    assert "--yes" in run("start", "hospital.csv", code=2).stderr
    assert "existing file" in run("start", "hospital.csv", "--yes", code=1).stderr
    (folder / "release").mkdir()
    (folder / "release" / "mine.txt").write_text("x")
    assert "release folder" in run("start", "hospital.csv", "--yes", code=1).stderr


def test_a_dry_run_asks_and_spends_nothing(folder: Path, run: Run) -> None:
    rows = [f"{n % 9},{'ab'[n % 2]}" for n in range(300)]
    (folder / "t.csv").write_text("\n".join(["pain,ward", *rows]) + "\n")
    said = run("start", "t.csv", "--dry-run").stderr
    assert "to expect: counts of one column off by about" in said
    assert "Nothing was spent." in said
    assert [path.name for path in folder.iterdir() if path.name[0] != "."] == ["t.csv"]


def answer(monkeypatch: pytest.MonkeyPatch, data: str, *answers: str) -> Result:
    """The dialogue over a table, up to the last question, which is answered with no."""
    from marginalsyn.cli.main import cli

    monkeypatch.setattr(start, "_at_terminal", lambda: True)
    asked = ["start", data, "--method", "independent", "--holdout", "0"]
    lines = [*answers, "public", "public", "public", "n"]
    result = CliRunner().invoke(cli, asked, input="\n".join(lines) + "\n")
    assert result.exit_code == 0, result.output
    return result


def test_right_answers_are_kept_where_another_is_wrong(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"{80 + n % 9},{'ab'[n % 2]},{n % 40 if n % 20 else -9},{n % 3}" for n in range(300)]
    (folder / "t.csv").write_text("\n".join(["blood pressure,ward,pain,ill", *rows]) + "\n")
    typed = "blood pressure=continuous, wrd=drop, ward=drop ill=numbr"
    result = answer(monkeypatch, "t.csv", typed, "", "pain=-8", "none", "", "y")
    for words in (
        "kinds: categorical, private-categories",
        "column ('wrd') must be one of blood pressure, ward, pain, ill; did you mean 'ward'?",
        "kind (ill=numbr) must be one of",
        "numbers that may mean missing: pain=-9 (5.0%)",
        "must be a number that the column has",
        "  blood pressure: kind continuous",
        "the table: drop ward",
        "  pain: lower -1",
    ):
        assert words in result.stderr, words
    # Nothing is asked: what is not clear is named on one line.
    answers = pd.DataFrame({f"q{n}": [1, 2, 3, 4, 5, 8, 9] * 20 for n in range(2)})
    answers.assign(sex=[1, 2, 9, 1, 2] * 28).to_csv(folder / "a.csv", index=False)
    said = run("start", "a.csv", "--yes", "--dry-run").stderr
    assert "missing: q0=8 (14.3%), q0=9 (14.3%), q1=8 (14.3%), q1=9 (14.3%), sex=9 (20.0%)" in said
    assert "--missing NAME=VALUE takes one so" in said
    # What is clear is proposed.
    proposed = answer(monkeypatch, "t.csv", "", "", "", "y")
    assert "(Enter: pain=-9)" in proposed.stderr
    assert "missing_tokens -9" in proposed.stderr


def test_what_interrupted_runs_spent_is_said_before_more_is_asked_for(
    people: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from marginalsyn.generators.independent import Independent

    def dies(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Independent, "__call__", dies)
        paid = ("--data", "people.csv", "--schema", "people.json", "--method", "independent")
        run("generate", *paid, "--eps", "0.5", code=130)
    said = answer(monkeypatch, "people.csv", "", "", "y").stderr
    assert "an interrupted run is paid for" in said
    assert said.index("spent so far on this source: eps") < said.index("Spend this budget now?")


def test_columns_that_a_budget_cannot_keep_are_left_out_or_shortened(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        f"f{n * 7919 % 700} x,{'EIJ'[n % 3]}{10 + n % 4}.{n * 31 % 97},{'mf'[n % 2]},{n % 50}"
        for n in range(1700)
    ]
    (folder / "t.csv").write_text("\n".join(["film,icd,sex,age", *rows]) + "\n")
    ran: list[list[str]] = []
    monkeypatch.setattr(start_forecast, "run", lambda name, words: ran.append([name, *words]))
    asked = ("start", "t.csv", "--yes", "--method", "independent", "--eps", 1, "--force")
    said = run(*asked).stderr
    assert "film is left out: of its 700 texts" in said
    assert "icd is shortened to 1 or 3 characters" in said
    schema = Schema.read(folder / "t.schema.json")
    assert schema.drop == ("film",)
    assert (schema.column("icd").prefixes, schema.column("icd").shorten) == ((1, 3), True)
    # Nothing is changed that was asked for, nor where the budget is large.
    run(*asked, "--keep", "film", "--kind", "icd=private-categories")
    assert Schema.read(folder / "t.schema.json").open == ["film", "icd"]
    assert not Schema.read(folder / "t.schema.json").drop
    # What was forecast comes true.
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    run(*asked, "--holdout", 0)
    labels = Release.read(folder / "release").schema.column("icd").labels()
    assert {label[1:] for label in labels} <= {"", "10", "11", "12", "13", "THER"}
    assert len(labels) > 8


def test_columns_of_which_noise_would_make_up_most_values_are_left_out(
    folder: Path, run: Run
) -> None:
    rows = [f"{n % 5},{n % 2},{n * 31 % 97 if n % 80 == 0 else ''}" for n in range(800)]
    (folder / "t.csv").write_text("\n".join(["a,b,rare", *rows]) + "\n")
    asked = ("start", "t.csv", "--yes", "--method", "independent", "--holdout", 0, "--force")
    said = run(*asked, "--eps", 0.5).stderr
    assert "rare is left out: it is 99% missing, and noise would fill" in said
    assert "rare is 99% missing" not in said
    release = Release.read(folder / "release")
    assert list(release.frame()) == ["a", "b"]
    assert release.schema.drop_reasons == {"rare": "too few rows for its values"}
    # It stays where it is asked for, and where the budget is large enough.
    for more in (("--eps", 0.5, "--keep", "rare"), ("--eps", 300)):
        said = run(*asked, "--dry-run", *more).stderr
        assert "left out" not in said
        assert "rare is 99% missing: little is worth its budget" in said


def test_the_number_of_a_persons_rows_is_not_to_be_dropped(folder: Path, run: Run) -> None:
    rows = [f"{n // 8},{n % 9},{n % 2}" for n in range(800)]
    (folder / "t.csv").write_text("\n".join(["who,a,b", *rows]) + "\n")
    asked = ("start", "t.csv", "--yes", "--dry-run", "--unit", "who", "--max-rows", 20)
    said = run(*asked, "--eps", 0.1).stderr
    assert "a (9 codes), b (2 codes) would mostly show noise in 80 persons" in said


def test_days_of_one_month_are_not_one_bin() -> None:
    def bins(days: list[str]) -> object:
        frame = pd.DataFrame({"day": days * 9, "x": [0.5, 1] * (9 * len(days) // 2)})
        column = start_forecast.settled(infer_schema(frame)).column("day")
        return column.bins, column.levels

    assert bins([f"2024-01-{day:02}" for day in range(1, 11)]) == (16, 16)
    assert bins([f"2024-{month:02}-15" for month in range(1, 13)]) == ("auto", 12)
    assert bins([f"{year}-03-15" for year in range(2001, 2005)]) == ("quarter", 16)
    assert bins([f"2024-01-05 {hour:02}:30:00" for hour in range(24)]) == (16, 16)


def test_the_password_of_an_address_serves_the_evaluation_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    with start_forecast.password_of("postgres://ann:s3%2Fcret@host/db?table=t"):
        assert os.environ["PGPASSWORD"] == "s3/cret"
    assert "PGPASSWORD" not in os.environ
    for data in ("postgres://ann@host/db?table=t", "people.csv", "duckdb:///x:y@z?table=t"):
        with start_forecast.password_of(data):
            assert "PGPASSWORD" not in os.environ
    monkeypatch.setenv("PGPASSWORD", "own")
    with start_forecast.password_of("postgres://ann:other@host/db?table=t"):
        assert os.environ["PGPASSWORD"] == "own"


def test_a_password_is_not_written_into_the_script(tmp_path: Path) -> None:
    address = "postgres://ann:s3cr3t@host:5432/db?table=ward.people"
    choices = start.Choices(data=address, eps=1.0, method="independent", holdout=0.0)
    commands = start_forecast.commands(choices, Path("people.schema.json"))
    script = start_forecast.script(commands, choices)
    assert "s3cr3t" not in script
    assert "postgres://ann@host:5432/db?table=ward.people" in script
    assert start_forecast.stem(address) == "ward-people"


def linked_folder(folder: Path) -> None:
    """A clinic, and its doctors, who belong to nobody, in ./clinic."""
    clinic_tables.write(folder, clinic_tables.clinic(150), clinic_tables.TREE)
    (folder / "clinic" / "doctors.csv").write_text("doctor,office\n" + "a,1\nb,2\n" * 9)
    (folder / "clinic.schema.json").unlink()


def test_a_folder_of_linked_tables_goes_all_the_way(run: Run, folder: Path) -> None:
    linked_folder(folder)
    result = run("start", "clinic", "--method", "aim", "--eps", 4, "--label", "sex", "--yes")
    for words in (
        "patients.id by id",
        "table doctors is left out",
        "rows of visits",
        "20% of the persons",
        "of 120 rows of patients; shares of ",
        "read off the rows",
    ):
        assert words in result.stderr, words
    assert "links between tables" in result.stdout  # the evaluation's words
    release = LinkedRelease.read(folder / "release")
    assert release.statement.schema_drafted
    assert [table.name for table in release.tree.tables] == ["patients", "visits", "drugs"]
    assert (folder / "evaluation" / "report.html").exists()
    for line in (folder / "clinic.sh").read_text().splitlines():
        if line.startswith("marginalsyn generate"):
            run(*[word.replace("$out", "again") for word in shlex.split(line)[1:]])
    assert LinkedRelease.read(folder / "again").tree == release.tree
    # Options of one table have no meaning here, and columns are named with their tables.
    assert (
        "is for one table"
        in run(
            *("start", "clinic", "--yes", "--out", "o", "--unit", "id", "--max-rows", 2), code=2
        ).stderr
    )
    wrong = run("start", "clinic", "--yes", "--out", "o", "--kind", "vid=drop", code=2).stderr
    assert "must be TABLE.COLUMN" in wrong


def test_links_of_a_folder_are_asked_about(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from marginalsyn.cli.main import cli

    linked_folder(folder)
    monkeypatch.setattr(start, "_at_terminal", lambda: True)
    links = ["visits=nobody.id", "drugs=drop", ""]
    columns = ["visits.wrd=drop", "visits.ward=drop", ""]
    words = [*links, *columns, "sx", "sex", "6", "public", "public", "public", "n"]
    result = CliRunner().invoke(cli, ["start", "clinic"], input="\n".join(words) + "\n")
    assert result.exit_code == 0, result.output
    for found in (
        "table (nobody) must be one of",
        "column (visits.wrd) must be TABLE.COLUMN",
        "At most how many rows of visits for one row of patients",
        "at most 6 rows of visits counted",
        "Nothing was spent.",
    ):
        assert found in result.stderr, found
    assert "Where are the categories" not in result.stderr
    assert not (folder / "release").exists()
    assert not (folder / "clinic.schema.json").exists()


def test_a_folder_with_one_table_or_none(run: Run, people: Path, folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "empty" / "notes.txt").write_text("nothing")
    assert "it holds notes.txt" in run("start", "empty", "--yes", code=1).stderr
    (folder / "one").mkdir()
    shutil.move(people, folder / "one" / "people.csv")
    asked = ("--method", "independent", "--eps", 4, "--holdout", 0, "--yes")
    assert "one/people.csv" in run("start", "one", *asked).stderr
    assert Release.read(folder / "release").schema.names
