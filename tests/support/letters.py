"""A table of three columns, as tests of answers ask about it."""

from __future__ import annotations

from marginalsyn import Schema
from marginalsyn.table.columns import BooleanColumn
from marginalsyn.table.numeric import IntegerColumn

SIZES = {"a": 4, "b": 3, "c": 2}
SCHEMA = Schema(
    columns=(
        IntegerColumn(name="a", lower=0, upper=3),
        IntegerColumn(name="b", lower=0, upper=2),
        BooleanColumn(name="c"),
    ),
    label="c",
    positive=True,
)
PAIRS = [(("a", "b"), 8.0), (("b", "c"), 8.0), (("a", "c"), 8.0), (("a",), 8.0)]
