"""The rules of a ledger: one relation, one unit of privacy, and nothing above its cap."""

from __future__ import annotations

from collections.abc import Sequence

from marginalsyn.budget import Charge, Neighbours, filters
from marginalsyn.errors import BudgetError
from marginalsyn.private.book import Book


def refuse(book: Book, charges: Sequence[Charge], unit: str, void: bool) -> Neighbours:
    """Raise BudgetError if the ledger does not allow the charges; return its relation then."""
    relation = book.relation
    if not charges:
        return relation
    _refuse_other_unit(book, unit)
    if contradicts(book, charges) and not void:
        given = next(c.neighbours for c in charges if c.neighbours is not book.neighbours)
        given = given if book.neighbours else Neighbours.REPLACE
        raise BudgetError(
            f"neighbours ({given}) must be {relation}, as for all other charges in this ledger: a "
            f"run under {Neighbours.REPLACE} may publish exactly what a promise for "
            f"{Neighbours.ADD_REMOVE} keeps private. Run with --neighbours {relation}, or give up "
            "the earlier promises with --void-earlier-promises (void_earlier_promises=True), which "
            "the ledger records"
        )
    if any(charge.neighbours is Neighbours.REPLACE for charge in charges):
        relation = Neighbours.REPLACE
    _refuse_over_cap(book, charges, relation)
    return relation


def contradicts(book: Book, charges: Sequence[Charge]) -> bool:
    """Whether the charges bring a second relation into the ledger."""
    relations = {charge.neighbours for charge in charges}
    return len(relations) > 1 or (book.neighbours is not None and relations != {book.neighbours})


def _refuse_other_unit(book: Book, unit: str) -> None:
    units = {entry.unit for entry in book.entries}
    if units - {unit}:
        raise BudgetError(
            f"unit ({unit}) must be {' and '.join(sorted(units))}, the ledger's one unit of "
            "privacy: losses of different units do not add up; name another --ledger"
        )


def _refuse_over_cap(book: Book, charges: Sequence[Charge], relation: Neighbours) -> None:
    both = [*book.charges, *charges]
    cap = book.cap
    if cap is None or filters.within(cap, both, relation):
        return
    if filters.unpriced(cap, both, relation) and not filters.unpriced(cap, book.charges, relation):
        raise BudgetError(
            f"the ledger's cap ({cap}) must be kept at a Renyi order before sampled steps (DP-SGD) "
            "can be charged: a cap in zCDP has no price for them. Set it again with 'marginalsyn "
            f"ledger cap --eps {cap.eps:g} --sampled', which counts all charges at the order that "
            "was recorded when the ledger was begun"
        )
    raise BudgetError(
        f"the ledger's cap ({cap}) must cover the total, which would be "
        f"{filters.describe_use(cap, both, relation)} (spent so far: "
        f"{filters.describe_use(cap, book.charges, relation)}); lower the eps of this run, or "
        "raise the cap on purpose with 'marginalsyn ledger cap'"
    )


def first_order(book: Book, eps: float | None, delta: float) -> float:
    """The Renyi order of a ledger that has none yet: a function of what is public."""
    if eps is not None or not book.charges:
        return filters.order_for(eps or 1.0, delta)
    return filters.best_order(book.charges, book.relation, delta)
