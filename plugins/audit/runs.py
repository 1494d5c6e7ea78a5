"""Runs a case many times, within a shared budget of time, and names what is seen of each run.

An outsider sees rows, measurements, model, notes and errors, each as named numbers. Everything that
may be published counts, and nothing else: a mechanism's ``diagnostics`` are the curator's own.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import Duties, LogWeights, Measurement, Synthesis
from marginalsyn.errors import MarginalsynError, PluginError
from marginalsyn.host import generate
from marginalsyn.plugins.audit.canaries import (
    CANARIES,
    AuditCase,
    one_row_each,
    repeated,
    tables_of_persons,
)
from marginalsyn.privacy.noise import Noise, make_noise
from marginalsyn.progress import Silent
from marginalsyn.records.ledger import Ledger
from marginalsyn.registry import GENERATORS
from marginalsyn.release.statement import Statement
from marginalsyn.table.numeric import NumberColumn
from marginalsyn.table.schema import Schema

Observation = dict[str, float]

MOST_CELLS = 64
"""Larger arrays are seen through their sum and this many public random combinations."""
LIKELIHOOD = "likelihood"
"""The name of the score that knows both tables."""
GUESSED = 0.1  # share of the canaries guessed to be in, and as many to be out
_CHUNK_SECONDS = 1.5
_MOST_CHUNK = 500
_THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")

Chunk = tuple[int, int | None]
"""How many runs, and the seed of the first."""


def flatten(value: Any, name: str, into: Observation) -> None:
    """Add every number of a JSON-like value or array under its path; a text counts as its hash."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            flatten(part, f"{name}.{key}", into)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        _flatten_array(value, name, into)
    elif isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes):
        into[f"{name}.length"] = float(len(value))
        for number, part in enumerate(value[:MOST_CELLS]):
            flatten(part, f"{name}[{number}]", into)
    elif isinstance(value, bool | int | float | np.number):
        into[name] = _finite(float(value))
    elif value is not None:
        into[name] = float(zlib.crc32(str(value).encode()))


def _flatten_array(values: np.ndarray, name: str, into: Observation) -> None:
    flat = np.nan_to_num(np.asarray(values, dtype=float).ravel(), posinf=1e300, neginf=-1e300)
    into[f"{name}.size"] = float(flat.size)
    if flat.size > MOST_CELLS:
        into[f"{name}.sum"] = float(flat.sum())
        into[f"{name}.largest"] = float(flat.max())
        into[f"{name}.least"] = float(flat.min())
        public = np.random.default_rng(flat.size)
        flat = public.standard_normal((MOST_CELLS, flat.size)) @ flat
    into.update((f"{name}[{number}]", float(cell)) for number, cell in enumerate(flat))


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.copysign(1e300, value)


def codes_of(frame: pd.DataFrame, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """Codes and places in [0, 1] of rows of numeric columns without missing values.

    As the codec has them, which takes a hundred times longer on rows as few as these.
    """
    codes, places = [], []
    for column in schema.columns:
        assert isinstance(column, NumberColumn)
        values = frame[column.name].to_numpy(dtype=float)
        low, high = float(column.lower), float(column.upper)
        places.append(np.clip((values - low) / max(high - low, 1e-300), 0.0, 1.0))
        found = np.searchsorted(np.asarray(column.edges, dtype=float), values, side="right") - 1
        codes.append(np.clip(found, 0, column.size - 1))
    return np.stack(codes, axis=1).astype(np.int64), np.stack(places, axis=1)


def of_frame(frame: pd.DataFrame, schema: Schema, into: Observation) -> None:
    """How many rows, how many of each code and set of codes, and where the numbers lie."""
    codes, places = codes_of(frame, schema)
    sizes = list(schema.domain.values())
    into["rows"] = float(len(frame))
    for axis, size in enumerate(sizes):
        flatten(np.bincount(codes[:, axis], minlength=size), f"count[{axis}]", into)
        place = places[:, axis]
        if place.size:
            flatten(np.array([place.mean(), place.min(), place.max()]), f"place[{axis}]", into)
    if math.prod(sizes) <= MOST_CELLS:
        flat = np.ravel_multi_index(tuple(codes.T), sizes)
        flatten(np.bincount(flat, minlength=math.prod(sizes)), "count", into)


def likelihood(
    measurements: Iterable[Measurement], tables: tuple[np.ndarray, np.ndarray], schema: Schema
) -> float:
    """The log likelihood ratio of noisy marginals: the best score where the noise is Gaussian.

    Args:
        measurements: what a run released.
        tables: the codes of the two neighbouring tables.
        schema: of both.
    """
    total, sizes = 0.0, schema.domain
    for measured in measurements:
        shape = [sizes[column] for column in measured.columns]
        values = np.asarray(measured.values, dtype=float)
        if values.shape != tuple(shape) and values.size != math.prod(shape):
            continue  # of merged codes
        axes = [schema.names.index(column) for column in measured.columns]
        exact = []
        for codes in tables:
            cells = np.zeros(shape)
            np.add.at(cells, tuple(codes[:, axis] for axis in axes), 1.0)
            exact.append(cells.reshape(values.shape))
        gaps = (values - exact[0]) ** 2 - (values - exact[1]) ** 2
        total += float(np.sum(gaps / (2.0 * np.square(measured.sigma))))
    return total


def of_synthesis(
    synthesis: Synthesis,
    statement: Statement,
    schema: Schema,
    tables: tuple[np.ndarray, np.ndarray],
) -> Observation:
    """All that a release holds of one run of a generator."""
    seen: Observation = {}
    of_frame(synthesis.frame, schema, seen)
    if synthesis.measurements:
        seen[LIKELIHOOD] = likelihood(synthesis.measurements, tables, schema)
    for measured in synthesis.measurements:
        name = "noisy " + ",".join(measured.columns)
        flatten(np.asarray(measured.values), name, seen)
    if synthesis.model is not None:
        flatten(dict(synthesis.model.arrays), "model", seen)
        flatten(dict(synthesis.model.meta), "model", seen)
    flatten(statement.notes, "notes", seen)
    flatten(list(statement.warnings), "warnings", seen)
    flatten(list(statement.payments), "payments", seen)
    return seen


def of_weights(found: LogWeights, payments: Sequence[Mapping[str, Any]]) -> Observation:
    """All that a release would hold of one run of a weight estimator."""
    seen: Observation = {}
    flatten(np.asarray(found.values), "log-weight", seen)
    flatten(dict(found.notes), "notes", seen)
    flatten(list(found.warnings), "warnings", seen)
    flatten(list(payments), "payments", seen)
    return seen


def of_error(error: BaseException) -> Observation:
    """A run that failed: its message is seen, too."""
    seen = {"failed": 1.0}
    flatten(str(error), "error", seen)
    return seen


def matrix(
    observations: Sequence[Sequence[Observation]],
) -> tuple[list[str], list[np.ndarray]]:
    """Groups of observations as arrays over the same columns; what some runs lack gets a column.

    Returns:
        The names of the columns, and one array of (runs, columns) per group.
    """
    runs = [seen for group in observations for seen in group]
    names = list(dict.fromkeys(name for seen in runs for name in seen))
    lacking = [name for name in names if any(name not in seen for seen in runs)]
    columns = [*names, *(f"has {name}" for name in lacking)]
    arrays = [
        np.array(
            [
                [
                    *(seen.get(name, 0.0) for name in names),
                    *(float(name in seen) for name in lacking),
                ]
                for seen in group
            ]
        ).reshape(len(group), len(columns))
        for group in observations
    ]
    return columns, arrays


@dataclass
class Batch:
    """What some runs gave: observations of either table, or guesses and how many were right.

    ``mechanisms`` are the names of the payments; ``seconds`` is what the last run on each table
    took.
    """

    observations: tuple[list[Observation], list[Observation]] = field(
        default_factory=lambda: ([], [])
    )
    runs: int = 0
    guesses: int = 0
    right: int = 0
    failed: int = 0
    reason: str = ""
    mechanisms: set[str] = field(default_factory=set)
    seconds: float = 0.0

    def add(self, other: Batch) -> None:
        """Put another batch of the same case to this one."""
        for mine, more in zip(self.observations, other.observations, strict=True):
            mine.extend(more)
        self.runs += other.runs
        self.guesses += other.guesses
        self.right += other.right
        self.failed += other.failed
        self.reason = self.reason or other.reason
        self.mechanisms |= other.mechanisms
        self.seconds = other.seconds or self.seconds

    def fail(self, error: Exception) -> None:
        """Count a run that failed, and keep the reason of the first."""
        self.failed += 1
        ours = isinstance(error, MarginalsynError)
        self.reason = self.reason or (str(error) if ours else type(error).__name__).splitlines()[0]


def run_batch(case: AuditCase, runs: int, seed: int | None = None) -> Batch:
    """Run a case ``runs`` times on each of its tables, or with as many draws of canaries.

    Args:
        case: the mechanism and its tables.
        runs: how often.
        seed: of the first run, for a repeatable audit; the noise is the operating system's if None.
    """
    batch = Batch()
    run = _guess if case.one_run else _observe
    for number in range(runs):
        started = time.monotonic()
        run(case, batch, None if seed is None else seed + number)
        batch.runs += 1
        batch.seconds = time.monotonic() - started
    return batch


def _observe(case: AuditCase, batch: Batch, seed: int | None) -> None:
    """One run on either table."""
    bench = _bench(case)
    for side, seen in enumerate(batch.observations):
        noise = make_noise(None if seed is None else 2 * seed + side)
        try:
            found, payments = bench.run(side, noise)
            batch.mechanisms |= {str(payment.get("mechanism")) for payment in payments}
        except Exception as error:
            found = of_error(error)
            batch.fail(error)
        seen.append(found)


def _guess(case: AuditCase, batch: Batch, seed: int | None) -> None:
    """Run once on a table of canaries, each included by a coin flip; guess the clearest ones."""
    import pandas as pd

    coins = np.random.default_rng(seed)
    put = coins.random(CANARIES) < 0.5
    who = np.flatnonzero(put)
    frame = pd.DataFrame({"who": who, "c": np.zeros(who.size, dtype=int)})
    table = PrivateTable.open(repeated(frame) if case.persons else frame, case.public)
    try:
        synthesis, statement = generate(
            table, case.config, case.budget, noise=make_noise(seed), progress=Silent()
        )
    except Exception as error:
        batch.fail(error)
        return
    batch.mechanisms |= {str(payment.get("mechanism")) for payment in statement.payments}
    scores = np.zeros(CANARIES)
    for measured in synthesis.measurements:
        values = np.asarray(measured.values, dtype=float)
        if "who" in measured.columns and values.size % CANARIES == 0:
            axis = measured.columns.index("who")
            if values.ndim == len(measured.columns) and values.shape[axis] == CANARIES:
                others = tuple(a for a in range(values.ndim) if a != axis)
                cells = values.size / CANARIES * np.mean(np.square(measured.sigma))
                scores += values.sum(axis=others) / cells
    drawn = synthesis.frame["who"].to_numpy(dtype=int)
    scores += 1e-6 * np.bincount(np.clip(drawn, 0, CANARIES - 1), minlength=CANARIES)
    order = np.argsort(scores + 1e-12 * coins.random(CANARIES))
    each = int(GUESSED * CANARIES)
    batch.guesses += 2 * each
    batch.right += int(put[order[-each:]].sum() + (~put[order[:each]]).sum())


class Bench:
    """A case set up in this process: its tables are opened once."""

    def __init__(self, case: AuditCase) -> None:
        self.case = case
        relation, frames = case.neighbours, case.tables
        if case.persons:
            frames = tables_of_persons(frames, relation)
        self.tables = [
            PrivateTable.open(frame, case.public, neighbours=relation) for frame in frames
        ]
        if case.persons:
            frames = tuple(one_row_each(frame, case.public) for frame in frames)
        first, second = (codes_of(frame, case.public)[0] for frame in frames)
        self.codes = (first, second)

    def run(self, side: int, noise: Noise) -> tuple[Observation, list[dict[str, Any]]]:
        """One run: what is seen of it, and what was paid for."""
        case, table = self.case, self.tables[side]
        table.ledger = Ledger(None)
        if case.group == GENERATORS:
            synthesis, statement = generate(
                table, case.config, case.budget, noise=noise, progress=Silent()
            )
            seen = of_synthesis(synthesis, statement, case.public, self.codes)
            return seen, list(statement.payments)
        estimator = case.mechanism
        counted = case.persons and Duties(case.config).counts_persons
        with table.charge(estimator.cost, noise=noise, delta=case.delta, persons=counted) as visit:
            found = estimator(visit, progress=Silent())
            if problem := found.problem(len(case.rows_to_weight.frame)):
                raise PluginError(f"method '{case.config.name}' broke its contract: {problem}")
            return of_weights(found, visit.payments), visit.payments


@lru_cache(maxsize=256)
def _bench(case: AuditCase) -> Bench:
    return Bench(case)


class Lab:
    """Where batches are run: this process for one job, else processes of one thread each.

    These are started afresh, since neither jax nor TensorFlow survives a fork.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool = self._start() if jobs > 1 else None

    def gather(self, case: AuditCase, chunks: Iterable[Chunk]) -> Iterator[Batch]:
        """Run chunks until there are no more; every worker is kept busy with one."""
        if self._pool is None:
            for runs, seed in chunks:  # each is asked for when the last is done
                yield run_batch(case, runs, seed)
            return
        more = iter(chunks)
        waiting: set[Future[Batch]] = set()
        try:
            while True:
                while len(waiting) < self._jobs and (chunk := next(more, None)) is not None:
                    waiting.add(self._pool.submit(run_batch, case, *chunk))
                if not waiting:
                    return
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        except BrokenProcessPool:
            self._pool.shutdown(wait=False)
            self._pool = self._start()
            yield Batch(failed=1, reason="the process that ran it died")

    def close(self) -> None:
        """End the processes when they have finished what they are at."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._jobs, mp_context=context, initializer=_begin)


def _begin() -> None:
    """Start a worker: its parent handles Ctrl-C, and what libraries print is dropped."""
    import logging
    import signal
    import warnings

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


@contextmanager
def laboratory(jobs: int | None = None) -> Iterator[Lab]:
    """A place for so many jobs; by default one a core."""
    count = jobs or len(os.sched_getaffinity(0))
    kept = {name: os.environ.get(name) for name in _THREADS}
    if count > 1:
        os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        with closing(Lab(count)) as lab:
            yield lab
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def extend(
    batch: Batch,
    case: AuditCase,
    lab: Lab,
    *,
    seed: int | None,
    runs: int | None,
    until: float,
    clock: Callable[[], float],
) -> None:
    """Add runs to a batch until there are ``runs`` or the clock says ``until``."""
    asked = batch.runs

    def chunks() -> Iterator[Chunk]:
        nonlocal asked
        while clock() < until and (runs is None or asked < runs):
            # A first run alone tells what a run takes; no chunk outlasts the time that is left.
            seconds = min(_CHUNK_SECONDS, until - clock()) if batch.seconds else 0.0
            size = max(1, min(int(seconds / max(batch.seconds, 1e-4)), _MOST_CHUNK))
            if runs is not None:
                size = min(size, runs - asked)
            start, asked = asked, asked + size
            yield size, None if seed is None else seed * 10**7 + start

    for part in lab.gather(case, chunks()):
        batch.add(part)
