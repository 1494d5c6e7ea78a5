"""What a mechanism may spend, in every currency that a mechanism can be priced in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from marginalsyn.errors import UsageError
from marginalsyn.privacy.charges import ZCDP, Charge, Cost, Neighbours
from marginalsyn.privacy.zcdp import DEFAULT_DELTA, check_delta, check_eps, eps_of, rho_of


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What may be spent: (eps, delta), and what that is worth to other kinds of mechanisms.

    ``rho`` is for a concentrated mechanism: tightly converted, rounded down. ``pure`` is the eps of
    a pure mechanism.

    Args:
        eps: above 0, at most 1000.
        delta: a public constant below 1e-6 (larger only with ``allow_large_delta``).
        neighbours: the relation that the guarantee is about.

    Example:
        >>> round(Budget(eps=1).rho, 5), Budget(eps=1).pure, round(Budget.of_rho(0.02).pure, 9)
        (0.01497, 1, 0.2)
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
    def rho(self) -> float:
        """The largest zCDP cost that stays inside the budget."""
        return rho_of(self.eps, self.delta)

    @cached_property
    def pure(self) -> float:
        """The largest eps of a pure mechanism that stays inside the budget."""
        return self.eps

    @classmethod
    def of_rho(
        cls,
        rho: float,
        delta: float = DEFAULT_DELTA,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
    ) -> Budget:
        """A share of a larger budget: ``rho`` is exactly the given one, and so is all else worth.

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
        return cls._worth(rho, pure, eps=eps, delta=delta, neighbours=neighbours)

    def part(self, share: float) -> Budget:
        """A part of the budget for one of several mechanisms that add up in ``rho`` or ``pure``."""
        return self._worth(
            share * self.rho,
            share * self.pure,
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
        """What a mechanism costs under the budget's relation: by default, all of it in zCDP."""
        return Charge(
            mechanism=mechanism,
            purpose=purpose,
            neighbours=self.neighbours,
            cost=cost or ZCDP(rho=self.rho),
            details=dict(details or {}),
        )

    def to_json(self) -> dict[str, Any]:
        """What it is worth, as JSON values."""
        names = ("eps", "delta", "rho", "pure", "neighbours")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> Budget:
        """The budget of which :meth:`to_json` gave these."""
        return cls._worth(**fields)

    @classmethod
    def _worth(cls, rho: float, pure: float, **known: Any) -> Budget:
        budget = cls(**known, allow_large_delta=True)
        vars(budget).update(rho=rho, pure=pure)
        return budget
