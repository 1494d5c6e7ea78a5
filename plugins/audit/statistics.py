"""What runs on two neighbouring tables prove about a mechanism: lower bounds, with confidence.

An event that has probability p on one table and q on its neighbour contradicts every privacy claim
that does not allow such a pair. p and q are bounded by Clopper-Pearson intervals, so every bound
here holds with the confidence of those intervals.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from marginalsyn.evaluation.scores import clopper_pearson

# Orders of Renyi divergence; each is a valid bound, so a grid costs tightness only.
_ORDERS = 1.0 + np.exp(np.linspace(-6.0, 9.0, 400))


class Rates(NamedTuple):
    """An event's probability is at least ``often`` on one table, at most ``seldom`` on the other.

    Example:
        >>> round(Rates.of(90, 10, 100, 100, alpha=0.05).often, 4)
        0.8238
    """

    often: float
    seldom: float

    @classmethod
    def of(cls, hits: int, others: int, runs: int, other_runs: int, *, alpha: float) -> Rates:
        """Both bounds hold together with probability at least 1 - alpha."""
        low, _ = clopper_pearson(hits, runs, alpha / 2)
        _, high = clopper_pearson(others, other_runs, alpha / 2)
        return cls(low, high)


def least_eps(rates: Rates, delta: float = 0.0) -> float:
    """The smallest eps of an (eps, delta) guarantee that allows such an event, and its complement.

    Example:
        >>> round(least_eps(Rates(0.8, 0.1)), 4)
        2.0794
    """
    often, seldom = rates
    found = 0.0
    for large, small in ((often, seldom), (1.0 - seldom, 1.0 - often)):
        if large - delta > small:
            found = max(found, math.log((large - delta) / small) if small > 0 else math.inf)
    return found


def least_rho(rates: Rates) -> float:
    """The smallest rho of a zCDP guarantee that allows such an event.

    zCDP bounds the Renyi divergences of all orders, also those of the two coins that the event
    makes of the two laws.

    Example:
        >>> round(least_rho(Rates(0.8, 0.1)), 3)
        1.362
    """
    often, seldom = rates
    if often <= seldom:
        return 0.0
    if seldom <= 0 or often >= 1:
        return math.inf
    found = 0.0
    for p, q in ((often, seldom), (seldom, often)):
        logs = (
            _ORDERS * math.log(p) + (1 - _ORDERS) * math.log(q),
            _ORDERS * math.log1p(-p) + (1 - _ORDERS) * math.log1p(-q),
        )
        divergence = np.logaddexp(*logs) / (_ORDERS - 1)
        found = max(found, float(np.max(divergence / _ORDERS)))
    return found


def least_mu(rates: Rates) -> float:
    """The smallest mu of a mu-Gaussian guarantee (Dong, Roth and Su 2022) that allows the event.

    Example:
        >>> round(least_mu(Rates(0.8413447, 0.5)), 3)
        1.0
    """
    from scipy.special import ndtri

    often, seldom = rates
    return float(ndtri(often) - ndtri(seldom)) if often > seldom else 0.0


def gaussian_delta(mu: float, eps: float) -> float:
    """The delta at ``eps`` of a Gaussian mechanism whose sensitivity is mu standard deviations.

    Example:
        >>> round(gaussian_delta(1.0, 0.0), 4)
        0.3829
    """
    from scipy.special import log_ndtr, ndtr

    if mu <= 0:
        return 0.0
    far = -eps / mu - mu / 2
    return max(0.0, float(ndtr(-eps / mu + mu / 2) - math.exp(eps + float(log_ndtr(far)))))


def gaussian_eps(mu: float, delta: float) -> float:
    """The eps at ``delta`` of a Gaussian mechanism whose sensitivity is mu standard deviations."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    low, high = 0.0, mu * mu / 2 + 40.0 * mu
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(mu, middle) > delta else (low, middle)
    return high


def guess_chance(canaries: int, guesses: int, right: int, eps: float, delta: float) -> float:
    """The chance of so many right guesses under (eps, delta), at most.

    Each of ``canaries`` records was put in or left out by a fair coin, and the side of ``guesses``
    of them is guessed from one run (Steinke, Nasr and Jagielski 2023, Theorem 5.2).

    Example:
        >>> round(guess_chance(100, 10, 10, 0.0, 0.0) * 1024, 6)
        1.0
    """
    from scipy.stats import binom

    q = 1.0 / (1.0 + math.exp(-eps))
    chance = float(binom.sf(right - 1, guesses, q))
    if delta > 0:
        below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, q))
        worst = float(np.max(below / np.arange(1, right + 1))) if right else 0.0
        chance += 2.0 * canaries * delta * worst
    return min(chance, 1.0)


def least_eps_of_guesses(
    canaries: int, guesses: int, right: int, *, delta: float, alpha: float
) -> float:
    """The smallest eps for which so many right guesses are not too unlikely.

    Example:
        >>> least_eps_of_guesses(1000, 100, 50, delta=1e-9, alpha=0.05)
        0.0
    """
    if guesses == 0 or guess_chance(canaries, guesses, right, 0.0, delta) > alpha:
        return 0.0
    low, high = 0.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        small = guess_chance(canaries, guesses, right, middle, delta) <= alpha
        low, high = (middle, high) if small else (low, middle)
    return low
