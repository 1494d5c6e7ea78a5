"""Where a ledger's lines are: in a file, locked while it is written, or in memory.

A small head record beside the file tells how many lines there were, so that a line missing at the
end is found as well.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from marginalsyn.errors import LedgerError
from marginalsyn.records.charge_records import (
    Header,
    Known,
    Record,
    Torn,
    digest,
    distrust,
    now,
    parse_line,
    unusable,
)
from marginalsyn.records.durable import append_bytes, make_folder, replace_bytes, write_bytes
from marginalsyn.records.ledger_state import LedgerState, parse

# How long to wait for another process that holds the lock.
LOCK_SECONDS = 60.0


class Head(BaseModel):
    """What the ledger's end was when it was last written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lines: int
    digest: str


def head_path(path: Path) -> Path:
    """Where a ledger's head record lies."""
    return path.with_name(f"{path.name}.head")


def read_head(path: Path) -> Head | None:
    """The head record; None where there is none that can be read."""
    try:
        return Head.model_validate_json(head_path(path).read_bytes())
    except (OSError, ValidationError):
        return None


def check_head(head: Head | None, data: bytes) -> str | None:
    """What is wrong with the end of the ledger, if anything. The head is read before the ledger."""
    if head is None or head.lines == 0:
        return None
    lines = data.split(b"\n")
    if len([line for line in lines if line]) < head.lines:
        return f"it had {head.lines} lines when it was last written, and its end is missing"
    if digest(lines[head.lines - 1]) != head.digest:
        return f"line {head.lines}, the last one when it was written, is not what it was"
    return None


class LedgerFile:
    """The lines of one ledger; see :class:`marginalsyn.records.ledger.Ledger` for the arguments."""

    def __init__(self, path: Path | None, source: str, known: Known) -> None:
        self.path = path
        self._source, self._known = source, known
        self._kept = LedgerState(source=source)
        self._guard = threading.Lock()

    def read(self, strict: bool = True) -> LedgerState:
        """The present state; without ``strict`` the hashes are not looked at."""
        if self.path is None:
            return self._kept
        head = read_head(self.path)
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            if strict and (problem := check_head(head, b"")):
                raise LedgerError(distrust(self.path, problem)) from None
            return LedgerState(source=self._source)
        except OSError as error:
            raise LedgerError(unusable(self.path, "read", error)) from error
        book = parse(data, self.path, strict=strict)
        if strict and (problem := check_head(head, data)):
            raise LedgerError(distrust(self.path, problem))
        return book

    @contextmanager
    def locked(self, strict: bool = True) -> Iterator[LedgerState]:
        """The present state, with nobody else writing."""
        if self.path is None:
            with self._guard:
                yield self._kept
            return
        try:
            make_folder(self.path.parent)
            lock = FileLock(f"{self.path}.lock", timeout=LOCK_SECONDS)
            lock.acquire()
        except Timeout as error:
            raise LedgerError(
                f"ledger ({self.path}) must be free, but another process has held its lock for "
                f"{LOCK_SECONDS:g} seconds; wait for it or stop it"
            ) from error
        except (OSError, NotImplementedError) as error:
            raise LedgerError(unusable(self.path, "locked", error)) from error
        try:
            yield self.read(strict)
        finally:
            lock.release()

    def append(self, book: LedgerState, records: Sequence[Record]) -> None:
        """Write records at the end of the book that :meth:`locked` gave."""
        if self.path is None:
            for record in records:
                book.add(record)
            return
        try:
            if book.torn:
                _repair(self.path, book)
            size = len(book.data)
            first: list[Record] = [] if size else [Header(source=self._source, time=now())]
            names = set(self._known.names) - book.names
            marks = set(self._known.marks) - book.marks
            if names or marks:
                # With its marks, which show that a database was asked for the names.
                new = Known(names=tuple(sorted(names)), marks=self._known.marks, time=now())
                first.append(new)
            append_bytes(self.path, book.extend([*first, *records]), size)
        except OSError as error:
            raise LedgerError(unusable(self.path, "written", error)) from error
        # A head that lags behind loses nothing but the proof that the last lines are all there.
        # It is that of the file as it is: where a lock was lost, others have written as well.
        with suppress(OSError):
            whole, _, _ = self.path.read_bytes().rpartition(b"\n")
            lines = whole.split(b"\n")
            head = Head(lines=len(lines), digest=digest(lines[-1]))
            write_bytes(head_path(self.path), head.model_dump_json().encode())


def _repair(path: Path, book: LedgerState) -> None:
    """Complete a torn last line, or replace it by a record that keeps what is left of it."""
    if parse_line(book.torn) is not None:
        book.data += book.torn + b"\n"
    elif book.data:
        book.extend([Torn(text=book.torn.decode(errors="backslashreplace"), time=now())])
    replace_bytes(path, book.data)
    book.torn = b""
