"""A public map from rows to bounded vectors, for classifiers of real against synthetic rows.

Every bound here is a fact about the schema. Vectors are made of codes, not of values: inside a bin
a generator draws uniformly, so that a classifier who saw values would learn how numbers were drawn
(a real 0 against 0.37) and give all weight to the few rows that look right. Columns are centred at
public points: that leaves every log-odds as it was up to its constant, and halves the norm of a
number's feature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from marginalsyn.errors import UsageError
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.table.codec import Codec
from marginalsyn.table.design import Slots, has_long_order

if TYPE_CHECKING:
    from marginalsyn.access.private_table import Unprotected
    from marginalsyn.access.visit import Visit
    from marginalsyn.table.schema import AnyColumn, Schema

MOST_FEATURES = 3000
_CHUNK = 2**22


@dataclass(frozen=True)
class Features:
    """The features of a schema's columns, with bounds on the length of a vector and on distances.

    A column with an order (numbers, ordinal) becomes the position of its code, from -1/2 at the
    first bin to 1/2 at the last; where it is OTHER or missing it becomes 0 and sets an indicator
    to 1/2. A column of two values becomes -1/2 or 1/2, a column of k values k indicators less 1/k
    each. ``crosses`` adds the products of two columns' features. The constant 1 comes last.

    Args:
        schema: the public description of the rows.
        crosses: what to cross: ``label`` (the label with every other column), ``all``, or pairs
            such as ``age:sex``, with commas between them.

    Example:
        >>> from marginalsyn.table.schema import Schema
        >>> features = Features(Schema.from_domain({"a": 2}))
        >>> next(iter(FeatureRows(features, np.array([[0], [1]])))).tolist()
        [[-0.5, 1.0], [0.5, 1.0]]
    """

    schema: Schema
    crosses: str = "none"

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The positions of the crossed columns."""
        names, found = self.schema.names, []
        for word in split_crosses(self.crosses):
            if word == "all":
                found += [(a, b) for b in range(len(names)) for a in range(b)]
            elif word == "label":
                label = [names.index(self.schema.label)] if self.schema.label else []
                found += [(a, b) for b in label for a in range(len(names)) if a != b]
            else:
                columns = [self.schema.column(part.strip()).name for part in word.split(":")]
                if columns[0] == columns[1]:
                    raise UsageError(f"crosses ({word}) must name two different columns")
                found.append((names.index(columns[0]), names.index(columns[1])))
        return tuple(dict.fromkeys((min(pair), max(pair)) for pair in found))

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """The number of features of each column on its own."""
        return tuple(_slots(column).width for column in self.schema.columns)

    @cached_property
    def count(self) -> int:
        """The number of features, the constant included, however many they are."""
        crossed = sum(self.widths[a] * self.widths[b] for a, b in self.pairs)
        return sum(self.widths) + crossed + 1

    @property
    def width(self) -> int:
        """The number of features; UsageError where there are too many."""
        if self.count > MOST_FEATURES:
            raise UsageError(
                f"features ({self.count:,}) must be at most {MOST_FEATURES:,}: cross fewer "
                "columns, or give columns fewer categories"
            )
        return self.count

    @cached_property
    def radius(self) -> float:
        """The length of the longest possible vector, the constant included."""
        return math.sqrt(1.0 + sum(radius for radius, _ in self._spans))

    @cached_property
    def diameter(self) -> float:
        """The largest distance between two vectors."""
        return math.sqrt(sum(distance for _, distance in self._spans))

    def reach(self, neighbours: Neighbours) -> float:
        """How much one person can change a sum of s_i x_i over the rows, for any s_i in [0, 1].

        Add-remove: ||s x|| <= radius. Replace: ||s x - s' x'|| is convex in (s, s'), hence largest
        at a corner of the square: radius or diameter.
        """
        if neighbours is Neighbours.ADD_REMOVE:
            return self.radius
        return max(self.radius, self.diameter)

    def of_codes(self, codes: np.ndarray) -> np.ndarray:
        """Feature vectors of codes, one row each."""
        blocks = list(starmap(_block, zip(self.schema.columns, codes.T, strict=True)))
        crossed = [
            (blocks[a][:, :, None] * blocks[b][:, None, :]).reshape(
                len(codes), self.widths[a] * self.widths[b]
            )
            for a, b in self.pairs
        ]
        return np.hstack([*blocks, *crossed, np.ones((len(codes), 1))])

    def private_rows(self, rows: Visit | Unprotected) -> FeatureRows:
        """The vectors of private rows; where persons are counted, with what each row weighs."""
        return FeatureRows(self, *weighted_codes(rows))

    def codes_of(self, rows: Visit | Unprotected | pd.DataFrame) -> np.ndarray:
        """Codes of private rows or of a frame."""
        if isinstance(rows, pd.DataFrame):
            return Codec(self.schema).encode(rows)
        return rows.all_rows().values

    @cached_property
    def _spans(self) -> tuple[tuple[float, float], ...]:
        """Squared length and squared distance, at most, of every column's and cross's features."""
        single = [_span(column) for column in self.schema.columns]
        crossed = [
            (single[a][0] * single[b][0], 4 * single[a][0] * single[b][0]) for a, b in self.pairs
        ]
        return (*single, *crossed)


class FeatureRows:
    """Feature vectors a chunk at a time; kept in memory when they are few."""

    def __init__(
        self, features: Features, codes: np.ndarray, masses: np.ndarray | None = None
    ) -> None:
        self.width = features.width
        self.rows = len(codes)
        self._features, self._codes, self._masses = features, codes, masses
        self._step = max(1, _CHUNK // self.width)
        self._kept: np.ndarray | None = None
        if len(codes) <= self._step:
            self._kept = features.of_codes(codes)

    def __iter__(self) -> Iterator[np.ndarray]:
        if self._kept is not None:
            yield self._kept
            return
        for start in range(0, self.rows, self._step):
            yield self._features.of_codes(self._codes[start : start + self._step])

    def weighted(self) -> Iterator[tuple[np.ndarray, float | np.ndarray]]:
        """The chunks, with what their rows count."""
        start = 0
        for x in self:
            yield x, 1.0 if self._masses is None else self._masses[start : start + len(x)]
            start += len(x)

    @property
    def mass(self) -> float:
        """What all rows count together."""
        return float(self.rows if self._masses is None else self._masses.sum())

    @cached_property
    def mean(self) -> np.ndarray:
        """The mean vector."""
        total = np.zeros(self.width)
        for x, masses in self.weighted():
            total += x.sum(axis=0) if self._masses is None else masses @ x
        return total / max(self.mass, 1e-300)

    @cached_property
    def covariance(self) -> np.ndarray:
        """The covariance matrix."""
        square = np.zeros((self.width, self.width))
        for x, masses in self.weighted():
            centred = x - self.mean
            square += (centred.T if self._masses is None else centred.T * masses) @ centred
        return square / max(self.mass, 1e-300)

    @cached_property
    def variances(self) -> np.ndarray:
        """Eigenvalues of the covariance, increasing."""
        return np.maximum(np.linalg.eigvalsh(self.covariance), 0.0)

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """One number per row, from a function of chunks of vectors."""
        return np.concatenate([np.empty(0), *(function(chunk) for chunk in self)])


def weighted_codes(rows: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Codes of private rows, and what each weighs where persons are counted."""
    found = rows.all_rows(weighted=True)
    return found.values, found.weights


def split_crosses(text: str) -> list[str]:
    """The words of ``"label, age:sex"``; UsageError where one is neither a name nor a pair."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        parts = [part.strip() for part in word.split(":")]
        if word not in ("all", "label", "none") and (len(parts) != 2 or not all(parts)):
            raise UsageError(
                f"crosses ({text}) must be 'label', 'all', 'none', or pairs of columns such as "
                "'age:sex,age:income'"
            )
    return [word for word in words if word != "none"]


def _slots(column: AnyColumn) -> Slots:
    return Slots.of(column, scaled=has_long_order(column), ends=True)


def _span(column: AnyColumn) -> tuple[float, float]:
    """The squared length of a column's longest features, and their largest squared distance."""
    if _slots(column).scale:
        return 0.25, 1.0
    return 1.0 - 1.0 / column.size, 2.0 * (column.size > 1)


def _block(column: AnyColumn, codes: np.ndarray) -> np.ndarray:
    slots = _slots(column)
    parts = slots.read(codes)
    if not slots.scale:
        return slots.indicators(parts) - 1.0 / column.size
    return np.column_stack([parts.placed(1.0, -0.5), 0.5 * slots.indicators(parts)])
