"""What a promise protects: a person who may have several rows.

Persons are counted, so that each of a person's k rows weighs 1/k. A model of such counts draws a
person first and then one of the person's rows. In a table of rows each person is met k times as
often: rows are drawn with a probability in proportion to their number k, which is a column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Literal, Self

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, model_validator

from marginalsyn.contract import MAX_ROWS
from marginalsyn.table.columns import Scalar
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.wording import NumberFormat, OtherFormat

# The fields that say how a source spells numbers.
SPELT = {"format", "also", "below", "above", "missing_tokens"}
MOST_ROWS = 1000
# Every number of rows up to here has a bin of its own; larger ones share bins that grow by a third.
ALONE = 16
# Rows drawn at a time, and at least: the mean number of rows of a person is read off them.
MOST_DRAWN = 2**20
LEAST_DRAWN = 2**14
ROW = "row"
"""What ``--unit`` says where rows are meant, not persons."""

PEOPLE = (
    "patient|person|people|customer|client|member|user|subject|student|pupil|employee|citizen|"
    "household|family|account|insured|policyholder|tenant|voter|participant|respondent|donor|"
    "meter|device|card"
)
_ENDS = "id|ids|no|nr|num|number|key|code|uid|uuid"
_PERSON = re.compile(
    rf"^(({PEOPLE})s?[ _.-]?({_ENDS})|({_ENDS})[ _.-]?({PEOPLE})|pid|uid|ssn|mrn)$", re.IGNORECASE
)


class Unit(BaseModel):
    """A person as the unit of privacy: all rows with the same value in one column of the source.

    Args:
        column: identifies persons, by its text. It is never released.
        max_rows: at most so many rows of a person are counted. Public knowledge.
        order: the rows that come first by this column of the source are counted; by default a
            choice by the rows' own hashes, which is as good as a random one.
        count: the name of the release's column that says how many rows the person of a row has.

    Example:
        >>> Unit(column="patient_id", max_rows=20).text
        "one person (column 'patient_id') with at most 20 rows counted"
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    column: str = Field(min_length=1)
    max_rows: int = Field(ge=1, le=MOST_ROWS)
    order: str | None = None
    count: str = Field(default="rows_of_person", min_length=1)

    @property
    def noun(self) -> str:
        """The unit as ledgers name it: however many rows are counted, persons are protected."""
        return f"persons by column {self.column!r}"

    @property
    def text(self) -> str:
        """The unit as statements name it."""
        rows = "one row" if self.max_rows == 1 else f"at most {self.max_rows} rows"
        return f"one person (column {self.column!r}) with {rows} counted"

    def counted(self) -> IntegerColumn | None:
        """The column that holds the number of a person's rows; None where one row is counted."""
        if self.max_rows == 1:
            return None
        edges = list(range(1, min(self.max_rows, ALONE) + 1))
        while edges[-1] + edges[-1] // 3 < self.max_rows:
            edges.append(edges[-1] + edges[-1] // 3)
        bins: Literal["auto"] | tuple[int | float, ...] = "auto"
        if self.max_rows > ALONE:
            bins = tuple(edges)
        return IntegerColumn(
            name=self.count,
            lower=1,
            upper=self.max_rows,
            bins=bins,
            description=f"how many rows the person of this row has, at most {self.max_rows}",
        )


class SurveyWeight(BaseModel):
    """What each row counts: its survey weight, clipped to a public bound.

    Args:
        column: of the source, that has the weights. A row without a number there counts 0.
        bound: the largest weight that counts. Public knowledge, or bought.
        mean: a public mean of the weights, for forecasts.
        keep: whether synthetic rows have a column of this name: how many each stands for.
        format, also, below, above: how the weights are spelt, as in a numeric column.
        missing_tokens: weights that mean a missing one, such as ``9999``; they count 0.

    Example:
        >>> SurveyWeight(column="PWGTP", bound=500).text
        "it counts with its survey weight (column 'PWGTP'), at most 500"
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    column: str = Field(min_length=1)
    bound: float = Field(gt=0, le=1e12, allow_inf_nan=False)
    mean: float | None = Field(default=None, gt=0)
    keep: bool = False
    format: NumberFormat | None = None
    also: tuple[OtherFormat, ...] = ()
    below: float | None = None
    above: float | None = None
    missing_tokens: tuple[Scalar, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        assert self.number
        return self

    @cached_property
    def number(self) -> ContinuousColumn:
        """The weights as a column of numbers, beyond the bound where a limit may be above it."""
        upper = self.bound + (self.above or 0)
        known = self.model_dump(include=SPELT)
        return ContinuousColumn(name=self.column, lower=0, upper=upper, **known)

    @property
    def text(self) -> str:
        """What statements say of a protected row."""
        return f"it counts with its survey weight (column {self.column!r}), at most {self.bound:g}"


def persons_columns(names: Iterable[str]) -> list[str]:
    """The names that look like those of a column that identifies persons.

    Example:
        >>> persons_columns(["age", "patient_id", "zip"])
        ['patient_id']
    """
    return [name for name in names if _PERSON.match(name.strip())]


def rows_for(frame: pd.DataFrame, unit: Unit, persons: float) -> int:
    """How many rows so many persons have, by rows that were drawn person by person."""
    if unit.max_rows == 1:
        return _whole(persons)
    return _whole(persons * float(frame[unit.count].astype("float64").mean()))


def draw_rows(
    draw: Callable[[int], pd.DataFrame], unit: Unit, rows: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Rows of a table, from a model that draws a person and then one of the person's rows."""
    if unit.max_rows == 1:
        return draw(rows)
    kept = []
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
