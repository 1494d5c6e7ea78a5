"""``marginalsyn ledger``: what a private source has spent, and a limit on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from marginalsyn.cli import options, screen
from marginalsyn.cli.bundles import bundle
from marginalsyn.cli.group import Group
from marginalsyn.errors import UsageError
from marginalsyn.operations.origins import key_of, open_ledger

if TYPE_CHECKING:
    from pathlib import Path

    from marginalsyn.records.ledger import Ledger
    from marginalsyn.records.ledger_state import LedgerState
    from marginalsyn.records.unfinished import UnfinishedRun

which = bundle(
    options.Source,
    only=("data", "dataset", "ledger_path"),
    data={"panel": None, "help": "The private table. [default=that of the last release made here]"},
    dataset={"panel": None, "help": "A bundled table instead of --data."},
    ledger_path={"panel": None, "help": "A ledger file instead of the one in your data folder."},
)

total_delta = click.option(
    "--delta",
    type=float,
    default=1e-9,
    metavar="DELTA",
    help="The delta of the total.",
)


@click.group(
    cls=Group,
    examples="""
    # what the last source has spent
    marginalsyn ledger show
    # refuse whatever would take it over eps 4
    marginalsyn ledger cap --eps 4
    # all your ledgers; whether a line of theirs is missing or was changed
    marginalsyn ledger list
    marginalsyn ledger verify
    """,
)
def ledger() -> None:
    """Show and limit what a private source has spent.

    A ledger belongs to a source, not to a release: every release, and every other private
    measurement of the same rows, adds to it, whatever folder or name is used. Ledgers are kept in
    your data folder, or in the folder that the environment variable MARGINALSYN_LEDGERS names.
    """


@ledger.command(
    examples="""
    marginalsyn ledger show
    marginalsyn ledger show --data people.csv --json
    """
)
@which
@total_delta
@options.as_json
def show(source: options.Source, delta: float, as_json: bool) -> None:
    """Print every charge and their total.

    The total is valid if all budgets were fixed in advance. If each budget was chosen after seeing
    earlier results, only the cap is valid; a figure of its own says how much of it is used.
    """
    ledger = _open(source)
    book = ledger.read()
    total, cap = book.total(delta), book.cap
    stopped = _interrupted(book)
    if as_json:
        from marginalsyn.records.ledger_state import SO_FAR

        screen.write_json(
            {
                "source": book.source,
                "ledger": str(ledger.path),
                "eps": total.eps,
                "delta": total.delta,
                "rho": total.rho,
                "neighbours": total.neighbours,
                "unit": _unit(book),
                "guarantee": total.guarantee,
                "total_is": SO_FAR if total.delta else "a sum of pure eps",
                "marks": book.caveats(),
                "cap": None if cap is None else {"eps": cap.eps, "delta": cap.delta},
                "of_the_cap": book.of_the_cap() or None,
                "entries": [entry.model_dump(mode="json") for entry in book.entries],
                "interrupted": [
                    {"id": run.card.id, "command": run.card.command, "answers": run.answers}
                    for run in stopped
                ],
            }
        )
        return
    screen.write_facts([("Source", book.source), ("Ledger", ledger.path)])
    screen.write("")
    rows = book.summary()
    for row in rows:
        row["time"] = row["time"].replace("T", " ").rstrip("Z") + " UTC"
    # What every charge has in common stands in the total.
    shared = [n for n in ("neighbours", "guarantee") if len({row[n] for row in rows}) == 1]
    if rows:
        head = [name for name in rows[0] if name not in shared]
        screen.write_table(head, [[row[name] for name in head] for row in rows])
        screen.write("")
    said = book.describe(delta).split("; ") if rows else ["nothing spent"]
    screen.write_facts(
        [
            ("Total", said[0]),
            *(("", mark) for mark in said[1:]),
            *((("Protects", _unit(book)),) if rows else ()),
            *(("", told) for told in [book.explain_sum(delta)] if told),
            ("Cap", f"{cap}: {book.of_the_cap()}" if cap else "none"),
            *(("Interrupted", f"{run}; goes on with '{run.again}'") for run in stopped),
        ]
    )


def _unit(book: LedgerState) -> str:
    """Whom the ledger's promises are for; it has one unit."""
    from marginalsyn.records.charge_records import ROWS

    return next((entry.unit for entry in reversed(book.entries)), ROWS)


@ledger.command(
    name="list",
    examples="""
    marginalsyn ledger list
    """,
)
@options.as_json
def list_(as_json: bool) -> None:
    """List all your ledgers, one for each private source."""
    from marginalsyn.access.ledgers import all_ledgers, ledgers_folder

    found: list[tuple[Path | None, list[str], LedgerState | None]] = []
    for each in all_ledgers():
        wrong = each.verify()
        found.append((each.path, wrong, None if wrong else each.read()))
    if as_json:
        ledgers = [
            {
                "ledger": str(path),
                "source": book.source if book else None,
                "runs": len(book.entries) if book else None,
                "total": book.describe() if book else None,
                "cap": str(book.cap) if book and book.cap else None,
                "problems": wrong,
            }
            for path, wrong, book in found
        ]
        screen.write_json({"folder": str(ledgers_folder()), "ledgers": ledgers})
        return
    screen.write_facts([("Folder", ledgers_folder())])
    screen.write("")
    if not found:
        screen.write("no ledger yet")
        return
    rows: list[tuple[object, ...]] = []
    for path, wrong, book in found:
        if book is None:
            rows.append(("?", None, "; ".join(wrong), None, str(path)))
        else:
            spent = book.describe() if book.entries else "nothing"
            name = path.name if path else ""
            rows.append((book.source, len(book.entries), spent, str(book.cap or "none"), name))
    screen.write_table(("source", "runs", "spent", "cap", "file"), rows, right=("runs",))


@ledger.command(
    examples="""
    # all your ledgers
    marginalsyn ledger verify
    marginalsyn ledger verify --ledger shared.jsonl
    """
)
@which
@click.option(
    "--accept",
    is_flag=True,
    help="Accept the named ledger as it is, and record that it was damaged. Use this "
    "only when no intact copy is left.",
)
@options.quiet
@click.pass_context
def verify(
    ctx: click.Context,
    source: options.Source,
    accept: bool,
    quiet: bool,
) -> None:
    """Find lines that were changed, removed, moved or cut off. The exit code is 1 if there are any.

    Each line carries the hash of the line before it, and a small file next to the ledger says how
    many lines there are. Runs that were charged and have not ended are listed, too: they are going
    on, or were interrupted. Nothing detects someone who rewrites all the hashes, or who deletes the
    ledger together with the file next to it.
    """
    from marginalsyn.access.ledgers import all_ledgers

    notes = screen.Notes(quiet)
    named = source != options.Source()
    if accept and not named:
        raise UsageError("--accept needs to know which ledger: add --data or --ledger")
    ledgers = [_open(source)] if named else all_ledgers()
    if accept:
        ledgers[0].accept()
    problems = [problem for each in ledgers for problem in each.verify()]
    for problem in problems:
        screen.write(problem)
    if problems:
        ctx.exit(1)
    books = [each.read() for each in ledgers]
    for book in books:
        for run in book.not_ended():
            notes.say(f"not ended: {run.run or 'a run'} of {book.source}, charged {run.time}")
    lines = sum(len(book.entries) for book in books)
    notes.say(
        f"{len(ledgers)} ledger{'s' * (len(ledgers) != 1)}, {lines} run{'s' * (lines != 1)}: "
        "every line follows the one before it"
    )


@ledger.command(
    examples="""
    marginalsyn ledger cap --eps 4
    # lift the limit again
    marginalsyn ledger cap --none
    """
)
@click.option("--eps", type=float, metavar="EPS", help="The most that the source may spend.")
@click.option("--none", "lift", is_flag=True, help="Remove the cap.")
@click.option(
    "--sampled",
    is_flag=True,
    help="Allow sampled steps (DP-SGD), which zCDP cannot price: keep the cap at the "
    "Renyi order that was recorded when the ledger was created.",
)
@click.option(
    "--own-delta",
    type=float,
    default=0.0,
    show_default=False,
    metavar="DELTA",
    help="How much of the delta to set aside for charges with a delta of their own. [default=0]",
)
@which
@total_delta
@options.quiet
def cap(
    eps: float | None,
    lift: bool,
    sampled: bool,
    own_delta: float,
    source: options.Source,
    delta: float,
    quiet: bool,
) -> None:
    """Limit what a source may spend.

    A run that would exceed the cap is refused before anything is read. The cap is valid even if
    each budget is chosen after seeing earlier results: it adds up zCDP, or with --sampled Renyi
    divergences at one order, against a limit that follows from (eps, delta) and is recorded now.
    """
    if (eps is None) == (not lift):
        raise UsageError("cap must be given --eps EPS to set it, or --none to remove it")
    ledger = _open(source)
    ledger.set_cap(eps, delta, sampled=sampled, own_delta=own_delta)
    notes, book = screen.Notes(quiet), ledger.read()
    notes.say(f"{book.source}: cap {book.cap or 'lifted'}")
    if book.charges:
        notes.say(f"spent: {book.describe(delta)}")
    if book.cap:
        notes.say(f"of the cap: {book.of_the_cap()}")


def _interrupted(book: LedgerState) -> list[UnfinishedRun]:
    """The runs of this workspace that the ledger was charged for and that have not ended."""
    from marginalsyn.records.unfinished import interrupted
    from marginalsyn.records.workspace import Workspace

    known = {entry.id for entry in book.entries}
    found = interrupted(Workspace.here().folder)
    return [run for run in found if run.card.id in known and not run.lost]


def _open(source: options.Source) -> Ledger:
    """The ledger that the options name; that of the last release when they name none."""
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.records.unfinished import interrupted
    from marginalsyn.records.workspace import Workspace

    workspace, path = Workspace.here(), source.ledger_path
    key = key_of(source) or workspace.read_last().get("source")
    if key is None:
        stopped = interrupted(workspace.folder)
        key = stopped[-1].card.source if stopped else None
    if key is not None:
        ledger = open_ledger(key, source, start=False)
        if ledger.unasked:
            screen.Notes(quiet=False).warn(
                f"this ledger is found by the name alone: {ledger.unasked}"
            )
        return ledger
    if path is None:
        raise UsageError(
            "no release was made in this folder yet; name the source with --data or --dataset"
        )
    if not path.exists():
        raise UsageError(f"--ledger ({path}) must be a file that exists")
    return Ledger(path)
