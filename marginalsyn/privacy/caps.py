"""Privacy filters: a cap that stays valid when budgets are chosen after seeing earlier results.

:func:`marginalsyn.privacy.composition.compose` gives the tightest total known for charges whose
amounts were fixed beforehand. A ledger's next charge is chosen after looking at what came before,
and for that a loss distribution or the least of several Renyi curves proves nothing. What is
proved adds up one number and refuses what would pass a limit fixed beforehand: sums of pure eps
and of deltas (Rogers et al. 2016), zCDP or Renyi divergences at one order (Feldman and Zrnic
2021), with deltas of their own (Whitehouse et al. 2023), and squares of mu (Smith and Thakurta
2022; Koskela, Tobaben and Honkela 2023). A cap counts one of them, fixed when it is set: whoever
may pass by the least of several chooses the branch by what was seen, and passes both limits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from marginalsyn.errors import UsageError
from marginalsyn.privacy.charges import (
    GDP,
    ZCDP,
    Approximate,
    Charge,
    Cost,
    Neighbours,
    Pure,
    SubsampledGaussian,
    cost_under,
    covers,
    show_number,
    simplify,
)
from marginalsyn.privacy.composition import add_mu, sampled_renyi, sum_up
from marginalsyn.privacy.gdp import mu_of
from marginalsyn.privacy.zcdp import check_delta, check_eps, exponential_rho, rho_of

if TYPE_CHECKING:
    from marginalsyn.records.entries import Cap

Currency = Literal["mu", "rho", "renyi"]
"""What a cap adds up: squares of mu, zCDP, or Renyi divergences of one order."""

# Which orders a ledger may be kept at: small ones serve large eps.
_LARGE = tuple(2.0**k * x for k in range(6, 12) for x in (1, 1.25, 1.5))
ORDERS = (1.5, *map(float, range(2, 64)), *_LARGE)
# Rounding of the few operations below, far above it.
_UP = 1 + 1e-12


@dataclass(frozen=True, kw_only=True)
class Spent:
    """The sum of charges in each unit that has a filter; None if a charge has no price in it."""

    delta: float
    eps: float | None
    rho: float | None
    mu: float | None = None
    renyi: float | None = None


def make_cap(
    eps: float,
    delta: float,
    currency: Currency = "mu",
    order: float | None = None,
    own_delta: float = 0.0,
) -> dict[str, float | None]:
    """The limits that keep (eps, delta), as fields of a cap.

    Args:
        eps: of the whole source.
        delta: of the whole source.
        currency: what is added up.
        order: of the Renyi divergences.
        own_delta: how much of ``delta`` is set aside for charges that have a delta of their own.
            It is taken twice: once for the sum of eps, once next to the currency's own.

    Raises:
        UsageError: numbers that bound nothing.
    """
    check_eps(eps)
    check_delta(delta, allow_large=True)
    left = delta - 2 * own_delta
    if not own_delta >= 0 or not left > 0:
        raise UsageError(
            f"own_delta ({own_delta}) must be at least 0 and below half of the cap's delta "
            f"({delta:g}): a fifth of it, say"
        )
    limits: dict[str, float | None] = {"eps": eps, "delta": delta, "own_delta": own_delta}
    if currency == "mu":
        return {**limits, "mu": mu_of(eps, left)}
    if order is None or currency == "rho":
        return {**limits, "rho": rho_of(eps, left)}
    return {**limits, "order": order, "renyi": max(0.0, renyi_limit(order, eps, left))}


def add_up(charges: Sequence[Charge], neighbours: Neighbours, order: float | None = None) -> Spent:
    """Sums that stay valid however each charge was chosen."""
    costs = [cost_under(charge, neighbours) for charge in charges]
    pure = [c.eps for c in costs if isinstance(c, Pure | Approximate)]
    rho = [zcdp_of(c) for c in costs if c is not None]
    known = [r for r in rho if r is not None]
    return Spent(
        delta=sum_up([c.delta for c in costs if isinstance(c, Approximate)]),
        eps=sum_up(pure) if len(pure) == len(costs) else None,
        rho=sum_up(known) if len(known) == len(costs) else None,
        mu=add_mu([Pure(eps=c.eps) if isinstance(c, Approximate) else c for c in costs]),
        renyi=None if order is None else sum_up([_renyi(c, neighbours, order) for c in charges]),
    )


def within(cap: Cap, charges: Sequence[Charge], neighbours: Neighbours) -> bool:
    """Whether the charges stay inside a cap.

    Inside are the sum of pure eps, or the cap's own currency. That one of the two suffices takes no
    division of delta: outcomes whose eps add up to no more than the cap's lose nothing beyond it.
    """
    if cap.eps is None:
        return True
    spent = add_up(charges, neighbours, cap.order)
    if not covers(cap.own_delta, spent.delta):
        return False
    if spent.eps is not None and covers(cap.eps, spent.eps):
        return True
    used, limit = _figure(cap, spent)
    return used is not None and covers(limit, used)


def describe_use(cap: Cap, charges: Sequence[Charge], neighbours: Neighbours) -> str:
    """How much of the cap is used, by the filter's own sum."""
    spent = add_up(charges, neighbours, cap.order)
    used, limit = _figure(cap, spent)
    name = {"renyi": f"Renyi divergence of order {cap.order or 0:g}"}.get(
        cap.currency, cap.currency
    )
    parts = []
    if used is not None:
        parts.append(f"{name} {show_number(used)} of {show_number(limit)}")
    if spent.eps is not None and cap.eps is not None:
        parts.append(f"pure eps {show_number(spent.eps)} of {show_number(cap.eps)}")
    if spent.delta:
        parts.append(f"delta {show_number(spent.delta)} of {show_number(cap.own_delta)}")
    return ", or ".join(parts) or f"charges that have no price in {cap.currency}"


def unpriced(currency: Currency, charges: Sequence[Charge], neighbours: Neighbours) -> list[Charge]:
    """The charges that have no price in a cap's currency."""
    if currency == "renyi":
        return []
    return [one for one in charges if getattr(add_up([one], neighbours), currency) is None]


def best_order(charges: Sequence[Charge], neighbours: Neighbours, delta: float) -> float:
    """The order at which the charges' own curve converts best; chosen before anything is read."""
    curve = {a: math.fsum(_renyi(c, neighbours, a) for c in charges) for a in ORDERS}
    return min(ORDERS, key=lambda order: curve[order] + _conversion(order, delta))


def order_for(eps: float, delta: float) -> float:
    """The order at which a cap buys most Gaussian noise."""
    return max(ORDERS, key=lambda order: renyi_limit(order, eps, delta) / order)


def renyi_limit(order: float, eps: float, delta: float) -> float:
    """The Renyi divergence of one order that implies (eps, delta), rounded down."""
    return (eps - _conversion(order, delta)) * (1 - 1e-12)


def zcdp_of(cost: Cost) -> float | None:
    """What a cost is in zCDP, without its own delta; None for sampled steps.

    eps-DP is eps tanh(eps/2)-zCDP, and eps^2/8 with bounded range.
    """
    cost = simplify(cost)
    if isinstance(cost, GDP | ZCDP):
        return cost.rho
    if isinstance(cost, SubsampledGaussian):
        return None
    if not cost.eps:
        return 0.0
    if isinstance(cost, Pure) and cost.bounded_range:
        return exponential_rho(cost.eps)
    return cost.eps * math.tanh(cost.eps / 2) * _UP


def _figure(cap: Cap, spent: Spent) -> tuple[float | None, float]:
    """What is used of the cap's currency, and its limit."""
    limits = {"mu": cap.mu, "rho": cap.rho, "renyi": cap.renyi}
    return getattr(spent, cap.currency), limits[cap.currency] or 0.0


def _renyi(charge: Charge, neighbours: Neighbours, order: float) -> float:
    """A charge's Renyi divergence of one order under a relation, without its own delta."""
    cost = cost_under(charge, neighbours)
    if cost is None or isinstance(cost, SubsampledGaussian):
        steps = charge.cost
        assert isinstance(steps, SubsampledGaussian)
        return _sampled(steps, neighbours, order) * _UP
    rho = zcdp_of(cost)
    assert rho is not None
    if isinstance(cost, GDP | ZCDP):
        return order * rho * _UP
    return min(cost.eps, order * rho * _UP)


def _sampled(cost: SubsampledGaussian, neighbours: Neighbours, order: float) -> float:
    """Sampled steps; a replaced row by way of the table without it (Mironov 2017, prop. 11)."""
    if neighbours is Neighbours.ADD_REMOVE:
        return sampled_renyi(cost, order)
    through = (order - 0.5) / (order - 1) * sampled_renyi(cost, 2 * order)
    whole = zcdp_of(cost.model_copy(update={"rate": 1.0}))
    assert whole is not None
    # Forgetting the sampling is valid as well; both are bounds of the same number.
    return min(through + sampled_renyi(cost, 2 * order - 1), 4 * order * whole)


def _conversion(order: float, delta: float) -> float:
    """What a Renyi divergence of one order loses on its way to (eps, delta)."""
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
