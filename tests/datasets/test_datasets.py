"""The public tables: what their datasheets say is so, and their schemas fit every row."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from pathlib import Path

import pytest

from marginalsyn import datasets
from marginalsyn.errors import DataError, UsageError

NAMES = datasets.names()
BUNDLED = [name for name in NAMES if datasets.describe(name)["source"] == "bundled"]


@pytest.fixture(scope="module")
def loaded() -> dict[str, datasets.Dataset]:
    return {name: datasets.load(name) for name in NAMES}


def test_numeric_bins_separate_the_values_that_matter() -> None:
    adult, heart = datasets.schema("adult"), datasets.schema("heart")
    gain, hours = adult.column("capital-gain"), adult.column("hours-per-week")
    assert len({gain.code_of(value) for value in (0, 1, 50_000, 99_998, 99_999)}) == 4
    assert gain.code_of(50_000) == gain.code_of(99_998)
    assert len({hours.code_of(value) for value in (39, 40, 41)}) == 3
    assert len({heart.column("oldpeak").code_of(value) for value in (0.0, 0.1, 1.0)}) == 3


def test_split_rule_is_the_documented_one() -> None:
    line = "63,male,typical angina,145,233,True,LV hypertrophy,150,False,2.3,downsloping,0,x,False"
    digest = hashlib.sha256(b"marginalsyn/heart\n" + line.encode()).hexdigest()
    assert datasets._is_test("heart", line) == (int(digest[:16], 16) / 2**64 < 0.2)


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_files_are_the_recorded_ones(name: str) -> None:
    packed = (datasets.files.HERE / name / f"{name}.csv.gz").read_bytes()
    data = gzip.decompress(packed)
    assert hashlib.sha256(data).hexdigest() == datasets.describe(name)["sha256"]
    # No file name and no time in the header: the same rows give the same file.
    assert packed[3:8] == bytes(5)
    assert b"\r" not in data
    assert data.endswith(b"\n")
    assert b'"' not in data


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the heart table that a test may damage."""
    (tmp_path / "heart").mkdir()
    shutil.copy(datasets.files.HERE / "catalogue.json", tmp_path)
    for path in (datasets.files.HERE / "heart").iterdir():
        shutil.copy(path, tmp_path / "heart")
    monkeypatch.setattr(datasets.files, "HERE", tmp_path)
    return tmp_path / "heart" / "heart.csv.gz"


def test_a_changed_file_is_refused(copy: Path) -> None:
    assert len(datasets.load("heart").train) == 236
    data = gzip.decompress(copy.read_bytes())
    copy.write_bytes(gzip.compress(data.replace(b"63,male", b"64,male", 1)))
    with pytest.raises(DataError, match="not the published file"):
        datasets.load("heart")


@pytest.mark.parametrize("damage", ["cut", "text", "gone"])
def test_a_broken_file_is_refused(copy: Path, damage: str) -> None:
    packed = copy.read_bytes()
    if damage == "gone":
        copy.unlink()
    else:
        copy.write_bytes(packed[: len(packed) // 2] if damage == "cut" else b"age,sex\n")
    with pytest.raises(DataError, match=r"heart\.csv\.gz cannot be read"):
        datasets.load("heart")


def test_scrambled_bytes_are_refused(copy: Path) -> None:
    packed = bytearray(copy.read_bytes())
    packed[100:110] = b"\xff" * 10
    copy.write_bytes(bytes(packed))
    with pytest.raises(DataError):
        datasets.load("heart")


@pytest.mark.parametrize("call", [datasets.load, datasets.schema, datasets.datasheet])
def test_unknown_name_names_a_close_one(call: object) -> None:
    with pytest.raises(UsageError, match=r"dataset \(adlut\) must be one of .*mean 'adult'"):
        call("adlut")  # type: ignore[operator]
    with pytest.raises(UsageError, match=r"must be one of"):
        call("../adult")  # type: ignore[operator]


def test_export_into_a_file_is_a_message(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match=r"folder \(.*\) must be writable"):
        datasets.export("iris", target)


@pytest.mark.parametrize("part", ["train", "test", "all"])
def test_private_table_opens_a_part(part: str, loaded: dict[str, datasets.Dataset]) -> None:
    table = datasets.private_table("heart", part)  # type: ignore[arg-type]
    heart = loaded["heart"]
    rows = {"train": len(heart.train), "test": len(heart.test), "all": 297}[part]
    assert table.schema == heart.schema
    assert table.unprotected("a test of public rows").counts([]) == rows


def test_private_table_refuses_another_part() -> None:
    with pytest.raises(UsageError, match=r"part \(half\) must be train, test or all"):
        datasets.private_table("heart", "half")  # type: ignore[arg-type]
