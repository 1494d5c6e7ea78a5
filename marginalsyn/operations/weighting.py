"""What goes with weights: public rows to calibrate on, and the table without weights."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn import defaults
from marginalsyn.errors import UsageError
from marginalsyn.operations.files import replace_file
from marginalsyn.operations.tables import Table, rows_in
from marginalsyn.release.folder import LOG
from marginalsyn.sources.identity import same_source
from marginalsyn.table.codec import Codec
from marginalsyn.table.frames import write_csv, write_parquet
from marginalsyn.table.made import complete
from marginalsyn.table.resampling import resample
from marginalsyn.weights.columns import weights_csv

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.operations.origins import PrivateInput
    from marginalsyn.release.folder import Release
    from marginalsyn.table.schema import Schema
    from marginalsyn.weights.columns import WeightColumn


def read_public(
    table: Table | None, schema: Schema, origin: PrivateInput | None
) -> pd.DataFrame | None:
    """Rows that are no secret; never those of the private source."""
    if table is None:
        return None
    named = isinstance(table, str | Path)
    if origin is not None and named and same_source(table, origin.key):  # type: ignore[arg-type]
        raise UsageError(f"--public ({table}) must not be the private table")
    return Codec(schema).conform(rows_in(table))


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
    (write_csv if suffix == ".csv" else write_parquet)(whole, handle)
    return {f"resampled-{weighted.name}{suffix}": handle.getvalue()}


def file_apart(
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


def write_apart(file: Path, weighted: WeightColumn) -> None:
    """Write weights that protect nobody into a file for the curator."""
    columns = {weighted.name: weighted.weights, weighted.name + LOG: weighted.log_weights}
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, lambda handle: handle.write(weights_csv(columns)))
