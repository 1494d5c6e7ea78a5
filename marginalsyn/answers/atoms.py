"""The combinations of codes that a quantity is computed on, with the model's share of each.

Where there are few enough, they are all combinations, and nothing is drawn. Otherwise they are rows
drawn from the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from marginalsyn.answers.evidence import Evidence
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn

if TYPE_CHECKING:
    from marginalsyn.answers.fields import FieldEvidence
    from marginalsyn.table.schema import Schema

# More combinations than this are represented by as many rows.
MOST_CELLS = 200_000
ROWS = 100_000


@dataclass(frozen=True)
class Atoms:
    """Combinations of codes of some columns.

    Attributes:
        columns: their names.
        codes: one row per combination.
        frame: a value for each code: numbers are the middle of their bin.
        shape: of the grid of all combinations; None for rows that were drawn.
    """

    columns: tuple[str, ...]
    codes: np.ndarray
    frame: pd.DataFrame
    shape: tuple[int, ...] | None

    @classmethod
    def of(cls, evidence: Evidence, columns: Sequence[str], rng: np.random.Generator) -> Atoms:
        """All combinations, or rows drawn from the model."""
        schema = evidence.schema
        if math.prod(schema.column(c).size for c in columns) <= MOST_CELLS:
            return cls.grid(schema, columns)
        merged = evidence.fitted.rows(ROWS, rng)
        codes = evidence.compression.refine(merged, rng)
        codes = codes[:, [schema.names.index(c) for c in columns]]
        return cls(tuple(columns), codes, as_values(schema, columns, codes), None)

    @classmethod
    def grid(cls, schema: Schema, columns: Sequence[str]) -> Atoms:
        """All combinations."""
        shape = tuple(schema.column(c).size for c in columns)
        codes = np.indices(shape, dtype=np.int32).reshape(len(shape), -1).T
        return cls(tuple(columns), codes, as_values(schema, columns, codes), shape)

    @classmethod
    def of_rows(
        cls, frame: pd.DataFrame, codes: np.ndarray, schema: Schema, columns: Sequence[str]
    ) -> Atoms:
        """Rows of a table, with their own values."""
        codes = codes[:, [schema.names.index(c) for c in columns]]
        return cls(tuple(columns), codes, as_values(schema, columns, codes, frame), None)

    def only(self, columns: Sequence[str]) -> Atoms:
        """The same combinations, seen by some of their columns."""
        if tuple(columns) == self.columns:
            return self
        places = [self.columns.index(c) for c in columns]
        frame = self.frame[list(columns)]
        return Atoms(tuple(columns), self.codes[:, places], frame, self.shape)

    def weights(self, evidence: Evidence) -> np.ndarray:
        """The share of every combination."""
        if self.shape is None:
            return np.full(len(self.codes), 1.0 / len(self.codes))
        return evidence.shares(self.columns).ravel()


def as_values(
    schema: Schema, columns: Sequence[str], codes: np.ndarray, rows: pd.DataFrame | None = None
) -> pd.DataFrame:
    """A value for each code: a category with all its levels, a number's own or its bin's middle."""
    found: dict[str, pd.Series] = {}
    for name, own in zip(columns, codes.T, strict=True):
        column = schema.column(name)
        if isinstance(column, IntegerColumn | ContinuousColumn):
            middles = np.append(bin_middles(column), np.nan)
            numbers = middles[np.minimum(own, column.levels)]
            found[name] = pd.Series(
                numbers if rows is None else rows[name].to_numpy(float, na_value=np.nan)
            )
        else:
            levels = column.labels()[: column.size - column.nullable]
            places = np.where(own < len(levels), own, -1)
            found[name] = pd.Series(pd.Categorical.from_codes(places, categories=pd.Index(levels)))
    return pd.DataFrame(found)


def bin_middles(column: IntegerColumn | ContinuousColumn) -> np.ndarray:
    """The mean of each bin's values."""
    edges = column.edges
    last = edges[1:] - 1 if isinstance(column, IntegerColumn) else edges[1:]
    return (edges[:-1] + last) / 2


def table_rows(evidence: Evidence | FieldEvidence) -> float:
    """The estimated number of the private table's rows, where persons were counted, too."""
    if evidence.counted is None or not isinstance(evidence, Evidence):
        return evidence.total[0]
    column = evidence.schema.column(evidence.counted)
    assert isinstance(column, IntegerColumn | ContinuousColumn)
    shares = evidence.shares((evidence.counted,))[: column.levels]
    return evidence.total[0] * float(shares @ bin_middles(column))
