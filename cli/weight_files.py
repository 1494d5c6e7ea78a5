"""What ``marginalsyn weight`` weights, and where it writes: a release, or a file apart."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from marginalsyn import defaults
from marginalsyn.cli.options import Output
from marginalsyn.errors import UsageError
from marginalsyn.operations.origins import labelled
from marginalsyn.operations.tables import TABLES, is_table, read_table

if TYPE_CHECKING:
    from marginalsyn.contract import Target
    from marginalsyn.plugins.exchange.foreign import Findings
    from marginalsyn.privacy.charges import Neighbours
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.release.folder import Release


def read_target(
    path: Path, schema_path: Path | None, label: str | None = None
) -> tuple[Target, Findings | None]:
    """The rows to be weighted, and what the schema changed in those of another tool's file."""
    from marginalsyn.contract import Target
    from marginalsyn.plugins.exchange.foreign import take_rows
    from marginalsyn.release.folder import Release
    from marginalsyn.release.linked import PersonsRelease, is_linked_release
    from marginalsyn.table.schema import Schema

    if not is_table(path):
        # Of linked tables persons are weighted: all that hangs on one has its weight.
        reader = PersonsRelease if is_linked_release(path) else Release
        return Target.of(reader.read(path)), None
    if schema_path is None:
        raise UsageError(f"rows ({path}) that another tool made need a schema: add --schema FILE")
    schema = labelled(Schema.read(schema_path), label)
    frame, findings = take_rows(read_table(path), schema)
    return Target(frame=frame, schema=schema, rows=float(max(len(frame), 1))), findings


def refuse_out(output: Output) -> None:
    """Refuse --out where the weights go into the release that they are of."""
    if output.out is not None:
        raise UsageError(
            f"--out ({output.out}) must be left out: private weights of a release go into its own "
            "weights.csv. It is for rows that another tool made, and for --non-private"
        )


def release_folder(output: Output) -> Path:
    """Where rows that another tool made become a release with weights."""
    from marginalsyn.release.folder import preflight

    folder = output.out or Path(defaults.RELEASE)
    if folder.suffix in TABLES:
        raise UsageError(
            f"--out ({folder}) must be a folder, such as {folder.with_suffix('')}: private weights "
            "are written with their rows and a statement of what they cost"
        )
    preflight(folder, output.force)
    return folder


def file_apart(path: Path, target: Target, name: str, output: Output) -> Path:
    """The file of weights that protect nobody."""
    from marginalsyn.operations.weighting import file_apart as choose

    return choose(target.release, path, name, output.out, output.force)


@contextmanager
def adopted(
    target: Target,
    findings: Findings | None,
    folder: Path | None,
    neighbours: Neighbours,
    force: bool,
    ledger: Ledger | None,
) -> Iterator[Release]:
    """The release of the rows; made of them, in ``folder``, where they are another tool's.

    Without a folder it is gone afterwards. So is one in a new folder if the run fails before it is
    charged.
    """
    from marginalsyn.plugins.exchange.adoption import adopt_rows

    if target.release is not None:
        yield target.release
        return
    adopt = partial(
        adopt_rows, target.frame, target.schema, findings=findings, neighbours=neighbours
    )
    if folder is None:
        with tempfile.TemporaryDirectory() as place:
            yield adopt(Path(place) / "rows")
    else:
        new = not folder.exists()
        made = adopt(folder, force=force)
        try:
            yield made
        except BaseException:
            if new and not (ledger is not None and ledger.made()):
                shutil.rmtree(made.path, ignore_errors=True)
            raise
