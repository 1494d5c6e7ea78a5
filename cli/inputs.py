"""What a command means: which release, and which files lie next to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from marginalsyn.operations.groups import release_path

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release


def read_release(release: Path | None) -> Release:
    """The release that is meant, opened."""
    from marginalsyn.release.folder import Release

    return Release.read(release_path(release))
