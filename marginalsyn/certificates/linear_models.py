"""Linear models that certificates are about: features, labels, losses, distances between models.

Features come from single rows by public maps and are at most 1 in size: a number is its place
between its bounds in [-1, 1], rounded to 1/1024; a column of two values is -1 or 1; other columns
are one-hot; a missing number is 0 with an indicator of its own. The last feature is the constant 1.
All are whole multiples of 1/1024, so sums over rows are exact.

A measured certificate scales them to a Euclidean length of at most 1, by the norm of their
:class:`Frame`. A model w is as far from the given one w_s as their predictions differ on the worst
row that the schema allows: max |x.(w - w_s)|. Each column of the worst row has one of finitely many
extreme values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.table.design import (
    ABSENT,
    CodedRows,
    names_of_features,
    numbers_of,
    scaled_features,
    scaled_slots,
)
from marginalsyn.table.numeric import NumberColumn
from marginalsyn.table.schema import AnyColumn, Schema

GRID = 1024
MOST_FEATURES = 2000


@dataclass(frozen=True)
class Frame:
    """Which features and label rows have; public.

    The label is 1 for the positive value and -1 for the other; rows whose label is missing (or
    another value, where the column has more than two and no positive one) are left out.

    Example:
        >>> frame = Frame.of(Schema.from_domain({"a": 3, "y": 2}), "y")
        >>> frame.width, frame.norm
        (2, 1.4142135623730951)
    """

    schema: Schema
    label: str
    positive: int
    negative: tuple[int, ...]

    @classmethod
    def of(cls, schema: Schema, label: str | None = None) -> Frame:
        """The features of all columns but the label, which needs two values or a positive one."""
        name = label or schema.label
        if name is None:
            raise UsageError(
                "label (none) must be given with --label (label=...): a certificate is about "
                "models that predict it"
            )
        column = schema.column(name)
        codes = range(column.size - column.nullable)
        positive = schema.positive_code if name == schema.label else None
        if positive is None and len(codes) == 2:
            positive = 1
        if positive is None:
            raise UsageError(
                f"label ({name}) must have two values, or the schema a positive one: a "
                "certificate is about models of two classes"
            )
        negative = tuple(code for code in codes if code != positive)
        return cls._checked(cls(schema, name, positive, negative))

    @classmethod
    def numeric(cls, schema: Schema, label: str) -> Frame:
        """The features of all columns but a numeric label, which has no classes here."""
        return cls._checked(cls(schema, label, -1, ()))

    @classmethod
    def _checked(cls, frame: Frame) -> Frame:
        if frame.width > MOST_FEATURES:
            raise UsageError(
                f"features ({frame.width:,}) must be at most {MOST_FEATURES:,}: give columns fewer "
                "categories"
            )
        return frame

    @property
    def columns(self) -> list[tuple[int, AnyColumn]]:
        """Positions and columns that have features."""
        pairs = enumerate(self.schema.columns)
        return [(j, c) for j, c in pairs if c.name != self.label and (c.numeric or c.size > 1)]

    @cached_property
    def names(self) -> list[str]:
        """What the features are called, the constant last."""
        return [n for _, column in self.columns for n in names_of_features(column)] + ["constant"]

    @property
    def width(self) -> int:
        return len(self.names)

    @property
    def norm(self) -> float:
        """The length of the longest feature vector: every column adds at most 1 to its square."""
        return float(np.sqrt(len(self.columns) + 1))

    def labels(self, units: np.ndarray) -> np.ndarray:
        """1, -1, or 0 where there is none, from rows of unit coordinates."""
        own = _codes(self.schema.column(self.label), units[:, self.schema.names.index(self.label)])
        return np.where(own == self.positive, 1, np.where(np.isin(own, self.negative), -1, 0))

    def integers(self, units: np.ndarray) -> np.ndarray:
        """The features as multiples of 1/1024, the constant last."""
        found = np.rint(GRID * scaled_features(self.schema, units, without=self.label))
        return np.pad(found.astype(np.int64), ((0, 0), (0, 1)), constant_values=GRID)

    def features(self, table: CodedRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features, labels and masses (of mean 1) of the rows that have a label."""
        y = self.labels(table.units)
        kept = table.take(y != 0)
        return self.integers(kept.units) / GRID, y[y != 0].astype(float), kept.masses


def _codes(column: AnyColumn, units: np.ndarray) -> np.ndarray:
    """The codes of one column's unit coordinates."""
    if not isinstance(column, NumberColumn):
        return units.astype(np.int64)
    bins = column.bins_of(numbers_of(column, units))
    return np.where(units == ABSENT, column.size - 1 if column.nullable else 0, bins)


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

        Where a column of more values has a positive one, that is compared with all others.
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
