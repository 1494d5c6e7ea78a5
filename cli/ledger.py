"""``marginalsyn ledger``: what a private source has spent, and a limit on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from marginalsyn.cli import options, screen
from marginalsyn.cli.group import Group
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    from marginalsyn.keeper import Interrupted
    from marginalsyn.ledger import Ledger

which = options.together(
    click.option(
        "--data",
        metavar="PATH|URL",
        help="The source. [default=that of the last release made here]",
    ),
    click.option("--dataset", metavar="NAME", help="A bundled table in place of --data."),
    click.option(
        "--ledger",
        "ledger_path",
        type=options.PATH,
        metavar="FILE",
        help="A ledger file in place of the workspace's own.",
    ),
)

total_delta = click.option(
    "--delta",
    type=float,
    default=1e-9,
    show_default=True,
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
    """,
)
def ledger() -> None:
    """Show and limit what a private source has spent.

    The ledger belongs to the source, not to a release: every release and every other private
    look at the same rows adds to it.
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
def show(
    data: str | None, dataset: str | None, ledger_path: Path | None, delta: float, as_json: bool
) -> None:
    """Print every charge and what they add up to."""
    book = _open(data, dataset, ledger_path)
    total, cap = book.total(delta), book.cap
    stopped = _interrupted(book)
    if as_json:
        screen.write_json(
            {
                "source": book.source,
                "ledger": str(book.path),
                "eps": total.eps,
                "delta": total.delta,
                "rho": total.rho,
                "neighbours": total.neighbours,
                "guarantee": total.guarantee,
                "cap": None if cap is None else {"eps": cap.eps, "delta": cap.delta},
                "entries": [entry.model_dump(mode="json") for entry in book.entries],
                "interrupted": [
                    {"id": run.card.id, "command": run.card.command, "answers": run.answers}
                    for run in stopped
                ],
            }
        )
        return
    screen.write_facts([("Source", book.source), ("Ledger", book.path)])
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
    screen.write_facts(
        [
            ("Total", total if rows else "nothing spent"),
            ("Cap", cap or "none"),
            *(
                ("Interrupted", f"{run}; goes on with 'marginalsyn {run.card.command} --resume'")
                for run in stopped
            ),
        ]
    )


@ledger.command(
    examples="""
    marginalsyn ledger cap --eps 4
    # lift the limit again
    marginalsyn ledger cap --none
    """
)
@click.option("--eps", type=float, metavar="EPS", help="The most that the source may spend.")
@click.option("--none", "lift", is_flag=True, help="Lift the limit.")
@which
@total_delta
@options.quiet
def cap(
    eps: float | None,
    lift: bool,
    data: str | None,
    dataset: str | None,
    ledger_path: Path | None,
    delta: float,
    quiet: bool,
) -> None:
    """Limit what a source may spend in total.

    A run that would exceed the cap is refused before anything is read.
    """
    if (eps is None) == (not lift):
        raise UsageError("cap needs one of --eps EPS, which sets it, and --none, which lifts it")
    book = _open(data, dataset, ledger_path)
    book.set_cap(eps, delta)
    notes = screen.Notes(quiet)
    notes.say(f"{book.source}: cap {book.cap or 'lifted'}")
    if book.charges:
        notes.say(f"spent so far: {book.total(delta)}")


def _interrupted(book: Ledger) -> list[Interrupted]:
    """The runs of this workspace that the ledger was charged for and that have not ended."""
    from marginalsyn.keeper import interrupted
    from marginalsyn.workspace import Workspace

    known = {entry.id for entry in book.entries}
    return [run for run in interrupted(Workspace.here().folder) if run.card.id in known]


def _open(data: str | None, dataset: str | None, ledger_path: Path | None) -> Ledger:
    """The ledger that the options name; that of the last release when they name none."""
    from marginalsyn import datasets
    from marginalsyn.cli.source import DATASET, ledger_of
    from marginalsyn.keeper import interrupted
    from marginalsyn.ledger import Ledger
    from marginalsyn.workspace import Workspace

    if data is not None and dataset is not None:
        raise UsageError("--data and --dataset name two sources; give one of them")
    workspace = Workspace.here()
    if dataset is not None:
        datasets.describe(dataset)
    key = data or (DATASET + dataset if dataset else workspace.last.get("source"))
    if key is None:
        stopped = interrupted(workspace.folder)
        key = stopped[-1].card.source if stopped else None
    if ledger_path is not None:
        if not ledger_path.exists() and key is None:
            raise UsageError(f"--ledger ({ledger_path}) must be a file that exists")
        return ledger_of(key, ledger_path, workspace) if key else Ledger(ledger_path)
    if key is None:
        raise UsageError(
            "no release was made in this folder yet; name the source with --data or --dataset"
        )
    return ledger_of(key, None, workspace)
