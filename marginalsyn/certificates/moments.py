"""Means of products of features and label, on which bounds for linear models rest.

Features come from single rows by public maps and are at most 1 in size: a number is its place
between its bounds in [-1, 1], rounded to 1/1024; a column of two values is -1 or 1; other columns
are one-hot; a missing number is 0 with an indicator of its own. The last feature is the constant 1.
All are whole multiples of 1/1024, so sums over rows are exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.table.design import CodedRows, names_of_features, scaled_features
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.schema import AnyColumn, Schema
from marginalsyn.table.vectors import ABSENT, numbers_of, scaled_slots

GRID = 1024
# Combinations of columns whose products are averaged; more would take minutes.
MOST_COMBINATIONS = 20_000
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
    if not isinstance(column, IntegerColumn | ContinuousColumn):
        return units.astype(np.int64)
    bins = np.searchsorted(column.edges[1:-1], numbers_of(column, units), side="right")
    return np.where(units == ABSENT, column.size - 1 if column.nullable else 0, bins)


@dataclass(frozen=True)
class MomentErrors:
    """The largest differences of moments between two tables: with the label, and by order."""

    label: float
    products: Mapping[int, float]


def moment_errors(
    frame: Frame, real: CodedRows, synthetic: CodedRows, *, orders: Sequence[int] = (2, 4)
) -> MomentErrors:
    """Exact differences between two tables, the synthetic one's weights counted.

    The k-fold products of the features of a set of columns are powers of its numbers times
    indicators, so one pass over the rows per set gives them all. Orders with too many sets are
    left out, and so is every order after them.

    Example:
        >>> table = CodedRows.of(frame, schema)
        >>> round(moment_errors(Frame.of(schema), table, table).label, 9)
        0.0
    """
    x_r, y_r, m_r = frame.features(real)
    x_s, y_s, m_s = frame.features(synthetic)
    if not len(x_r) or not len(x_s):
        raise UsageError("both tables must have rows with a label")
    masses = np.concatenate([m_r / m_r.sum(), -m_s / m_s.sum()])
    x, y = np.vstack([x_r, x_s]), np.concatenate([y_r, y_s])
    label = float(np.abs((masses * y) @ x).max())
    products: dict[int, float] = {}
    groups = _groups(frame, x)
    worst = 0.0
    for order in orders:
        # No more are listed than show that there are too many: of wide tables there are millions.
        listed = itertools.chain(_sets(groups, order - 1), _sets(groups, order))
        sets = list(itertools.islice(listed, MOST_COMBINATIONS + 1))
        if len(sets) > MOST_COMBINATIONS:
            break
        for powers in sets:
            worst = max(worst, _largest(powers, groups, masses))
        products[order] = worst
    return MomentErrors(label, products)


@dataclass(frozen=True)
class _Group:
    """The features of one column: a number with powers of its own, indicators, or both.

    ``on`` is which indicator a row has; the last value stands for none.
    """

    number: np.ndarray | None
    powers: int
    on: np.ndarray | None
    indicators: int


def _groups(frame: Frame, x: np.ndarray) -> list[_Group]:
    groups, position = [], 0
    for _, column in frame.columns:
        slots = scaled_slots(column)
        block = x[:, position : position + slots.width]
        position += slots.width
        number = None
        if slots.scale:
            number, block = np.ascontiguousarray(block[:, 0]), block[:, 1:]
        on = None
        if block.shape[1]:
            on = np.where(block.any(axis=1), block.argmax(axis=1), block.shape[1])
        # The square of -1 and 1 is the constant.
        groups.append(_Group(number, 99 if column.numeric else 1, on, block.shape[1]))
    return groups


def _sets(groups: Sequence[_Group], order: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Groups with the power (0 for the indicators) that their features enter a product with.

    The constant fills up what is missing to ``order``, so that lower products are among these;
    only those of exactly this order are given here. An indicator is its own square.
    """
    options = []
    for j, group in enumerate(groups):
        if group.on is not None:
            options.append((j, 0))
        if group.number is not None:
            options += [(j, power) for power in range(1, min(order, group.powers) + 1)]
    for size in range(1, order + 1):
        for chosen in itertools.combinations(options, size):
            distinct = len({j for j, _ in chosen}) == size
            if distinct and sum(max(power, 1) for _, power in chosen) == order:
                yield chosen


def _largest(
    powers: Sequence[tuple[int, int]], groups: Sequence[_Group], masses: np.ndarray
) -> float:
    """The largest difference in mean of the products of one set."""
    values, widths = masses, []
    index: np.ndarray | None = None
    for j, power in powers:
        group = groups[j]
        for _ in range(power):
            values = values * group.number
        if not power and group.on is not None:
            widths.append(group.indicators + 1)
            index = group.on if index is None else index * widths[-1] + group.on
    if index is None:
        return abs(float(values.sum()))
    sums = np.bincount(index, weights=values, minlength=math.prod(widths)).reshape(widths)
    inside = sums[tuple(slice(width - 1) for width in widths)]
    return float(np.abs(inside).max(initial=0.0))
