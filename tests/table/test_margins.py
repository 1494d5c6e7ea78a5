"""Public margins: read as offices publish them, refused with the place of what does not fit."""

from __future__ import annotations

import pytest

from marginalsyn.errors import SchemaError, UsageError
from marginalsyn.table.schema import (
    BooleanColumn,
    CategoricalColumn,
    ContinuousColumn,
    IntegerColumn,
    Schema,
)
from marginalsyn.table.unit import Unit

SCHEMA = Schema(
    columns=(
        IntegerColumn(name="age", lower=0, upper=99, bins=(18, 65), nullable=True),
        CategoricalColumn(name="sex", categories=("F", "M"), other=False),
        ContinuousColumn(name="pay", lower=0, upper=100, bins=(10, 50)),
        BooleanColumn(name="ill"),
    ),
    impossible=({"age": {"max": 17}, "sex": "M"},),
)
SEX = {"columns": ["sex"], "counts": {"F": 60, "M": 40}}


def counts(text, name="m.csv"):
    def write(folder):
        (folder / name).write_text(text)
        return SCHEMA.with_margins([folder / name]).public_margins[-1]

    return write


def test_what_offices_print_is_read(tmp_path):
    ages = counts('age,count\n0-17,"1,200"\n18 to 64,2300\n65+,450\n,50\nTotal,4000\n')(tmp_path)
    assert ages.values.tolist() == [1200, 2300, 450, 50]
    assert ages.rows == 4000
    pay = counts(
        "pay,ill,percent of 200\nunder 10,true,12.5\n10-50,False,50\n50 or more,true,37.5\n"
    )
    found = pay(tmp_path)
    assert found.values.tolist() == [[0, 25], [100, 0], [0, 75]]
    shares = SCHEMA.with_margins([{"columns": "sex", "shares": {"F": 0.667, "M": 0.333}}])
    assert shares.public_rows is None
    assert shares.public_margins[0].counts(30).sum() == pytest.approx(30)
    again = Schema.from_json(shares.to_json())
    assert again == shares
    assert again.select(["age", "pay"]).margins == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("age,count\n0-17,5\n10-20,3\n", "m.csv, line 3: '10-20'"),
        ("sex,count\nF,5\nX,3\n", "m.csv, line 3: 'X'"),
        ("sex,count\nF,5\nM,-3\n", "m.csv, line 3: '-3'"),
        ("sex,count\nF,5\nM,many\n", "m.csv, line 3: 'many'"),
        ("sex,count\nF,5\nM\n", "m.csv, line 3"),
        ("sex,count\nF,5\nF,3\n", "listed once: see m.csv, line 2"),
        ("sex,share\nF,0.5\nM,0.3\n", "must sum to 1"),
        ("sex,persons\nF,5\n", "line 1: 'sex,persons'"),
        ("town,count\nF,5\n", "'town'"),
        ("age,sex,count\n0-17,M,5\n18-64,F,5\n", "m.csv, line 2: 5) must not count what"),
        ("", "line 1"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(tmp_path, text, said):
    with pytest.raises((SchemaError, UsageError)) as caught:
        counts(text)(tmp_path)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"columns": 5},
        {"columns": [["sex"]]},
        {"counts": 5},
        {"counts": [5]},
        {"counts": [[]]},
        {"rows": -5},
        {"rows": 0},
        {"rows": float("nan")},
        {"rows": [143]},
        {"rows": "143"},
        {"relative": "false"},
        {"source": 5},
    ],
)
def test_an_entry_of_wrong_types_is_refused(change):
    with pytest.raises(SchemaError, match="margins"):
        Schema(columns=SCHEMA.columns, margins=({**SEX, **change},))


def test_margins_may_disagree_by_rounding_and_no_more():
    joint = {"columns": ["sex", "ill"], "counts": [["F", "false", 30], ["F", "true", 30]]}
    joint["counts"] += [["M", "false", 20], ["M", "true", 21]]
    SCHEMA.with_margins([SEX, joint])
    SCHEMA.with_margins([SEX, {"columns": ["sex"], "shares": {"F": 0.597, "M": 0.402}}])
    joint["counts"][-1][-1] = 29
    with pytest.raises(SchemaError, match=r"cell 2: 40\) must agree with sex x ill .*49"):
        SCHEMA.with_margins([SEX, joint])
    with pytest.raises(SchemaError, match="on the number of rows"):
        SCHEMA.with_margins([SEX, {"columns": ["ill"], "counts": {"true": 12, "false": 131}}])


def test_what_is_still_to_be_bought_or_counts_persons_has_no_margin():
    persons = {**SCHEMA.model_dump(), "unit": Unit(column="id", max_rows=3), "margins": (SEX,)}
    with pytest.raises(SchemaError, match="persons are counted"):
        Schema(**persons)
    town = CategoricalColumn(name="town", categories="private")
    with pytest.raises(SchemaError, match="still to be bought"):
        Schema(columns=(town,), margins=({"columns": ["town"], "counts": {"A": 3}},))
