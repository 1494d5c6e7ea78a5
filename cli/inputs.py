"""What a command means: which release, and which files beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn import defaults
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release


def release_path(release: Path | None) -> Path:
    """The release given; else the last one made in this workspace; else ./release."""
    if release is not None:
        return release
    from marginalsyn.records.workspace import Workspace

    last, here = Workspace.here().read_last().get("release"), Path.cwd()
    if last is None or not Path(last).exists():
        return Path(defaults.RELEASE)
    return Path(last).relative_to(here) if Path(last).is_relative_to(here) else Path(last)


def read_release(release: Path | None) -> Release:
    """The release that is meant, opened."""
    from marginalsyn.release.folder import Release

    return Release.read(release_path(release))


def read_json(path: Path, flag: str = "file") -> Any:
    """A JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{flag} ({path}) must be readable JSON: {error}") from None
