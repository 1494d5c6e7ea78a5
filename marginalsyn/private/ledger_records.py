"""The lines of a ledger: one JSON record each, chained by hashes.

A chained line carries the hash of the line before it, so that a line that was changed, taken out or
moved breaks the chain at the next one. A small head record beside the file tells how many lines
there were, so that a line missing at the end is found as well.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from marginalsyn.budget import DEFAULT_DELTA, Charge, Neighbours
from marginalsyn.errors import LedgerError

ROWS = "rows"
"""The unit of privacy: one row. A ledger has one unit."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    time: str = ""
    previous: str | None = None


class Header(_Record):
    """The first line: which source the ledger belongs to."""

    record: Literal["ledger"] = "ledger"
    version: Literal[1] = 1
    source: str = ""


class Cap(_Record):
    """A limit on the total from here on; ``eps`` None lifts it.

    ``rho`` is the limit in zCDP that keeps (eps, delta), or ``renyi`` that at the Renyi ``order``;
    ``own_delta`` is set aside for charges that have a delta of their own.
    """

    record: Literal["cap"] = "cap"
    eps: float | None
    delta: float = DEFAULT_DELTA
    rho: float | None = None
    order: float | None = None
    renyi: float | None = None
    own_delta: float = 0.0

    def __str__(self) -> str:
        return f"eps {self.eps:g}, delta {self.delta:g}" if self.eps is not None else "no cap"


class Account(_Record):
    """The Renyi order that the ledger is kept at where its charges are sampled."""

    record: Literal["account"] = "account"
    order: float = Field(gt=1)


class Known(_Record):
    """Under which names the source is known, and marks of its files."""

    record: Literal["known"] = "known"
    names: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


class Entry(_Record):
    """What one run was charged, and when; ``id`` is empty in lines of older versions.

    ``seeded``: the run's noise can be taken away again. ``drafted``: its schema was read off the
    rows. The guarantee covers neither.
    """

    record: Literal["charge"] = "charge"
    id: str = ""
    run: str = ""
    delta: float | None = None
    unit: str = ROWS
    seeded: bool = False
    drafted: bool = False
    charges: tuple[Charge, ...]


class Void(_Record):
    """Promises that no longer hold, because a run under another relation published what they
    protect.
    """

    record: Literal["void"] = "void"
    neighbours: Neighbours
    run: str = ""

    def __str__(self) -> str:
        return (
            f"every {self.neighbours} promise of this ledger (by {self.run or 'a run'}, "
            f"{self.time}): a run for replace may publish the number of rows"
        )


class Merged(_Record):
    """Another ledger of the same source whose lines, up to a hash, follow this one."""

    record: Literal["merged"] = "merged"
    path: str
    digest: str


class Chained(_Record):
    """Covers all lines before it, which had no hashes or whose broken chain was accepted."""

    record: Literal["chained"] = "chained"
    lines: int
    digest: str


class Torn(_Record):
    """The rest of a line that a crash cut off before it was acknowledged."""

    record: Literal["torn"] = "torn"
    text: str


Record = Header | Cap | Account | Known | Entry | Void | Merged | Chained | Torn
_RECORD: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="record")])
_BEGINS = b'{"record": "ledger"'


@dataclass
class Book:
    """The contents of a ledger at one moment; ``data`` is all of its lines."""

    source: str = ""
    entries: list[Entry] = field(default_factory=list)
    cap: Cap | None = None
    account: Account | None = None
    names: set[str] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)
    voids: list[Void] = field(default_factory=list)
    merged: set[str] = field(default_factory=set)
    lines: int = 0
    chain: int | None = None
    forked: bool = False
    last: bytes = b""
    data: bytes = b""
    torn: bytes = b""

    def add(self, record: Record) -> None:
        """Take one record in."""
        match record:
            case Entry():
                self.entries.append(record)
            case Cap():
                self.cap = record if record.eps is not None else None
            case Header():
                self.source = record.source
            case Account():
                self.account = record
            case Known():
                self.names.update(record.names)
                self.marks.update(record.marks)
            case Void():
                self.voids.append(record)
            case Merged():
                self.merged.add(record.digest)

    @property
    def charges(self) -> list[Charge]:
        """Every charge in order."""
        return [charge for entry in self.entries for charge in entry.charges]

    @property
    def neighbours(self) -> Neighbours | None:
        """The ledger's one relation; None while nothing is charged.

        Replace where any run was for it: add-remove charges then count by group privacy.
        """
        if self.voids or any(c.neighbours is Neighbours.REPLACE for c in self.charges):
            return Neighbours.REPLACE
        return Neighbours.ADD_REMOVE if self.entries else None

    def extend(self, records: list[Record]) -> bytes:
        """The lines that records become at the end of this book, which takes them in."""
        new = b""
        if self.data and (self.chain is None or self.forked):
            seal = Chained(lines=self.lines, digest=digest(self.data), time=now())
            records = [seal, *records]
        for record in records:
            chained = record
            if self.last and not (self.chain is None and isinstance(record, Chained)):
                chained = record.model_copy(update={"previous": digest(self.last)})
            self.chain = self.lines if self.chain is None else self.chain
            line = write_line(chained)
            self.last, self.lines = line, self.lines + 1
            self.add(chained)
            new += line + b"\n"
        self.data, self.forked = self.data + new, False
        return new


def parse(data: bytes, path: Path, *, strict: bool = True) -> Book:
    """Read every line; only the last may be incomplete, and only if no newline ends it.

    Without ``strict`` the hashes are not looked at.
    """
    book = Book()
    *lines, torn = data.split(b"\n")
    records = [parse_line(line) for line in lines]
    if torn and (last := parse_line(torn)) is not None:
        # Whole but for its newline: count it, though nobody was told that it was written.
        records.append(last)
        lines.append(torn)
    elif not lines and not (torn.startswith(_BEGINS) or _BEGINS.startswith(torn)):
        raise LedgerError(distrust(path, "it is not a ledger"))
    whole: list[Record] = []
    for number, record in enumerate(records, start=1):
        if record is None or (number == 1) != isinstance(record, Header):
            raise LedgerError(distrust(path, f"line {number} is not the record it should be"))
        whole.append(record)
    book.chain = _begin(whole, lines)
    problem, book.forked = _break(whole, lines, book.chain)
    if strict and problem:
        raise LedgerError(distrust(path, problem))
    for record in whole:
        book.add(record)
    book.lines, book.last = len(lines), lines[-1] if lines else b""
    book.data, book.torn = data[: len(data) - len(torn)], torn
    return book


def _begin(records: list[Record], lines: list[bytes]) -> int | None:
    """From which line on the chain holds: the last one that vouches for all before it."""
    start = 0 if records and "previous" in records[0].model_fields_set else None
    running = hashlib.sha256()
    for i, (record, line) in enumerate(zip(records, lines, strict=True)):
        if isinstance(record, Chained) and (record.lines, record.digest) == (
            i,
            running.hexdigest(),
        ):
            start = i
        running.update(line + b"\n")
    return start


def _break(records: list[Record], lines: list[bytes], start: int | None) -> tuple[str | None, bool]:
    """The first line that does not follow the one before it, and whether the last two are twins."""
    forked = False
    for i, record in enumerate(records):
        if start is not None and i <= start:
            continue
        if isinstance(record, Chained):
            return f"the lines before line {i + 1} are not those that were there", False
        if start is None:
            if record.previous:
                return f"line {i + 1} carries a hash, and the lines before it carry none", False
            continue
        # Two runs may have written at once although the ledger was locked: both follow one line.
        before = records[i - 1].previous
        forked = before is not None and record.previous == before and lines[i] != lines[i - 1]
        if record.previous != digest(lines[i - 1]) and not forked:
            return (
                f"line {i + 1} does not follow line {i}: one was changed, moved or taken out",
                False,
            )
    return None, forked


def parse_line(line: bytes) -> Record | None:
    """One record; None where the line is none."""
    try:
        return _RECORD.validate_json(line)
    except ValidationError:
        return None


def write_line(record: Record) -> bytes:
    """One record as a line, without its newline."""
    fields = record.model_dump(mode="json")
    return json.dumps({"record": fields.pop("record"), **fields}, allow_nan=False).encode()


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


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def now() -> str:
    """The time as ledgers tell it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unusable(path: Path, verb: str, error: BaseException) -> str:
    """The error message for a ledger that the system does not let us read or write."""
    reason = getattr(error, "strerror", None) or str(error)
    return (
        f"ledger ({path}) must be readable and writable, but it cannot be {verb}: {reason}; "
        "nothing was measured, make room or mend its permissions and run again"
    )


def distrust(path: Path, what: str) -> str:
    """The error message for a ledger that was changed after it was written."""
    return (
        f"ledger ({path}) must be complete, but {what}; nothing more is spent on this source until "
        "the file is restored from a copy; 'marginalsyn ledger verify' shows what is wrong"
    )
