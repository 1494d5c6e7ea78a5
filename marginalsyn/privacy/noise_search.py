"""The noise that sampled Gaussian steps need, found from a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache, partial

from marginalsyn.errors import UsageError
from marginalsyn.privacy.charges import ZCDP, Charge, Neighbours, SubsampledGaussian
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.zcdp import gaussian_sigma, rho_of

# With more noise than this, sums on their grid leave the range of exact noise.
_LEAST, _MOST = 0.3, 3e4
_PRECISION = 5e-4


@lru_cache(maxsize=64)
def find_noise_multiplier(
    eps: float,
    delta: float,
    neighbours: Neighbours,
    rate: float,
    steps: int,
    with_rho: float = 0.0,
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
    if with_rho:
        guess = rate * math.sqrt(steps / (2 * rho))
        excess = partial(_excess, eps, delta, neighbours, rate, steps, with_rho)
        found = _root(excess, guess)
    elif rate == 1:
        found = gaussian_sigma(rho, math.sqrt(steps)) * (1 + 1e-12)
    else:
        guess = rate * math.sqrt(steps / (2 * rho))
        one = delta / (1 + math.exp(eps / 2)) * (1 - 1e-9)
        found = _search(*((eps / 2, one) if replace else (eps, delta)), rate, steps, guess)
    if found > _MOST:
        raise UsageError(
            f"eps ({eps:g}) must be larger for {steps} steps: no practical noise is enough"
        )
    return found


def _search(eps: float, delta: float, rate: float, steps: int, guess: float) -> float:
    """The multiplier at which the steps alone cost eps."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant

    # A coarser grid is faster and errs on the safe side, by little where eps is large.
    interval = 1e-4 * min(max(1.0, 3 * eps), 30.0)

    def excess(multiplier: float) -> float:
        event = PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier))
        accountant = PLDAccountant(value_discretization_interval=interval)
        accountant.compose(SelfComposedDpEvent(event, steps))
        return float(accountant.get_epsilon(delta)) * (1 + 1e-9) - eps

    return _root(excess, guess)


def _excess(
    eps: float,
    delta: float,
    neighbours: Neighbours,
    rate: float,
    steps: int,
    with_rho: float,
    multiplier: float,
) -> float:
    """By how much the steps and a zCDP charge with them exceed eps."""
    cost = SubsampledGaussian(noise_multiplier=multiplier, rate=rate, steps=steps)
    charges = [
        Charge(mechanism="steps", neighbours=neighbours, cost=cost),
        Charge(mechanism="other", neighbours=neighbours, cost=ZCDP(rho=with_rho)),
    ]
    return compose(charges, delta, neighbours).eps - eps


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
