"""Zero-concentrated differential privacy (zCDP): conversions between eps, delta and rho.

The tight conversion (Canonne, Kamath and Steinke 2020, Proposition 12 and Corollary 13): rho-zCDP
implies (eps, delta)-DP for

    delta = min over alpha > 1 of
            exp((alpha - 1) (alpha rho - eps)) (1 - 1/alpha)^alpha / (alpha - 1).

Every alpha is valid, so an inexact minimiser costs tightness and never privacy. What is spent is
rounded down and what is reported is rounded up by more than the floating-point error. With
a = alpha - 1 and L = log(1/delta) the minimisers are roots of increasing functions of a.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from marginalsyn import defaults
from marginalsyn.errors import UsageError

DEFAULT_DELTA: float = defaults.DELTA
LARGEST_DELTA = 1e-6
LARGEST_EPS = 1e3
# Far above the rounding error of the few operations below, far below anything that matters.
_SLACK = 2.0**-49
# What a budget keeps back, so that its parts, added up in floating point, stay inside it.
_RESERVE = 2e-13


def check_eps(eps: float) -> float:
    """Return ``eps`` when it is usable: positive and at most 1000.

    Raises:
        UsageError: it is not.
    """
    if not 0 < eps <= LARGEST_EPS:
        raise UsageError(
            f"eps ({eps}) must be above 0 and at most {LARGEST_EPS:g}; "
            "usual values lie between 0.1 and 10"
        )
    return float(eps)


def check_delta(delta: float, allow_large: bool = False) -> float:
    """Return ``delta`` when it is usable: between 0 and 1, and below 1e-6 unless allowed.

    A mechanism may publish each row whole with probability delta, so delta must be far below one
    over the number of rows; it is a public constant and never computed from the rows.

    Raises:
        UsageError: it is not.
    """
    if not 0 < delta < 1:
        raise UsageError(f"delta ({delta}) must lie between 0 and 1, like {DEFAULT_DELTA:g}")
    if delta >= LARGEST_DELTA and not allow_large:
        raise UsageError(
            f"delta ({delta}) must be below {LARGEST_DELTA:g}: with probability delta a row may "
            f"become public; take {DEFAULT_DELTA:g}, or accept it with --allow-large-delta"
        )
    return float(delta)


def eps_of(rho: float, delta: float) -> float:
    """The smallest eps such that rho-zCDP implies (eps, delta)-DP, rounded up.

    Example:
        >>> round(eps_of(0.1, 1e-9), 4)
        2.7155
    """
    _check(rho, delta)
    if rho == 0:
        return 0.0
    L = -math.log(delta)
    a = _root(lambda a: rho * a * a + math.log1p(a) - L, L)
    # eps(alpha) = alpha rho + log(1 - 1/alpha) + (L - log alpha) / (alpha - 1)
    terms = (rho, a * rho, -math.log1p(1 / a), L / a, -math.log1p(a) / a)
    return max(0.0, math.fsum(terms) + _SLACK * math.fsum(map(abs, terms)))


def rho_of(eps: float, delta: float) -> float:
    """The largest rho such that rho-zCDP implies (eps, delta)-DP, rounded down.

    Example:
        >>> eps_of(rho_of(1.0, 1e-9), 1e-9) <= 1.0
        True
    """
    check_eps(eps)
    _check(0.0, delta)
    L = -math.log(delta)
    a = _root(lambda a: math.log1p(1 / a) + eps - (1 + 2 * a) / a * ((L - math.log1p(a)) / a), L)
    # The same equation solved for rho at one alpha.
    terms = (eps, math.log1p(1 / a), -L / a, math.log1p(a) / a)
    rho = (math.fsum(terms) - _SLACK * math.fsum(map(abs, terms))) / (1 + a) * (1 - _RESERVE)
    return max(0.0, rho)


def gaussian_rho(sigma: float, l2: float = 1.0) -> float:
    """The rho of Gaussian noise of scale ``sigma`` on a query of L2 sensitivity ``l2``."""
    check_positive("sigma", sigma)
    ratio = l2 / sigma
    return ratio * ratio / 2 * (1 + _SLACK)


def gaussian_sigma(rho: float, l2: float = 1.0) -> float:
    """The smallest Gaussian scale that costs at most ``rho``."""
    check_positive("rho", rho)
    sigma = l2 / math.sqrt(2 * rho)
    while gaussian_rho(sigma, l2) > rho:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def exponential_rho(eps: float) -> float:
    """The rho of an eps-bounded-range selection: eps^2 / 8 (Cesar and Rogers 2021)."""
    check_positive("eps", eps)
    return math.nextafter(eps * eps / 8, math.inf)


def exponential_eps(rho: float) -> float:
    """The largest eps of a bounded-range selection that costs at most ``rho``."""
    check_positive("rho", rho)
    eps = math.sqrt(8 * rho)
    while exponential_rho(eps) > rho:
        eps = math.nextafter(eps, 0.0)
    return eps


def k_norm_eps(rate: float, l2: float) -> float:
    """The eps of K-norm noise, P(z) ~ exp(-rate ||z||_2), on a query of L2 sensitivity ``l2``."""
    check_positive("rate", rate)
    exact = Fraction(rate) * Fraction(l2)
    eps = float(exact)
    return eps if Fraction(eps) >= exact else math.nextafter(eps, math.inf)


def k_norm_rate(eps: float, l2: float) -> float:
    """The largest rate of K-norm noise that costs at most ``eps``."""
    check_positive("eps", eps)
    exact = Fraction(eps) / Fraction(l2)
    rate = float(exact)
    return rate if Fraction(rate) <= exact else math.nextafter(rate, 0.0)


def halve(
    holds: Callable[[float], bool], low: float, high: float, rounds: int = 200
) -> tuple[float, float]:
    """Halve an interval to where something begins to hold: the ends between which that is."""
    for _ in range(rounds):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def _root(rises: Callable[[float], float], top: float) -> float:
    """Where an increasing function of a > 0 crosses zero, by bisection on log a."""
    ends = halve(lambda log: rises(math.exp(log)) >= 0, -60.0, min(top + 1.0, 700.0), 90)
    return math.exp(sum(ends) / 2)


def _check(rho: float, delta: float) -> None:
    if not 0 <= rho < math.inf:
        raise UsageError(f"rho ({rho}) must be a number that is not negative")
    check_delta(delta, allow_large=True)


def check_positive(name: str, value: float) -> None:
    """Refuse a number that is not above 0, or infinite."""
    if not 0 < value < math.inf:
        raise ValueError(f"{name} ({value}) must be a positive number")
