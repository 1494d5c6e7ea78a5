"""Opening private tables: what can be opened, what is refused, and in which words."""

from __future__ import annotations

import csv
import datetime
import gzip
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from marginalsyn import PrivateTable, Schema, Synthesizer, infer_schema
from marginalsyn.errors import DataError, MissingExtraError, UsageError
from marginalsyn.sources import databases
from marginalsyn.sources import source as sources
from marginalsyn.sources.source import open_source
from marginalsyn.table.engine import engine_errors

FRAME = pd.DataFrame({"age": [31, 27, 64], "town": ["Bath", None, "Ely"]})
SECRET = "s3cr3t-value"


def rows_of(data: object, **options: str) -> list[tuple[object, ...]]:
    connection = open_source(data, **options).connect()
    found = connection.backend.to_pyarrow(connection.table).to_pylist()
    return [tuple(row.values()) for row in found]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    FRAME.to_parquet(tmp_path / "part-0.parquet")
    FRAME[["town", "age"]].to_parquet(tmp_path / "part-1.parquet")
    return tmp_path


class TestKinds:
    def test_frame_text_and_parquet_hold_the_same_rows(self, tmp_path: Path) -> None:
        FRAME.to_csv(tmp_path / "t.csv", index=False)
        FRAME.to_csv(tmp_path / "t.csv.gz", index=False)
        FRAME.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
        FRAME.to_csv(tmp_path / "semicolon.csv", index=False, sep=";")
        FRAME.to_csv(tmp_path / "quoted.csv", index=False, sep=";", quoting=csv.QUOTE_ALL)
        FRAME.to_parquet(tmp_path / "t.parquet")
        expected = [(31, "Bath"), (27, None), (64, "Ely")]
        as_text = [(str(age), town) for age, town in expected]
        assert rows_of(FRAME) == expected
        assert rows_of(tmp_path / "t.parquet") == expected
        for name in ("t.csv", "t.csv.gz", "t.tsv"):
            assert rows_of(str(tmp_path / name)) == as_text
        assert rows_of(tmp_path / "semicolon.csv", sep=";") == as_text
        assert rows_of(tmp_path / "quoted.csv") == as_text

    def test_types_of_a_text_file_are_never_guessed(self, tmp_path: Path) -> None:
        path = write(tmp_path / "t.csv", b"code,day\n007,2020-01-01\n")
        assert rows_of(path) == [("007", "2020-01-01")]

    def test_glob_and_folder_read_files_in_order_and_columns_by_name(self, folder: Path) -> None:
        twice = [(31, "Bath"), (27, None), (64, "Ely")] * 2
        assert rows_of(folder / "*.parquet") == twice
        assert rows_of(str(folder)) == twice
        assert open_source(folder / "part-?.parquet").columns == ("age", "town")

    def test_glob_of_text_files(self, tmp_path: Path) -> None:
        write(tmp_path / "b.csv", b"x\n2\n")
        write(tmp_path / "a.csv", b"x\n1\n")
        assert rows_of(tmp_path / "*.csv") == [("1",), ("2",)]

    def test_text_with_a_mark_quotes_and_odd_names(self, tmp_path: Path) -> None:
        content = '\ufeff"a ""b""",it\'s,é\r\n"1,2","x\ny",""\r\n'.encode()
        path = write(tmp_path / "t.csv", content)
        source = open_source(path)
        source.check_format()
        assert source.columns == ('a "b"', "it's", "é")
        assert rows_of(path) == [("1,2", "x\ny", None)]

    def test_lines_inside_fields_of_a_long_file(self, tmp_path: Path) -> None:
        """Readers of parts of a file took such lines for rows, or called the file broken."""
        row = '1,"x\n2,""y""\n1,' + "z" * 60 + '\n"\n'
        path = write(tmp_path / "t.csv", ("a,b\n" + row * 300_000).encode())
        source = open_source(path)
        source.check_format()
        connection = source.connect()
        counts = connection.table.a.value_counts()
        assert connection.backend.to_pyarrow(counts).to_pylist() == [{"a": "1", "a_count": 300_000}]

    def test_duckdb_file_is_opened_read_only(self, tmp_path: Path) -> None:
        path = tmp_path / "base.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE t AS SELECT 7 AS a")
            connection.execute("CREATE SCHEMA s")
            connection.execute("CREATE TABLE s.u AS SELECT 8 AS a")
        before = path.read_bytes()
        assert rows_of(f"duckdb://{path}?table=t") == [(7,)]
        assert rows_of(f"duckdb://{path}", table="s.u") == [(8,)]
        assert open_source(f"duckdb://{path}?table=t").name == f"duckdb://{path}?table=t"
        assert path.read_bytes() == before

    def test_nested_columns_are_known_before_a_row_is_read(self, tmp_path: Path) -> None:
        frame = pd.DataFrame({"a": [1], "many": [[1, 2]], "raw": [b"x"]})
        frame.to_parquet(tmp_path / "t.parquet")
        assert open_source(tmp_path / "t.parquet").nested == ("many", "raw")


class TestFrames:
    def test_mixed_objects_keep_the_type_of_each(self) -> None:
        values = [1, "x", None, 2.0, True, np.nan, 2**64]
        frame = pd.DataFrame({"m": values}, dtype=object)
        found = [{k: v for k, v in row[0].items() if v is not None} for row in rows_of(frame)]
        wanted = [{"whole": 1}, {"text": "x"}, {}, {"real": 2.0}, {"truth": True}, {}]
        assert found == [*wanted, {"real": 2.0**64}]

    def test_types_of_every_sort(self) -> None:
        frame = pd.DataFrame(
            {
                "i": pd.array([1, None], dtype="Int64"),
                "f": [0.5, np.nan],
                "c": pd.Categorical([3, None]),
                "b": pd.array([True, None], dtype="boolean"),
                0: ["a", "b"],
            },
            index=["p", "p"],
        )
        source = open_source(frame)
        assert source.columns == ("i", "f", "c", "b", "0")
        assert rows_of(frame) == [(1, 0.5, 3, True, "a"), (None, None, None, None, "b")]

    def test_text_that_is_no_unicode(self) -> None:
        texts = ["\ud800x", "x\udfff", "\ud83d\ude00", "y"]
        for dtype in (object, "string[python]"):
            frame = pd.DataFrame({"a": pd.Series(texts, dtype=dtype)})
            assert rows_of(frame) == [("\ufffdx",), ("x\ufffd",), ("\U0001f600",), ("y",)]
            assert open_source(frame).trace


class TestRefusals:
    def test_a_long_field_that_never_ends(self, tmp_path: Path) -> None:
        path = write(tmp_path / "t.csv", b'a,b\n1,2\n3,"' + b"x" * 300_000)
        with pytest.raises(DataError, match=r"line 3.* close every quoted field"):
            open_source(path).check_format()

    def test_a_quote_inside_a_plain_field_is_a_quote(self, tmp_path: Path) -> None:
        open_source(write(tmp_path / "t.csv", b'a,b\n5" pipe,2\n')).check_format()

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", "must not be empty"),
            (b"\n\n", "header line"),
            (b"a,b,a\n1,2,3\n", "'a' occurs twice"),
            (b"Age,age\n1,2\n", "more than case: 'Age' and 'age'"),
            (b",a\n0,1\n", "column 1 .* must have a name"),
            (b"a,\xe9\n", "UTF-8"),
            (b'"a,b\n', "must be one line of names"),
        ],
    )
    def test_headers(self, tmp_path: Path, content: bytes, words: str) -> None:
        with pytest.raises(DataError, match=words):
            open_source(write(tmp_path / "t.csv", content))

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"1,2\n1,s3cr3t-value,3\n", "line 3.* as many fields as the header"),
            (b"1,2\ns3cr3t-value\n", "line 3.* as many fields as the header"),
            (b"1,2\n1,s3cr3t-value\xe9\n", "line 3.* UTF-8"),
            (b'1,2\n"s3cr3t-value,3\n', "line 3.* close every quoted field"),
            (b'1,2\n"s3cr3t-value"x,3\n', "line 3.*"),
            (b"1,2\r\ns3cr3t-value,2\n1,2\r\n", "regular CSV"),
            (b"1,2\n1,file = s3cr3t-value,3\n", "line 3.* as many fields"),
        ],
    )
    def test_bodies_are_refused_without_quoting_them(
        self, tmp_path: Path, body: bytes, words: str
    ) -> None:
        path = write(tmp_path / "t.csv", b"a,b\n" + body)
        with pytest.raises(DataError, match=words) as caught:
            open_source(path).check_format()
        assert SECRET not in str(caught.value)
        assert str(path) in str(caught.value)
        # A traceback would print the engine's own words, which quote the line.
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    def test_gzip_that_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="whole gzip file"):
            open_source(write(tmp_path / "t.csv.gz", b"a,b\n1,2\n"))

    def test_gzip_cut_short(self, tmp_path: Path) -> None:
        content = gzip.compress(b"a,b\n" + np.random.default_rng(0).bytes(20_000).hex().encode())
        path = write(tmp_path / "t.csv.gz", content[:9000])
        with pytest.raises(DataError):
            open_source(path).check_format()

    def test_parquet_that_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="Parquet"):
            open_source(write(tmp_path / "t.parquet", b"PAR1 not really"))

    def test_a_parquet_column_whose_name_is_no_text_is_a_data_error(self, tmp_path: Path) -> None:
        path = tmp_path / "t.parquet"
        pd.DataFrame({"abcq": ["x", "y"]}).to_parquet(path)
        path.write_bytes(path.read_bytes().replace(b"abcq", b"\x80bcq"))
        with pytest.raises(DataError, match="footer cannot be read"):
            open_source(path)

    def test_damaged_parquet_is_a_data_error_when_read(self, tmp_path: Path) -> None:
        path = tmp_path / "t.parquet"
        pd.DataFrame({"a": np.arange(1000)}).to_parquet(path, compression="snappy")
        content = bytearray(path.read_bytes())
        content[4:400] = b"\xff" * 396
        path.write_bytes(bytes(content))
        connection = open_source(path).connect()
        with pytest.raises(DataError, match="withheld"), engine_errors(str(path)):
            connection.backend.to_pyarrow(connection.table)

    @pytest.mark.parametrize(
        ("name", "error", "words"),
        [
            ("absent.csv", DataError, "existing file"),
            ("*.csv", DataError, "matches none"),
            ("t.xls", UsageError, "must end in one of: .csv"),
            ("t.txt", UsageError, "Rename .txt, unpack .zip"),
            ("t.parquet.gz", UsageError, "must end in one of: .csv"),
            ("", DataError, "holds \\*.parquet"),
        ],
    )
    def test_paths(self, tmp_path: Path, name: str, error: type[Exception], words: str) -> None:
        for file in ("t.xls", "t.txt", "t.parquet.gz"):
            write(tmp_path / file, b"x")
        with pytest.raises(error, match=words):
            open_source(tmp_path / name)

    def test_files_that_do_not_belong_together(self, tmp_path: Path) -> None:
        write(tmp_path / "a.csv", b"x,y\n1,2\n")
        write(tmp_path / "b.csv", b"y,x\n1,2\n")
        with pytest.raises(DataError, match=r"header of .*b\.csv must equal"):
            open_source(tmp_path / "*.csv")
        FRAME.to_parquet(tmp_path / "a.parquet")
        with pytest.raises(DataError, match="all CSV or all Parquet"):
            open_source(tmp_path / "a.*")
        FRAME[["age"]].to_parquet(tmp_path / "b.parquet")
        with pytest.raises(DataError, match=r"columns of .*b\.parquet"):
            open_source(tmp_path / "*.parquet")

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (["1"], [1]),
            ([1], [1.0]),
            ([True], [1]),
            ([1], [None]),
            ([Decimal("1.5")], [Decimal("1.25")]),
            ([datetime.date(2020, 1, 1)], ["2020-01-01"]),
            ([{"x": 1}], [{"x": "1"}]),
            (pa.array([0], pa.timestamp("us")), pa.array([0], pa.timestamp("us", "UTC"))),
            (pa.array([0], pa.timestamp("us")), pa.array([0], pa.timestamp("ns"))),
            (pa.array([1], pa.int8()), pa.array([1], pa.int64())),
            (pa.array([0.1], pa.float32()), pa.array([0.1], pa.float64())),
        ],
    )
    def test_parquet_files_of_other_types(self, tmp_path: Path, one: Any, other: Any) -> None:
        """An engine would read all of them as one type, which the odd file decides."""
        plain = pa.array([1])
        parquet.write_table(pa.table({"a.b": plain, "a": one}), tmp_path / "0.parquet")
        parquet.write_table(pa.table({"a": one, "a.b": plain}), tmp_path / "1.parquet")
        open_source(tmp_path)
        parquet.write_table(pa.table({"a.b": plain, "a": other}), tmp_path / "2.parquet")
        with pytest.raises(DataError, match=r"column 'a' of .*2\.parquet \(.* must have the type"):
            open_source(tmp_path)

    def test_parquet_files_of_one_type_by_several_writers(self, tmp_path: Path) -> None:
        parquet.write_table(pa.table({"n": [1], "t": ["x"]}), tmp_path / "0.parquet")
        categories = pa.table({"n": [2], "t": pa.array(["y"]).dictionary_encode()})
        parquet.write_table(categories, tmp_path / "1.parquet")
        strict = pa.schema([pa.field("n", "int64", nullable=False), pa.field("t", "string")])
        parquet.write_table(pa.table({"n": [3], "t": ["z"]}, schema=strict), tmp_path / "2.parquet")
        query = f"COPY (SELECT 4::BIGINT AS n, 'u' AS t) TO '{tmp_path}/3.parquet'"
        duckdb.connect().execute(query)
        assert rows_of(tmp_path) == [(1, "x"), (2, "y"), (3, "z"), (4, "u")]

    @pytest.mark.parametrize(
        ("frame", "words"),
        [
            (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' occurs twice"),
            (pd.DataFrame([[1, 2]], columns=["a", "A"]), "more than case"),
            (pd.DataFrame(index=[1, 2]), "at least one column"),
            (pd.DataFrame([[1]], columns=[" "]), "must have a name"),
        ],
    )
    def test_frames(self, frame: pd.DataFrame, words: str) -> None:
        with pytest.raises(DataError, match=words):
            open_source(frame)

    def test_what_is_no_table(self) -> None:
        with pytest.raises(UsageError, match=r"data \(list\) must be"):
            open_source([1, 2])
        with pytest.raises(UsageError, match=r"sep \('::'\) must be one character"):
            open_source(FRAME, sep="::")
        with pytest.raises(UsageError, match="bound to one backend"):
            open_source(ibis.table({"a": "int64"}, name="t"))

    @pytest.mark.parametrize(
        ("url", "error", "words"),
        [
            ("mysql://host/db?table=t", UsageError, "duckdb://, postgres://"),
            ("https://example.com/t.csv", UsageError, "must be a file or start with"),
            ("postgres://host/db", UsageError, r"add \?table=NAME"),
            ("duckdb:///no/such/file.duckdb?table=t", DataError, "existing DuckDB file"),
        ],
    )
    def test_addresses(self, url: str, error: type[Exception], words: str) -> None:
        with pytest.raises(error, match=words):
            open_source(url)

    def test_missing_table_of_a_database(self, tmp_path: Path) -> None:
        path = tmp_path / "base.duckdb"
        duckdb.connect(str(path)).close()
        with pytest.raises(DataError, match=r"table \(people\) of .* must be there"):
            open_source(f"duckdb://{path}?table=people")

    def test_passwords_are_never_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(scheme: str, address: str) -> None:
            assert SECRET in address
            assert "table=" not in address
            raise RuntimeError(f"no route with {SECRET}\nsecond line")

        monkeypatch.setattr(databases, "connect", refuse)
        with pytest.raises(DataError) as caught:
            open_source(f"postgres://ann:{SECRET}@host:5433/db?table=t")
        assert str(caught.value) == (
            "table (t) of postgres://ann@host:5433/db must be reachable: no route with ***"
        )

    @pytest.mark.parametrize(
        ("module", "url", "extra"),
        [
            ("psycopg", "postgres://host/db?table=t", "postgres"),
            ("pyspark", "spark://t", "spark"),
        ],
    )
    def test_missing_extras_name_the_command(
        self, monkeypatch: pytest.MonkeyPatch, module: str, url: str, extra: str
    ) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == module]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.delitem(sys.modules, f"ibis.backends.{extra}", raising=False)
        monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.setitem(sys.modules, f"{module}.sql", None)
        with pytest.raises(MissingExtraError, match=rf"marginalsyn\[{extra}\]"):
            open_source(url)


def test_opening_reads_the_header_line_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poisoned() -> None:
        raise AssertionError("an engine was started")

    monkeypatch.setattr(sources, "private_engine", poisoned)
    FRAME.to_parquet(tmp_path / "t.parquet")
    for data in (
        FRAME,
        tmp_path / "t.parquet",
        write(tmp_path / "t.csv", b"a,b\nnot,a,row\n"),
    ):
        open_source(data)


def test_what_spills_is_private_and_goes_with_the_engine() -> None:
    code = """
import gc, os, pathlib
from marginalsyn.table import engine
engine.MEMORY_LIMIT = "40MB"
for make in (engine.private_engine, engine.new_engine):
    backend = make()
    folder = pathlib.Path(backend.con.sql("SELECT current_setting('temp_directory')").fetchone()[0])
    for place in (folder, folder.parent):
        assert os.stat(place).st_mode & 0o777 == 0o700
    backend.con.execute("CREATE TEMP TABLE t AS SELECT hash(range) AS a FROM range(8000000)")
    assert list(folder.iterdir()), "nothing was spilled"
    del backend
    gc.collect()
    assert not folder.exists() or not list(folder.iterdir())
    make()
print(folder.parent)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).exists()


def test_a_packed_file_that_ends_too_early_is_refused(tmp_path: Path) -> None:
    """Its last whole line would else pass for the end of the table."""
    text = b"a\n" + b"".join(b"%d\n" % i for i in range(9999))
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(text)[:-9])
    table = PrivateTable.open(path, Schema.from_domain({"a": 9999}))
    with pytest.raises(DataError, match="whole gzip file"):
        table.unprotected("check").frame()
    path.write_bytes(gzip.compress(text))
    assert len(PrivateTable.open(path, table.schema).unprotected("check").frame()) == 9999


def test_a_stream_that_can_be_read_once_serves_as_a_table():
    schema = Schema.from_domain({"a": 3})
    rows = pa.table({"a": [0, 1, 2] * 200})
    made = Synthesizer(method="independent", eps=50, schema=schema).fit(rows.to_reader())
    assert len(made.sample()) == pytest.approx(600, abs=30)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_single_column_is_refused_in_words(library):
    column = pytest.importorskip(library).Series([1, 2])
    schema = Schema.from_domain({"a": 3})
    for take in (infer_schema, Synthesizer(method="independent", eps=1, schema=schema).fit):
        with pytest.raises(UsageError, match=r"data \(Series\) must be a table, not one column"):
            take(column)
