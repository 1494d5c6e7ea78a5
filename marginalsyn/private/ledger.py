"""The ledger of a private source: every charge is written before the measurement that it pays for.

One JSON record a line, appended under a file lock, flushed and fsynced before :meth:`Ledger.charge`
returns. A run that dies has still spent; a line torn by the crash was never acknowledged. A ledger
has one neighbouring relation and one unit of privacy, and its lines are chained by hashes.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from marginalsyn.budget import (
    DEFAULT_DELTA,
    Charge,
    Neighbours,
    Total,
    check_delta,
    check_eps,
    compose,
    filters,
)
from marginalsyn.errors import BudgetError, LedgerError
from marginalsyn.private.ledger_records import (
    ROWS,
    Account,
    Book,
    Cap,
    Chained,
    Entry,
    Head,
    Header,
    Known,
    Merged,
    Record,
    Torn,
    Void,
    check_head,
    digest,
    distrust,
    head_path,
    now,
    parse,
    parse_line,
    read_head,
    unusable,
)
from marginalsyn.private.ledger_rules import contradicts, first_order, mark, marks, refuse
from marginalsyn.release import append_bytes, make_folder, replace_bytes, write_bytes

__all__ = ["Cap", "Entry", "Ledger"]

# How long to wait for another process that holds the lock.
LOCK_SECONDS = 60.0
SO_FAR = "so far, if the amounts had been fixed beforehand"


class Ledger:
    """The append-only record of every charge on a private source.

    Args:
        path: a file, created when something is first written; None keeps the ledger in memory.
        source: a readable name of the private source, written into a new file.
        known: names and marks by which the source is found again, written when they are new.
        void_earlier_promises: charge for another relation than the ledger's, too, and write down
            that its add-remove promises are void.

    Example:
        >>> from marginalsyn.budget import ZCDP, Charge
        >>> ledger = Ledger(None)
        >>> ledger.set_cap(eps=1.0)
        >>> paid = ledger.charge([Charge(mechanism="gaussian", cost=ZCDP(rho=0.01))], run="first")
        >>> str(ledger.total())
        'eps 0.810175, delta 1e-09 (rho 0.01), add-remove, exact'
        >>> ledger.of_the_cap()
        'rho 0.01 of 0.0149731'
    """

    def __init__(
        self,
        path: str | Path | None,
        source: str = "",
        known: Known | None = None,
        *,
        void_earlier_promises: bool = False,
    ) -> None:
        self.path = Path(path) if path is not None else None
        self._source = source
        self._known = known or Known()
        self.void_earlier_promises = void_earlier_promises
        self._memory = Book(source=source)
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

    @property
    def neighbours(self) -> Neighbours | None:
        """The ledger's one relation; None while nothing is charged."""
        return self._read().neighbours

    @property
    def voids(self) -> list[Void]:
        """Which promises no longer hold."""
        return list(self._read().voids)

    @property
    def known(self) -> Known:
        """The names and marks by which the source is found."""
        book = self._read()
        return Known(names=tuple(sorted(book.names)), marks=tuple(sorted(book.marks)))

    def charge(
        self,
        charges: Sequence[Charge],
        *,
        run: str = "",
        delta: float | None = None,
        seeded: bool = False,
        drafted: bool = False,
        unit: str = ROWS,
        id: str = "",
    ) -> str:
        """Write the charges down, all or none; when this returns they are on disk.

        Relation, unit and cap are checked under the same lock, so that runs side by side never
        overspend.

        Args:
            charges: what is about to be spent.
            run: a name for the run, for people.
            delta: what the run's own statement uses, for people.
            seeded: the run's noise comes from a seed, so the guarantee does not hold.
            drafted: the schema was read off the rows, so the guarantee does not cover it.
            unit: whose presence the charges protect; one unit a ledger.
            id: of the line, where something is kept under it already; a new one by default.

        Returns:
            The id of the line that holds the charges; empty when there were none.

        Raises:
            BudgetError: the relation, the unit or the cap does not allow it; nothing was written.
            LedgerError: the file cannot be written; nothing may be measured.
        """
        if not charges:
            return ""
        entry = Entry(
            id=id or secrets.token_hex(8),
            time=now(),
            run=run,
            delta=delta,
            unit=unit,
            seeded=seeded,
            drafted=drafted,
            charges=tuple(charges),
        )
        with self._locked() as book:
            relation = refuse(book, charges, unit, self.void_earlier_promises)
            records: list[Record] = [entry]
            if contradicts(book, charges):
                void = Void(neighbours=Neighbours.ADD_REMOVE, run=run, time=entry.time)
                records.insert(0, void)
            if book.account is None:
                order = filters.best_order(charges, relation, delta or DEFAULT_DELTA)
                records.insert(0, Account(order=order, time=entry.time))
            expected = len(book.charges) + len(charges)
            # Known before it is written: an interrupt in between must not hide it.
            self._tried.append(entry.id)
            self._append(book, records)
            self._check_alone(expected)
        return entry.id

    def check(self, charges: Sequence[Charge], *, unit: str = ROWS) -> None:
        """Raise what :meth:`charge` would raise, and write nothing.

        Raises:
            BudgetError: the relation, the unit or the cap does not allow the charges.
        """
        refuse(self._read(), charges, unit, self.void_earlier_promises)

    def set_cap(
        self,
        eps: float | None,
        delta: float = DEFAULT_DELTA,
        *,
        sampled: bool = False,
        own_delta: float = 0.0,
    ) -> None:
        """Set a cap on the source's total from now on; None removes it.

        The cap is a filter (:mod:`marginalsyn.budget.filters`): the sum of zCDP, or with
        ``sampled`` that of Renyi divergences at the order that was recorded when the ledger was
        begun. A cap below what is already spent is accepted: it refuses everything from now on.

        Args:
            eps: the cap; None removes it.
            delta: of the limit.
            sampled: allow sampled steps (DP-SGD), which zCDP cannot price. A ledger that holds some
                allows them anyway.
            own_delta: how much of delta is set aside for charges with a delta of their own.
        """
        check_delta(delta, allow_large=True)
        if eps is not None:
            check_eps(eps)
        with self._locked() as book:
            records: list[Record] = []
            account = book.account
            if account is None:
                account = Account(order=first_order(book, eps, delta), time=now())
                records.append(account)
            limits: dict[str, float | None] = {"eps": None, "delta": delta}
            if eps is not None:
                relation = book.neighbours or Neighbours.ADD_REMOVE
                sampled = sampled or filters.add_up(book.charges, relation).rho is None
                order = account.order if sampled else None
                limits = filters.make_cap(eps, delta, order, own_delta)
            records.append(Cap.model_validate({**limits, "time": now()}))
            self._append(book, records)

    def total(self, delta: float = DEFAULT_DELTA, neighbours: Neighbours | None = None) -> Total:
        """The guarantee of all charges together, valid if their amounts were fixed in advance.

        Without ``neighbours`` the total is about the ledger's relation: add-remove unless some
        charge was made for replace; then add-remove charges count by group privacy.
        """
        book = self._read()
        return compose(book.charges, delta, neighbours or book.neighbours or Neighbours.ADD_REMOVE)

    def describe(self, delta: float = DEFAULT_DELTA, beside: Sequence[Charge] = ()) -> str:
        """The total in words: what it means and what it does not cover.

        Args:
            delta: of the total.
            beside: charges of the same source that another ledger holds.
        """
        book = self._read()
        charges = [*book.charges, *beside]
        replace = any(charge.neighbours is Neighbours.REPLACE for charge in charges)
        relation = Neighbours.REPLACE if replace or book.voids else Neighbours.ADD_REMOVE
        total = compose(charges, delta, relation)
        # A sum of pure eps holds whenever one stops and however the parts were chosen.
        words = [str(total) if not total.delta else f"{total} ({SO_FAR})"]
        if beside:
            words.append("with the release's own charges, which this ledger does not hold")
        return "; ".join([*words, *marks(book)])

    def marks(self) -> list[str]:
        """What the total does not cover: seeded runs, drafted schemas, void promises."""
        return marks(self._read())

    def of_the_cap(self) -> str:
        """How much of the cap is used, in the cap's own unit; empty without a cap."""
        book = self._read()
        if book.cap is None:
            return ""
        return filters.describe_use(
            book.cap, book.charges, book.neighbours or Neighbours.ADD_REMOVE
        )

    def lacks(self, charges: Sequence[Charge]) -> list[Charge]:
        """The given charges that this ledger does not hold."""
        held = self.charges
        missing = []
        for charge in charges:
            if charge in held:
                held.remove(charge)
            else:
                missing.append(charge)
        return missing

    def summary(self) -> list[dict[str, str]]:
        """One row of text per charge, for people."""
        return [
            {
                "time": entry.time,
                "run": entry.run + mark(entry),
                "mechanism": charge.mechanism,
                "purpose": charge.purpose,
                "cost": str(charge.cost),
                "neighbours": str(charge.neighbours),
                "guarantee": charge.guarantee,
            }
            for entry in self._read().entries
            for charge in entry.charges
        ]

    def verify(self) -> list[str]:
        """What is wrong with the file; empty if every line is as it was written."""
        try:
            self._read()
        except LedgerError as error:
            return [str(error)]
        return []

    def accept(self) -> None:
        """Accept the lines as they are, and record that the chain was broken here."""
        if self.path is not None:
            with self._locked(strict=False) as book:
                seal = Chained(lines=book.lines, digest=digest(book.data), time=now())
                book.chain = book.chain or 0
                self._append(book, [seal])

    def merge(self, path: Path, entries: Sequence[Entry], cap: Cap | None, upto: str) -> None:
        """Merge the lines of another ledger of the same source; does nothing the second time.

        Args:
            path: where it lies, for people.
            entries: its runs; those that are known by their ids are left out.
            cap: its cap, which holds here unless there is a lower one.
            upto: the hash of the whole other file; nothing happens where it was merged before.
        """
        with self._locked() as book:
            if upto in book.merged:
                return
            known = {entry.id for entry in book.entries}
            records: list[Record] = [Merged(path=str(path), digest=upto, time=now())]
            records += [entry for entry in entries if entry.id not in known]
            lower = book.cap is None or (cap and (cap.eps or 0) < (book.cap.eps or 0))
            if cap is not None and cap.eps is not None and lower:
                limits = filters.make_cap(cap.eps, cap.delta)
                records.append(Cap.model_validate({**limits, "time": now()}))
            self._append(book, records)

    def _read(self, strict: bool = True) -> Book:
        if self.path is None:
            return self._memory
        head = read_head(self.path)
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            if strict and (problem := check_head(head, b"")):
                raise LedgerError(distrust(self.path, problem)) from None
            return Book(source=self._source)
        except OSError as error:
            raise LedgerError(unusable(self.path, "read", error)) from error
        book = parse(data, self.path, strict=strict)
        if strict and (problem := check_head(head, data)):
            raise LedgerError(distrust(self.path, problem))
        return book

    @contextmanager
    def _locked(self, strict: bool = True) -> Iterator[Book]:
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
            raise LedgerError(unusable(self.path, "locked", error)) from error
        try:
            yield self._read(strict)
        finally:
            lock.release()

    def _check_alone(self, expected: int) -> None:
        """Check the cap again where others wrote at the same time, the lock notwithstanding.

        A lock is lost when its file is deleted while it is held, or where a network's file system
        has none. Whoever wrote last sees all that was written; what is charged stays charged.
        """
        book = self._read()
        if len(book.charges) == expected or book.cap is None or book.neighbours is None:
            return
        if not filters.within(book.cap, book.charges, book.neighbours):
            used = filters.describe_use(book.cap, book.charges, book.neighbours)
            raise BudgetError(
                f"the ledger's cap ({book.cap}) was exceeded by another process that wrote at "
                f"the same time although the ledger was locked: {used} "
                "is charged now, and nothing was measured for this run. Do not delete "
                f"{self.path}.lock while commands run"
            )

    def _append(self, book: Book, records: Sequence[Record]) -> None:
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
                new = Known(names=tuple(sorted(names)), marks=tuple(sorted(marks)), time=now())
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


def _repair(path: Path, book: Book) -> None:
    """Complete a torn last line, or replace it by a record that keeps what is left of it."""
    if parse_line(book.torn) is not None:
        book.data += book.torn + b"\n"
    elif book.data:
        book.extend([Torn(text=book.torn.decode(errors="backslashreplace"), time=now())])
    replace_bytes(path, book.data)
    book.torn = b""
