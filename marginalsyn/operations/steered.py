"""A steered release, written and remembered beside the one that it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from marginalsyn.errors import UsageError
from marginalsyn.operations.origins import find_origin, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from marginalsyn.progress import Progress
    from marginalsyn.release.folder import Release

AnyRelease = TypeVar("AnyRelease", bound="Release")


def steer_release(
    source: AnyRelease,
    targets: Mapping[str, Any],
    *,
    method: str,
    rows: int | None,
    steps: int | None,
    out: Path,
    seed: int | None,
    force: bool,
    progress: Progress | None,
) -> AnyRelease:
    """Make a release with stated margins from one that exists; it reads nothing private."""
    import numpy as np

    from marginalsyn.release.folder import preflight
    from marginalsyn.steering.steering import steer as make

    if out.resolve() == source.path:
        raise UsageError(f"--out ({out}) must not be the release that is steered")
    preflight(out, force)
    synthesis, statement = make(
        source,
        targets,
        method=method,
        rows=rows,
        rng=np.random.default_rng(seed),
        options={} if steps is None else {"steps": steps},
        progress=progress,
    )
    kind: Any = "csv" if source.frame_file.endswith(".csv") else "parquet"
    made = source.write(synthesis, source.schema, statement, out, format=kind, force=force)
    origin = find_origin(made.schema, rows_of(source))
    if origin is not None:
        origin.remember(made)
    return made
