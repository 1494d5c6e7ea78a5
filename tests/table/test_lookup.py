"""Spark's shorter way to the codes, against the way of all other engines, on awkward values."""

from __future__ import annotations

import datetime
import itertools
import math
import shutil
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginalsyn import Schema
from marginalsyn.table import encoding, lookup
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn, OrdinalColumn
from marginalsyn.table.moments import DateColumn, DatetimeColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn

# Texts that are a listed one, nearly one, a number in many spellings, missing, or nothing at all.
TEXTS = [
    *("a", "A", " a", "a ", "\ta\n", "a\xa0", "ü", "it's", 'say "hi"', "back\\slash", "\\", "\\'"),
    *("1", "1.0", "01", "+1", " 1 ", "1e0", "1.5", "1.50", "-0", "-0.0", "0", "2", "10", "1e400"),
    *(
        "nan",
        "NaN",
        "inf",
        "-inf",
        "Infinity",
        "NA",
        "?",
        "",
        " ",
        "null",
        "None",
        "other",
        "OTHER",
    ),
    *("true", "TRUE", "False", "yes", "no", "9007199254740993", "x" * 50, "1" * 41, "٣", "é", "é"),
    *("2020-02-29", "2021-02-29", "2020-01-01", " 2020-03-01", "2020-03-01 10:30", "29.02.2020"),
    *("Bath Spa", "Bat", "B", "high", "low\x0b", "%", "a,b", ",", "-99", "-99.0", "<0.3", "1,5"),
    *(None, "\U0001f600", "\u2028", "c" * 4, "abcde", "abcdefg", "ab"),
]
REALS = [
    *(0.0, -0.0, 0.1, 0.3, 0.30000000000000004, 1.0, 1.5, 2.0, 2.5, 17.0, 17.000001, 99.0, -99.0),
    *(math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, -5e-324, 2.0**53, 2.0**63, None, -1e-3),
    *(
        math.nextafter(0.3, 0),
        math.nextafter(0.3, 1),
        math.nextafter(17, 0),
        3.999999,
        4.0,
        9.99,
        5.0,
    ),
]
WHOLES = [0, 1, 2, 3, 4, 5, 10, -1, -3, -4, -7, -8, -99, 17, 99, 1000, 4999, 5000, 10**6, 10**6 + 1]
WIDE = [2**31, -(2**31), 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), None]
DAYS = [datetime.date(2020, 2, 29), datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]
DAYS += [datetime.date(2019, 12, 31), datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]
LISTED = ("a", "it's", "ü", " spaced ", "1.50", "back\\slash", 'say "hi"', "\\", "a,b", "abcde")

COLUMNS = (
    CategoricalColumn(name="text", categories=LISTED),
    CategoricalColumn(name="folded", categories=("a", "Ü", "yes"), ignore_case=True, nullable=True),
    CategoricalColumn(name="meant", categories=("a", "b"), synonyms={"A": "b", "2": "a", "x": "b"}),
    CategoricalColumn(name="short", categories=("Bath", "B", "1"), prefixes=(1, 4), nullable=True),
    CategoricalColumn(name="codes", categories=(1, 2, 10), other=False, nullable=True),
    CategoricalColumn(name="absent", categories=(0, 1, 5), nullable=True, missing_tokens=(-99, 2)),
    CategoricalColumn(name="mixed", categories=("x", 1, 2.5, False), nullable=True),
    CategoricalColumn(name="far", categories=(0, 10**6, 2**40), nullable=True),
    OrdinalColumn(name="grade", categories=(1.5, 2.0, 2.5)),
    IntegerColumn(name="unit", lower=-3, upper=4, nullable=True),
    IntegerColumn(name="ages", lower=0, upper=99, bins=12, nullable=True, missing_tokens=(-99, 17)),
    IntegerColumn(name="whole", lower=-1000, upper=10**6, bins=(-7, 0, 3, 4, 5000)),
    IntegerColumn(name="huge", lower=1 - 2**53, upper=2**53 - 1, bins=(0, 1, 2)),
    ContinuousColumn(name="real", lower=-1e-3, upper=17, bins=100, nullable=True),
    ContinuousColumn(name="cents", lower=0, upper=9.99, bins=(0.3, 0.7, 5), decimals=2),
    ContinuousColumn(name="close", lower=0, upper=1e300, bins=(0.3, 0.30000000000000004, 1e300)),
    ContinuousColumn(name="one", lower=0, upper=2, bins=(0, 1, 2)),
    BooleanColumn(name="flag", nullable=True),
    BooleanColumn(name="yesno", true_label="yes", false_label="no"),
    BooleanColumn(name="onezero", true_label=1, false_label=0, nullable=True),
)
MOMENTS = (
    DateColumn(name="day", lower="2020-01-01", upper="2020-12-31", nullable=True),
    DateColumn(name="written", lower="2020-01-01", upper="2020-12-31", format="%d.%m.%Y"),
    DatetimeColumn(name="moment", lower="2020-01-01 00:00:00", upper="2020-12-31 00:00:00"),
)
STORED = {
    "string": TEXTS,
    "double": REALS,
    "float": [
        None if v is None else float(np.float32(v)) for v in REALS if v not in (1e300, -1e300)
    ],
    "bigint": [*WHOLES, *WIDE],
    "int": [v for v in [*WHOLES, *WIDE] if v is None or -(2**31) <= v < 2**31],
    "tinyint": [v for v in WHOLES if -128 <= v < 128] + [127, -128, None],
    "decimal(20,3)": [None, *map(Decimal, ("0", "0.3", "1.5", "-99", "17.000", "1000000.001"))],
    "boolean": [True, False, None],
    "date": DAYS,
}


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql", reason="the extra 'spark' is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    found = (
        sql.SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.codegen.hugeMethodLimit", "8000")
        .getOrCreate()
    )
    yield found
    found.stop()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", STORED)
def test_every_code_is_that_of_the_long_way(session: Any, kind: str) -> None:
    columns = COLUMNS + (MOMENTS if kind in ("string", "date") else ())
    schema = Schema(columns=columns)
    tokens, values = schema.missing_tokens, STORED[kind]
    layout = ", ".join(["place int", *(f"`{name}` {kind}" for name in schema.names)])
    rows = [(place, *[value] * len(columns)) for place, value in enumerate(values)]
    session.createDataFrame(rows, layout).createOrReplaceTempView("traps")
    backend = ibis.pyspark.connect(session)
    table = backend.table("traps")

    def codes(query: ibis.Table) -> np.ndarray:
        return backend.to_pandas(query).to_numpy()

    # The rows of a small local table keep their order.
    found = codes(lookup.coded(table, columns, tokens))
    long = codes(Codec(schema)._staged(table, encoding.code, None))
    assert {name: found[:, at].tolist() for at, name in enumerate(schema.names)} == {
        name: long[:, at].tolist() for at, name in enumerate(schema.names)
    }
    assert np.array_equal(codes(Codec(schema).encoded(table)), long)


@pytest.mark.slow
def test_texts_and_numbers_are_found_in_their_tables(session: Any) -> None:
    """Else codes would be right, and slow."""
    keys = [f"key {number}" for number in range(700)] + [t for t in TEXTS if t is not None]
    session.createDataFrame([(key,) for key in keys], "t string").createOrReplaceTempView("keys")
    backend = ibis.pyspark.connect(session)
    table = backend.table("keys")
    hashes = backend.to_pandas(table.select(h=lookup.call("hash", dt.int32, table.t)))["h"].tolist()
    assert hashes == [lookup.murmur(key) for key in keys]
    column = CategoricalColumn(name="t", categories=tuple(keys[:700]))
    known = lookup._of_text(table.t, column, ())
    assert known is not None
    codes = backend.to_pandas(table.select(k=known))["k"][:700]
    there = codes.notna()
    assert there.mean() > 0.99
    assert (codes[there] == np.flatnonzero(there)).all()


def test_the_hash_of_a_text_is_spark_s() -> None:
    # SELECT hash('...') in Spark 4.
    known = {"": 142593372, "a": 1485273170, "Spark": 228093765, "it's ü": -449873126}
    assert {text: lookup.murmur(text) for text in known} == known


edges = st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=40, unique=True).map(sorted)


@given(edges, st.lists(st.floats(allow_nan=False), max_size=20))
def test_a_grid_counts_the_edges_at_or_below_a_value(
    inner: list[float], values: list[float]
) -> None:
    grid = lookup.grid_of(inner)
    if grid is None:
        return
    near = itertools.chain.from_iterable(
        (edge, np.nextafter(edge, -np.inf), np.nextafter(edge, np.inf)) for edge in inner
    )
    for value in [*values, *near, math.inf, -math.inf, -0.0]:
        inside = min(max(value, grid.lower), grid.upper)
        cell = int((inside - grid.lower) * grid.scale)
        found = grid.below[cell] + (value >= grid.edges[cell])
        assert found == np.searchsorted(inner, value, side="right")


def test_even_bins_have_a_grid() -> None:
    for column in (
        IntegerColumn(name="a", lower=17, upper=90),
        ContinuousColumn(name="a", lower=0, upper=10_000, bins=1000),
        ContinuousColumn(name="a", lower=-1e-3, upper=17, bins=(0.3, 0.7, 5)),
    ):
        assert lookup.grid_of(column.edges[1:-1].tolist()) is not None
    assert lookup.grid_of([0.0, 5e-324, 1e300]) is None
    assert lookup.grid_of([-1.7e308, 1.7e308]) is None
    assert lookup.grid_of([1.0]) is None
