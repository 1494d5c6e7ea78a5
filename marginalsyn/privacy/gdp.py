"""Gaussian differential privacy (mu-GDP): the exact price of Gaussian noise.

A mechanism is mu-GDP where its two laws on neighbouring tables are no easier to distinguish than
N(0, 1) and N(mu, 1) (Dong, Roth and Su 2022). A query of L2 sensitivity D with noise N(0, sigma^2)
is (D / sigma)-GDP, and so is what is computed from it, such as its rounding. Squares add up, also
where each mu is chosen after the answers before it, as long as their sum stays within a total fixed
beforehand (Smith and Thakurta 2022; Koskela, Tobaben and Honkela 2023). mu-GDP implies
(eps, delta)-DP for

    delta = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)

and no smaller delta, and mu^2/2-zCDP. zCDP implies no mu.

With a = eps/mu - mu/2, b = a + mu and Mills' ratio R(x) = Phi(-x) / phi(x), which decreases, this
delta is phi(a) (R(a) - R(b)): nothing cancels but the two ratios, and their rounding is bounded.
Sums of squares are kept as mu^2 / 2, the *amount*: for Gaussian noise it is also the rho.
"""

from __future__ import annotations

import math

from marginalsyn.privacy.zcdp import check_delta, check_eps, check_positive, halve

# Far above the rounding of scipy's functions and of the few operations below.
_SLACK = 2.0**-47
# What a budget keeps back, so that its parts, added up in floating point, stay inside it.
_RESERVE = 1e-13


def delta_of(eps: float, mu: float) -> float:
    """The smallest delta such that mu-GDP implies (eps, delta)-DP, rounded up.

    Example:
        >>> round(delta_of(1.0, 1.0), 6)
        0.126937
    """
    from scipy.special import erfcx, ndtr

    if mu == 0:
        return 0.0
    a, b = eps / mu - mu / 2, eps / mu + mu / 2
    density, error = math.exp(-a * a / 2) / math.sqrt(2 * math.pi), (1 + a * a) * _SLACK
    # Mills' ratio is sqrt(pi / 2) erfcx(x / sqrt 2).
    far = math.sqrt(math.pi / 2) * float(erfcx(b / math.sqrt(2))) * (1 - _SLACK)
    if a < 0:
        return min(1.0, float(ndtr(-a)) * (1 + _SLACK) - density * max(0.0, 1 - error) * far)
    near = math.sqrt(math.pi / 2) * float(erfcx(a / math.sqrt(2))) * (1 + _SLACK)
    # Below 1e-308 products lose digits, but never more than this.
    return min(1.0, density * (1 + error) * (near - far) + 4 * math.ulp(0.0))


def eps_of_mu(mu: float, delta: float) -> float:
    """The smallest eps such that mu-GDP implies (eps, delta)-DP, rounded up.

    Example:
        >>> round(eps_of_mu(0.5, 1e-9), 4)
        2.9097
    """
    if not 0 <= mu < math.inf:
        raise ValueError(f"mu ({mu}) must be a number that is not negative")
    check_delta(delta, allow_large=True)
    if delta_of(0.0, mu) <= delta:
        return 0.0
    # At eps = mu^2/2 + x mu delta is below Phi(-x).
    top = mu * (mu / 2 + math.sqrt(-2 * math.log(delta)) + 1)
    return halve(lambda eps: delta_of(eps, mu) <= delta, 0.0, top)[1]


def mu_of(eps: float, delta: float) -> float:
    """The largest mu such that mu-GDP implies (eps, delta)-DP, rounded down.

    Example:
        >>> eps_of_mu(mu_of(1.0, 1e-9), 1e-9) <= 1.0
        True
    """
    check_eps(eps)
    check_delta(delta, allow_large=True)
    top = 2 * math.sqrt(2 * eps) + 2 * eps + 80.0
    over = halve(lambda mu: delta_of(eps, mu) > delta, 0.0, top)[1]
    return math.nextafter(over, 0.0) * (1 - _RESERVE)


def gaussian_mu(sigma: float, l2: float = 1.0) -> float:
    """The mu of Gaussian noise of scale ``sigma`` on a query of L2 sensitivity ``l2``."""
    check_positive("sigma", sigma)
    return math.nextafter(l2 / sigma, math.inf)


def amount_of(mu: float) -> float:
    """mu^2 / 2, rounded up: what adds up, and the rho of a mu-GDP mechanism."""
    return math.nextafter(mu * mu / 2, math.inf) if mu else 0.0


def mu_of_amount(amount: float) -> float:
    """The mu of an amount, rounded up.

    Example:
        >>> amount_of(mu_of_amount(0.02)) >= 0.02
        True
    """
    return math.nextafter(math.sqrt(2 * amount), math.inf) if amount else 0.0


def selection_mu(eps: float) -> float:
    """The mu of an eps-bounded-range selection, rounded up: 2 Phi^-1(e^(eps/2) / (1 + e^(eps/2))).

    Log-ratios in an interval of length eps are hardest on two outcomes, whose trade-off has one
    corner; the mu that its offset needs is largest in the middle.

    Example:
        >>> round(selection_mu(1.0), 4)
        0.6239
    """
    from scipy.special import erfinv, ndtri

    if not 0 <= eps < math.inf:
        raise ValueError(f"eps ({eps}) must be a number that is not negative")
    if eps < 2:
        found = 2 * math.sqrt(2) * float(erfinv(math.tanh(eps / 4)))
    else:
        found = -2 * float(ndtri(1 / (1 + math.exp(min(eps / 2, 700.0)))))
    return found * (1 + _SLACK)


def pure_mu(eps: float) -> float:
    """The mu of an eps-DP mechanism, rounded up: its log-ratios span 2 eps."""
    return selection_mu(2 * eps)


def selection_eps(amount: float) -> float:
    """The largest eps of a bounded-range selection that costs at most ``amount``."""
    check_positive("amount", amount)
    half = math.sqrt(2 * amount) / (2 * math.sqrt(2))
    inside = math.erf(half)
    eps = 4 * math.atanh(inside) if inside < 0.5 else 2 * math.log((1 + inside) / math.erfc(half))
    while amount_of(selection_mu(eps)) > amount:
        eps *= 1 - _SLACK
    return eps
