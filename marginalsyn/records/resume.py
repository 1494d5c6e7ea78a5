"""What a run pays for, kept until the run has ended and repeated when it goes on."""

from __future__ import annotations

import errno
import json
import secrets
import sqlite3
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from marginalsyn.contract import plain
from marginalsyn.errors import DataError, LedgerError, UsageError, reason_of
from marginalsyn.privacy.composition import compose
from marginalsyn.records.entries import now
from marginalsyn.records.ledger import Ledger
from marginalsyn.records.runs import (
    FOLDER,
    Journal,
    RunRecord,
    UnfinishedRun,
    charged,
    differences,
    forget,
    interrupted,
    nothing_like,
)
from marginalsyn.records.workspace import Workspace, WorkspaceError

if TYPE_CHECKING:
    from marginalsyn.privacy.charges import Charge
    from marginalsyn.privacy.noise import Noise

# A folder that is somebody else's; a full disk is another matter.
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)


class RunRecorder:
    """Keeps what a run pays for until it ends, or resumes a run that was interrupted.

    Args:
        workspace: the folder ``.marginalsyn``.
        command: what kind of run it is.
        source: the source's identity; see :func:`marginalsyn.records.workspace.identify`.
        resume: resume an interrupted run.
        id: of that run; without one, the last run with the same facts.
        again: how a user goes on with this run, in words.
        insist: how a user goes on with it where it stopped by itself.
        go_on: do not stop where columns would waste the budget; a run with the same options that
            stopped there goes on.
        salt: what picks the held-out rows.
        options: of the command, so that it can be given again.
        warn: is called with what the user should know; a Python warning by default.

    Example:
        >>> from marginalsyn.contract import make_config
        >>> from marginalsyn.host import generate
        >>> from marginalsyn.access.private_table import PrivateTable
        >>> from marginalsyn.release.folder import Release
        >>> table = PrivateTable.open(frame, schema)
        >>> noise, config = make_noise(), make_config("independent")
        >>> with RunRecorder("unfinished", command="generate", source="people.csv") as recorder:
        ...     budget = Budget(eps=1)
        ...     made, statement = generate(table, config, budget, noise=noise, recorder=recorder)
        ...     release = Release.write(made, schema, statement, "new-release")
        ...     recorder.finish()
    """

    def __init__(
        self,
        workspace: str | Path,
        *,
        command: str,
        source: str = "",
        resume: bool = False,
        id: str = "",
        again: str = "",
        insist: str = "",
        go_on: bool = False,
        salt: str = "",
        options: Mapping[str, Any] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.folder = Path(workspace) / FOLDER
        self.command, self.source, self.resume, self.id = command, source, resume, id
        self.again = again or f"marginalsyn {command} --resume"
        self.insist = insist or f"{self.again} --go-on"
        self.salt, self.options, self.go_on = salt, dict(options or {}), go_on
        self.journal: Journal | None = None
        self._facts: dict[str, Any] = {}
        self._warn = warn or _warn
        self._card: RunRecord | None = None
        self._ledger: Ledger | None = None
        # The number by which the ledger knows who works on the run.
        self._by = secrets.token_hex(8)
        if go_on and not resume:
            self._take_up()

    def describe(self, **facts: Any) -> None:
        """Say what the run is: public facts, the same when it goes on."""
        self._facts = json.loads(json.dumps(plain(facts)))

    def read_facts(self) -> dict[str, Any]:
        """The facts of the run that is to go on, which must be named by its id."""
        journal = Journal.read(self._file(".journal"))
        journal.close()
        return journal.facts

    @property
    def day(self) -> date | None:
        """The day on which the run began, for its statement."""
        return date.fromisoformat(self.journal.facts["day"]) if self.journal else None

    @property
    def advice(self) -> str:
        """How to resume, for an error message; empty if nothing is kept."""
        if self.journal is None:
            return ""
        return (
            f"Its {len(self.journal)} answers so far are kept: '{self.again}' goes on from there "
            "at no further charge."
        )

    def start(
        self,
        ledger: Ledger,
        charges: Sequence[Charge],
        *,
        noise: Noise,
        trace: str | None,
        run: str,
        split: str = "",
        **about: Any,
    ) -> Journal | None:
        """Charge the ledger and begin a journal, or find both there; None where none can be kept.

        The journal is there before the charge, so that no charge is without one; a journal whose
        charge was never made counts for nothing. ``about`` goes to :meth:`Ledger.charge`.
        """
        facts = {
            **self._facts,
            "command": self.command,
            "source": self.source,
            "charges": [charge.model_dump(mode="json") for charge in charges],
            # A run with a seed protects nobody.
            "seed": None if noise.private else noise.post_seed,
            # The seed of post-processing, which is drawn separately from all that protects.
            "post": f"{noise.post_seed:x}",
            "version": version("marginalsyn"),
            "day": datetime.now(UTC).date().isoformat(),
        }
        if self.resume:
            self._ledger = ledger
            self.journal = self._found(ledger, facts, trace, split)
            return self.journal
        self.id = secrets.token_hex(8)
        card = RunRecord(
            id=self.id,
            command=self.command,
            run=run,
            source=self.source,
            started=now(),
            ledger=str(ledger.path.resolve()) if ledger.path is not None else "",
            trace=trace,
            salt=self.salt,
            options=self.options,
            taken=[self._by],
        )
        try:
            self._begin(card, facts)
        except BaseException:
            self.finish()
            raise
        try:
            ledger.charge(
                charges,
                run=run,
                id=self.id,
                seeded=not noise.private,
                split=split,
                taken=self._by if self.journal is not None else "",
                **about,
            )
        except BaseException:
            if charged(ledger, self.id) is None:
                self.finish()
            raise
        self._ledger = ledger
        return self.journal

    @property
    def may_stop(self) -> bool:
        """Whether the run may stop by itself, because it can be taken up again."""
        return self.journal is not None and not self.go_on

    def pause(self, ledger: Ledger, spent: Sequence[Charge]) -> None:
        """Stop the run: its answers are kept, and the ledger counts what they cost and no more."""
        # The card first: a run that is called stopped and counts in full can go on, too.
        self._write_card(stopped=True)
        assert self.journal is not None
        ledger.advance(self.id, [self._by], self._by, len(self.journal), "taken", spent)

    def seal(self, state: Literal["drawn", "ended"] = "drawn") -> None:
        """Record that all answers are drawn, before anything is made of them.

        Raises:
            LedgerError: a copy of the workspace goes on with the run, or has ended it.
        """
        if self.journal is not None and self._ledger is not None:
            self._ledger.advance(self.id, [self._by], self._by, len(self.journal), state)
            self.journal.sealed = True

    def finish(self) -> None:
        """End the run and delete its journal and card."""
        sealed = self.journal is not None and self.journal.sealed
        # A run whose answers are all drawn can only repeat them: no need to fail for the record.
        with suppress(LedgerError) if sealed else nullcontext():
            self.seal("ended")
        self.close()
        self.journal = None
        if self.id:
            forget(self.folder, self.id)

    def close(self) -> None:
        """Close the run's files; what it has paid for is kept."""
        if self.journal is not None:
            self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_up(self) -> None:
        """Find the run with these options that stopped by itself, if there is one."""
        runs = interrupted(self.folder.parent, command=self.command, source=self.source)
        alike = [run.card for run in runs if run.card.stopped and not run.lost]
        alike = [card for card in alike if card.options == json.loads(json.dumps(self.options))]
        if alike:
            self.resume, self.id, self.salt = True, alike[-1].id, alike[-1].salt

    def _write_card(self, **changes: Any) -> None:
        assert self._card is not None
        self._card = self._card.model_copy(update=changes)
        self._card.write(self.folder)

    def _file(self, suffix: str) -> Path:
        return self.folder / f"{self.id}{suffix}"

    def _begin(self, card: RunRecord, facts: Mapping[str, Any]) -> None:
        """Make the run's files; none where the folder is somebody else's."""
        try:
            Workspace(self.folder.parent).make(FOLDER)
            self.journal = Journal.create(self._file(".journal"), facts)
            self._card = card
            card.write(self.folder)
        except (OSError, sqlite3.Error, WorkspaceError) as error:
            if self.journal is not None:
                self.finish()
            cause = error.__cause__ if isinstance(error, WorkspaceError) else error
            if isinstance(cause, OSError) and cause.errno in _CLOSED:
                self._warn(
                    f"answers cannot be kept in {self.folder} ({cause.strerror}): what this run "
                    "spends is lost if it is interrupted"
                )
                return
            raise LedgerError(
                f"workspace ({self.folder.parent}) must be writable, to keep what is paid for: "
                f"{reason_of(cause or error)}; nothing was spent"
            ) from error

    def _found(
        self, ledger: Ledger, facts: Mapping[str, Any], trace: str | None, split: str
    ) -> Journal:
        """The journal of the interrupted run with these facts."""
        runs = interrupted(self.folder.parent, command=self.command, source=self.source)
        runs = [run for run in runs if self.id in ("", run.card.id)]
        same = [run for run in runs if not differences(run.facts, facts)]
        if not same:
            raise UsageError(nothing_like(self.folder, runs, facts))
        run = same[-1]
        self.id = run.card.id
        journal = Journal.read(run.path, wait=1.0)
        try:
            # Read again now that no other process works on the run.
            self._card = RunRecord.model_validate_json(self._file(".json").read_bytes())
            run = replace(run, card=self._card)
            self._check_same(run, ledger, trace, split)
            self.salt = run.card.salt
            # The card first: were the number in the ledger alone, nobody could go on after a crash.
            # It keeps the earlier ones, which the ledger never takes again once they are replaced.
            self._write_card(taken=[*run.card.taken, self._by])
            now = ledger.advance(self.id, run.card.taken, self._by, len(journal))
            journal.sealed = now.state == "drawn"
            if run.card.stopped:
                self._write_card(stopped=False)
        except BaseException:
            journal.close()
            raise
        return journal

    def _check_same(
        self, run: UnfinishedRun, ledger: Ledger, trace: str | None, split: str
    ) -> None:
        """Refuse to go on with a run on other rows, or without its charge."""
        entry = charged(ledger, self.id)
        if entry is None:
            raise LedgerError(
                f"ledger ({ledger.path}) must hold the charge ({self.id}) of the run that is to go "
                "on; name the ledger that was charged with --ledger, or restore it"
            )
        if trace != run.card.trace:
            raise DataError(
                f"data ({self.source}) must be as it was when the run began on {run.card.started}, "
                f"but it has changed since. Restore it, or give up the run by deleting {run.path}"
            )
        if trace is None:
            self._warn(
                f"{self.source} does not show whether it has changed since the run began: it is "
                "taken for granted that it has not"
            )
        if run.card.stopped and not self.go_on:
            raise UsageError(
                f"run ({self.id}) stopped because columns would waste its budget: "
                f"'{self.insist}' goes on all the same; to give it up delete {run.path}"
            )
        if entry.split not in (None, split):
            raise UsageError(
                f"holdout (of run {self.id}) must be as when the run began: open the table with "
                "the same share and salt"
            )


def say_spent(charges: Sequence[Charge], delta: float, recorder: RunRecorder | None = None) -> str:
    """The end of an error message after a charge: what was spent, and how to resume."""
    total = compose(charges, delta, charges[0].neighbours)
    before = " when the run began" if recorder is not None and recorder.resume else ""
    said = f"The ledger was charged eps={total.eps:g}, delta={total.delta:g}{before}; that stands."
    return f"{said} {recorder.advice}".rstrip() if recorder is not None else said


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=3)
