"""What an analyst may ask for: means, shares, counts, differences of a table.

Every question becomes a *statistic* on combinations of codes: its value for weights of these, and
the influence of each of them on it, which is its derivative in that combination's weight.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from scipy.stats import norm

from marginalsyn.answers.code_combinations import CodeCombinations
from marginalsyn.errors import UsageError
from marginalsyn.table.schema import Schema

if TYPE_CHECKING:
    from marginalsyn.answers.estimation import Problem
    from marginalsyn.answers.evidence import Evidence

Scale = Literal["share", "count", "value"]
# A statement about more numbers than this is a table of its own.
MOST_TERMS = 2_000


@dataclass(frozen=True)
class Estimates:
    """Estimates of one question: an entry for each of its numbers, all in its own scale.

    Attributes:
        value: the estimate.
        low, high: the interval.
        fitted: what the model, and rows drawn from it, show.
        sampling, noise, rows: the parts of the variance: which rows the table happened to hold,
            privacy noise, and what stands in for answers: drawn rows, or the model's independence.
        measured_share: of each influence's variance, what measured marginals decide. Where it is
            too small for an interval, value, low and high are NaN.
    """

    names: Sequence[str]
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    fitted: np.ndarray
    sampling: np.ndarray
    noise: np.ndarray
    rows: np.ndarray
    measured_share: np.ndarray


class Statistic:
    """A quantity of one or more numbers on given combinations.

    Attributes:
        names: of the numbers.
        exact: whether the value is a ratio of means of functions, so that its distribution follows
            from the answers' without replaying the fit.
        limits: what the numbers lie between.
    """

    names: Sequence[str]
    exact: bool
    limits: tuple[float, float]

    def value(self, weights: np.ndarray) -> np.ndarray:
        """The numbers for weights that sum to one."""
        raise NotImplementedError

    def influence(self, weights: np.ndarray, value: np.ndarray) -> np.ndarray:
        """A row per combination and a column per number, of mean zero under these weights."""
        raise NotImplementedError

    def times(self, number: np.ndarray, *, whole: bool) -> Statistic:
        """The statistic of a table in which each combination stands for so many rows.

        Where it is a count, it is of so many ``whole`` rows.
        """
        raise NotImplementedError


class Question:
    """Something to estimate: its columns, and its statistic on combinations of their codes.

    What most questions do alike stands here; the errors of replays are studentised.

    Attributes:
        schema: of the table.
        columns: that it is about.
        scale: of the numbers.
        single: whether the statistic's numbers are read as one.
    """

    schema: Schema
    scale: Scale = "value"
    single: ClassVar[bool] = False

    if TYPE_CHECKING:  # a field, or computed

        @property
        def columns(self) -> tuple[str, ...]: ...

    @property
    def title(self) -> str:
        """The question in words."""
        raise NotImplementedError

    def on(self, cells: CodeCombinations) -> Statistic:
        """Its statistic."""
        raise NotImplementedError

    def conclude(self, problem: Problem, confidence: float, errors: np.ndarray | None) -> Estimates:
        """The estimates, from the errors of replays, if any."""
        return problem.conclude(confidence, errors)

    def printed(
        self, value: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What a fit on the synthetic rows prints, from the statistic's numbers there."""
        return value, low, high

    def replay_error(self, problem: Problem, replay: Evidence) -> np.ndarray:
        """The error on a replay with a model of its own."""
        return problem.replayed(replay)

    def linear_error(self, problem: Problem, drawn: Evidence) -> np.ndarray:
        """The error on a replay's answers, where nothing is fitted."""
        return problem.replayed(drawn)

    def linear_draws(self, problem: Problem, number: int, rng: np.random.Generator) -> np.ndarray:
        """Such errors of many replays, as their law has them: evenly, one row each."""
        del rng
        even = norm.ppf((np.arange(number) + 0.5) / number)
        spread = np.sqrt(problem.sampling + problem.noise) / np.maximum(problem.error, 1e-300)
        return np.outer(even / even.std(), spread)

    def rerun_error(
        self, problem: Problem, again: Evidence, rng: np.random.Generator
    ) -> np.ndarray:
        """The error on a release made again, with marginals of its own choice."""
        return problem.repeated(again, rng)


@dataclass(frozen=True)
class Ratios(Statistic):
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
    def pairwise(self) -> bool:
        """Whether each number is one ratio less another."""
        return bool((np.abs(self.contrast).sum(axis=1) == 2).all())

    def value(self, weights: np.ndarray) -> np.ndarray:
        return np.asarray(self.contrast @ self.ratios(weights))

    def influence(self, weights: np.ndarray, value: np.ndarray) -> np.ndarray:
        del value
        below = np.maximum(weights @ self.bottoms, 1e-12)
        return np.asarray(
            (self.tops - self.bottoms * self.ratios(weights)) / below @ self.contrast.T
        )

    def times(self, number: np.ndarray, *, whole: bool) -> Ratios:
        often = number[:, None]
        bottoms = self.bottoms if whole else self.bottoms * often
        limits = (self.limits[0], self.limits[1] * float(number.max())) if whole else self.limits
        return replace(self, tops=self.tops * often, bottoms=bottoms, limits=limits)

    def ratios(self, weights: np.ndarray) -> np.ndarray:
        """The ratios themselves."""
        return np.asarray(weights @ self.tops / np.maximum(weights @ self.bottoms, 1e-12))


@dataclass(frozen=True)
class Mean(Question):
    """The mean of a numeric column; of any other, the share of each of its values."""

    column: str
    schema: Schema

    @property
    def title(self) -> str:
        return f"mean {self.column}"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def on(self, cells: CodeCombinations) -> Statistic:
        names, tops, present, limits = outcomes(self.schema, self.column, cells)
        bottoms = np.repeat(present[:, None], len(names), axis=1)
        return Ratios(names, tops, bottoms, np.eye(len(names)), limits)

    def conclude(self, problem: Problem, confidence: float, errors: np.ndarray | None) -> Estimates:
        """With an interval that is wider by what bins hide of values' places inside them."""
        found = problem.conclude(confidence, errors)
        bins = problem.evidence.bins(self.column)
        if bins is None or bins.reach == 0:
            return found
        low, high = problem.statistic.limits
        return replace(
            found,
            low=np.maximum(found.low - bins.reach, low),
            high=np.minimum(found.high + bins.reach, high),
        )


@dataclass(frozen=True)
class Table(Question):
    """The share, or the number, of rows with every combination of values of some columns."""

    columns: tuple[str, ...]
    schema: Schema
    scale: Scale

    @property
    def title(self) -> str:
        return f"{self.scale} {' x '.join(self.columns)}"

    def on(self, cells: CodeCombinations) -> Statistic:
        shape = tuple(self.schema.column(c).size for c in self.columns)
        size = int(np.prod(shape))
        if size > MOST_TERMS:
            raise UsageError(
                f"{self.scale} ({', '.join(self.columns)}) must have at most {MOST_TERMS} cells, "
                f"not {size}"
            )
        labels = [self.schema.column(c).labels() for c in self.columns]
        names = [
            ", ".join(f"{c} = {v}" for c, v in zip(self.columns, values, strict=True))
            for values in itertools.product(*labels)
        ]
        keys = np.ravel_multi_index(tuple(cells.codes.T), shape)
        tops = (keys[:, None] == np.arange(size)).astype(float)
        return Ratios(names, tops, np.ones_like(tops), np.eye(size), (0.0, 1.0))


@dataclass(frozen=True)
class Difference(Question):
    """How far the mean (or shares) of one column differ between the values of another."""

    column: str
    by: str
    schema: Schema

    @property
    def title(self) -> str:
        return f"difference {self.column} by {self.by}"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column, self.by)

    def on(self, cells: CodeCombinations) -> Statistic:
        group = self.schema.column(self.by)
        labels = group.labels()[: group.size - group.nullable]
        if len(labels) < 2 or group.size > 60:
            raise UsageError(
                f"difference ({self.column} by {self.by}) must be by a column of 2 to 60 values"
            )
        outcomes_, tops, present, (low, high) = outcomes(self.schema, self.column, cells)
        own = cells.codes[:, cells.columns.index(self.by)][:, None] == np.arange(len(labels))
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
    schema: Schema, name: str, cells: CodeCombinations
) -> tuple[list[str], np.ndarray, np.ndarray, tuple[float, float]]:
    """The numbers that a column is averaged as: names, values, which rows have one, the range."""
    column = schema.column(name)
    place = cells.columns.index(name)
    if column.numeric:
        numbers = cells.frame[name].to_numpy(float)
        present = np.isfinite(numbers)
        values = np.where(present, numbers, 0.0)[:, None]
        return [name], values, present.astype(float), (float(column.lower), float(column.upper))  # type: ignore[union-attr]
    labels = column.labels()[: column.size - column.nullable]
    codes = cells.codes[:, place]
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
    """A column by its name, or by the first word of one; the error names one that may be meant."""
    if name in schema.names:
        return name
    starts = [own for own in schema.names if re.split(r"\W|_", own)[0] == name]
    if len(starts) == 1:
        return starts[0]
    close = difflib.get_close_matches(name, schema.names, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise UsageError(f"{what} ({name}) must be one of {', '.join(schema.names)}{hint}")


def read_difference(schema: Schema, text: str) -> Difference:
    """The question ``"income by sex"``."""
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
