"""Where a ledger's lines are: in an SQLite file, or in memory.

A small head file with the ledger's name says how many lines there were and what the last one was,
so that a ledger that was deleted, or replaced by an earlier copy, is found as well.

What was committed or written is on the disk when the call returns. A ledger keeps SQLite's rollback
journal: at rest it is one file, which can be copied, shared over a network and read where nothing
may be written. A run's answers go through a write-ahead log, which costs one flush an answer but
lets in one process only, as a run does.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from marginalsyn.errors import LedgerError, reason_of
from marginalsyn.records.entries import Header, Known, Record, digest, distrust, now
from marginalsyn.records.totals import LedgerState, read_lines

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


# How long to wait for another process that holds the lock.
LOCK_SECONDS = 60.0
# How the text files began that were ledgers of version 0.1.
_TEXT = b'{"record": "ledger"'


def head_path(path: Path) -> Path:
    """Where a ledger's head file lies."""
    return path.with_name(f"{path.name}.head")


def _read_head(path: Path | None) -> tuple[int, str]:
    """How many lines there were, and the hash of the last; no line where the head is unreadable."""
    if path is None:
        return 0, ""
    try:
        head = json.loads(head_path(path).read_bytes())
        return int(head["lines"]), str(head["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0, ""


def _read_checked(
    lines: list[bytes], head: tuple[int, str], path: Path | None, strict: bool
) -> LedgerState:
    """The book of these lines; with ``strict`` no line that the head knows of is missing.

    The head must be read before the lines.
    """
    book = read_lines(lines, path, strict=strict)
    number, last = head
    problem = ""
    if number > len(lines):
        problem = f"it had {number} lines when it was last written, and its end is missing"
    elif number > 0 and digest(lines[number - 1]) != last:
        problem = f"line {number}, the last one when it was written, is not what it was"
    if strict and problem:
        raise LedgerError(distrust(path, problem))
    return book


class LedgerFile:
    """The lines of one ledger; see :class:`marginalsyn.records.ledger.Ledger` for the arguments."""

    def __init__(self, path: Path | None, source: str, known: Known) -> None:
        self.path = path
        self._source, self._known = source, known
        self._guard = threading.Lock()
        self._memory = open_file(None) if path is None else None
        if self._memory is not None:
            weakref.finalize(self, self._memory.close)

    def read(self, strict: bool = True) -> LedgerState:
        """The present state; without ``strict`` the hashes are not checked."""
        head = _read_head(self.path)
        with self._explained("read"):
            lines = self._present()
        book = _read_checked(lines, head, self.path, strict)
        if not lines:
            book.source = self._source
        return book

    @contextmanager
    def changing(self, strict: bool = True) -> Iterator[LedgerState]:
        """The present state with nobody else writing; what is added to it is on disk at the end."""
        with self._guard, self._explained("written"):
            if self.path is not None:
                make_folder(self.path.parent)
            with self._opened(create=True) as db, transaction(db):
                head = _read_head(self.path)
                book = _read_checked(_lines_of(db, self.path), head, self.path, strict)
                before = len(book.lines)
                book.extend(self._first(book))
                yield book
                _insert(db, book.lines[before:])
            if self.path is not None:
                self._confirm(book, self.path, strict)

    def _first(self, book: LedgerState) -> list[Record]:
        """What is written before the first record of this process: whose ledger it is."""
        first: list[Record] = []
        if not book.lines:
            first.append(Header(source=self._source, time=now()))
        if set(self._known.names) - book.names or set(self._known.marks) - book.marks:
            # With its marks, which show that a database was asked for the names.
            names = tuple(sorted(set(self._known.names) - book.names))
            first.append(Known(names=names, marks=self._known.marks, time=now()))
        return first

    def _confirm(self, book: LedgerState, path: Path, strict: bool) -> None:
        """Read again what was written, write the head, and read once more.

        A lock is lost where a network's file system has none, and a file may be deleted while it
        is written. Whichever of two writers is the later one finds the other's line or head.
        """
        for _ in range(2):
            head = _read_head(path)
            with self._opened() as db, transaction(db):
                lines = _lines_of(db, path)
                if lines[: len(book.lines)] != book.lines:
                    raise LedgerError(
                        f"ledger ({path}) must be written by one process at a time, but another "
                        "one wrote, moved or deleted it at the same time although it was locked; "
                        "nothing was measured for this run. Do not delete its files while "
                        "commands run"
                    )
                _read_checked(lines, head, path, strict)
                if head != (len(lines), digest(lines[-1])):
                    new = {"lines": len(lines), "digest": digest(lines[-1])}
                    # A head that lags behind loses nothing but the proof of the last lines.
                    with suppress(OSError):
                        write_bytes(head_path(path), json.dumps(new).encode())

    def _present(self) -> list[bytes]:
        if self.path is None:
            with self._guard, self._opened() as db:
                return _lines_of(db, None)
        if not self.path.exists():
            return []
        with self._opened() as db:
            return _lines_of(db, self.path)

    @contextmanager
    def _opened(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        if self._memory is not None:
            yield self._memory
            return
        with closing(open_file(self.path, create=create, wait=LOCK_SECONDS)) as db:
            yield db

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        """Say what is to be done where the system does not let us read or write."""
        try:
            yield
        except (sqlite3.Error, OSError, NotImplementedError, UnicodeDecodeError) as error:
            if is_busy(error):
                raise LedgerError(
                    f"ledger ({self.path}) must be free, but another process has kept its lock for "
                    f"{LOCK_SECONDS:g} seconds; wait for it or stop it"
                ) from error
            if code(error) == "SQLITE_NOTADB" and self._begins_as_text():
                raise LedgerError(
                    f"ledger ({self.path}) must be an SQLite file, but it is a text file, as "
                    "version 0.1 wrote it: a charge or a cap by version 0.2 takes it over"
                ) from error
            if is_damaged(error):
                raise LedgerError(distrust(self.path, f"it is damaged ({error})")) from error
            raise LedgerError(
                f"ledger ({self.path}) must be readable and writable, but it cannot be {verb}: "
                f"{reason_of(error)}; nothing was measured, make room or mend its permissions and "
                "run again"
            ) from error

    def _begins_as_text(self) -> bool:
        assert self.path is not None
        # Only where it is no database: whoever closes a file gives up its process's locks on it.
        return self.path.read_bytes().startswith(_TEXT)


def _lines_of(db: sqlite3.Connection, path: Path | None) -> list[bytes]:
    """Every line in a database; none where it is empty."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION:
        if application or db.execute("SELECT 1 FROM sqlite_schema").fetchone():
            raise LedgerError(distrust(path, "it is not a ledger"))
        return []
    lines = db.execute("SELECT CAST(line AS BLOB) FROM lines ORDER BY number")
    return [line or b"" for (line,) in lines]


def _insert(db: sqlite3.Connection, lines: list[bytes]) -> None:
    db.execute(f"PRAGMA application_id={APPLICATION}")
    db.execute("CREATE TABLE IF NOT EXISTS lines (number INTEGER PRIMARY KEY, line TEXT NOT NULL)")
    rows = [(line.decode(),) for line in lines]
    db.executemany("INSERT INTO lines (line) VALUES (?)", rows)
