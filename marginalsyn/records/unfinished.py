"""Runs that were charged and interrupted: their journals and cards in the workspace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from marginalsyn.errors import LedgerError
from marginalsyn.records.charge_records import Entry
from marginalsyn.records.journal import Journal
from marginalsyn.records.ledger import Ledger

FOLDER = "journals"
# Facts of a run that may differ when it goes on.
_FREE = {"version", "day", "post"}


class RunRecord(BaseModel):
    """The curator's own note of a run. It is never published.

    Attributes:
        id: of the charge in the ledger.
        command: ``generate``, ``weight``, ...
        run: its name in the ledger.
        source: the source's identity, without a password.
        started: when.
        ledger: the ledger's file.
        trace: tells whether the source has changed since; None where nothing can.
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


@dataclass(frozen=True)
class UnfinishedRun:
    """A run that was charged and has not ended, with the number of its answers."""

    card: RunRecord
    answers: int
    path: Path

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

    Args:
        workspace: the folder ``.marginalsyn``.
        command: of this kind only.
        source: of this source only.
    """
    found = []
    for file in (Path(workspace) / FOLDER).glob("*.json"):
        path = file.with_suffix(".journal")
        try:
            card = RunRecord.model_validate_json(file.read_text(encoding="utf-8"))
            answers = len(Journal.read(path))
        except (OSError, ValidationError, LedgerError):
            continue
        if (command or card.command, card.command) != (card.command, command or card.command):
            continue
        if source is not None and source != card.source:
            continue
        if _going_on(file.with_suffix(".lock")):
            continue
        if answers or not card.ledger or charged(Ledger(card.ledger), card.id):
            found.append(UnfinishedRun(card, answers, path))
    return sorted(found, key=lambda run: (run.card.started, run.path.stat().st_mtime_ns))


def charged(ledger: Ledger, id: str) -> Entry | None:
    """The charge of this id in the ledger; None where it holds none."""
    return next((entry for entry in ledger.read().entries if entry.id == id), None)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The facts that are not the same."""
    names = [name for name in {**before, **now} if name not in _FREE]
    return [name for name in names if before.get(name) != now.get(name)]


def nothing_like(folder: Path, known: Sequence[Journal], facts: Mapping[str, Any]) -> str:
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


def _going_on(lock: Path) -> bool:
    """Whether a process works on the run."""
    probe = FileLock(lock, timeout=0)
    try:
        with probe:
            return False
    except Timeout:
        return True
    except OSError:
        return False
