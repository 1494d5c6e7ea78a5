"""The book: what a ledger holds at one moment, read from its lines, and what it comes to."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from marginalsyn.errors import LedgerError
from marginalsyn.privacy import caps
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.privacy.composition import Total, compose, explain_sum
from marginalsyn.privacy.zcdp import DEFAULT_DELTA
from marginalsyn.records.charge_records import (
    Account,
    Cap,
    Chained,
    Entry,
    Header,
    Known,
    Progress,
    Record,
    Settled,
    Void,
    digest,
    distrust,
    now,
    parse_line,
    write_line,
)

SO_FAR = "so far, if the amounts had been fixed beforehand"
_BEGINS = b'{"record": "ledger"'


@dataclass
class LedgerState:
    """The contents of a ledger at one moment; ``data`` is all of its lines.

    Example:
        >>> from marginalsyn.privacy.charges import ZCDP
        >>> from marginalsyn.records.ledger import Ledger
        >>> ledger = Ledger(None)
        >>> paid = ledger.charge([Charge(mechanism="gaussian", cost=ZCDP(rho=0.01))], run="first")
        >>> [row["cost"] for row in ledger.read().summary()]
        ['rho 0.01']
    """

    source: str = ""
    entries: list[Entry] = field(default_factory=list)
    cap: Cap | None = None
    account: Account | None = None
    names: set[str] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)
    # Names that were recorded without asking the database what they stand for.
    unasked: set[str] = field(default_factory=set)
    voids: list[Void] = field(default_factory=list)
    # Of runs that stopped before they had spent it all: what they were charged at first.
    promised: dict[str, Entry] = field(default_factory=dict)
    # Of runs that may go on: how far they have come.
    progress: dict[str, Progress] = field(default_factory=dict)
    # Which rows runs for replace cannot see, since such promises were last given up.
    splits: set[str | None] = field(default_factory=set)
    lines: int = 0
    forked: bool = False
    last: bytes = b""
    data: bytes = b""
    torn: bytes = b""

    def add(self, record: Record) -> None:
        """Take one record in."""
        match record:
            case Entry():
                self.entries.append(record)
                if record.taken:
                    self.progress[record.id] = Progress(id=record.id, by=record.taken)
                self._split(record)
            case Cap():
                self.cap = record if record.eps is not None else None
            case Header():
                self.source = record.source
            case Account():
                self.account = record
            case Known():
                self.names.update(record.names)
                self.marks.update(record.marks)
                if not record.marks:
                    self.unasked.update(record.names)
            case Void():
                self.voids.append(record)
                if record.neighbours is Neighbours.REPLACE:
                    self.splits.clear()
            case Progress():
                self.progress[record.id] = record
            case Settled():
                self._settle(record)

    def _split(self, entry: Entry) -> None:
        if any(charge.neighbours is Neighbours.REPLACE for charge in entry.charges):
            self.splits.add(entry.split)

    def _settle(self, record: Settled) -> None:
        """Let a run count with what it has spent, or again with what it was charged."""
        for place, entry in enumerate(self.entries):
            if entry.id != record.id:
                continue
            whole = self.promised.pop(entry.id, entry)
            if record.charges is not None:
                self.promised[entry.id] = whole
                whole = whole.model_copy(update={"charges": record.charges})
            self.entries[place] = whole
            self._split(whole)

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

    @property
    def relation(self) -> Neighbours:
        """The relation that totals are about: add-remove while nothing is charged."""
        return self.neighbours or Neighbours.ADD_REMOVE

    def total(self, delta: float = DEFAULT_DELTA, neighbours: Neighbours | None = None) -> Total:
        """The guarantee of all charges together, valid if their amounts were fixed in advance.

        Without ``neighbours`` the total is about the ledger's relation: add-remove unless some
        charge was made for replace; then add-remove charges count by group privacy.
        """
        return compose(self.charges, delta, neighbours or self.relation)

    def describe(self, delta: float = DEFAULT_DELTA, beside: Sequence[Charge] = ()) -> str:
        """The total in words: what it means and what it does not cover.

        Args:
            delta: of the total.
            beside: charges of the same source that another ledger holds.
        """
        replace = any(charge.neighbours is Neighbours.REPLACE for charge in beside)
        relation = Neighbours.REPLACE if replace else self.relation
        total = compose([*self.charges, *beside], delta, relation)
        # A sum of pure eps holds whenever one stops and however the parts were chosen.
        words = [str(total) if not total.delta else f"{total} ({SO_FAR})"]
        if beside:
            words.append("with the release's own charges, which this ledger does not hold")
        return "; ".join([*words, *self.caveats()])

    def explain_sum(self, delta: float = DEFAULT_DELTA) -> str:
        """Why the charges come to less than the sum of their eps, where they do."""
        return explain_sum(self.charges, delta, self.relation)

    def caveats(self) -> list[str]:
        """What the total does not cover: seeded runs, drafted schemas, void promises."""
        told = []
        for count, words in (
            (sum(entry.seeded for entry in self.entries), "seeded, not private"),
            (sum(e.drafted for e in self.entries), "on a schema drafted from the rows"),
        ):
            if count:
                told.append(f"not covered: {count} run{'s' * (count > 1)} {words}")
        if len(self.splits) > 1 or None in self.splits:
            told.append("not covered: replace runs whose hold-outs differ or are not recorded")
        return [*told, *(f"void: {void}" for void in self.voids)]

    def of_the_cap(self) -> str:
        """How much of the cap is used, in the cap's own unit; empty without a cap."""
        return caps.describe_use(self.cap, self.charges, self.relation) if self.cap else ""

    def lacks(self, charges: Sequence[Charge], split: str | None = None) -> list[Charge]:
        """The given charges that no run of this ledger was charged, or none with this hold-out."""
        known: list[Charge] = []
        missing = []
        for entry in self.entries:
            known += entry.charges if split in (None, entry.split) else ()
        for charge in charges:
            if charge in known:
                known.remove(charge)
            else:
                missing.append(charge)
        return missing

    def not_ended(self) -> list[Entry]:
        """The charges of runs that may go on and are not recorded as ended."""
        open_ = {run.id for run in self.progress.values() if run.state != "ended"}
        return [entry for entry in self.entries if entry.id in open_]

    def summary(self) -> list[dict[str, str]]:
        """One row of text per charge, for people."""
        return [
            {
                "time": entry.time,
                "run": entry.run + entry.mark + " (stopped)" * (entry.id in self.promised),
                "mechanism": charge.mechanism,
                "purpose": charge.purpose,
                "cost": str(charge.cost),
                "neighbours": str(charge.neighbours),
                "guarantee": charge.guarantee,
            }
            for entry in self.entries
            for charge in entry.charges
        ]

    def extend(self, records: list[Record]) -> bytes:
        """The lines that records become at the end of this book, which takes them in."""
        new = b""
        if self.forked:
            seal = Chained(lines=self.lines, digest=digest(self.data), time=now())
            records = [seal, *records]
        for record in records:
            previous = digest(self.last) if self.last else None
            line = write_line(record.model_copy(update={"previous": previous}))
            self.last, self.lines = line, self.lines + 1
            self.add(record)
            new += line + b"\n"
        self.data, self.forked = self.data + new, False
        return new


def parse(data: bytes, path: Path, *, strict: bool = True) -> LedgerState:
    """Read every line; only the last may be incomplete, and only if no newline ends it.

    Without ``strict`` the hashes are not looked at.
    """
    book = LedgerState()
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
    problem, book.forked = _break(whole, lines, _begin(whole, lines))
    if strict and problem:
        raise LedgerError(distrust(path, problem))
    for record in whole:
        book.add(record)
    book.lines, book.last = len(lines), lines[-1] if lines else b""
    book.data, book.torn = data[: len(data) - len(torn)], torn
    return book


def _begin(records: list[Record], lines: list[bytes]) -> int:
    """From which line on the chain holds: the last one that vouches for all before it."""
    start, running = 0, hashlib.sha256()
    for i, (record, line) in enumerate(zip(records, lines, strict=True)):
        if isinstance(record, Chained) and (record.lines, record.digest) == (
            i,
            running.hexdigest(),
        ):
            start = i
        running.update(line + b"\n")
    return start


def _break(records: list[Record], lines: list[bytes], start: int) -> tuple[str | None, bool]:
    """The first line that does not follow the one before it, and whether the last two are twins."""
    forked = False
    for i, record in enumerate(records):
        if i <= start:
            continue
        if isinstance(record, Chained):
            return f"the lines before line {i + 1} are not those that were there", False
        # Two runs may have written at once although the ledger was locked: both follow one line.
        before = records[i - 1].previous
        forked = before is not None and record.previous == before and lines[i] != lines[i - 1]
        if record.previous != digest(lines[i - 1]) and not forked:
            return (
                f"line {i + 1} does not follow line {i}: one was changed, moved or taken out",
                False,
            )
    return None, forked
