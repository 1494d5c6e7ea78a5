"""Estimates and intervals that answer questions from a release, with what a naive fit prints."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from marginalsyn.answers.code_combinations import CodeCombinations
from marginalsyn.answers.estimation import ANSWERED, Problem
from marginalsyn.answers.evidence import EACH, TARGETS, Each, Evidence, Target
from marginalsyn.answers.limits import Limits, limits_of, pair_bounds
from marginalsyn.answers.quantities import Estimates, Interval, Question, find_column, read_columns
from marginalsyn.answers.questions import read_question
from marginalsyn.answers.regression import Regression, Risk
from marginalsyn.answers.replaying import Rerun, join, raked_column, replay
from marginalsyn.answers.single_numbers import Quantile
from marginalsyn.answers.subgroups import difference_of, mean_of, table_of
from marginalsyn.contract import plain
from marginalsyn.errors import UsageError
from marginalsyn.progress import Progress
from marginalsyn.registry import part
from marginalsyn.release.folder import Release
from marginalsyn.release.linked import LinkedRelease, TableRelease
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema

NOT_MEASURED, NOTHING_KNOWN = "not measured by this release", "nothing known"
_EMPTY = (
    "of some groups nothing is known: by the noisy counts they may hold no row at all; ask for "
    "larger groups, or for their count"
)
REPLICATES = 200
# An interval that is narrower than this share of its ends follows from public margins alone.
_EXACT = 1e-6
# Of whole replays, each of which runs the generator.
WHOLE = 40

_ROWS = (
    "The release protects persons, and rows are counted here, as in its table: a person with many "
    "rows counts often (--each person counts each once). Replays draw persons; the rows of one are "
    "taken to be alike, so that the sampling part is at most what it is said to be"
)
_PERSONS = (
    "Every person counts once here, however many rows they have: shares and counts are of persons, "
    "and the sampling part is that of one row drawn of each, at most what it is"
)
_LINKED = (
    "The rows that are counted are those of {}, each of which is a person; of numbers of rows in "
    "other tables no more count than the schema's max_children"
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One estimated number.

    Attributes:
        question, term: what it is.
        estimate, low, high: the estimate and its interval; NaN where the release did not measure
            enough of the question for one.
        fitted: what the release's model shows.
        sampling, noise, rows: the shares of the variance that come from which rows the table
            happened to hold, from privacy noise, and from synthetic rows.
        naive, naive_low, naive_high: what a fit on the synthetic rows would have printed.
        measured_share: of what it rests on (its influence's variance), what was measured.
        down, up: how far ``fitted`` may move where pairs of columns were never measured together
            and are set to the extremes that the release allows; 0 where all were.
        notes: what readers should know.
        exact: whether it follows from public margins alone.
        error, z, p: the standard error that the interval stands for; of what would be 0 (a ratio:
            1) if there were nothing to find, how many of them it is away, and the p-value.
    """

    question: str
    term: str
    estimate: float
    low: float
    high: float
    fitted: float
    sampling: float
    noise: float
    rows: float
    naive: float
    naive_low: float
    naive_high: float
    measured_share: float
    down: float = 0.0
    up: float = 0.0
    notes: tuple[str, ...] = ()
    exact: bool = False
    error: float = math.nan
    z: float = math.nan
    p: float = math.nan

    @property
    def measured(self) -> bool:
        """Whether there is an interval, or the p-value of a test."""
        return not (math.isnan(self.low) and math.isnan(self.p))

    @property
    def why(self) -> str:
        """What to print where there is no interval."""
        return NOT_MEASURED if self.measured_share < ANSWERED else NOTHING_KNOWN

    @property
    def noise_adds(self) -> float:
        """How much wider the noise makes the interval, as a share; NaN where it is all there is."""
        return (1 - self.noise) ** -0.5 - 1 if self.noise < 1 else math.nan


@dataclass(frozen=True, kw_only=True)
class Answers:
    """All that was asked of a release.

    Attributes:
        answers: one for each number.
        target: what the intervals are for: the population that the table was drawn from, or the
            table.
        confidence: of each interval by itself.
        replicates: how many replays the nonlinear ones rest on.
        rows: the estimated number of what is counted.
        warnings: what readers should know of all answers.
        counted: private rows, or those of the population that survey weights stand for.
    """

    answers: tuple[Answer, ...]
    target: Target
    confidence: float
    replicates: int
    rows: int
    warnings: tuple[str, ...] = ()
    counted: str = "private rows"

    def frame(self) -> pd.DataFrame:
        """One row for each number."""
        return pd.DataFrame([asdict(answer) for answer in self.answers])

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return dict(plain(asdict(self)))

    def by_question(self) -> dict[str, list[Answer]]:
        """The answers to each question."""
        asked = dict[str, list[Answer]]()
        for answer in self.answers:
            asked.setdefault(answer.question, []).append(answer)
        return asked

    def summary(self) -> str:
        """A table for each question, as statsmodels prints one, and what privacy noise adds.

        Example:
            >>> print(Release.read("release").model("ill ~ age").summary())  # doctest: +SKIP
        """
        tail = (1 - self.confidence) / 2
        ends = f"[{tail:.3g}", f"{1 - tail:.3g}]"
        head = ["", "coef", "std err", "z", "P>|z|", *ends, "noise adds"]
        blocks = []
        for title, own in self.by_question().items():
            rows = [head, *(_line(answer) for answer in own)]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines = [
                "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
                for row in rows
            ]
            rule = max(map(len, lines))
            table = [title, "=" * rule, lines[0], "-" * rule, *lines[1:], "=" * rule]
            notes = dict.fromkeys(note for answer in own for note in answer.notes)
            blocks.append("\n".join([*table, *(f"* {note}" for note in notes)]))
        foot = (
            f"{100 * self.confidence:g}% intervals for the {self.target}, about {self.rows:,} "
            f"{self.counted}; noise adds: how much longer privacy noise makes the interval"
        )
        return "\n\n".join([*blocks, "\n".join([foot, *self.warnings])])

    __str__ = summary

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.summary())}</pre>"


def _line(answer: Answer) -> list[str]:
    """A line of a summary."""
    numbers = (answer.estimate, answer.error, answer.z, answer.p, answer.low, answer.high)
    shown = [
        "" if math.isnan(number) else f"{number:.3f}" if place in (2, 3) else f"{number:.4g}"
        for place, number in enumerate(numbers)
    ]
    if not answer.measured:
        return [answer.term, answer.why, *[""] * 6]
    added = "" if math.isnan(answer.noise_adds) else f"{100 * answer.noise_adds:+.0f}%"
    return [answer.term, *shown, added]


def estimate(
    release: Release | LinkedRelease,
    ask: str | Iterable[str] = (),
    *,
    model: str | Iterable[str] = (),
    mean: str | Iterable[str] = (),
    share: str | Iterable[str] = (),
    count: str | Iterable[str] = (),
    difference: str | Iterable[str] = (),
    quantile: Iterable[tuple[str, float]] = (),
    risk: str | Iterable[str] = (),
    target: Target = "population",
    confidence: float = 0.95,
    replicates: int | None = None,
    whole: bool = False,
    refit: bool = False,
    each: Each = "row",
    seed: int | None = None,
    progress: Progress | None = None,
    jobs: int = 1,
) -> Answers:
    """Estimate quantities of the private table, or of its population, from a release alone.

    It costs no privacy: nothing but the release is read.

    Args:
        release: made from noisy marginals; of linked tables the persons are meant, by the columns
            of their own table and the numbers of their rows in the tables below it.
        ask: questions, such as ``"mean(income) by region where age > 40"``; docs/analysts.md has
            the language.
        model: formulas, such as ``"income ~ age + sex"``: logistic if the label has two values,
            ordinal or multinomial if it has others, else linear.
        mean: columns; of one that is no number, the share of each value.
        share: columns, with commas between them: the share of each combination.
        count: as ``share``, in rows.
        difference: such as ``"income by sex"``.
        quantile: numeric columns, each with a share such as 0.5 for the median.
        risk: formulas as in ``model``: how much worse the model fitted to this release is expected
            to be, on the real rows, than the best of its form.
        target: ``population`` or ``table``.
        confidence: of each interval.
        replicates: replays of the release for what is not linear in its answers; 0 uses the
            linear form alone. By default 200, or 40 whole ones.
        whole: run the generator again in every replay, its private choices included, and for every
            question: how much the choice of marginals adds. It takes as long as so many releases.
        refit: fit a model in every replay, from the start. By default the linear form takes over
            after some, where it agrees with them.
        each: of a release that protects persons, what counts once: a ``row``, as in its table, or a
            ``person``.
        seed: of the replays; safe, as nothing private is drawn.
        progress: reports how far it is.
        jobs: so many processes, where replays take long; they change no result. A script that
            asks for several must guard what it runs with ``if __name__ == "__main__":``.

    Example:
        >>> from marginalsyn import Release
        >>> answers = estimate(Release.read("release"), mean="age", replicates=0)
        >>> answers.frame()[["term", "estimate"]].shape
        (1, 2)
    """
    if isinstance(release, LinkedRelease):
        release = TableRelease.of(release)
    if isinstance(release, TableRelease):
        asked = (ask, model, mean, share, count, difference, risk, [name for name, _ in quantile])
        _refuse_other_tables(release, [text for texts in asked for text in listed(texts)])
    times = (WHOLE if whole else REPLICATES) if replicates is None else replicates
    check(target, confidence, times)
    if whole and not times:
        raise UsageError("replicates (0) must be 20 or more with whole: it is made of replays")
    if each not in EACH:
        raise UsageError(f"each ({each}) must be one of {', '.join(EACH)}")
    rng = np.random.default_rng(seed)
    evidence, schema = read_evidence(release, each, rng), release.schema
    weighted = schema.survey_weight is not None
    target = "table" if weighted else target
    questions: list[Question] = [q for text in listed(ask) for q in read_question(text, schema)]
    for text in listed(mean):
        questions += [mean_of(name, schema) for name in read_columns(schema, text, "mean")]
    for kind, texts in (("share", share), ("count", count)):
        questions += [table_of(read_columns(schema, t, kind), schema, kind) for t in listed(texts)]  # type: ignore[arg-type]
    questions += [_read_difference(schema, text) for text in listed(difference)]
    questions += [
        Quantile(find_column(schema, name, "quantile"), level, schema) for name, level in quantile
    ]
    questions += [Regression(formula, schema) for formula in listed(model)]
    questions += [Risk(formula, schema) for formula in listed(risk)]
    if not questions:
        raise UsageError(
            "nothing was asked: give a question such as 'mean(age) by sex', or at least one of "
            "model, mean, share, count, quantile, difference, risk"
        )
    warnings = []
    again = Rerun.of(release) if whole else None
    if evidence.drift:
        warnings += _of_points(release)
    else:
        evidence, warnings = join(evidence, release, [q.columns for q in questions])
    if (unit := release.statement.persons) is not None and unit.max_rows > 1:
        warnings.append(_PERSONS if evidence.counted is None else _ROWS)
    if weighted:
        warnings.append(_SURVEY)
    if isinstance(release, TableRelease):
        warnings.append(_LINKED.format(release.schema.title))
    if whole and again is None:
        warnings.append(
            f"{release.statement.generator} chose no marginals by the rows: whole changes nothing"
        )
    problems = [Problem(evidence, question, target, rng) for question in questions]
    errors: list[np.ndarray | None] = [None] * len(problems)
    if isinstance(evidence, Evidence):
        errors = replay(
            evidence,
            problems,
            target,
            times,
            rng,
            refit=refit,
            again=again,
            progress=progress,
            jobs=jobs,
        )
    rows = SyntheticRows.read(release, raked_column(release))
    bounds = pair_bounds(release.statement.notes.get("bounds"))
    answers = []
    for problem, error in zip(problems, errors, strict=True):
        found = problem.question.conclude(problem, confidence, error)
        naive = naive_fit(problem, rows, confidence)
        answers += _answers(problem, found, naive, limits_of(problem, bounds), confidence)
    return Answers(
        answers=tuple(answers),
        target=target,
        confidence=confidence,
        replicates=times if any(e is not None for e in errors) else 0,
        rows=max(1, round(evidence.table_rows)),
        warnings=tuple(warnings),
        counted="rows of the weighted population" if weighted else "private rows",
    )


_SURVEY = (
    "counts are of the population that the survey weights stand for; intervals cover the privacy "
    "noise and not which rows were sampled: that is in replicate weights, which are not counted"
)


def _refuse_other_tables(release: TableRelease, asked: Sequence[str]) -> None:
    """Refuse questions about the rows of other tables than that of the persons."""
    known, root = {*release.schema.names}, release.table
    for table in release.linked.tree.tables[1:]:
        for column in table.columns:
            own = re.compile(rf"(?<![\w-])({re.escape(column.name)})(?![\w-])")
            if column.name not in known and any(map(own.search, asked)):
                names = ", ".join(release.schema.names)
                raise UsageError(
                    f"column ({column.name}) must be of {root} ({names}): "
                    f"it is of {table.name}, whose rows have no intervals. They were counted by "
                    "their shares of a person, first and later rows in views of their own, and are "
                    "drawn from both models in turn: how far such rows are off is not known from "
                    "the release alone"
                )


def read_evidence(release: Release, each: Each, rng: np.random.Generator) -> Any:
    """The noisy answers of a release.

    Raises:
        UsageError: it has no noisy answer whose error is known.
    """
    generator = release.statement.generator
    if reader := part(f"evidence of {generator}"):
        unit = release.statement.persons
        if unit is not None and unit.max_rows > 1 and each == "row":
            raise UsageError(
                f"each (row) must be person (--each person): the potential that {generator} "
                "released counts each person once, and does not tell how many rows they have"
            )
        return reader(release, rng)
    return Evidence.of(release, each)


def _of_points(release: Release) -> list[str]:
    """Warnings about estimates from support points."""
    found = [
        "the release consists of support points: what its noisy potential did not measure of a "
        "quantity is that of the points, and the interval lets the population differ from them "
        "there"
    ]
    if raked_column(release):
        found.append("the marginals that were bought for weights are not used with a potential")
    return found


def check(target: str, confidence: float, replicates: int) -> None:
    """Refuse what cannot be meant."""
    if target not in TARGETS:
        raise UsageError(f"target ({target}) must be one of {', '.join(TARGETS)}")
    if not 0.5 <= confidence <= 0.9999:
        raise UsageError(f"confidence ({confidence:g}) must be from 0.5 to 0.9999, such as 0.95")
    if not (replicates == 0 or 20 <= replicates <= 100_000):
        raise UsageError(
            f"replicates ({replicates}) must be 0, for the linear form alone, or 20 to 100,000"
        )


def listed(value: str | Iterable[str]) -> list[str]:
    """One text or several, as a list."""
    return [value] if isinstance(value, str) else list(value)


@dataclass(frozen=True)
class SyntheticRows:
    """Rows as a table, as codes, and each one's share of the whole."""

    frame: pd.DataFrame
    codes: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(
        cls, frame: pd.DataFrame, schema: Schema, weights: np.ndarray | None = None
    ) -> SyntheticRows:
        """Rows that count alike, or by their weights."""
        own = np.ones(len(frame)) if weights is None else np.asarray(weights, dtype=float)
        return cls(frame, Codec(schema).encode(frame), own / max(own.sum(), 1e-300))

    @classmethod
    def read(cls, release: Release, column: str | None) -> SyntheticRows:
        """The rows of a release, by a column of its weights."""
        frame = release.weights() if column else None
        weights = None if frame is None else frame[column].to_numpy(float)
        return cls.of(release.frame(), release.schema, weights)


def naive_fit(problem: Problem, rows: SyntheticRows, confidence: float) -> Interval:
    """Estimates and the ends of their intervals, as a fit on the synthetic rows prints them.

    Such a fit knows neither the noise nor that rows are made up.
    """
    question, schema = problem.question, problem.question.schema
    if problem.cells.shape is None:
        cells = CodeCombinations.of_rows(rows.frame, rows.codes, schema, question.columns)
        weights, squares = rows.shares, np.square(rows.shares)
    else:
        cells = CodeCombinations.grid(schema, question.columns)
        assert cells.shape is not None
        places = tuple(rows.codes[:, schema.names.index(c)] for c in question.columns)
        keys = np.ravel_multi_index(places, cells.shape)
        weights, squares = (
            np.bincount(keys, own, minlength=len(cells.codes))
            for own in (rows.shares, np.square(rows.shares))
        )
    statistic = question.on(cells)
    value = statistic.value(weights)
    error = np.sqrt(squares @ np.square(statistic.influence(weights, value)))
    half = float(norm.ppf(0.5 + confidence / 2)) * error
    size = problem.evidence.table_rows if question.scale == "count" else 1.0
    return question.printed((value * size, (value - half) * size, (value + half) * size))


def _answers(
    problem: Problem, found: Estimates, naive: Interval, limits: Limits, confidence: float
) -> list[Answer]:
    """One answer for each number of a question."""
    whole = np.maximum(found.sampling + found.noise + found.rows, 1e-300)
    numbers = {key: vars(found)[key] for key in ("low", "high", "fitted", "measured_share")}
    numbers |= {key: vars(found)[key] / whole for key in ("sampling", "noise", "rows")}
    numbers |= zip(("naive", "naive_low", "naive_high"), naive, strict=True)
    tested = _significance(problem.question.null, found, confidence)
    numbers |= zip(("estimate", "error", "z", "p"), (found.value, *tested), strict=True)
    # A question that is read as one number has the notes of all parts that it rests on.
    parts = problem.answered | np.isnan(found.value).any()
    every = tuple(dict.fromkeys(n for i in np.flatnonzero(parts) for n in limits.notes[i]))
    unknown = np.isnan(found.value) & (found.measured_share >= ANSWERED)
    single = problem.question.single
    width, size = found.high - found.low, np.maximum(abs(found.low), abs(found.high))
    # A quantile's interval has no width either where many rows have one value.
    exact = (width <= _EXACT * size) & np.array(not single)
    return [
        Answer(
            question=problem.question.title,
            term=name,
            exact=bool(exact[i]),
            down=0.0 if single else float(limits.down[i]),
            up=0.0 if single else float(limits.up[i]),
            notes=(*(every if single else limits.notes[i]), *((_EMPTY,) if unknown[i] else ())),
            **{key: float(own[i]) for key, own in numbers.items()},
        )
        for i, name in enumerate(found.names)
    ]


def _significance(
    null: float | None, found: Estimates, confidence: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Standard errors, how many of them the null is away, and p-values, as intervals have them."""
    sure = float(norm.ppf(0.5 + confidence / 2))
    error = (found.high - found.low) / 2 / sure
    nothing = np.full(len(error), np.nan)
    if found.p is not None or null is None:
        return error, nothing, nothing if found.p is None else found.p
    ends = np.array([found.value, found.low, found.high])
    if null == 1:  # a ratio, whose logarithm is as far from 0
        with np.errstate(divide="ignore"):
            ends, null = np.log(ends), 0.0
    # The side of the interval towards the null, so that it is outside where p says so.
    side = np.where(ends[0] > null, ends[0] - ends[1], ends[2] - ends[0]) / sure
    z = np.divide(ends[0] - null, side, out=nothing.copy(), where=side > 0)
    return error, z, 2 * norm.sf(np.abs(z))


def _read_difference(schema: Schema, text: str) -> Question:
    """The question ``"income by sex"``."""
    found = re.fullmatch(r"\s*(.+?)\s+by\s+(.+?)\s*", text)
    if not found:
        raise UsageError(
            f'difference ({text}) must read "COLUMN by COLUMN", such as "income by sex"'
        )
    column, by = (find_column(schema, part.strip("`"), "difference") for part in found.groups())
    if column == by:
        raise UsageError(f"difference ({text}) must name two columns")
    return difference_of(column, by, schema)
