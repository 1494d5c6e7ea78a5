"""Drafting a schema from rows, and checking rows against a schema. Neither is private."""

from __future__ import annotations

import gzip

import hospital
import ibis
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.drafting.check import (
    check_data,
    layout_problems,
    propose_rules,
    rule_counts,
    values_of_rows,
)
from marginalsyn.drafting.draft import draft_schema, infer_schema
from marginalsyn.drafting.drafted import widen, widest
from marginalsyn.errors import DataError, SchemaError
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.schema import Schema


def table(rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    place = np.arange(rows)
    return pd.DataFrame(
        {
            "row": place + 1000,
            "patientID": rng.permutation(rows) * 7,
            "note": [f"free text {i}" for i in place],
            "empty": None,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(place, unit="D"),
            "sex": np.where(place % 2, "male", "female"),
            "zip": np.array(["01234", "00500", "99999"])[place % 3],
            "age": rng.integers(17, 89, rows),
            "rooms": 1 + place % 5,
            "code": np.array([0, 100, 2500, 40_000])[place % 4],
            "price": np.round(rng.uniform(0, 87, rows), 2),
            "weight": rng.normal(70, 10, rows),
            "bounded": np.where(place % 10 == 0, np.inf, rng.random(rows)),
            "smoker": place % 3 == 0,
            "churn": np.where(place % 5, "No", "Yes"),
            "binary": place % 2,
            "maybe": np.where(place % 7 == 0, None, np.where(place % 2, "t", "f")),
            "gap": np.where(place % 7 == 0, np.nan, place % 30),
            "constant": 7,
        }
    )


def as_source(frame: pd.DataFrame, form: str, folder):
    if form == "csv":
        frame.to_csv(folder / "t.csv", index=False)
        return folder / "t.csv"
    if form == "parquet":
        frame.to_parquet(folder / "t.parquet")
        return str(folder / "t.parquet")
    return frame


@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_kinds_are_guessed_alike_from_every_source(form, tmp_path):
    frame = table()
    schema = infer_schema(as_source(frame, form, tmp_path))
    assert schema.drafted_from_data
    assert "NOT PRIVATE" in (schema.warning or "")
    assert schema.drop == ("note", "empty")
    assert "free text" in schema.drop_reasons["note"]
    assert {column.name: column.kind for column in schema.made} == {
        "row": "identifier",
        "patientID": "identifier",
    }
    assert {column.name: column.kind for column in schema.columns} == {
        "day": "date",
        "sex": "categorical",
        "zip": "categorical",
        "age": "integer",
        "rooms": "integer",
        "code": "ordinal",
        "price": "continuous",
        "weight": "continuous",
        "bounded": "continuous",
        "smoker": "boolean",
        "churn": "boolean",
        "binary": "boolean",
        "maybe": "boolean",
        "gap": "integer",
        "constant": "integer",
    }
    assert schema.column("zip").categories == ("00500", "01234", "99999")
    assert schema.column("code").categories == (0, 100, 2500, 40_000)
    assert (schema.column("age").lower, schema.column("age").upper) == (10, 90)
    assert (schema.column("price").upper, schema.column("price").decimals) == (90, 2)
    assert schema.column("weight").decimals is None
    assert schema.column("bounded").upper <= 1
    assert schema.column("churn").values == ("No", "Yes")
    assert schema.column("binary").values == (0, 1)
    assert schema.column("smoker").values == (False, True)
    nullable = [column.name for column in schema.columns if column.nullable]
    assert nullable == ["maybe", "gap"]
    changed = {check.name for check in check_data(frame, schema) if check.notes()}
    assert changed == {"bounded"}


def test_the_label_of_a_draft():
    frame = pd.DataFrame({"y": [3, 5, 3, 5], "z": ["a", "b", "c", "a"], "t": [1.5, 2.5, 1, 2]})
    schema = infer_schema(frame, label="y")
    assert schema.column("y") == CategoricalColumn(name="y", categories=(3, 5), other=False)
    assert (schema.label, schema.positive, schema.positive_code) == ("y", 5, 1)
    assert infer_schema(frame, label="z").positive is None
    assert infer_schema(frame, label="t").column("t").categories == (1.0, 1.5, 2.0, 2.5)
    with pytest.raises(SchemaError, match=r"label \('x'\) must be one of y, z, t"):
        infer_schema(frame, label="x")
    with pytest.raises(SchemaError, match=r"label \('note'\) must have few values"):
        infer_schema(table(), label="note")


def test_tables_that_give_no_draft(tmp_path):
    with pytest.raises(DataError, match="must have at least one row"):
        infer_schema(table()[:0])
    with pytest.raises(DataError, match="must have a column that is no identifier"):
        infer_schema(table()[["note", "empty"]])
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError):
        infer_schema(tmp_path / "empty.csv")


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["true", "false"], ("false", "true")),
        (["True", "True"], (False, True)),
        (["TRUE", "FALSE"], ("FALSE", "TRUE")),
        (["Y", "N"], ("N", "Y")),
        (["1", "0"], (0, 1)),
        ([0.0, 1.0], (0, 1)),
        ([1, 1], (0, 1)),
        (["yes", "NO"], ("NO", "yes")),
        (["yes", "true"], None),
        ([1, 2], None),
    ],
)
def test_pairs_of_truth_values(values, labels):
    column = infer_schema(pd.DataFrame({"b": values})).columns[0]
    assert (column.values if isinstance(column, BooleanColumn) else None) == labels


def test_a_category_called_other_is_kept_apart():
    frame = pd.DataFrame({"c": ["OTHER", "a", "(other)"]})
    column = infer_schema(frame).columns[0]
    assert column.other_label == "(any other)"
    assert Codec(infer_schema(frame)).encode(frame).ravel().tolist() == [1, 2, 0]


def test_complete_categories_need_no_other_and_blanks_are_missing():
    frame = pd.DataFrame({"Geschlecht": ["m", "w", "d"] * 3, "odd": ["a", "b", "b\0"] * 3})
    frame["ill"], frame["smoker"] = ["yes", "no", " "] * 3, ["J", "nein", ""] * 3
    schema = infer_schema(frame, label="ill")
    assert schema.column("Geschlecht").labels() == ["d", "m", "w"]
    assert schema.column("odd").labels() == ["a", "b", "OTHER"]
    assert schema.column("ill").labels() == ["no", "yes", "missing"]
    assert schema.column("smoker").labels() == ["nein", "J", "missing"]
    # What comes later and is not listed stops nothing.
    later = pd.DataFrame({"Geschlecht": ["x"], "odd": ["x"], "ill": [" "], "smoker": [None]})
    assert Codec(schema).encode(later).ravel().tolist() == [0, 2, 2, 2]


@given(st.floats(-1e12, 1e12), st.floats(0, 1e12))
def test_widened_bounds_hold_the_numbers(lower, span):
    low, high = widen(lower, lower + span)
    assert low <= lower
    assert high >= lower + span
    assert high - low <= 3 * span + 1


SCHEMA = Schema(
    columns=(
        IntegerColumn(name="age", lower=10, upper=90, bins=2),
        ContinuousColumn(name="x", lower=0, upper=1, bins=2, nullable=True),
        CategoricalColumn(name="c", categories=("a", 1)),
        CategoricalColumn(name="d", categories=("a", "b"), other=False),
        BooleanColumn(name="b", nullable=True),
    ),
    drop=("id",),
)
ROWS = pd.DataFrame(
    {
        "age": ["5", "10", "90", "91", "1e9", "17.5", "old", "old", "", None],
        "x": ["-1", "0", "1", "1.1", "inf", "nan", "?", "x", "y", "y"],
        "c": ["a", "1.0", "b", "b", "b", "e", "f", "g", "h", "NA"],
        "d": ["a", "b", "c", "c", "NA", "", "b", "b", "b", "b"],
        "b": ["True", "0", "no", "no", "", None, "true", "1", "1", "1"],
    }
)


@pytest.mark.parametrize("form", ["frame", "csv", "ibis"])
def test_check_counts_every_change(form, tmp_path):
    if form == "ibis":
        engine = ibis.duckdb.connect()
        engine.con.register("rows", ROWS)
        source = engine.table("rows")
    else:
        source = as_source(ROWS, form, tmp_path)
    age, x, c, d, b = check_data(source, SCHEMA)
    assert [check.rows for check in (age, x, c, d, b)] == [10] * 5
    assert (age.low, age.high, age.fractional, age.unparsable, age.missing) == (1, 2, 1, 2, 2)
    assert (x.low, x.high, x.fractional, x.unparsable, x.missing) == (1, 2, 0, 3, 2)
    assert (c.unseen, c.missing) == (7, 1)
    assert c.examples == ("b", "e", "f", "g", "h")
    assert (d.unseen, d.missing) == (2, 2)
    assert (b.unseen, b.missing) == (2, 2)
    assert age.notes() == [
        "2 missing, though not nullable: become '[10, 50)'",
        "2 not numbers ('old'): become '[10, 50)'",
        "1 below the lower bound: clipped into '[10, 50)'",
        "2 above the upper bound: clipped into '[50, 90]'",
        "1 not whole: rounded down",
    ]
    assert x.notes()[0] == "3 not numbers ('y', 'x'): become 'missing'"
    assert c.notes() == [
        "1 missing, though not nullable: become 'OTHER'",
        "7 not in the schema ('b', 'e', 'f', 'g', 'h'): become 'OTHER'",
    ]
    assert d.notes()[1] == "2 not in the schema ('c'): become 'a'"
    assert b.notes() == ["2 not in the schema ('no'): become 'missing'"]


def test_check_of_a_table_without_rows_or_columns():
    checks = check_data(ROWS[:0], SCHEMA)
    assert all(not check.notes() and check.rows == 0 for check in checks)
    with pytest.raises(SchemaError, match=r"columns \(c, d\) must be in the table"):
        check_data(ROWS.drop(columns=["c", "d"]), SCHEMA)


def test_layout_problems():
    assert layout_problems([*SCHEMA.names, "id"], SCHEMA) == []
    assert layout_problems(SCHEMA.names, SCHEMA) == []
    missing, unknown = layout_problems(["age", "x", "c", "d", "new"], SCHEMA)
    assert missing.startswith("columns (b) must be in the table")
    assert unknown.startswith("columns (new) must be in the schema")


def test_the_hospital_s_columns_are_taken_for_what_they_are(tmp_path):
    """All 18 of them, with bounds around the truth and missing values where they are."""
    text, truth = hospital.hospital(900)
    (tmp_path / "hospital.csv").write_text(text)
    draft = draft_schema(tmp_path / "hospital.csv", "readmitted")
    wanted = {**hospital.KINDS, "own_share": "integer", "notes": "drop"}
    assert {verdict.name: verdict.kind for verdict in draft.verdicts} == wanted
    assert all(v.fits == 1 for v in draft.verdicts if v.fits is not None)
    checks = {check.name: check for check in check_data(tmp_path / "hospital.csv", draft.schema)}
    for name in ("age", "bmi", "crp", "smoker", "severity", "discharged_at"):
        assert checks[name].missing == truth[name].isna().sum(), name
        assert draft.schema.column(name).nullable
    for name in ("age", "bmi", "weight", "crp", "cost"):
        column = draft.schema.column(name)
        assert column.lower <= truth[name].min()
        assert truth[name].max() <= column.upper <= 3 * truth[name].max()
    assert draft.schema.column("crp").below == 0.3
    assert draft.schema.column("zip").categories == tuple(sorted(set(truth["zip"])))
    assert draft.schema.made[0].pattern == "P-{n:06}"
    assert draft.schema.column("severity").categories == hospital.SEVERITY


def test_a_file_in_latin_1_is_found_to_be_so(tmp_path):
    (tmp_path / "t.csv").write_bytes("stra\xdfe;n\nKöln;1\nBonn;2\nKöln;2\n".encode("latin-1"))
    schema = infer_schema(tmp_path / "t.csv")
    assert schema.encoding == "latin-1"
    assert schema.column("straße").categories == ("Bonn", "Köln")
    assert not [check for check in check_data(tmp_path / "t.csv", schema) if check.notes()]
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("texts", "kind", "fields"),
    [
        (["1.234,50", "7,25"], "continuous", {"format": {"decimal": ",", "thousands": "."}}),
        (["1,234", "5,678", "12"], "integer", {"format": {"thousands": ","}}),
        (["US$ 5", "US$ 17"], "integer", {"format": {"prefix": "US$ "}}),
        (["PC 17", "PC 18"], "categorical", {}),
        (["007", "012"], "categorical", {"categories": ["007", "012"]}),
        (["31/12/2020", "1/2/2021"], "date", {"format": "%d/%m/%Y"}),
        (["12/31/2020", "1/2/2021"], "date", {"format": "%m/%d/%Y"}),
        (
            ["2020-07-01T02:00:00+02:00", "2020-07-02T02:00:00+02:00"],
            "datetime",
            {"zone": "+02:00"},
        ),
        (["9:05 AM", "11:10 PM"], "time", {"format": "%I:%M %p"}),
        (["low", "high", "medium"], "ordinal", {"categories": ["low", "medium", "high"]}),
        (["a", "A", "b"], "categorical", {"ignore_case": True}),
        (["Yes", "Y", "no", "N"], "boolean", {"true_label": "Y", "ignore_case": True}),
        (["31.12.2020", "2021-02-01", "31.12.2020", "1.3.21"], "date", {"format": "%d.%m.%Y"}),
        (["80 kg", "81,5 kg", "176 lb", "79"], "continuous", {"decimals": 1}),
        (["12 m", "13 cm", "4 apples"], "categorical", {}),
        (["ja", "nein"], "boolean", {"true_label": "ja"}),
    ],
)
def test_texts_tell_their_kind(texts, kind, fields):
    column = infer_schema(pd.DataFrame({"x": texts * 3, "y": 1})).column("x")
    assert column.kind == kind
    told = column.model_dump(mode="json")
    for name, wanted in fields.items():
        found = told[name]
        assert {**found, **wanted} == found if isinstance(wanted, dict) else found == wanted


HEIGHTS = {"1,78 m": 1.78, "1,80 m": 1.80, "178 cm": 1.78, "5'11\"": 1.8034, "6'": 1.8288}
COSTS = {
    "EUR 1 234": 1234,
    "1.234 EUR": 1234,
    "12.500 EUR": 12500,
    "EUR 7": 7,
    "EUR 1 000 000": 1e6,
}


@pytest.mark.parametrize("meant", [HEIGHTS, COSTS], ids=["heights", "costs"])
def test_numbers_in_several_spellings_mean_what_they_say(meant):
    frame = pd.DataFrame({"x": [*meant] * 4, "y": 1})
    schema = infer_schema(frame)
    assert schema.column("x").also
    np.testing.assert_allclose(Codec(schema).numbers(frame, "x"), [*meant.values()] * 4)
    # Each value alone.
    for text, number in meant.items():
        assert Codec(schema).numbers(pd.DataFrame({"x": [text], "y": 1}), "x") == number


@pytest.mark.parametrize("sign", ["'", "’"])
def test_swiss_thousands_are_no_feet_and_inches(sign):
    amounts = [1234.5, 6213.27, 12_345.05, 1_234_567.9, 987.1] * 4
    texts = [f"{amount:,.2f}".replace(",", sign) for amount in amounts]
    frame = pd.DataFrame({"x": texts, "y": 1})
    np.testing.assert_allclose(Codec(infer_schema(frame)).numbers(frame, "x"), amounts)


@pytest.mark.parametrize("far", [-26298431891692.707, 8e14, 1e300])
def test_a_number_far_beyond_the_others_is_drafted(far: float) -> None:
    frame = pd.DataFrame({"x": [0.25, 1.5, 2.75] * 100 + [far]})
    column = infer_schema(frame).column("x")
    assert column.kind == "continuous"


def test_three_decimals_are_no_thousands():
    shares = np.random.default_rng(0).random(200).round(3)
    texts = [f"{share:.3f}".replace(".", ",") for share in shares]
    salaries = [f"{1000 + 47 * n:,}" for n in range(200)]
    frame = pd.DataFrame({"share": texts, "kg": [f"{t} kg" for t in texts], "salary": salaries})
    draft = draft_schema(frame)
    for name in ("share", "kg"):
        np.testing.assert_allclose(Codec(draft.schema).numbers(frame, name), shares)
    assert "could be the decimal one" in draft.verdicts[2].why


def test_points_between_thousands_are_no_decimals(tmp_path):
    visits = np.random.default_rng(0).integers(1, 40_000, 300)
    visits[:20] = range(900, 920)
    frame = pd.DataFrame({"visits": [f"{n:,}".replace(",", ".") for n in visits], "y": 1})
    frame["kg"] = [f"{n / 1000:.3f}" for n in visits]
    schema = infer_schema(as_source(frame, "csv", tmp_path))
    np.testing.assert_allclose(Codec(schema).numbers(frame, "visits"), visits)
    np.testing.assert_allclose(Codec(schema).numbers(frame, "kg"), visits / 1000)


def test_words_for_missing_may_be_many_next_to_numbers():
    rng = np.random.default_rng(0)
    incomes = [f"{1000 * n}.0" for n in rng.permutation(200)]
    days = [str(day.date()) for day in pd.date_range("2020-01-01", periods=200)]
    codes = [str(code) for code in rng.choice(np.arange(1000, 9999, 140), 200)]
    words = ["N"] * 100
    frame = pd.DataFrame({"income": incomes + words, "left": days + words, "job": codes + words})
    schema = infer_schema(frame)
    assert [column.kind for column in schema.columns] == ["continuous", "date", "categorical"]
    assert schema.column("income").missing_tokens == ("N",)
    assert schema.column("left").missing_tokens == ("N",)
    np.testing.assert_allclose(
        Codec(schema).numbers(frame, "income"), [*map(float, incomes), *[np.nan] * 100]
    )


@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_days_without_signs_are_dates_however_many(form, tmp_path):
    days = pd.date_range("1993-01-01", periods=400, freq="9D")
    frame = pd.DataFrame(
        {
            "long": days.strftime("%Y%m%d").astype(int),
            "short": days.strftime("%y%m%d").astype(int),
            "issued": days.strftime("%y%m%d 00:00:00"),
            "amount": np.arange(193_000, 593_000, 1000),
            "few": [199301, 199311] * 200,
        }
    ).iloc[:250]
    schema = infer_schema(as_source(frame, form, tmp_path))
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds.pop("few") in ("integer", "ordinal")
    assert kinds == {"long": "date", "short": "date", "issued": "date", "amount": "integer"}
    seen = Codec(schema).encode(frame.assign(short=frame["long"].astype(str).str[2:]))
    long, short, issued = (schema.names.index(name) for name in ("long", "short", "issued"))
    assert len(np.unique(seen[:, long])) > 20
    assert (seen[:, long] == seen[:, short]).all()
    assert (seen[:, long] == seen[:, issued]).all()


def test_moments_of_a_zone_are_moments():
    moments = pd.date_range("2020-01-01", periods=300, freq="7h", tz="Europe/Zurich")
    frame = pd.DataFrame({"seen": moments, "y": 1})
    schema = infer_schema(frame)
    assert schema.column("seen").kind == "datetime"
    codes = Codec(schema).encode(frame)
    made = Codec(schema).decode(codes, np.random.default_rng(0))
    assert (Codec(schema).encode(made) == codes).all()


def test_numbers_too_long_to_count_are_not_called_empty():
    numbers = [10**15 + 7**n for n in range(17)] * 2
    frame = pd.DataFrame({"card": np.arange(34) + 10**15, "again": numbers, "y": 1})
    verdicts = {one.name: one for one in draft_schema(frame).verdicts}
    assert verdicts["card"].kind == "identifier"
    assert "beyond 10^14" in verdicts["again"].why


def test_a_row_of_totals_is_named():
    frame = pd.DataFrame({"ward": [*"abcd" * 20, " Total "], "cost": [*range(80), 3160]})
    assert "'total' in 1 of the rows" in draft_schema(frame).verdicts[0].why
    many = pd.DataFrame({"sex": ["m", "f", "Total"] * 20, "cost": range(60)})
    assert "total" not in draft_schema(many).verdicts[0].why


def test_what_no_format_reads_is_shown_with_its_share():
    odd = [f"im Mai {year}" for year in range(1990, 2000)]
    texts = [f"{1 + n % 28:02}.{1 + n % 12:02}.2020" for n in range(600)] + odd
    found = draft_schema(pd.DataFrame({"x": texts, "y": 1})).verdicts[0]
    assert found.kind == "date"
    assert "1.6% is not read" in found.why
    assert found.fits == pytest.approx(600 / 610)


@pytest.mark.parametrize(
    ("values", "code", "clear"),
    [
        (range(40, 140), -9, True),
        (range(40, 140), 999, True),
        (range(140, 200), 0, True),
        (range(18, 60), 99, False),
        (range(3), 99, True),
        (range(1, 6), 98, True),
        (range(1, 6), 9, False),
        (range(1, 6), 8, False),
        (range(7), 9, False),
        (range(1, 8), 9, None),
        (range(10), 9, None),
        (range(18, 97), 97, None),
        (range(80, 88), 88, None),
        (range(18, 99), -1, False),
        (range(2), 0, None),
        (range(1, 3), 0, None),
        (range(90, 110), 99, None),
        (range(-20, 30), -9, None),
        (range(10_000, 90_000, 700), 0, None),
    ],
)
@pytest.mark.parametrize("form", ["plain", "kg"])
def test_numbers_that_mean_missing_stand_alone(values, code, clear, form, tmp_path):
    numbers = [*values] * 6 + [code] * 9
    frame = pd.DataFrame({"x": numbers, "y": [n % 7 for n in range(len(numbers))]})
    if form == "kg":
        frame["x"] = [f"{n} kg" if n != code else str(n) for n in numbers]
    # Plain numbers arrive as texts and as numbers.
    draft = draft_schema(as_source(frame, "csv", tmp_path) if code % 2 else frame)
    assert [one.clear for one in draft.codes] == [] if clear is None else [clear]
    tokens = [str(token) for token in draft.schema.column("x").missing_tokens]
    assert tokens == ([str(code)] if clear else [])
    if clear:
        check = next(c for c in check_data(frame, draft.schema) if c.name == "x")
        assert (check.missing, check.low, check.high) == (9, 0, 0)
        column = draft.schema.column("x")
        if column.numeric:
            assert column.lower <= min(values)
            assert column.upper >= max(values)
            assert not column.lower <= code <= column.upper or code == 0
        # The user knows better.
        asked = draft_schema(frame, missing={"x": ()}).schema.column("x")
        assert not asked.missing_tokens
    elif clear is False:
        asked = draft_schema(frame, missing={"x": (code,)}).schema.column("x")
        assert [str(token) for token in asked.missing_tokens] == [str(code)]


def test_a_row_in_place_of_the_header_is_refused(tmp_path):
    rows = pd.DataFrame({"a": range(18, 68), "b": list("xyzxy") * 10, "c": [0.5, 1.5] * 25})
    pd.concat([rows, rows]).to_csv(tmp_path / "t.csv", index=False, header=False)
    with pytest.raises(DataError, match=r"'18', 'x' could be values.* seems to be a row"):
        draft_schema(tmp_path / "t.csv")
    # Columns may be numbered, and the answers to a question may have its text.
    numbered = pd.DataFrame({str(name): [0, 1, 2, 3, 3] * 9 for name in range(4)})
    assert len(draft_schema(numbered).schema.columns) == 4
    ticked = pd.DataFrame({name: [name, None] * 15 for name in ("red", "green", "blue")})
    assert "red" in draft_schema(ticked.assign(n=[5, 6, 7] * 10)).schema.names


def test_a_row_of_numbers_is_no_header(tmp_path):
    path = tmp_path / "t.csv"
    numbers = np.arange(60)
    rows = pd.DataFrame({"73": numbers % 9, "0.274": numbers / 7, "11636": numbers % 30})
    rows.to_csv(path, index=False)
    with pytest.raises(DataError, match=r"'73', '0.274', '11636' could be values of their"):
        draft_schema(path)
    # Years are names.
    rows.set_axis(["2019", "2020", "2021"], axis=1).to_csv(path, index=False)
    assert draft_schema(path).schema.names == ["2019", "2020", "2021"]


@pytest.mark.parametrize("lines", [1, 2])
@pytest.mark.parametrize("kind", ["csv", "frame"])
def test_lines_of_units_and_questions_below_the_names_are_refused(lines, kind, tmp_path):
    rows = pd.DataFrame({"id": [f"A{n}" for n in range(40)]})
    rows = rows.assign(age=np.arange(40) % 30, height=np.arange(40) / 7, sex=["m", "f"] * 20)
    rows = rows.astype(str)
    rows.loc[[0, 3], "height"] = None
    units = pd.DataFrame([["", "years", "cm", ""], ["", "How old?", "How tall?", "Sex"]])[:lines]
    whole = pd.concat([units.set_axis(rows.columns, axis=1), rows])
    with pytest.raises(DataError, match=r"'years', 'cm' stand above numbers.* Delete that line"):
        draft_schema(as_source(whole, kind, tmp_path))
    # Words in a row like others, or in one column, are values.
    for name, text in (("age", "refused"), ("height", "<100")):
        odd = rows.copy()
        odd.loc[0, name] = text
        assert len(draft_schema(as_source(odd, kind, tmp_path)).schema.columns) > 2
    odd.loc[0, ["age", "height"]] = "NA"
    draft_schema(as_source(odd, kind, tmp_path))


@pytest.mark.parametrize("decimals", [0, 3, 4, 6, 10])
@pytest.mark.parametrize("unit", ["", " kg", "<"])
def test_the_widest_bounds_leave_room_for_decimals(decimals, unit):
    texts = [f"{'<' * (unit == '<' and n < 5)}{n / 7:.{decimals}f}" for n in range(60)]
    frame = pd.DataFrame({"x": [text + unit.strip("<") for text in texts]})
    column = draft_schema(frame, kinds={"x": "continuous"}).schema.column("x")
    wide = widest(column, 16)
    assert wide.decimals == column.decimals
    assert wide.lower <= column.lower < column.upper <= wide.upper


def test_numbers_of_six_decimals_stay_so():
    frame = pd.DataFrame({"lat": np.round(52 + np.arange(60) / 7, 6), "x": [0.1, 0.25] * 30})
    schema = infer_schema(frame)
    assert [column.decimals for column in schema.columns] == [6, 2]


@pytest.mark.parametrize("form", ["{}h {}m", "{}h{}min", "{} h {} min"])
def test_hours_and_minutes_are_a_duration(form):
    pairs = [(n % 4, n * 7 % 60) for n in range(60)]
    frame = pd.DataFrame({"took": [form.format(*pair) for pair in pairs]})
    schema = draft_schema(frame).schema
    found = values_of_rows(frame, schema, [*schema.columns], None)[1]["took"]
    assert found.tolist() == [3600 * hours + 60 * minutes for hours, minutes in pairs]


def test_answers_to_a_statement_are_in_order():
    words = ["Agree", "Strongly disagree", "Neither agree nor disagree", "Disagree"]
    column = infer_schema(pd.DataFrame({"q": words * 9})).column("q")
    assert (column.kind, column.categories) == ("ordinal", tuple(words[n] for n in (1, 3, 2, 0)))


def test_groups_with_a_limit_are_no_numbers():
    frame = pd.DataFrame({"income": ["<=50K", ">50K", "<=50K"] * 40})
    column = infer_schema(frame).column("income")
    assert column.categories == ("<=50K", ">50K")


def test_bins_follow_long_tails_and_nothing_else():
    rng = np.random.default_rng(3)
    tail = rng.lognormal(1.5, 1.3, 4000).clip(0.1, 480).round(1)
    frame = pd.DataFrame(
        {
            "crp": tail,
            "gain": np.where(rng.random(4000) < 0.9, 0, rng.integers(100, 99_999, 4000)),
            "loss": np.where(rng.random(4000) < 0.95, 0, rng.normal(1900, 300, 4000).round()),
            "hours": np.where(rng.random(4000) < 0.5, 40, rng.normal(40, 12, 4000).round()),
            "age": rng.integers(18, 90, 4000),
            "balance": np.round(rng.standard_t(1.5, 4000) * 1000, 2),
        }
    )
    schema = infer_schema(frame)
    assert schema.column("age").bins == "auto"
    for name in ("crp", "gain", "loss", "hours", "balance"):
        column = schema.column(name)
        assert isinstance(column.bins, tuple), name
        assert column.levels <= 16
        codec = Codec(schema.select([name]))
        back = codec.decode(codec.encode(frame), rng)[name]
        spread = frame[name].abs().mean()
        assert abs(back.mean() - frame[name].mean()) < 0.1 * spread, name
        assert abs(back.median() - frame[name].median()) < 0.1 * spread, name


def test_codes_and_addresses_are_no_numbers_and_no_names():
    count = 900
    frame = pd.DataFrame(
        {
            "plz": [10_000 + 37 * (n % 300) for n in range(count)],
            "icd": [f"{'EIJ'[n % 3]}{10 + n % 40}.{n % 9}" for n in range(count)],
            "part": [f"X{n % 5}-{n % 300}" for n in range(count)],
            "mail": [f"a.{n % 400}@clinic.test" for n in range(count)],
            "y": [n % 2 for n in range(count)],
        }
    )
    schema = infer_schema(frame)
    found = {name: schema.column(name).prefixes for name in schema.open}
    assert found == {"plz": (2, 3), "icd": (1, 3), "part": (4,)}
    assert [(one.name, one.pattern) for one in schema.made] == [
        ("mail", "person{n:05}@example.org")
    ]


def test_columns_asked_to_be_what_they_are_not(tmp_path):
    frame = pd.DataFrame({"age": range(60), "well": ["Yes", "no", "unknown"] * 20})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(SchemaError, match="two values to be boolean: it has 60"):
        draft_schema(tmp_path / "t.csv", kinds={"age": "boolean"})
    well = draft_schema(tmp_path / "t.csv", kinds={"well": "boolean"}).schema.column("well")
    assert (well.kind, well.missing_tokens) == ("boolean", ("unknown",))


def test_years_of_two_digits_and_the_sexes_of_other_languages(tmp_path):
    rows = {
        "Aufnahme": ["31.01.21", "01.12.21", "15.06.20"] * 20,
        "Geschlecht": ["m", "weiblich", "w", "männlich", "m", "w"] * 10,
    }
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", sep=";", index=False)
    schema = draft_schema(tmp_path / "t.csv").schema
    assert schema.column("Aufnahme").format == "%d.%m.%y"
    assert set(schema.column("Geschlecht").categories) == {"m", "w"}
    asked = draft_schema(tmp_path / "t.csv", kinds={"Aufnahme": "date"}).schema
    assert asked.column("Aufnahme").kind == "date"


def test_a_file_of_a_windows_spreadsheet(tmp_path):
    """In Latin-1 the sign of the euro would be a control character, which engines refuse."""
    text = "salaire;nom\n" + "\n".join(f"{n} 123,50 €;«é{n % 3}»" for n in range(1, 61))
    (tmp_path / "t.csv").write_bytes(text.encode("cp1252"))
    draft = draft_schema(tmp_path / "t.csv")
    assert draft.schema.encoding == "cp1252"
    assert draft.schema.column("nom").categories == ("«é0»", "«é1»", "«é2»")
    salary = draft.schema.column("salaire")
    assert (salary.format.suffix, salary.format.decimal) == (" €", ",")
    assert [v.fits for v in draft.verdicts] == [1.0, 1.0]
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(text.encode("cp1252") + b"\n1 123,50 \x81;x"))
    assert PrivateTable.open(packed, draft.schema).unprotected("check").all_rows().values.shape == (
        61,
        2,
    )


def test_rules_that_hold_are_proposed_and_counted(tmp_path):
    rng = np.random.default_rng(0)
    age, city = rng.integers(0, 90, 400), rng.integers(0, 3, 400)
    came = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, 400), "D")
    left = came + pd.to_timedelta(rng.integers(0, 60, 400), "D")
    frame = pd.DataFrame(
        {
            "age": age,
            "income": np.where(age < 15, np.nan, rng.integers(0, 5000, 400)),
            "city": np.array(["Rome", "Milan", "Paris"])[city],
            "country": np.array(["Italy", "Italy", "France"])[city],
            "came": came.strftime("%Y-%m-%d"),
            "left on": left.strftime("%Y-%m-%d"),
        }
    )
    schema = infer_schema(frame)
    proposed = propose_rules(frame, schema)
    assert proposed == (
        "city determines country",
        'came <= "left on"',
        "missing(income) iff age < 15",
    )
    accepted = schema.with_rules([*proposed, "age < 50"])
    counts = rule_counts(frame, accepted)
    assert counts == {**dict.fromkeys(proposed, 0), "age < 50": int((age >= 50).sum())}


@pytest.mark.parametrize(
    ("texts", "numbers", "written"),
    [
        (["1,234.50", "2,000.00", "(1,234.50)", "99.00"], [1234.5, 2000, -1234.5, 99], "-1,234.50"),
        (["1.234,50", "2,00", "12,5-", "1.003,10-", "3,1"], [1234.5, 2, -12.5, -1003.1, 3.1], None),
        (["$1,234.50", "($1,234.50)", "$0.50"], [1234.5, -1234.5, 0.5], "-$1,234.50"),
        (["1,200", "300", "(450)", "(1,100)", "20"], [1200, 300, -450, -1100, 20], "-1,234"),
    ],
)
def test_numbers_in_brackets_or_with_a_minus_behind_are_negative(texts, numbers, written):
    frame = pd.DataFrame({"x": texts * 5})
    draft = draft_schema(frame)
    (column,) = draft.schema.columns
    assert column.also[0].factor == -1
    assert draft.verdicts[0].fits == 1
    found = values_of_rows(frame, draft.schema, [column])[1]["x"]
    assert found[: len(texts)].tolist() == numbers
    if written:
        assert column.write(np.array([-1234.5])) == [written]


@pytest.mark.parametrize(
    "texts",
    [
        ["1", "2", "1-", "2-", "3", "3-", "4", "5"],  # marks
        ["1", "2", "(3)", "4"],  # a note
        ["1.5", "-2.5", "(3.5)", "4.5"],  # a minus says that brackets are something else
        ["(1.5)", "(2.5)", "(3.5)", "4.5"],  # most of them
    ],
)
def test_what_may_be_no_negative_number_is_not_taken_for_one(texts):
    (column,) = draft_schema(pd.DataFrame({"x": texts * 5})).schema.columns
    assert column.kind == "categorical"


def test_two_signs_of_a_negative_number_are_one():
    also = [{"prefix": "(", "suffix": ")", "factor": -1}, {"suffix": "-", "factor": -1}]
    column = {"kind": "integer", "name": "x", "lower": -9, "upper": 9, "bins": 19, "also": also}
    schema = Schema(columns=[{**column, "format": {}, "nullable": True}])
    texts = ["5", "-5", "(5)", "5-", "(-5)", "((", "-"]
    codes = Codec(schema).encode(pd.DataFrame({"x": texts}))[:, 0] - 9
    assert codes.tolist() == [5, -5, -5, -5, -5, 10, 10]
    # A range, a list's mark and half a pair of brackets are no numbers.
    texts = ["1-5", "5)", "(5", "(1)(2)", "5--1", "( 5 )", "5 -"]
    codes = Codec(schema).encode(pd.DataFrame({"x": texts}))[:, 0] - 9
    assert codes.tolist() == [10, 10, 10, 10, 10, -5, -5]
    with pytest.raises(SchemaError, match="factor"):
        Schema(columns=[{**column, "also": [{"suffix": "-", "factor": 1}]}])
    for wrong in ({"prefix": "-"}, {"joint": "-", "parts": 12}, {"prefix": "-", "factor": -1}):
        with pytest.raises(SchemaError, match="must hold no digit"):
            Schema(columns=[{**column, "also": [wrong]}])


def test_negative_numbers_have_units_and_factors():
    also = [{"prefix": "(", "suffix": " cm)", "factor": -0.01}, {"suffix": "m-", "factor": -1}]
    column = {"kind": "continuous", "name": "x", "lower": -9, "upper": 9, "bins": 18, "also": also}
    schema = Schema(columns=[{**column, "format": {"suffix": " m"}, "nullable": True}])
    frame = pd.DataFrame({"x": ["1.5 m", "(150 cm)", "1.5 m-", "(150)"]})
    found = values_of_rows(frame, schema, schema.columns)[1]["x"]
    assert found[:3].tolist() == [1.5, -1.5, -1.5]
    assert np.isnan(found[3])
