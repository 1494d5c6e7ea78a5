"""What a promise protects: a person who may have several rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from marginalsyn.table.columns import Scalar
from marginalsyn.table.numeric import IntegerColumn
from marginalsyn.table.wording import NumberFormat

MOST_ROWS = 1000
# Every number of rows up to here has a bin of its own; larger ones share bins that grow by a third.
ALONE = 16
ROW = "row"
"""What ``--unit`` says where rows are meant, not persons."""

PEOPLE = (
    "patient|person|people|customer|client|member|user|subject|student|pupil|employee|citizen|"
    "household|family|account|insured|policyholder|tenant|voter|participant|respondent|donor"
)
_ENDS = "id|ids|no|nr|num|number|key|code|uid|uuid"
_PERSON = re.compile(
    rf"^(({PEOPLE})s?[ _.-]?({_ENDS})|({_ENDS})[ _.-]?({PEOPLE})|pid|uid|ssn|mrn)$",
    re.IGNORECASE,
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
        format: how the weights are spelt, as in a numeric column.
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
    missing_tokens: tuple[Scalar, ...] = ()

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
