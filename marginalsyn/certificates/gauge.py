"""Losses of linear models, and the public set of models that a measured certificate compares with.

Rows are feature vectors x of Euclidean length at most 1: those of a :class:`Frame` over its norm. A
model w is as far from the given one w_s as their predictions differ on the worst row that the
schema allows: max |x.(w - w_s)|. For each column the worst row holds one of finitely many ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from marginalsyn.certificates.moments import GRID, Frame
from marginalsyn.errors import UsageError
from marginalsyn.table.schema import Schema
from marginalsyn.table.vectors import ABSENT, scaled_slots


@dataclass(frozen=True)
class Problem:
    """What models predict from what: logistic regression, or least squares for a number.

    Example:
        >>> problem = Problem.of(Schema.from_domain({"a": 3, "y": 2}), "y")
        >>> problem.squared, problem.width
        (False, 2)
    """

    frame: Frame
    squared: bool

    @classmethod
    def of(cls, schema: Schema, label: str | None = None) -> Problem:
        """Least squares where the label is a number, logistic regression where it has two values.

        Where a column of more values has a positive one, that is told from all others.
        """
        name = label or schema.label
        column = schema.column(name) if name is not None else None
        if column is None or not column.numeric or column.levels == 2:
            return cls(Frame.of(schema, label), False)
        if column.name == schema.label and schema.positive_code is not None:
            return cls(Frame.of(schema, label), False)
        if column.levels < 2:
            raise UsageError(f"label ({name}) must have more than one value")
        return cls(Frame.numeric(schema, column.name), True)

    @property
    def width(self) -> int:
        return self.frame.width

    @property
    def every_row_counts(self) -> bool:
        """Whether no row is without a label, so that the number of labelled rows is that of all."""
        column = self.frame.schema.column(self.frame.label)
        if self.squared:
            return not column.nullable
        return 1 + len(self.frame.negative) == column.size

    @property
    def half_range(self) -> float:
        """What the label's unit of 1 is in its own units; 1 for classes."""
        column = self.frame.schema.column(self.frame.label)
        return (column.upper - column.lower) / 2 if self.squared else 1.0  # type: ignore[union-attr]

    def labels(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Labels in [-1, 1] from unit coordinates, and which rows have one."""
        if not self.squared:
            y = self.frame.labels(units)
            return y, y != 0
        place = units[:, self.frame.schema.names.index(self.frame.label)]
        nullable = self.frame.schema.column(self.frame.label).nullable
        return 2.0 * np.clip(place, 0.0, 1.0) - 1.0, (place != ABSENT) | (not nullable)

    def integers(self, units: np.ndarray) -> np.ndarray:
        """Features in steps of 1/1024, in two bytes each."""
        return self.frame.integers(units).astype(np.int16)

    def scale(self, integers: np.ndarray) -> np.ndarray:
        """Features of length at most 1."""
        return integers / (GRID * self.frame.norm)

    @cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Every column's extreme features as rows over all features, and the column of each."""
        found, owners, position = [], [], 0
        for number, (_, column) in enumerate(self.frame.columns):
            slots = scaled_slots(column)
            signs = [(position, 1.0), (position, -1.0)] if slots.scale else []
            marks = range(position + (slots.scale > 0), position + slots.width)
            for place, value in [*signs, *((mark, 1.0) for mark in marks)]:
                end = np.zeros(self.width)
                end[place] = value / self.frame.norm
                found.append(end)
                owners.append(number)
            position += slots.width
        return np.array(found).reshape(len(found), self.width), np.array(owners, dtype=np.intp)

    def farthest(self, w: np.ndarray) -> float:
        """The largest |x.w| over all rows that the schema allows."""
        ends, owners = self.ends
        sides = []
        for sign in (1.0, -1.0):
            most = np.full(len(self.frame.columns), -np.inf)
            np.maximum.at(most, owners, ends @ (sign * w))
            sides.append(float(most.sum()) + sign * float(w[-1]) / self.frame.norm)
        return max(sides)

    def residual(self, w: np.ndarray) -> float:
        """The largest |y - x.w| over all rows that the schema allows."""
        return 1.0 + self.farthest(w)


@dataclass(frozen=True)
class Measure:
    """The scale on which one person moves an excess V by at most 1: psi(V).

    V(D) = max over w of J(w_s) - J(w), with J the sum of the rows' losses plus (L/2) ||w||^2. With
    s(v) a bound on what one row's loss can differ between w_s and the w of a table whose V is v,
    psi(v) is the integral of 1/s up to v. Add one row with a weight t that grows from 0 to 1: V
    moves by l(w_s) - l(w_t), at most s(V), so psi(V) moves by at most 1. A replaced row moves it by
    at most 2, for 1 - t of one and t of the other still make a convex sum.

    As J is L-strongly convex, ||w_t - w_s|| <= u = sqrt(2 v / L). Logistic losses differ by at most
    u, and by the distance r on any row; half squares by e d - d^2/2 with |d| <= min(u, r) and a
    residual |e| <= B: by at most B u + u^2/2.

    Attributes:
        ridge: L, for the whole table.
        within: r, or None for all models.
        residual: B of squared losses; None for logistic ones.
        free: whether the constant is not penalised; then only r bounds what losses differ by.
    """

    ridge: float
    within: float | None = None
    residual: float | None = None
    free: bool = False

    @property
    def most(self) -> float:
        """What a loss can differ by within the distance r."""
        if self.within is None:
            return math.inf
        if self.residual is None:
            return self.within
        return self.residual * self.within + self.within**2 / 2

    @property
    def bend(self) -> float:
        """Where the distance takes over from the ridge: L r^2 / 2."""
        if self.within is None:
            return math.inf
        return 0.0 if self.free else self.ridge * self.within**2 / 2

    def psi(self, v: float) -> float:
        """The integral of 1/s up to v."""
        near = self._near(min(v, self.bend))
        return near + (v - self.bend) / self.most if v > self.bend else near

    def inverse(self, p: float) -> float:
        """The v whose psi is p."""
        corner = self._near(self.bend)
        if p > corner:
            return self.bend + (p - corner) * self.most
        if self.residual is None:
            return p * p / (2 * self.ridge)
        if p / (2 * self.ridge) > 300:
            return math.inf
        return self.ridge / 2 * (2 * self.residual * math.expm1(p / (2 * self.ridge))) ** 2

    def everywhere(self, v: float) -> float:
        """From the best model within r to the best of all.

        V is strongly concave along the way, and what lies outside is farther than r: with
        v_0 = L r^2 / 2 it is at most (v + v_0)^2 / (4 v_0) where v > v_0.
        """
        if v <= self.bend:
            return v
        return math.inf if not self.bend else (v + self.bend) ** 2 / (4 * self.bend)

    def _near(self, v: float) -> float:
        if v == math.inf:
            return math.inf
        u = math.sqrt(2 * v / self.ridge)
        if self.residual is None:
            return self.ridge * u
        return 2 * self.ridge * math.log1p(u / (2 * self.residual))
