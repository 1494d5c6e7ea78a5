"""SQLite files and small files that survive a crash and a power cut.

What was committed or written is on the disk when the call returns. A ledger keeps SQLite's rollback
journal: at rest it is one file, which can be copied, shared over a network and read where nothing
may be written. A run's answers go through a write-ahead log, which costs one flush an answer but
lets in one process only, as a run does.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

# In the header of a file, so that another program's database is never taken for ours.
APPLICATION = 0x6D73796E


def open_file(
    path: Path | None, *, create: bool = False, alone: bool = False, wait: float = 0.0
) -> sqlite3.Connection:
    """Open an SQLite file, or a database in memory; every statement is its own transaction.

    Args:
        path: of the file; None for one in memory.
        create: create the file if it is not there, readable by its owner only.
        alone: use a write-ahead log, and keep other processes out until the file is closed.
        wait: how many seconds to wait for another process that holds a lock.

    Raises:
        sqlite3.Error: the file cannot be opened.
    """
    if path is None:
        return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    fresh = create and not path.exists()
    uri = f"{path.resolve().as_uri()}?mode={'rwc' if create else 'rw'}"
    db = sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None, check_same_thread=False)
    if fresh:
        # Not by opening it: whoever closes a file gives up the locks that its process has on it.
        with contextlib.suppress(OSError):
            path.chmod(0o600)
    try:
        if alone:
            db.execute("PRAGMA locking_mode=EXCLUSIVE")
            db.execute("PRAGMA journal_mode=WAL")
        # A rollback journal cannot come back after a power cut and undo what it covered.
        db.execute("PRAGMA synchronous=EXTRA")
    except BaseException:
        db.close()
        raise
    return db


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Keep other writers out; all changes are on the disk at the end, or none is made."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        raise


def is_busy(error: BaseException) -> bool:
    """Whether another process has the lock."""
    return code(error).startswith("SQLITE_BUSY")


def is_damaged(error: BaseException) -> bool:
    """Whether a file is not what SQLite wrote; its messages may then quote what is no text."""
    damaged = code(error).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))
    return damaged or isinstance(error, UnicodeDecodeError)


def code(error: BaseException) -> str:
    """SQLite's name of an error; empty for any other error."""
    return str(getattr(error, "sqlite_errorname", ""))


def write_bytes(path: Path, data: bytes) -> None:
    """Write a small file whole or not at all."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with open(new, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    new.replace(path)
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, each flushed into the one above."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        sync_folder(one.parent)


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to the disk, where the system knows how."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
