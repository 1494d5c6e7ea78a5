"""One ledger for one source, wherever one stands and whatever one calls it."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from stored_lines import as_text, spoil

from marginalsyn import Charge, Ledger, Neighbours
from marginalsyn.access.ledgers import VARIABLE, all_ledgers, ledgers_folder, open_ledger
from marginalsyn.errors import LedgerError, UsageError
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.records.ledger_file import head_path
from marginalsyn.sources.identity import identity, same_source


def charge(rho=0.01, neighbours=Neighbours.ADD_REMOVE):
    return Charge(mechanism="gaussian", cost=ZCDP(rho=rho), neighbours=neighbours)


@pytest.fixture
def people(tmp_path, monkeypatch):
    """A file in a current folder of its own, and a ledger with one run."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    path = home / "people.csv"
    path.write_text("a\n1\n")
    open_ledger("people.csv").charge([charge()], run="first")
    return path


def spent(source) -> int:
    return len(open_ledger(source).read().charges)


def test_every_name_of_a_file_has_its_ledger(people, monkeypatch):
    (people.parent / "sub").mkdir()
    (people.parent / "link.csv").symlink_to("people.csv")
    (people.parent / "hard.csv").hardlink_to(people)
    names = ["people.csv", "./people.csv", "sub/../people.csv", "p*.csv", "link.csv", "hard.csv"]
    assert [spent(name) for name in names] == [1] * 6
    assert spent(f"file://{people}") == 1
    for folder, name in (("sub", "../people.csv"), ("/", str(people)), ("sub", "../pe?ple.csv")):
        monkeypatch.chdir(people.parent / folder)
        assert spent(name) == 1
    assert len(all_ledgers()) == 1


def test_a_file_that_was_moved_takes_its_ledger_along(people):
    moved = people.rename(people.with_name("moved.csv"))
    assert spent(moved) == 1
    # What comes to lie in its old place is not told from it, and shares the ledger.
    people.write_text("a\n2\n")
    assert spent(people) == 1


def test_a_copy_is_another_source(people):
    shutil.copy2(people, people.with_name("copy.csv"))
    assert spent("copy.csv") == 0
    assert not same_source("people.csv", "copy.csv")


def test_a_file_that_is_gone_is_known_by_its_path(people):
    people.unlink()
    assert spent("people.csv") == 1


def test_files_in_the_place_of_a_deleted_one_are_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(20):
        path = tmp_path / f"{number}.csv"
        path.write_text("a\n" + "1\n" * number)
        assert spent(path) == 0
        open_ledger(path).charge([charge()])
        path.unlink()
    assert len(all_ledgers()) == 20


def test_a_folder_its_glob_and_its_files_share_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("parts").mkdir()
    for name in ("a", "b"):
        Path(f"parts/{name}.parquet").write_bytes(b"PAR1")
    open_ledger("parts").charge([charge()])
    for name in ("parts/", "parts/*.parquet", "parts/a.parquet", "parts/[b]*"):
        assert spent(name) == 1
    Path("parts/c.parquet").write_bytes(b"PAR1")
    assert spent("parts") == 1


def test_linked_tables_share_the_ledger_of_each_of_them(tmp_path):
    clinic = tmp_path / "clinic"
    clinic.mkdir()
    for name in ("patients.csv", "visits.parquet"):
        (clinic / name).write_text("a\n1\n")
    (clinic / "notes.txt").write_text("no table")
    open_ledger(clinic, tables=["patients", "visits"]).charge([charge()])
    names = [clinic, clinic / "patients.csv", clinic / "visits.parquet", clinic / "v*.parquet"]
    assert [spent(name) for name in names] == [1] * 4
    assert spent(clinic / "notes.txt") == 0

    database = "postgres://me@host/db"
    open_ledger(database, tables=["patients", "old.visits"]).charge([charge()])
    assert spent(database) == spent(f"{database}?table=patients") == 1
    assert spent("postgresql://you@HOST:5432/db?table=old.visits") == 1
    assert spent(f"{database}?table=others") == 0
    # A run on all of them adds to what was spent on one.
    one, other = f"{database}2?table=a", f"{database}2"
    open_ledger(one).charge([charge()])
    assert len(open_ledger(other, tables=["a", "b"]).read().charges) == 1


def test_files_of_two_ledgers_are_refused_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "b.csv"):
        Path(name).write_text("a\n")
        open_ledger(name).charge([charge()])
    with pytest.raises(LedgerError, match=r"its files are in 2.*--ledger"):
        open_ledger("*.csv")


SAME = [
    (
        "postgres://me:secret@db.example/clinic?table=t",
        "postgresql://you:other@DB.example:5432/clinic?table=public.t&sslmode=require",
        "postgres://db.example./clinic/public?table=t&password=x",
        "postgres://nobody:p@ss@/clinic?table=t&host=db.example&port=5432",
    ),
    (
        "postgres://me@localhost/clinic?table=t",
        "postgres://127.0.0.1/clinic?table=t",
        "postgres://me@[::1]:5432/clinic?table=t",
        "postgres:///clinic?table=t",
        "postgres://me@/clinic?table=t&host=/run/postgresql",
    ),
    ("postgres://clinic@localhost?table=t", "postgres://localhost/clinic?table=t"),
    ("spark://people", "spark://default.People"),
    (
        "spark://db.example:15002/people",
        "sc://DB.example:15002/default.people;token=secret",
        "sc://me@db.example:15002/;use_ssl=true?table=people",
    ),
    ("duckdb:///data/x.duckdb?table=t", "duckdb:///data/y/../x.duckdb?table=main.T"),
]


@pytest.mark.parametrize("names", SAME)
def test_every_address_of_a_table_is_one_source(names):
    assert len({open_ledger(name).path for name in names}) == 1
    assert all(same_source(names[0], name) for name in names)


def test_other_tables_are_other_sources():
    first = "postgres://me@db.example/clinic?table=t"
    others: tuple[str, ...] = ("other.example/clinic?table=t", "db.example:5433/clinic?table=t")
    others += (
        "db.example/other?table=t",
        "db.example/clinic?table=T",
        "db.example/clinic/s?table=t",
    )
    for other in others:
        assert not same_source(first, f"postgres://me@{other}")
    assert not same_source("dataset:heart", "dataset:adult")
    assert not same_source("duckdb:///data/x.duckdb?table=t", "duckdb:///data/x.duckdb?table=u")


def test_no_password_and_no_row_is_written(people):
    open_ledger("postgres://me:secret@h/db?table=t&password=hidden").charge([charge()])
    people.write_text("a\nconfidential\n")
    open_ledger("people.csv").charge([charge()])
    for file in ledgers_folder().iterdir():
        for word in ("secret", "hidden", "confidential"):
            assert word.encode() not in file.read_bytes()


def test_where_ledgers_lie(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, "relative/place")
    with pytest.raises(UsageError, match="absolute"):
        ledgers_folder()
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert ledgers_folder() == tmp_path / ".local/share/marginalsyn/ledgers"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert ledgers_folder() == tmp_path / "data/marginalsyn/ledgers"
    monkeypatch.setattr("sys.platform", "darwin")
    assert ledgers_folder() == tmp_path / "Library/Application Support/marginalsyn/ledgers"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert ledgers_folder() == tmp_path / "local/marginalsyn/ledgers"


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_the_folder_is_the_user_s_alone(people):
    assert stat.S_IMODE(ledgers_folder().stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_made_is_explained(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file" / "below"))
    with pytest.raises(UsageError, match=f"must be writable.*{VARIABLE}"):
        open_ledger("dataset:heart")


# The command line


def test_list_and_verify(run, people, folder):
    people = folder / "people.csv"
    run("ledger", "cap", "--data", people, "--eps", 2)
    path = open_ledger(people).path
    assert path is not None
    told = json.loads(run("ledger", "list", "--json").stdout)
    assert any(one["source"] == str(people.resolve()) for one in told["ledgers"])
    assert "people.csv" in run("ledger", "list").stdout
    assert "every line follows" in run("ledger", "verify").stderr
    path.write_bytes(path.read_bytes().replace(b'"eps": 2.0', b'"eps": 9.0'))
    assert "must be complete" in run("ledger", "verify", code=1).stdout
    assert "must be complete" in run("ledger", "verify", "--data", people, code=1).stdout
    assert "must be complete" in run("ledger", "list").stdout
    run("ledger", "verify", "--accept", code=2)
    run("ledger", "verify", "--data", people, "--accept")
    run("ledger", "verify")


def test_a_ledger_of_version_0_1_is_found_by_its_names_and_not_replaced(people):
    path = open_ledger("people.csv").path
    assert path is not None
    earlier = path.with_suffix(".jsonl")
    as_text(path)
    path.rename(earlier)
    head_path(path).unlink()
    ledger = open_ledger("people.csv")
    assert ledger.path == earlier
    with pytest.raises(LedgerError, match=r"version 0\.2 takes it over"):
        ledger.charge([charge()], run="second")
    assert [each.path for each in all_ledgers()] == [earlier]


@pytest.mark.parametrize("damage", ["header", "cut", "line"])
def test_a_damaged_ledger_is_found_and_not_replaced(people, damage):
    path = open_ledger("people.csv").path
    assert path is not None
    if damage == "line":
        spoil(path, lambda lines: [lines[0], lines[1], b"?", *lines[3:]])
    else:
        data = path.read_bytes()
        path.write_bytes(bytes(100) + data[100:] if damage == "header" else data[:-512])
    assert open_ledger("people.csv").path == path
    with pytest.raises(LedgerError, match="must be complete"):
        open_ledger("people.csv").charge([charge()])


def test_identity_of_a_memory_ledger_is_not_needed():
    assert identity("dataset:heart").names == {"dataset:heart"}
    assert Ledger(None).read().names == set()
