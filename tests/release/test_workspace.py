"""The workspace remembers, and never holds a password."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from marginalsyn import Workspace
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.plugins.audit.testkit.generators import example_schema
from marginalsyn.records.workspace import identify
from marginalsyn.release.folder import preflight


@pytest.fixture
def space(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Workspace.here()


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("dataset:adult", "dataset:adult"),
        ("postgres://me:secret@host:5432/db?table=t", "postgres://me@host:5432/db?table=t"),
        ("duckdb:///data/people.duckdb?table=t", "duckdb:///data/people.duckdb?table=t"),
        ("postgres://host/db?table=t&password=secret", "postgres://host/db?table=t"),
        ("postgres://me:p@ss@host/db", "postgres://me@host/db"),
        ("spark://table", "spark://table"),
        ("sc://host:443/people;token=secret", "sc://host:443/people"),
        ("sc://host:443/;token=secret?table=people", "sc://host:443/?table=people"),
    ],
)
def test_identity_has_no_password(given, name):
    assert identify(given) == name


def test_identity_of_a_path_is_absolute(space, tmp_path):
    (tmp_path / "people.csv").write_text("a\n")
    (tmp_path / "link.csv").symlink_to("people.csv")
    names = {
        identify(text) for text in ("people.csv", "./people.csv", "link.csv", "x/../people.csv")
    }
    assert names == {str(tmp_path.resolve() / "people.csv")}
    assert identify("part-*.parquet") == str(tmp_path.resolve() / "part-*.parquet")


def test_nothing_is_written_before_it_is_needed(space, tmp_path):
    assert space.read_last() == {}
    assert space.recall("people.csv") is None
    assert list(tmp_path.iterdir()) == []


def test_a_release_is_no_place_for_it(space, tmp_path, monkeypatch):
    """It holds the salt of held-out rows, and a release is published with all that is in it."""
    inside = tmp_path / "release" / "more"
    inside.mkdir(parents=True)
    (tmp_path / "release" / "privacy.json").touch()
    monkeypatch.chdir(inside)
    with pytest.raises(UsageError, match="must not be in a release"):
        Workspace.here().remember("people.csv")
    assert list(inside.iterdir()) == []


def test_folder_keeps_itself_out_of_git_and_from_others(space):
    space.remember("people.csv")
    assert (space.folder / ".gitignore").read_text() == "*\n"
    assert stat.S_IMODE(space.folder.stat().st_mode) == 0o700


def test_last_release_is_remembered(space, tmp_path):
    url = "postgres://me:secret@host/db?table=t"
    space.remember("people.csv", schema=example_schema(), holdout=0.2, holdout_salt="s")
    space.remember(url, release="out", label="ill")
    again = Workspace.here(tmp_path)
    assert again.read_last() == {
        "source": "postgres://me@host/db?table=t",
        "schema_file": None,
        "label": "ill",
        "sep": None,
        "holdout": 0.0,
        "holdout_salt": "",
        "neighbours": "add-remove",
        "release": str(tmp_path.resolve() / "out"),
        "kept": {},
        "ledgers": {},
    }
    known = again.recall("people.csv")
    assert (known.holdout, known.holdout_salt) == (0.2, "s")
    assert type(example_schema()).read(known.schema_file) == example_schema()
    assert all("secret" not in f.read_text() for f in space.folder.rglob("*") if f.is_file())


def test_holdout_salt_stays(space):
    fresh = space.holdout_salt("people.csv")
    # A run that is charged and given up has used it: it is known before there is a release.
    assert space.holdout_salt("people.csv") == fresh
    assert space.read_last() == {}
    space.remember("people.csv", holdout=0.2, holdout_salt=fresh)
    assert space.holdout_salt("people.csv") == fresh
    space.remember("people.csv")
    assert space.holdout_salt("people.csv") == fresh
    assert space.holdout_salt("others.csv") != fresh
    assert space.holdout_salt("people.csv", seed=5) == space.holdout_salt("x.csv", seed=5) != fresh


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', '{"other": 1}', "\xff"])
def test_damaged_memory_is_reported(space, text):
    space.remember("people.csv")
    (space.folder / "workspace.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match="delete that file"):
        _ = space.read_last()


def test_last_source_that_is_unknown_is_forgotten(space):
    space.remember("people.csv")
    file = space.folder / "workspace.json"
    file.write_text(json.dumps({"version": 1, "last": "gone", "sources": {}}))
    assert space.read_last() == {}


def test_place_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="must be writable"):
        Workspace.here(tmp_path / "file").remember("people.csv")


def test_no_release_inside(space):
    with pytest.raises(ReleaseError, match="must not be inside the workspace"):
        preflight(space.folder / "release")


def test_held_out_rows_are_found_by_the_hash_of_the_rows(tmp_path: Path) -> None:
    space = Workspace.here(tmp_path)
    assert space.of_rows("a") is None
    space.remember("people.csv", holdout=0.2, holdout_salt="s", rows="a")
    space.remember("people.csv", rows="b")
    space.remember("other.csv", rows="c")
    for rows, share in (("a", 0.2), ("b", 0.0)):
        known = space.of_rows(rows)
        assert known is not None
        assert known[0].source.endswith("people.csv")
        assert (known[1].holdout, known[1].holdout_salt) == (share, "s")
