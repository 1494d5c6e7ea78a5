"""Releases that commit e1d154d wrote are still verified, shown, drawn from and analysed.

``heart`` and ``weighted`` are of the bundled table: by auto, and by mst with two columns of
weights, bought answers and a certificate. ``linked`` has patients and visits, ``persons`` visits
with the person as the unit, and ``points`` records options that later versions do not have.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from marginalsyn.contract import config_to_json, make_config
from marginalsyn.errors import UsageError
from marginalsyn.release.folder import Release

FOLDER = Path(__file__).with_name("e1d154d")
NAMES = sorted(path.name for path in FOLDER.iterdir())
ANSWERS = {"heart": ("age",), "weighted": ("age",), "persons": ("day", "--each", "person")}


@pytest.fixture
def released(folder: Path) -> Path:
    """Copies of the releases in the current folder."""
    return shutil.copytree(FOLDER, folder / "old")


@pytest.mark.parametrize("name", NAMES)
def test_an_earlier_release_is_verified_and_shown(
    name: str, released: Path, run: Callable[..., Any]
) -> None:
    assert json.loads(run("verify", f"old/{name}", "--json").output)["problems"] == []
    shown = json.loads(run("show", f"old/{name}", "--json").output)
    assert (
        json.loads((released / name / "privacy.json").read_text()).items()
        <= {**shown["statement"]}.items()
    )


@pytest.mark.parametrize("name", NAMES)
def test_more_rows_are_drawn_from_an_earlier_release(
    name: str, released: Path, folder: Path, run: Callable[..., Any]
) -> None:
    run(
        "sample",
        f"old/{name}",
        "--rows",
        9,
        "--seed",
        1,
        "--out",
        "more" if name == "linked" else "more.csv",
    )
    made = [*folder.glob("more*"), *folder.glob("more/*")]
    assert sum(path.is_file() and path.stat().st_size > 0 for path in made) >= 1


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_an_earlier_release_gives_intervals(
    name: str, released: Path, run: Callable[..., Any]
) -> None:
    given = json.loads(run("estimate", f"old/{name}", "--mean", *ANSWERS[name], "--json").stdout)
    assert given["answers"][0]["low"] < given["answers"][0]["high"]


def test_an_earlier_release_takes_another_column(released: Path, run: Callable[..., Any]) -> None:
    """Its columns, all in one file then, get a file each."""
    path = released / "weighted"
    before = Release.read(path)
    old, raw = before.weights(), before.log_weights()
    run("weight", path, "--reuse", old.columns[0], "--name", "again", "--temper", 0.5)
    after = Release.read(path)
    assert list(after.weights()) == [*old, "again"]
    pd.testing.assert_frame_equal(after.weights()[list(old)], old)
    pd.testing.assert_frame_equal(after.log_weights()[list(old)], raw)
    assert list(pd.read_csv(path / "weights.csv")) == ["weight"]
    run("verify", path)


def test_a_changed_earlier_release_is_found(released: Path, run: Callable[..., Any]) -> None:
    path = released / "weighted" / "weights.csv"
    path.write_text(path.read_text().replace("1", "2", 1))
    run("verify", "old/weighted", code=1)


def test_options_that_are_gone_are_read_at_the_value_that_still_runs() -> None:
    recorded = json.loads((FOLDER / "points" / "privacy.json").read_text())["parameters"]
    assert recorded["kernel"] == "random-walk"
    known = config_to_json(make_config("support-points", recorded))
    assert known == {key: recorded[key] for key in recorded if key not in ("kernel", "coupling")}
    with pytest.raises(UsageError, match="kernel"):
        make_config("support-points", {**recorded, "kernel": "mala"})
