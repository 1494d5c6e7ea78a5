"""A row's code and its side of a split are functions of that row and the schema alone."""

from __future__ import annotations

import datetime as dt
import enum
import itertools
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from marginalsyn import PrivateTable, Schema
from marginalsyn.drafting.check import check_data
from marginalsyn.drafting.draft import infer_schema
from marginalsyn.plugins.audit.testkit.generators import check_rows_alone
from marginalsyn.table.arrow import PLAIN, arrow_table
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn

SCHEMA = Schema(
    columns=(
        IntegerColumn(name="whole", lower=0, upper=9, nullable=True),
        ContinuousColumn(name="real", lower=0, upper=1, bins=10, decimals=1, nullable=True),
        CategoricalColumn(name="word", categories=(1, "x", "2.5", True, "2020-01-01 00:00:00")),
        BooleanColumn(name="truth", nullable=True),
    ),
    drop=("left",),
)
Make = Callable[[pd.DataFrame], Any]


class Colour(enum.Enum):
    RED = 1


class Spelt(str, enum.Enum):  # noqa: UP042, whose text is not its value
    X = "x"


TIMES = [
    dt.datetime(2020, 1, 1),
    dt.datetime(2020, 1, 1, 0, 0, 0, 5),
    dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2020, 1, 1, 5, tzinfo=dt.timezone(dt.timedelta(hours=5))),
    pd.Timestamp("2020-01-01", tz="Europe/Berlin"),
    pd.Timestamp("2020-01-01 00:00:00.123456789"),
    np.datetime64("2020-01-01"),
    np.datetime64("2020-01-01T00:00:00.000", "ns"),
    dt.date(2020, 1, 1),
]
ODD = [
    *(None, pd.NA, pd.NaT, np.nan, Decimal("NaN"), np.datetime64("NaT")),
    *(True, False, np.True_, 0, 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**5000),
    *(np.int8(1), np.uint64(2**64 - 1), np.float32(0.1), np.float16(0.5)),
    *(0.1, 1.0, 1e300, -1e-300, np.inf, -np.inf, -0.0),
    *(Decimal("0.3"), Decimal("0.1") + Decimal(10) ** -25, Decimal("1e400"), Fraction(1, 3)),
    *("x", " x ", "n/a", "", "True", "true", "1", "1.0", "0.3", "x,y", 'q"q', "a\nb", np.str_("x")),
    *TIMES,
    *(dt.timedelta(1), np.timedelta64(1, "D"), dt.time(1), pd.Period("2020-01"), 1 + 2j),
    *(pd.Interval(0, 1), uuid.UUID(int=1), Colour.RED, Spelt.X, Path("x"), b"x", object()),
    *([1], (1,), {"a": 1}, {1, 2}, np.array([1, 2])),
]
VALUES = st.one_of(
    st.sampled_from(ODD),
    st.integers(),
    st.floats(),
    st.decimals(allow_nan=False),
    st.datetimes(),
    st.datetimes(timezones=st.timezones()),
    st.text(max_size=4).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)),
)


def objects(values: list[Any]) -> pd.Series:
    """A column of these objects, none of them unpacked."""
    held = np.empty(len(values), dtype=object)
    for position, value in enumerate(values):
        held[position] = value
    return pd.Series(held, dtype=object)


def fields(column: Any) -> list[tuple[str, Any] | None]:
    """What every value became: its field and what it is there."""
    names = {kind: name for name, kind in PLAIN.items()}

    def single(value: Any, kind: Any) -> tuple[str, Any] | None:
        if value is None:
            return None
        # Typed columns may be narrower.
        name = names.get(kind) or ("real" if isinstance(value, float) else "text")
        name = "whole" if isinstance(value, int) and name != "truth" else name
        return name, repr(value)

    found = []
    for value in column.to_pylist():
        if isinstance(value, dict):
            given = [(k, repr(v)) for k, v in value.items() if v is not None]
            assert len(given) <= 1
            found.append(given[0] if given else None)
        else:
            found.append(single(value, column.type))
    return found


def plain(series: pd.Series) -> list[tuple[str, Any] | None]:
    return fields(arrow_table(pd.DataFrame({"a": series}), ["a"]).column(0))


@settings(max_examples=150, deadline=None)
@given(values=st.lists(VALUES, min_size=1, max_size=6))
def test_objects_are_converted_one_by_one(values: list[Any]) -> None:
    together = plain(objects(values))
    for position, value in enumerate(values):
        assert plain(objects([value])) == [together[position]], repr(value)


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_objects_are_what_they_are_in_the_column_that_pandas_gives_them(value: Any) -> None:
    """A frame of one row has a dtype; with a stranger in the column it is one of objects."""
    mixed = plain(objects([value, "stranger", None]))
    assert mixed[1:] == [("text", "'stranger'"), None]
    if isinstance(value, int) and abs(value) > 2**1000:
        return  # pandas raises an OverflowError of its own
    for typed in (objects([value]).infer_objects(), pd.Series([value])):
        if len(typed) == 1:
            assert plain(typed) == mixed[:1], typed.dtype


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, None, 0], "Int8"),
        ([1, None, 2**63 - 1], "UInt64"),
        ([1, None, 2**64 - 1], "UInt64"),
        ([True, None, False], "boolean"),
        ([0.1, None, 1.5], "Float64"),
        ([0.5, np.nan, 1.5], "float16"),
        (["x", None, "1"], "string"),
        (["x", None, "1"], "category"),
        ([1, None, "x", 2.5], "category"),
        ([Decimal("0.3"), None, Decimal("1") / 3], "category"),
        (TIMES[:2], "datetime64[us]"),
        (TIMES[:2], "datetime64[ns]"),
        (TIMES[:2], "category"),
        ([dt.datetime(2020, 1, 1), None], "datetime64[s]"),
        (TIMES[2:5], "datetime64[us, Asia/Tokyo]"),
        ([dt.timedelta(1), None], "timedelta64[ns]"),
        ([1, None, 0], "int64[pyarrow]"),
        ([True, None], "bool[pyarrow]"),
        (["x", None], "large_string[pyarrow]"),
        ([dt.date(2020, 1, 1), None], "date32[day][pyarrow]"),
        (TIMES[:2], "timestamp[us][pyarrow]"),
        (TIMES[2:4], "timestamp[us, tz=Asia/Tokyo][pyarrow]"),
        ([b"x", None], "binary[pyarrow]"),
        ([1, 0, 0], "Sparse[int64]"),
        (["x", None], pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
        ([Decimal("0.30"), None], pd.ArrowDtype(pa.decimal128(30, 20))),
        ([[1], None], pd.ArrowDtype(pa.list_(pa.int64()))),
    ],
    ids=lambda value: "" if isinstance(value, list) else str(value).replace(" ", ""),
)
def test_dtypes_give_what_their_values_give(values: list[Any], dtype: Any) -> None:
    typed = pd.Series(values, dtype=dtype)
    shown = plain(typed)
    assert plain(typed.iloc[::-1])[::-1] == shown
    assert shown == plain(objects([*values, "stranger"]))[:-1]
    for position in range(len(values)):
        assert plain(typed.iloc[[position]]) == [shown[position]]


@pytest.mark.parametrize(
    ("usual", "odd", "kind"),
    [
        (1, 2**30, pa.date32()),
        (86400000, 2**62, pa.date64()),
        (1000, 1001, pa.time64("ns")),
        (1, 2**60, pa.time64("us")),
        (1, 2**30, pa.time32("s")),
        (1, 2**62, pa.timestamp("s")),
        (1, 2**62, pa.duration("ms")),
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["plain", "list", "dictionary"])
def test_no_value_of_another_librarys_table_stops_a_run(
    usual: int, odd: int, kind: Any, form: str
) -> None:
    """Polars has times of nanoseconds, and Arrow days that no Python date has."""

    def table(counts: list[int]) -> Any:
        plain = pa.array(counts, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
        if form == "list":
            plain = pa.ListArray.from_arrays(pa.array(range(len(counts) + 1), pa.int32()), plain)
        elif form == "dictionary":
            plain = pa.DictionaryArray.from_arrays(pa.array(range(len(counts)), pa.int32()), plain)
        return pa.table({"word": plain, "left": plain})

    schema = Schema(columns=(SCHEMA.column("word"),), drop=("left",))
    few, more = (
        PrivateTable.open(table(counts), schema).unprotected("count").counts(("word",))
        for counts in ([usual] * 5, [*[usual] * 5, odd])
    )
    assert np.abs(more - few).tolist().count(1) == np.abs(more - few).sum() == 1


def test_repeated_and_missing_categories_of_another_librarys_table_are_read() -> None:
    coded = pa.array([0, 1, 2, None], pa.int32())
    table = pa.table({"word": pa.DictionaryArray.from_arrays(coded, pa.array(["x", "x", None]))})
    view = PrivateTable.open(table, SCHEMA.select(["word"])).unprotected("count")
    assert view.counts(("word",)).sum() == 4


def coded(values: list[Any], left: list[Any] | None = None) -> pd.DataFrame:
    """One list of objects as every column of the schema, and another in the dropped one."""
    frame = pd.DataFrame({name: objects(values) for name in SCHEMA.names})
    return frame.assign(left=objects(left or values))


def test_objects_get_the_codes_of_typed_columns() -> None:
    """The struct of a mixed column against the plain column that pandas makes of one value."""
    values = ODD
    together = Codec(SCHEMA).encode(coded(values))
    for kind in (bool, int, float, str, dt.datetime, Decimal):
        positions = [
            position
            for position, value in enumerate(values)
            if type(value) is kind and (kind is not int or abs(value) < 2**63)
        ]
        assert positions
        alone = coded([values[position] for position in positions]).infer_objects()
        np.testing.assert_array_equal(Codec(SCHEMA).encode(alone), together[positions], kind)


@pytest.mark.parametrize(
    ("many", "odd"), [(True, "x"), (1, 2.5), (Decimal("0.1"), Decimal(1).scaleb(-25))]
)
def test_one_object_moves_no_other(many: Any, odd: Any) -> None:
    """The counts of a thousand rows, with and without a stranger among them."""
    counts = []
    for values in ([many] * 1000, [many] * 1000 + [odd]):
        view = PrivateTable.open(coded(values), SCHEMA).unprotected("count")
        counts.append({name: view.counts((name,)) for name in SCHEMA.names})
    for key in counts[0]:
        assert np.abs(counts[0][key] - counts[1][key]).sum() == 1


def test_the_curator_sees_objects_as_they_are_read() -> None:
    frame = pd.DataFrame({"a": [1, "x", True, 2.0, None] * 8, "n": [1, 2.0, "3", 4, 5] * 8})
    schema = Schema(
        columns=(
            IntegerColumn(name="a", lower=0, upper=1),
            CategoricalColumn(name="n", categories=(1, 2)),
        )
    )
    numbers, categories = check_data(frame.astype(object), schema)
    assert (numbers.missing, numbers.unparsable, numbers.high) == (8, 8, 8)
    assert numbers.examples == ("x",)
    assert (categories.unseen, categories.examples) == (24, ("3", "4", "5"))
    drafted = infer_schema(frame.astype(object))
    assert drafted.column("a").labels() == ["1", "2", "True", "x", "missing"]
    assert drafted.column("n").kind == "integer"


def test_a_stranger_in_a_dropped_column_moves_no_row_across_the_split() -> None:
    times = [dt.datetime(2020, 1, 1) + n * dt.timedelta(seconds=1.5) for n in range(200)]
    frame = coded(list(range(200)), times)
    odd = pd.concat([frame.infer_objects(), coded([0], ["n/a"])], ignore_index=True)
    assert frame.infer_objects()["left"].dtype != odd["left"].dtype == object
    sizes, codes = [], []
    for rows in (frame.infer_objects(), odd):
        view = PrivateTable.open(rows, SCHEMA, holdout=0.5).unprotected("compare")
        codes.append(view.all_rows().values)
        sizes.append(len(codes[-1]))
    assert 50 < sizes[0] < 150
    assert sizes[1] - sizes[0] in (0, 1)
    np.testing.assert_array_equal(codes[1][: sizes[0]], codes[0])


# Whole sources: every row through a table of its own, which takes time.

ROWS = st.lists(st.tuples(*[VALUES] * 5), min_size=3, max_size=5)
TEXTS = st.text(st.sampled_from("x1.e\"',;\t\n\r |#\\N￾﻿é0"), max_size=5)
TYPED = st.fixed_dictionaries(
    {
        "whole": st.none() | st.integers(-(2**40), 2**40),
        "real": st.none() | st.floats(width=64),
        "word": st.none() | st.sampled_from(["x", "1", " 2.5", "True", "y", ""]),
        "truth": st.none() | st.booleans(),
        "left": st.none() | st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)),
    }
)
DTYPES = {"whole": "Int64", "real": "Float64", "word": "str", "truth": "boolean"}
FEW = settings(
    max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
# Whole tables shrink slowly.
MANY = settings(FEW, max_examples=15, derandomize=False, phases=[Phase.explicit, Phase.generate])
Check = Callable[[Any, Path], None]


def frames_alone(rows: list[tuple[Any, ...]], folder: Path) -> None:
    names = [*SCHEMA.names, "left"]
    frame = pd.DataFrame(
        {
            name: objects(list(column))
            for name, column in zip(names, zip(*rows, strict=True), strict=True)
        }
    )

    def retyped(rows: pd.DataFrame) -> pd.DataFrame:
        """Alone, a row gets the types that pandas gives a table of one row."""
        try:
            return rows.infer_objects() if len(rows) == 1 else rows
        except OverflowError:  # pandas' own, on integers beyond a double
            return rows

    check_rows_alone(retyped, frame, SCHEMA)


def texts_alone(rows: list[tuple[str, ...]], folder: Path) -> None:
    number = itertools.count()

    def write(frame: pd.DataFrame) -> Path:
        path = folder / f"{next(number)}.csv"
        frame.to_csv(path, index=False, quoting=1, lineterminator="\n")
        return path

    check_rows_alone(write, pd.DataFrame(rows, columns=[*SCHEMA.names, "left"]), SCHEMA)


def typed(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return (
        pd.DataFrame(rows)
        .astype(DTYPES)
        .assign(left=pd.Series([row["left"] for row in rows], dtype="datetime64[us]"))
    )


def parquet_alone(rows: list[dict[str, Any]], folder: Path) -> None:
    number = itertools.count()

    def write(frame: pd.DataFrame) -> Path:
        path = folder / f"{next(number)}.parquet"
        frame.to_parquet(path, index=False)
        return path

    check_rows_alone(write, typed(rows), SCHEMA)


def folder_alone(rows: list[dict[str, Any]], folder: Path) -> None:
    number = itertools.count()

    def write(frame: pd.DataFrame) -> Path:
        parts = folder / f"many{next(number)}"
        parts.mkdir()
        for position in range(len(frame)):
            frame.iloc[[position]].to_parquet(parts / f"{position:03}.parquet", index=False)
        return parts

    check_rows_alone(write, typed(rows), SCHEMA)


def duckdb_alone(rows: list[dict[str, Any]], folder: Path) -> None:
    number = itertools.count()

    def write(frame: pd.DataFrame) -> str:
        path = folder / f"{next(number)}.duckdb"
        kinds = "whole BIGINT, real DOUBLE, word VARCHAR, truth BOOLEAN, left_ TIMESTAMP"
        with duckdb.connect(str(path)) as connection:
            connection.register("frame", frame.rename(columns={"left": "left_"}))
            connection.execute(f"CREATE TABLE t ({kinds.replace('left_', 'zone')})")
            connection.execute("INSERT INTO t SELECT whole, real, word, truth, left_ FROM frame")
        return f"duckdb://{path}?table=t"

    schema = SCHEMA.model_copy(update={"drop": ("zone",)})
    check_rows_alone(write, typed(rows), schema)


CASES = {
    "frame": (frames_alone, ROWS),
    "csv": (texts_alone, st.lists(st.tuples(*[TEXTS] * 5), min_size=3, max_size=5)),
    "parquet": (parquet_alone, st.lists(TYPED, min_size=3, max_size=4)),
    "folder": (folder_alone, st.lists(TYPED, min_size=3, max_size=4)),
    "duckdb": (duckdb_alone, st.lists(TYPED, min_size=3, max_size=4)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_row_of_a_source_is_encoded_alone(name: str, tmp_path_factory: Any) -> None:
    _draw(name, FEW, tmp_path_factory)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CASES)
def test_many_rows_of_every_source_are_encoded_alone(name: str, tmp_path_factory: Any) -> None:
    _draw(name, MANY, tmp_path_factory)


def _draw(name: str, how: settings, folders: Any) -> None:
    check, rows = CASES[name]

    @how
    @given(rows=rows)
    def run(rows: Any) -> None:
        check(rows, folders.mktemp(name))

    run()


def test_the_check_can_fail() -> None:
    """Values brought to one scale by their own largest: the classical mistake."""
    frame = coded([1, 2, 9]).infer_objects()
    with pytest.raises(AssertionError, match="row 0: codes"):
        check_rows_alone(
            lambda f: f.assign(whole=9 * f["whole"] // f["whole"].max()), frame, SCHEMA
        )
    with pytest.raises(AssertionError, match="are no longer kept"):
        check_rows_alone(lambda f: f.assign(left=len(f)), coded(list(range(9))), SCHEMA)
