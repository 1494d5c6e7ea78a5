"""Opens the private table behind a release for a step that Python's caller pays for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.errors import UsageError
from marginalsyn.operations.origins import PrivateInput, find_origin, rows_of
from marginalsyn.records.ledger import Ledger
from marginalsyn.records.run_recorder import RunRecorder
from marginalsyn.records.workspace import Workspace, identify

if TYPE_CHECKING:
    from marginalsyn.operations.origins import Named
    from marginalsyn.operations.tables import Table
    from marginalsyn.release.folder import Release


@dataclass(frozen=True)
class Opened:
    """A private table with its ledger.

    Attributes:
        table: the door to the rows; none was read.
        origin: how the table is remembered; None for a frame, which has no name.
    """

    table: PrivateTable
    origin: PrivateInput | None


def open_table(
    release: Release, data: Table | None, named: Named, fitted: PrivateTable | None
) -> Opened | None:
    """The table that was handed over or named; else the one fitted; else the one remembered.

    Args:
        release: what was made of it.
        data: the rows, or where they lie.
        named: all else that the caller says of it.
        fitted: the table that this release was fitted to in this process.

    Returns:
        None where nothing tells which table it is.
    """
    if isinstance(data, pd.DataFrame):
        if named.dataset is not None:
            raise UsageError("data and dataset name two sources; give one of them")
        ledger = Ledger(named.ledger_path, void_earlier_promises=named.void_earlier_promises)
        table = PrivateTable.open(
            data, release.schema, ledger=ledger, neighbours=release.statement.neighbours
        )
        table.check_layout()
        return Opened(table, None)
    if named.data is None and named.dataset is None and fitted is not None:
        return Opened(fitted, None)
    origin = find_origin(release.schema, rows_of(release), named)
    if origin is None:
        return None
    return Opened(origin.open(origin.ledger(), release.statement.neighbours), origin)


def keep(
    ledger: Ledger | None,
    source: Table,
    command: str,
    again: str,
    *,
    resume: bool,
    insist: str = "",
    go_on: bool = False,
    options: Mapping[str, Any] | None = None,
) -> AbstractContextManager[RunRecorder | None]:
    """What keeps the answers of a run; nothing where its charge is forgotten as well.

    Args:
        ledger: that is charged.
        source: the rows, or where they lie.
        command: what kind of run it is.
        again: how its caller goes on with it.
        resume: go on with a run that was interrupted.
        insist: how its caller goes on where the run stopped by itself.
        go_on: do not stop there; a run with the same options that did goes on.
        options: what a run that stopped is known by.
    """
    if ledger is None or ledger.path is None:
        if resume:
            raise UsageError(
                "resume (True) needs a ledger: without one, charges are forgotten when the "
                "process ends"
            )
        return nullcontext()
    return RunRecorder(
        Workspace.here().folder,
        command=command,
        source=identify(source) if isinstance(source, str | Path) else "DataFrame",
        resume=resume,
        again=again,
        insist=insist,
        go_on=go_on,
        options=options,
    )
