"""Rows as the private table has them, from a model in which every person weighs the same.

Persons are counted, so that each of a person's k rows weighs 1/k. A model of such counts draws a
person first and then one of the person's rows. In a table of rows each person is met k times as
often: rows are drawn with a probability in proportion to their number k, which is a column.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from marginalsyn.contract import MAX_ROWS

if TYPE_CHECKING:
    from marginalsyn.table.unit import Unit

# Rows drawn at a time, and at least: the mean number of rows of a person is read off them.
MOST_DRAWN = 2**20
LEAST_DRAWN = 2**14


def rows_for(frame: pd.DataFrame, unit: Unit, persons: float) -> int:
    """How many rows so many persons have, by rows that were drawn person by person."""
    if unit.max_rows == 1:
        return _whole(persons)
    return _whole(persons * float(frame[unit.count].astype("float64").mean()))


def draw_rows(
    draw: Callable[[int], pd.DataFrame],
    unit: Unit,
    rows: int,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Rows of a table, from a model that draws a person and then one of the person's rows.

    Args:
        draw: gives so many rows of the model.
        unit: who a person is.
        rows: how many to return.
        rng: chooses among them; it protects nothing.
    """
    if unit.max_rows == 1:
        return draw(rows)
    kept: list[pd.DataFrame] = []
    found, share = 0, 1 / unit.max_rows
    while found < rows:
        wanted = math.ceil((rows - found) / share * 1.05)
        frame = draw(min(max(wanted, LEAST_DRAWN), MOST_DRAWN))
        chosen = _met(frame[unit.count].astype("float64").to_numpy(), unit.max_rows, rng)
        # At least one row in max_rows is met, so this ends.
        share = max(len(chosen) / len(frame), 1 / unit.max_rows / 2)
        kept.append(frame.iloc[chosen])
        found += len(chosen)
    whole = pd.concat(kept, ignore_index=True)
    first = np.sort(rng.choice(len(whole), rows, replace=False))
    return whole.iloc[first].reset_index(drop=True)


def _met(counts: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Positions, each with probability count / most, with next to no variance in their number."""
    order = rng.permutation(len(counts))
    steps = np.floor(np.cumsum(counts[order] / most) + rng.random())
    return np.sort(order[np.diff(steps, prepend=0.0) > 0])


def _whole(rows: float) -> int:
    return int(min(max(1, round(rows)), MAX_ROWS))
