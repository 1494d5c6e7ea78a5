"""Questions to a release, answered: estimates, their intervals, and the naive fit beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from marginalsyn.answers.atoms import Atoms
from marginalsyn.answers.estimation import Estimates, Problem
from marginalsyn.answers.evidence import TARGETS, Evidence, Target
from marginalsyn.answers.quantities import simple
from marginalsyn.answers.regression import Regression
from marginalsyn.contract import plain
from marginalsyn.errors import UsageError
from marginalsyn.progress import Progress, Silent
from marginalsyn.table import Codec

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.release import Release

REPLICATES = 200


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One estimated number.

    Attributes:
        question, term: what it is.
        estimate, low, high: the estimate and its interval.
        fitted: what the release's model shows.
        sampling, noise, rows: the shares of the variance that come from which rows the table
            happened to hold, from privacy noise, and from synthetic rows.
        naive, naive_low, naive_high: what a fit on the synthetic rows would have printed.
        told: the share of the influence's variance that measured marginals tell.
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
    told: float
    notes: tuple[str, ...] = ()


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
    target: Target = "population",
    confidence: float = 0.95,
    replicates: int = REPLICATES,
    seed: int | None = None,
    progress: Progress | None = None,
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
        target: ``population`` or ``table``.
        confidence: of each interval.
        replicates: replays of the release for what is not linear in its answers; 0 uses the
            linear form alone.
        seed: of the replays; safe, as nothing private is drawn.
        progress: told how far it is.

    Example:
        >>> from marginalsyn import Release
        >>> answers = estimate(Release.read("release"), mean="age", replicates=0)
        >>> answers.frame()[["term", "estimate"]].shape
        (1, 2)
    """
    check(target, confidence, replicates)
    evidence, rng = Evidence.of(release), np.random.default_rng(seed)
    schema = release.schema
    questions = simple(
        schema,
        mean=listed(mean),
        share=listed(share),
        count=listed(count),
        difference=listed(difference),
    )
    questions += [Regression(formula, schema) for formula in listed(model)]
    if not questions:
        raise UsageError(
            "nothing was asked: give at least one of model, mean, share, count, difference"
        )
    problems = [Problem(evidence, question, target, rng) for question in questions]
    errors = replay(evidence, problems, target, replicates, rng, progress or Silent())
    frame = release.frame()
    codes = Codec(schema).encode(frame)
    answers: list[Answer] = []
    for problem, error in zip(problems, errors, strict=True):
        found = problem.conclude(confidence, error)
        answers += _answers(problem, found, naive_of(problem, frame, codes, confidence))
    return Answers(
        answers=tuple(answers),
        target=target,
        confidence=confidence,
        replicates=replicates if any(e is not None for e in errors) else 0,
        rows=evidence.rows,
    )


def replay(
    evidence: Evidence,
    problems: Sequence[Problem],
    target: Target,
    replicates: int,
    rng: np.random.Generator,
    progress: Progress,
) -> list[np.ndarray | None]:
    """The studentised errors of every problem that needs replays, one row a replay."""
    bent = [problem for problem in problems if problem.needs_replays]
    found: dict[int, list[np.ndarray]] = {id(problem): [] for problem in bent}
    for done in range(replicates if bent else 0):
        progress.report(
            "replay", fraction=done / replicates, text=f"{done} of {replicates} replicates"
        )
        again = evidence.replay(target, rng)
        for problem in bent:
            found[id(problem)].append(problem.replayed(again))
    return [np.array(found[id(p)]) if replicates and p.needs_replays else None for p in problems]


def naive_of(
    problem: Problem, frame: pd.DataFrame, codes: np.ndarray, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """What a fit on the synthetic rows prints: estimates and half-widths of their intervals."""
    atoms, statistic, schema = problem.atoms, problem.statistic, problem.evidence.schema
    if atoms.shape is None:
        atoms = Atoms.of_rows(frame, codes, schema, atoms.columns)
        statistic = problem.question.on(atoms)
        weights = np.full(len(codes), 1.0 / len(codes))
    else:
        places = tuple(codes[:, schema.names.index(c)] for c in atoms.columns)
        keys = np.ravel_multi_index(places, atoms.shape)
        weights = np.bincount(keys, minlength=len(atoms.codes)) / len(codes)
    value = statistic.value(weights)
    influence = statistic.influence(weights, value)
    error = np.sqrt(weights @ np.square(influence) / len(codes))
    z = float(norm.ppf(0.5 + confidence / 2))
    return value * problem.size, z * error * problem.size


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
    problem: Problem, found: Estimates, naive: tuple[np.ndarray, np.ndarray]
) -> list[Answer]:
    """One answer for each number of a question."""
    whole = np.maximum(found.sampling + found.noise + found.rows, 1e-300)
    centre, half = naive
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
            naive_low=float(centre[i] - half[i]),
            naive_high=float(centre[i] + half[i]),
            told=float(found.told[i]),
        )
        for i, name in enumerate(found.names)
    ]
