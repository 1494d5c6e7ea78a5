"""What a ledger's lines say at one moment, the total that they come to, and what they allow.

A ledger has one relation, one hold-out under replace, one unit, and nothing above its cap. Under
replace a run publishes how many rows it sees. With a hold-out that number moves when a row is
replaced by one of the other side, from which a run with another hold-out promises protection.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from marginalsyn.errors import BudgetError, LedgerError, UsageError
from marginalsyn.privacy import caps
from marginalsyn.privacy.caps import Currency
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.privacy.composition import Total, compose, explain_sum
from marginalsyn.privacy.zcdp import DEFAULT_DELTA
from marginalsyn.records.entries import (
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
from marginalsyn.validation import first_of

SO_FAR = "so far, if the amounts had been fixed beforehand"


@dataclass
class LedgerState:
    """The contents of a ledger at one moment; ``lines`` are its records as they are stored.

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
    # What the last cap that was set adds up, in force or lifted.
    counted: Currency = "mu"
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
    lines: list[bytes] = field(default_factory=list)

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
                self.counted = self.cap.currency if self.cap else self.counted
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

    def describe(self, delta: float = DEFAULT_DELTA, others: Sequence[Charge] = ()) -> str:
        """The total in words: what it means and what it does not cover.

        ``others`` are charges of the same source that another ledger holds.
        """
        replace = any(charge.neighbours is Neighbours.REPLACE for charge in others)
        relation = Neighbours.REPLACE if replace else self.relation
        total = compose([*self.charges, *others], delta, relation)
        # A sum of pure eps holds whenever one stops and however the parts were chosen.
        words = [str(total) if not total.delta else f"{total} ({SO_FAR})"]
        if others:
            words.append("with the release's own charges, which this ledger does not hold")
        return "; ".join([*words, *self.caveats()])

    def explain_sum(self, delta: float = DEFAULT_DELTA) -> str:
        """Why the charges come to less than the sum of their eps, where they do."""
        return explain_sum(self.charges, delta, self.relation)

    def caveats(self) -> list[str]:
        """What the total does not cover: seeded runs, drafted schemas, void promises."""
        found = []
        for count, words in (
            (sum(entry.seeded for entry in self.entries), "seeded, not private"),
            (sum(e.drafted for e in self.entries), "on a schema drafted from the rows"),
        ):
            if count:
                found.append(f"not covered: {count} run{'s' * (count > 1)} {words}")
        if len(self.splits) > 1 or None in self.splits:
            found.append("not covered: replace runs whose hold-outs differ or are not recorded")
        return [*found, *(f"void: {void}" for void in self.voids)]

    def of_the_cap(self) -> str:
        """How much of the cap is used, in the cap's own unit; empty without a cap."""
        return caps.describe_use(self.cap, self.charges, self.relation) if self.cap else ""

    def currency_of_a_cap(self, wanted: Currency | None = None) -> Currency:
        """What a cap that is set now counts.

        Raises:
            UsageError: a charge has no price in the currency that is wanted.
        """
        lacking = {
            one: caps.unpriced(one, self.charges, self.relation) for one in ("mu", "rho", "renyi")
        }
        if wanted is not None and lacking[wanted]:
            first = first_of([f"{one.mechanism} ({one.cost})" for one in lacking[wanted]], 1)
            raise UsageError(
                f"currency ({wanted}) must be one that every charge has a price in, which "
                f"{first} has not: count "
                f"{' or '.join(one for one in lacking if not lacking[one])} instead"
            )
        order: tuple[Currency, ...] = (self.counted, "rho", "renyi")
        if wanted is not None:
            return wanted
        return next(one for one in order if not lacking[one])

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
                "cost": charge.prices,
                "neighbours": str(charge.neighbours),
                "guarantee": charge.guarantee,
            }
            for entry in self.entries
            for charge in entry.charges
        ]

    def extend(self, records: Sequence[Record]) -> None:
        """Add records at the end, each as a line that has the hash of the one before it."""
        for record in records:
            previous = digest(self.lines[-1]) if self.lines else None
            self.lines.append(write_line(record.model_copy(update={"previous": previous})))
            self.add(record)

    def seal(self) -> Chained:
        """A record that vouches for all lines so far, whatever their chain is like."""
        whole = b"".join(line + b"\n" for line in self.lines)
        return Chained(lines=len(self.lines), digest=digest(whole), time=now())


def read_lines(lines: Sequence[bytes], path: Path | None, *, strict: bool = True) -> LedgerState:
    """Read every line of a ledger; without ``strict`` the hashes are not checked.

    Raises:
        LedgerError: a line is not a record, or was changed, moved or taken out.
    """
    records = []
    for number, line in enumerate(lines, start=1):
        record = parse_line(line)
        if record is None or (number == 1) != isinstance(record, Header):
            raise LedgerError(distrust(path, f"line {number} is not the record it should be"))
        records.append(record)
    if strict and (problem := _problem(records, lines)):
        raise LedgerError(distrust(path, problem))
    book = LedgerState(lines=list(lines))
    for record in records:
        book.add(record)
    return book


def _problem(records: Sequence[Record], lines: Sequence[bytes]) -> str | None:
    """What is wrong with the chain since the last line that vouches for all before it."""
    problem, running = None, hashlib.sha256()
    for i, (record, line) in enumerate(zip(records, lines, strict=True)):
        if isinstance(record, Chained):
            vouched = (record.lines, record.digest) == (i, running.hexdigest())
            problem = None if vouched else f"the lines before line {i + 1} have changed"
        elif i and record.previous != digest(lines[i - 1]):
            problem = problem or (
                f"line {i + 1} does not follow line {i}: one was changed, moved or taken out"
            )
        running.update(line + b"\n")
    return problem


def refuse(
    book: LedgerState, charges: Sequence[Charge], unit: str, split: str | None, void: bool
) -> Neighbours:
    """Raise BudgetError if the ledger does not allow the charges; return its relation then."""
    relation = book.relation
    if not charges:
        return relation
    units = {entry.unit for entry in book.entries}
    if units - {unit}:
        raise BudgetError(
            f"unit ({unit}) must be {' and '.join(sorted(units))}, the ledger's one unit of "
            "privacy: losses of different units do not add up; name another --ledger"
        )
    broken = () if void else contradicts(book, charges, split)
    if Neighbours.ADD_REMOVE in broken:
        given = next(c.neighbours for c in charges if c.neighbours is not book.neighbours)
        given = given if book.neighbours else Neighbours.REPLACE
        raise BudgetError(
            f"neighbours ({given}) must be {relation}, as for all other charges in this ledger: a "
            f"run under {Neighbours.REPLACE} may publish exactly what a promise for "
            f"{Neighbours.ADD_REMOVE} keeps private. Run with --neighbours {relation}, or give up "
            "the earlier promises with --void-earlier-promises, which "
            "the ledger records"
        )
    if broken:
        raise BudgetError(
            f"holdout ({_share(split)}) must be {' and '.join(sorted(map(_share, book.splits)))}, "
            f"and pick the same rows, as for all other {Neighbours.REPLACE} charges in this "
            "ledger: under it each hold-out publishes how many rows it leaves, which a run with "
            "another promises to protect. Run with the earlier --holdout, in the folder of the "
            "earlier release, whose .marginalsyn keeps what picks the rows; or give up the earlier "
            "promises with --void-earlier-promises, which the ledger "
            "records"
        )
    if any(charge.neighbours is Neighbours.REPLACE for charge in charges):
        relation = Neighbours.REPLACE
    _refuse_over_cap(book, charges, relation)
    return relation


def contradicts(
    book: LedgerState, charges: Sequence[Charge], split: str | None
) -> list[Neighbours]:
    """The relations whose promises the charges break: by another one, or by another hold-out."""
    relations = {charge.neighbours for charge in charges}
    found = []
    if len(relations) > 1 or (book.neighbours is not None and relations != {book.neighbours}):
        found.append(Neighbours.ADD_REMOVE)
    # A line that records no hold-out may have had any.
    if Neighbours.REPLACE in relations and (None in book.splits or book.splits - {split}):
        found.append(Neighbours.REPLACE)
    return found


def _share(split: str | None) -> str:
    return "not recorded" if split is None else split.partition(" ")[0] or "0"


def _refuse_over_cap(book: LedgerState, charges: Sequence[Charge], relation: Neighbours) -> None:
    both = [*book.charges, *charges]
    cap = book.cap
    if cap is None or caps.within(cap, both, relation):
        return
    if without := caps.unpriced(cap.currency, charges, relation):
        if caps.unpriced("rho", charges, relation):
            raise BudgetError(
                f"the ledger's cap ({cap}) must be kept at a Renyi order before sampled steps "
                f"(DP-SGD) can be charged: a cap in {cap.currency} has no price for them. "
                f"Set it again with 'marginalsyn ledger cap --eps {cap.eps:g} --sampled', which "
                "counts all charges at the order that was recorded when the ledger was begun"
            )
        raise BudgetError(
            f"the ledger's cap ({cap}) must have a price for {without[0].mechanism} "
            f"({without[0].cost}), but it counts {cap.currency}, in which this charge has none; a "
            "cap counts one currency, since whoever may take the least of two passes both. Take a "
            "method whose noise has a price in mu, or set the cap again with 'marginalsyn ledger "
            f"cap --eps {cap.eps:g} --currency rho', which counts every charge in rho"
        )
    raise BudgetError(
        f"the ledger's cap ({cap}) must cover the total, which would be "
        f"{caps.describe_use(cap, both, relation)} (spent so far: "
        f"{caps.describe_use(cap, book.charges, relation)}); lower the eps of this run, or "
        "raise the cap on purpose with 'marginalsyn ledger cap'"
    )


def first_order(book: LedgerState, eps: float | None, delta: float) -> float:
    """The Renyi order of a ledger that has none yet: a function of what is public."""
    if eps is not None or not book.charges:
        return caps.order_for(eps or 1.0, delta)
    return caps.best_order(book.charges, book.relation, delta)
