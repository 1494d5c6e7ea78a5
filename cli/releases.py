"""Which release a command means."""

from __future__ import annotations

from pathlib import Path

from marginalsyn.cli.options import DEFAULT_RELEASE


def chosen(release: Path | None) -> Path:
    """The release given; else ./release; else the last one that was made in this workspace."""
    if release is not None:
        return release
    default = Path(DEFAULT_RELEASE)
    if default.exists():
        return default
    from marginalsyn.workspace import Workspace

    last = Workspace.here().last.get("release")
    return Path(last) if last else default
