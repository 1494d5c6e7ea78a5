"""The private table that a release was made from, with the same rows held out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    from marginalsyn.cli.source import SourceChoice
    from marginalsyn.private import Ledger, PrivateTable
    from marginalsyn.release import Kept, Release
    from marginalsyn.table import Schema


def find_origin(
    release: Release,
    *,
    data: str | None,
    dataset: str | None,
    ledger_path: Path | None,
    void_earlier_promises: bool = False,
    sep: str | None,
) -> tuple[SourceChoice, Kept]:
    """The table named, else the one that the workspace remembers for the release's rows."""
    found = recall_origin(
        release.schema,
        release.statement.files[release.frame_file],
        data=data,
        dataset=dataset,
        ledger_path=ledger_path,
        void_earlier_promises=void_earlier_promises,
        sep=sep,
    )
    if found is None:
        raise UsageError(
            f"release ({release.path.name}) was not made in this workspace: name the table that it "
            "was made from with --data or --dataset"
        )
    return found


def recall_origin(
    schema: Schema,
    rows: str,
    *,
    data: str | None,
    dataset: str | None,
    ledger_path: Path | None,
    void_earlier_promises: bool = False,
    sep: str | None,
) -> tuple[SourceChoice, Kept] | None:
    """The table named, else the one that rows of this hash were made from; None if unknown.

    What was held out of the rows stays so. Of rows that are not known here, what was last held out
    of the table does.
    """
    from marginalsyn.cli.source import DATASET, SourceChoice
    from marginalsyn.release import Kept, Workspace

    if data is not None and dataset is not None:
        raise UsageError("--data and --dataset name two sources; give one of them")
    workspace = Workspace.here()
    if dataset is not None:
        from marginalsyn import datasets

        data = DATASET + str(datasets.describe(dataset)["name"])
    memory, kept = workspace.of_rows(rows) or (None, Kept())
    if data is not None and memory is None:
        memory = workspace.recall(data)
        if memory is not None:
            kept = Kept(
                holdout=memory.holdout,
                holdout_salt=memory.holdout_salt,
                neighbours=memory.neighbours,
            )
    if data is None and memory is None:
        return None
    source = SourceChoice(
        key=data or (memory.source if memory else ""),
        schema=schema,
        ledger_path=ledger_path,
        void_earlier_promises=void_earlier_promises,
        holdout=kept.holdout,
        sep=sep or (memory.sep if memory else None),
        workspace=workspace,
    )
    return source, kept


def open_origin(source: SourceChoice, kept: Kept, ledger: Ledger, neighbours: str) -> PrivateTable:
    """The door to the rows that the generator saw; reads none."""
    table = source.open(ledger, salt=kept.holdout_salt, neighbours=neighbours)
    table.check_layout()
    return table
