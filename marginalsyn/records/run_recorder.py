"""The keeper: what a run pays for is kept until the run has ended, or told again when it goes on.

Of each run there are two files, named by its charge: the journal, which holds answers and public
facts (:mod:`marginalsyn.records.journal`), and a card for the curator alone, which says how the
source is read again and how to tell whether it has changed. Both are gone once the run has ended
well.
"""

from __future__ import annotations

import errno
import json
import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from filelock import FileLock, Timeout

from marginalsyn.contract import plain
from marginalsyn.errors import DataError, LedgerError, UsageError
from marginalsyn.privacy.composition import compose
from marginalsyn.records.charge_records import ROWS, now
from marginalsyn.records.durable import append_bytes, replace_bytes
from marginalsyn.records.journal import Journal
from marginalsyn.records.ledger import Ledger
from marginalsyn.records.unfinished import (
    FOLDER,
    RunRecord,
    charged,
    differences,
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
        warn: told what the user should know; a Python warning by default.

    Example:
        >>> from marginalsyn.contract import make_config
        >>> from marginalsyn.host import generate
        >>> from marginalsyn.access.private_table import PrivateTable
        >>> from marginalsyn.release.folder import Release
        >>> table = PrivateTable.open(frame, schema)
        >>> noise, config = make_noise(), make_config("independent")
        >>> with RunRecorder("unfinished", command="generate", source="people.csv") as keeper:
        ...     made, statement = generate(table, config, Budget(eps=1), noise=noise, keeper=keeper)
        ...     release = Release.write(made, schema, statement, "new-release")
        ...     keeper.finish()
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
        self._lock: FileLock | None = None
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
        return Journal.read(self._file(".journal")).facts

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
        delta: float,
        drafted: bool = False,
        unit: str = ROWS,
        split: str = "",
    ) -> Journal | None:
        """Charge the ledger and begin a journal, or find both there; None where none can be kept.

        The journal is there before the charge, so that no charge is without one; a journal whose
        charge was never made counts for nothing.
        """
        facts = {
            **self._facts,
            "command": self.command,
            "source": self.source,
            "charges": [charge.model_dump(mode="json") for charge in charges],
            # A run with a seed protects nobody.
            "seed": None if noise.private else noise.post_seed,
            # The seed of post-processing, which is drawn apart from all that protects.
            "post": f"{noise.post_seed:x}",
            "version": version("marginalsyn"),
            "day": datetime.now(UTC).date().isoformat(),
        }
        self._ledger = ledger
        if self.resume:
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
            made = self._begin(card, facts)
        except BaseException:
            self.finish()
            raise
        try:
            ledger.charge(
                charges,
                run=run,
                delta=delta,
                id=self.id,
                seeded=not noise.private,
                drafted=drafted,
                unit=unit,
                split=split,
                taken=self._by if made is not None else "",
            )
        except BaseException:
            if charged(ledger, self.id) is None:
                self.finish()
            raise
        self.journal = made
        return made

    @property
    def may_stop(self) -> bool:
        """Whether the run may stop by itself, because it can be taken up again."""
        return self.journal is not None and not self.go_on

    def pause(self, ledger: Ledger, spent: Sequence[Charge]) -> None:
        """Stop the run: its answers are kept, and the ledger counts what they cost and no more."""
        assert self._card is not None
        # The card first: a run that is called stopped and counts in full can go on, too.
        self._write_card(self._card.model_copy(update={"stopped": True}))
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
        for suffix in (".journal", ".json"):
            self._file(suffix).unlink(missing_ok=True)
        self.journal = None
        self.close()
        if self.id:
            self._file(".lock").unlink(missing_ok=True)

    def close(self) -> None:
        """Close the run's files; what it has paid for is kept."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

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

    def _write_card(self, card: RunRecord) -> None:
        text = card.model_dump_json(indent=2)
        replace_bytes(self._file(".json"), text.encode())
        self._card = card

    def _file(self, suffix: str) -> Path:
        return self.folder / f"{self.id}{suffix}"

    def _begin(self, card: RunRecord, facts: Mapping[str, Any]) -> Journal | None:
        try:
            Workspace(self.folder.parent).make(FOLDER)
            self._hold()
            append_bytes(self._file(".json"), card.model_dump_json(indent=2).encode(), 0)
            self._card = card
            return Journal.create(self._file(".journal"), facts)
        except (OSError, WorkspaceError) as error:
            cause = error.__cause__ if isinstance(error, WorkspaceError) else error
            if isinstance(cause, OSError) and cause.errno in _CLOSED:
                self._warn(
                    f"answers cannot be kept in {self.folder} ({cause.strerror}): what this run "
                    "spends is lost if it is interrupted"
                )
                return None
            raise LedgerError(
                f"workspace ({self.folder.parent}) must be writable, to keep what is paid for: "
                f"{getattr(cause, 'strerror', None) or error}; nothing was spent"
            ) from error

    def _hold(self) -> None:
        lock = FileLock(self._file(".lock"), timeout=1.0)
        try:
            lock.acquire()
        except Timeout:
            raise UsageError(
                f"run ({self.id}) cannot be resumed while another process is working on it; wait "
                "until that one ends"
            ) from None
        self._lock = lock

    def _found(
        self, ledger: Ledger, facts: Mapping[str, Any], trace: str | None, split: str
    ) -> Journal:
        """The journal of the interrupted run with these facts."""
        runs = interrupted(self.folder.parent, command=self.command, source=self.source)
        runs = [run for run in runs if self.id in ("", run.card.id)]
        told = [(run, Journal.read(run.path)) for run in runs]
        same = [(run, journal) for run, journal in told if not differences(journal.facts, facts)]
        if not same:
            raise UsageError(nothing_like(self.folder, [j for _, j in told], facts))
        run, _ = same[-1]
        self.id = run.card.id
        self._hold()
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
                f"{self.source} does not tell whether it has changed since the run began: it is "
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
        self.salt = run.card.salt
        journal = Journal.read(run.path)
        # The card first: were the number in the ledger alone, nobody could go on after a crash. It
        # keeps the earlier ones, which the ledger never takes again once they are replaced.
        card = run.card.model_copy(update={"taken": [*run.card.taken, self._by]})
        self._write_card(card)
        now = ledger.advance(self.id, run.card.taken, self._by, len(journal))
        journal.sealed = now.state == "drawn"
        if card.stopped:
            self._write_card(card.model_copy(update={"stopped": False}))
        return journal


def say_spent(charges: Sequence[Charge], delta: float, keeper: RunRecorder | None = None) -> str:
    """The end of an error message after a charge: what was spent, and how to resume."""
    total = compose(charges, delta, charges[0].neighbours)
    before = " when the run began" if keeper is not None and keeper.resume else ""
    said = f"The ledger was charged eps={total.eps:g}, delta={total.delta:g}{before}; that stands."
    return f"{said} {keeper.advice}".rstrip() if keeper is not None else said


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=3)
