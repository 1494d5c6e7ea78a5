"""Bad input at the command line: one message, the right exit code, nothing half-written.

Every case runs on a CSV file and a schema of one's own. ``charged`` says how many runs the ledger
holds afterwards: a mistake that is seen before the rows are read costs nothing.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from stored_lines import lines_of

Run = Callable[..., Result]
SCREEN = 24  # lines
GENERATE = ("generate", "--data", "people.csv", "--schema", "people.json")
INDEPENDENT = (*GENERATE, "--method", "independent")
HEADER = "id,age,income,ward,ill"


@dataclass(frozen=True)
class Case:
    """A file or an option gone wrong, and what the user is told."""

    name: str
    says: str
    code: int = 2
    data: str | bytes | None = None
    args: tuple[object, ...] = ()
    schema: Callable[[dict[str, Any]], Any] | None = None


def edited(column: int, **fields: Any) -> Callable[[dict[str, Any]], Any]:
    """The schema with some fields of one column changed."""

    def edit(schema: dict[str, Any]) -> dict[str, Any]:
        schema["columns"][column].update(fields)
        return schema

    return edit


CASES = [
    # the table
    Case("empty file", "must not be empty", code=1, data=""),
    Case("blank file", "header", code=1, data="\n\n"),
    Case("missing column", "'ill'", data="id,age,income,ward\n1,2,3,A\n"),
    Case("unknown column", "'colour'", data=f"{HEADER},colour\n1,2,3,A,no,red\n"),
    Case("misspelt column", "did you mean", data="id,age,incom,ward,ill\n1,2,3,A,no\n"),
    Case("duplicate column", "twice", code=1, data=f"{HEADER},age\n1,2,3,A,no,4\n"),
    Case("nameless column", "name", code=1, data=f",{HEADER}\n0,1,2,3,A,no\n"),
    Case("ragged, short", "line", code=1, data=f"{HEADER}\n1,2,3,A,no\n1,2,3\n"),
    Case("ragged, long", "line", code=1, data=f"{HEADER}\n1,2,3,A,no\n1,2,3,A,no,9,9\n"),
    Case("not UTF-8", "UTF-8", code=1, data=f"{HEADER}\n1,2,3,\xe4,no\n".encode("latin-1")),
    Case("not UTF-8 header", "UTF-8", code=1, data="id,age,\xe4\n1,2,3\n".encode("latin-1")),
    Case("binary", "must", code=1, data=bytes(range(256)) * 8),
    Case("no such file", "existing file", code=1, args=("--data", "nowhere.csv")),
    Case("a folder", "*.parquet", code=1, args=("--data", "taken")),
    Case("misspelt file", "did you mean 'people.csv'?", code=1, args=("--data", "peple.csv")),
    Case("no disk", "was not written: No such file", code=1, args=("--out", "/proc/none/r")),
    Case("password cut", "encoded", args=("--data", "postgres://me:s3#cret@host/db?table=t")),
    Case("not a table", ".csv", args=("--data", "fake.pdf")),
    Case("a schema", "a list of JSON objects", code=1, args=("--data", "people.json")),
    Case("not Parquet", "Parquet", code=1, args=("--data", "fake.parquet")),
    Case("unknown address", "postgres://", args=("--data", "ftp://x/y?table=t")),
    Case("two sources", "--dataset", args=("--dataset", "heart")),
    # the schema
    Case("reversed bound", "are they swapped", schema=edited(0, lower=99, upper=0)),
    Case("reversed bound of a number", "lower", schema=edited(1, lower=5, upper=-5)),
    Case("infinite bound", "must be finite", schema=edited(1, upper=float("inf"))),
    Case("text for a bound", "lower", schema=edited(0, lower="zero")),
    Case("unknown kind", "kind", schema=edited(0, kind="number")),
    Case("unknown field", "binz", schema=edited(0, binz=3)),
    Case("no categories", "categories", schema=edited(2, categories=[])),
    Case("categories twice", "distinct", schema=edited(2, categories=["A", "A"])),
    Case("zero bytes", "zero bytes", schema=edited(2, categories=["A", "B\0"])),
    Case("no bins", "bins", schema=edited(0, bins=0)),
    Case("no columns", "columns", schema=lambda s: {**s, "columns": []}),
    Case("column twice", "distinct", schema=lambda s: {**s, "columns": s["columns"] * 2}),
    Case("wrong label", "label", schema=lambda s: {**s, "label": "sick"}),
    Case("wrong positive class", "positive", schema=lambda s: {**s, "positive": "maybe"}),
    Case("a list", "object", schema=lambda s: [s]),
    Case("not JSON", "JSON", args=("--schema", "people.csv")),
    Case("no such schema", "schema infer", args=("--schema", "nowhere.json")),
    Case("a folder for a schema", "schema", args=("--schema", ".")),
    Case("drafted", "accept-nonprivate-schema", schema=lambda s: {**s, "drafted_from_data": True}),
    # the options
    Case("eps zero", "eps (0.0)", args=("--eps", 0)),
    Case("eps negative", "eps (-1.0)", args=("--eps", -1)),
    Case("eps NaN", "eps (nan)", args=("--eps", "nan")),
    Case("eps infinite", "eps (inf)", args=("--eps", "inf")),
    Case("eps huge", "at most 1000", args=("--eps", "1e9")),
    Case("eps text", "'two'", args=("--eps", "two")),
    Case("delta zero", "delta", args=("--delta", 0)),
    Case("delta negative", "delta", args=("--delta", -0.1)),
    Case("delta one", "delta", args=("--delta", 1)),
    Case("delta large", "allow-large-delta", args=("--delta", 1e-5)),
    Case("delta NaN", "delta", args=("--delta", "nan")),
    Case("no rows", "--rows", args=("--rows", 0)),
    Case("too many rows", "rows", args=("--rows", 10**12)),
    Case("holdout of everything", "--holdout", args=("--holdout", 1)),
    Case("unknown relation", "add-remove", args=("--neighbours", "swap")),
    Case("unknown method", "must be one of", args=("--method", "magic")),
    Case("unknown format", "parquet", args=("--format", "xlsx")),
    Case("unknown option", "--holdouts", args=("--holdouts", 1)),
    Case("stray argument", "a table is named with --data", args=("people.csv",)),
    Case("wide separator", "sep", args=("--sep", "||")),
    # the place
    Case("file in the place of the release", "file", code=1, args=("--out", "people.csv")),
    Case("release under a file", "people.csv/r", code=1, args=("--out", "people.csv/r")),
    Case("no place to write", "/proc/r", code=1, args=("--out", "/proc/r")),
    Case("release in the workspace", ".marginalsyn", code=1, args=("--out", ".marginalsyn/r")),
    Case("folder of something else", "--out", code=1, args=("--out", "taken")),
    Case("the same with force", "something else", code=1, args=("--out", "taken", "--force")),
    Case("ledger in a strange place", "ledger", code=1, args=("--ledger", "people.csv/l")),
    Case("a ledger that is none", "ledger", code=1, args=("--ledger", "people.csv")),
]


def entries(folder: Path) -> list[Any]:
    """Every charge in every ledger of the workspace."""
    ledgers = (folder / ".marginalsyn" / "ledgers").glob("*.sqlite")
    records = [json.loads(line) for file in ledgers for line in lines_of(file)]
    return [record for record in records if record["record"] == "charge"]


def everything(folder: Path) -> set[str]:
    """All names below a folder, the workspace left out."""
    names = (str(path.relative_to(folder)) for path in folder.rglob("*"))
    return {name for name in names if not name.startswith(".marginalsyn")}


def check_message(result: Result, says: str) -> None:
    """One message that fits one screen, without a traceback."""
    assert says in result.stderr, result.stderr
    assert "Error: " in result.stderr
    assert "Traceback" not in result.output
    assert "fault of marginalsyn" not in result.output
    assert len(result.output.splitlines()) < SCREEN
    assert result.stdout == ""


def test_a_fault_of_ours_is_placed_and_quotes_nothing(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from marginalsyn.operations.schema import CheckSchema

    def broken(*given: object) -> None:
        int("Jane Doe")

    monkeypatch.setattr(CheckSchema, "run", broken)
    result = run("schema", "check", "people.csv", "people.json", code=1)
    assert re.search(r"ValueError in \w+\.py, line \d+: this is a fault of", result.stderr)
    assert "MARGINALSYN_DEBUG=1" in result.stderr
    assert "Jane" not in result.output


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_mistake_costs_nothing_and_leaves_nothing(run: Run, people: Path, case: Case) -> None:
    folder = people.parent
    (folder / "taken").mkdir()
    (folder / "taken" / "thesis.txt").write_text("mine")
    for name in ("fake.parquet", "fake.pdf"):
        (folder / name).write_text("PAR1")
    if isinstance(case.data, str):
        people.write_text(case.data, encoding="utf-8")
    elif case.data is not None:
        people.write_bytes(case.data)
    if case.schema is not None:
        file = folder / "people.json"
        file.write_text(json.dumps(case.schema(json.loads(file.read_text()))))
    before = everything(folder)
    args = case.args if "--eps" in case.args else ("--eps", 1, *case.args)
    method = () if "--method" in case.args else ("--method", "independent")
    check_message(run(*GENERATE, *method, *args, code=case.code), case.says)
    assert everything(folder) == before
    assert (folder / "taken" / "thesis.txt").read_text() == "mine"
    assert entries(folder) == []


ODD_ROWS = {
    "header only": [],
    "one row": ["1,30,500,A,no"],
    "a category not in the schema": ["1,30,500,Z,no"] * 20,
    "not a number": ["1,thirty,lots,A,no"] * 20,
    "missing everywhere": [",,,,"] * 20,
    "NaN and infinities": ["1,NaN,inf,A,no", "2,inf,-inf,B,yes", "3,-inf,nan,A,no"] * 10,
    "out of bounds": ["1,-5,1e300,A,no", "2,1000000,-3,B,yes"] * 10,
    "quotes and line breaks": ['1,30,500,"A, or\nB",no'] * 20,
}


@pytest.mark.parametrize("rows", ODD_ROWS.values(), ids=ODD_ROWS)
def test_odd_rows_raise_no_error(run: Run, people: Path, rows: list[str]) -> None:
    """An error that depends on a row would tell something about that row."""
    people.write_text("\n".join([HEADER, *rows, ""]), encoding="utf-8")
    run(*INDEPENDENT, "--eps", 1)
    assert "files verified" in run("verify").stdout
    assert len(entries(people.parent)) == 1


def test_a_full_disk_says_what_was_spent(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up while the release is written, after the charge."""
    from marginalsyn.release import staging as folders

    written: list[Path] = []

    def write_file(path: Path, fill: object) -> None:
        if path.name == "schema.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        written.append(path)
        path.write_bytes(b"")

    monkeypatch.setattr(folders, "write_file", write_file)
    before = everything(people.parent)
    result = run(*INDEPENDENT, "--eps", 1, code=1)
    assert written
    check_message(result, "the disk is full")
    assert "The ledger was charged" in result.stderr
    assert everything(people.parent) == before
    assert len(entries(people.parent)) == 1


def test_a_ledger_that_cannot_be_written_means_nothing_is_measured(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from marginalsyn.access import visit
    from marginalsyn.records import ledger_file

    monkeypatch.setattr(
        visit.Visit, "measure", lambda *args, **kwargs: pytest.fail("measured without a charge")
    )
    original = ledger_file.open_file

    def full(*args: Any, **how: Any) -> sqlite3.Connection:
        found = original(*args, **how)
        found.execute("PRAGMA max_page_count=1")
        return found

    monkeypatch.setattr(ledger_file, "open_file", full)
    before = everything(people.parent)
    check_message(run(*INDEPENDENT, "--eps", 1, code=1), "ledger")
    assert everything(people.parent) == before
    assert entries(people.parent) == []


def test_a_fault_of_the_program_is_one_message_too(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from marginalsyn import host as synthesis

    def broken(*args: object, **kwargs: object) -> None:
        raise KeyError("the private value 4711")

    monkeypatch.setattr(synthesis, "generate", broken)
    result = run(*INDEPENDENT, "--eps", 1, code=1)
    assert "KeyError" in result.stderr
    assert "MARGINALSYN_DEBUG=1" in result.stderr
    assert "4711" not in result.stderr
    assert len(result.stderr.splitlines()) == 2


WAIT = """
import sys, time
from marginalsyn import host as synthesis
from marginalsyn.cli.main import main
from marginalsyn.generators import independent

stage = sys.argv.pop(1)
def wait(*args, **kwargs):
    print("waiting", file=sys.stderr, flush=True)
    time.sleep(60)
if stage == "before":
    synthesis.generate = wait
else:
    independent.Independent.__call__ = wait
main()
"""


@pytest.mark.parametrize("stage", ["before", "after"])
def test_ctrl_c_says_what_was_spent(people: Path, stage: str) -> None:
    before = everything(people.parent)
    command = [sys.executable, "-c", WAIT, stage, *INDEPENDENT, "--eps", "1"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # What runs in the background of a shell ignores it, and so would this process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert ("Nothing was spent" in err) == (stage == "before")
    assert ("ledger was charged" in err) == (stage == "after")
    assert everything(people.parent) == before
    assert len(entries(people.parent)) == (stage == "after")
