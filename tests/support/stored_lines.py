"""The lines of a ledger as they are stored, read and changed without the code that writes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

Lines = list[bytes]


def is_sqlite(path: Path) -> bool:
    """Whether it is an SQLite file; else it is a text file of the earlier form."""
    return path.read_bytes().startswith(b"SQLite format 3\0")


def lines_of(path: Path) -> Lines:
    """Every line in its order."""
    if not is_sqlite(path):
        return path.read_bytes().splitlines()
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT line FROM lines ORDER BY number").fetchall()
    return [line.encode() for (line,) in rows]


def spoil(path: Path, change: Callable[[Lines], Lines]) -> None:
    """Change the lines behind the ledger's back."""
    lines = change(lines_of(path))
    if not is_sqlite(path):
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM lines")
        rows = [(line.decode(),) for line in lines]
        db.executemany("INSERT INTO lines (line) VALUES (?)", rows)


def as_text(path: Path) -> None:
    """Give a ledger the form that it had before it was an SQLite file; its head stays."""
    lines = lines_of(path)
    path.unlink()
    path.write_bytes(b"".join(line + b"\n" for line in lines))
