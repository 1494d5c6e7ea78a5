"""Says what a run spent when something stops it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from marginalsyn.errors import explained

if TYPE_CHECKING:
    from marginalsyn.cli.screen import Notes
    from marginalsyn.private import Keeper, Ledger


def accounted(ledger: Ledger, keeper: Keeper | None = None) -> AbstractContextManager[None]:
    """Whatever stops the run inside, say whether the ledger was charged and how to go on."""
    before = len(ledger.made())
    return explained(partial(spent, ledger, before, keeper))


def spent(ledger: Ledger, before: int, keeper: Keeper | None = None) -> str:
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


def show_total(ledger: Ledger, notes: Notes) -> None:
    """What the source has spent so far."""
    from marginalsyn.curator import describe_total

    for line in describe_total(ledger):
        notes.say(line)
