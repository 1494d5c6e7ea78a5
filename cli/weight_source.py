"""What ``marginalsyn weight`` weights, from which private table, and with what budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from marginalsyn.cli import options
from marginalsyn.cli.releases import chosen
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.budget import Budget
    from marginalsyn.cli.source import SourceChoice
    from marginalsyn.contract import Target
    from marginalsyn.release import Kept, Release
    from marginalsyn.table import Schema

DEFAULT_SHARE = 0.1
TABLES = (".csv", ".parquet")


def find_target(release: Path | None, schema_path: Path | None) -> tuple[Target, Release | None]:
    """The rows to be weighted, and the release that they are from if they are from one."""
    from marginalsyn.contract import Target
    from marginalsyn.release import Release

    path = chosen(release)
    if path.suffix not in TABLES or path.is_dir():
        found = Release.read(path)
        return Target.of(found), found
    if schema_path is None:
        raise UsageError(f"rows ({path}) that another tool made need their --schema")
    from marginalsyn.table import Schema

    schema = Schema.read(schema_path)
    frame = read_rows(path, schema)
    return Target(frame=frame, schema=schema, rows=float(max(len(frame), 1))), None


def rows_of(found: Release | None) -> str:
    """The hash of a release's rows, by which the workspace knows what they were made from."""
    return found.statement.files[found.frame_file] if found is not None else ""


def read_rows(path: Path, schema: Schema) -> pd.DataFrame:
    """A CSV or Parquet file as rows of a schema."""
    import pandas as pd

    from marginalsyn.errors import DataError
    from marginalsyn.table import Codec

    try:
        parquet = path.suffix == ".parquet"
        frame = pd.read_parquet(path) if parquet else pd.read_csv(path, dtype=str)
    except (OSError, ValueError) as error:
        raise DataError(f"file ({path}) must be a readable table: {error}") from None
    return Codec(schema).conform(frame)


def allow(
    found: Release | None,
    source: SourceChoice | None,
    eps: float | None,
    share: float | None,
    delta: float | None,
    allow_large_delta: bool,
    free: bool = False,
) -> Budget:
    """What the weights may spend: an own budget, or a share of the total.

    A method that is ``free`` needs none, but is configured with one.
    """
    from marginalsyn.budget import DEFAULT_DELTA, Budget, Neighbours
    from marginalsyn.weights import share_of

    if eps is not None:
        budget = Budget(
            eps=eps,
            delta=delta or (found.statement.target_delta if found else 0) or DEFAULT_DELTA,
            neighbours=found.statement.neighbours if found else Neighbours.ADD_REMOVE,
            allow_large_delta=allow_large_delta or delta is None,
        )
        return budget
    if delta is not None:
        raise UsageError(f"--delta ({delta:g}) belongs to --eps; a share has the release's delta")
    if free and share is None:
        return Budget(eps=1.0)
    if found is None:
        raise UsageError("rows that another tool made need --eps: there is no total to share")
    cap = source.ledger().cap if source is not None else None
    limit = (cap.eps, cap.delta) if cap is not None and cap.eps is not None else None
    return share_of(found, DEFAULT_SHARE if share is None else share, limit)


def read_public(
    path: Path | None, target: Target, source: SourceChoice | None
) -> pd.DataFrame | None:
    """Rows that are no secret; never those of the private source."""
    from marginalsyn.private import same_source

    if path is None:
        return None
    if source is not None and same_source(path, source.key):
        raise UsageError(f"--public ({path}) must not be the private table")
    return read_rows(path, target.schema)


def make_release(target: Target, out: Path | None, force: bool) -> Release:
    """A release of rows that another tool made."""
    from marginalsyn.release import preflight
    from marginalsyn.weights import adopt

    path = out or Path(options.DEFAULT_RELEASE)
    preflight(path, force)
    return adopt(target.frame, target.schema, path, force=force)


def remember_source(release: Release, source: SourceChoice | None, kept: Kept | None) -> None:
    """Remember which private table the weights of another tool's rows are for."""
    if source is None or kept is None:
        return
    source.workspace.remember(
        source.key,
        schema=release.schema,
        sep=source.sep,
        holdout=kept.holdout,
        holdout_salt=kept.holdout_salt,
        neighbours=release.statement.neighbours,
        release=release.path,
        rows=rows_of(release),
    )
