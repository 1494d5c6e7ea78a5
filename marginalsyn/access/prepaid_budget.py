"""The prepaid budget of a visit: what was prepaid, and what every measurement has taken from it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from marginalsyn.errors import BudgetError, UsageError
from marginalsyn.libraries import took_part, used_libraries
from marginalsyn.privacy.charges import GDP, ZCDP, Approximate, Charge, Neighbours, Pure, covers
from marginalsyn.privacy.gdp import amount_of, mu_of_amount, pure_mu, selection_mu
from marginalsyn.privacy.laws import Law
from marginalsyn.privacy.noise import Noise
from marginalsyn.privacy.streams import Key, PostStream, SecretStream
from marginalsyn.privacy.zcdp import exponential_rho
from marginalsyn.records.runs import Answer, Journal

# Amounts that are prepaid and spent: those of GDP charges in mu^2 / 2, with what they promise in
# zCDP, which may be less; rho; eps of bounded range and of others; a delta by itself.
POTS = ("mu", "within", "rho", "range", "eps", "delta")


class PrepaidBudget:
    """The prepaid charges of one visit, and the payments made from them.

    GDP charges share one pot, counted in mu^2 / 2: a payment without a price in mu is never made
    from it. zCDP charges share another, counted in rho, where mu counts as mu^2 / 2. Pure charges
    share a pot counted in eps; those with bounded range have one of their own, since the ledger
    counted them at a quarter of the price. Payments may be chosen adaptively as long as their sum
    stays within the pot (Feldman and Zrnic 2021; Smith and Thakurta 2022). A delta without an eps,
    which pays for what a set union may publish about one person, has a pot of its own, too.

    Where a visit has several views, each has a budget that :meth:`part` takes out of the whole.
    Their payments are listed together, in the order in which they were made.
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
        self.view = ""
        self._whole_budget: PrepaidBudget | None = None
        self._parts: list[PrepaidBudget] = []
        self._amounts = dict.fromkeys(POTS, 0.0)
        self._whole: list[Charge] = []
        self._paid_whole: list[Charge] = []
        for charge in charges:
            cost = charge.cost
            if isinstance(cost, GDP):
                self._amounts["mu"] += amount_of(cost.mu)
                self._amounts["within"] += cost.rho
            elif isinstance(cost, ZCDP):
                self._amounts["rho"] += cost.rho
            elif isinstance(cost, Pure):
                self._amounts["range" if cost.bounded_range else "eps"] += cost.eps
            elif isinstance(cost, Approximate) and not cost.eps:
                self._amounts["delta"] += cost.delta
            else:
                self._whole.append(charge)
        self._spent: dict[str, list[float]] = {pot: [] for pot in self._amounts}

    def left(self, pot: str) -> float:
        """What is left in a pot: ``mu`` (as mu^2 / 2), ``rho``, ``eps``, ``range``, ``delta``."""
        return max(0.0, self._amounts[pot] - math.fsum(self._taken(pot)))

    def part(self, charges: Sequence[Charge], view: str) -> PrepaidBudget:
        """Take a budget with these charges out of this one; its payments name the view.

        Raises:
            BudgetError: they are more than what is left.
        """
        self.check_open()
        part = PrepaidBudget(charges)
        for pot, amount in part._amounts.items():
            if amount and not self._covers(pot, amount):
                raise BudgetError(
                    f"charges of view {view} ({pot} {amount:.6g}) must be covered by what the "
                    f"charge prepaid: left are {self.left(pot):.6g}"
                )
        if part._whole or part.neighbours is not self.neighbours:
            raise BudgetError(
                f"charges of view {view} must be pure, GDP or zCDP, and about the same relation"
            )
        part.entries, part.view, part._whole_budget = self.entries, view, self
        self._parts.append(part)
        return part

    def _paid(self, pot: str) -> list[float]:
        """What was paid from a pot, by the parts of this budget as well."""
        return [*self._spent[pot], *(paid for part in self._parts for paid in part._paid(pot))]

    def _taken(self, pot: str) -> list[float]:
        """What was paid from a pot, and what parts have taken out of it."""
        return [*self._spent[pot], *(part._amounts[pot] for part in self._parts)]

    def _covers(self, pot: str, price: float) -> bool:
        prepaid = self._amounts[pot]
        return prepaid > 0 and covers(prepaid, math.fsum([*self._taken(pot), price]))

    def pay(
        self,
        mechanism: str,
        *,
        mu: float | None = None,
        rho: float | None = None,
        eps: float | None = None,
        bounded_range: bool = False,
        delta: float = 0.0,
        purpose: str = "",
        **details: Any,
    ) -> None:
        """Take one payment from the first pot that covers it, or raise BudgetError.

        Give ``mu`` for a GDP cost, ``rho`` for a zCDP cost or ``eps`` for a pure one,
        ``bounded_range`` if it has that, and the ``delta`` that is paid with it.
        """
        self.check_open()
        if delta and not self._covers("delta", delta):
            raise BudgetError(
                f"payment ({mechanism} for {purpose or 'a measurement'}: delta {delta:.6g}) must "
                f"be covered by what the charge prepaid: left are delta {self.left('delta'):.6g}; "
                "the mechanism asks for more than it declared"
            )
        if [mu, rho, eps].count(None) != 2:
            raise ValueError("a payment must be in mu, in rho or in eps")
        amount = next(one for one in (mu, rho, eps) if one is not None)
        if not (amount >= 0 and math.isfinite(amount)):
            raise BudgetError(f"payment ({mechanism}, {amount}) must be a number not below 0")
        offers = []
        if eps is not None:
            offers = [("range", eps)] if bounded_range else []
            offers.append(("eps", eps))
            rho = exponential_rho(eps) * (1 if bounded_range else 4) if eps else 0.0
            if self._amounts["mu"]:
                mu = selection_mu(eps) if bounded_range else pure_mu(eps)
                # For large eps the price in mu is the lower one, and implies zCDP.
                rho = min(rho, amount_of(mu))
        elif mu is not None:
            rho = amount_of(mu)
        if mu is not None and self._amounts["mu"]:
            offers.append(("mu", amount_of(mu)))
        offers.append(("rho", rho or 0.0))
        for pot, price in offers:
            # A payment in mu stays within what its charge promises in zCDP, too.
            within = pot != "mu" or self._covers("within", rho or 0.0)
            if within and self._covers(pot, price):
                self._spent[pot].append(price)
                self._spent["delta"].append(delta)
                if pot == "mu":
                    self._spent["within"].append(rho or 0.0)
                break
        else:
            if mu is None and self._amounts["mu"] and not self._amounts["rho"]:
                raise BudgetError(
                    f"payment ({mechanism} for {purpose or 'a measurement'}: rho {amount:.6g}) has "
                    "no price in mu, in which the charge was made: draw with visit.gaussian, or "
                    "charge in zCDP"
                )
            have = ", ".join(f"{pot} {self.left(pot):.6g}" for pot, _ in offers)
            raise BudgetError(
                f"payment ({mechanism} for {purpose or 'a measurement'}: "
                + " or ".join(f"{pot} {price:.6g}" for pot, price in offers)
                + f") must be covered by what the charge prepaid: left are {have}; "
                "the mechanism asks for more than it declared"
            )
        entry = {"mechanism": mechanism, "purpose": purpose, **details, "rho": rho}
        if mu is not None:
            entry["mu"] = mu
        if eps is not None:
            entry["eps"] = eps
        if delta:
            entry["delta"] = delta
        if self.view:
            entry |= {"laws": [], "view": self.view}
        self.entries.append(entry)

    @property
    def exact(self) -> bool:
        """Whether Gaussian noise is paid for in mu, and must have a price in it."""
        return self._amounts["mu"] > 0

    def pay_all(self, purpose: str = "") -> None:
        """Spend at once the charges that are neither GDP, zCDP nor pure."""
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
        sums = {pot: math.fsum(self._paid(pot)) * (1 + 1e-15) for pot in self._spent}
        costs: dict[str, GDP | ZCDP | Pure | Approximate] = {
            "mu": GDP(mu=mu_of_amount(sums["mu"]), rho=sums["within"]),
            "rho": ZCDP(rho=sums["rho"]),
            "range": Pure(eps=sums["range"], bounded_range=True),
            "eps": Pure(eps=sums["eps"]),
            "delta": Approximate(eps=0.0, delta=sums["delta"]),
        }
        known: dict[str, Any] = {
            "mechanism": self.charges[-1].mechanism,
            "purpose": "the first counts of a run that was stopped",
            "neighbours": self.neighbours,
        }
        paid = [Charge(**known, cost=cost) for pot, cost in costs.items() if sums[pot]]
        return [*self._paid_whole, *paid]

    def check_open(self) -> None:
        """Raise BudgetError if the visit was closed."""
        if self.closed or (self._whole_budget is not None and self._whole_budget.closed):
            raise BudgetError(
                "visit must be open, but it is closed: charge the table again for another visit"
            )


class ReplayedNoise:
    """Noise that writes every answer to a journal before it returns it.

    An answer that the journal has is returned again and not drawn a second time; a new one is
    drawn, written, then returned. Lots, secret streams and keys are never written: a run that goes
    on draws others, and each answer's bound holds for every one of them. What a mechanism computes
    from a secret stream of its own it hands out through :meth:`answer`. The run's last payment is
    part of a question's fingerprint.
    """

    def __init__(
        self, inner: Noise, journal: Journal, prepaid: PrepaidBudget | None = None
    ) -> None:
        self.inner, self._journal, self._prepaid = inner, journal, prepaid
        self.used = inner.used
        self.private, self.description = inner.private, inner.description
        self.post_seed = int(journal.facts["post"], 16)
        self._asked = 0
        self._noted = self.used.counts()
        same = inner.post_seed == self.post_seed
        self.post = inner.post if same else PostStream(np.random.PCG64(self.post_seed))

    @property
    def known(self) -> bool:
        """Whether the next answer is in the journal, so that nothing need be computed for it."""
        # A seeded noise is asked again all the same, to move its streams on.
        return self.private and self._asked < len(self._journal)

    def secret(self) -> SecretStream:
        return self.inner.secret()

    def key(self) -> Key:
        return self.inner.key()

    def draw(self, law: Law, values: Any) -> Any:
        """See :meth:`marginalsyn.privacy.noise.SecureNoise.draw`."""

        def draw() -> Any:
            return self.inner.draw(law, values)

        if not law.journaled:
            return draw()
        return law.restored(self._replay(law.question, np.shape(values), law.parameters, draw))

    def answer(self, what: str, draw: Callable[[], np.ndarray]) -> np.ndarray:
        """See :meth:`marginalsyn.privacy.noise.SecureNoise.answer`."""
        return self._replay(what, (), 0.0, lambda: self.inner.answer(what, draw))

    def _replay(
        self, question: str, shape: Sequence[int], parameters: Any, draw: Callable[[], Any]
    ) -> np.ndarray:
        paid = self._prepaid.entries[-1] if self._prepaid and self._prepaid.entries else {}
        paid = {name: value for name, value in paid.items() if name != "laws"}
        asked = fingerprint(self._asked, question, shape, parameters, paid)
        number, self._asked = self._asked, self._asked + 1
        if number >= len(self._journal):
            value = np.asarray(draw())
            laws = self.used.since(self._noted)
            self._journal.append(Answer(asked, value, laws, used_libraries()))
        else:
            kept = self._journal.answer(number)
            if kept.question != asked:
                raise UsageError(
                    f"journal ({self._journal.path}) must be of the very run that goes on, but its "
                    f"answer {number + 1} is to another question: it was written by marginalsyn "
                    f"{self._journal.facts.get('version', '?')}; go on with that version, with the "
                    "same libraries"
                )
            value = kept.value
            for library, role in kept.libraries.items():
                took_part(library, role)
            if self.private:
                # Keys and secret streams were drawn again, and are counted already.
                since = self.used.since(self._noted)
                for law, times in kept.laws.items():
                    for _ in range(times - since.get(law, 0)):
                        self.used.note(law)
            else:
                draw()
        self._noted = self.used.counts()
        return value


def bare_noise(noise: Noise) -> Noise:
    """The noise that draws, for draws of which the result alone may be written down."""
    return noise.inner if isinstance(noise, ReplayedNoise) else noise


def fingerprint(
    number: int, question: str, shape: Sequence[int], parameters: Any, paid: Mapping[str, Any]
) -> str:
    """A hash of what is public of a question: its place, law, shape, parameters and payment."""
    found = np.asarray(parameters)
    known = found.tolist() if found.size < 8 else hashlib.sha256(found.tobytes()).hexdigest()
    public = [number, question, list(shape), known, dict(paid)]
    text = json.dumps(public, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
