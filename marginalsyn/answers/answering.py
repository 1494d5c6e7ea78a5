"""Questions to a release, answered: estimates, their intervals, and the naive fit beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.answers.atoms import table_rows
from marginalsyn.answers.estimation import Estimates, Problem
from marginalsyn.answers.evidence import EACH, TARGETS, Each, Evidence, Target
from marginalsyn.answers.fields import FieldEvidence
from marginalsyn.answers.joining import join, raked_column
from marginalsyn.answers.limits import Limits, bin_reach, limits_of, pair_bounds
from marginalsyn.answers.naive import SyntheticRows, naive_fit
from marginalsyn.answers.quantiles import Quantile
from marginalsyn.answers.quantities import find_column, simple
from marginalsyn.answers.regression import Regression
from marginalsyn.answers.replaying import replay
from marginalsyn.answers.rerun import Rerun
from marginalsyn.answers.risk import Risk
from marginalsyn.answers.risk import conclude as conclude_risk
from marginalsyn.answers.telling import read
from marginalsyn.contract import plain
from marginalsyn.errors import UsageError
from marginalsyn.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.release.folder import Release

REPLICATES = 200
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

    @property
    def measured(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.low)


@dataclass(frozen=True, kw_only=True)
class Answers:
    """All that was asked of a release.

    Attributes:
        answers: one for each number.
        target: what the intervals are for: the population that the table was drawn from, or the
            table.
        confidence: of each interval by itself.
        replicates: how many replays the nonlinear ones rest on.
        rows: the estimated number of private rows.
        warnings: what readers should know of all answers.
    """

    answers: tuple[Answer, ...]
    target: Target
    confidence: float
    replicates: int
    rows: int
    warnings: tuple[str, ...] = field(default=())

    def frame(self) -> pd.DataFrame:
        """One row for each number."""
        import pandas as pd

        return pd.DataFrame([asdict(answer) for answer in self.answers])

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return dict(plain(asdict(self)))


def estimate(
    release: Release,
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
        release: made from noisy marginals.
        model: formulas, such as ``"income ~ age + sex"``: logistic if the label has two values,
            else linear.
        mean: columns; of those that are no numbers, the share of each value.
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
        progress: told how far it is.
        jobs: so many processes, where replays take long; they change no result. A script that
            asks for several must guard what it runs with ``if __name__ == "__main__":``.

    Example:
        >>> from marginalsyn import Release
        >>> answers = estimate(Release.read("release"), mean="age", replicates=0)
        >>> answers.frame()[["term", "estimate"]].shape
        (1, 2)
    """
    times = (WHOLE if whole else REPLICATES) if replicates is None else replicates
    check(target, confidence, times)
    if whole and not times:
        raise UsageError("replicates (0) must be 20 or more with whole: it is made of replays")
    if each not in EACH:
        raise UsageError(f"each ({each}) must be one of {', '.join(EACH)}")
    rng = np.random.default_rng(seed)
    evidence, schema = read(release, each, rng), release.schema
    questions = simple(
        schema,
        mean=listed(mean),
        share=listed(share),
        count=listed(count),
        difference=listed(difference),
    )
    questions += [
        Quantile(find_column(schema, name, "quantile"), level, schema) for name, level in quantile
    ]
    questions += [Regression(formula, schema) for formula in listed(model)]
    questions += [Risk(formula, schema) for formula in listed(risk)]
    if not questions:
        raise UsageError(
            "nothing was asked: give at least one of model, mean, share, count, quantile, "
            "difference, risk"
        )
    warnings: list[str] = []
    if isinstance(evidence, FieldEvidence):
        warnings += _of_points(release)
    else:
        evidence, warnings = join(evidence, release, [q.columns for q in questions])
    if (unit := release.statement.persons) is not None and unit.max_rows > 1:
        warnings.append(_PERSONS if evidence.counted is None else _ROWS)
    problems = [Problem(evidence, question, target, rng) for question in questions]
    again = Rerun.of(release) if whole else None
    if whole and again is None:
        warnings.append(
            "nothing of support points is replayed: whole changes nothing"
            if isinstance(evidence, FieldEvidence)
            else f"{release.statement.generator} chose no marginals by the rows: a whole replay is "
            "a replay"
        )
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
    answers: list[Answer] = []
    for problem, error in zip(problems, errors, strict=True):
        found = conclude(problem, confidence, error)
        answers += _answers(
            problem, found, naive_fit(problem, rows, confidence), limits_of(problem, bounds)
        )
    return Answers(
        answers=tuple(answers),
        target=target,
        confidence=confidence,
        replicates=times if any(e is not None for e in errors) else 0,
        rows=max(1, round(table_rows(evidence))),
        warnings=tuple(warnings),
    )


def _of_points(release: Release) -> list[str]:
    """What is to be said of estimates from support points."""
    found = [
        "the release holds support points: what its noisy potential does not tell of a quantity is "
        "that of the points, and the interval lets the population differ from them there"
    ]
    if raked_column(release):
        found.append("the marginals that were bought for weights are not used beside a potential")
    return found


def conclude(problem: Problem, confidence: float, errors: np.ndarray | None) -> Estimates:
    """The estimates of a question, as it reads them."""
    question = problem.question
    if isinstance(question, Risk):
        return conclude_risk(problem, confidence, [] if errors is None else errors[:, 0].tolist())
    found = problem.conclude(confidence, errors)
    if reach := bin_reach(problem):
        low, high = problem.statistic.limits
        found = replace(
            found, low=np.maximum(found.low - reach, low), high=np.minimum(found.high + reach, high)
        )
    return question.read(found) if isinstance(question, Quantile) else found


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


def _answers(
    problem: Problem,
    found: Estimates,
    naive: tuple[np.ndarray, np.ndarray, np.ndarray],
    limits: Limits,
) -> list[Answer]:
    """One answer for each number of a question."""
    whole = np.maximum(found.sampling + found.noise + found.rows, 1e-300)
    centre, bottom, top = naive
    return [
        Answer(
            question=problem.question.title,
            term=name,
            estimate=float(found.value[i]),
            low=float(found.low[i]),
            high=float(found.high[i]),
            fitted=float(found.fitted[i]),
            sampling=float(found.sampling[i] / whole[i]),
            noise=float(found.noise[i] / whole[i]),
            rows=float(found.rows[i] / whole[i]),
            naive=float(centre[i]),
            naive_low=float(bottom[i]),
            naive_high=float(top[i]),
            measured_share=float(found.measured_share[i]),
            **_limits(problem, limits, i),
        )
        for i, name in enumerate(found.names)
    ]


def _limits(problem: Problem, limits: Limits, number: int) -> dict[str, Any]:
    """What a number cannot know; a question read as one number has all that its parts have."""
    if isinstance(problem.question, Quantile | Risk):
        every = dict.fromkeys(note for notes in limits.notes for note in notes)
        return {"notes": tuple(every)}
    return {
        "down": float(limits.down[number]),
        "up": float(limits.up[number]),
        "notes": limits.notes[number],
    }
