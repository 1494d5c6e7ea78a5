"""Rows to codes and back: every kind, every spelling, every engine's view of them."""

from __future__ import annotations

import datetime as dt
import io
import os

import ibis
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from marginalsyn import Schema
from marginalsyn.errors import SchemaError
from marginalsyn.table import encoding
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn, OrdinalColumn, text_of
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn

EVERY_KIND = Schema(
    columns=(
        CategoricalColumn(name="text", categories=("a", "it's", "ü", " spaced ", "1.50")),
        CategoricalColumn(name="codes", categories=(1, 2, 10), other=False, nullable=True),
        CategoricalColumn(name="mixed", categories=("x", 1, 2.5, False), nullable=True),
        OrdinalColumn(name="grade", categories=(1.5, 2.0, 2.5)),
        IntegerColumn(name="unit", lower=-3, upper=4, nullable=True),
        IntegerColumn(name="whole", lower=-1000, upper=10**6, bins=(-7, 0, 3, 4, 5000)),
        ContinuousColumn(name="real", lower=-1e-3, upper=17, bins=100, nullable=True),
        ContinuousColumn(name="cents", lower=0, upper=9.99, bins=(0.3, 0.7, 5), decimals=2),
        BooleanColumn(name="flag", nullable=True),
        BooleanColumn(name="yesno", true_label="yes", false_label="no"),
        BooleanColumn(name="onezero", true_label=1, false_label=0, nullable=True),
    )
)


def random_codes(schema: Schema, rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, rows) for size in schema.domain.values()], axis=1)


def read_as_text(csv: str) -> pd.DataFrame:
    """As a CSV source is read: every field a text, nothing guessed."""
    return pd.read_csv(io.StringIO(csv), dtype=str, keep_default_na=False)


def one(column, values) -> list[int]:
    frame = pd.DataFrame({column.name: values})
    return Codec(Schema(columns=(column,))).encode(frame).ravel().tolist()


# Round trips


names = st.text(
    st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1, max_size=6
).filter(text_of)
bound = st.integers(-(10**6), 10**6)


@st.composite
def any_column(draw, name: str):
    kind = draw(st.sampled_from(["categorical", "ordinal", "integer", "continuous", "boolean"]))
    fields = {"name": name, "nullable": draw(st.booleans())}
    if kind in ("categorical", "ordinal"):
        plain = names.filter(
            lambda text: (
                text_of(text) not in (*Schema.from_domain({"a": 1}).missing_tokens, "OTHER")
            )
        )
        numbers = st.integers(-(10**12), 10**12)
        reals = st.floats(-1e6, 1e6, allow_subnormal=False).map(lambda x: round(x, 4))
        values = draw(
            st.lists(
                draw(st.sampled_from([plain, numbers, reals, st.one_of(plain, numbers)])),
                min_size=1,
                max_size=6,
                unique_by=text_of,
            )
        )
        made = CategoricalColumn if kind == "categorical" else OrdinalColumn
        return made(**fields, categories=tuple(values), other=draw(st.booleans()))
    if kind == "boolean":
        true, false = draw(st.sampled_from([(True, False), ("y", "n"), (1, 2), ("T", 0)]))
        return BooleanColumn(**fields, true_label=true, false_label=false)
    lower, span = draw(bound), draw(st.integers(1, 10**6))
    if kind == "integer":
        bins = draw(st.one_of(st.just("auto"), st.integers(1, min(60, span + 1))))
        return IntegerColumn(**fields, lower=lower, upper=lower + span, bins=bins)
    decimals = draw(st.sampled_from([None, 0, 1, 3]))
    scale = draw(st.sampled_from([1, 1e-3, 7.3])) if decimals is None else 1
    bins = draw(st.one_of(st.just("auto"), st.integers(1, min(60, span))))
    return ContinuousColumn(
        **fields, lower=lower * scale, upper=(lower + span) * scale, bins=bins, decimals=decimals
    )


@st.composite
def any_schema(draw):
    count = draw(st.integers(1, 4))
    return Schema(columns=[draw(any_column(f"c{number}")) for number in range(count)])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_schema(), st.integers(0, 2**32 - 1))
def test_any_schema_gives_its_codes_back(schema, seed):
    codec = Codec(schema)
    codes = random_codes(schema, 30, seed)
    frame = codec.decode(codes, np.random.default_rng(seed))
    assert np.array_equal(codec.encode(frame), codes)
    assert np.array_equal(codec.encode(read_as_text(frame.to_csv(index=False))), codes)
    for column in schema.columns:
        if column.numeric:
            assert frame[column.name].dropna().between(column.lower, column.upper).all()
    assert frame.dtypes.equals(codec.empty().dtypes)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.floats(-200, 200), st.sampled_from([np.inf, -np.inf, np.nan, 0.1, 0.3, 100.0])
        ),
        min_size=1,
    ),
    st.sampled_from([1, 7, 10, 64]),
)
def test_bins_agree_with_a_plain_search_of_the_edges(values, bins):
    column = ContinuousColumn(name="x", lower=-100, upper=100, bins=bins, nullable=True)
    inside = np.searchsorted(column.edges[1:-1], values, side="right")
    expected = np.where(np.isnan(values), bins, inside)
    assert one(column, values) == expected.tolist()


EVEN = [
    ContinuousColumn(name="x", lower=0, upper=200_000, bins=8192, nullable=True),
    ContinuousColumn(name="x", lower=-1e5, upper=3e9, bins=8191, decimals=3),
    ContinuousColumn(name="x", lower=0.05, upper=200.1, bins=1000, decimals=1),
    ContinuousColumn(name="x", lower=-3.7, upper=19.2, bins=229, decimals=1),
    ContinuousColumn(name="x", lower=0.1, upper=0.7, bins=77),
    IntegerColumn(name="x", lower=-17, upper=10**6, bins=8192),
    IntegerColumn(name="x", lower=5, upper=10**9 + 7, bins=9999, nullable=True),
]


@pytest.mark.parametrize("column", EVEN)
def test_even_bins_are_computed_as_a_search_would_find_them(column):
    """On every edge, on its neighbours among the doubles, between them, and out of bounds."""
    assert encoding.even_bins(column)
    edges = column.edges
    between = np.random.default_rng(0).uniform(edges[0], edges[-1], 2000)
    near = [np.nextafter(edges, end) for end in (-np.inf, np.inf)]
    values = np.concatenate([edges, *near, between, [np.inf, -np.inf, np.nan]])
    inside = np.searchsorted(edges[1:-1], values, side="right")
    absent = column.missing_code if column.nullable else 0
    assert one(column, values) == np.where(np.isnan(values), absent, inside).tolist()


def test_bins_that_arithmetic_cannot_find_are_searched():
    """Uneven edges, and numbers so large that the products are rounded."""
    edges = tuple(np.geomspace(1, 1e6, 200))
    uneven = ContinuousColumn(name="x", lower=0.5, upper=2e6, bins=edges)
    far = IntegerColumn(name="x", lower=0, upper=2**50, bins=8191)
    assert not encoding.even_bins(uneven)
    assert not encoding.even_bins(far)
    inside = np.searchsorted(uneven.edges[1:-1], uneven.edges, side="right")
    assert one(uneven, uneven.edges) == inside.tolist()


# Decoding


def test_dtypes_and_labels():
    frame = Codec(EVERY_KIND).decode(random_codes(EVERY_KIND, 400), np.random.default_rng(0))
    text = str(pd.Series(["a"]).dtype)
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == {
        "text": text,
        "codes": "Int64",
        "mixed": "object",
        "grade": "float64",
        "unit": "Int64",
        "whole": "int64",
        "real": "float64",
        "cents": "float64",
        "flag": "boolean",
        "yesno": text,
        "onezero": "Int64",
    }
    assert set(frame["yesno"]) == {"yes", "no"}
    assert set(frame["text"]) == {"a", "it's", "ü", " spaced ", "1.50", "OTHER"}
    assert {type(value) for value in frame["mixed"].dropna()} == {str, int, float, bool}
    plain = Codec(
        Schema(columns=(BooleanColumn(name="b"), IntegerColumn(name="i", lower=0, upper=1)))
    )
    assert plain.empty().dtypes.map(str).tolist() == ["bool", "int64"]


def test_one_never_comes_back_as_one_point_zero():
    schema = Schema(
        columns=(
            CategoricalColumn(name="a", categories=(0, 1), other=False, nullable=True),
            IntegerColumn(name="b", lower=0, upper=1, nullable=True),
            BooleanColumn(name="c", true_label=1, false_label=0, nullable=True),
            CategoricalColumn(name="d", categories=(0, 1), nullable=True),
            CategoricalColumn(name="e", categories=("1", 0.5, 2), nullable=True),
            CategoricalColumn(name="f", categories=("1.0", "2.0"), nullable=True),
        )
    )
    csv = Codec(schema).decode(random_codes(schema, 300), np.random.default_rng(0)).to_csv()
    fields = {name: set(column) for name, column in read_as_text(csv).items()}
    assert fields["a"] == fields["b"] == fields["c"] == {"0", "1", ""}
    assert fields["d"] == {"0", "1", "OTHER", ""}
    assert fields["e"] == {"1", "0.5", "2", "OTHER", ""}
    assert fields["f"] == {"1.0", "2.0", "OTHER", ""}


def test_a_numeric_other_label_keeps_a_column_of_integers():
    column = CategoricalColumn(name="c", categories=(1, 2), other_label=-1)
    codec = Codec(Schema(columns=(column,)))
    frame = codec.decode(np.array([[0], [1], [2]]), np.random.default_rng(0))
    assert frame["c"].tolist() == [1, 2, -1]
    assert str(frame["c"].dtype) == "int64"
    assert codec.encode(frame).ravel().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "column",
    [
        IntegerColumn(name="x", lower=0, upper=39, bins=(17,)),
        ContinuousColumn(name="x", lower=0, upper=40, bins=(17,)),
        ContinuousColumn(name="x", lower=0.05, upper=39.95, bins=(17.03,), decimals=1),
    ],
)
def test_draws_are_uniform_inside_the_bin(column):
    codec = Codec(Schema(columns=(column,)))
    drawn = codec.decode(np.ones((40_000, 1), int), np.random.default_rng(7))["x"].to_numpy()
    cells = np.bincount(np.floor(drawn).astype(int), minlength=40)
    assert cells[:17].sum() == 0
    weights = np.ones(23)
    if column.kind == "continuous" and column.decimals == 1:
        assert set(drawn) == {k / 10 for k in range(171, 400)}
        weights[0] = 0.9  # 17.1 ... 17.9: one value fewer than in the other units
    expected = 40_000 * weights / weights.sum()
    assert stats.chisquare(cells[17:], expected).pvalue > 1e-6
    skewed = expected * np.linspace(0.9, 1.1, 23)
    assert stats.chisquare(cells[17:], 40_000 * skewed / skewed.sum()).pvalue < 1e-6


def test_draws_never_reach_the_next_bin():
    low, high = 1.0, np.nextafter(np.nextafter(1.0, 2), 2)
    column = ContinuousColumn(name="x", lower=low, upper=3, bins=(high,))
    codec = Codec(Schema(columns=(column,)))
    codes = np.zeros((1000, 1), dtype=int)
    assert (codec.encode(codec.decode(codes, np.random.default_rng(0))) == 0).all()


# Spellings

NUMBERS = {
    "1": 1, " 17 ": 17, "1.0": 1, "1e1": 10, "1E+1": 10, "+.5": 0, "5.": 5, "\t3\n": 3,
    "inf": 20, "-Infinity": 0, "1e249": 20, "-1e249": 0, "1e-249": 0, "007": 7, "-0": 0,
    "99999999999999999999": 20, "19.99": 19, "20.5": 20, "-3": 0,
}  # fmt: skip
NO_NUMBERS = [
    "abc", "1_000", "0x10", "1,5", "1 2", "--1", "1e", "e5", ".", "٣", "1e999", "true", "0" * 41,
    "2024-01-01", "1.2.3", "$5", "5%",
]  # fmt: skip
MISSING = ["", "  ", "NA", "N/A", "NaN", "nan", "<NA>", "null", "NULL", "None", "?", None, np.nan]


def test_what_is_no_number_takes_the_first_bin_where_nothing_may_be_missing():
    column = IntegerColumn(name="i", lower=5, upper=20)
    assert set(one(column, [*NO_NUMBERS, *MISSING])) == {0}


def test_categories_in_either_type():
    ints = CategoricalColumn(name="c", categories=(0, 1, 2), other=True, nullable=True)
    assert one(ints, ["1", "1.0", " 1 ", "1e0", "+1", "01", "0"]) == [1, 1, 1, 1, 1, 1, 0]
    assert one(ints, [1, 2, 7]) == [1, 2, 3]
    assert one(ints, [1.0, 2.5, np.nan]) == [1, 3, 4]
    assert one(ints, [True, False]) == [1, 0]
    assert one(ints, ["true", "x", "?", ""]) == [3, 3, 4, 4]
    texts = CategoricalColumn(name="c", categories=("0", "1", "2.50", "01"))
    assert one(texts, [1, 0, 3]) == [1, 0, 4]
    assert one(texts, [1.0, 2.5, 0.1]) == [1, 2, 4]
    assert one(texts, ["1.0", "1", "01", "2.50", "2.5", "001"]) == [1, 1, 3, 2, 4, 4]
    reals = CategoricalColumn(name="c", categories=(0.5, 1.0), other=False)
    assert one(reals, ["0.50", ".5", "1"]) == [0, 0, 1]
    assert one(reals, [1, 0]) == [1, 0]
    mixed = CategoricalColumn(name="c", categories=("a", 1, True), other=True)
    assert one(mixed, ["a", 1, True, "1", "True", "TRUE", "b"]) == [0, 1, 2, 1, 2, 2, 3]


def test_truth_values_in_every_type():
    flag = BooleanColumn(name="b", nullable=True)
    expected = [1, 0, 1, 0, 1, 0, 1, 0, 2, 2, 2]
    words = ["True", "False", "true", "FALSE", "1", "0", "1.0", "0.0", "yes", "?", "2"]
    assert one(flag, words) == expected
    assert one(flag, [1, 0, 2]) == [1, 0, 2]
    assert one(flag, [1.0, 0.0, np.nan]) == [1, 0, 2]
    assert one(flag, [True, False, None]) == [1, 0, 2]
    words = BooleanColumn(name="b", true_label="yes", false_label="no")
    assert one(words, ["yes", "no", " yes", "true", "maybe"]) == [1, 0, 1, 1, 0]
    assert one(words, [True, False]) == [1, 0]
    codes = BooleanColumn(name="b", true_label=1, false_label=2, nullable=True)
    assert one(codes, [1, 2, 0]) == [1, 0, 2]
    assert one(codes, ["1", "2.0", "0"]) == [1, 0, 2]
    assert one(codes, [True, False]) == [1, 0]


def test_values_on_edges_go_up_and_the_upper_bound_stays():
    column = ContinuousColumn(name="x", lower=0, upper=1, bins=10)
    assert one(column, column.edges) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]
    assert one(column, np.nextafter(column.edges, -1)) == [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    whole = IntegerColumn(name="i", lower=0, upper=100, bins=(10, 20, 100))
    assert one(whole, [9, 10, 19, 20, 99, 100, 101, -5]) == [0, 1, 1, 2, 2, 2, 2, 0]


@pytest.mark.parametrize(
    "values",
    [
        [dt.date(2020, 1, 1)],
        [pd.Timestamp("2020-01-01 10:00", tz="UTC")],
        [pd.Timedelta(1)],
        [pd.Period("2020-01")],
        [{"a": 1}],
        [[1, 2]],
        [b"raw"],
        [1 + 2j],
    ],
)
def test_values_of_strange_types_are_unseen(values):
    column = CategoricalColumn(name="c", categories=("a",), nullable=True)
    assert one(column, values) == [1]
    assert one(IntegerColumn(name="i", lower=0, upper=3, nullable=True), values) == [4]


# Tables at the edge


def test_empty_one_row_all_missing_and_constant_tables():
    codec = Codec(EVERY_KIND)
    empty = codec.empty()
    assert codec.encode(empty).shape == (0, 11)
    assert codec.unit(empty).shape == (0, 11)
    assert codec.encode(pd.DataFrame(columns=EVERY_KIND.names)).shape == (0, 11)
    assert codec.conform(empty).dtypes.equals(empty.dtypes)
    missing = pd.DataFrame({name: [None, None] for name in EVERY_KIND.names})
    absent = [column.absent_code for column in EVERY_KIND.columns]
    assert codec.encode(missing).tolist() == [absent, absent]
    assert codec.encode(missing[:1]).tolist() == [absent]
    constant = pd.DataFrame({name: ["1"] * 3 for name in EVERY_KIND.names})
    assert len(np.unique(codec.encode(constant), axis=0)) == 1
    assert codec.conform(missing).isna().all().tolist() == [c.nullable for c in EVERY_KIND.columns]


def test_layout_mistakes():
    codec = Codec(Schema.from_domain({"a": 2, "b": 2}))
    with pytest.raises(SchemaError, match=r"columns \(b\) must be in the table: it has a, c"):
        codec.encode(pd.DataFrame({"a": [1], "c": [1]}))
    with pytest.raises(SchemaError, match="it has no column"):
        codec.encode(pd.DataFrame())
    with pytest.raises(SchemaError, match=r"columns \(a\) must be in the table once"):
        codec.encode(pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"]))
    with pytest.raises(SchemaError, match="must be in the table"):
        codec.encoded(ibis.table({"a": "int64"}, name="t"))


# Expressions


def expressions(codec, table, express) -> dict:
    """Every column by itself, each text parsed as often as it is used."""
    return {
        c.name: express(encoding.prepare(table[c.name], c), c, codec.schema.missing_tokens)
        for c in codec.schema.columns
    }


def test_expressions_are_the_codes_and_never_null():
    codec = Codec(EVERY_KIND)
    frame = pd.DataFrame({name: [*NUMBERS, *NO_NUMBERS, *MISSING] for name in EVERY_KIND.names})
    engine = ibis.duckdb.connect()
    engine.con.register("rows", frame.astype("str").where(frame.notna(), None))
    table = engine.table("rows")
    codes = codec.encode(frame)
    assert list(codec.encoded(table).columns) == EVERY_KIND.names
    for query in (table.select(**expressions(codec, table, encoding.code)), codec.encoded(table)):
        assert {str(kind) for kind in query.schema().types} == {"int32"}
        found = engine.to_pyarrow(query).to_pandas()
        assert np.array_equal(found.to_numpy(), codes)
    units = expressions(codec, table, encoding.unit)
    for query in (table.select(**units), codec.unit_table(table)):
        found = engine.to_pyarrow(query).to_pandas()
        assert np.array_equal(found.to_numpy(), codec.unit(frame))
    part = codec.encoded(table, ["cents", "text"])
    assert part.columns == ("cents", "text")


@pytest.mark.slow
def test_spark_gives_the_same_codes():
    pyspark = pytest.importorskip("pyspark")
    session = (
        pyspark.sql.SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    codec = Codec(EVERY_KIND)
    words = [*NUMBERS, *NO_NUMBERS, *MISSING[:-1], "a", "it's", "ü", "yes", "TRUE", "1.50", "2.5"]
    try:
        backend = ibis.pyspark.connect(session)
        for number, values in enumerate((words, [0.3, 1.0, 2.5, 17.0, float("nan"), -5.0])):
            kind = "string" if number == 0 else "double"
            names = [f"`{name}` {kind}" for name in EVERY_KIND.names]
            rows = [(place, *[value] * 11) for place, value in enumerate(values)]
            data = session.createDataFrame(rows, ", ".join(["place int", *names]))
            data.createOrReplaceTempView(f"rows{number}")
            table = backend.table(f"rows{number}")
            frame = pd.DataFrame({name: values for name in EVERY_KIND.names})
            query = table.select("place", **expressions(codec, table, encoding.code))
            found = backend.to_pandas(query).sort_values("place")[EVERY_KIND.names]
            assert np.array_equal(found.to_numpy(), codec.encode(frame))
    finally:
        session.stop()


# Unit coordinates and conforming


def test_unit_coordinates():
    schema = Schema(
        columns=(
            IntegerColumn(name="i", lower=10, upper=20, nullable=True),
            ContinuousColumn(name="x", lower=-1, upper=1),
            CategoricalColumn(name="c", categories=("a", "b")),
            IntegerColumn(name="constant", lower=3, upper=3),
        )
    )
    codec = Codec(schema)
    frame = pd.DataFrame(
        {
            "i": [10, 15, 20, 99, None, -5],
            "x": [-1, 0.5, np.inf, -np.inf, np.nan, 7],
            "c": ["b", "a", "z", "b", None, "a"],
            "constant": 3,
        }
    )
    unit = codec.unit(frame)
    assert unit[:, 0].tolist() == [0, 0.5, 1, 1, 0.5, 0]
    assert unit[:, 1].tolist() == [0, 0.75, 1, 0, 0.5, 1]
    assert unit[:, 2].tolist() == [1, 0, 2, 1, 2, 0]
    assert unit[:, 3].tolist() == [0] * 6
    back = codec.from_unit(unit)
    assert back["i"].tolist() == [10, 15, 20, 20, 15, 10]
    assert back["x"].tolist() == [-1, 0.5, 1, -1, 0, 1]
    assert back["c"].tolist() == ["b", "a", "OTHER", "b", "OTHER", "a"]
    assert back.dtypes.equals(codec.empty().dtypes)


def test_from_unit_keeps_decimals_inside_the_bounds():
    column = ContinuousColumn(name="x", lower=0.05, upper=1.04, bins=3, decimals=1)
    codec = Codec(Schema(columns=(column,)))
    values = codec.from_unit(np.linspace(-0.5, 1.5, 101)[:, None])["x"]
    assert set(values) == {k / 10 for k in range(1, 11)}
    with pytest.raises(ValueError, match="points"):
        codec.from_unit(np.zeros((3, 2)))


def test_conform_maps_as_encode_does_without_binning():
    schema = Schema(
        columns=(
            IntegerColumn(name="i", lower=0, upper=99, bins=2),
            ContinuousColumn(name="x", lower=0, upper=1, bins=2, decimals=2, nullable=True),
            CategoricalColumn(name="c", categories=(1, 2), other_label=0),
            BooleanColumn(name="b", true_label="y", false_label="n", nullable=True),
        )
    )
    codec = Codec(schema)
    frame = pd.DataFrame(
        {
            "b": [True, None, False],
            "c": ["1.0", "7", None],
            "extra": 1,
            "x": ["0.126", "?", "3"],
            "i": ["17.9", "200", "x"],
        }
    )
    conformed = codec.conform(frame)
    assert conformed["i"].tolist() == [17, 99, 0]
    assert conformed["x"].dropna().tolist() == [0.13, 1.0]
    assert conformed["c"].tolist() == [1, 0, 0]
    assert conformed["b"].dropna().tolist() == ["y", "n"]
    assert conformed.dtypes.equals(codec.empty().dtypes)
    assert np.array_equal(codec.encode(conformed), codec.encode(frame))
    pd.testing.assert_frame_equal(codec.conform(conformed), conformed)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_encodes_in_an_engine_of_its_own():
    codec, frame = Codec(Schema.from_domain({"a": 3})), pd.DataFrame({"a": ["2", "0"]})
    assert codec.encode(frame).ravel().tolist() == [2, 0]
    child = os.fork()
    if child == 0:
        os._exit(0 if codec.encode(frame).ravel().tolist() == [2, 0] else 1)
    assert os.waitpid(child, 0)[1] == 0
