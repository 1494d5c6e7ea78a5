"""``ledger``: what a private source has spent, and a limit on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marginalsyn.errors import UsageError
from marginalsyn.operations.groups import AMOUNTS, named
from marginalsyn.operations.operation import (
    PYTHON,
    Columns,
    Facts,
    Operation,
    Result,
    Session,
    Value,
    argument,
    option,
)
from marginalsyn.operations.origins import key_of, open_ledger

if TYPE_CHECKING:
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.records.runs import UnfinishedRun
    from marginalsyn.records.totals import LedgerState

_total_delta = partial(option, 1e-9, "The delta of the total.", metavar="DELTA")


@dataclass(frozen=True, kw_only=True)
class OfLedger(Operation[Value]):
    """An operation on the ledger of a private source."""

    data: str | Path | None = option(
        None, "The private table. [default=that of the last release made here]", metavar="PATH|URL"
    )
    dataset: str | None = option(None, "A bundled table instead of --data.", metavar="NAME")
    ledger: str | Path | None = option(
        None, "A ledger file instead of the one in your data folder.", metavar="FILE"
    )

    def open(self, session: Session) -> Ledger:
        """The ledger that the options name; that of the last release when they name none."""
        from marginalsyn.records.ledger import Ledger
        from marginalsyn.records.workspace import Workspace

        source = named(self)
        key = key_of(source) or Workspace.here().read_last().get("source")
        if key is None and (stopped := _unfinished()):
            key = stopped[-1].card.source
        if key is not None:
            ledger = open_ledger(key, source, start=False)
            if ledger.unasked:
                session.warn(f"this ledger is found by the name alone: {ledger.unasked}")
            return ledger
        if self.ledger is None:
            raise UsageError(
                "no release was made in this folder yet; name the source with --data or --dataset"
            )
        if not Path(self.ledger).exists():
            raise UsageError(f"--ledger ({self.ledger}) must be a file that exists")
        return Ledger(Path(self.ledger))


@dataclass(frozen=True, kw_only=True)
class ShowLedger(OfLedger["LedgerState"]):
    """Print every charge and their total.

    The total is valid if all budgets were fixed in advance. If each budget was chosen after seeing
    earlier results, only the cap is valid; a figure of its own says how much of it is used.
    """

    shell = ("as_json",)
    examples = """
    marginalsyn ledger show
    marginalsyn ledger show --data people.csv --json
    """

    delta: float = _total_delta()

    def run(self, session: Session = PYTHON) -> Result[LedgerState]:
        """Read the ledger, and sum up its charges."""
        from marginalsyn.records.entries import ROWS
        from marginalsyn.records.totals import SO_FAR

        ledger = self.open(session)
        book = ledger.read()
        total, cap, known = book.total(self.delta), book.cap, {entry.id for entry in book.entries}
        stopped = [run for run in _unfinished() if run.card.id in known and not run.lost]
        # All charges are for one unit.
        unit = next((entry.unit for entry in reversed(book.entries)), ROWS)
        data = {
            "source": book.source,
            "ledger": str(ledger.path),
            **{name: getattr(total, name) for name in AMOUNTS},
            "neighbours": total.neighbours,
            "unit": unit,
            "guarantee": total.guarantee,
            "total_is": SO_FAR if total.delta else "a sum of pure eps",
            "marks": book.caveats(),
            "cap": cap and {"eps": cap.eps, "delta": cap.delta, "currency": cap.currency},
            "of_the_cap": book.of_the_cap() or None,
            "entries": [entry.model_dump(mode="json") for entry in book.entries],
            "interrupted": [
                {"id": run.card.id, "command": run.card.command, "answers": run.answers}
                for run in stopped
            ],
        }
        rows = book.summary()
        for row in rows:
            row["time"] = row["time"].replace("T", " ").rstrip("Z") + " UTC"
        text: list[Any] = [Facts([("Source", book.source), ("Ledger", ledger.path)]), ""]
        # What every charge has in common stands in the total.
        shared = [n for n in ("neighbours", "guarantee") if len({row[n] for row in rows}) == 1]
        if rows:
            head = [name for name in rows[0] if name not in shared]
            text += [Columns(head, [[row[name] for name in head] for row in rows]), ""]
        spent, *marks = book.describe(self.delta).split("; ") if rows else ["nothing spent"]
        facts = [("Total", spent), *(("", mark) for mark in marks)]
        if rows:
            facts.append(("Protects", unit))
        if explained := book.explain_sum(self.delta):
            facts.append(("", explained))
        facts.append(("Cap", f"{cap}: {book.of_the_cap()}" if cap else "none"))
        facts += [("Interrupted", f"{run}; goes on with '{run.again}'") for run in stopped]
        return Result(book, data, [*text, Facts(facts)])


def _unfinished() -> list[UnfinishedRun]:
    """The runs of this workspace that were charged and have not ended."""
    from marginalsyn.records.runs import interrupted
    from marginalsyn.records.workspace import Workspace

    return interrupted(Workspace.here().folder)


@dataclass(frozen=True, kw_only=True)
class ListRuns(Operation["list[UnfinishedRun]"]):
    """List the runs of this folder that were charged and have not ended."""

    shell = ("as_json",)
    examples = """
    marginalsyn ledger runs
    """

    def run(self, session: Session = PYTHON) -> Result[list[UnfinishedRun]]:
        """Read what is kept of runs."""
        runs = _unfinished()
        head = ("run", "source", "state", "goes on with")
        rows = [
            (run.card.id[:8], run.card.source, str(run), "nothing" if run.lost else run.again)
            for run in runs
        ]
        data = [{**run.card.model_dump(exclude={"salt"}), "answers": run.answers} for run in runs]
        return Result(runs, data, [Columns(head, rows) if rows else "no interrupted run"])


@dataclass(frozen=True)
class ForgetRun(Operation["UnfinishedRun"]):
    """Give up an interrupted run: its kept answers are deleted, and nothing can go on with it.

    Its charge stays in the ledger, because its answers were paid for and may have been seen.
    """

    shell = ("quiet",)
    examples = """
    # the run that `marginalsyn ledger runs` lists as 7c1d0f3a
    marginalsyn ledger forget 7c1d0f3a
    """

    which: str | None = argument(
        None, "The run, or how its name begins. [default=the only one]", metavar="RUN"
    )

    def run(self, session: Session = PYTHON) -> Result[UnfinishedRun]:
        """Delete what is kept of the run."""
        from marginalsyn.records.runs import forget

        every = _unfinished()
        runs = [run for run in every if run.card.id.startswith(self.which or "")]
        if len(runs) != 1:
            known = ", ".join(run.card.id[:8] for run in every) or "there is none here"
            raise UsageError(f"RUN ({self.which}) must name one interrupted run: {known}")
        forget(runs[0].path.parent, runs[0].card.id)
        return Result(runs[0], notes=[f"given up: {runs[0]}; its charge stays in the ledger"])


@dataclass(frozen=True, kw_only=True)
class ListLedgers(Operation["list[Ledger]"]):
    """List all your ledgers, one for each private source."""

    shell = ("as_json",)
    examples = """
    marginalsyn ledger list
    """

    def run(self, session: Session = PYTHON) -> Result[list[Ledger]]:
        """Read the ledgers, and say which ones are damaged."""
        from marginalsyn.access.ledgers import all_ledgers, ledgers_folder

        ledgers, found = all_ledgers(), []
        rows: list[tuple[object, ...]] = []
        for ledger in ledgers:
            wrong = ledger.verify()
            facts: dict[str, Any] = dict.fromkeys(("source", "runs", "total", "cap"))
            if wrong:
                rows.append(("?", None, "; ".join(wrong), None, str(ledger.path)))
            else:
                book = ledger.read()
                cap = str(book.cap) if book.cap else None
                runs, total = len(book.entries), book.describe()
                facts = {"source": book.source, "runs": runs, "total": total, "cap": cap}
                file = ledger.path.name if ledger.path else ""
                rows.append((book.source, runs, total if runs else "nothing", cap or "none", file))
            found.append({"ledger": str(ledger.path), **facts, "problems": wrong})
        table = Columns(("source", "runs", "spent", "cap", "file"), rows, right=("runs",))
        text = [Facts([("Folder", ledgers_folder())]), "", table if rows else "no ledger yet"]
        return Result(ledgers, {"folder": str(ledgers_folder()), "ledgers": found}, text)


@dataclass(frozen=True, kw_only=True)
class VerifyLedger(OfLedger[list[str]]):
    """Find lines that were changed, removed, moved or cut off. The exit code is 1 if there are any.

    Each line carries the hash of the line before it, and a small file next to the ledger says how
    many lines there are. Runs that were charged and have not ended are listed, too: they are going
    on, or were interrupted. Nothing detects someone who rewrites all the hashes, or who deletes the
    ledger together with the file next to it.
    """

    shell = ("quiet",)
    examples = """
    # all your ledgers
    marginalsyn ledger verify
    marginalsyn ledger verify --ledger shared.jsonl
    """

    accept: bool = option(
        False,
        "Accept the named ledger as it is, and record that it was damaged. Use this only when no "
        "intact copy is left.",
    )

    def run(self, session: Session = PYTHON) -> Result[list[str]]:
        """Check the ledger that is named, or all."""
        from marginalsyn.access.ledgers import all_ledgers

        one = self.data or self.dataset or self.ledger
        if self.accept and not one:
            raise UsageError("--accept needs to know which ledger: add --data or --ledger")
        ledgers = [self.open(session)] if one else all_ledgers()
        if self.accept:
            ledgers[0].accept()
        problems = [problem for each in ledgers for problem in each.verify()]
        if problems:
            return Result(problems, text=problems, code=1)
        books = [each.read() for each in ledgers]
        notes = [
            f"not ended: {run.run or 'a run'} of {book.source}, charged {run.time}"
            for book in books
            for run in book.not_ended()
        ]
        lines = sum(len(book.entries) for book in books)
        notes.append(
            f"{len(ledgers)} ledger{'s' * (len(ledgers) != 1)}, {lines} run{'s' * (lines != 1)}: "
            "every line follows the one before it"
        )
        return Result(problems, notes=notes)


@dataclass(frozen=True, kw_only=True)
class CapLedger(OfLedger["LedgerState"]):
    """Limit what a source may spend.

    A run that would exceed the cap is refused before anything is read. The cap is valid even if
    each budget is chosen after seeing earlier results: it adds up one currency (squares of mu, or
    zCDP, or with --sampled Renyi divergences at one order) against a limit that follows from
    (eps, delta) and is recorded now.
    """

    shell = ("quiet",)
    examples = """
    marginalsyn ledger cap --eps 4
    # lift the limit again
    marginalsyn ledger cap --none
    """

    eps: float | None = option(None, "The most that the source may spend.", metavar="EPS")
    none: bool = option(False, "Remove the cap.")
    sampled: bool = option(
        False,
        "Allow sampled steps (DP-SGD), which neither mu nor rho can price: keep the cap at the "
        "Renyi order that was recorded when the ledger was created.",
    )
    currency: Literal["mu", "rho"] | None = option(
        None,
        "What the cap adds up: mu is exact for Gaussian noise, rho also counts what has no price "
        "in mu. [default: that of the cap before, else mu where every charge has one]",
    )
    own_delta: float = option(
        0.0,
        "How much of the delta to set aside for charges with a delta of their own. [default=0]",
        show_default=False,
        metavar="DELTA",
    )
    delta: float = _total_delta()

    def run(self, session: Session = PYTHON) -> Result[LedgerState]:
        """Record the cap."""
        if (self.eps is None) == (not self.none):
            raise UsageError("cap must be given --eps EPS to set it, or --none to remove it")
        ledger = self.open(session)
        if self.currency and (self.sampled or self.none):
            raise UsageError("--currency must be given without --sampled and --none")
        ledger.set_cap(
            self.eps,
            self.delta,
            sampled=self.sampled,
            own_delta=self.own_delta,
            currency=self.currency,
        )
        book = ledger.read()
        notes = [f"{book.source}: cap {book.cap or 'lifted'}"]
        if book.charges:
            notes.append(f"spent: {book.describe(self.delta)}")
        if book.cap:
            notes.append(f"of the cap: {book.of_the_cap()}")
        return Result(book, notes=notes)
