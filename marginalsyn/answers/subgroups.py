"""Means, shares, counts and totals of groups of rows, and what they are next to each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from marginalsyn.answers.code_combinations import CodeCombinations
from marginalsyn.answers.quantities import (
    MOST_TERMS,
    Mask,
    Question,
    Ratios,
    Scale,
    Statistic,
    members,
    outcomes,
)
from marginalsyn.errors import UsageError
from marginalsyn.table.schema import Schema

if TYPE_CHECKING:
    from marginalsyn.answers.estimation import Problem

Kind = Literal["mean", "share", "count", "total"]
# Groups of one question, and numbers in its largest array.
MOST_GROUPS, _MOST_NUMBERS = 60, 30_000_000


@dataclass(frozen=True)
class Group:
    """Rows that meet conditions, and what they are called."""

    name: str = ""
    masks: tuple[Mask, ...] = ()


@dataclass(frozen=True)
class Part:
    """One kind of number for each of some groups.

    Attributes:
        kind: of the numbers.
        column: that is averaged or added up.
        events: of which shares or counts are taken.
        groups: of rows.
    """

    kind: Kind
    column: str = ""
    events: tuple[Group, ...] = (Group(),)
    groups: tuple[Group, ...] = (Group(),)

    @property
    def counts(self) -> bool:
        """Whether its numbers grow with the number of rows."""
        return self.kind in ("count", "total")

    def columns(self) -> Iterator[str]:
        """All columns that it uses."""
        if self.column:
            yield self.column
        for group in (*self.events, *self.groups):
            yield from (mask.column for mask in group.masks)

    def on(
        self, schema: Schema, cells: CodeCombinations
    ) -> tuple[list[str], np.ndarray, np.ndarray, tuple[float, float]]:
        """The names of the numbers, their tops and bottoms, and what they lie between."""
        if self.column:
            names, tops, present, limits = outcomes(schema, self.column, cells)
        else:
            names, limits = [event.name for event in self.events], (0.0, 1.0)
            tops = np.stack([members(event.masks, cells) for event in self.events], axis=1)
            present = np.ones(len(tops))
        width, number = len(names), len(self.groups)
        if width * number > MOST_TERMS or width * number * len(tops) > _MOST_NUMBERS:
            raise UsageError(
                f"question ({width * number} numbers over {len(tops)} combinations of values) must "
                "be smaller: ask for fewer groups, or leave conditions away"
            )
        own = np.stack([members(group.masks, cells) for group in self.groups], axis=1)
        bottoms = np.broadcast_to((present[:, None] * own)[:, None, :], (len(own), width, number))
        if self.counts:
            bottoms, limits = np.ones_like(bottoms), (min(limits[0], 0.0), max(limits[1], 0.0))
        titles = [
            ": ".join(part for part in (name, group.name) if part) or "rows"
            for name in names
            for group in self.groups
        ]
        every = (tops[:, :, None] * own[:, None, :]).reshape(len(own), -1)
        return titles, every, bottoms.reshape(every.shape), limits


@dataclass(frozen=True)
class Subgroups(Question):
    """Numbers of groups of rows, or how far they differ.

    Attributes:
        text: the question in words.
        first: the numbers.
        second: what they are compared with, one for each; None compares with the first group's.
        compared: how, or not at all.
        by: the columns whose values make the groups.
    """

    text: str
    schema: Schema
    first: Part
    second: Part | None = None
    compared: Literal["", "difference", "ratio"] = ""
    by: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.text

    @property
    def _parts(self) -> list[Part]:
        return [self.first] if self.second is None else [self.first, self.second]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self._parts for name in part.columns())) or (
            self.schema.names[0],
        )

    @property
    def scale(self) -> Scale:  # type: ignore[override]
        return "count" if self.first.counts and self.compared != "ratio" else "value"

    @property
    def averaged(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys(part.column for part in self._parts if part.column))

    @property
    def grouping(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.by

    @property
    def null(self) -> float | None:  # type: ignore[override]
        return {"": None, "difference": 0.0, "ratio": 1.0}[self.compared]

    def on(self, cells: CodeCombinations) -> Statistic:
        names, tops, bottoms, (low, high) = self.first.on(self.schema, cells)
        size, quotient = len(names), self.compared == "ratio"
        contrast, inside = np.eye(size), (low, high)
        if self.compared and self.second is None:
            groups = [group.name for group in self.first.groups]
            later = [i for i in range(size) if i % len(groups)]
            base = [i - i % len(groups) for i in later]
            names = [
                f"{names[i]} {_WORDS[self.compared]} {groups[0].rpartition(' = ')[2]}"
                for i in later
            ]
            contrast = contrast[later] if quotient else contrast[later] - contrast[base]
            if quotient:
                contrast = contrast - np.eye(size)[base]
        elif self.second is not None:
            others, more, below, (least, most) = self.second.on(self.schema, cells)
            if len(others) != size:
                raise UsageError(f"question ({self.title}) must have as many numbers on each side")
            tops, bottoms = np.hstack([tops, more]), np.hstack([bottoms, below])
            inside = (min(low, least), max(high, most))
            names = [f"{a} {_WORDS[self.compared]} {b}" for a, b in zip(names, others, strict=True)]
            contrast = np.hstack([np.eye(size), -np.eye(size)])
        limits = inside
        if quotient:
            if inside[0] < 0:
                raise UsageError(
                    f"question ({self.title}) must divide numbers that cannot be negative: ask "
                    "for the difference"
                )
            limits = (0.0, np.inf)
        elif self.compared:
            limits = (inside[0] - inside[1], inside[1] - inside[0])
        small = bool(self.compared or any(g.masks for g in self.first.groups))
        return Ratios(
            names,
            tops,
            bottoms,
            contrast,
            limits,
            inside,
            quotient=quotient,
            small=small and self.scale != "count",
        )

    def hidden(self, problem: Problem) -> np.ndarray:
        statistic = problem.statistic
        assert isinstance(statistic, Ratios)
        below = np.maximum(problem.weights @ statistic.bottoms, 1e-12)
        found = np.zeros(len(below))
        for number, part in enumerate(self._parts):
            bins = problem.evidence.bins(part.column) if part.column else None
            if bins is None:
                continue
            size = len(below) // len(self._parts)
            own = slice(number * size, (number + 1) * size)
            # A mean by itself has all of its bins; means next to each other what is usual.
            reach = np.append(bins.usual if self.compared else bins.half, 0.0)
            codes = problem.cells.codes[:, problem.cells.columns.index(part.column)]
            far = problem.weights * reach[np.minimum(codes, len(reach) - 1)]
            if part.counts:
                masks = [members(group.masks, problem.cells) for group in part.groups]
                found[own] = far @ np.stack(masks, axis=1)
            else:
                found[own] = far @ statistic.bottoms[:, own] / below[own]
        if statistic.quotient:
            found = found / np.maximum(statistic.ratios(problem.weights), 1e-12)
            return np.abs(statistic.contrast) @ found * problem.fitted
        return np.asarray(np.abs(statistic.contrast) @ found)


_WORDS = {"difference": "less", "ratio": "over"}


def mean_of(column: str, schema: Schema) -> Subgroups:
    """The mean of a numeric column; of any other, the share of each of its values."""
    return Subgroups(f"mean {column}", schema, Part("mean", column))


def difference_of(column: str, by: str, schema: Schema) -> Subgroups:
    """How far the mean (or shares) of one column differ between the values of another."""
    groups = groups_of(schema, (by,))
    if len(groups) < 2:
        raise UsageError(
            f"difference ({column} by {by}) must be by a column of 2 to {MOST_GROUPS} values"
        )
    title, part = f"difference {column} by {by}", Part("mean", column, groups=groups)
    return Subgroups(title, schema, part, compared="difference", by=(by,))


def table_of(columns: Sequence[str], schema: Schema, kind: Literal["share", "count"]) -> Subgroups:
    """The share, or the number, of rows with every combination of values of some columns."""
    part = Part(kind, events=groups_of(schema, columns, missing=True))
    return Subgroups(f"{kind} {' x '.join(columns)}", schema, part)


def groups_of(
    schema: Schema, names: Sequence[str], *, masks: Sequence[Mask] = (), missing: bool = False
) -> tuple[Group, ...]:
    """A group for every combination of values, each within further conditions."""
    choices = []
    for name in names:
        column = schema.column(name)
        labels = column.labels()[: column.size - (column.nullable and not missing)]
        rows = np.eye(column.size)
        choices.append([(f"{name} = {v}", Mask(name, rows[i])) for i, v in enumerate(labels)])
    number = int(np.prod([len(own) for own in choices]))
    if number > (MOST_TERMS if missing else MOST_GROUPS):
        raise UsageError(
            f"groups (by {', '.join(names)}) must be at most {MOST_GROUPS}, not {number}"
        )
    return tuple(
        Group(", ".join(text for text, _ in own), (*(mask for _, mask in own), *masks))
        for own in itertools.product(*choices)
    )
