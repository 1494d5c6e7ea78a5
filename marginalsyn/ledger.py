"""The ledger of a private source: every charge, written down before the measurement it pays for.

One JSON record a line, appended under a file lock, flushed and fsynced before :meth:`Ledger.charge`
returns. A run that dies has still spent; a line torn by the crash was never acknowledged.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from marginalsyn.budget import (
    DEFAULT_DELTA,
    Charge,
    Neighbours,
    Total,
    check_delta,
    check_eps,
    compose,
    covers,
    show_number,
)
from marginalsyn.durable import append_bytes, make_folder, replace_bytes
from marginalsyn.errors import BudgetError, LedgerError

# How long to wait for another process that holds the lock.
LOCK_SECONDS = 60.0


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Header(_Record):
    """The first line: whose rows the ledger is about."""

    record: Literal["ledger"] = "ledger"
    version: Literal[1] = 1
    source: str = ""
    time: str = ""


class Cap(_Record):
    """A limit on the total from here on; ``eps`` None lifts it."""

    record: Literal["cap"] = "cap"
    eps: float | None
    delta: float = DEFAULT_DELTA
    time: str = ""

    def __str__(self) -> str:
        return f"eps {self.eps:g}, delta {self.delta:g}" if self.eps is not None else "no cap"


class Entry(_Record):
    """What one run was charged, and when; ``id`` is empty in lines of older versions."""

    record: Literal["charge"] = "charge"
    id: str = ""
    time: str = ""
    run: str = ""
    delta: float | None = None
    charges: tuple[Charge, ...]


class Torn(_Record):
    """What a crash left of a line that was never acknowledged."""

    record: Literal["torn"] = "torn"
    text: str
    time: str = ""


_RECORD: TypeAdapter[Header | Cap | Entry | Torn] = TypeAdapter(
    Annotated[Header | Cap | Entry | Torn, Field(discriminator="record")]
)


_BEGINS = b'{"record": "ledger"'


@dataclass
class _Book:
    """Everything a ledger holds at one moment."""

    source: str = ""
    entries: list[Entry] = field(default_factory=list)
    cap: Cap | None = None
    size: int = 0
    torn: bytes = b""

    def add(self, record: Header | Cap | Entry | Torn) -> None:
        if isinstance(record, Entry):
            self.entries.append(record)
        elif isinstance(record, Cap):
            self.cap = record if record.eps is not None else None
        elif isinstance(record, Header):
            self.source = record.source

    @property
    def charges(self) -> list[Charge]:
        return [charge for entry in self.entries for charge in entry.charges]


class Ledger:
    """An append-only account of what a private source has spent.

    Args:
        path: a file, created when something is first written; None keeps the ledger in memory.
        source: a readable name of the private source, written into a new file.

    Example:
        >>> from marginalsyn.budget import ZCDP, Charge
        >>> ledger = Ledger(None)
        >>> ledger.set_cap(eps=1.0)
        >>> paid = ledger.charge([Charge(mechanism="gaussian", cost=ZCDP(rho=0.01))], run="first")
        >>> str(ledger.total())
        'eps 0.810175, delta 1e-09 (rho 0.01), add-remove, exact'
    """

    def __init__(self, path: str | Path | None, source: str = "") -> None:
        self.path = Path(path) if path is not None else None
        self._source = source
        self._memory = _Book(source=source)
        self._guard = threading.Lock()
        self._tried: list[str] = []

    @property
    def source(self) -> str:
        """The readable name of the private source."""
        return self._read().source

    @property
    def charges(self) -> list[Charge]:
        """Every charge so far, in order, other processes' included."""
        return self._read().charges

    @property
    def entries(self) -> list[Entry]:
        """Every run's charges with its time and name, in order."""
        return list(self._read().entries)

    @property
    def made(self) -> tuple[str, ...]:
        """The ids of the charges made through this object that stand; no other process's."""
        if not self._tried:
            return ()
        known = {entry.id for entry in self._read().entries}
        return tuple(one for one in self._tried if one in known)

    @property
    def cap(self) -> Cap | None:
        """The limit in force."""
        return self._read().cap

    def charge(
        self,
        charges: Sequence[Charge],
        *,
        run: str = "",
        delta: float | None = None,
        id: str = "",
    ) -> str:
        """Write the charges down, all or none; when this returns they are on disk.

        The cap is checked under the same lock, so that runs side by side never overspend.

        Args:
            charges: what is about to be spent.
            run: a name for the run, for people.
            delta: what the run's own statement uses, for people.
            id: of the line, where something is kept under it already; a new one by default.

        Returns:
            The id of the line that holds the charges; empty when there were none.

        Raises:
            BudgetError: the cap does not allow it; nothing was written.
            LedgerError: the file cannot be written; nothing may be measured.
        """
        if not charges:
            return ""
        entry = Entry(
            id=id or secrets.token_hex(8), time=_now(), run=run, delta=delta, charges=tuple(charges)
        )
        with self._locked() as book:
            _refuse_over_cap(book, charges)
            expected = len(book.charges) + len(charges)
            # Known before it is written: an interrupt in between must not hide it.
            self._tried.append(entry.id)
            self._append(book, entry)
            self._check_alone(expected)
        return entry.id

    def check(self, charges: Sequence[Charge]) -> None:
        """Raise what :meth:`charge` would raise, and write nothing.

        Raises:
            BudgetError: the cap does not allow the charges.
        """
        _refuse_over_cap(self._read(), charges)

    def set_cap(self, eps: float | None, delta: float = DEFAULT_DELTA) -> None:
        """Limit the total of the source from now on; None lifts the limit.

        A cap below what is already spent is accepted: it refuses everything from now on.
        """
        check_delta(delta, allow_large=True)
        if eps is not None:
            check_eps(eps)
        with self._locked() as book:
            self._append(book, Cap(eps=eps, delta=delta, time=_now()))

    def total(self, delta: float = DEFAULT_DELTA, neighbours: Neighbours | None = None) -> Total:
        """What all charges guarantee together.

        Without ``neighbours`` the total is about add-remove unless some charge was made for
        replace; then it is about replace, where add-remove charges count by group privacy.
        """
        charges = self.charges
        return compose(charges, delta, neighbours or _relation(charges))

    def summary(self) -> list[dict[str, str]]:
        """One row of text per charge, for people."""
        return [
            {
                "time": entry.time,
                "run": entry.run,
                "mechanism": charge.mechanism,
                "purpose": charge.purpose,
                "cost": str(charge.cost),
                "neighbours": str(charge.neighbours),
                "guarantee": charge.guarantee,
            }
            for entry in self._read().entries
            for charge in entry.charges
        ]

    def _read(self) -> _Book:
        if self.path is None:
            return self._memory
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return _Book(source=self._source)
        except OSError as error:
            raise LedgerError(_unusable(self.path, "read", error)) from error
        return _parse(data, self.path)

    @contextmanager
    def _locked(self) -> Iterator[_Book]:
        """The present state, with nobody else writing."""
        if self.path is None:
            with self._guard:
                yield self._memory
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
            raise LedgerError(_unusable(self.path, "locked", error)) from error
        try:
            yield self._read()
        finally:
            lock.release()

    def _check_alone(self, expected: int) -> None:
        """Check the cap again where others wrote at the same time, the lock notwithstanding.

        A lock is lost when its file is deleted while it is held, or where a network's file system
        has none. Whoever wrote last sees all that was written; what is charged stays charged.
        """
        book = self._read()
        if len(book.charges) != expected and book.cap is not None and book.cap.eps is not None:
            total = compose(book.charges, book.cap.delta, _relation(book.charges))
            if not covers(book.cap.eps, total.eps):
                raise BudgetError(
                    f"the ledger's cap ({book.cap}) was exceeded by another process that wrote at "
                    f"the same time although the ledger was locked: eps {show_number(total.eps)} "
                    "is charged now, and nothing was measured for this run. Do not delete "
                    f"{self.path}.lock while commands run"
                )

    def _append(self, book: _Book, record: Cap | Entry) -> None:
        if self.path is None:
            book.add(record)
            return
        try:
            if book.torn:
                book.size = _repair(self.path, book)
            header = [] if book.size else [Header(source=self._source, time=_now())]
            append_bytes(self.path, b"".join(map(_line, [*header, record])), book.size)
        except OSError as error:
            raise LedgerError(_unusable(self.path, "written", error)) from error


def _repair(path: Path, book: _Book) -> int:
    """Turn a torn last line into a whole record, and return the file's new size."""
    kept = path.read_bytes()[: book.size]
    if _record(book.torn) is not None:
        kept += book.torn + b"\n"
    elif kept:
        kept += _line(Torn(text=book.torn.decode(errors="backslashreplace"), time=_now()))
    replace_bytes(path, kept)
    return len(kept)


def _refuse_over_cap(book: _Book, charges: Sequence[Charge]) -> None:
    if book.cap is None or book.cap.eps is None or not charges:
        return
    both = [*book.charges, *charges]
    total = compose(both, book.cap.delta, _relation(both))
    if not covers(book.cap.eps, total.eps):
        spent = compose(book.charges, book.cap.delta, _relation(book.charges))
        raise BudgetError(
            f"the ledger's cap ({book.cap}) must cover the total, which would be eps "
            f"{show_number(total.eps)} (spent so far: {show_number(spent.eps)}); lower the eps "
            "of this run, or raise the cap on purpose with 'marginalsyn ledger cap'"
        )


def _relation(charges: Sequence[Charge]) -> Neighbours:
    """Add-remove unless a charge is about replace only."""
    replace = any(c.neighbours is Neighbours.REPLACE for c in charges)
    return Neighbours.REPLACE if replace else Neighbours.ADD_REMOVE


def _parse(data: bytes, path: Path) -> _Book:
    """Read every line; only the last may be incomplete, and only if no newline ends it."""
    book = _Book()
    *lines, torn = data.split(b"\n")
    records = [_record(line) for line in lines]
    if torn and (last := _record(torn)) is not None:
        # Whole but for its newline: count it, though nobody was told that it was written.
        records.append(last)
    elif not lines and not (torn.startswith(_BEGINS) or _BEGINS.startswith(torn)):
        raise LedgerError(_distrust(path, "it is not a ledger"))
    for number, record in enumerate(records, start=1):
        if record is None or (number == 1) != isinstance(record, Header):
            raise LedgerError(_distrust(path, f"line {number} is not the record it should be"))
        book.add(record)
    book.size, book.torn = len(data) - len(torn), torn
    return book


def _record(line: bytes) -> Header | Cap | Entry | Torn | None:
    try:
        return _RECORD.validate_json(line)
    except ValidationError:
        return None


def _line(record: BaseModel) -> bytes:
    return json.dumps(record.model_dump(mode="json"), allow_nan=False).encode() + b"\n"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _unusable(path: Path, verb: str, error: BaseException) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    return (
        f"ledger ({path}) must be readable and writable, but it cannot be {verb}: {reason}; "
        "nothing was measured, make room or mend its permissions and run again"
    )


def _distrust(path: Path, what: str) -> str:
    return (
        f"ledger ({path}) must be complete, but {what}; nothing more is spent on this source until "
        "the file is restored from a copy or mended by hand"
    )
