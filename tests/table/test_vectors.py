"""The one map from rows to vectors: which columns lie on a scale in which view, and what is off."""

from __future__ import annotations

import numpy as np
import pytest

from marginalsyn import Schema
from marginalsyn.certificates.linear_models import GRID, Frame
from marginalsyn.plugins.networks.heads import Heads
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn, OrdinalColumn
from marginalsyn.table.design import ABSENT, Slots, scaled_features
from marginalsyn.table.features import Features
from marginalsyn.table.metric import Metric
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.schema import AnyColumn

COLUMNS: list[AnyColumn] = [
    IntegerColumn(name="age", lower=0, upper=9, bins=5, nullable=True),
    ContinuousColumn(name="pay", lower=0.0, upper=1.0, bins=4),
    ContinuousColumn(name="half", lower=0.0, upper=1.0, bins=2, nullable=True),
    OrdinalColumn(name="grade", categories=("a", "b", "c"), other=True, nullable=True),
    OrdinalColumn(name="side", categories=("low", "high")),
    CategoricalColumn(name="ward", categories=("x", "y", "z"), other=False),
    CategoricalColumn(name="one", categories=("only",), other=False),
    BooleanColumn(name="ill"),
]


# Entries of each column's vector: scaled features, features, heads, and (scales, codes) of points.
WIDTHS = {
    "age": (2, 2, 2, (1, 1)),
    "pay": (1, 1, 1, (1, 0)),
    "half": (2, 3, 3, (1, 1)),
    "grade": (5, 3, 3, (1, 1)),
    "side": (1, 1, 2, (1, 0)),
    "ward": (3, 3, 3, (0, 1)),
    "one": (0, 0, 1, (1, 0)),
    "ill": (1, 1, 2, (0, 1)),
}


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_every_view_has_its_slots(column: AnyColumn) -> None:
    schema = Schema(columns=[column])
    codes = np.arange(column.size, dtype=np.int32)[:, None]
    units = codes.astype(float)
    if column.numeric:
        units = np.linspace(0, 1, column.size)[:, None]
    space = Metric(schema).space
    widths = (
        scaled_features(schema, units).shape[1],
        Features(schema).of_codes(codes).shape[1] - 1,
        Heads(schema).rows(codes, None).shape[1],
        (space.numeric, len(space.weights)),
    )
    assert widths == WIDTHS[column.name]
    assert Features(schema).widths == (widths[1],)
    assert Heads(schema).width == widths[2]


def test_numbers_off_their_scale() -> None:
    schema = Schema(columns=[COLUMNS[0], COLUMNS[1], BooleanColumn(name="ill")])
    units = np.array([[0.0, 1.0, 1.0], [0.25, ABSENT, 0.0], [ABSENT, 0.5, 1.0]])
    # Missing is 0 with its mark; where nothing may be missing, it is the lower bound.
    expected = [[-1, 0, 1, 1], [-0.5, 0, -1, -1], [0, 1, 0, 1]]
    assert scaled_features(schema, units).tolist() == expected
    without = scaled_features(schema, units, without="age")
    assert without.tolist() == [row[2:] for row in expected]
    frame = Frame.of(schema, "ill")
    assert frame.integers(units).tolist() == [
        [round(GRID * x) for x in row[:3]] + [GRID] for row in expected
    ]
    # Points have their marks as codes, and sit in the middle meanwhile.
    assert Metric(schema).points(units).tolist() == [
        [0, 1, 0, 1],
        [0.25, 0, 0, 0],
        [0.5, 0.5, 1, 1],
    ]


def test_codes_off_their_scale() -> None:
    grade = Schema(columns=[COLUMNS[3]])
    codes = np.arange(5)[:, None]
    assert Features(grade).of_codes(codes)[:, :3].tolist() == [
        [-0.5, 0, 0],
        [0, 0, 0],
        [0.5, 0, 0],
        [0, 0.5, 0],
        [0, 0, 0.5],
    ]
    assert Metric(grade).points(codes.astype(float)).tolist() == [
        [0, 0],
        [0.5, 0],
        [1, 0],
        [0.5, 1],
        [0.5, 2],
    ]
    places = Heads(grade).rows(codes, None)
    assert places[:, 0] == pytest.approx([-2 / 3, 0, 2 / 3, 0, 0])
    assert places[:, 1:] == pytest.approx(np.eye(5)[:, 3:] - 0.2)


def test_ends_and_marks() -> None:
    ward, ill = COLUMNS[5], COLUMNS[7]
    assert Slots.of(ward, scaled=False, ends=True) == (0, 3)
    assert Slots.of(ill, scaled=False, ends=True) == (2, 0)
    assert Slots.of(ill, scaled=False) == (0, 2)
    marks = Slots(0, 3)
    assert marks.indicators(marks.read(np.array([2, 0]))).tolist() == [
        [False, False, True],
        [True, False, False],
    ]
