"""Says what a run spent when something stops it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from marginalsyn.errors import explained

if TYPE_CHECKING:
    from pathlib import Path

    from marginalsyn.cli.screen import Notes
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.records.run_recorder import RunRecorder
    from marginalsyn.release.folder import Release
    from marginalsyn.release.linked import LinkedRelease
    from marginalsyn.release.statement import Statement


def accounted(ledger: Ledger, keeper: RunRecorder | None = None) -> AbstractContextManager[None]:
    """Whatever stops the run inside, say whether the ledger was charged and how to go on."""
    before = len(ledger.made())
    return explained(partial(spent, ledger, before, keeper))


def spent(ledger: Ledger, before: int, keeper: RunRecorder | None = None) -> str:
    """What this run was charged after the first ``before`` charges; other runs' do not count.

    Empty where that is nothing.
    """
    advice = keeper.advice if keeper is not None else ""
    if len(ledger.made()) > before:
        said = (
            f"The ledger was charged for this run. That stands; spent: {ledger.read().describe()}."
        )
    elif advice:
        said = "The ledger was charged when the run began; that stands."
    else:
        return ""
    return f"{said} {advice}".rstrip()


def facts(release: Release | LinkedRelease, ledger: Ledger, **sizes: Any) -> dict[str, Any]:
    """What ``--json`` prints after a run."""
    statement, total = release.statement, ledger.total()
    spent = {"eps": total.eps, "delta": total.delta, "neighbours": total.neighbours}
    return {
        "release": str(release.path),
        "method": statement.generator,
        **sizes,
        "eps": statement.eps,
        "delta": statement.delta,
        "neighbours": statement.neighbours,
        "guarantee": statement.guarantee,
        "seeded": statement.seeded,
        "warnings": list(statement.warnings),
        "ledger": {"path": str(ledger.path), **spent},
    }


def show_end(
    release: Release | LinkedRelease, made: str, out: Path, ledger: Ledger, notes: Notes
) -> None:
    """The summary of a run on stderr, with what to do next."""
    statement = release.statement
    notes.warn_all(statement.warnings)
    notes.say(made)
    if isinstance(choice := statement.notes.get("choice"), dict):
        notes.say(f"chosen: {choice['method']} ({choice['why']})")
    notes.say(f"this release:    {statement.total()}")
    show_total(ledger, notes)
    notes.say(f"next: marginalsyn show {out}   marginalsyn verify {out}")


def show_total(ledger: Ledger, notes: Notes, statement: Statement | None = None) -> None:
    """What the source has spent so far, with the word for what that number is.

    Where the ledger does not hold what the statement of a release says was spent (the release was
    moved, or made on another machine), that is added.
    """
    book = ledger.read()
    beside = book.lacks(statement.charges) if statement is not None else []
    notes.say(f"source so far:   {book.describe(beside=beside)}")
    if told := book.explain_sum():
        notes.say(f"                 {told}")
    if book.cap is not None:
        notes.say(f"of its cap:      {book.of_the_cap()} ({book.cap})")


def warn_of_seed(seed: int | None, notes: Notes) -> None:
    """Loudly, also when quiet."""
    if seed is not None:
        notes.warn(
            f"--seed {seed}: whoever knows the seed can take the noise away again. The result is "
            "seeded, not private; for research only."
        )
