"""The noise that sampled Gaussian steps need, found from a budget."""

from __future__ import annotations

from functools import lru_cache

from marginalsyn.budget import Charge, Neighbours, SubsampledGaussian, compose
from marginalsyn.errors import UsageError

_LEAST, _MOST = 0.3, 1e6
_PRECISION = 1.002


@lru_cache(maxsize=64)
def find_noise_multiplier(
    eps: float, delta: float, neighbours: Neighbours, rate: float, steps: int
) -> float:
    """The smallest multiplier, to within a fifth of a percent and rounded up, within the budget.

    Example:
        >>> find_noise_multiplier(1.0, 1e-9, Neighbours.ADD_REMOVE, 1.0, 1) < 6
        True
    """

    def fits(multiplier: float) -> bool:
        cost = SubsampledGaussian(noise_multiplier=multiplier, rate=rate, steps=steps)
        charge = Charge(mechanism="search", neighbours=neighbours, cost=cost)
        return compose([charge], delta, neighbours).eps <= eps

    low, high = _LEAST, 4.0
    while not fits(high):
        low, high = high, 4 * high
        if high > _MOST:
            raise UsageError(
                f"eps ({eps:g}) must be larger for {steps} steps: no practical noise is enough"
            )
    while high / low > _PRECISION:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
