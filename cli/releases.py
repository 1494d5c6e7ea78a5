"""Which release a command means."""

from __future__ import annotations

from pathlib import Path

from marginalsyn.cli.options import DEFAULT_RELEASE


def chosen(release: Path | None) -> Path:
    """The release given; else the last one made in this workspace; else ./release."""
    if release is not None:
        return release
    from marginalsyn.release import Workspace

    last, here = Workspace.here().read_last().get("release"), Path.cwd()
    if last is None or not Path(last).exists():
        return Path(DEFAULT_RELEASE)
    return Path(last).relative_to(here) if Path(last).is_relative_to(here) else Path(last)
