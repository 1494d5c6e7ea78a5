"""What a question is, and the quantities that most of them estimate.

Every question becomes a *statistic* on combinations of codes: its value for weights of these, and
the influence of each of them on it, which is its derivative in that combination's weight.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from scipy.stats import norm

from marginalsyn.answers.code_combinations import Bins, CodeCombinations, inside
from marginalsyn.errors import UsageError
from marginalsyn.table.schema import Schema
from marginalsyn.validation import like

if TYPE_CHECKING:
    from marginalsyn.answers.estimation import Problem
    from marginalsyn.answers.evidence import Evidence

Scale = Literal["share", "count", "value"]
Interval = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Estimates and the two ends of their intervals, an entry for each number."""
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
        p: of a test, the chance of such a statistic if there is nothing to find.
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
    p: np.ndarray | None = None


@dataclass(frozen=True)
class Mask:
    """A condition on rows: which codes of a column meet it, or which share of a bin's values."""

    column: str
    weights: np.ndarray

    @property
    def key(self) -> tuple[str, bytes]:
        """What it is known by."""
        return self.column, self.weights.tobytes()

    @property
    def cuts(self) -> np.ndarray:
        """The codes of which some values meet it and others do not."""
        return (self.weights > 0) & (self.weights < 1)

    def moved(self, bins: Bins, end: int) -> Mask:
        """The same where bins that are cut give the least or the most that their density allows."""
        levels = len(bins.factor)
        weights = self.weights.copy()
        own = self.cuts[:levels]
        weights[:levels][own] = inside(weights[:levels][own], bins.factor[own])[end]
        return Mask(self.column, weights)


def members(masks: Sequence[Mask], cells: CodeCombinations) -> np.ndarray:
    """The share of each combination's rows that meets all conditions."""
    found = np.ones(len(cells.codes))
    for mask in masks:
        own = cells.cut.setdefault(mask.key, mask) if mask.cuts.any() else mask
        found = found * own.weights[cells.codes[:, cells.columns.index(mask.column)]]
    return found


class Statistic:
    """A quantity of one or more numbers on given combinations.

    Attributes:
        names: of the numbers.
        exact: whether the value is a ratio of means of functions, so that its distribution follows
            from the answers' without replaying the fit.
        limits: what the numbers lie between.
    """

    names: Sequence[str]
    exact: ClassVar[bool] = False
    limits: tuple[float, float] = (-np.inf, np.inf)

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
        averaged: those of them whose numbers count, and not only their bins.
        grouping: those whose values make groups of rows.
        scale: of the numbers.
        single: whether the statistic's numbers are read as one.
        null: what each number is if there is nothing to find: a coefficient of 0, a ratio of 1.
    """

    text: str
    schema: Schema
    scale: Scale = "value"
    single: ClassVar[bool] = False
    averaged: tuple[str, ...] = ()
    grouping: tuple[str, ...] = ()
    null: float | None = None

    if TYPE_CHECKING:  # a field, or computed

        @property
        def columns(self) -> tuple[str, ...]: ...

    @property
    def title(self) -> str:
        """The question in words, which is its text unless it is made of parts."""
        return self.text

    @property
    def about(self) -> str:
        """What notes call it: the question, with the group that it is for if it has one alone."""
        return self.title

    def on(self, cells: CodeCombinations) -> Statistic:
        """Its statistic."""
        raise NotImplementedError

    def hidden(self, problem: Problem) -> np.ndarray:
        """How far values' places in their bins may move each number down and up, a row each."""
        return np.zeros((2, len(problem.value)))

    def conclude(self, problem: Problem, confidence: float, errors: np.ndarray | None) -> Estimates:
        """The estimates, from the errors of replays, if any, and what bins hide."""
        found = problem.conclude(confidence, errors)
        moved = problem.cut_reach() + self.hidden(problem) * problem.size
        if not moved.any():
            return found
        low, high = (end * problem.size for end in problem.statistic.limits)
        return replace(
            found,
            low=np.maximum(found.low - moved[0], low),
            high=np.minimum(found.high + moved[1], high),
        )

    def printed(self, found: Interval) -> Interval:
        """What a fit on the synthetic rows prints, from the statistic's numbers there, if any."""
        return (np.array([np.nan]),) * 3 if self.single else found

    def replay_error(self, problem: Problem, replay: Evidence) -> np.ndarray:
        """The studentised error on a replay, whose truth is the problem's model."""
        weights = replay.weights(problem.cells)
        value = problem.stepped(replay, problem.statistic.value(weights), weights)
        spread = np.sqrt(problem.sampling_of(weights) + problem.noise + problem.rows)
        return np.asarray((value - problem.fitted) / np.maximum(spread, 1e-300))

    def linear_error(self, problem: Problem, drawn: Evidence) -> np.ndarray:
        """The error on a replay's answers, where nothing is fitted."""
        return self.replay_error(problem, drawn)

    def linear_draws(self, problem: Problem, number: int, rng: np.random.Generator) -> np.ndarray:
        """Such errors of many replays, as their law has them: evenly, one row each."""
        del rng
        even = norm.ppf((np.arange(number) + 0.5) / number)
        spread = np.sqrt(problem.sampling + problem.noise) / np.maximum(problem.error, 1e-300)
        return np.outer(even / even.std(), spread)

    def rerun_error(
        self, problem: Problem, again: Evidence, rng: np.random.Generator
    ) -> np.ndarray:
        """The studentised error on a release made again, with marginals of its own choice."""
        other = type(problem)(again, self, problem.target, rng)
        error = np.maximum(other.error * other.size, 1e-300)
        return np.asarray((other.value * other.size - problem.fitted * problem.size) / error)


@dataclass(frozen=True)
class Ratios(Statistic):
    """Differences of ratios of means: ``contrast`` times (mean of tops / mean of bottoms).

    Attributes:
        inside: the range of each ratio.
        quotient: whether a ratio is divided by another, and not subtracted from it.
        small: whether bottoms may be so small that their noise counts.
    """

    exact = True

    names: Sequence[str]
    tops: np.ndarray
    bottoms: np.ndarray
    contrast: np.ndarray
    limits: tuple[float, float] = (-np.inf, np.inf)
    inside: tuple[float, float] = (-np.inf, np.inf)
    quotient: bool = False
    small: bool = False

    def value(self, weights: np.ndarray) -> np.ndarray:
        ratios = self.ratios(weights)
        if self.quotient:
            first, second = self.contrast.argmax(axis=1), self.contrast.argmin(axis=1)
            return np.asarray(ratios[first] / np.maximum(ratios[second], 1e-12))
        return np.asarray(self.contrast @ ratios)

    def influence(self, weights: np.ndarray, value: np.ndarray) -> np.ndarray:
        ratios = self.ratios(weights)
        below = np.maximum(weights @ self.bottoms, 1e-12)
        own = (self.tops - self.bottoms * ratios) / below
        if self.quotient:
            return np.asarray(own / np.maximum(ratios, 1e-12) @ self.contrast.T * value)
        return np.asarray(own @ self.contrast.T)

    def times(self, number: np.ndarray, *, whole: bool) -> Ratios:
        often = number[:, None]
        bottoms = self.bottoms if whole else self.bottoms * often
        limits = (self.limits[0], self.limits[1] * float(number.max())) if whole else self.limits
        return replace(self, tops=self.tops * often, bottoms=bottoms, limits=limits)

    def ratios(self, weights: np.ndarray) -> np.ndarray:
        """The ratios themselves."""
        return np.asarray(weights @ self.tops / np.maximum(weights @ self.bottoms, 1e-12))


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
    known = f"{', '.join(schema.names)}{like(name, schema.names)}"
    raise UsageError(f"{what} ({name}) must be one of {known}")
