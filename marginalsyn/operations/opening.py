"""The private table behind a release, for a step that is paid for, and what its ledger says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.errors import UsageError, explained
from marginalsyn.operations.origins import Input, PrivateInput, find_origin, rows_of
from marginalsyn.records.ledger import Ledger

if TYPE_CHECKING:
    from marginalsyn.operations.files import Table
    from marginalsyn.operations.groups import Named
    from marginalsyn.privacy.charges import Neighbours
    from marginalsyn.records.resume import RunRecorder
    from marginalsyn.release.folder import Release
    from marginalsyn.release.statement import Statement
    from marginalsyn.table.schema import Schema


@dataclass(frozen=True)
class FoundTable:
    """A private table that was found and is not opened.

    Attributes:
        name: by which an interrupted run finds it again; empty for rows without one.
        ledger: that is charged.
        open: opens it under a neighbouring relation; reads no row.
        origin: how the workspace remembers it; None for a frame.
    """

    name: str
    ledger: Ledger
    open: Callable[[Neighbours], PrivateTable]
    origin: Input | None = None

    def ledger_lines(self, statement: Statement | None = None) -> list[str]:
        """What the source has spent so far; see :func:`describe_total`."""
        return describe_total(self.ledger, statement)


def find_table(
    release: Release | None, schema: Schema, named: Named, data: Table | None = None
) -> FoundTable | None:
    """The table that was handed over or named; else the one fitted; else the one remembered.

    Args:
        release: what was made of it; None for rows that another tool made.
        schema: of the table.
        named: how the caller names the table.
        data: the rows, or where they lie.

    Returns:
        None where nothing says which table it is.
    """
    from marginalsyn.operations.linked import find_persons
    from marginalsyn.operations.release import Release as FittedRelease
    from marginalsyn.release.linked import PersonsRelease

    if isinstance(data, pd.DataFrame):
        if named.dataset is not None:
            raise UsageError("--data and --dataset name two sources; give one of them")
        ledger = Ledger(
            Path(named.ledger) if named.ledger is not None else None,
            void_earlier_promises=named.void_earlier_promises,
        )
        return FoundTable("", ledger, partial(_open, data, schema, ledger))
    fitted = release._table if isinstance(release, FittedRelease) else None
    if named.data is None and named.dataset is None and fitted is not None:
        return FoundTable("", fitted.ledger, lambda relation: fitted)
    if isinstance(release, PersonsRelease):
        origin: PrivateInput | None = find_persons(release, named)
    else:
        origin = find_origin(schema, rows_of(release), named)
    if origin is None:
        return None
    ledger = origin.ledger()
    return FoundTable(origin.key, ledger, partial(origin.open, ledger), origin)


def _open(data: Any, schema: Schema, ledger: Ledger, neighbours: Neighbours) -> PrivateTable:
    table = PrivateTable.open(data, schema, ledger=ledger, neighbours=neighbours)
    table.check_layout()
    return table


def not_made_here(release: Release) -> UsageError:
    """The error where nothing says which table a release was made from."""
    return UsageError(
        f"release ({release.path.name}) was not made in this workspace: name the table that it was "
        "made from with --data or --dataset"
    )


def describe_total(ledger: Ledger, statement: Statement | None = None) -> list[str]:
    """What the source has spent so far, with the word for what that number is.

    Where the ledger lacks what the statement of a release says was spent (the release was moved, or
    made on another machine), that is added.
    """
    book = ledger.read()
    elsewhere = book.lacks(statement.charges) if statement is not None else []
    lines = [f"source so far:   {book.describe(others=elsewhere)}"]
    if explained := book.explain_sum():
        lines.append(f"                 {explained}")
    if book.cap is not None:
        lines.append(f"of its cap:      {book.of_the_cap()} ({book.cap})")
    return lines


def accounted(
    ledger: Ledger | None, recorder: RunRecorder | None = None
) -> AbstractContextManager[None]:
    """Whatever stops the run inside, say whether the ledger was charged and how to go on."""
    if ledger is None:
        return nullcontext()
    before = len(ledger.made())
    return explained(partial(_spent, ledger, before, recorder))


def _spent(ledger: Ledger, before: int, recorder: RunRecorder | None = None) -> str:
    """What this run was charged after the first ``before`` charges; other runs' do not count.

    Empty where that is nothing.
    """
    advice = recorder.advice if recorder is not None else ""
    if len(ledger.made()) > before:
        said = (
            f"The ledger was charged for this run. That stands; spent: {ledger.read().describe()}."
        )
    elif advice:
        said = "The ledger was charged when the run began; that stands."
    else:
        return ""
    return f"{said} {advice}".rstrip()
