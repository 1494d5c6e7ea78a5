"""The metric on rows: the coordinates of a table's columns, and the distance between them.

Every distance is an l_p norm with 1 < p <= 2, taken after public maps of single rows:

* an integer or continuous column is scaled by its public bounds to [0, 1];
* an ordinal column is its rank, scaled to [0, 1];
* a categorical or boolean column is a one-hot vector scaled so that two different categories have
  distance 1;
* a missing (or, for ordinals, "other") entry sits at 1/2 and carries a one-hot flag of weight
  ``1 - 2**-p``, so that it is never more than 1 away from a present one.

Each column therefore adds at most 1 to ``dist**p`` and the diameter is ``columns ** (1 / p)``,
whatever the data. One-hot vectors are never built for a distance: two of them differ by their
weight if the codes differ, and by 0 if not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from marginalsyn.errors import UsageError
from marginalsyn.table import decoding
from marginalsyn.table.columns import ListedColumn
from marginalsyn.table.design import ABSENT, Slots

if TYPE_CHECKING:
    from marginalsyn.access.visit import Visit
    from marginalsyn.table.schema import AnyColumn, Schema


class PointSpace(NamedTuple):
    """Coordinates of points: ``numeric`` ones in [0, 1] first, then codes of categories.

    The first three fields are the metric: ``weights[c]`` is what two different codes of the c-th
    categorical coordinate add to ``dist ** p``. ``sizes[c]`` is its number of codes, and
    ``links[c]`` the numeric coordinate that sits at 1/2 unless code c is 0 ("present"), or -1.

    Example:
        >>> PointSpace.cube(2).p
        2.0
    """

    numeric: int
    weights: np.ndarray
    p: float
    sizes: np.ndarray
    links: np.ndarray

    @classmethod
    def cube(cls, dimension: int, p: float = 2.0) -> PointSpace:
        """The unit cube with the norm ``p``."""
        none = np.zeros(0, dtype=np.int64)
        return cls(dimension, np.zeros(0), check_norm(p), none, none)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.numeric + len(self.weights)

    @property
    def columns(self) -> int:
        """Number of columns; each adds at most 1 to ``dist ** p``."""
        return self.numeric + int(np.sum(self.links < 0))

    @property
    def diameter(self) -> float:
        """The largest distance between any two points."""
        return self.columns ** (1.0 / self.p)

    def uniform(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Points drawn from the uniform law: every code of a category is equally likely."""
        points = rng.random((count, self.dimension))
        for c, (size, link) in enumerate(zip(self.sizes, self.links, strict=True)):
            codes = rng.integers(0, size, count)
            points[:, self.numeric + c] = codes
            if link >= 0:
                points[codes > 0, link] = 0.5
        return points


Batch = np.ndarray | tuple[np.ndarray, np.ndarray]
"""Points of which each counts one, or points with a whole weight, int64, for each."""


def weights_of(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """The points of a batch, and what each weighs.

    Example:
        >>> weights_of(np.zeros((2, 1)))[1].tolist()
        [1, 1]
    """
    if isinstance(batch, tuple):
        return batch
    return batch, np.ones(len(batch), dtype=np.int64)


def as_whole(weights: np.ndarray, whole: int) -> np.ndarray:
    """Weights in persons as whole numbers: exact, since they are multiples of a power of two."""
    return np.rint(weights * whole).astype(np.int64)


def check_norm(p: float) -> float:
    """Refuse norms for which the energy is blind to dependence (1) or may be negative (above 2)."""
    if not 1.0 < p <= 2.0:
        raise UsageError(
            f"p ({p}) must be above 1 and at most 2: at 1 the energy distance cannot see how "
            "columns depend on each other, above 2 it can be negative; 2 is the usual choice"
        )
    return float(p)


class Place(NamedTuple):
    """Where a column's coordinates are: its position on a scale, its code, or both; or None."""

    scale: int | None
    code: int | None


@dataclass(frozen=True)
class Metric:
    """The coordinates of a schema's columns: rows to points and back, and the norm's p.

    Example:
        >>> from marginalsyn.table.schema import Schema
        >>> Metric(Schema.from_domain({"a": 3})).space.diameter
        1.0
    """

    schema: Schema
    p: float = 2.0

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """One per column, in schema order."""
        scales, codes, places = 0, 0, []
        for column in self.schema.columns:
            scaled, coded = (count > 0 for count in _slots(column))
            places.append(Place(scales if scaled else None, codes if coded else None))
            scales, codes = scales + scaled, codes + coded
        return tuple(places)

    @cached_property
    def space(self) -> PointSpace:
        """The coordinates as the compiled kernels take them."""
        weights, sizes, links = [], [], []
        p = check_norm(self.p)
        for column, place in zip(self.schema.columns, self.places, strict=True):
            if place.code is not None:
                flagged = place.scale is not None
                weights.append(1.0 - 2.0**-p if flagged else 1.0)
                sizes.append(flagged + _slots(column).marks)
                links.append(-1 if place.scale is None else place.scale)
        return PointSpace(
            sum(place.scale is not None for place in self.places),
            np.array(weights, dtype=float),
            p,
            np.array(sizes, dtype=np.int64),
            np.array(links, dtype=np.int64),
        )

    def batches(self, visit: Visit) -> Iterator[np.ndarray]:
        """The private rows as points, a batch at a time."""
        for rows in visit.batches(units=True, absent=ABSENT):
            yield self.points(rows.values)

    def weighed(self, visit: Visit) -> Iterator[Batch]:
        """The same, with the whole weights of rows where persons are counted: ``visit.whole`` each.

        The weights of a person's rows add up to that exactly, so their sum of any vectors is that
        many times an average of them, and moves by no more than the vector of one row could.
        """
        for units, weights, _ in visit.batches(units=True, absent=ABSENT, weighted=True):
            found = self.points(units)
            yield found if weights is None else (found, as_whole(weights, visit.whole))

    def points(self, units: np.ndarray) -> np.ndarray:
        """Points of unit coordinates, in which missing numbers are negative."""
        space = self.space
        points = np.zeros((len(units), space.dimension))
        for column, place, values in zip(self.schema.columns, self.places, units.T, strict=True):
            parts = _slots(column).read(values, numbers=column.numeric)
            if place.scale is not None:
                points[:, place.scale] = parts.placed(1.0, 0.0, off=0.5)
            if place.code is not None:
                points[:, space.numeric + place.code] = parts.choice
        return points

    def codes(self, points: np.ndarray) -> np.ndarray:
        """The schema's codes of points, int32."""
        codes = np.empty((len(points), len(self.places)), dtype=np.int32)
        for position, column in enumerate(self.schema.columns):
            level, flag = self._parts(points, position)
            if isinstance(column, ListedColumn):
                codes[:, position] = level
            else:
                numbers = decoding.settle(column, decoding.numbers_of(column, level))
                bins = column.bins_of(numbers)
                codes[:, position] = np.where(flag > 0, column.size - 1, bins)
        return codes

    def frame(self, points: np.ndarray) -> pd.DataFrame:
        """Rows for points: the nearest value of a number, the category of a code."""
        columns = []
        for position, column in enumerate(self.schema.columns):
            level, flag = self._parts(points, position)
            if isinstance(column, ListedColumn):
                columns.append(decoding.listed(column, level.astype(np.int64)))
            else:
                numbers = decoding.settle(column, decoding.numbers_of(column, level))
                columns.append(decoding.finish(column, numbers, flag > 0))
        return pd.DataFrame({series.name: series for series in columns}, copy=False)

    def _parts(self, points: np.ndarray, position: int) -> tuple[np.ndarray, np.ndarray]:
        """A column's level (its unit coordinate if numeric, else its code) and its flag."""
        column, place = self.schema.columns[position], self.places[position]
        none = np.zeros(len(points))
        flag = none if place.code is None else points[:, self.space.numeric + place.code]
        if place.scale is None:
            return flag, none
        level = points[:, place.scale]
        if not column.numeric:
            level = np.where(
                flag > 0, column.levels - 1 + flag, np.rint(level * (column.levels - 1))
            )
        return level, flag


def _slots(column: AnyColumn) -> Slots:
    """Every order on a scale; a single code, were it OTHER, needs no coordinate but its 0."""
    return Slots(1, 0) if column.size == 1 else Slots.of(column, scaled=column.ordered)
