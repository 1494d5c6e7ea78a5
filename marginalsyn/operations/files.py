"""Files of --out: refused where they are there already, written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from marginalsyn.errors import MarginalsynError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.plugins.exchange.formats import Exported


def check_new(path: Path | None, force: bool) -> None:
    """Refuse a file of --out that is there already, unless it may be replaced."""
    if path is not None and path.exists() and not force:
        raise UsageError(
            f"--out ({path}) is there already: add --force to replace it, or choose another name"
        )


def replace_file(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Fill a file beside ``path`` and rename it; a failure leaves nothing behind."""
    beside = path.with_name(f".{path.name}.unfinished-{secrets.token_hex(4)}")
    try:
        with beside.open("xb") as handle:
            fill(handle)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise MarginalsynError(
            f"file ({path}) was not written: {error.strerror or error}; choose another place"
        ) from error
    finally:
        beside.unlink(missing_ok=True)


def check_table(path: Path | None, force: bool) -> None:
    """Refuse a file of rows of --out that is there already, or is of no kind that we write."""
    if path is not None and path.suffix not in (".csv", ".parquet"):
        raise UsageError(f"--out ({path}) must end in .csv or .parquet")
    check_new(path, force)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write rows as their file's name says."""
    from marginalsyn.table.frames import write_csv, write_parquet

    write = write_parquet if path.suffix == ".parquet" else write_csv
    replace_file(path, lambda handle: write(frame, handle))


def write_text(path: Path, text: str) -> None:
    """Write a text."""
    replace_file(path, lambda handle: handle.write(text.encode()))


def write_exported(found: Exported, place: Path, force: bool) -> Path:
    """Write an exported release: one file to its place, several into a folder of that name."""
    single = len(found.files) == 1
    paths = {place if single else place / name: data for name, data in found.files.items()}
    for path in paths:
        check_new(path, force)
    if not single:
        place.mkdir(parents=True, exist_ok=True)
    for path, data in paths.items():
        replace_file(path, lambda handle, data=data: handle.write(data))  # type: ignore[misc]
    return place
