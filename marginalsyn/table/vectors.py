"""The one map from rows to vectors: what every column adds, of which all others are views.

A column on a scale adds its place there, in [0, 1], and a mark for each code off the scale (OTHER,
missing); any other column adds a mark for each of its codes. The views differ in which columns lie
on a scale, and in what they make of places and marks:

* scaled features (``design``) put numbers on a scale, in [-1, 1];
* features (``features``) and the networks' heads put columns of long order there, centred;
* points (``points``) put every order there, and keep marks as codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from marginalsyn.table.schema import AnyColumn

# Where unit coordinates put missing numbers: no number is there.
ABSENT = -1.0


class Parts(NamedTuple):
    """A column's entries: places on its scale, if it has one, and which mark each of them has.

    On a scale 0 is no mark, and the place of an entry that has one means nothing.
    """

    place: np.ndarray | None
    choice: np.ndarray

    def placed(self, slope: float, shift: float, off: float = 0.0) -> np.ndarray:
        """``slope * place + shift``, and ``off`` off the scale."""
        assert self.place is not None
        return np.where(self.choice > 0, off, slope * self.place + shift)


class Slots(NamedTuple):
    """What a column adds to a vector: a place for its first ``scale`` codes, and marks.

    Example:
        >>> Slots(3, 1).read(np.array([0, 1, 3])).placed(2.0, -1.0).tolist()
        [-1.0, 0.0, 0.0]
    """

    scale: int
    marks: int

    @classmethod
    def of(cls, column: AnyColumn, *, scaled: bool, ends: bool = False) -> Slots:
        """The slots of a column on a scale or not.

        Args:
            column: of the schema.
            scaled: whether its levels lie on a scale.
            ends: whether two codes are the ends of a scale otherwise, and a single one is nothing.
        """
        if scaled:
            return cls(column.levels, column.size - column.levels)
        if ends and column.size <= 2:
            return cls(2, 0) if column.size == 2 else cls(0, 0)
        return cls(0, column.size)

    @property
    def width(self) -> int:
        """Entries of a vector, with one for each mark."""
        return (self.scale > 0) + self.marks

    def read(self, values: np.ndarray, *, numbers: bool = False) -> Parts:
        """Places and marks of codes, or of unit coordinates where these are ``numbers``."""
        if not self.scale:
            return Parts(None, values)
        if numbers:
            # As in the codec: what is missing where nothing may be is the lower bound.
            return Parts(np.clip(values, 0.0, 1.0), (values == ABSENT) & (self.marks > 0))
        return Parts(values / max(self.scale - 1, 1), np.maximum(values - (self.scale - 1), 0))

    def indicators(self, parts: Parts) -> np.ndarray:
        """Boolean rows by marks."""
        return parts.choice[:, None] == np.arange(self.marks) + (self.scale > 0)


def has_long_order(column: AnyColumn) -> bool:
    """Whether a column's levels lie in an order of more than two."""
    return column.ordered and column.levels > 2


def scaled_slots(column: AnyColumn) -> Slots:
    """Numbers, and columns of two values, on a scale."""
    return Slots.of(column, scaled=column.numeric, ends=True)


def numbers_of(column: AnyColumn, units: np.ndarray) -> np.ndarray:
    """The numbers, whole ones where the column's are, that unit coordinates stand for."""
    low, high = column.lower, column.upper  # type: ignore[union-attr]
    numbers = low + np.clip(units, 0, 1) * (high - low)
    return np.rint(numbers) if column.whole else numbers  # type: ignore[union-attr]
