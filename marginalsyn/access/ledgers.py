"""Where ledgers are kept: one for each private source, in the user's data folder.

``MARGINALSYN_LEDGERS`` names another folder, such as one that several users share.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from marginalsyn.errors import LedgerError, UsageError
from marginalsyn.records.entries import Known, parse_line
from marginalsyn.records.ledger import Ledger
from marginalsyn.records.ledger_file import LedgerFile, is_damaged, make_folder
from marginalsyn.records.totals import LedgerState
from marginalsyn.records.workspace import identify, slug
from marginalsyn.sources.identity import identity

VARIABLE = "MARGINALSYN_LEDGERS"


def ledgers_folder() -> Path:
    """The folder of the user's ledgers; it need not exist yet."""
    given = os.environ.get(VARIABLE)
    if given:
        if not os.path.isabs(given):
            raise UsageError(
                f"{VARIABLE} ({given}) must be an absolute path, so that a ledger is the same from "
                "every folder"
            )
        return Path(given)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "marginalsyn" / "ledgers"


def open_ledger(source: str | Path, tables: Iterable[str] = (), *, start: bool = False) -> Ledger:
    """The ledger of a source: the same one from any folder and under any name.

    Args:
        source: a path, a folder, a glob, a database address, or ``dataset:NAME``.
        tables: of a database, where several are taken together.
        start: start Spark, or connect to it, to ask which rows a name of a table stands for.

    Raises:
        LedgerError: the files of the source have several ledgers.
        NotOneTableError: the source is a view that no table's ledger can count for.
    """
    found = identity(source, tables, start=start)
    folder = ledgers_folder()
    matching = [
        path for path, book in _books(folder) if found.meets(book.names, book.marks, book.unasked)
    ]
    if len(matching) > 1:
        listed = ", ".join(str(path) for path in matching)
        kind, one = ("its rows", "table") if "://" in str(source) else ("its files", "file")
        raise LedgerError(
            f"data ({identify(source)}) must have one ledger, but {kind} are in "
            f"{len(matching)}: {listed}. Take one {one} at a time, or name one ledger for all of "
            "them with --ledger"
        )
    _make(folder)
    name = identify(source)
    names = sorted(found.names)
    file = slug(names[0], "\n".join(names), 12)
    path = matching[0] if matching else folder / f"{file}.sqlite"
    known = Known(names=tuple(names), marks=tuple(sorted(found.marks)))
    ledger = Ledger(path, source=name, known=known)
    ledger.unasked = found.unasked
    return ledger


def all_ledgers() -> list[Ledger]:
    """Every ledger in the user's folder."""
    # An empty file is what a process left that was stopped before it wrote anything.
    return [Ledger(path) for path in _files(ledgers_folder()) if path.stat().st_size]


def _books(folder: Path) -> Iterator[tuple[Path, LedgerState]]:
    """The contents of every ledger in a folder; a damaged one raises its error when it is used."""
    for path in _files(folder):
        try:
            yield path, LedgerFile(path, "", Known()).read(strict=False)
        except LedgerError as error:
            if error.__cause__ is not None and not is_damaged(error.__cause__):
                raise LedgerError(f"{error}; it may be the ledger of this source") from error
            yield path, _spoilt(path)


def _spoilt(path: Path) -> LedgerState:
    """The names of a damaged ledger that can still be read, so that it is found."""
    book, text = LedgerState(), path.read_bytes().decode("latin-1")
    for place in re.finditer(r'\{"record": "known"', text):
        with suppress(ValueError):
            _, end = json.JSONDecoder().raw_decode(text, place.start())
            if (record := parse_line(text[place.start() : end].encode())) is not None:
                book.add(record)
    return book


def _files(folder: Path) -> list[Path]:
    """The ledgers in a folder; those that began in the earlier form have its suffix."""
    try:
        return sorted([*folder.glob("*.sqlite"), *folder.glob("*.jsonl")])
    except OSError:
        return []


def _make(folder: Path) -> None:
    """Make the folder, for nobody else to read."""
    if folder.is_dir():
        return
    try:
        make_folder(folder)
        folder.chmod(0o700)
    except OSError as error:
        raise UsageError(
            f"folder ({folder}) of your ledgers must be writable: {error.strerror or error}; name "
            f"another one in the environment variable {VARIABLE}, or one ledger with --ledger"
        ) from error
