"""A table behind a web address: brought here once, and a file from then on."""

from __future__ import annotations

import os
import shutil
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from marginalsyn.errors import DataError, UsageError

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from marginalsyn.cli.screen import Notes

WEB = ("http", "https")
# Without a word from the server.
PATIENCE_SECONDS = 60
# What a name may lack, by the type that the server tells.
SUFFIXES = {"text/csv": ".csv", "text/tab-separated-values": ".tsv"}


def brought(data: str, notes: Notes) -> str:
    """The path of a file that holds what lies at a web address; all else as it is.

    The file lies in the current folder under the name of the address, for its owner alone: the
    commands that ``start`` leaves behind read it again, and the address may change.

    Raises:
        UsageError: the file is there already, or the address names none.
        DataError: it cannot be had.
    """
    parts = urlsplit(data) if "://" in data else None
    if parts is None or parts.scheme.lower() not in WEB:
        return data
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    name = Path(unquote(parts.path)).name
    if not name:
        raise UsageError(f"data ({shown}) must name a file, such as https://host/people.csv")
    _refuse_present(Path(name))
    try:
        request = Request(data, headers={"User-Agent": "marginalsyn"})
        with urlopen(request, timeout=PATIENCE_SECONDS) as found:
            kind = found.headers.get_content_type()
            if kind == "text/html":
                raise DataError(f"data ({shown}) must be a table: the server sent a web page")
            path = Path(name) if Path(name).suffix else Path(name + SUFFIXES.get(kind, ""))
            _refuse_present(path)
            _write(found, path)
    except (URLError, HTTPException, OSError, ValueError) as error:
        why = error.reason if isinstance(error, URLError) else error
        raise DataError(f"data ({shown}) must be there to be read: {why}") from None
    notes.say(f"fetched {shown} into {path} ({path.stat().st_size:,} bytes), for you alone to read")
    return str(path)


def _refuse_present(path: Path) -> None:
    if path.exists():
        raise UsageError(
            f"{path} is here already: start from it (marginalsyn start {path}), or move it away "
            "to fetch it again"
        )


def _write(found: HTTPResponse, path: Path) -> None:
    """Write all of it or nothing, readable by its owner."""
    part = path.with_name(path.name + ".part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as target:
            shutil.copyfileobj(found, target)
        if found.length:  # what was announced and did not come
            raise DataError(f"data ({path}) came cut short by {found.length:,} bytes: try again")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
