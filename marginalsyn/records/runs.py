"""Runs that were charged and have not ended: their paid answers, and how they are resumed.

Of each run there are two files, named by its charge. The journal is an SQLite file that holds what
the run is (public), and every answer of its noise in order, with a fingerprint of the public
question. It never holds what would subtract to exact numbers: no private value, no lot, no key, no
stream that protects, no tape. Whoever reads it learns what readers of all answers may learn, which
is what the charge is for; the seed in it is that of post-processing, which draws from the answers
alone. (A seeded run's own seed is there as well: that run protects nobody.)

The card is for the curator alone: it says how the source is read again and how to find out whether
it has changed. Both files are gone once the run has ended well.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from marginalsyn.errors import LedgerError, MarginalsynError, UsageError, reason_of
from marginalsyn.records.entries import Entry
from marginalsyn.records.ledger import Ledger
from marginalsyn.records.ledger_file import is_busy, open_file, transaction, write_bytes

FOLDER = "journals"
# Facts of a run that may differ when it goes on.
_FREE = {"version", "day", "post"}


@dataclass(frozen=True)
class Answer:
    """One answer: a noisy result that a run has paid for.

    Attributes:
        question: the fingerprint of the question's public part, see
            :func:`marginalsyn.records.runs.fingerprint`.
        value: the noisy values that the mechanism received.
        laws: how many draws were recorded under each law.
        libraries: the libraries that had taken part by then, and what they did.
    """

    question: str
    value: np.ndarray
    laws: Mapping[str, int]
    libraries: Mapping[str, str] = field(default_factory=dict)


class Journal:
    """The file of one run: its public facts, then its answers.

    One process has it open at a time.

    Attributes:
        path: the file, named by the id of the run's charge.
        facts: what the run is; all of it public.
        sealed: whether the ledger records that all answers are drawn: then there is no other one.

    Example:
        >>> journal = Journal.create(Path("7c1d.journal"), {"method": "mst"})
        >>> journal.append(Answer("8f1c", np.array([3, 1]), {}))
        >>> journal.close()
        >>> Journal.read(Path("7c1d.journal")).answer(0).value
        array([3, 1])
    """

    def __init__(
        self, path: Path, db: sqlite3.Connection, facts: Mapping[str, Any], answers: int
    ) -> None:
        self.path, self.facts = path, dict(facts)
        self._db, self._answers = db, answers
        self.sealed = False

    @classmethod
    def create(cls, path: Path, facts: Mapping[str, Any]) -> Journal:
        """A new file; its facts are on the disk when this returns.

        Raises:
            OSError: the file cannot be made.
            sqlite3.Error: it cannot be written.
        """
        path.touch(0o600, exist_ok=False)
        db = open_file(path, alone=True, wait=5.0)
        made = cls(path, db, facts, 0)
        with transaction(db):
            db.execute(
                "CREATE TABLE records "
                "(number INTEGER PRIMARY KEY, head TEXT, body BLOB, digest BLOB)"
            )
            made._write(0, {"facts": made.facts}, b"")
        return made

    @classmethod
    def read(cls, path: Path, *, wait: float = 0.0) -> Journal:
        """The journal of a run that ended early.

        Raises:
            LedgerError: the file cannot be read or trusted.
            UsageError: another process is working on the run.
        """
        db = None
        try:
            db = open_file(path, alone=True, wait=wait)
            made = cls(path, db, {}, -1)
            for (number,) in db.execute("SELECT number FROM records ORDER BY number"):
                made._answers += 1
                if number != made._answers:
                    raise ValueError("an answer is missing")
                made._read(number)
            made.facts = dict(made._read(0)[0]["facts"])
            return made
        except (sqlite3.Error, ValueError, KeyError) as error:
            if db is not None:
                db.close()
            if is_busy(error):
                raise UsageError(
                    f"run ({path.stem}) cannot be resumed while another process is working on it; "
                    "wait until that one ends"
                ) from None
            raise LedgerError(_distrust(path, str(error))) from error

    def __len__(self) -> int:
        """The number of answers."""
        return self._answers

    def answer(self, number: int) -> Answer:
        """One of the answers; the first is number 0."""
        try:
            head, body = self._read(number + 1)
        except (sqlite3.Error, ValueError) as error:
            raise LedgerError(_distrust(self.path, str(error))) from error
        stored = np.frombuffer(body, dtype=head["stored"]).reshape(head["shape"])
        value = stored.astype(head["type"])
        return Answer(head["question"], value, head["laws"], head["libraries"])

    def append(self, answer: Answer) -> None:
        """Append an answer; it is on disk when this returns.

        Raises:
            LedgerError: it cannot be written; then it must not be shown to anybody.
        """
        if self.sealed:
            raise LedgerError(
                f"journal ({self.path}) must hold every answer of its run, which the ledger says "
                "was complete, but one is lacking: begin a new run, which is charged"
            )
        stored = _narrow(answer.value)
        head = {
            "question": answer.question,
            "laws": dict(answer.laws),
            "libraries": dict(answer.libraries),
            "shape": list(answer.value.shape),
            "type": answer.value.dtype.str,
            "stored": stored.dtype.str,
        }
        try:
            self._write(self._answers + 1, head, np.ascontiguousarray(stored).tobytes())
        except sqlite3.Error as error:
            raise LedgerError(
                f"journal ({self.path}) must be writable, but an answer could not be written: "
                f"{reason_of(error)}. The answer was not used: free some space, then resume the run"
            ) from error
        self._answers += 1

    def close(self) -> None:
        """Let other processes resume the run."""
        self._db.close()

    def _write(self, number: int, head: Mapping[str, Any], body: bytes) -> None:
        text = json.dumps(head)
        row = (number, text, body, _digest(text, body))
        self._db.execute("INSERT INTO records VALUES (?, ?, ?, ?)", row)

    def _read(self, number: int) -> tuple[dict[str, Any], bytes]:
        rows = self._db.execute(
            "SELECT head, body, digest FROM records WHERE number = ?", (number,)
        ).fetchall()
        if not rows:
            raise ValueError("it has no whole record")
        ((text, body, found),) = rows
        if not isinstance(text, str) or found != _digest(text, body):
            raise ValueError("a record has changed")
        return json.loads(text), body


class RunRecord(BaseModel):
    """The curator's own note of a run. It is never published.

    Attributes:
        id: of the charge in the ledger.
        command: ``generate``, ``weight``, ...
        run: its name in the ledger.
        source: the source's identity, without a password.
        started: when.
        ledger: the ledger's file.
        trace: shows whether the source has changed since; None where nothing can.
        salt: what picked the held-out rows.
        options: the command's options by name.
        stopped: whether the run stopped by itself after its first counts, and charged no more.
        taken: the numbers by which the ledger knows that this workspace may go on with it.
    """

    model_config = ConfigDict(extra="forbid")

    id: str
    command: str
    run: str
    source: str
    started: str
    ledger: str
    trace: str | None = None
    salt: str = ""
    options: dict[str, Any] = Field(default_factory=dict)
    stopped: bool = False
    taken: list[str] = Field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Write it into the folder of journals, whole or not at all."""
        write_bytes(folder / f"{self.id}.json", self.model_dump_json(indent=2).encode())


@dataclass(frozen=True)
class UnfinishedRun:
    """A run that was charged and has not ended, with its public facts and number of answers."""

    card: RunRecord
    answers: int
    path: Path
    facts: Mapping[str, Any]

    @property
    def again(self) -> str:
        """The command that goes on with it."""
        return f"marginalsyn {self.card.command} --resume{' --go-on' * self.card.stopped}"

    @property
    def lost(self) -> bool:
        """Whether another copy of the workspace has gone on with it, so that this one cannot."""
        try:
            now = Ledger(self.card.ledger or None).read().progress.get(self.card.id)
        except LedgerError:
            return False
        return now is not None and (now.by not in self.card.taken or now.state == "ended")

    def __str__(self) -> str:
        state = "stopped after its first counts" if self.card.stopped else "charged"
        return (
            f"{self.card.run} of {self.card.started.replace('T', ' ').rstrip('Z')} UTC, {state}, "
            f"{self.answers} answers kept"
        )


def interrupted(
    workspace: str | Path, *, command: str | None = None, source: str | None = None
) -> list[UnfinishedRun]:
    """The runs that were charged and neither ended nor are going on, the latest last.

    All of a workspace, the folder ``.marginalsyn``, or those of one command or source.
    """
    found = []
    for file in (Path(workspace) / FOLDER).glob("*.json"):
        path = file.with_suffix(".journal")
        try:
            card = RunRecord.model_validate_json(file.read_bytes())
            if command not in (None, card.command) or source not in (None, card.source):
                continue
            # This fails where a process is working on the run.
            with closing(Journal.read(path)) as journal:
                run = UnfinishedRun(card, len(journal), path, journal.facts)
        except (OSError, ValueError, MarginalsynError):
            continue
        if run.answers or not card.ledger or charged(Ledger(card.ledger), card.id):
            found.append(run)
    return sorted(found, key=lambda run: (run.card.started, run.path.stat().st_mtime_ns))


def forget(folder: Path, id: str) -> None:
    """Delete what is kept of a run: nothing can go on with it, and its charge stays."""
    for suffix in (".json", ".journal", ".journal-wal"):
        (folder / f"{id}{suffix}").unlink(missing_ok=True)


def charged(ledger: Ledger, id: str) -> Entry | None:
    """The charge of this id in the ledger; None where it holds none."""
    return next((entry for entry in ledger.read().entries if entry.id == id), None)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The facts that are not the same."""
    names = [name for name in {**before, **now} if name not in _FREE]
    return [name for name in names if before.get(name) != now.get(name)]


def nothing_like(folder: Path, known: Sequence[UnfinishedRun], facts: Mapping[str, Any]) -> str:
    """The error message where no interrupted run has these facts."""
    if not known:
        return (
            "resume must have an interrupted run to go on with: there is none of this source in "
            f"{folder.parent}; leave it out to begin a new run, which is charged"
        )
    before = known[-1].facts
    other = differences(before, facts)
    shown = [n for n in other if n != "charges"] or other
    said = "; ".join(f"{n} was {_short(before.get(n))}, is {_short(facts.get(n))}" for n in shown)
    return f"options must be those of the interrupted run, or left out: {said}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _digest(text: str, body: bytes) -> bytes:
    return hashlib.blake2b(text.encode() + b"\n" + body, digest_size=16).digest()


def _narrow(value: np.ndarray) -> np.ndarray:
    """Whole numbers in as few bytes as they take."""
    if value.dtype.kind != "i" or not value.size:
        return value
    # The kind of a negative number has room for as large ones above nought, less one.
    return value.astype(np.min_scalar_type(min(int(value.min()), -1 - int(value.max()))))


def _distrust(path: Path, what: str) -> str:
    return (
        f"journal ({path}) must be whole to go on with its run: {what}; restore the file, or give "
        "the run up by deleting it"
    )
