"""Gaussian noise rounded to whole numbers, drawn exactly and many at a time.

Rounding is post-processing: for a query of whole numbers q, q + round(N(0, sigma^2)) equals
round(q + N(0, sigma^2)). So whatever holds for continuous Gaussian noise on q, its exact price in
mu and every accountant's curve with sampling included, holds for this one as well, which cannot be
said of the discrete Gaussian.

Each draw inverts the tail of |N|. Double precision decides unless the uniform number lies within a
margin, far above the rounding error, of a boundary between two whole numbers; then decimal
arithmetic on more random bits does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.privacy.gdp import gaussian_mu
from marginalsyn.privacy.laws import Gaussian, Price, RandomBits, integers

if TYPE_CHECKING:
    from marginalsyn.privacy.noise import SeededBits

# Up to 2^40 a margin of 1e-13 is small against 1; beyond, decimals decide every draw, slowly.
MAX_SIGMA = float(2**44)
_BITS = 64
_RELATIVE, _ABSOLUTE = 1e-13, 1e-15


@dataclass(frozen=True, eq=False)
class RoundedGaussian(Gaussian):
    """Gaussian noise rounded to whole numbers: round(N(0, sigma^2)), thousands in a millisecond.

    A query of L2 sensitivity D is (D / sigma)-GDP, and accountants of sampled Gaussian steps apply
    to it, since it is post-processing of continuous noise. Exact where scipy's erfcinv is right to
    one part in 10^13. Values beyond 2^61 saturate.

    Attributes:
        sigma: positive and at most 2^44; a number, or an array that broadcasts to the values.
    """

    name = "rounded Gaussian"
    mechanism, question = "gaussian", "rounded"
    libraries = ("marginalsyn", "scipy")

    def __post_init__(self) -> None:
        if not ((np.asarray(self.sigma) > 0) & (np.asarray(self.sigma) <= MAX_SIGMA)).all():
            raise ValueError(f"sigma ({self.sigma}) must be above 0 and at most 2^44")

    @staticmethod
    def _worth(sigma: float, l2: float) -> Price:
        return {"mu": gaussian_mu(sigma, l2)}

    def draw(self, values: Any, source: RandomBits) -> np.ndarray:
        counts = _roomy(values)
        sigmas = np.broadcast_to(self.sigma, counts.shape).ravel()
        noise = rounded_normal(counts.size, sigmas, source.words, source.bits)
        return counts + noise.reshape(counts.shape)

    def draw_seeded(self, values: Any, source: SeededBits) -> np.ndarray:
        counts = _roomy(values)
        return counts + np.rint(source.rng.normal(0.0, self.sigma, counts.shape)).astype(np.int64)


def _roomy(values: Any) -> np.ndarray:
    """Integers that noise cannot push out of int64; clipping moves no two of them further away."""
    return np.clip(integers(values), -(2**61), 2**61)


def rounded_normal(
    size: int,
    sigma: float | np.ndarray,
    random_words: Callable[[int], np.ndarray],
    random_bits: Callable[[int], int],
) -> np.ndarray:
    """``size`` independent draws of round(N(0, sigma^2)), int64; one sigma, or one for each draw.

    ``random_words(k)`` gives k random uint64, ``random_bits(k)`` k random bits as an integer.
    """
    from scipy.special import erfcinv

    words, signs = random_words(size), random_words(-(-size // 64))
    # U lies in [word, word + 1) / 2^64; |N| / (sigma sqrt 2) = erfcinv(U) falls as U grows.
    sigmas = np.broadcast_to(np.asarray(sigma, dtype=np.float64), (size,))
    scale = sigmas * np.sqrt(2.0)
    below = erfcinv(np.minimum((words + 1.0) * 2.0**-_BITS, 1.0))
    above = erfcinv(words * 2.0**-_BITS)
    low = scale * (below * (1 - _RELATIVE) - _ABSOLUTE)
    high = scale * (above * (1 + _RELATIVE) + _ABSOLUTE)
    whole = np.floor(np.maximum(low, 0.0) + 0.5)
    unsure = ~(np.floor(high + 0.5) == whole)
    for i in np.flatnonzero(unsure):
        start = int(whole[i])
        whole[i] = _refine(int(words[i]), Fraction(float(sigmas[i])), start, random_bits)
    negative = np.unpackbits(signs.view(np.uint8), count=size).astype(bool)
    return np.where(negative, -whole, whole).astype(np.int64)


def _refine(word: int, sigma: Fraction, start: int, random_bits: Callable[[int], int]) -> int:
    """The number of j >= 1 with U < erfc((j - 1/2) / (sigma sqrt 2)), U begun by ``word``.

    ``start`` is at most the answer.
    """
    width, precision = _BITS, 160
    found = start
    while True:
        word = (word << (precision - width)) | random_bits(precision - width)
        width = precision
        digits = int(precision * 0.302) + 12
        unit = Fraction(1, 2**width)
        slack = Fraction(1, 10 ** (digits - 8))
        while True:
            tail = Fraction(_erfc(Fraction(2 * found + 1, 2) / sigma, digits))
            if (word + 1) * unit <= tail - slack:
                found += 1  # U lies below the boundary: beyond it
            elif word * unit >= tail + slack:
                return found
            else:
                break
        precision *= 2


@lru_cache(maxsize=1024)
def _erfc(x: Fraction, digits: int) -> Decimal:
    """erfc(x / sqrt 2) for x >= 0 with an absolute error below 10^(8 - digits)."""
    context = Context(prec=digits + 10, rounding=ROUND_HALF_EVEN, Emax=10**9, Emin=-(10**9))
    square = x * x
    s = context.divide(Decimal(square.numerator), Decimal(square.denominator))
    if s > 5 * digits:
        # erfc(x / sqrt 2) <= exp(-x^2 / 2) <= 10^(-digits)
        return Decimal(0)
    # Phi's series: erf(x / sqrt 2) = sqrt(2 s / pi) e^{-s/2} sum s^n / (2n + 1)!!, no sign changes.
    term = total = Decimal(1)
    n = 0
    while term > context.scaleb(Decimal(1), -digits - 9):
        n += 1
        term = context.divide(context.multiply(term, s), Decimal(2 * n + 1))
        total = context.add(total, term)
    root = context.sqrt(context.divide(context.multiply(Decimal(2), s), _pi(digits + 10)))
    decay = context.exp(context.divide(-s, Decimal(2)))
    return context.subtract(Decimal(1), context.multiply(context.multiply(root, decay), total))


@lru_cache(maxsize=8)
def _pi(digits: int) -> Decimal:
    """Machin's formula in whole numbers."""
    one = 10 ** (digits + 10)

    def arctan_of_inverse(k: int) -> int:
        power = total = one // k
        n, sign = 1, 1
        while power:
            power //= k * k
            n, sign = n + 2, -sign
            total += sign * (power // n)
        return total

    value = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    return Context(prec=digits + 5).divide(Decimal(value), Decimal(one))
