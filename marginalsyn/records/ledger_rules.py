"""The rules of a ledger: one relation, one hold-out under replace, one unit, nothing above its cap.

Under replace a run publishes how many rows it sees. With a hold-out that number moves when a row is
replaced by one of the other side, from which a run with another hold-out promises protection.
"""

from __future__ import annotations

from collections.abc import Sequence

from marginalsyn.errors import BudgetError
from marginalsyn.privacy import caps
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.records.ledger_state import LedgerState


def refuse(
    book: LedgerState, charges: Sequence[Charge], unit: str, split: str | None, void: bool
) -> Neighbours:
    """Raise BudgetError if the ledger does not allow the charges; return its relation then."""
    relation = book.relation
    if not charges:
        return relation
    _refuse_other_unit(book, unit)
    broken = () if void else contradicts(book, charges, split)
    if Neighbours.ADD_REMOVE in broken:
        given = next(c.neighbours for c in charges if c.neighbours is not book.neighbours)
        given = given if book.neighbours else Neighbours.REPLACE
        raise BudgetError(
            f"neighbours ({given}) must be {relation}, as for all other charges in this ledger: a "
            f"run under {Neighbours.REPLACE} may publish exactly what a promise for "
            f"{Neighbours.ADD_REMOVE} keeps private. Run with --neighbours {relation}, or give up "
            "the earlier promises with --void-earlier-promises (void_earlier_promises=True), which "
            "the ledger records"
        )
    if broken:
        raise BudgetError(
            f"holdout ({_share(split)}) must be {' and '.join(sorted(map(_share, book.splits)))}, "
            f"and pick the same rows, as for all other {Neighbours.REPLACE} charges in this "
            "ledger: under it each hold-out publishes how many rows it leaves, which a run with "
            "another promises to protect. Run with the earlier --holdout, in the folder of the "
            "earlier release, whose .marginalsyn keeps what picks the rows; or give up the earlier "
            "promises with --void-earlier-promises (void_earlier_promises=True), which the ledger "
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


def _refuse_other_unit(book: LedgerState, unit: str) -> None:
    units = {entry.unit for entry in book.entries}
    if units - {unit}:
        raise BudgetError(
            f"unit ({unit}) must be {' and '.join(sorted(units))}, the ledger's one unit of "
            "privacy: losses of different units do not add up; name another --ledger"
        )


def _refuse_over_cap(book: LedgerState, charges: Sequence[Charge], relation: Neighbours) -> None:
    both = [*book.charges, *charges]
    cap = book.cap
    if cap is None or caps.within(cap, both, relation):
        return
    if caps.unpriced(cap, both, relation) and not caps.unpriced(cap, book.charges, relation):
        raise BudgetError(
            f"the ledger's cap ({cap}) must be kept at a Renyi order before sampled steps (DP-SGD) "
            "can be charged: a cap in zCDP has no price for them. Set it again with 'marginalsyn "
            f"ledger cap --eps {cap.eps:g} --sampled', which counts all charges at the order that "
            "was recorded when the ledger was begun"
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
