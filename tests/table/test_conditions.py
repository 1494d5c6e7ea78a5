"""Conditions on rows: which codes agree, how much of a bin, and values drawn inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Schema
from marginalsyn.errors import DataError, UsageError
from marginalsyn.table.codec import Codec
from marginalsyn.table.conditions import kept_rows, read_conditions

SCHEMA = Schema(
    columns=(
        {"kind": "integer", "name": "age", "lower": 0, "upper": 99, "bins": 10, "nullable": True},
        {"kind": "categorical", "name": "sex", "categories": ["female", "male"]},
        {"kind": "ordinal", "name": "size", "categories": ["s", "m", "l"]},
        {"kind": "continuous", "name": "share", "lower": 0, "upper": 1, "bins": 4},
        {"kind": "continuous", "name": "cost", "lower": 0, "upper": 10, "bins": 2, "decimals": 1},
        {"kind": "boolean", "name": "ill"},
        {"kind": "date", "name": "day", "lower": "2020-01-01", "upper": "2020-12-31"},
        {
            "kind": "categorical",
            "name": "odd",
            "categories": ["a,b", "1..2", "x|y", "missing", "<5"],
        },
    )
)


@pytest.mark.parametrize(
    ("where", "name", "weights"),
    [
        ("sex=female", "sex", [1, 0, 0]),
        ("sex=OTHER|male", "sex", [0, 1, 1]),
        ("age=40..49", "age", [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
        ("age=45..51", "age", [0, 0, 0, 0, 0.5, 0.2, 0, 0, 0, 0, 0]),
        ("age=..4|missing|2..6", "age", [0.7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ("age=95..", "age", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0.5, 0]),
        ("size=m..", "size", [0, 1, 1]),
        ("share=0.25..0.375", "share", [0, 0.5, 0, 0]),
        ("ill=true", "ill", [0, 1]),
        ("odd=a,b", "odd", [1, 0, 0, 0, 0, 0]),
        ("odd=1..2|a,b", "odd", [1, 1, 0, 0, 0, 0]),
        ("odd=x|y,sex=male", "odd", [0, 0, 1, 0, 0, 0]),
        ("odd='x|y'|\"1..2\",sex='male'", "odd", [0, 1, 1, 0, 0, 0]),
        ("odd=missing", "odd", [0, 0, 0, 1, 0, 0]),
        ("age>45", "age", [0, 0, 0, 0, 0.4, 1, 1, 1, 1, 1, 0]),
        ("age >= 45, age<50", "age", [0, 0, 0, 0, 0.5, 0, 0, 0, 0, 0, 0]),
        ("age >= 45 and age<50 and odd=<5", "age", [0, 0, 0, 0, 0.5, 0, 0, 0, 0, 0, 0]),
        ("odd=<5|a,b and sex = male", "odd", [1, 0, 0, 0, 1, 0]),
        ("sex=female,age<=4", "age", [0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("age!=40..49", "age", [1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0]),
        ("age!=missing", "age", [1] * 10 + [0]),
        ("sex!=Female", "sex", [0, 1, 1]),
        ("size<l", "size", [1, 1, 0]),
        ("share>0.25", "share", [0, 1, 1, 1]),
        ("cost<4.9", "cost", [0.98, 0]),
        ("odd=<5|a,b", "odd", [1, 0, 0, 0, 1, 0]),
        ({"age": (40, 49)}, "age", [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
        ({"age": {"min": 95}}, "age", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0.5, 0]),
        ({"age": None}, "age", [0] * 10 + [1]),
        ({"sex": ["male", "female"]}, "sex", [1, 1, 0]),
    ],
)
def test_codes_agree_by_the_share_of_their_values(where: Any, name: str, weights: Any) -> None:
    found = read_conditions(where, SCHEMA)[name].weights
    assert np.allclose(found, weights)


def test_a_month_of_a_column_of_dates() -> None:
    found = read_conditions("day=2020-02-01..2020-02-29", SCHEMA)
    assert found["day"].weights.max() > 0
    frame = pd.DataFrame({"day": ["2020-02-01", "2020-02-29", "2020-03-01", "2020-01-31"]})
    whole = Codec(SCHEMA).decode(np.zeros((4, 8), dtype=np.int32), np.random.default_rng(0))
    whole["day"] = frame["day"]
    assert found["day"].holds(whole, SCHEMA).tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("sexx=female", "did you mean 'sex'"),
        ("sex=femal", "must be one of"),
        ("sex", "column=value"),
        ("sex=male,sex=female", "once"),
        ("age=old", "must be a number or a range"),
        ("age=50..40", "must not end before it begins"),
        ("age=300..400", "must leave a value"),
        ("size=l..s", "must be in the column's order"),
        ("share=0.5", "give a range"),
        ("sex=missing", "must be a value"),
        ("day=tomorrow", "ISO text"),
        ("sex>female", "no order"),
        ("age>missing", "no order"),
        ("age>50,age<40", "must leave a value"),
        ("age>", "compare with"),
        ({}, "must name a column"),
        ({"sex": []}, "must leave a value"),
    ],
)
def test_a_condition_that_cannot_be_is_refused(where: Any, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        read_conditions(where, SCHEMA)


@pytest.mark.parametrize("where", ["age=45..51", "cost=4.8..5.2", "share=0.2..0.3", "age=3|17|18"])
def test_values_of_bins_that_are_cut_lie_inside_and_are_even(where: str) -> None:
    (name,) = found = read_conditions(where, SCHEMA)
    condition, rng = found[name], np.random.default_rng(1)
    share = condition.weights / condition.weights.sum()
    codes = rng.choice(len(share), 4000, p=share)
    values = condition.decode(codes, rng)
    frame = Codec(SCHEMA).decode(np.zeros((4000, 8), dtype=np.int32), rng)
    frame[name] = values
    assert condition.holds(frame, SCHEMA).all()
    assert frame[name].dtype == Codec(SCHEMA).empty()[name].dtype
    if name != "share":
        counts = values.value_counts()
        assert counts.min() > 0.7 * counts.max()


def test_rows_picked_out_of_many_agree_and_rare_ones_are_refused() -> None:
    rng = np.random.default_rng(2)
    sizes = list(SCHEMA.domain.values())

    def draw(n: int | None) -> pd.DataFrame:
        codes = rng.integers(0, sizes, size=(n or 50, len(sizes)))
        codes[:, 1] = 0
        return Codec(SCHEMA).decode(codes, rng)

    found = kept_rows(draw, SCHEMA, 20, read_conditions("ill=true", SCHEMA))
    assert len(found) == 20
    assert found["ill"].all()
    with pytest.raises(DataError, match="common enough"):
        kept_rows(draw, SCHEMA, None, read_conditions("sex=male", SCHEMA))


def test_and_in_names_and_values_is_no_comma() -> None:
    columns = [
        {"kind": "integer", "name": "sand and clay", "lower": 0, "upper": 9},
        {"kind": "categorical", "name": "team", "categories": ["R and D", "sales"], "other": False},
    ]
    found = read_conditions("sand and clay>4 and team=R and D", Schema(columns=columns))
    assert [condition.weights.sum() for condition in found.values()] == [5, 1]
