"""The one map from rows to vectors, and features and labels for linear models.

A column on a scale adds its place there, in [0, 1], and a mark for each code off the scale (OTHER,
missing); any other column adds a mark for each of its codes. The views differ in which columns lie
on a scale, and in what they make of places and marks:

* scaled features, here, put numbers on a scale, in [-1, 1];
* features (``features``) and the networks' heads put columns of long order there, centred;
* points (``points``) put every order there, and keep marks as codes.

Linear models have two maps of each row alone. *Coded*, as in the papers: every other column's code
as a number, without a common scale. *Scaled*, which is better: numbers in [-1, 1] by their public
bounds, columns of two values as -1 and 1, the others one-hot, a missing number as 0 with an
indicator; no entry is above 1 in size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from marginalsyn.errors import UsageError
from marginalsyn.table.codec import Codec
from marginalsyn.table.decoding import numbers_of
from marginalsyn.table.numeric import IntegerColumn
from marginalsyn.table.schema import AnyColumn, Schema

# Where unit coordinates put missing numbers: no number is there.
ABSENT = -1.0
# An integer label of so few values, each with a code of its own, is a class, not a quantity.
MOST_CLASSES = 20

FeatureKind = Literal["scaled", "coded"]


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
        """The slots of a column whose levels lie on a scale or not.

        With ``ends`` two codes are the ends of a scale otherwise, and a single one is nothing.
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


@dataclass(frozen=True)
class CodedRows:
    """Rows as codes and as unit coordinates, in schema order, with weights or without.

    Example:
        >>> from marginalsyn.table.schema import Schema
        >>> frame = pd.DataFrame({"a": [0, 2]})
        >>> table = CodedRows.of(frame, Schema.from_domain({"a": 3}))
        >>> table.codes.ravel().tolist(), table.units.ravel().tolist()
        ([0, 2], [0.0, 1.0])
    """

    schema: Schema
    codes: np.ndarray
    units: np.ndarray
    weights: np.ndarray | None = None

    @classmethod
    def of(
        cls, frame: pd.DataFrame, schema: Schema, weights: np.ndarray | None = None
    ) -> CodedRows:
        """Encode a frame."""
        codec = Codec(schema)
        return cls(schema, codec.encode(frame), codec.unit(frame, absent=ABSENT), weights)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def masses(self) -> np.ndarray:
        """The weights, scaled to a mean of 1."""
        if self.weights is None:
            return np.ones(len(self))
        mean = float(np.mean(self.weights)) if len(self) else 0.0
        return self.weights / mean if mean > 0 else np.ones(len(self))

    def take(self, rows: np.ndarray) -> CodedRows:
        """Some of the rows, by position or mask."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, codes=self.codes[rows], units=self.units[rows], weights=weights)

    def weigh(self, weights: np.ndarray | None) -> CodedRows:
        """The same rows with other weights."""
        return replace(self, weights=weights)

    def resample(self, rng: np.random.Generator) -> CodedRows:
        """As many rows, drawn with chances in proportion to the weights, unweighted."""
        return self.take(resample(self.masses, "systematic", rng)).weigh(None)


@dataclass(frozen=True)
class Task:
    """A prediction task: the label, and its classes if it has any.

    ``classes`` are the label's codes that real rows have; the last one counts as positive unless
    the schema names another. No classes: the label is a quantity.
    """

    schema: Schema
    label: str
    classes: tuple[int, ...] = ()
    positive: int | None = None

    @classmethod
    def of(cls, schema: Schema, label: str | None, real: Iterable[CodedRows]) -> Task:
        """The task of a label, with the classes that occur in the real tables."""
        name = label or schema.label
        if name is None:
            raise UsageError(
                "label (none) must be the column to predict: give it with --label, or "
                "leave out the reports that fit models"
            )
        column = schema.column(name)
        if is_quantity(column):
            return cls(schema, name)
        position = schema.names.index(name)
        codes = set()
        for table in real:
            codes.update(np.unique(table.codes[:, position]).tolist())
        classes = tuple(sorted(codes - _missing(column)))
        if len(classes) < 2:
            raise UsageError(
                f"label ({name}) must have at least two values among the real rows, not "
                f"{len(classes)}: choose another with --label, or leave out the reports that fit "
                "models"
            )
        positive = schema.positive_code if name == schema.label else None
        return cls(schema, name, classes, positive if positive in classes else classes[-1])

    @property
    def quantity(self) -> bool:
        """Whether the label is a number to be estimated rather than a class."""
        return not self.classes

    @property
    def binary(self) -> bool:
        return len(self.classes) == 2

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The classes with the positive one last if there are two."""
        if not self.binary or self.positive is None:
            return self.classes
        return tuple(sorted(self.classes, key=lambda code: code == self.positive))

    @property
    def class_names(self) -> list[str]:
        labels = self.schema.column(self.label).labels()
        return [labels[code] for code in self.order]

    @property
    def position(self) -> int:
        return self.schema.names.index(self.label)

    def known(self, table: CodedRows) -> CodedRows:
        """The rows whose label is one of the classes, or a number that is there."""
        if self.quantity:
            return table.take(table.units[:, self.position] != ABSENT)
        return table.take(np.isin(table.codes[:, self.position], self.classes))

    def labels(self, table: CodedRows) -> np.ndarray:
        """The position of each row's class in ``order``, or the label's number."""
        if self.quantity:
            return numbers_of(self.schema.column(self.label), table.units[:, self.position])
        place = {code: number for number, code in enumerate(self.order)}
        return np.array([place[code] for code in table.codes[:, self.position].tolist()], dtype=int)

    def features(self, table: CodedRows, kind: FeatureKind = "scaled") -> np.ndarray:
        """Rows by features, without a constant."""
        if kind == "coded":
            return np.delete(table.codes, self.position, axis=1).astype(float)
        return scaled_features(self.schema, table.units, without=self.label)


def scaled_features(schema: Schema, units: np.ndarray, *, without: str | None = None) -> np.ndarray:
    """The scaled features of every column but one, from rows of unit coordinates."""
    blocks = [np.empty((len(units), 0))]
    for column, values in zip(schema.columns, units.T, strict=True):
        if column.name != without:
            slots = scaled_slots(column)
            parts = slots.read(values, numbers=column.numeric)
            if slots.scale:
                blocks.append(parts.placed(2.0, -1.0)[:, None])
            blocks.append(slots.indicators(parts))
    return np.hstack(blocks)


def is_quantity(column: AnyColumn) -> bool:
    """Whether a label of this kind is regressed on."""
    if isinstance(column, IntegerColumn):
        return not (column.unit_bins and column.levels <= MOST_CLASSES)
    return column.numeric


def _missing(column: AnyColumn) -> set[int]:
    return {column.size - 1} if column.nullable else set()


def names_of_features(column: AnyColumn) -> list[str]:
    if column.numeric:
        return [column.name, f"{column.name} missing"] if column.nullable else [column.name]
    labels = column.labels()
    if column.size <= 2:
        return [f"{column.name} = {labels[1]}"] if column.size == 2 else []
    return [f"{column.name} = {label}" for label in labels]


Scheme = Literal["systematic", "stratified", "duplication"]
SCHEMES: tuple[str, ...] = get_args(Scheme)


def resample(
    weights: np.ndarray, scheme: Scheme, rng: np.random.Generator, rows: int | None = None
) -> np.ndarray:
    """Positions of rows drawn with probabilities proportional to their weights.

    Each row appears rows * w_i / sum(w) times on average. ``systematic`` uses one random offset
    for all equally spaced points, so that a row's number of copies is within one of that mean;
    ``stratified`` draws one point in each of ``rows`` equal parts; ``duplication`` rounds every
    row's number of copies up or down on its own (Diesendruck et al. 2018), and so gives a table of
    about ``rows`` rows.

    Args:
        weights: not negative; at least one above 0.
        scheme: one of the three.
        rng: draws; it protects nothing.
        rows: how many; as many as there are weights if None.

    Returns:
        Positions in increasing order.

    Example:
        >>> resample(np.array([1.0, 0.0, 3.0]), "systematic", np.random.default_rng(0), 4).tolist()
        [0, 2, 2, 2]
    """
    weights = np.asarray(weights, dtype=np.float64)
    if scheme not in SCHEMES:
        raise UsageError(f"resample ({scheme}) must be one of {', '.join(SCHEMES)}")
    if weights.size == 0:
        return np.empty(0, dtype=np.int64)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise UsageError("weights must be finite, not negative, and not all 0")
    count = weights.size if rows is None else rows
    shares = weights / weights.sum()
    if scheme == "duplication":
        copies = count * shares
        whole = np.floor(copies)
        copies = whole + (rng.random(weights.size) < copies - whole)
        return np.repeat(np.arange(weights.size), copies.astype(np.int64))
    offsets = rng.random() if scheme == "systematic" else rng.random(count)
    points = (np.arange(count) + offsets) / count
    edges = np.cumsum(shares)
    edges[-1] = max(edges[-1], 1.0)
    found = np.searchsorted(edges, points, side="right")
    # Rounding may reach past the last row of positive weight.
    return np.minimum(found, int(np.flatnonzero(weights)[-1]))
