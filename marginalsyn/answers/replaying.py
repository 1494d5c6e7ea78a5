"""Replays of a release, for what is not linear in its answers.

In a replay the model that was fitted is the truth: noisy marginals are drawn from it, a model is
fitted to these, and every estimate is computed again. The fit is what takes time, and to first
order it changes nothing: estimates are one step from the model to the answers. So a few replays are
fitted and computed in the linear form as well, from the answers alone. Where the two move together
the linear form takes over, with the shift and the spread that the fitted ones add (as a control
variate); where they do not, more replays are fitted, in the end all of them. The linear form needs
no replay of its own: its errors are normal with a covariance that is known.

Which marginals were measured depends on the table: those that looked strong in it. Replays take
them as given, but for a :class:`Rerun`: there the generator itself runs again on a table of its
model, with the budget and the options that the statement records, and makes its choices again. No
private row is read, and nothing is charged.

Answers that were bought with weights join a release's own: they are noisy marginals, too. The model
that is replayed is fitted to those about the columns in question, as far as it hardly grows by
them; all of them correct estimates. Weights that come from anything else cannot be replayed: they
are named, and not used.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.evidence import Evidence, Target
from marginalsyn.answers.noisy_marginals import NoisyMarginal
from marginalsyn.answers.regression import Risk
from marginalsyn.contract import Measurement, make_config
from marginalsyn.errors import UsageError
from marginalsyn.graphical import model as pgm
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import GDP, ZCDP, Pure
from marginalsyn.privacy.noise import make_noise
from marginalsyn.progress import Progress, Silent
from marginalsyn.release.folder import Release
from marginalsyn.release.linked import PersonsRelease, TableRelease
from marginalsyn.table.codec import Codec
from marginalsyn.table.keeping import with_followers
from marginalsyn.table.schema import Schema
from marginalsyn.weights.columns import check_bought, columns_of, read_bought

# A model that grows by more than this is not fitted again and again in good time.
_MOST_GROWTH = 1.25
# Weights of these methods do not come from noisy answers about the private rows.
_FREE = ("none",)
# What chooses marginals by the rows; the marginals of all others are public.
SELECTING = ("aim", "auto", "clique-tree", "mst", "privbayes")
# Options that name files of the curator's.
_FILES = ("workload", "marginals")


def join(
    evidence: Evidence, release: Release, wanted: Sequence[Collection[str]]
) -> tuple[Evidence, list[str]]:
    """The evidence with all answers that weights were bought with, and notes on them.

    ``wanted`` are the columns of every question.
    """
    columns = weight_methods(release)
    if not columns:
        return evidence, []
    raked = {name for name, (_, bought) in columns.items() if bought}
    notes = [
        f"the weights {name} ({method}) are not used: they come from no noisy marginals, so that "
        "they cannot be replayed; estimates are those of the release without them"
        for name, (method, bought) in columns.items()
        if not bought and method not in _FREE
    ]
    if not raked:
        return evidence, notes
    measured = []
    # Weights of linked tables are bought about persons with the first rows of each.
    persons = isinstance(release, TableRelease)
    weighted = PersonsRelease.read(release.path) if persons else release
    for one in read_bought(weighted):
        check_bought(one, weighted)
        own = (
            release.named(one.measurements)
            if isinstance(release, TableRelease)
            else one.measurements
        )
        # Those of columns that follow from others are left: the release's own say as much.
        measured += [m for m in own if m.columns and not {*m.columns} & {*evidence.followers}]
    joined = with_measured(evidence, measured, wanted)
    both = [name for name in sorted(raked) if columns[name][0] != "rake"]
    notes.append(
        f"{len(measured)} marginals that were bought for the weights {', '.join(sorted(raked))} "
        "are used as answers with the release's own"
        + (f"; what else made {', '.join(both)} is not" if both else "")
    )
    return joined, notes


def weight_methods(release: Release) -> dict[str, tuple[str, bool]]:
    """For every column of weights its method, and whether its answers were kept."""
    entries = columns_of(release)
    frame = release.weights()
    names = [] if frame is None else [str(name) for name in frame]
    files = release.statement.files
    return {
        name: (str(entries.get(name, {}).get("method", "unknown")), f"{name}.answers.json" in files)
        for name in names
    }


def raked_column(release: Release) -> str | None:
    """The column of weights that a naive fit would use here: one that answers stand behind."""
    return next((name for name, (_, bought) in weight_methods(release).items() if bought), None)


def with_measured(
    evidence: Evidence, measured: Sequence[Measurement], wanted: Sequence[Collection[str]] = ()
) -> Evidence:
    """The same release with more noisy marginals of its table, its model fitted again."""
    marginals = [
        replace(
            NoisyMarginal.of(m, evidence.compression, evidence.domain), fitted=False, bought=True
        )
        for m in measured
    ]

    own = [m.columns for m in evidence.marginals if m.fitted]
    limit = _MOST_GROWTH * pgm.model_mb(evidence.domain, own)
    kept = set()
    # A network's tables hold what it was made of; more answers correct estimates alone.
    for place, marginal in enumerate(() if evidence.structure.nodes else marginals):
        more = [*own, marginal.columns]
        if not any({*marginal.columns} <= {*columns} for columns in wanted):
            continue
        if pgm.model_mb(evidence.domain, more) <= limit:
            own = more
            kept.add(place)
    joined = tuple(
        replace(marginal, fitted=place in kept) for place, marginal in enumerate(marginals)
    )
    found = replace(evidence, marginals=(*evidence.marginals, *joined))
    return found.refitted() if kept else found


@dataclass(frozen=True)
class Rerun:
    """A generator with its options and its budget."""

    method: str
    options: dict[str, Any]
    budget: Budget
    schema: Schema

    @classmethod
    def of(cls, release: Release) -> Rerun | None:
        """The generator of a release; None where it chose nothing.

        Raises:
            UsageError: it cannot be run again from the release alone.
        """
        statement = release.statement
        if statement.generator not in SELECTING:
            return None
        files = [name for name in _FILES if statement.parameters.get(name)]
        if files:
            raise UsageError(
                f"whole (--whole) needs the file that the curator gave as {files[0]} "
                f"({statement.parameters[files[0]]}), which is not in a release: leave --whole away"
            )
        options = {**statement.parameters, "rows": 1}
        schema = release.schema
        if schema.unit is not None and schema.unit.max_rows == 1:
            schema = schema.with_unit(None)  # each row that is drawn is a person
        return cls(statement.generator, options, _budget(release), schema)

    def __call__(self, evidence: Evidence, target: Target, rng: np.random.Generator) -> Evidence:
        """The noisy marginals of a release of a table that was drawn from this one's model."""
        merged = (evidence.fitted.sample if target == "population" else evidence.fitted.rows)(
            evidence.rows, rng
        )
        codes = evidence.compression.refine(merged, rng)
        own = self.schema.without(evidence.followers)
        frame = with_followers(Codec(own).decode(codes, rng), self.schema, evidence.followers)
        unit = self.schema.unit
        if unit is not None:  # all rows of a person are alike here: how they differ is not known
            often = np.maximum(frame[unit.count].to_numpy(int), 1)
            frame = frame.drop(columns=unit.count).assign(**{unit.column: np.arange(len(frame))})
            frame = frame.loc[np.repeat(frame.index, often)].reset_index(drop=True)
        synthesis, statement = generate(
            PrivateTable.open(frame, self.schema),
            make_config(self.method, self.options),
            self.budget,
            noise=make_noise(int(rng.integers(2**31))),
            accept_nonprivate_schema=True,
        )
        assert synthesis.model is not None
        found = Evidence.read(
            synthesis.model, synthesis.measurements, self.schema, statement.neighbours
        )
        bought = [
            replace(m, values=evidence.count(merged, codes, m) + evidence.noise(m, rng))
            for m in evidence.marginals
            if m.bought
        ]
        return with_measured(found, bought) if bought else found


def _budget(release: Release) -> Budget:
    """What the generator had: its charges, without those of weights and bought bounds."""
    statement = release.statement
    own = [
        cost.cost
        for cost in statement.charges
        if cost.mechanism == statement.generator
        and (statement.family is None or cost.purpose == f"generate {statement.family.root}")
    ]
    if len(own) == 1 and isinstance(own[0], ZCDP):
        return Budget.of_rho(own[0].rho, statement.target_delta, statement.neighbours)
    if len(own) == 1 and isinstance(own[0], GDP):
        return Budget.of_mu(own[0].mu, statement.target_delta, statement.neighbours)
    if own and all(isinstance(cost, Pure) for cost in own):
        eps = sum(cost.eps for cost in own if isinstance(cost, Pure))
        return Budget(eps=eps, delta=statement.target_delta, neighbours=statement.neighbours)
    raise UsageError(
        f"whole (--whole) needs the budget of {statement.generator}, which the statement must name "
        "as one charge: leave --whole away"
    )


# So many replays are fitted before the linear form may take over, which it does where what the fit
# adds to an error has at most such a standard deviation, in the error's.
PILOTS = ((6, 0.2), (20, 0.5))
# What would take longer than these seconds goes to processes of their own.
_PATIENCE = 8.0

Errors = list[np.ndarray]
"""For every problem the studentised error of each number; of an excess risk, its value."""


@dataclass(frozen=True)
class _Task:
    """One replay: in the linear form, and fitted."""

    evidence: Evidence
    problems: tuple[Problem, ...]
    target: Target
    again: Rerun | None
    warm: bool

    def __call__(self, rng: np.random.Generator) -> tuple[Errors, Errors]:
        if self.again is not None:
            whole = self.again(self.evidence, self.target, rng)
            errors = [p.question.rerun_error(p, whole, rng) for p in self.problems]
            return errors, errors
        drawn = self.evidence.redrawn(self.target, rng)
        fitted = drawn.refitted(warm=self.warm)
        linear = [p.question.linear_error(p, drawn) for p in self.problems]
        return linear, [p.question.replay_error(p, fitted) for p in self.problems]


def replay(
    evidence: Evidence,
    problems: Sequence[Problem],
    target: Target,
    replicates: int,
    rng: np.random.Generator,
    *,
    refit: bool = False,
    again: Rerun | None = None,
    progress: Progress | None = None,
    jobs: int = 1,
) -> list[np.ndarray | None]:
    """The errors of replays for every problem that needs them, one row a replay.

    That is the studentised error of each number; of an excess risk, its value. Every replay has
    random numbers of its own, so that processes (``jobs``) change nothing. Problems that are linear
    in the answers need none. With ``refit`` a model is fitted in every replay, from the start, as
    the release did; ``again`` makes the whole release again, for every problem.
    """
    bent = [p for p in problems if again is not None or p.needs_replays]
    if not bent or not replicates:
        return [None] * len(problems)
    report = progress or Silent()
    task = _Task(evidence, tuple(bent), target, again, warm=not refit)
    streams = rng.spawn(replicates)
    errors = {p: p.question.linear_draws(p, replicates, rng) for p in bent}

    def given() -> list[np.ndarray | None]:
        return [errors.get(problem) for problem in problems]

    if again is None and not (refit or evidence.refits):
        return given()
    workers = _Workers(task, jobs)
    found = []

    def replay(asked: Sequence[np.random.Generator]) -> None:
        for pair in workers.run(asked):
            found.append(pair)
            report.report(
                "replay",
                fraction=len(found) / replicates,
                text=f"{len(found)} of {replicates} replicates",
            )

    pilots = () if refit or again is not None else PILOTS
    left = {problem: place for place, problem in enumerate(bent)}
    for number, most in pilots:
        replay(streams[len(found) : number])
        for problem, place in [*left.items()] if len(found) < replicates else ():
            low, high = (
                np.array([form[place] for form in forms]) for forms in zip(*found, strict=True)
            )
            if _agree(low, high, most):
                risk = isinstance(problem.question, Risk)
                errors[problem] = _carried(low, high, errors[problem], risk)
                del left[problem]
        if not left:
            return given()
    replay(streams[len(found) :])
    for problem, place in left.items():
        errors[problem] = np.array([fitted[place] for _, fitted in found])
    return given()


def _agree(low: np.ndarray, high: np.ndarray, most: float) -> bool:
    """Whether fits add little that the linear form does not know, beyond a shift and a scale."""
    spread = np.maximum(high.std(axis=0), 1e-12)
    rest = high - high.mean(axis=0) - _slope(low, high) * (low - low.mean(axis=0))
    return bool(np.all(rest.std(axis=0) <= most * spread))


def _slope(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    centred = low - low.mean(axis=0)
    square = np.maximum(np.square(centred).sum(axis=0), 1e-12)
    return np.asarray((centred * high).sum(axis=0) / square)


def _carried(low: np.ndarray, high: np.ndarray, every: np.ndarray, positive: bool) -> np.ndarray:
    """Errors of all replays in the linear form, with the mean and spread that fits have.

    ``low`` and ``high`` are the same replays' errors in the linear form and fitted: the spread of
    what the slope leaves adds to that of the linear form over all replays.
    """
    if positive:
        return every * (high.mean(axis=0) / np.maximum(low.mean(axis=0), 1e-300))
    slope = _slope(low, high)
    rest = high - slope * low
    centre, mean = every.mean(axis=0), rest.mean(axis=0) + slope * every.mean(axis=0)
    spread = np.maximum(every.std(axis=0), 1e-12)
    degrees = max(len(low) - 2, 1)
    left = np.square(rest - rest.mean(axis=0)).sum(axis=0) / degrees
    scale = np.sqrt(np.square(slope) + left / np.square(spread))
    return np.asarray(mean + scale * (every - centre))


class _Workers:
    """Runs a task here, or in processes where the first run shows that it takes long."""

    def __init__(self, task: _Task, jobs: int) -> None:
        self._task, self._jobs = task, jobs
        self._seconds = 0.0

    def run(self, streams: Sequence[np.random.Generator]) -> Iterator[tuple[Errors, Errors]]:
        """The results in the order of the streams."""
        left = list(streams)
        if left and not self._seconds:
            start = time.monotonic()
            yield self._task(left.pop(0))
            self._seconds = time.monotonic() - start
        if min(self._jobs, len(left)) < 2 or self._seconds * len(left) < _PATIENCE:
            yield from map(self._task, left)
            return
        # A new interpreter: libraries that were loaded here need not survive a fork.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(
            self._jobs, mp_context=context, initializer=_begin, initargs=(self._task,)
        ) as pool:
            try:
                yield from pool.map(_run, left)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


_given: list[_Task] = []


def _begin(task: _Task) -> None:
    """Start a process with its task; its parent handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _given[:] = [task]


def _run(stream: np.random.Generator) -> tuple[Errors, Errors]:
    return _given[0](stream)
