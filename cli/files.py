"""Files of --out: refused where they are there already, written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO

from marginalsyn.errors import MarginalsynError, UsageError


def check_new(path: Path | None, force: bool) -> None:
    """Refuse a file of --out that is there already, unless it may be replaced."""
    if path is not None and path.exists() and not force:
        raise UsageError(f"--out ({path}) must not exist yet; choose another name, or add --force")


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
