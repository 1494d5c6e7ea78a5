"""Runs a case many times, in this process or in workers, within a shared budget of time."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import Duties
from marginalsyn.errors import MarginalsynError, PluginError
from marginalsyn.plugins.audit.canaries import (
    CANARIES,
    AuditCase,
    one_row_each,
    repeated,
    tables_of_persons,
)
from marginalsyn.plugins.audit.observations import (
    Observation,
    codes_of,
    of_error,
    of_synthesis,
    of_weights,
)
from marginalsyn.privacy.noise import Noise, make_noise
from marginalsyn.progress import Silent
from marginalsyn.records.ledger import Ledger
from marginalsyn.registry import GENERATORS

GUESSED = 0.1  # share of the canaries guessed to be in, and as many to be out
_CHUNK_SECONDS = 1.5
_MOST_CHUNK = 500
_THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")

Chunk = tuple[int, int | None]
"""How many runs, and the seed of the first."""


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

    from marginalsyn.host import generate

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
            from marginalsyn.host import generate

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


class Lab(Protocol):
    """Where batches are run."""

    @property
    def jobs(self) -> int: ...

    def gather(self, case: AuditCase, chunks: Iterable[Chunk]) -> Iterator[Batch]: ...


class Here:
    """This process."""

    jobs = 1

    def gather(self, case: AuditCase, chunks: Iterable[Chunk]) -> Iterator[Batch]:
        """Run the chunks one after the other; each is asked for when the last is done."""
        for runs, seed in chunks:
            yield run_batch(case, runs, seed)


class Workers:
    """Processes of their own, started afresh since neither jax nor TensorFlow survives a fork."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._pool = self._start()

    def gather(self, case: AuditCase, chunks: Iterable[Chunk]) -> Iterator[Batch]:
        """Keep every worker busy with a chunk until there are no more."""
        more = iter(chunks)
        waiting: set[Future[Batch]] = set()
        try:
            while True:
                while len(waiting) < self.jobs and (chunk := next(more, None)) is not None:
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
        self._pool.shutdown(cancel_futures=True)

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.jobs, mp_context=context, initializer=_begin)


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
    """This process for one job, else so many workers of one thread each; by default one a core."""
    count = jobs or len(os.sched_getaffinity(0))
    if count == 1:
        yield Here()
        return
    kept = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        workers = Workers(count)
        try:
            yield workers
        finally:
            workers.close()
    finally:
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


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
            yield size, _start(seed, start)

    for part in lab.gather(case, chunks()):
        batch.add(part)


def _start(seed: int | None, number: int) -> int | None:
    return None if seed is None else seed * 10**7 + number
