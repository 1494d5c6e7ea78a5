"""Thresholds for values that nobody has listed: released are only those that enough people share.

A value that one person alone has must stay unseen but for a chance of delta: its noisy count, of
which the person's own share is at most one, must not reach the threshold. Values that others have
as well are covered by the Gaussian noise, whatever becomes of them. So under either relation the
released counts are delta-approximate mu-GDP, or rho-zCDP: mu or rho of the noise as for any
marginal, delta below.

A person with k counted rows, of which each weighs at least 1/k, may bring j <= k new values, and
the sum of their chances is largest where one of them takes all but 1/k for each of the others: the
chance is convex in the weight where it matters, beyond the noise's mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from marginalsyn.privacy.zcdp import check_delta

# Far above the rounding of the sums below.
_UP = 1 + 1e-9
# Above this scale the continuous tail, moved by one, is as good as the discrete one's sum: over all
# z exp(-z^2 / 2s^2) adds up to s sqrt(2 pi) at least (Poisson summation), and from m on to at most
# the integral from m - 1 on.
_LARGE = 1024.0


def gaussian_tail(sigma: float, least: int, rounded: bool = False) -> float:
    """The chance that discrete (or rounded) Gaussian noise is ``least`` or more, rounded up.

    Example:
        >>> round(gaussian_tail(1.0, 0), 4), round(gaussian_tail(1.0, 2), 4)
        (0.6995, 0.0586)
    """
    if not 0 < sigma < math.inf:
        raise ValueError(f"sigma ({sigma}) must be a positive number")
    if rounded:
        return min(1.0, math.erfc((least - 0.5) / (sigma * math.sqrt(2))) / 2 * _UP)
    if sigma > _LARGE:
        return min(1.0, math.erfc((least - 1) / (sigma * math.sqrt(2))) / 2 * _UP)
    reach = math.ceil(40 * sigma) + 2
    last = max(abs(least), reach) + reach
    weights = np.exp(-0.5 * np.square(np.arange(0, last + 1) / sigma))
    whole = 2 * math.fsum(weights) - 1
    if least > 0:
        # Beyond the last term they fall at least as fast as powers of a half.
        return min(1.0, (math.fsum(weights[least:]) + weights[-1]) / whole * _UP)
    return min(1.0, (whole - math.fsum(weights[1 - least :])) / whole * _UP)


def union_delta(
    sigma: float, threshold: int, rows: int = 1, whole: int = 1, rounded: bool = False
) -> float:
    """The chance that values of one person alone are released, rounded up.

    Args:
        sigma: of the noise on the counts of persons.
        threshold: what a noisy count must reach, in parts of a person.
        rows: the most rows of a person that are counted.
        whole: the parts that the rows of a person weigh together.
        rounded: whether the noise is rounded Gaussian, rather than discrete.

    Example:
        >>> union_delta(1.0, 3) == gaussian_tail(1.0, 2)
        True
    """
    return max(_chances(sigma * whole, threshold, rows, whole, rounded))


@lru_cache(maxsize=256)
def union_threshold(
    sigma: float, delta: float, rows: int = 1, whole: int = 1, rounded: bool = False
) -> int:
    """The least threshold whose :func:`union_delta` is at most ``delta``.

    Example:
        >>> union_threshold(10.0, 1e-10)
        66
    """
    check_delta(delta, allow_large=True)
    low, high = whole, whole * 2
    while union_delta(sigma, high, rows, whole, rounded) > delta:
        low, high = high, 2 * high
    while high - low > max(1, whole >> 10):
        middle = (low + high) // 2
        if union_delta(sigma, middle, rows, whole, rounded) > delta:
            low = middle
        else:
            high = middle
    return high


def _chances(scale: float, threshold: int, rows: int, whole: int, rounded: bool) -> Iterator[float]:
    """The chance that a person with k rows is seen, at most, for the worst number of new values."""
    if rows == 1:
        yield gaussian_tail(scale, threshold - whole, rounded)
        return
    from scipy.special import ndtr

    for kept in range(1, rows + 1):
        small, others = whole // kept, np.arange(kept)
        # Each of the other values takes one row of the person, the first takes all that is left.
        large = ndtr((whole - others * small - threshold + 1) / scale)
        rare = float(ndtr((small - threshold + 1) / scale))
        yield min(1.0, float(np.max(large + others * rare)) * _UP)
