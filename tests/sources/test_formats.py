"""Files of other programs hold the same rows as a CSV file, and cannot break a run halfway."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import io
import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginalsyn.access.ledgers import open_ledger
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.drafting.draft import infer_schema
from marginalsyn.drafting.linked_draft import files_in
from marginalsyn.errors import DataError, UsageError
from marginalsyn.sources.source import find_encoding, open_source
from marginalsyn.table.schema import Schema

SCHEMA = Schema(
    columns=(
        {"kind": "categorical", "name": "sex", "categories": ["f", "m"], "nullable": True},
        {"kind": "integer", "name": "age", "lower": 0, "upper": 99},
        {"kind": "continuous", "name": "bmi", "lower": 10, "upper": 50, "nullable": True},
        {"kind": "date", "name": "seen", "lower": "2020-01-01", "upper": "2020-12-31"},
        {"kind": "boolean", "name": "ill"},
    )
)
ROWS = pd.DataFrame(
    {
        "sex": ["f", "m", None, "f"],
        "age": [31, 0, 99, 42],
        "bmi": [21.5, np.nan, 0.1 + 0.2 + 20, 33.0],
        "seen": pd.to_datetime(["2020-02-29", "2020-01-01", "2020-12-31", "2020-07-04"]),
        "ill": [True, False, False, True],
    }
)


def exact_rows(data: Any) -> pd.DataFrame:
    return PrivateTable.open(data, SCHEMA).unprotected("compare the rows").frame()


def write_workbook(path: Path, **sheets: pd.DataFrame) -> Path:
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter(path) as book:
        for name, frame in sheets.items():
            frame.to_excel(book, sheet_name=name, index=False)
    return path


def write_xlsx(folder: Path) -> Path:
    return write_workbook(folder / "rows.xlsx", Patients=ROWS)


def write_lines(folder: Path, open_file: Callable[..., Any] = open, name: str = "") -> Path:
    rows = ROWS.assign(seen=ROWS.seen.dt.strftime("%Y-%m-%d")).replace({np.nan: None})
    path = folder / (name or "rows.jsonl")
    with open_file(path, "wt", encoding="utf-8") as handle:
        for row in rows.astype(object).to_dict("records"):
            handle.write(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n")
    return path


def write_packed_lines(folder: Path) -> Path:
    return write_lines(folder, gzip.open, "rows.ndjson.gz")


def write_feather(folder: Path) -> Path:
    ROWS.to_feather(folder / "rows.feather")
    return folder / "rows.feather"


def write_survey(folder: Path, suffix: str = "sav") -> Path:
    pyreadstat = pytest.importorskip("pyreadstat")
    path = folder / f"rows.{suffix}"
    coded = ROWS.assign(
        sex=ROWS.sex.map({"f": 1.0, "m": 2.0}), ill=ROWS.ill.map({True: "true", False: "false"})
    )
    write = pyreadstat.write_sav if suffix == "sav" else pyreadstat.write_dta
    write(coded, str(path), variable_value_labels={"sex": {1: "f", 2: "m"}})
    return path


def write_stata(folder: Path) -> Path:
    return write_survey(folder, "dta")


@pytest.mark.parametrize(
    "write",
    [write_xlsx, write_lines, write_packed_lines, write_feather, write_survey, write_stata],
)
def test_rows_are_those_of_the_frame(write: Callable[[Path], Path], tmp_path: Path) -> None:
    path = write(tmp_path)
    found = exact_rows(str(path))
    expected = exact_rows(ROWS)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-14)
    assert open_source(str(path)).trace == open_source(str(path)).trace


def test_a_sheet_is_named_and_has_the_ledger_of_its_file(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "two.xlsx", Patients=ROWS, Notes=ROWS[["age"]])
    with pytest.raises(UsageError, match=r"two.xlsx\?table=Patients': it has Patients, Notes"):
        open_source(str(path))
    with pytest.raises(UsageError, match="must be one of: Patients, Notes"):
        open_source(f"{path}?table=patient")
    assert open_source(f"{path}?table=Notes").columns == ("age",)
    assert open_ledger(f"{path}?table=Notes").path == open_ledger(str(path)).path


@pytest.mark.parametrize("form", ["csv", "xlsx", "frame"])
def test_duplicate_names_are_renamed_on_request_and_remembered(form: str, tmp_path: Path) -> None:
    rows = pd.DataFrame(
        [["x", n, n % 3, f"{n % 2}"] for n in range(40)], columns=["a", "A", "a", "a_2"]
    )
    data: Any = rows
    if form == "csv":
        rows.to_csv(data := tmp_path / "t.csv", index=False)
    elif form == "xlsx":
        data = write_workbook(tmp_path / "t.xlsx", One=rows)
    with pytest.raises(DataError, match=r"--rename-duplicates, which calls column 2 'A_3'"):
        infer_schema(data)
    draft = infer_schema(data, rename_duplicates=True)
    assert [*draft.drop, *draft.layout] == ["a", "A_3", "a_4", "a_2"]
    found = PrivateTable.open(data, Schema.from_json(draft.to_json())).unprotected("test").frame()
    assert found["a_4"].tolist() == [n % 3 for n in range(40)]


def test_each_cell_is_read_by_itself(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    cells = [7, 7.0, 0.1 + 0.2, 9007199254740991.0, True, "07", None]
    days = [dt.date(2020, 1, 2), dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 2, 3, 4), dt.time(8)]
    book.active.append(["a", "b"])
    for value in [*cells, *days]:
        book.active.append([value, "x"])
    # A row without any value is no row.
    book.active.append([None, None])
    book.active.append(["last", "x"])
    book.active["A10"].number_format = "yyyy-mm-dd hh:mm"
    book.save(tmp_path / "cells.xlsx")
    found = open_source(str(tmp_path / "cells.xlsx")).connect()
    texts = found.backend.to_pyarrow(found.table)["a"].to_pylist()
    assert texts == [
        *("7", "7", "0.3", "9007199254740991", "true", "07", None),
        *("2020-01-02", "2020-01-02 00:00:00", "2020-01-02 03:04:00", "08:00:00", "last"),
    ]


def test_no_warning_quotes_a_cell(tmp_path: Path) -> None:
    """The library that reads workbooks warns of a number that is no day, and quotes it."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for value in ("a", 1, 4 * 10**9):
        book.active.append([value])
    book.active["A3"].number_format = "yyyy-mm-dd"
    book.save(tmp_path / "days.xlsx")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        open_source(str(tmp_path / "days.xlsx")).check_format()
    assert not [str(one.message) for one in caught if "4000000000" in str(one.message)]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"a": 1}\n{"a": 2, "b": "secret"}\n', r"line 2\) must have the names of the first line"),
        ('{"a": 1}\n{"a": [2]}\n', r"line 2\) must hold plain values"),
        ('{"a": 1}\nsecret\n', r"line 2\) must hold one JSON object"),
        ('{"a": 1}\n["secret"]\n', r"line 2\) must hold one JSON object"),
        ('{"a": 1}\n""\n', r"line 2\) must hold one JSON object"),
        ('[{"a": 1}]', r"line 1\) must hold one JSON object"),
        ("\n", "at least one JSON object"),
        ('{"a": 1}\n{"a": "\udcff"}\n', "in UTF-8"),
    ],
)
def test_lines_that_are_no_table_are_refused(text: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=named) as error:
        open_source(str(path)).check_format()
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("suffix", ["xlsx", "feather", "sav", "dta", "jsonl.gz"])
def test_a_file_that_is_not_what_its_name_says(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{suffix}"
    path.write_bytes(b"a,b\n1,2\n")
    with pytest.raises(DataError, match="rows"):
        open_source(str(path)).check_format()


@pytest.mark.parametrize(
    "cell", ['t="n"><v>secret', 't="b"><v>secret', 't="d"><v>secret', 't="s"><v>77']
)
def test_a_workbook_that_is_broken_in_a_cell_is_refused_and_not_quoted(
    cell: str, tmp_path: Path
) -> None:
    path = write_workbook(tmp_path / "rows.xlsx", Patients=pd.DataFrame({"a": [4, 5, 6]}))
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    broken = parts[sheet].replace(b't="n"><v>5', cell.encode())
    assert broken != parts[sheet]
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in {**parts, sheet: broken}.items():
            packed.writestr(name, content)
    with pytest.raises(DataError, match="must be a workbook") as error:
        open_source(str(path)).check_format()
    assert "secret" not in str(error.value)


def test_a_row_longer_than_the_header_is_refused(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["a", None])
    book.active.append([1, "secret"])
    book.save(tmp_path / "wide.xlsx")
    with pytest.raises(
        DataError, match=r"row 2\) must end with the last named column: delete titles above"
    ):
        open_source(str(tmp_path / "wide.xlsx")).check_format()


PACKERS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zip": lambda content: zipped({"people.csv": content}),
}


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_packed_text_files_are_read_in_every_encoding(
    packed: str, encoding: str, tmp_path: Path
) -> None:
    text = "town;age\n" + "Zürich – See;31\nBern;\n" * 20
    path = tmp_path / f"people.csv{packed}"
    path.write_bytes(PACKERS[packed](text.encode(encoding)))
    assert find_encoding(path) == encoding
    source = open_source(path, encoding=encoding)
    source.check_format()
    assert source.columns == ("town", "age")
    frame = source.connect().table.to_pandas()
    assert frame["town"].tolist() == ["Zürich – See", "Bern"] * 20
    assert frame["age"].isna().sum() == 20


@pytest.mark.parametrize("packed", PACKERS)
def test_packed_files_that_are_broken_are_refused_in_words(packed: str, tmp_path: Path) -> None:
    content = PACKERS[packed](b"a,b\n" + np.random.default_rng(0).bytes(40_000).hex().encode())
    path = tmp_path / f"t.csv{packed}"
    for broken in (b"a,b\n1,2\n", content[: len(content) // 2]):
        path.write_bytes(broken)
        with pytest.raises(DataError):
            infer_schema(str(path))


def test_a_zip_file_holds_one_file(tmp_path: Path) -> None:
    path, rows = tmp_path / "t.csv.zip", b"a\n1\n2\n"
    path.write_bytes(zipped({"t.csv": rows, "__MACOSX/._t.csv": b"\x00"}))
    assert open_source(path).columns == ("a",)
    path.write_bytes(zipped({"t.csv": rows, "u.csv": rows}))
    with pytest.raises(DataError, match="must hold one file: unpack it"):
        open_source(path)
    path.write_bytes(zipped({"data/": b"", "data/t.csv": rows}))
    assert open_source(path).columns == ("a",)


def test_linked_tables_may_be_packed(tmp_path: Path) -> None:
    names = [
        f"table{number}.{kind}{p}" for number, p in enumerate(PACKERS) for kind in ("csv", "tsv")
    ]
    for name in names:
        (tmp_path / name).write_bytes(PACKERS[Path(name).suffix](b"a,b\n1,2\n"))
    assert [path.name for path in files_in(tmp_path)] == sorted(names)


@pytest.mark.parametrize("method", [0, 99])
def test_a_zip_file_with_a_password_is_refused_in_words(method: int, tmp_path: Path) -> None:
    content = bytearray(zipped({"t.csv": b"a\n1\n"}))
    listed = content.rfind(b"PK\1\2")
    content[6] = content[listed + 8] = 1
    content[8] = content[listed + 10] = method
    (tmp_path / "t.csv.zip").write_bytes(content)
    with pytest.raises(DataError, match="must be a whole unencrypted zip file"):
        infer_schema(str(tmp_path / "t.csv.zip"))


@pytest.mark.parametrize("packed", [".bz2", ".zip"])
def test_a_broken_line_of_a_packed_file_is_named_by_the_file(packed: str, tmp_path: Path) -> None:
    path = tmp_path / f"people.csv{packed}"
    path.write_bytes(PACKERS[packed](b"a,b\n" + b"1,2\n" * 20 + b"1,2,3\n"))
    with pytest.raises(DataError) as caught:
        infer_schema(str(path))
    assert str(caught.value).startswith(f"data ({path}, line 22) must have as many fields")


def test_a_packed_file_that_is_broken_halfway_is_refused_before_the_charge(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).integers(0, 10**9, 300_000)
    content = bytearray(bz2.compress(b"a\n" + b"\n".join(b"%d" % n for n in numbers)))
    content[len(content) // 2] ^= 255
    path = tmp_path / "t.csv.bz2"
    path.write_bytes(content)
    source = open_source(path)
    with pytest.raises(DataError, match="must be a whole bzip2 file, as its name says"):
        source.check_format()


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_list_of_json_objects_is_a_table(name: str, tmp_path: Path) -> None:
    rows = [{"age": 31, "town": "Zürich", "ok": True, "x": 1.50}, {"age": None, "ok": False}]
    text = json.dumps(rows, indent=1).replace("1.5", "1.50")
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    source = open_source(path)
    assert source.columns == ("age", "town", "ok", "x")
    frame = source.connect().table.to_pandas()
    assert frame["x"].tolist()[0] == "1.50"
    assert frame["ok"].tolist() == ["true", "false"]
    assert frame["town"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1}', r"t.json\) must hold a list of JSON objects,.*\.jsonl"),
        ('{"a": 1}\n{"a": 2}', r"must hold a list of JSON objects,.*\.jsonl"),
        ("null", "must hold a list of JSON objects"),
        ("true", "must hold a list of JSON objects"),
        ("5", "must hold a list of JSON objects"),
        ('[{"a": 1}, ""]', "object 2.* must hold one JSON object"),
        ('[{"a": 1}, null]', "object 2.* must hold one JSON object"),
        ("[]", "at least one JSON object"),
        ("[1, 2]", "object 1.* must hold one JSON object"),
        ('[{"a": 1}, 2]', "object 2.* must hold one JSON object"),
        ('[{"a": 1}, {"b": "secret"}]', "object 2.* must have the names of the first object"),
        ('[{"a": [1]}]', "object 1.* must hold plain values"),
        ("[{", "must hold a list of JSON objects"),
    ],
)
def test_json_that_is_no_table_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(DataError, match=problem) as caught:
        open_source(tmp_path / "t.json").connect()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["t.json", "t.jsonl"])
def test_half_a_character_breaks_no_run(name: str, tmp_path: Path) -> None:
    text = '{"a": "x\\ud800"}'
    (tmp_path / name).write_text(f"[{text}]" if name == "t.json" else text)
    frame = open_source(tmp_path / name).connect().table.to_pandas()
    assert frame["a"].tolist() == ["x?"]


def test_a_schema_in_a_folder_of_tables_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("a,b\n1,2\n")
    (tmp_path / "people.schema.json").write_text("{}")
    assert [path.name for path in files_in(tmp_path)] == ["people.csv"]
