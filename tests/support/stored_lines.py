"""The lines of a ledger as they are stored, read and changed without the code that writes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

Lines = list[bytes]


def lines_of(path: Path) -> Lines:
    """Every line in its order; none where no record was ever written."""
    with closing(sqlite3.connect(path)) as db:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'lines'").fetchone():
            return []
        rows = db.execute("SELECT line FROM lines ORDER BY number").fetchall()
    return [line.encode() for (line,) in rows]


def spoil(path: Path, change: Callable[[Lines], Lines]) -> None:
    """Change the lines behind the ledger's back."""
    store(path, change(lines_of(path)))


def store(path: Path, lines: Lines) -> None:
    """Make these the lines of a ledger, in its file or in a new one."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA application_id=0x6D73796E")
        db.execute(
            "CREATE TABLE IF NOT EXISTS lines (number INTEGER PRIMARY KEY, line TEXT NOT NULL)"
        )
        db.execute("DELETE FROM lines")
        rows = [(line.decode(),) for line in lines]
        db.executemany("INSERT INTO lines (line) VALUES (?)", rows)


def as_text(path: Path) -> None:
    """Give a ledger the form that it had in version 0.1; its head stays."""
    lines = lines_of(path)
    path.unlink()
    path.write_bytes(b"".join(line + b"\n" for line in lines))
