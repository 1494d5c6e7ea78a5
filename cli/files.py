"""Writes one file whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO

from marginalsyn.errors import MarginalsynError


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
