"""Parts of dates: counted by engines as the calendar has them, and rows that agree with them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginalsyn import PrivateTable, Schema
from marginalsyn.errors import SchemaError
from marginalsyn.table.codec import Codec
from marginalsyn.table.moments import VALUES

DATE: dict[str, Any] = {
    "kind": "date",
    "name": "day",
    "lower": "1899-11-05",
    "upper": "2101-03-01",
    "format": "%d.%m.%Y",
    "bins": "year",
    "parts": ["weekday", "month"],
    "nullable": True,
}
MOMENT: dict[str, Any] = {
    "kind": "datetime",
    "name": "seen",
    "lower": "1969-12-20",
    "upper": "1970-03-05",
    "format": "%Y-%m-%d %H:%M",
    "bins": "month",
    "parts": ["weekday", "hour"],
}


def test_engines_find_the_parts_that_the_calendar_has() -> None:
    first, last = dt.date(1899, 11, 5), dt.date(2101, 3, 1)
    days = [first + dt.timedelta(days=k) for k in range(0, (last - first).days + 1, 3)]
    moments = [dt.datetime(1969, 12, 20) + dt.timedelta(minutes=97 * k) for k in range(len(days))]
    seen = [one for one in moments if one < dt.datetime(1970, 3, 6)]
    frame = pd.DataFrame(
        {
            "day": [day.strftime("%d.%m.%Y") for day in days] + ["", "31.02.2000"],
            "seen": [seen[k % len(seen)].strftime("%Y-%m-%d %H:%M") for k in range(len(days) + 2)],
        }
    )
    schema = Schema(columns=(DATE, MOMENT))
    assert schema.names == ["day", "day_weekday", "day_month", "seen", "seen_weekday", "seen_hour"]
    assert schema.derived == {"day_weekday", "day_month", "seen_weekday", "seen_hour"}
    assert Schema.from_json(schema.to_json()) == schema
    table = PrivateTable.open(frame, schema)
    table.check_layout()
    rows = table.unprotected("test").frame()
    known = rows["day"].notna()
    assert known.sum() == len(days)
    read = pd.to_datetime(rows.loc[known, "day"], format="%d.%m.%Y").dt
    assert rows.loc[known, "day_weekday"].tolist() == [day.strftime("%A") for day in days]
    assert rows.loc[known, "day_month"].tolist() == read.month_name().tolist()
    assert rows.loc[~known, ["day_weekday", "day_month"]].isna().all(axis=None)
    told = pd.to_datetime(rows["seen"]).dt
    assert rows["seen_weekday"].tolist() == told.day_name().tolist()
    assert rows["seen_hour"].astype(int).tolist() == told.hour.tolist()


@pytest.mark.parametrize("given", [DATE, MOMENT])
def test_rows_agree_with_their_parts_and_keep_the_codes_that_can_be(given: dict[str, Any]) -> None:
    schema, rng = Schema(columns=(given,)), np.random.default_rng(5)
    codes = np.column_stack([rng.integers(0, size, 4000) for size in schema.domain.values()])
    codec = Codec(schema)
    frame = codec.decode(codes, rng)
    table = PrivateTable.open(frame[[given["name"]]], schema)
    true = table.unprotected("test").frame()
    assert true.equals(frame)
    again = codec.encode(frame)
    assert (again[:, 0] == codes[:, 0]).all()
    # Every bin between the first and the last has all parts, but for dates that are missing.
    inner = (codes[:, 0] > 0) & (codes[:, 0] < schema.columns[0].levels - 1)
    inner &= (codes[:, 1] < 7) & (codes[:, 2] < len(VALUES[given["parts"][1]]))
    assert inner.sum() > 500
    assert (again[inner] == codes[inner]).all()
    points = codec.from_unit(rng.random((50, 3)) * [1, 6, 5])
    assert table_of(points, schema).equals(points)


def table_of(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The rows with parts computed anew by the engine."""
    return PrivateTable.open(frame[[schema.names[0]]], schema).unprotected("test").frame()


def test_parts_are_said_where_they_can_be() -> None:
    for wrong in (
        {**DATE, "parts": ["hour"]},
        {**DATE, "parts": ["weekday", "weekday"]},
        {**DATE, "parts": ["weekdays"]},
        {"kind": "time", "name": "t", "lower": "08:00", "upper": "09:00", "parts": ["hour"]},
    ):
        with pytest.raises(SchemaError, match="parts"):
            Schema(columns=(wrong,))
    whole = Schema(columns=(DATE, MOMENT))
    assert whole.select(["day", "day_month"]).names == ["day", "day_month"]
    assert whole.select(["seen"]).derived == set()
    assert whole.with_bins(day="month").names == whole.names
