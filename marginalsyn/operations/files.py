"""Files of --out: refused where they are there already, written whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from marginalsyn.errors import DataError, MarginalsynError, UsageError, reason_of

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.table.frames import TextForm

TABLES = (".csv", ".parquet")
# A table that was handed over, or the file that holds it.
Table: TypeAlias = "pd.DataFrame | str | Path"


def read_table(path: Path, *, numbers: bool = False) -> pd.DataFrame:
    """A CSV or Parquet file of any tool; texts stay texts unless ``numbers``."""
    import pandas as pd

    kind: Any = None if numbers else str
    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        sep = "\t" if path.name.endswith((".tsv", ".tsv.gz")) else ","
        return pd.read_csv(
            path,
            sep=sep,
            dtype=kind,
            keep_default_na=False,
            na_values=["", "NaN", "nan"],
            # A blank line in a file of weights is a missing weight.
            skip_blank_lines=not numbers,
        )
    except (OSError, ValueError) as error:
        raise DataError(f"file ({path}) must be a readable table: {reason_of(error)}") from None


def rows_in(table: Table) -> pd.DataFrame:
    """The rows of a table that is a frame already, or of its file."""
    return read_table(Path(table)) if isinstance(table, str | Path) else table


def check_new(path: Path | None, force: bool) -> None:
    """Refuse a file of --out in a release, or one that is there already and is to be kept."""
    from marginalsyn.release.staging import check_outside

    if path is None:
        return
    check_outside(path)
    if path.exists() and not force:
        raise UsageError(
            f"--out ({path}) is there already: add --force to replace it, or name another --out"
        )


def replace_file(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Fill a file next to ``path`` and rename it; a failure leaves nothing behind."""
    unfinished = path.with_name(f".{path.name}.unfinished-{secrets.token_hex(4)}")
    try:
        with unfinished.open("xb") as handle:
            fill(handle)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        raise MarginalsynError(
            f"file ({path}) was not written: {error.strerror or error}; choose another place"
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


def check_table(path: Path | None, force: bool) -> None:
    """Refuse a file of rows of --out that is there already, or is of no kind that we write."""
    if path is not None and path.suffix not in TABLES:
        raise UsageError(f"--out ({path}) must end in .csv or .parquet")
    check_new(path, force)


def check_folder(path: Path | None, force: bool) -> None:
    """Refuse a folder of --out for linked tables that holds something already, or is none."""
    from marginalsyn.release.staging import check_outside

    if path is None or path.suffix in TABLES:
        raise UsageError(
            f"--out ({path}) must name a folder: linked tables are written to a file each"
        )
    check_outside(path)
    if path.exists() and not force and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"--out ({path}) must not hold anything yet; add --force to replace it")


def write_lots(lots: Iterable[pd.DataFrame], path: Path, form: TextForm | None = None) -> None:
    """Write rows as their file's name says; a CSV needs memory for one lot of them at a time."""
    import pandas as pd

    from marginalsyn.table.frames import PLAIN_TEXT, write_csv, write_parquet

    def fill(handle: IO[bytes]) -> None:
        if path.suffix == ".parquet":
            frames = [*lots]
            whole = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
            return write_parquet(whole, handle)
        for place, lot in enumerate(lots):
            write_csv(lot, handle, header=place == 0, form=form or PLAIN_TEXT)

    replace_file(path, fill)


def write_text(path: Path, text: str) -> None:
    """Write a text."""
    replace_file(path, lambda handle: handle.write(text.encode()))


def read_json(path: str | Path, flag: str = "file") -> Any:
    """A JSON file."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{flag} ({path}) must be readable JSON: {error}") from None
