"""Composition: the guarantee of several charges together.

dp-accounting computes the curves of subsampled steps; all else has a closed form.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.errors import BudgetError, UsageError
from marginalsyn.privacy.charges import (
    GDP,
    ZCDP,
    Approximate,
    Charge,
    Cost,
    Guarantee,
    Neighbours,
    Pure,
    SubsampledGaussian,
    cost_under,
    mu_of_cost,
    pair,
    pure_rho,
    rho_of_cost,
    show_number,
    simplify,
)
from marginalsyn.privacy.gdp import eps_of_mu
from marginalsyn.privacy.zcdp import DEFAULT_DELTA, check_delta, eps_of, gaussian_sigma, rho_of

if TYPE_CHECKING:
    from dp_accounting import PrivacyAccountant

# So many charges are named one by one.
MOST_NAMED = 4


@dataclass(frozen=True, kw_only=True)
class Total:
    """What several charges guarantee together; ``delta`` is 0 when the guarantee is pure.

    ``rho`` and ``mu`` are None where a charge has no price in zCDP, or in GDP.
    """

    eps: float
    delta: float
    rho: float | None
    mu: float | None = None
    guarantee: Guarantee
    neighbours: Neighbours

    def __str__(self) -> str:
        text = f"eps {show_number(self.eps)}, delta {show_number(self.delta)}"
        if self.mu is not None and self.delta:
            text += f" (mu {show_number(self.mu)})"
        elif self.rho is not None:
            text += f" (rho {show_number(self.rho)})"
        return f"{text}, {self.neighbours}, {self.guarantee}"


def compose(
    charges: Sequence[Charge],
    delta: float = DEFAULT_DELTA,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> Total:
    """The tightest known guarantee for charges whose amounts were fixed in advance.

    What is measured may depend on earlier answers, how much is spent must not: for budgets chosen
    after looking, which is what a ledger's cap is for, see :mod:`marginalsyn.privacy.caps`. A
    mechanism whose amounts follow its answers charges its promised total, which is fixed.

    Pure charges alone add up to a guarantee with delta 0 unless zCDP saves a hundredth or more.
    Where every charge has a price in mu the squares add up, and the conversion is exact, or the
    eps of pure ones is added to that of the others. GDP, zCDP, pure and subsampled charges also
    compose by their Renyi curves (subsampled ones alone by their privacy loss distribution, too),
    and the least of these counts. Approximate charges are added on top, their deltas taken out of
    ``delta``. Charges for add-remove count under replace by group privacy (one replacement is one
    removal and one addition); charges for replace never count under add-remove.

    Args:
        charges: any kinds mixed.
        delta: of the whole guarantee.
        neighbours: the relation that the total is about.

    Raises:
        BudgetError: a charge does not hold under ``neighbours``, or ``delta`` is used up.

    Example:
        >>> charges = [Charge(mechanism="laplace", cost=Pure(eps=0.5))] * 2
        >>> total = compose(charges)
        >>> total.eps, total.delta
        (1.0, 0.0)
    """
    check_delta(delta, allow_large=True)
    neighbours = Neighbours(neighbours)
    for charge in charges:
        if charge.neighbours is Neighbours.REPLACE and neighbours is Neighbours.ADD_REMOVE:
            raise BudgetError(
                f"charge ({charge.mechanism}) was calibrated for replacing a row and guarantees "
                "nothing under add-remove; ask for the total with neighbours=replace"
            )
    costs = [cost_under(c, neighbours) for c in charges]
    if None in costs:
        eps, spent = _compose_replace(charges, costs, delta)
    else:
        eps, spent = _compose_same([c for c in costs if c is not None], delta)
    known = [r for r in map(rho_of_cost, costs) if r is not None]
    return Total(
        eps=eps,
        delta=spent,
        rho=sum_up(known) if len(known) == len(costs) else None,
        mu=add_mu(costs),
        guarantee="asymptotic" if any(c.guarantee == "asymptotic" for c in charges) else "exact",
        neighbours=neighbours,
    )


def _compose_same(costs: Sequence[Cost], delta: float) -> tuple[float, float]:
    """(eps, delta) of costs that all hold under the relation asked for."""
    rough = [c for c in costs if isinstance(c, Approximate)]
    rough_eps, rough_delta = sum_up([c.eps for c in rough]), sum_up([c.delta for c in rough])
    left = math.nextafter(delta - rough_delta, 0.0) if rough_delta else delta
    pure = [c for c in costs if isinstance(c, Pure)]
    rho = sum_up([c.rho for c in costs if isinstance(c, GDP | ZCDP)])
    mu = add_mu([c for c in costs if not isinstance(c, Approximate)])
    counts: Counter[tuple[float, float]] = Counter()
    for c in costs:
        if isinstance(c, SubsampledGaussian):
            counts[c.noise_multiplier, c.rate] += c.steps
    steps = tuple(sorted((z, rate, count) for (z, rate), count in counts.items()))
    if left <= 0 and (left < 0 or rho or steps):
        raise BudgetError(
            f"delta ({delta}) must be larger than what approximate charges used ({rough_delta})"
        )
    options = []
    if not rho and not steps:
        options.append((sum_up([c.eps for c in pure]), 0.0))
    if left > 0 and (rho or steps or pure):
        options.append((_renyi_eps(rho, pure, steps, left), left))
        if mu is not None and rho:
            options.append((eps_of_mu(mu, left), left))
        gaussian = add_mu([c for c in costs if isinstance(c, GDP | ZCDP)])
        if pure and rho and gaussian is not None and not steps:
            # Pure amounts add to any guarantee as they are, which may be less than their mu does.
            options.append((sum_up([eps_of_mu(gaussian, left), *(c.eps for c in pure)]), left))
    # The loss distribution needs a delta far above the error of its Fourier transform, and time
    # and memory that grow with eps.
    if steps and not rho and not pure and left >= 1e-12 and options[0][0] <= 20:
        # Which dp-accounting rounds up.
        eps = float(_loss_distribution(steps).get_epsilon(left)) * (1 + 1e-9)
        options.append((eps, left))
    eps, used = min(options)
    # A hundredth of eps is not worth giving up a delta of 0.
    if not options[0][1] and options[0][0] <= 1.01 * eps:
        eps, used = options[0]
    return sum_up([eps, rough_eps]), min(delta, sum_up([used, rough_delta]))


def _compose_replace(
    charges: Sequence[Charge], costs: Sequence[Cost | None], delta: float
) -> tuple[float, float]:
    """(eps, delta) under replace; subsampled steps (None) get there by way of add-remove.

    Blocks of charges, each with its own (eps, delta), add up even when their steps were taken in
    turns (concurrent composition, Vadhan and Zhang 2023).
    """
    smooth = [c for c in costs if c is not None]
    sampled = [c.cost for c, cost in zip(charges, costs, strict=True) if cost is None]
    # Sampling never hurts, so forgetting about it is valid, if far from tight.
    whole = [rho_of_cost(simplify(c.model_copy(update={"rate": 1.0}))) for c in sampled]
    results = [_compose_same([*smooth, *(ZCDP(rho=4 * (r or 0.0)) for r in whole)], delta)]
    # Or all add-remove charges together first, or the subsampled ones alone.
    joins = [
        cost is None
        or (c.neighbours is Neighbours.ADD_REMOVE and not isinstance(cost, Approximate))
        for c, cost in zip(charges, costs, strict=True)
    ]
    together = [simplify(c.cost) for c, join in zip(charges, joins, strict=True) if join]
    rest = [c for c, join in zip(costs, joins, strict=True) if c is not None and not join]
    ways = [(sampled, smooth)] + ([(together, rest)] if len(together) > len(sampled) else [])
    for inside, outside in ways:
        for share in (0.1, 0.5, 0.9) if outside else (1.0,):
            group = _group(inside, delta * share)
            if group is not None:
                results.append(_compose_same([*outside, group], delta))
    return min(results)


def _group(costs: Sequence[Cost], delta: float) -> Approximate | None:
    """The costs as one guarantee for two rows whose delta is at most ``delta``, if there is one."""
    # eps falls as delta rises, so this descends to the largest delta for one row that will do.
    one = delta
    for _ in range(100):
        eps, _ = _compose_same(costs, one)
        if eps > 600 or one < 1e-280:
            break
        if (two := math.exp(eps) + 1) * one < 1 and pair(eps, one).delta <= delta:
            return pair(eps, one)
        one = delta / two * (1 - 1e-5)
    return None


def _renyi_eps(
    rho: float, pure: Sequence[Pure], steps: tuple[tuple[float, float, int], ...], delta: float
) -> float:
    """The conversion of ``zcdp`` at the best order of the summed Renyi curves, rounded up."""
    if not pure and not steps:
        return eps_of(rho, delta)
    L = -math.log(delta)
    # In one order, whatever that of the charges: float sums depend on it.
    lines = sorted((p.eps, pure_rho(p)) for p in pure)
    eps, slope = np.array(lines).reshape(-1, 2).T
    sampled = _renyi_curve(steps) if steps else None

    def at(a: np.ndarray) -> np.ndarray:
        curve = (1 + a) * rho
        # eps-DP bounds every order by eps, and small orders by the zCDP line.
        curve += np.minimum(eps[:, None], slope[:, None] * (1 + a)).sum(axis=0)
        if sampled is not None:
            curve += sampled
        return curve - np.log1p(1 / a) + (L - np.log1p(a)) / a

    if sampled is not None:
        best = float(np.nanmin(at(ORDERS - 1)))
    else:
        low, high = -12.0, min(L + 1, 40.0)
        for _ in range(4):
            grid = np.linspace(low, high, 2001)
            values = at(np.exp(grid))
            i = int(values.argmin())
            best = float(values[i])
            low, high = grid[max(i - 1, 0)], grid[min(i + 1, 2000)]
    return max(0.0, best * (1 + 1e-12) + 1e-15)


# Fractional orders serve large deltas, whole ones are quick and serve the others.
ORDERS = np.array(
    [1 + x / 10 for x in range(1, 40)]
    + [*range(5, 64), *range(64, 128, 4), *range(128, 512, 16), *range(512, 4097, 256)],
    dtype=float,
)


@lru_cache(maxsize=64)
def _renyi_curve(steps: tuple[tuple[float, float, int], ...]) -> np.ndarray:
    """Renyi divergences of subsampled Gaussian steps at ``ORDERS``, under add-remove."""
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders=ORDERS)
    _run(accountant, steps)
    return accountant.rdp


@lru_cache(maxsize=4096)
def sampled_renyi(cost: SubsampledGaussian, order: float) -> float:
    """The Renyi divergence of sampled steps at one order, under add-remove."""
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders=[order])
    _run(accountant, ((cost.noise_multiplier, cost.rate, cost.steps),))
    return float(accountant.rdp[0])


@lru_cache(maxsize=16)
def _loss_distribution(steps: tuple[tuple[float, float, int], ...]) -> PrivacyAccountant:
    """The same steps by their privacy loss distribution."""
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    _run(accountant, steps)
    return accountant


def _run(accountant: PrivacyAccountant, steps: tuple[tuple[float, float, int], ...]) -> None:
    # Always the add-remove accountant: releases differ in what they take replace-one to mean.
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

    # It tells the log of each order that did not converge; such orders are infinite, and left out.
    logging.getLogger("absl").addFilter(_no_orders)
    for multiplier, rate, count in steps:
        event = PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier))
        accountant.compose(SelfComposedDpEvent(event, count))


def _no_orders(record: logging.LogRecord) -> bool:
    return "failed to converge" not in str(record.msg)


def add_mu(costs: Sequence[Cost | None]) -> float | None:
    """The root of the sum of squares, rounded up; None where a cost has no price in mu."""
    known = [mu for mu in map(mu_of_cost, costs) if mu is not None]
    if len(known) < len(costs):
        return None
    return known[0] if len(known) == 1 else math.hypot(*known) * (1 + 1e-15)


def sum_up(values: Sequence[float]) -> float:
    """The sum, rounded up where it is not a float."""
    total = math.fsum(values)
    if math.isfinite(total) and Fraction(total) < sum(map(Fraction, values)):
        return math.nextafter(total, math.inf)
    return total


def explain_sum(
    charges: Sequence[Charge],
    delta: float = DEFAULT_DELTA,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> str:
    """Why several charges come to less than the sum of their eps; empty where they do not.

    Example:
        >>> from marginalsyn.privacy.budget import Budget
        >>> bought = [ZCDP(rho=Budget(eps=eps).rho) for eps in (2, 0.5)]
        >>> explain_sum([Charge(mechanism="any", cost=cost) for cost in bought])
        'eps 2 and eps 0.5 make 2.07, not 2.5: what adds up is rho, and eps grows like its root'
    """
    if len(charges) < 2:
        return ""
    whole = compose(charges, delta, neighbours)
    alone = [compose([charge], delta, neighbours).eps for charge in charges]
    plain = sum(alone)
    if whole.rho is None or not math.isfinite(plain) or whole.eps > 0.99 * plain:
        return ""
    if len(alone) <= MOST_NAMED:
        *most, last = (f"eps {eps:.3g}" for eps in alone)
        parts = f"{', '.join(most)} and {last}"
    else:
        parts = f"the eps of {len(alone)} charges"
    exact = whole.mu is not None and any(isinstance(charge.cost, GDP) for charge in charges)
    return f"{parts} make {whole.eps:.3g}, not {plain:.3g}: what adds up is " + (
        "mu^2, and eps grows like mu" if exact else "rho, and eps grows like its root"
    )


# With more noise than this, sums on their grid leave the range of exact noise.
_LEAST, _MOST = 0.3, 3e4
_PRECISION = 5e-4


@lru_cache(maxsize=64)
def find_noise_multiplier(
    eps: float, delta: float, neighbours: Neighbours, rate: float, steps: int, with_rho: float = 0.0
) -> float:
    """The smallest multiplier that fits the budget, to within a half percent and rounded up.

    Found on the privacy loss distribution of the steps under add-remove; ``compose``, which knows
    other bounds too, never charges more for it. A replaced row is one removed and one added: what
    is (eps / 2, delta / (1 + e^(eps / 2))) for one is (eps, delta) for both. With ``with_rho``, a
    zCDP charge in rho under the same relation, it is the composition of both that fits.

    Example:
        >>> find_noise_multiplier(1.0, 1e-9, Neighbours.ADD_REMOVE, 1.0, 1) < 6
        True
    """
    replace = neighbours is Neighbours.REPLACE
    rho = rho_of(eps, delta) / (4 if replace else 1)
    guess, other = rate * math.sqrt(steps / (2 * rho)), ZCDP(rho=with_rho)

    def excess(multiplier: float) -> float:
        """By how much the steps and the zCDP charge with them exceed eps."""
        cost = SubsampledGaussian(noise_multiplier=multiplier, rate=rate, steps=steps)
        both = (Charge(mechanism="any", neighbours=neighbours, cost=c) for c in (cost, other))
        return compose([*both], delta, neighbours).eps - eps

    if with_rho:
        found = _root(excess, guess)
    elif rate == 1:
        found = gaussian_sigma(rho, math.sqrt(steps)) * (1 + 1e-12)
    else:
        one = delta / (1 + math.exp(eps / 2)) * (1 - 1e-9)
        found = _search(*((eps / 2, one) if replace else (eps, delta)), rate, steps, guess)
    if found > _MOST:
        raise UsageError(
            f"eps ({eps:g}) must be larger for {steps} steps: no practical noise is enough"
        )
    return found


def _search(eps: float, delta: float, rate: float, steps: int, guess: float) -> float:
    """The multiplier at which the steps alone cost eps."""
    from dp_accounting.pld import PLDAccountant

    # A coarser grid is faster and errs on the safe side, by little where eps is large.
    interval = 1e-4 * min(max(1.0, 3 * eps), 30.0)

    def excess(multiplier: float) -> float:
        accountant = PLDAccountant(value_discretization_interval=interval)
        _run(accountant, ((multiplier, rate, steps),))
        return float(accountant.get_epsilon(delta)) * (1 + 1e-9) - eps

    return _root(excess, guess)


def _root(excess: Callable[[float], float], guess: float) -> float:
    """The root of a falling function; ``guess`` is right where sampling amplifies fully."""
    from scipy.optimize import brentq

    @cache
    def at(log_multiplier: float) -> float:
        return excess(math.exp(log_multiplier))

    low = high = math.log(min(max(guess, _LEAST), _MOST))
    while at(high) > 0:
        low, high = high, high + 0.3
        if high > math.log(2 * _MOST):
            return math.inf
    while low > math.log(_LEAST) and at(low) <= 0:
        low, high = low - 0.3, low
    if at(low) <= 0:
        return math.exp(low)
    found = brentq(at, low, high, xtol=_PRECISION) + _PRECISION
    while at(found) > 0:
        found += _PRECISION
    return math.exp(found)
