"""What a command means: which release, and which files beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn.errors import UsageError
from marginalsyn.operations.groups import release_path

if TYPE_CHECKING:
    from marginalsyn.release import Release


def read_release(release: Path | None) -> Release:
    """The release that is meant, opened."""
    from marginalsyn.release import Release

    return Release.read(release_path(release))


def read_json(path: Path, flag: str = "file") -> Any:
    """A JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{flag} ({path}) must be readable JSON: {error}") from None
