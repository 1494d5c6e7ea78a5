"""Neighbouring tables of persons: what one person adds who has many rows, all of them alike.

The tables of an audit differ by one row. For persons that row becomes a person with more rows than
are counted; every other row is a person who has one. So the odd person moves all that the odd row
moved, in the number of a person's rows as well, and twelve times as much where a bound is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from marginalsyn.privacy.charges import Neighbours
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import Unit

MANY, COUNTED = 12, 4
"""The rows of the odd person, and how many of a person are counted."""
REPLACED = 2
"""The rows of the person who is replaced."""
PERSON = Unit(column="person", max_rows=COUNTED)


def tables_of_persons(
    tables: Sequence[pd.DataFrame], neighbours: Neighbours
) -> tuple[pd.DataFrame, ...]:
    """The tables with persons in place of rows; the last row is what they differ by."""
    one, other = tables
    if neighbours is Neighbours.REPLACE:
        return _with_persons(one, REPLACED), _with_persons(other, MANY)
    longer = len(other) > len(one)
    return _with_persons(one, 1), _with_persons(other, MANY if longer else 1)


def one_row_each(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """A row for each person, whose rows are all alike, with their number as a release has it."""
    assert schema.unit is not None
    named = frame.groupby(PERSON.column, sort=False)
    found = named.first().reset_index(drop=True)
    found[schema.unit.count] = np.minimum(named.size().to_numpy(), schema.unit.max_rows)
    return found[schema.names]


def repeated(frame: pd.DataFrame, times: int = MANY) -> pd.DataFrame:
    """Every row as a person who has so many of it."""
    places = np.repeat(np.arange(len(frame)), times)
    return frame.iloc[places].assign(**{PERSON.column: places}).reset_index(drop=True)


def _with_persons(frame: pd.DataFrame, last: int) -> pd.DataFrame:
    """Each row a person; the last one has so many rows."""
    times = np.ones(len(frame), dtype=int)
    times[-1:] = last
    places = np.repeat(np.arange(len(frame)), times)
    # The same persons have the same names in both tables, and the odd one a name of its own.
    names = [f"p{place}" for place in places]
    if last > 1:
        names = [
            "odd" if place == len(frame) - 1 else n for place, n in zip(places, names, strict=True)
        ]
    return frame.iloc[places].assign(**{PERSON.column: names}).reset_index(drop=True)
