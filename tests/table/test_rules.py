"""Rules between columns: what texts mean, what they rule out, and that no row breaks one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from marginalsyn.errors import SchemaError
from marginalsyn.graphical.estimation import excluded_values
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.purchases.shapes import with_shapes
from marginalsyn.table.codec import Codec
from marginalsyn.table.decoding import drawn
from marginalsyn.table.keeping import (
    broken_rules,
    cells_of,
    impossible_cells,
    keep_rules,
    record_redrawn,
    with_mappings,
)
from marginalsyn.table.rules import read_rules, rename
from marginalsyn.table.schema import Schema
from tests.support.clinic_tables import TREE

COLUMNS = (
    {"kind": "integer", "name": "age", "lower": 0, "upper": 99, "bins": 10, "nullable": True},
    {"kind": "categorical", "name": "MSP", "categories": ["N", "M", "1"], "nullable": True},
    {"kind": "date", "name": "in day", "lower": "2020-01-01", "upper": "2020-12-31"},
    {
        "kind": "date",
        "name": "out",
        "lower": "2020-01-01",
        "upper": "2020-12-31",
        "parts": ["weekday"],
        "nullable": True,
    },
    {"kind": "continuous", "name": "t", "lower": 0, "upper": 10, "decimals": 2, "bins": 5},
    {"kind": "continuous", "name": "p", "lower": 0, "upper": 5, "decimals": 2, "bins": 5},
    {"kind": "continuous", "name": "q", "lower": 0, "upper": 5, "bins": 4},
    {"kind": "ordinal", "name": "g", "categories": ["a", "b", "c"]},
    {"kind": "ordinal", "name": "h", "categories": ["a", "b", "c"], "nullable": True},
    {"kind": "boolean", "name": "ill", "true_label": "yes", "false_label": "no"},
)
PLAIN = Schema(columns=COLUMNS)


def with_rules(*rules: str) -> Schema:
    return Schema(columns=COLUMNS, rules=rules)


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("age < 15 -> MPS = N", 13, "did you mean 'MSP'"),
        ("MSP = foo", 7, "must be one of"),
        ("MSP < M", 7, "no order"),
        ("age 15", 1, "must be compared"),
        ("missing(g)", 9, "nullable"),
        ("age = out", 1, "of one kind"),
        ("t = p + MSP", 1, "numbers or dates"),
        ("age determines g", 17, "listed values"),
        ("MSP determines g by {N -> z}", 27, "must be one of"),
        ("MSP determines g by {N -> a, M, N -> b}", 30, "listed once"),
        ("age = 1)", 8, "must not follow"),
        ("age = 'x", 7, "part of a name"),
        ("age in {}", 9, "must be a value"),
        ("(" * 60 + "age = 1" + ")" * 60, 21, "nested"),
        ("", 1, "must"),
        ("g < age", 1, "numbers or dates"),
        ("t = p within x", 14, "must be a number"),
        ("age", 1, "must be compared"),
    ],
)
def test_every_complaint_names_the_place(text, place, problem):
    with pytest.raises(SchemaError, match="character") as raised:
        with_rules("ill = yes or ill = no", text)
    assert "rules[1]" in str(raised.value)
    assert f"character {place}:" in str(raised.value)
    assert problem in str(raised.value)


def narrow(*rules: str) -> Schema:
    """Rules over the columns that they name and no others, which take time to read."""
    named = {name for rule in read_rules(rules, PLAIN.columns) for name in rule.names}
    named |= {"out"} if "out_weekday" in named else set()
    return Schema(columns=[one for one in COLUMNS if one["name"] in named], rules=rules)


def rows(schema: Schema, **values: list) -> pd.DataFrame:
    size = len(next(iter(values.values())))
    frame = Codec(PLAIN).decode(np.zeros((size, len(PLAIN.columns)), np.int32), rng())
    return frame.assign(**values)[schema.names]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("text", "values", "broken"),
    [
        ("age < 15 -> MSP = N", {"age": [14, 14, 15, None], "MSP": ["N", "M", "M", "M"]}, 1),
        # What is missing breaks nothing, unless the rule asks for it.
        ("age < 15 -> MSP = N", {"age": [14], "MSP": [None]}, 0),
        ("age < 15 -> MSP = N and not missing(MSP)", {"age": [14], "MSP": [None]}, 1),
        ("missing(MSP) iff age < 15", {"age": [14, 14, 15], "MSP": [None, "N", None]}, 2),
        ("MSP in {N, '1'} or ill = yes", {"MSP": ["N", "1", "M", "M"], "ill": ["no"] * 4}, 2),
        ("MSP not in {M}", {"MSP": ["N", "M", "OTHER", None]}, 1),
        ("age != 3", {"age": [3, 4, None]}, 1),
        ("age = 3..5|7", {"age": [3, 6, 7]}, 1),
        ("15 > age", {"age": [14, 15]}, 1),
        ('"in day" <= out', {"in day": ["2020-02-01"] * 2, "out": ["2020-01-31", None]}, 1),
        (
            'out <= "in day" + 30',
            {"in day": ["2020-01-01"] * 2, "out": ["2020-01-31", "2020-02-01"]},
            1,
        ),
        ("t = p + 0.5 within 0.1", {"t": [1.5, 1.6, 1.7], "p": [1.0] * 3}, 1),
        ("0 < p <= t", {"p": [0.0, 1.0, 2.0], "t": [1.0, 1.0, 1.0]}, 2),
        (
            "MSP determines g by {N -> a, M, '1' -> b}",
            {"MSP": ["N", "1", "OTHER"], "g": ["b", "b", "c"]},
            1,
        ),
        ("out_weekday = Monday|Tuesday", {"out": ["2020-01-06"], "out_weekday": ["Wednesday"]}, 1),
    ],
)
def test_what_a_rule_means(text, values, broken):
    schema = narrow(text)
    assert sum(broken_rules(rows(schema, **values), schema).values()) == broken


def test_rules_that_clash_are_named_and_no_others():
    rules = ("ill = yes or age > 3", "age < 10", "p <= t", "age > 20 and not missing(age)")
    with pytest.raises(SchemaError, match="must leave rows") as raised:
        with_rules(*rules)
    assert "age < 10; age > 20 and" in str(raised.value)
    assert "p <= t" not in str(raised.value)
    # Codes alone would allow it: both values may be in one bin.
    with pytest.raises(SchemaError, match="t < p; p < t"):
        with_rules("t < p", "p < t")
    three = ("g = a -> ill = yes", "h = a -> g = a", "h = a and ill = no")
    with pytest.raises(SchemaError, match="must leave rows") as raised:
        with_rules(*three, "p <= t")
    assert "p <= t" not in str(raised.value)


def allowed_codes(schema: Schema, rules) -> dict[str, np.ndarray]:
    """By column, which codes stand in a row that keeps the rules: all rows are tried."""
    sizes = [column.size for column in schema.columns]
    codes = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
    for rule in read_rules(tuple(rules), schema.columns):
        codes = codes[~rule.broken(cells_of(schema.columns, codes))]
    return {c.name: np.isin(np.arange(c.size), codes[:, k]) for k, c in enumerate(schema.columns)}


@pytest.mark.parametrize(
    ("rules", "lines"),
    [
        (("age < 20 -> MSP = N", "age < 20 -> MSP = M"), []),
        (
            ("age < 20 -> MSP = N and not missing(MSP)", "p <= t", "age < 20 -> MSP = M"),
            ["age = [0, 10), [10, 20)", "N and not missing(MSP); age < 20 -> MSP = M"],
        ),
        # By itself, and by a third rule.
        (("MSP = M -> MSP = N", "g < c"), ["MSP = M can", "M -> MSP = N", "g = c can", ": g < c"]),
        (
            ("g = a -> ill = yes", "h = a -> g = a", "h = a -> ill = no", "g = c or h != c"),
            ["h = a can", ": g = a -> ill = yes; h = a -> g = a; h = a -> ill = no"],
        ),
        # 15 lies inside a bin: its other values are allowed, and no code can say so.
        (("age = 15 -> MSP = N and not missing(MSP)", "age = 15 -> MSP = M"), []),
        (("MSP determines g by {N, M, '1', OTHER, missing -> a}",), ["g = b, c can"]),
        (("not missing(h)",), ["h = missing can"]),
        (("age < 90", "missing(MSP) or age > 5"), ["age = [90, 99] can"]),
    ],
)
def test_values_that_rules_exclude_are_named_with_a_smallest_set(rules, lines):
    text = "\n".join(excluded_values(narrow(*rules)))
    assert all(line in text for line in lines), text
    assert bool(text) == bool(lines)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_exactly_the_codes_of_no_allowed_row_are_named(data):
    parts = [f"{name} = {value}" for name in "gh" for value in "abc"]
    parts += ["ill = yes", "ill = no", "missing(h)", "age < 50", "age >= 70", "age = 15"]
    rule = st.tuples(st.sampled_from(parts), st.sampled_from(["->", "iff", "or"])).map(" ".join)
    texts = st.lists(st.tuples(rule, st.sampled_from(parts)).map(" ".join), min_size=1, max_size=5)
    try:
        schema = narrow(*data.draw(texts))
    except SchemaError:
        assume(False)
    found = excluded_values(schema)
    lines = [line.split(" can occur in no row that keeps the rules: ") for line in found]
    allowed = allowed_codes(schema, schema.rules)
    for column in schema.columns:
        values = [line.split(" = ")[1] for line, _ in lines if line.startswith(column.name)]
        gone = np.array(column.labels())[~allowed[column.name]].tolist()
        if column.name == "age":
            assert bool(values) == bool(gone)  # of many bins only the first are named
        else:
            assert sorted(", ".join(values).split(", ") if values else []) == sorted(gone)
    for line, rules in lines:
        # The rules that are named exclude the value, and none of them can be left out.
        name, value = line.split(" = ")[0], line.split(" = ")[1].split(" and ")[0]
        code = [x for x in schema.column(name).labels() if value.startswith(x)]
        place = schema.column(name).labels().index(max(code, key=len))
        kept = rules.split("; ")
        assert not allowed_codes(schema, kept)[name][place]
        for gone in kept:
            rest = [one for one in kept if one is not gone]
            assert allowed_codes(schema, rest)[name][place]


def test_linked_rules_exclude_values_in_the_joined_columns():
    clinic = LinkedSchema.from_json(TREE.to_json())
    rules = ("patients.sex = 1 -> visits.ward = w0", "patients.sex = 1 -> visits.ward = w1")
    found = "patients.sex = 1 can occur in no row that keeps the rules: " + "; ".join(rules)
    assert excluded_values(dataclasses.replace(clinic, rules=rules)) == [found]
    # A visit's patient keeps the patients' rules, and a drug's visit those of both.
    rules = (
        "patients.sex = 1 -> visits.ward = w0",
        "drugs.code = a -> visits.ward = w1",
        "drugs.code in {a, b} -> patients.sex = 1",
    )
    found = "drugs.code = a can occur in no row that keeps the rules: " + "; ".join(rules)
    assert excluded_values(dataclasses.replace(clinic, rules=rules)) == [found]
    with pytest.raises(SchemaError, match="must leave rows that keep them"):
        dataclasses.replace(clinic, rules=(*rules, "drugs.code = a"))


def test_a_rule_over_many_cells_is_kept_by_redrawing():
    columns = [{"kind": "integer", "name": n, "lower": 0, "upper": 299, "bins": 300} for n in "abc"]
    schema = Schema(columns=columns, rules=("a < b", "a + b < c + 10"))
    zeros, left = impossible_cells(schema.rules, schema.columns)
    assert not zeros
    assert left == schema.rules
    codes = rng().integers(0, 300, (500, 3))
    with record_redrawn() as redrawn:
        frame = Codec(schema).decode(codes, rng())
    assert sum(redrawn.values()) > 100
    assert not broken_rules(frame, schema)


def test_order_inside_a_bin_changes_no_code():
    schema = with_rules('"in day" <= out', "p <= t")
    codes = np.zeros((400, len(schema.columns)), np.int32)
    with record_redrawn() as redrawn:
        frame = Codec(schema).decode(codes, rng())
    places = [schema.names.index(name) for name in ("in day", "out", "t", "p")]
    assert not redrawn
    assert not Codec(schema).encode(frame)[:, places].any()
    assert frame["p"].nunique() > 20


def test_a_number_beyond_a_limit_of_detection_may_be_any_there():
    low = {"kind": "continuous", "lower": 0, "upper": 5, "decimals": 2, "bins": 5}
    columns = ({**low, "name": "p", "below": 0.3, "above": 4}, {**low, "name": "q"})
    schema = Schema(columns=columns, rules=("q <= p",))
    frame = pd.DataFrame({"p": ["<0.30", "<0.30", "3.00", ">4"], "q": [0.2, 0.3, 3.1, 4.9]})
    assert broken_rules(frame, schema) == {"q <= p": 2}
    codes = np.column_stack([rng().integers(0, c.size, 2000) for c in schema.columns])
    frame = Codec(schema).decode(codes, rng())
    # What is written must be readable as rows that keep the rule.
    assert not broken_rules(frame, schema)
    assert {"<0.30", ">4"} <= {*frame["p"]}
    whole = Schema(columns=columns, rules=("p < 0.3 -> q > 1",))
    assert broken_rules(pd.DataFrame({"p": ["<0.30", "0.30"], "q": [1.0, 1.0]}), whole)


def test_a_column_whose_bins_are_bought_determines_nothing():
    """The bins that a run buys would make the rule none, after the charge."""
    columns = [
        {"kind": "integer", "name": "age", "lower": 0, "upper": 9},
        {"kind": "boolean", "name": "old"},
    ]
    schema = Schema(columns=columns, rules=("age determines old by {8, 9 -> True}",))
    with pytest.raises(SchemaError, match="a bin for every number"):
        with_shapes(schema, ["age"])
    share = {"kind": "continuous", "name": "age", "lower": 0, "upper": 1, "bins": 2}
    with pytest.raises(SchemaError, match="a bin for every number"):
        Schema(columns=[share, columns[1]], rules=("age determines old by {'[0, 0.5)' -> True}",))
    own = Schema(columns=[{**columns[0], "bins": 10}, columns[1]], rules=schema.rules)
    assert with_shapes(own, ["age"]).shapeless == ["age"]


def test_rows_of_any_tool_are_mended():
    schema = with_rules("t = p + q", "g = c -> ill = yes", "age < 15 -> MSP = N")
    random = rng()
    codes = np.column_stack([random.integers(0, c.size, 300) for c in schema.columns])
    frame = Codec(PLAIN).decode(codes, rng())
    assert len(broken_rules(frame, schema)) == 3
    found = keep_rules(frame, schema, rng())
    assert not broken_rules(found, schema)
    assert list(found.dtypes) == list(frame.dtypes)
    assert keep_rules(found, schema, rng()) is found


def test_a_dependency_takes_its_mapping_from_synthetic_rows():
    schema = narrow("MSP determines g")
    frame = rows(schema, MSP=["N", "N", "N", "M", "1", None], g=["a", "a", "b", "c", "b", "c"])
    public = with_mappings(schema, frame)
    assert schema.rules == ("MSP determines g",)
    mapping = public.kept_rules[0].dependency.mapping
    assert mapping.tolist()[:3] == [0, 2, 1]
    mended = keep_rules(frame, public, rng())
    assert mended["g"].tolist() == ["a", "a", "a", "c", "b", "c"]
    assert Schema.from_json(public.to_json()) == public


def test_names_change_and_values_do_not():
    text = """age < 15 -> MSP in {age, 'N'} or "in day" < out"""
    assert rename(text, {"age": "p.age", "in day": "p.in day"}) == (
        """"p.age" < 15 -> MSP in {age, 'N'} or "p.in day" < out"""
    )


@given(st.text(max_size=60) | st.lists(st.sampled_from(
    ["age", "MSP", '"in day"', "out", "=", "<", "->", "and", "or", "not", "(", ")", "{", "}", ",",
     "in", "iff", "missing", "determines", "by", "within", "+", "-", "*", "3", "N", "'N'", "2..5"]
), max_size=12).map(" ".join))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_rule_or_is_refused(text):
    try:
        rule = read_rules((text,), PLAIN.columns)[0]
    except ValueError as error:
        assert "rules[0]" in str(error)  # noqa: PT017
        return
    codes = np.zeros((1, len(PLAIN.columns)), np.int32)
    assert rule.broken(cells_of(PLAIN.columns, codes)).shape == (1,)


ATOMS = st.sampled_from(
    ["age < 15", "age = 3..55", "MSP = N", "MSP in {M, '1'}", "missing(MSP)", "missing(age)",
     '"in day" <= out', 'out < "in day" + 60', "p <= t", "p < q", "t = p + q within 0.05",
     "g > a", "h = b", "ill = yes", "g >= b", "out_weekday = Monday|Friday", "age != 20"]
)  # fmt: skip
RULES = st.recursive(
    ATOMS,
    lambda part: st.one_of(
        st.tuples(part, st.sampled_from(["and", "or", "->", "iff"]), part).map(
            lambda found: f"({found[0]}) {found[1]} ({found[2]})"
        ),
        part.map(lambda one: f"not ({one})"),
    ),
    max_leaves=3,
) | st.sampled_from(["MSP determines g by {N -> a, M -> c}", "ill determines h by {yes -> b}"])


@given(st.lists(RULES, min_size=1, max_size=3), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_row_breaks_a_random_rule(rules, seed):
    try:
        schema = narrow(*rules)
    except SchemaError as error:
        assume("must leave rows" not in str(error))
        raise
    random = np.random.default_rng(seed)
    codes = np.column_stack([random.integers(0, c.size, 50) for c in schema.columns])
    # A cell is ruled out only if all its values break the rule.
    values = drawn(schema.columns, codes, random)
    for rule in schema.kept_rules:
        surely = rule.broken(cells_of(schema.columns, codes))
        weekday = "out_weekday" in rule.names  # true parts are read off the drawn date
        assert weekday or not (surely & ~rule.broken(cells_of(schema.columns, values))).any()
    assert not broken_rules(Codec(schema).decode(codes, random), schema)
