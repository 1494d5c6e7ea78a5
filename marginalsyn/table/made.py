"""Columns of a release that depend on no row: new identifiers, and constants."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, model_validator

from marginalsyn.table.columns import Scalar
from marginalsyn.validation import shown

if TYPE_CHECKING:
    from marginalsyn.table.schema import Schema

PLACEHOLDER = re.compile(r"\{(n(:0?[1-9][0-9]?)?|uuid)\}")
# Every release of a table has the same ones: they are numbers of rows and nothing else.
SPACE = uuid.UUID("5f0c1e0e-6a55-5b5f-9f43-6d617267696e")


class _MadeColumn(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    description: str = ""
    # The place among all columns of a release; a schema file shows it by its order.
    position: int = Field(default=10**6, ge=0)

    def values(self, rows: int, first: int = 1) -> list[Any]:
        """One value a row, for rows with the numbers from ``first`` on."""
        raise TypeError(f"{type(self).__name__} must say its values")


class IdentifierColumn(_MadeColumn):
    """New identifiers for every release: a number of the row, or a UUID.

    ``pattern`` has ``{n}`` (1, 2, 3), ``{n:06}`` (padded with zeros) or ``{uuid}`` in it.

    Example:
        >>> IdentifierColumn(name="id", pattern="P{n:04}").values(2)
        ['P0001', 'P0002']
    """

    kind: Literal["identifier"] = "identifier"
    pattern: str = "{n}"

    def values(self, rows: int, first: int = 1) -> list[Any]:
        numbers = range(first, first + rows)
        return [*numbers] if self.pattern == "{n}" else [self._one(number) for number in numbers]

    def _one(self, number: int) -> str:
        def fill(found: re.Match[str]) -> str:
            if found[1] == "uuid":
                return str(uuid.uuid5(SPACE, f"{self.name}/{number}"))
            return f"{number:{(found[2] or ':')[1:]}}"

        return PLACEHOLDER.sub(fill, self.pattern)

    @model_validator(mode="after")
    def _check(self) -> IdentifierColumn:
        if len(PLACEHOLDER.findall(self.pattern)) != 1 or re.search(
            "[{}]", PLACEHOLDER.sub("", self.pattern)
        ):
            raise ValueError(
                f"pattern ({shown(self.pattern)}) must have one of {{n}}, {{n:06}} or {{uuid}} in "
                "it, as in 'P{n:06}'"
            )
        return self


class ConstantColumn(_MadeColumn):
    """The same value in every row; an empty one by default. For free text, for instance.

    Example:
        >>> ConstantColumn(name="note", value="(removed)").values(2)
        ['(removed)', '(removed)']
    """

    kind: Literal["constant"] = "constant"
    value: Scalar | None = None

    def values(self, rows: int, first: int = 1) -> list[Any]:
        return [self.value] * rows


class StandingColumn(_MadeColumn):
    """How many of a population each row stands for: a total, shared by all rows alike.

    Example:
        >>> StandingColumn(name="weight", total=300).values(2)
        [150.0, 150.0]
    """

    kind: Literal["standing"] = "standing"
    total: float = Field(gt=0, allow_inf_nan=False)

    def values(self, rows: int, first: int = 1) -> list[Any]:
        return [round(self.total / max(rows, 1), 6)] * rows


MadeColumn = Annotated[
    IdentifierColumn | ConstantColumn | StandingColumn, Field(discriminator="kind")
]
KINDS = ("identifier", "constant", "standing")


def complete(
    frame: pd.DataFrame, schema: Schema, first: int = 1, part: bool = False
) -> pd.DataFrame:
    """The rows with the schema's made columns among them, as a release's file has them.

    ``first`` is the number of the first row. The rows of a ``part`` of the population, as a
    condition gives them, do not share its total, and have no such column.
    """
    if not schema.made:
        return frame
    made = {
        column.name: pd.Series(column.values(len(frame), first), index=frame.index, dtype=None)
        for column in schema.made
        if not (part and isinstance(column, StandingColumn))
    }
    every = {**frame, **made}
    return pd.DataFrame({n: every[n] for n in schema.layout if n in every}, copy=False)
