"""The ledger of a private source: every charge is written before the measurement that it pays for.

A charge is a line of an SQLite file, and on the disk before :meth:`Ledger.charge` returns: a run
that dies has still spent. A ledger has one neighbouring relation, under replace one hold-out, and
one unit of privacy. Its lines are JSON records, chained by hashes. A charge pays for one run: of
the copies of a run that was interrupted, one may go on.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from marginalsyn.errors import LedgerError
from marginalsyn.privacy import caps
from marginalsyn.privacy.caps import Currency
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.privacy.composition import Total
from marginalsyn.privacy.zcdp import DEFAULT_DELTA, check_delta, check_eps
from marginalsyn.records.entries import (
    ROWS,
    Account,
    Cap,
    Entry,
    Known,
    Progress,
    Record,
    Settled,
    Void,
    now,
)
from marginalsyn.records.ledger_file import LedgerFile
from marginalsyn.records.totals import LedgerState, contradicts, first_order, refuse


class Ledger:
    """The append-only record of every charge on a private source.

    Args:
        path: a file, created when something is first written; None keeps the ledger in memory.
        source: a readable name of the private source, written into a new file.
        known: names and marks by which the source is found again, written when they are new.
        void_earlier_promises: charge for another relation or hold-out than the ledger's, too, and
            write down that its earlier promises are void.

    Example:
        >>> from marginalsyn.privacy.charges import GDP, Charge
        >>> ledger = Ledger(None)
        >>> ledger.set_cap(eps=1.0)
        >>> paid = ledger.charge([Charge(mechanism="gaussian", cost=GDP(mu=0.15))], run="first")
        >>> str(ledger.total())
        'eps 0.816967, delta 1e-09 (mu 0.15), add-remove, exact'
        >>> ledger.read().of_the_cap()
        'mu 0.15 of 0.181975'
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
        self.void_earlier_promises = void_earlier_promises
        # Why a database could not be asked whether this is the ledger of the rows that it has.
        self.unasked = ""
        self._file = LedgerFile(self.path, source, known or Known())
        self._tried: list[str] = []

    def read(self) -> LedgerState:
        """Everything that the ledger holds now: its charges by run, its cap, its relation."""
        return self._file.read()

    def check_asked(self) -> None:
        """Refuse rows whose database was not asked whether this is their ledger."""
        if self.unasked:
            raise LedgerError(
                f"ledger ({self.path}) must be that of the rows, and their database was not asked "
                f"which they are ({self.unasked}): run again where it answers, or name a ledger "
                "with --ledger. In Python, open_ledger(..., start=True) starts Spark to ask it. "
                "Nothing was charged or read"
            )

    def made(self) -> tuple[str, ...]:
        """The ids of the charges made through this object that stand; no other process's."""
        if not self._tried:
            return ()
        known = {entry.id for entry in self._file.read().entries}
        return tuple(one for one in self._tried if one in known)

    def charge(
        self,
        charges: Sequence[Charge],
        *,
        run: str = "",
        delta: float | None = None,
        seeded: bool = False,
        drafted: bool = False,
        unit: str = ROWS,
        split: str | None = "",
        id: str = "",
        taken: str = "",
    ) -> str:
        """Write the charges down, all or none; when this returns they are on disk.

        Relation, hold-out, unit and cap are checked under the same lock, so that runs side by side
        never overspend.

        Args:
            charges: what is about to be spent.
            run: a name for the run, for people.
            delta: what the run's own statement uses, for people.
            seeded: the run's noise comes from a seed, so the guarantee does not hold.
            drafted: the schema was read off the rows, so the guarantee does not cover it.
            unit: whose presence the charges protect; one unit a ledger.
            split: which rows the run cannot see, as
                :meth:`~marginalsyn.sources.holdout.Holdout.split` gives it; all by default.
            id: of the line, where something is kept under it already; a new one by default.
            taken: the number of who may go on with the run; without one, nobody may.

        Returns:
            The id of the line that holds the charges; empty when there were none.

        Raises:
            BudgetError: the relation, the hold-out, the unit or the cap does not allow it; nothing
                was written.
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
            split=split,
            taken=taken,
            seeded=seeded,
            drafted=drafted,
            charges=tuple(charges),
        )
        with self._file.changing() as book:
            relation = refuse(book, charges, unit, split, self.void_earlier_promises)
            records: list[Record] = [*_voids(book, entry), entry]
            if book.account is None:
                order = caps.best_order(charges, relation, delta or DEFAULT_DELTA)
                records.insert(0, Account(order=order, time=entry.time))
            # Known before it is written: an interrupt in between must not hide it.
            self._tried.append(entry.id)
            book.extend(records)
        return entry.id

    def advance(
        self,
        id: str,
        known: Collection[str],
        by: str,
        answers: int,
        state: Literal["taken", "drawn", "ended"] | None = None,
        spent: Sequence[Charge] | None = None,
    ) -> Progress:
        """Record how far a run has come and who works on it, before anything is made of it.

        One may: the ledger's number must be among those that are known. A run that was stopped
        pays for what it had left.

        Args:
            id: of the line that holds the run's charges.
            known: the numbers that its workspace keeps.
            by: the number from now on, which the workspace keeps already.
            answers: how many it has; a copy from before an earlier record would draw others.
            state: see :class:`~marginalsyn.records.entries.Progress`; as before by default.
            spent: of a run that stops, what it has spent; the rest was never used. A sum of what
                was spent stays valid however it was chosen when to stop: that is what the cap's
                filter is for.

        Raises:
            LedgerError: another one has gone on with the run, or has ended it.
            BudgetError: the cap does not allow it any more; nothing was written.
        """
        with self._file.changing() as book:
            before = book.progress.get(id)
            if before is None or before.by not in known or before.state == "ended":
                raise _gone(id)
            if answers < before.answers:
                raise _gone(id)
            records: list[Record] = []
            whole = book.promised.get(id)
            if whole is not None:
                others = replace(book, entries=[one for one in book.entries if one.id != id])
                void = self.void_earlier_promises
                refuse(others, whole.charges, whole.unit, whole.split, void)
                records += [*_voids(others, whole), Settled(id=id, time=now())]
            if spent is not None:
                records.append(Settled(id=id, charges=tuple(spent), time=now()))
            new = {"by": by, "answers": answers, "state": state or before.state, "time": now()}
            after = before.model_copy(update=new)
            book.extend([*records, after])
        return after

    def check(self, charges: Sequence[Charge], *, unit: str = ROWS, split: str | None = "") -> None:
        """Raise what :meth:`charge` would raise, and write nothing.

        Raises:
            BudgetError: the relation, the hold-out, the unit or the cap does not allow the charges.
        """
        refuse(self._file.read(), charges, unit, split, self.void_earlier_promises)

    def set_cap(
        self,
        eps: float | None,
        delta: float = DEFAULT_DELTA,
        *,
        sampled: bool = False,
        own_delta: float = 0.0,
        currency: Currency | None = None,
    ) -> None:
        """Set a cap on the source's total from now on; None removes it.

        The cap is a filter (:mod:`marginalsyn.privacy.caps`) that counts one currency: that of the
        cap it takes the place of, else mu where every charge so far has a price in it, else rho;
        with ``sampled`` Renyi divergences at the order that was recorded when the ledger was
        begun. A cap below what is already spent is accepted: it refuses everything from now on.

        Args:
            eps: the cap; None removes it.
            delta: of the limit.
            sampled: allow sampled steps (DP-SGD), which neither mu nor rho can price. A ledger
                that holds some allows them anyway.
            own_delta: how much of delta is set aside for charges with a delta of their own.
            currency: what is counted, in place of the above. Whoever changes it on a ledger with
                charges makes a new promise, which covers nobody who chose it by what was seen.

        Raises:
            UsageError: a charge has no price in that currency.
        """
        check_delta(delta, allow_large=True)
        if eps is not None:
            check_eps(eps)
        with self._file.changing() as book:
            records: list[Record] = []
            account = book.account
            if account is None:
                account = Account(order=first_order(book, eps, delta), time=now())
                records.append(account)
            limits: dict[str, float | None] = {"eps": None, "delta": delta}
            if eps is not None:
                counted = book.currency_of_a_cap("renyi" if sampled else currency)
                limits = caps.make_cap(eps, delta, counted, account.order, own_delta)
            records.append(Cap.model_validate({**limits, "time": now()}))
            book.extend(records)

    def total(self, delta: float = DEFAULT_DELTA, neighbours: Neighbours | None = None) -> Total:
        """The guarantee of all charges together; see :meth:`LedgerState.total`."""
        return self._file.read().total(delta, neighbours)

    def verify(self) -> list[str]:
        """What is wrong with the file; empty if every line is as it was written."""
        try:
            self._file.read()
        except LedgerError as error:
            return [str(error)]
        return []

    def accept(self) -> None:
        """Accept the lines as they are, and record that the chain was broken here."""
        with self._file.changing(strict=False) as book:
            book.extend([book.seal()])


def _voids(book: LedgerState, entry: Entry) -> list[Void]:
    """What the charges of a run break, which is allowed by now."""
    broken = contradicts(book, entry.charges, entry.split)
    return [Void(neighbours=each, run=entry.run, time=now()) for each in broken]


def _gone(id: str) -> LedgerError:
    """The error for a run that another copy of its workspace works on, or has ended."""
    error = LedgerError(
        f"run ({id}) must be this workspace's to go on: the ledger records that another copy of "
        "the workspace has gone on with it or has ended it, and one charge pays for one release. "
        "Begin a new run without --resume, which is charged; to forget this one delete its files "
        "in .marginalsyn/journals"
    )
    error.states_spending = True  # What is kept of it is of no more use.
    return error
