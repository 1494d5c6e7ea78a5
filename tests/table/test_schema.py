"""The schema: what it accepts, how it says no, and what it derives."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginalsyn import Schema
from marginalsyn.errors import SchemaError
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn, OrdinalColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.schema import DRAFT_WARNING

AGE = {"kind": "integer", "name": "age", "lower": 0, "upper": 99}
SEX = {"kind": "categorical", "name": "sex", "categories": ["f", "m"]}


def whole_schema() -> Schema:
    return Schema(
        title="every kind",
        columns=(
            CategoricalColumn(name="mixed", categories=("a", 1, 2.5, True), nullable=True),
            OrdinalColumn(name="level", categories=(1, 2, 3), description="three levels"),
            IntegerColumn(name="age", lower=17, upper=90, bins=(25, 45, 65)),
            ContinuousColumn(name="share", lower=0, upper=1, bins=4, decimals=2, nullable=True),
            BooleanColumn(name="ill", true_label="yes", false_label="no"),
        ),
        label="ill",
        positive="yes",
        drop=("patient",),
        impossible=({"age": {"max": 24}, "ill": "yes"},),
    )


def test_json_round_trip_keeps_every_type(tmp_path):
    schema = whole_schema()
    schema.write(tmp_path / "schema.json")
    again = Schema.read(tmp_path / "schema.json")
    assert again == schema
    assert [type(value) for value in again.column("mixed").values] == [str, int, float, bool]
    assert again.to_json() == schema.to_json()
    (tmp_path / "bom.json").write_bytes(b"\xef\xbb\xbf" + schema.to_json().encode())
    assert Schema.read(tmp_path / "bom.json") == schema


def test_codes_run_over_levels_then_other_then_missing():
    column = CategoricalColumn(name="c", categories=("a", "b"), nullable=True)
    assert column.labels() == ["a", "b", "OTHER", "missing"]
    assert (column.size, column.other_code, column.missing_code) == (4, 2, 3)
    assert [column.code_of(v) for v in ("a", "b", "OTHER", None)] == [0, 1, 2, 3]
    assert OrdinalColumn(name="o", categories=("a",)).labels() == ["a"]
    assert BooleanColumn(name="b", nullable=True).labels() == ["False", "True", "missing"]
    for column in whole_schema().columns:
        assert len(column.labels()) == len(set(column.labels())) == column.size


def test_auto_bins_follow_public_bounds_alone():
    assert IntegerColumn(name="i", lower=1, upper=32).labels()[:2] == ["1", "2"]
    assert IntegerColumn(name="i", lower=1, upper=32).size == 32
    assert IntegerColumn(name="i", lower=0, upper=32).size == 32
    assert IntegerColumn(name="i", lower=5, upper=5).labels() == ["5"]
    assert ContinuousColumn(name="x", lower=0, upper=1).size == 32
    assert ContinuousColumn(name="x", lower=0, upper=1, decimals=1).size == 10


def test_edges_of_continuous_bins_may_leave_out_the_ends():
    column = ContinuousColumn(name="x", lower=0, upper=10, bins=(2.5, 5))
    assert column.edges.tolist() == [0, 2.5, 5, 10]
    same = ContinuousColumn(name="x", lower=0, upper=10, bins=(0, 2.5, 5, 10))
    assert same.edges.tolist() == [0, 2.5, 5, 10]
    assert ContinuousColumn(name="x", lower=0, upper=1e-9, bins=2).labels()[0] == "[0, 5e-10)"


@given(st.integers(-(10**9), 10**9), st.integers(1, 2000), st.data())
def test_equal_integer_bins_cover_the_bounds_and_differ_by_one(lower, count, data):
    bins = data.draw(st.integers(1, count))
    edges = IntegerColumn(name="i", lower=lower, upper=lower + count - 1, bins=bins).edges
    widths = np.diff(edges)
    assert (edges[0], edges[-1], len(widths)) == (lower, lower + count, bins)
    assert widths.min() >= 1
    assert widths.max() - widths.min() <= 1


@given(
    st.integers(0, 6),
    st.integers(-(10**6), 10**6),
    st.integers(1, 10**6),
    st.sampled_from([0.0, 0.5, 0.25]),
)
def test_every_auto_bin_with_decimals_holds_a_number(decimals, start, steps, offset):
    lower, upper = (start + offset) / 10**decimals, (start + offset + steps) / 10**decimals
    column = ContinuousColumn(name="x", lower=lower, upper=upper, decimals=decimals)
    first, last = column.grid()
    assert (first <= last).all()
    assert (first[1:] == last[:-1] + 1).all()
    values = np.concatenate([first, last]) / 10.0**decimals
    codes = np.searchsorted(column.edges[1:-1], values, side="right")
    assert codes.tolist() == [*range(column.levels)] * 2
    assert values.min() >= lower
    assert values.max() <= upper


def columns(*columns: dict) -> str:
    return json.dumps({"columns": list(columns)})


BAD = {
    "not json": ("{", "must be JSON"),
    "a list": ("[1]", "must be a JSON object"),
    "field given twice": ('{"age": 3, "age": 4}', "schema must give 'age' once"),
    "no columns": ("{}", "columns must be given"),
    "empty columns": (columns(), "columns ([]) must hold at least one column"),
    "columns no list": ('{"columns": 3}', "columns (3) must be"),
    "later version": ('{"version": 2, "columns": []}', "version (2) must be 1"),
    "unknown field": ('{"colums": [], "columns": []}', "colums ([]) must be a known field"),
    "unknown kind": (columns({**AGE, "kind": "int"}), "kind ('int') must be one of"),
    "no kind": (columns({"name": "a"}), "kind must be given"),
    "no name": (columns({"kind": "boolean"}), "name must be given"),
    "empty name": (columns({"kind": "boolean", "name": ""}), "name ('') must have at least"),
    "duplicate names": (columns(AGE, AGE), "column names must be distinct: 'age'"),
    "names by case": (columns(AGE, {**AGE, "name": "Age"}), "must be distinct: 'age', 'Age'"),
    "unknown column field": (columns({**AGE, "lowr": 1}), "column 'age': lowr (1) must be a known"),
    "swapped": (columns({**AGE, "lower": 100}), "lower (100) must not be above upper (99)"),
    "swapped real": (
        columns({**AGE, "kind": "continuous", "upper": 0}),
        "column 'age': lower (0) must be below upper (0)",
    ),
    "text bound": (columns({**AGE, "lower": "a"}), "column 'age': lower ('a') must be a valid"),
    "infinite": (columns({**AGE, "upper": float("inf")}), "bound (inf) must be finite"),
    "nan": (columns({**AGE, "kind": "continuous", "lower": float("nan")}), "must be finite"),
    "huge": (columns({**AGE, "upper": 2**60}), "must be within +-2**53"),
    "zero bins": (columns({**AGE, "bins": 0}), "bins (0) must be between"),
    "many bins": (columns({**AGE, "bins": 101}), "bins (101) must be at most 100"),
    "very many bins": (columns({**AGE, "upper": 99999, "bins": 20_000}), "must be at most 10000"),
    "very many real bins": (
        columns({**AGE, "kind": "continuous", "bins": 20_000}),
        "bins (20000) must be at most 10000",
    ),
    "bins no number": (columns({**AGE, "bins": "many"}), "bins ('many') must be 'auto'"),
    "bins true": (columns({**AGE, "bins": True}), "bins (True) must be"),
    "no edges": (columns({**AGE, "bins": []}), "bins ([]) must be"),
    "edges decrease": (columns({**AGE, "bins": [50, 20]}), "must be edges in increasing order"),
    "edges repeat": (columns({**AGE, "bins": [20, 20]}), "must be edges in increasing order"),
    "edges outside": (columns({**AGE, "bins": [50, 120]}), "must lie between lower (0) and"),
    "edges outside real": (
        columns({**AGE, "kind": "continuous", "bins": [-1]}),
        "must lie between lower (0) and upper (99)",
    ),
    "empty bin": (columns({**AGE, "bins": [20.1, 20.2]}), "must hold an integer each"),
    "too fine": (
        columns({**AGE, "kind": "continuous", "decimals": 0, "bins": 500}),
        "decimals (0) must be more, or bins fewer",
    ),
    "no digits left": (
        columns({**AGE, "kind": "continuous", "decimals": 15}),
        "decimals (15) must be fewer",
    ),
    "no categories": (columns({**SEX, "categories": []}), "categories ([]) must hold"),
    "same category": (columns({**SEX, "categories": [1, "a", 1]}), "1 and 1 are the same"),
    "same spelling": (columns({**SEX, "categories": [1, "1"]}), "'1' and 1 are the same"),
    "same number": (columns({**SEX, "categories": [1.0, 1]}), "1 and 1.0 are the same"),
    "null category": (columns({**SEX, "categories": [None]}), "value (None) must be a text"),
    "blank category": (columns({**SEX, "categories": [" "]}), "value (' ') must not be blank"),
    "other taken": (columns({**SEX, "other_label": "f"}), "other_label ('f') must differ"),
    "other missing": (columns({**SEX, "other_label": "NA"}), "must not be one of missing_tokens"),
    "same labels": (
        columns({"kind": "boolean", "name": "b", "true_label": 0, "false_label": "0"}),
        "true_label and false_label must be distinct",
    ),
    "no such label": (json.dumps({"columns": [AGE], "label": "x"}), "label ('x') must be one of"),
    "no such class": (
        json.dumps({"columns": [SEX], "label": "sex", "positive": "x"}),
        "positive: sex ('x') must be one of ['f', 'm']",
    ),
    "class out of bounds": (
        json.dumps({"columns": [AGE], "label": "age", "positive": 100}),
        "positive (100) must lie within the label's bounds",
    ),
    "class without label": (
        json.dumps({"columns": [SEX], "positive": "f"}),
        "label must be given: positive ('f') needs it",
    ),
    "drops a column": (json.dumps({"columns": [SEX], "drop": ["sex"]}), "drop (sex) must not"),
    "rule without column": (
        json.dumps({"columns": [SEX], "impossible": [{}]}),
        "impossible[0] must name at least one column",
    ),
    "rule on another column": (
        json.dumps({"columns": [SEX], "impossible": [{"age": 3}]}),
        "impossible[0] ('age') must be one of sex",
    ),
    "rule on another value": (
        json.dumps({"columns": [SEX], "impossible": [{"sex": ["f", "x"]}]}),
        "impossible[0]: sex ('x') must be one of",
    ),
    "rule on missing": (
        json.dumps({"columns": [SEX], "impossible": [{"sex": None}]}),
        "impossible[0]: sex (null) must be a value",
    ),
    "rule with other bounds": (
        json.dumps({"columns": [AGE], "impossible": [{"age": {"below": 3}}]}),
        "must be a number or",
    ),
    "rule the wrong way round": (
        json.dumps({"columns": [AGE], "impossible": [{"age": {"min": 9, "max": 3}}]}),
        "age: min (9) must not be above max",
    ),
    "empty domain": ('{"age": 0}', "domain size of 'age' (0) must be at least 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_schemas_are_refused_in_words(case, tmp_path):
    text, words = BAD[case]
    path = tmp_path / "bad.schema.json"
    path.write_text(text)
    with pytest.raises(SchemaError) as caught:
        Schema.read(path)
    message = str(caught.value)
    assert words in message
    assert message.startswith(str(path))
    assert "pydantic" not in message
    assert "input_value" not in message
    assert len(message.splitlines()) <= 3


def test_all_mistakes_are_listed_on_one_screen():
    wrong = [{**AGE, "name": f"age{i}", "lower": 100 + i} for i in range(40)]
    with pytest.raises(SchemaError) as caught:
        Schema.from_json(columns(*wrong))
    lines = str(caught.value).splitlines()
    assert lines[1].startswith("column 'age1': lower (101)")
    assert lines[-1] == "... and 28 more"
    assert len(lines) < 20


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(SchemaError, match="must be an existing file"):
        Schema.read(tmp_path / "none.json")
    with pytest.raises(SchemaError, match="must be a readable file"):
        Schema.read(tmp_path)
    (tmp_path / "latin.json").write_bytes('{"größe": 3}'.encode("latin-1"))
    with pytest.raises(SchemaError, match="must be UTF-8 text: byte 4"):
        Schema.read(tmp_path / "latin.json")
    with pytest.raises(SchemaError, match="must be writable"):
        whole_schema().write(tmp_path / "no" / "folder.json")


def test_a_drafted_schema_cannot_hide_its_warning():
    data = {"columns": [SEX], "drafted_from_data": True, "warning": None}
    schema = Schema.from_json(json.dumps(data))
    assert schema.warning == DRAFT_WARNING
    assert "NOT PRIVATE" in schema.to_json()
    reviewed = json.loads(schema.to_json()) | {"drafted_from_data": False}
    assert Schema.from_json(json.dumps(reviewed)).warning is None


def test_structural_zeros_against_every_cell():
    schema = Schema(
        columns=(
            IntegerColumn(name="age", lower=0, upper=99, bins=10),
            CategoricalColumn(name="m", categories=("single", "married"), nullable=True),
            ContinuousColumn(name="x", lower=0, upper=1, bins=4),
            BooleanColumn(name="b"),
        ),
        impossible=(
            {"m": ["married", None], "age": {"max": 14}},
            {"age": {"min": 90}, "m": "OTHER"},
            {"x": {"min": 0.2, "max": 0.8}},
            {"b": True, "age": 3},
        ),
    )
    zeros = dict(schema.structural_zeros())
    # [10, 20) is not wholly at or below 14, so only the first bin is ruled out.
    expected = {(0, 1), (0, 3), (9, 2)}
    found = {cell for cell in product(range(10), range(4)) if zeros["age", "m"][cell]}
    assert found == expected
    assert zeros[("x",)].tolist() == [False, True, True, False]
    # No bin is just {3}: a condition that covers no cell is left out.
    assert set(zeros) == {("age", "m"), ("x",)}
    assert zeros["age", "m"].shape == (schema.domain["age"], schema.domain["m"])
    fine = schema.with_bins(age=100)
    assert dict(fine.structural_zeros())["age", "b"].sum() == 1
