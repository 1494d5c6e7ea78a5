"""What a mechanism may spend, in every currency that a mechanism can be priced in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from marginalsyn.errors import UsageError
from marginalsyn.privacy.charges import GDP, ZCDP, Charge, Cost, Neighbours
from marginalsyn.privacy.gdp import eps_of_mu, mu_of, mu_of_amount, selection_eps
from marginalsyn.privacy.zcdp import (
    DEFAULT_DELTA,
    check_delta,
    check_eps,
    eps_of,
    exponential_eps,
    rho_of,
)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What may be spent: (eps, delta), and what that is worth to other kinds of mechanisms.

    ``mu`` is for a mechanism whose draws all have a price in mu (rounded Gaussian noise,
    selections, pure noise): converted exactly, rounded down. It adds up in ``gaussian``, mu^2 / 2.
    ``rho`` is for any other concentrated mechanism: tightly converted, rounded down. ``pure`` is
    the eps of a pure mechanism. A budget whose ``mu`` is None is priced in rho throughout, as runs
    of earlier versions were.

    Args:
        eps: above 0, at most 1000.
        delta: a public constant below 1e-6 (larger only with ``allow_large_delta``).
        neighbours: the relation that the guarantee is about.

    Example:
        >>> round(Budget(eps=1).rho, 5), Budget(eps=1).pure, round(Budget.of_rho(0.02).pure, 9)
        (0.01497, 1, 0.2)
        >>> round(Budget(eps=1).mu, 5), round(Budget(eps=1).gaussian, 5)
        (0.18197, 0.01656)
    """

    eps: float
    delta: float = DEFAULT_DELTA
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    allow_large_delta: bool = False

    def __post_init__(self) -> None:
        check_eps(self.eps)
        check_delta(self.delta, self.allow_large_delta)
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))

    @cached_property
    def mu(self) -> float | None:
        """The largest GDP cost that stays inside the budget."""
        return mu_of(self.eps, self.delta)

    @property
    def gaussian(self) -> float:
        """What Gaussian draws may come to: the sum of l2^2 / (2 sigma^2) over all of them."""
        return self.rho if self.mu is None else self.mu**2 / 2

    def gaussian_within(self, delta: float) -> float:
        """The same at the budget's eps where only so much of delta is left for it."""
        if self.mu is None:
            return rho_of(self.eps, delta)
        return mu_of(self.eps, delta) ** 2 / 2

    @property
    def gaussian_cost(self) -> Cost:
        """The cost of a mechanism that spends all of ``gaussian``."""
        return ZCDP(rho=self.rho) if self.mu is None else GDP(mu=self.mu)

    @property
    def gaussian_law(self) -> str:
        """The name of the Gaussian law that a visit draws from for a charge in this currency."""
        return "discrete Gaussian" if self.mu is None else "rounded Gaussian"

    def cost_of(self, amount: float) -> Cost:
        """The cost of Gaussian draws and selections that come to an amount of ``gaussian``."""
        return ZCDP(rho=amount) if self.mu is None else GDP(mu=mu_of_amount(amount))

    def selection_eps(self, amount: float) -> float:
        """The largest eps of a bounded-range selection that costs so much of ``gaussian``."""
        return exponential_eps(amount) if self.mu is None else selection_eps(amount)

    @cached_property
    def rho(self) -> float:
        """The largest zCDP cost that stays inside the budget."""
        return rho_of(self.eps, self.delta)

    @cached_property
    def pure(self) -> float:
        """The largest eps of a pure mechanism that stays inside the budget."""
        return self.eps

    @property
    def in_rho(self) -> Budget:
        """The same budget priced in rho throughout: what a run of an earlier version had."""
        return Budget.of_json({**self.to_json(), "mu": None})

    @classmethod
    def of_mu(
        cls, mu: float, delta: float = DEFAULT_DELTA, neighbours: Neighbours = Neighbours.ADD_REMOVE
    ) -> Budget:
        """A share of a larger budget: ``mu`` is exactly the given one, all else of the same eps."""
        if not (mu > 0 and math.isfinite(mu)):
            raise UsageError(f"mu ({mu}) must be a number above 0")
        found = cls.of_rho(rho_of(eps_of_mu(mu, delta), delta), delta, neighbours)
        return cls.of_json({**found.to_json(), "mu": mu})

    @classmethod
    def of_rho(
        cls,
        rho: float,
        delta: float = DEFAULT_DELTA,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
    ) -> Budget:
        """A share of a larger budget that is priced in rho throughout: ``rho`` is the given one.

        A pure mechanism of eps^2 / 2 = rho has this price in zCDP, so that the total grows alike
        whichever mechanism is used.
        """
        if not (rho > 0 and math.isfinite(rho)):
            raise UsageError(f"rho ({rho}) must be a number above 0")
        check_delta(delta, allow_large=True)
        pure = math.sqrt(2 * rho)
        while pure * pure / 2 > rho:
            pure = math.nextafter(pure, 0.0)
        eps = max(eps_of(rho, delta), pure)
        return cls._worth(rho, pure, None, eps=eps, delta=delta, neighbours=neighbours)

    def part(self, share: float) -> Budget:
        """A part of the budget for one of several mechanisms that add up in one currency."""
        return self._worth(
            share * self.rho,
            share * self.pure,
            None if self.mu is None else math.sqrt(share) * self.mu,
            eps=self.eps,
            delta=self.delta,
            neighbours=self.neighbours,
        )

    def charge(
        self,
        mechanism: str,
        purpose: str,
        cost: Cost | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> Charge:
        """What a mechanism costs under the budget's relation: by default, all of it in zCDP.

        Give ``gaussian_cost`` where every draw has a price in mu.
        """
        return Charge(
            mechanism=mechanism,
            purpose=purpose,
            neighbours=self.neighbours,
            cost=cost or ZCDP(rho=self.rho),
            details=dict(details or {}),
        )

    def gaussian_charge(self, purpose: str, details: Mapping[str, Any]) -> Charge:
        """What Gaussian noise costs that spends all of it, whatever it is priced in."""
        return self.charge(self.gaussian_law, purpose, self.gaussian_cost, details)

    def to_json(self) -> dict[str, Any]:
        """What it is worth, as JSON values."""
        names = ("eps", "delta", "rho", "pure", "neighbours")
        found = {name: getattr(self, name) for name in names}
        return found if self.mu is None else {**found, "mu": self.mu}

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> Budget:
        """The budget of which :meth:`to_json` gave these."""
        return cls._worth(**fields)

    @classmethod
    def _worth(cls, rho: float, pure: float, mu: float | None = None, **known: Any) -> Budget:
        budget = cls(**known, allow_large_delta=True)
        vars(budget).update(rho=rho, pure=pure, mu=mu)
        return budget
