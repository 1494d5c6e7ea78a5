"""Files of rows that any tool wrote, read as text or as rows of a schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from marginalsyn.errors import DataError, reason_of

if TYPE_CHECKING:
    import pandas as pd


TABLES = (".csv", ".parquet")
# A table that was handed over, or the file that holds it.
Table: TypeAlias = "pd.DataFrame | str | Path"


def is_table(path: Path) -> bool:
    """Whether a path names a file of rows rather than a release."""
    return path.suffix in TABLES and not path.is_dir()


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


def rows_in(table: Table, *, numbers: bool = False) -> pd.DataFrame:
    """The rows of a table that is a frame already, or of its file."""
    return read_table(Path(table), numbers=numbers) if isinstance(table, str | Path) else table
