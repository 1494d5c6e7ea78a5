"""What ``weight`` reads and writes: rows of a release or of another tool, public rows, files."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn import defaults
from marginalsyn.contract import Target
from marginalsyn.errors import UsageError
from marginalsyn.operations.files import TABLES, is_table, read_table, replace_file, rows_in
from marginalsyn.operations.origins import labelled
from marginalsyn.operations.other_rows import adopt_rows, take_rows
from marginalsyn.release.folder import LOG, Release, preflight
from marginalsyn.release.linked import PersonsRelease, is_linked_release
from marginalsyn.sources.identity import same_source
from marginalsyn.table.codec import Codec
from marginalsyn.table.design import resample
from marginalsyn.table.frames import write_csv, write_parquet
from marginalsyn.table.made import complete
from marginalsyn.table.schema import Schema
from marginalsyn.weights.columns import weights_csv

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.operations.files import Table
    from marginalsyn.operations.origins import Input
    from marginalsyn.operations.other_rows import Findings
    from marginalsyn.privacy.charges import Neighbours
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.weights.columns import WeightColumn


def read_target(
    path: Path, schema: str | Path | None, label: str | None
) -> tuple[Target, Findings | None]:
    """The rows to be weighted, and what the schema changed in those of another tool's file."""
    if not is_table(path):
        # Of linked tables persons are weighted: all rows that belong to one have its weight.
        reader = PersonsRelease if is_linked_release(path) else Release
        return Target.of(reader.read(path)), None
    if schema is None:
        raise UsageError(f"rows ({path}) that another tool made need a schema: add --schema FILE")
    known = labelled(Schema.read(schema), label)
    frame, findings = take_rows(read_table(path), known)
    return Target(frame=frame, schema=known, rows=float(max(len(frame), 1))), findings


def read_public(table: Table | None, schema: Schema, origin: Input | None) -> pd.DataFrame | None:
    """Rows that are no secret; never those of the private source."""
    if table is None:
        return None
    if origin is not None and isinstance(table, str | Path) and same_source(table, origin.key):
        raise UsageError(f"--public ({table}) must not be the private table")
    return Codec(schema).conform(rows_in(table))


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


def resampled(
    release: Release, weighted: WeightColumn, how: str | None, rows: int | None, seed: int | None
) -> dict[str, bytes]:
    """The table without weights, as a file of the release; none if it is not asked for."""
    if how is None:
        return {}
    suffix = Path(release.frame_file).suffix
    picked = resample(weighted.weights, how, np.random.default_rng(seed), rows)  # type: ignore[arg-type]
    frame = release.frame().iloc[picked].reset_index(drop=True)
    handle = io.BytesIO()
    whole = complete(frame, release.schema)
    if suffix == ".csv":
        write_csv(whole, handle, form=release.text_form)
    else:
        write_parquet(whole, handle)
    return {f"resampled-{weighted.name}{suffix}": handle.getvalue()}


def release_folder(out: str | Path | None, force: bool) -> Path:
    """Where rows that another tool made become a release with weights."""
    folder = Path(out or defaults.RELEASE)
    if folder.suffix in TABLES:
        raise UsageError(
            f"--out ({folder}) must be a folder, such as {folder.with_suffix('')}: private weights "
            "are written with their rows and a statement of what they cost"
        )
    preflight(folder, force)
    return folder


def unprotected_file(
    release: Release | None, path: Path, name: str, out: str | Path | None, force: bool
) -> Path:
    """The file of weights that protect nobody: never in a release.

    Args:
        release: whose rows are weighted; None for rows of another tool.
        path: where the rows lie.
        name: of the weights' column.
        out: the file that was named.
        force: replace it.
    """
    stem = release.path.name if release is not None else path.stem
    chosen = Path(defaults.EVALUATION) / f"{stem}.{name}.not-private.csv"
    file = Path(out) if out is not None else chosen
    if release is not None and release.path in file.resolve().parents:
        raise UsageError(f"--out ({file}) must lie outside the release: it is not private")
    if file.is_dir() or file.resolve() == path.resolve():
        raise UsageError(f"--out ({file}) must be a file of its own, such as weights.csv")
    if file.exists() and not force:
        raise UsageError(
            f"file ({file}) is there already: add --force to replace it, or name another --out"
        )
    return file


def write_unprotected(file: Path, weighted: WeightColumn) -> None:
    """Write weights that protect nobody into a file for the curator."""
    columns = {weighted.name: weighted.weights, weighted.name + LOG: weighted.log_weights}
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, lambda handle: handle.write(weights_csv(columns)))
