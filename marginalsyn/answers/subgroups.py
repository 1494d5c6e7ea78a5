"""Means, shares, counts and totals of groups of rows, and what they are next to each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from marginalsyn.answers.code_combinations import CodeCombinations
from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.quantities import (
    MOST_TERMS,
    Estimates,
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

Kind = Literal["mean", "share", "count", "total"]
# Groups of one question, and numbers in its largest array.
MOST_GROUPS, _MOST_NUMBERS = 60, 30_000_000
# A stratum of a standardised mean should hold so many times the noise and sampling of its count.
_FEW = 3.0
# Between the names of a group and of a stratum: no value has it.
STRATUM = "\x1f"


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
        found = np.zeros((2, len(below)))
        for number, part in enumerate(self._parts):
            # A mean by itself has all of its bins; means next to each other what is usual.
            far = _far(problem, part.column, usual=bool(self.compared))
            if far is None:
                continue
            size = len(below) // len(self._parts)
            own = slice(number * size, (number + 1) * size)
            if part.counts:
                masks = [members(group.masks, problem.asked) for group in part.groups]
                found[:, own] = far @ np.stack(masks, axis=1)
            else:
                found[:, own] = far @ statistic.bottoms[:, own] / below[own]
        scale = np.ones(len(problem.fitted))
        if statistic.quotient:
            ratios = np.maximum(statistic.ratios(problem.weights), 1e-12)
            found, scale = found / ratios, problem.fitted
        # What is subtracted moves a number the other way.
        add, less = np.maximum(statistic.contrast, 0.0), np.maximum(-statistic.contrast, 0.0)
        return np.asarray(scale * (found @ add.T + found[::-1] @ less.T))


def _far(problem: Problem, column: str, *, usual: bool) -> np.ndarray | None:
    """How far places in bins may move the sum over each combination down and up, a row each."""
    bins = problem.evidence.bins(column) if column else None
    if bins is None:
        return None
    codes = problem.asked.codes[:, problem.asked.columns.index(column)]
    room = bins.usual if usual else bins.room
    return problem.weights * room[:, codes]


@dataclass(frozen=True)
class Standardised(Question):
    """Means of groups as they would be if all groups had the same shares of some strata.

    Attributes:
        part: the means, for each group within each stratum: the strata vary fastest.
        strata: whose shares are those of all rows, unless given.
        given: the shares of the strata.
    """

    text: str
    schema: Schema
    part: Part
    strata: tuple[Group, ...]
    given: tuple[float, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        strata = (mask.column for group in self.strata for mask in group.masks)
        return tuple(dict.fromkeys((*self.part.columns(), *strata)))

    @property
    def averaged(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.part.column,)

    def on(self, cells: CodeCombinations) -> Statistic:
        names, tops, bottoms, limits = self.part.on(self.schema, cells)
        own = np.stack([members(group.masks, cells) for group in self.strata], axis=1)
        titles = [name.partition(STRATUM)[0].rstrip(": ") for name in names[:: len(self.strata)]]
        return Weighted(
            titles, Ratios(names, tops, bottoms, np.eye(len(names))), own, limits, self.given
        )

    def hidden(self, problem: Problem) -> np.ndarray:
        statistic = problem.statistic
        assert isinstance(statistic, Weighted)
        far = _far(problem, self.part.column, usual=False)
        if far is None:
            return super().hidden(problem)
        bottoms = statistic.inner.bottoms
        found = far @ bottoms / np.maximum(problem.weights @ bottoms, 1e-12)
        found = found.reshape(2, len(problem.value), -1)
        return np.asarray(found @ statistic.shares(problem.weights))

    def conclude(self, problem: Problem, confidence: float, errors: np.ndarray | None) -> Estimates:
        """The means; of a group nothing is known that may have no row in a stratum."""
        found = super().conclude(problem, confidence, errors)
        statistic = problem.statistic
        assert isinstance(statistic, Weighted)
        lines, _ = problem.evidence.mean_estimates(
            problem.cells, problem.weights, statistic.inner.bottoms
        )
        rows = problem.weights @ statistic.inner.bottoms
        noise = np.array([line.noise(problem.evidence, 0.0) for line in lines])
        noise = np.sqrt(noise + rows / problem.evidence.total[0])
        empty = (rows < _FEW * noise) & (
            np.tile(statistic.shares(problem.weights), len(rows) // len(self.strata)) > 0
        )
        there = np.where(empty.reshape(-1, len(self.strata)).any(axis=1), np.nan, 1.0)
        return replace(
            found, value=found.value * there, low=found.low * there, high=found.high * there
        )


@dataclass(frozen=True)
class Weighted(Statistic):
    """Ratios of strata, each times the stratum's share of all rows or one that is given."""

    names: Sequence[str]
    inner: Ratios
    strata: np.ndarray
    limits: tuple[float, float]
    given: tuple[float, ...] = ()

    def shares(self, weights: np.ndarray) -> np.ndarray:
        """The share of every stratum."""
        found = np.array(self.given) if self.given else weights @ self.strata
        return np.asarray(found / max(float(found.sum()), 1e-12))

    def value(self, weights: np.ndarray) -> np.ndarray:
        return np.asarray(self._table(weights) @ self.shares(weights))

    def influence(self, weights: np.ndarray, value: np.ndarray) -> np.ndarray:
        own = self.inner.influence(weights, value)
        own = own.reshape(len(own), len(value), -1) @ self.shares(weights)
        if self.given:
            return np.asarray(own)
        centred = self._table(weights) - value[:, None]
        return np.asarray(
            own + self.strata @ centred.T / max(float(weights @ self.strata.sum(axis=1)), 1e-12)
        )

    def times(self, number: np.ndarray, *, whole: bool) -> Weighted:
        inner, often = self.inner.times(number, whole=whole), number[:, None]
        return replace(self, inner=inner, strata=self.strata * often)

    def _table(self, weights: np.ndarray) -> np.ndarray:
        return self.inner.ratios(weights).reshape(-1, self.strata.shape[1])


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
    schema: Schema,
    names: Sequence[str],
    *,
    masks: Sequence[Mask] = (),
    missing: bool = False,
    other: bool = True,
) -> tuple[Group, ...]:
    """A group for every combination of values, each within further conditions.

    What is ``missing`` is a value as well, or not, and so is what is none of the listed values.
    """
    choices = []
    for name in names:
        column = schema.column(name)
        known = column.size - (column.nullable and not missing) if other else column.levels
        labels, rows = column.labels()[:known], np.eye(column.size)
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
