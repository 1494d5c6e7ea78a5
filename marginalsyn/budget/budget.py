"""Budgets, and in one place every name of the arithmetic of privacy.

A mechanism declares its cost as :class:`Charge` objects; :func:`compose` turns any list of them
into one (eps, delta) guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from marginalsyn.budget.charges import (
    Neighbours,
)
from marginalsyn.budget.zcdp import (
    DEFAULT_DELTA,
    check_delta,
    check_eps,
    eps_of,
    rho_of,
)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What may be spent: (eps, delta) and, tightly converted and rounded down, ``rho``.

    Args:
        eps: above 0, at most 1000.
        delta: a public constant below 1e-6 (larger only with ``allow_large_delta``).
        neighbours: the relation that the guarantee is about.

    Example:
        >>> round(Budget(eps=1).rho, 5)
        0.01497
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

    @classmethod
    def of_rho(
        cls,
        rho: float,
        delta: float = DEFAULT_DELTA,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
    ) -> Budget:
        """The budget whose ``rho`` is exactly the given one."""
        budget = cls(eps=eps_of(rho, delta), delta=delta, neighbours=neighbours)
        budget.__dict__["rho"] = rho
        return budget
