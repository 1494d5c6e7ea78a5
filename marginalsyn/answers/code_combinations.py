"""The combinations of codes that a quantity is computed on, with the model's share of each.

Where there are few enough, they are all combinations, and nothing is drawn. Otherwise they are rows
drawn from the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.table.numeric import IntegerColumn, NumberColumn, Shape
from marginalsyn.table.schema import Schema

# More combinations than this are represented by as many rows.
MOST_CELLS = 200_000
ROWS = 100_000


@dataclass(frozen=True)
class CodeCombinations:
    """Combinations of codes of some columns.

    Attributes:
        columns: their names.
        codes: one row per combination.
        frame: a value for each code: numbers are the middle of their bin.
        shape: of the grid of all combinations; None for rows that were drawn.
        cut: the conditions on rows that a question had, by what they are, if bins are cut by them;
            what stands here in place of one is taken for it.
    """

    columns: tuple[str, ...]
    codes: np.ndarray
    frame: pd.DataFrame
    shape: tuple[int, ...] | None
    cut: dict[tuple[str, bytes], Any] = field(default_factory=dict, repr=False)

    @classmethod
    def grid(cls, schema: Schema, columns: Sequence[str]) -> CodeCombinations:
        """All combinations."""
        shape = tuple(schema.column(c).size for c in columns)
        codes = np.indices(shape, dtype=np.int32).reshape(len(shape), -1).T
        return cls(tuple(columns), codes, as_values(schema, columns, codes), shape)

    @classmethod
    def of_rows(
        cls, frame: pd.DataFrame, codes: np.ndarray, schema: Schema, columns: Sequence[str]
    ) -> CodeCombinations:
        """Rows of a table, with their own values."""
        codes = codes[:, [schema.names.index(c) for c in columns]]
        return cls(tuple(columns), codes, as_values(schema, columns, codes, frame), None)

    def only(self, columns: Sequence[str]) -> CodeCombinations:
        """The same combinations, seen by some of their columns."""
        if tuple(columns) == self.columns:
            return self
        places = [self.columns.index(c) for c in columns]
        frame = self.frame[list(columns)]
        return CodeCombinations(tuple(columns), self.codes[:, places], frame, self.shape, self.cut)

    def with_followers(self, schema: Schema, names: Sequence[str]) -> CodeCombinations:
        """The same combinations, with columns that follow from those that they have."""
        sources = [schema.followers[name] for name in names]
        more = [mapping[self.codes[:, self.columns.index(name)]] for name, mapping in sources]
        if not more:
            return self
        found = np.column_stack(more)
        return replace(
            self,
            columns=(*self.columns, *names),
            codes=np.hstack([self.codes, found]),
            frame=pd.concat([self.frame, as_values(schema, names, found)], axis=1),
        )


def as_values(
    schema: Schema, columns: Sequence[str], codes: np.ndarray, rows: pd.DataFrame | None = None
) -> pd.DataFrame:
    """A value for each code: a category with all its levels, a number's own or its bin's middle."""
    found = {}
    for name, own in zip(columns, codes.T, strict=True):
        column = schema.column(name)
        if isinstance(column, NumberColumn):
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


# Inside a bin the density is taken to lie within this factor of the bin's own, and within that of a
# neighbour that differs more; beyond the second factor the bin may be a single value.
_EVEN, _LUMP = 2.0, 4.0
# A bought shape may miss so many deviations of its noise of a bin's rows: they may lie anywhere.
_MISSED = 4.0


@dataclass(frozen=True)
class Bins:
    """What bins hide of a numeric column: the place of every value inside its bin.

    Attributes:
        shares: of each bin among values that are there, and 0 for a missing one.
        room: how far the mean of each bin's values may lie below and above the number that it
            counts as, a row each, and a missing value.
        factor: by how much the density inside each bin may differ from the bin's own.
    """

    shares: np.ndarray
    room: np.ndarray
    factor: np.ndarray

    @classmethod
    def of(cls, column: NumberColumn, shares: np.ndarray, noise: Sequence[float]) -> Bins:
        """The bins of a column, by the shares of its codes; ``noise`` is that of a bought shape."""
        shares = shares[: column.levels] / max(float(shares[: column.levels].sum()), 1e-12)
        middle, (least, most) = bin_middles(column), column.bin_extremes()
        room = np.maximum([middle - least, most - middle], 0.0)
        if noise:
            first, last, fraction, owner = _pieces(column)
            pieces = np.bincount(owner, fraction * (last - first), minlength=column.levels)
            upto = np.append(0.0, np.cumsum(column.shape.weights))
            rows = np.diff(np.interp(column.edges, column.shape.edges, upto))
            missed = np.minimum(_MISSED * noise[-1] / np.maximum(rows, 1e-12), 1.0)
            room = np.minimum(room, pieces / 2 + missed * room)
        density = np.maximum(shares / np.diff(column.edges), 1e-12 / np.ptp(column.edges))
        step = np.exp(np.abs(np.diff(np.log(density))))
        factor = np.maximum(np.maximum(np.append(step, 1.0), np.append(1.0, step)), _EVEN)
        factor[factor > _LUMP] = np.inf
        return cls(np.append(shares, 0.0), np.pad(room, ((0, 0), (0, 1))), factor)

    @property
    def usual(self) -> np.ndarray:
        """How far the mean of each bin's values may lie below and above, by the density."""
        with np.errstate(invalid="ignore"):
            part = (self.factor - 1) / (self.factor + 1)
        return self.room * np.append(np.where(np.isinf(self.factor), 1.0, part), 0.0)


def inside(part: np.ndarray, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest share of a bin's values in a part of its width.

    Example:
        >>> [float(end) for end in inside(np.array(0.5), np.array(4.0))]
        [0.125, 0.875]
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        # Infinite times nothing: an empty part may be empty, and a whole one is whole.
        few, many = np.nan_to_num(part * factor), np.nan_to_num((1 - part) * factor)
        low, high = np.maximum(part / factor, 1 - many), np.minimum(few, 1 - (1 - part) / factor)
    return np.asarray(low), np.asarray(high)


def bin_middles(column: NumberColumn) -> np.ndarray:
    """The mean of each bin's values, by the column's shape if it has one."""
    first, last, fraction, owner = _pieces(column)
    return np.bincount(owner, fraction * (first + last) / 2, minlength=column.levels)


def _pieces(column: NumberColumn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """By piece of the bins: its first and last value, its share of its bin, and which bin it is."""
    edges = column.edges
    step = isinstance(column, IntegerColumn)
    if not isinstance(column.shape, Shape):
        levels = column.levels
        return edges[:-1], edges[1:] - step, np.ones(levels), np.arange(levels)
    cut, fraction, owner = column.shape.cut(edges)
    return cut[:-1], np.maximum(cut[1:] - step, cut[:-1]), fraction, owner
