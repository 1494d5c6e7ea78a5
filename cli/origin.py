"""The private table that a release was made from, with the same rows held out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    from marginalsyn.cli.source import Source
    from marginalsyn.ledger import Ledger
    from marginalsyn.private import PrivateTable
    from marginalsyn.release import Release
    from marginalsyn.workspace import Kept


def find_origin(
    release: Release,
    *,
    data: str | None,
    dataset: str | None,
    ledger_path: Path | None,
    sep: str | None,
) -> tuple[Source, Kept]:
    """The table named, else the one that the workspace remembers for the release's rows."""
    from marginalsyn.cli.source import DATASET, Source
    from marginalsyn.workspace import Kept, Workspace

    if data is not None and dataset is not None:
        raise UsageError("--data and --dataset name two sources; give one of them")
    workspace = Workspace.here()
    known = workspace.of_rows(release.statement.files[release.frame_file])
    if dataset is not None:
        from marginalsyn import datasets

        data = DATASET + str(datasets.describe(dataset)["name"])
    if data is None and known is None:
        raise UsageError(
            f"release ({release.path.name}) was not made in this workspace: name the table that it "
            "was made from with --data or --dataset"
        )
    key = data or (known[0].source if known else "")
    source = Source(
        key=key,
        schema=release.schema,
        ledger_path=ledger_path,
        holdout=known[1].holdout if known else 0.0,
        sep=sep or (known[0].sep if known else None),
        workspace=workspace,
    )
    return source, known[1] if known else Kept()


def open_origin(source: Source, kept: Kept, ledger: Ledger, neighbours: str) -> PrivateTable:
    """The door to the rows that the generator saw; reads none."""
    table = source.open(ledger, salt=kept.holdout_salt, neighbours=neighbours)
    table.check_layout()
    return table
