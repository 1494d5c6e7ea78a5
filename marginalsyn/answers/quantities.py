"""What an analyst may ask for: means, shares, counts, differences, as functions of a table's law.

Every question becomes a *statistic* on atoms: its value for weights of the atoms, and the influence
of each atom on it, which is its derivative in that atom's weight.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from marginalsyn.answers.atoms import Atoms
from marginalsyn.errors import UsageError
from marginalsyn.table.schema import Schema

Scale = Literal["share", "count", "value"]
# A statement about more numbers than this is a table of its own.
MOST_TERMS = 2_000


class Statistic(Protocol):
    """A quantity of one or more numbers on given atoms.

    ``value`` takes weights that sum to one; ``influence`` has a row per atom and a column per
    number, of mean zero under these weights. ``exact`` says whether the value is a ratio of means
    of functions, so that its distribution follows from the answers' without replaying the fit.
    ``times`` is the statistic of a table in which each atom stands for so many rows; where it is a
    count, of so many ``whole`` rows.
    """

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def exact(self) -> bool: ...

    @property
    def limits(self) -> tuple[float, float]: ...

    def value(self, weights: np.ndarray) -> np.ndarray: ...

    def influence(self, weights: np.ndarray, value: np.ndarray) -> np.ndarray: ...

    def times(self, number: np.ndarray, *, whole: bool) -> Statistic: ...


class Question(Protocol):
    """Something to estimate: the columns that it is about, and its statistic on atoms of these."""

    @property
    def title(self) -> str: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def scale(self) -> Scale: ...

    def on(self, atoms: Atoms) -> Statistic: ...


@dataclass(frozen=True)
class Ratios:
    """Differences of ratios of means: ``contrast`` times (mean of tops / mean of bottoms).

    ``inside`` is the range of each ratio.
    """

    names: Sequence[str]
    tops: np.ndarray
    bottoms: np.ndarray
    contrast: np.ndarray
    limits: tuple[float, float] = (-np.inf, np.inf)
    inside: tuple[float, float] = (-np.inf, np.inf)
    exact: bool = True

    @property
    def apart(self) -> bool:
        """Whether each number is one ratio less another."""
        return bool((np.abs(self.contrast).sum(axis=1) == 2).all())

    def value(self, weights: np.ndarray) -> np.ndarray:
        return np.asarray(self.contrast @ self._ratios(weights))

    def influence(self, weights: np.ndarray, value: np.ndarray) -> np.ndarray:
        del value
        below = np.maximum(weights @ self.bottoms, 1e-12)
        return np.asarray(
            (self.tops - self.bottoms * self._ratios(weights)) / below @ self.contrast.T
        )

    def times(self, number: np.ndarray, *, whole: bool) -> Ratios:
        often = number[:, None]
        bottoms = self.bottoms if whole else self.bottoms * often
        limits = (self.limits[0], self.limits[1] * float(number.max())) if whole else self.limits
        return replace(self, tops=self.tops * often, bottoms=bottoms, limits=limits)

    def _ratios(self, weights: np.ndarray) -> np.ndarray:
        return np.asarray(weights @ self.tops / np.maximum(weights @ self.bottoms, 1e-12))


@dataclass(frozen=True)
class Mean:
    """The mean of a numeric column; of any other, the share of each of its values."""

    column: str
    schema: Schema
    scale: Scale = "value"

    @property
    def title(self) -> str:
        return f"mean {self.column}"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def on(self, atoms: Atoms) -> Statistic:
        names, tops, present, limits = outcomes(self.schema, self.column, atoms)
        bottoms = np.repeat(present[:, None], len(names), axis=1)
        return Ratios(names, tops, bottoms, np.eye(len(names)), limits)


@dataclass(frozen=True)
class Table:
    """The share, or the number, of rows with every combination of values of some columns."""

    columns: tuple[str, ...]
    schema: Schema
    scale: Scale

    @property
    def title(self) -> str:
        return f"{self.scale} {' x '.join(self.columns)}"

    def on(self, atoms: Atoms) -> Statistic:
        shape = tuple(self.schema.column(c).size for c in self.columns)
        cells = int(np.prod(shape))
        if cells > MOST_TERMS:
            raise UsageError(
                f"{self.scale} ({', '.join(self.columns)}) must have at most {MOST_TERMS} cells, "
                f"not {cells}"
            )
        labels = [self.schema.column(c).labels() for c in self.columns]
        names = [
            ", ".join(f"{c} = {v}" for c, v in zip(self.columns, values, strict=True))
            for values in itertools.product(*labels)
        ]
        keys = np.ravel_multi_index(tuple(atoms.codes.T), shape)
        tops = (keys[:, None] == np.arange(cells)).astype(float)
        return Ratios(names, tops, np.ones_like(tops), np.eye(cells), (0.0, 1.0))


@dataclass(frozen=True)
class Difference:
    """How far the mean (or shares) of one column differ between the values of another."""

    column: str
    by: str
    schema: Schema
    scale: Scale = "value"

    @property
    def title(self) -> str:
        return f"difference {self.column} by {self.by}"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column, self.by)

    def on(self, atoms: Atoms) -> Statistic:
        group = self.schema.column(self.by)
        labels = group.labels()[: group.size - group.nullable]
        if len(labels) < 2 or group.size > 60:
            raise UsageError(
                f"difference ({self.column} by {self.by}) must be by a column of 2 to 60 values"
            )
        outcomes_, tops, present, (low, high) = outcomes(self.schema, self.column, atoms)
        own = atoms.codes[:, atoms.columns.index(self.by)][:, None] == np.arange(len(labels))
        width = len(outcomes_)
        every = (tops[:, :, None] * own[:, None, :]).reshape(len(own), -1)
        below = (present[:, None, None] * np.ones((1, width, 1)) * own[:, None, :]).reshape(
            every.shape
        )
        contrast, names = [], []
        for i, outcome in enumerate(outcomes_):
            for j in range(1, len(labels)):
                line = np.zeros(width * len(labels))
                line[i * len(labels) + j], line[i * len(labels)] = 1.0, -1.0
                contrast.append(line)
                names.append(f"{outcome}: {self.by} = {labels[j]} less {labels[0]}")
        return Ratios(
            names, every, below, np.array(contrast), (low - high, high - low), (low, high)
        )


def outcomes(
    schema: Schema, name: str, atoms: Atoms
) -> tuple[list[str], np.ndarray, np.ndarray, tuple[float, float]]:
    """What a column is averaged as: names, a column for each, which atoms have one, the range."""
    column = schema.column(name)
    place = atoms.columns.index(name)
    if column.numeric:
        numbers = atoms.frame[name].to_numpy(float)
        present = np.isfinite(numbers)
        values = np.where(present, numbers, 0.0)[:, None]
        return [name], values, present.astype(float), (float(column.lower), float(column.upper))  # type: ignore[union-attr]
    labels = column.labels()[: column.size - column.nullable]
    codes = atoms.codes[:, place]
    present = (codes < len(labels)).astype(float)
    chosen = list(range(len(labels)))
    if len(labels) == 2:
        positive = schema.positive_code if name == schema.label else None
        chosen = [positive if positive is not None and positive < 2 else 1]
    names = [f"{name} = {labels[i]}" for i in chosen]
    return names, (codes[:, None] == np.array(chosen)).astype(float), present, (0.0, 1.0)


def read_columns(schema: Schema, text: str, what: str) -> tuple[str, ...]:
    """The columns that a comma-separated text names."""
    names = tuple(part.strip().strip("`") for part in text.split(",") if part.strip())
    if not names or len(set(names)) < len(names):
        raise UsageError(f"{what} ({text}) must name columns, each once, with commas between them")
    return tuple(find_column(schema, name, what) for name in names)


def find_column(schema: Schema, name: str, what: str) -> str:
    """A column by its name, or by the first word of one; a wrong one is told what it may mean."""
    if name in schema.names:
        return name
    starts = [own for own in schema.names if re.split(r"\W|_", own)[0] == name]
    if len(starts) == 1:
        return starts[0]
    close = difflib.get_close_matches(name, schema.names, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise UsageError(f"{what} ({name}) must be one of {', '.join(schema.names)}{hint}")


def read_difference(schema: Schema, text: str) -> Difference:
    """``"income by sex"``."""
    found = re.fullmatch(r"\s*(.+?)\s+by\s+(.+?)\s*", text)
    if not found:
        raise UsageError(
            f'difference ({text}) must read "COLUMN by COLUMN", such as "income by sex"'
        )
    column, by = (find_column(schema, part.strip("`"), "difference") for part in found.groups())
    if column == by:
        raise UsageError(f"difference ({text}) must name two columns")
    return Difference(column, by, schema)


def simple(
    schema: Schema,
    *,
    mean: Iterable[str] = (),
    share: Iterable[str] = (),
    count: Iterable[str] = (),
    difference: Iterable[str] = (),
) -> list[Question]:
    """Questions about means, shares, counts and differences."""
    found: list[Question] = []
    for text in mean:
        found += [Mean(name, schema) for name in read_columns(schema, text, "mean")]
    found += [Table(read_columns(schema, text, "share"), schema, "share") for text in share]
    found += [Table(read_columns(schema, text, "count"), schema, "count") for text in count]
    found += [read_difference(schema, text) for text in difference]
    return found
