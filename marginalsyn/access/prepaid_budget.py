"""The prepaid budget of a visit: what was prepaid, and what every measurement has taken from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from marginalsyn.errors import BudgetError
from marginalsyn.privacy.charges import ZCDP, Approximate, Charge, Neighbours, Pure, covers
from marginalsyn.privacy.zcdp import exponential_rho


class PrepaidBudget:
    """The prepaid charges of one visit, and the payments made from them.

    zCDP charges share one pot, counted in rho. Pure charges share a pot counted in eps; those with
    bounded range have a third pot, since the ledger counted them at a quarter of the price.
    Payments may be chosen adaptively as long as their sum stays within the pot (Feldman and Zrnic
    2021). A delta without an eps, which pays for what a set union may publish about one
    person, has a pot of its own.
    """

    def __init__(self, charges: Sequence[Charge]) -> None:
        if not charges:
            raise BudgetError(
                "charges ([]) must hold at least one charge: a visit must be paid for"
            )
        relations = {charge.neighbours for charge in charges}
        if len(relations) > 1:
            raise BudgetError("charges must all be about the same neighbouring relation")
        self.charges = tuple(charges)
        self.neighbours: Neighbours = relations.pop()
        self.entries: list[dict[str, Any]] = []
        self.closed = False
        self._prepaid = {"rho": 0.0, "range": 0.0, "eps": 0.0, "delta": 0.0}
        self._whole: list[Charge] = []
        self._paid_whole: list[Charge] = []
        for charge in charges:
            cost = charge.cost
            if isinstance(cost, ZCDP):
                self._prepaid["rho"] += cost.rho
            elif isinstance(cost, Pure):
                self._prepaid["range" if cost.bounded_range else "eps"] += cost.eps
            elif isinstance(cost, Approximate) and not cost.eps:
                self._prepaid["delta"] += cost.delta
            else:
                self._whole.append(charge)
        self._spent: dict[str, list[float]] = {pot: [] for pot in self._prepaid}

    def left(self, pot: str) -> float:
        """The amount left in a pot: ``rho``, ``eps``, ``range`` or ``delta``."""
        return max(0.0, self._prepaid[pot] - math.fsum(self._spent[pot]))

    def pay(
        self,
        mechanism: str,
        *,
        rho: float | None = None,
        eps: float | None = None,
        bounded_range: bool = False,
        delta: float = 0.0,
        purpose: str = "",
        **details: Any,
    ) -> None:
        """Take one payment from the first pot that covers it, or raise BudgetError.

        Give ``rho`` for a zCDP cost or ``eps`` for a pure one, ``bounded_range`` if it has that,
        and the ``delta`` that is paid with it.
        """
        self.check_open()
        if delta and not covers(self._prepaid["delta"], math.fsum([*self._spent["delta"], delta])):
            raise BudgetError(
                f"payment ({mechanism} for {purpose or 'a measurement'}: delta {delta:.6g}) must "
                f"be covered by what the charge prepaid: left are delta {self.left('delta'):.6g}; "
                "the mechanism asks for more than it declared"
            )
        if (rho is None) == (eps is None):
            raise ValueError("a payment must be in rho or in eps")
        amount = rho if eps is None else eps
        if amount is None or not (amount >= 0 and math.isfinite(amount)):
            raise BudgetError(f"payment ({mechanism}, {amount}) must be a number not below 0")
        offers: list[tuple[str, float]] = []
        if eps is not None:
            offers = [("range", eps)] if bounded_range else []
            offers.append(("eps", eps))
            rho = exponential_rho(eps) * (1 if bounded_range else 4) if eps else 0.0
        offers.append(("rho", rho or 0.0))
        for pot, price in offers:
            if self._prepaid[pot] and covers(
                self._prepaid[pot], math.fsum([*self._spent[pot], price])
            ):
                self._spent[pot].append(price)
                self._spent["delta"].append(delta)
                break
        else:
            have = ", ".join(f"{pot} {self.left(pot):.6g}" for pot, _ in offers)
            raise BudgetError(
                f"payment ({mechanism} for {purpose or 'a measurement'}: "
                + " or ".join(f"{pot} {price:.6g}" for pot, price in offers)
                + f") must be covered by what the charge prepaid: left are {have}; "
                "the mechanism asks for more than it declared"
            )
        entry = {"mechanism": mechanism, "purpose": purpose, **details, "rho": rho}
        if eps is not None:
            entry["eps"] = eps
        if delta:
            entry["delta"] = delta
        self.entries.append(entry)

    def pay_all(self, purpose: str = "") -> None:
        """Spend at once the charges that are neither zCDP nor pure."""
        self.check_open()
        if not self._whole:
            raise BudgetError("pay_all must have a charge to spend: there is none left of its kind")
        for charge in self._whole:
            self.entries.append(
                {
                    "mechanism": charge.mechanism,
                    "purpose": purpose or charge.purpose,
                    **charge.cost.model_dump(),
                }
            )
        self._paid_whole += self._whole
        self._whole = []

    def spent(self) -> list[Charge]:
        """The payments so far, as charges; what was spent as a whole counts in full."""
        # Rounded up: a sum in floating point may lack its last bit.
        sums = {pot: math.fsum(paid) * (1 + 1e-15) for pot, paid in self._spent.items()}
        costs: list[ZCDP | Pure | Approximate] = [
            ZCDP(rho=sums["rho"]),
            Pure(eps=sums["range"], bounded_range=True),
            Pure(eps=sums["eps"]),
            Approximate(eps=0.0, delta=sums["delta"]),
        ]
        amounts = (sums["rho"], sums["range"], sums["eps"], sums["delta"])
        return [
            *self._paid_whole,
            *(
                Charge(
                    mechanism=self.charges[-1].mechanism,
                    purpose="the first counts of a run that was stopped",
                    neighbours=self.neighbours,
                    cost=cost,
                )
                for cost, amount in zip(costs, amounts, strict=True)
                if amount
            ),
        ]

    def check_open(self) -> None:
        """Raise BudgetError if the visit was closed."""
        if self.closed:
            raise BudgetError(
                "visit must be open, but it is closed: charge the table again for another visit"
            )
