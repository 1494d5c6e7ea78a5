"""The exponential mechanism in exact integer arithmetic, and exponentials exact to the bit.

Thresholds for values that nobody has listed: released are only those that enough people share.

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
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from marginalsyn.privacy.laws import Law, Price, RandomBits
from marginalsyn.privacy.zcdp import check_delta, check_positive

# Scores are rounded to a grid of the sensitivity's power of two times 2**-GRID_BITS.
GRID_BITS = 20
_LN2_UP = 0.6931471805599454


@dataclass(frozen=True, eq=False)
class ExponentialMechanism(Law):
    """The index of one of several scores, with P(i) ~ exp(eps * score_i / (2 sensitivity)).

    See :func:`exponential_mechanism` for what exactly is drawn and why it is eps-bounded-range
    (hence eps-DP, eps^2/8-zCDP and selection_mu(eps)-GDP) as computed, not only on paper.

    Attributes:
        eps: positive.
        sensitivity: the most that one person changes any score.
    """

    eps: float
    sensitivity: float

    name = "exponential mechanism"
    mechanism, question = "exponential", "select"
    chooses = True

    def price(self) -> Price:
        """A selection knows the sensitivity of its scores."""
        return {"eps": float(self.eps), "bounded_range": True}

    def details(self, values: Any) -> dict[str, Any]:
        return {"candidates": int(np.size(values))}

    def shift(self, difference: np.ndarray) -> float:
        return float(np.ptp(difference)) * self.eps / (2 * self.sensitivity)

    def rho_of_shift(self, shift: float) -> float:
        # The log-ratios lie in an interval of length eps.
        return shift**2 / 8

    def draw(self, values: Any, source: RandomBits) -> int:
        return exponential_mechanism(
            values, eps=self.eps, sensitivity=self.sensitivity, random_bits=source.bits
        )

    def restored(self, answer: np.ndarray) -> int:
        return int(answer)


def exponential_mechanism(
    scores: np.ndarray, *, eps: float, sensitivity: float, random_bits: Callable[[int], int]
) -> int:
    """Draw an index from the exponential mechanism, exactly.

    *What is drawn.* With g a power of two, sensitivity * 2^-21 < g <= sensitivity * 2^-20, every
    score is rounded to the nearest multiple m_i g, and index i is drawn with probability exactly
    proportional to exp(c m_i), c = eps g / (2 (sensitivity + 2 g)), a rational number.

    *Why it is private as computed.* Scaling by a power of two and rounding to an integer are exact
    in floating point. Rounding moves a score by at most g/2, so two neighbouring tables' m_i
    differ by at most sensitivity/g + 1, or sensitivity/g + 2 if in addition the scores handed in
    carry an error of up to g/2 (2e-7 of the sensitivity) from their own floating-point sums. The
    log-ratio of the two unnormalised laws therefore lies in an interval of length
    2 c (sensitivity/g + 2) = eps for all i: the draw is eps-bounded-range, which gives eps-DP and
    eps^2/8-zCDP. Where a score only moves one way, half the sensitivity may be passed.

    *Why the draw is exact.* It inverts the distribution function at a uniform number U that is
    known to as many random bits as are needed. Double precision decides unless U lies within a
    margin, far above the rounding error, of a boundary between two candidates; then integer
    arithmetic on correctly rounded exponentials decides, with more bits of both until it can.

    Args:
        scores: one-dimensional; floats, of which ``-inf`` marks a candidate that (publicly) cannot
            be drawn, or whole numbers of any length (dtype object), which carry no error at all.
        eps: positive.
        sensitivity: the most that one person can change any score.
        random_bits: ``random_bits(k)`` returns k random bits as an integer.

    Raises:
        ValueError: no candidate, NaN or +inf among the scores, or a parameter out of range.
    """
    points = np.asarray(scores)
    whole = points.dtype.kind in "iuO"
    if not whole:
        points = points.astype(np.float64)
    if points.ndim != 1 or points.size == 0:
        raise ValueError("scores must be a one-dimensional array with at least one candidate")
    if not whole and (np.isnan(points).any() or (points == np.inf).any()):
        raise ValueError("scores must not hold NaN or +inf")
    for name, value in (("eps", eps), ("sensitivity", sensitivity)):
        if not 1e-100 < value < 1e100:
            raise ValueError(f"{name} ({value}) must be a positive finite number")
    candidates = np.arange(points.size) if whole else np.flatnonzero(points > -np.inf)
    if candidates.size == 0:
        raise ValueError("scores must hold at least one candidate that is not -inf")
    scaled, rate = _on_grid(points[candidates], eps, sensitivity)
    return int(candidates[_softmax_index(scaled, rate, random_bits)])


def _on_grid(points: np.ndarray, eps: float, sensitivity: float) -> tuple[np.ndarray, Fraction]:
    """The whole numbers m_i and the rational c of :func:`exponential_mechanism`."""
    exponent = math.frexp(sensitivity)[1] - 1 - GRID_BITS
    grid = Fraction(2) ** exponent
    rate = Fraction(eps) * grid / (2 * (Fraction(sensitivity) + 2 * grid))
    if points.dtype == np.int64 and 0 < exponent < 62:
        return ((points >> (exponent - 1)) + 1) >> 1, rate
    if points.dtype.kind in "iuO":
        return np.array([_shifted(v, exponent) for v in points], dtype=object), rate
    # Clipping cannot raise the sensitivity; it only keeps absurd scores inside float range.
    with np.errstate(over="ignore"):
        scaled = np.rint(np.clip(np.ldexp(points, -exponent), -(2.0**900), 2.0**900))
    return scaled, rate


def _shifted(score: int, exponent: int) -> int:
    """The whole number nearest to score / 2^exponent."""
    value = operator.index(score)
    return value << -exponent if exponent <= 0 else ((value >> (exponent - 1)) + 1) >> 1


def _softmax_index(
    scaled: np.ndarray,
    rate: Fraction,
    random_bits: Callable[[int], int],
    margin: float | None = None,
) -> int:
    """An index with P(i) exactly proportional to exp(rate * scaled[i]), of whole numbers."""
    size = scaled.size
    if size == 1:
        return 0
    width, u = 64, random_bits(64)
    # Weights carry a relative error below 1e-13 (or are below e^-50), their sum size * 2^-53 more.
    margin = 1e-12 + size * 1e-15 if margin is None else margin
    cumulative = np.cumsum(np.exp(float(rate) * (scaled - scaled.max()).astype(np.float64)))
    target = u / 2.0**64
    boundaries = cumulative / cumulative[-1]
    index = int(np.searchsorted(boundaries, target, side="right"))
    below = boundaries[index - 1] if index else -1.0
    above = boundaries[index] if index < size - 1 else 2.0
    if index < size and below + margin < target < above - margin:
        return index
    return _refine(scaled, rate, random_bits, width, u)


def _refine(
    scaled: np.ndarray, rate: Fraction, random_bits: Callable[[int], int], width: int, u: int
) -> int:
    """Decide where U in [u, u+1) / 2^width falls, with ever more bits, in integers only."""
    whole = [int(m) for m in scaled]
    top = max(whole)
    precision = 192
    while True:
        extra = precision - width
        u, width = (u << extra) | random_bits(extra), precision
        # floor(2^precision e^-x), too small by less than 2: the true sum up to and with i lies in
        # [lower, lower + 2 (i + 1)].
        weights = exponentials([rate * (top - m) for m in whole], precision)
        total_low = sum(weights)
        low, high = u * total_low, (u + 1) * (total_low + 2 * len(weights))
        lower = 0
        for i, weight in enumerate(weights):
            begins = 0 if i == 0 else (lower + 2 * i) << width
            lower += weight
            last = i == len(weights) - 1
            if begins <= low and (last or high <= lower << width):
                return i
        precision *= 2


def exponentials(exponents: list[Fraction], bits: int) -> list[int]:
    """For each x >= 0 an integer w with 0 <= 2^bits e^-x - w < 2."""
    # exp() of the decimal module is correctly rounded, so only its argument's rounding matters:
    # x <= bits ln 2 there, and 25 digits beyond the result's own cover it.
    context = Context(prec=int(bits * 0.3011) + 25, Emax=10**8, Emin=-(10**8))
    unit, known = Decimal(2**bits), {}
    for x in set(exponents):
        if x > bits * _LN2_UP:
            known[x] = 0
            continue
        ratio = context.divide(Decimal(-x.numerator), Decimal(x.denominator))
        value = context.multiply(context.exp(ratio), unit)
        # Computed to within 1e-20, so a floor taken a little lower is never above the truth.
        known[x] = max(
            0, int(context.subtract(value, Decimal("1e-15")).to_integral_value(ROUND_FLOOR))
        )
    return [known[x] for x in exponents]


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
    check_positive("sigma", sigma)
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
