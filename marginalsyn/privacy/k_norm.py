"""K-norm noise on integers, drawn exactly: P(z) proportional to exp(-a ||z||_2).

The proposal is d independent discrete Laplace numbers, P(z_i) proportional to exp(-t |z_i|), with t
the largest rational of 64 bits or so that has t^2 d <= a^2: then t ||z||_1 <= a ||z||_2, and a
proposal is kept with probability exp(-(a ||z||_2 - t ||z||_1)). What is kept has the law above,
whatever t is.

Nothing is rounded on the way. A uniform number U is known to 64 bits at first. Double precision
decides wherever U lies outside a margin, far above the rounding error, around the boundary in
question; inside it arithmetic on integers and decimals decides, with more bits of U and more digits
of the boundary until it can. The square root in the exponent is enclosed between two integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from marginalsyn.privacy.laws import MAX_SCALE, Law, Price, RandomBits, integers
from marginalsyn.privacy.selection import exponentials
from marginalsyn.privacy.zcdp import k_norm_eps

# With so many coordinates one proposal of forty thousand is kept: some tenths of a second.
MAX_DIM = 40
_BITS = 64
_RELATIVE, _ABSOLUTE = 1e-13, 1e-15
_COIN = 1e-12
# No more words at once than this: some megabytes.
_MOST_WORDS = 1 << 19

Words = Callable[[int], np.ndarray]
Bits = Callable[[int], int]


@dataclass(frozen=True, eq=False)
class KNorm(Law):
    """Vectors of whole numbers z with P(z) proportional to exp(-rate ||z||_2).

    A query of L2 sensitivity D is (rate D)-DP (Hardt and Talwar 2010). The work grows fast with the
    number of values, of which there may be ``MAX_DIM``; sums saturate at the ends of int64.

    Attributes:
        rate: positive; taken as the rational number that it is.
    """

    rate: float

    name = "K-norm"
    mechanism = question = "k-norm"

    def __post_init__(self) -> None:
        if not 1 / MAX_SCALE <= self.rate <= MAX_SCALE:
            raise ValueError(f"rate ({self.rate}) must be at least 2^-52 and at most 2^52")

    @property
    def parameters(self) -> str:
        return str(self.rate)

    def price(self, *, l2: float) -> Price:
        """``l2``: how much one person changes the values, in Euclidean norm."""
        return {"eps": k_norm_eps(self.rate, l2)}

    def shift(self, difference: np.ndarray) -> float:
        return float(np.linalg.norm(difference)) * self.rate

    def draw(self, values: Any, source: RandomBits) -> np.ndarray:
        counts, ends = integers(values), np.iinfo(np.int64)
        noise = k_norm_noise(counts.size, Fraction(self.rate), source.words, source.bits)
        # Sums in Python's integers, which have room for any.
        sums = [int(v) + z for v, z in zip(counts.ravel(), noise, strict=True)]
        kept = [min(max(v, int(ends.min)), int(ends.max)) for v in sums]
        return np.array(kept, dtype=np.int64).reshape(counts.shape)


def k_norm_noise(dim: int, rate: Fraction, words: Words, bits: Bits) -> list[int]:
    """One draw of an integer vector with P(z) proportional to exp(-rate ||z||_2).

    ``words(k)`` gives k random uint64, ``bits(k)`` k random bits as an integer.

    Example:
        >>> import secrets
        >>> words = lambda k: np.array([secrets.randbits(64) for _ in range(k)], dtype=np.uint64)
        >>> len(k_norm_noise(3, Fraction(1, 1000), words, secrets.randbits))
        3
    """
    if dim > MAX_DIM:
        raise ValueError(f"values must have at most {MAX_DIM} coordinates for K-norm noise")
    if dim == 0:
        return []
    slope = proposal_rate(dim, rate)
    batch = max(1, min(math.ceil(1 / acceptance(dim)), _MOST_WORDS // (2 * dim)))
    while True:
        # The difference of two geometric numbers of one rate is discrete Laplace.
        drawn = whole_exponentials(words(2 * batch * dim), slope, bits).reshape(2, batch, dim)
        kept = first_kept(drawn[0] - drawn[1], rate, slope, words(batch), bits)
        if kept is not None:
            return kept


def proposal_rate(dim: int, rate: Fraction) -> Fraction:
    """The largest t = n / m with t^2 dim <= rate^2, for an m that makes it close."""
    a, b = rate.numerator, rate.denominator
    shift = max(0, _BITS - a.bit_length())
    return Fraction(math.isqrt((a << shift) ** 2 // dim), b << shift)


def acceptance(dim: int) -> float:
    """The share of proposals that is kept, for noise that is long against 1."""
    log = math.log(2) + dim / 2 * math.log(math.pi) + math.lgamma(dim) - math.lgamma(dim / 2)
    return math.exp(log - dim * math.log(2 * math.sqrt(dim)))


def whole_exponentials(
    words: np.ndarray, rate: Fraction, bits: Bits, margin: float = 1.0
) -> np.ndarray:
    """For each word an integer k >= 0 with P(k) proportional to exp(-rate k): floor(-ln U / rate).

    U is uniform and begins with the word. int64, or Python's integers where one is too long.
    """
    scale = float(1 / rate)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        below = -np.log(np.minimum((words + 1.0) * 2.0**-_BITS, 1.0))
        above = -np.log(words * 2.0**-_BITS)
        low = scale * (below * (1 - _RELATIVE * margin) - _ABSOLUTE * margin)
        high = scale * (above * (1 + _RELATIVE * margin) + _ABSOLUTE * margin)
        whole = np.floor(np.maximum(low, 0.0))
        unsure = np.flatnonzero((whole != np.floor(high)) | (high >= 2.0**52))
    whole[unsure] = 0.0
    found = whole.astype(np.int64)
    for i in unsure:
        exact = _whole_exponential(int(words[i]), rate, bits)
        if exact >= 1 << 61:
            found = found.astype(object)
        found[i] = exact
    return found


def _whole_exponential(word: int, rate: Fraction, bits: Bits) -> int:
    """floor(-ln U / rate) for the U begun by ``word``."""
    width, precision = _BITS, 160
    while True:
        word = (word << (precision - width)) | bits(precision - width)
        width = precision
        if word:
            digits = int(width * 0.302) + 30
            slack = Fraction(1, 10 ** (digits - 10))
            low = max(_minus_log(word + 1, width, digits) - slack, Fraction(0))
            high = _minus_log(word, width, digits) + slack
            if low // rate == high // rate:
                return low // rate
        precision *= 2


def _minus_log(word: int, width: int, digits: int) -> Fraction:
    """-ln(word / 2^width) to within 10^(10 - digits): the decimal module rounds ln correctly."""
    context = Context(prec=digits, Emax=10**8, Emin=-(10**8))
    return -Fraction(context.ln(context.divide(Decimal(word), Decimal(2**width))))


def first_kept(
    proposals: np.ndarray,
    rate: Fraction,
    slope: Fraction,
    words: np.ndarray,
    bits: Bits,
    margin: float = 1.0,
) -> list[int] | None:
    """The first proposal that its coin keeps, with chance exp(-(rate ||z||_2 - slope ||z||_1))."""
    lengths = np.abs(proposals).astype(np.float64)
    reach = float(rate) * np.sqrt(np.sum(lengths * lengths, axis=1))
    chance = np.exp(-np.maximum(reach - float(slope) * np.sum(lengths, axis=1), 0.0))
    error = margin * (_COIN * (1.0 + reach) * chance + _ABSOLUTE)
    u = words * 2.0**-_BITS
    for i in np.flatnonzero(u < chance + error):
        z = [int(v) for v in proposals[i]]
        if u[i] < chance[i] - error[i] or _keeps(z, rate, slope, int(words[i]), bits):
            return z
    return None


def _keeps(z: list[int], rate: Fraction, slope: Fraction, word: int, bits: Bits) -> bool:
    """Whether the U begun by ``word`` lies below exp(-(rate ||z||_2 - slope ||z||_1))."""
    square, length = sum(v * v for v in z), slope * sum(abs(v) for v in z)
    if rate * rate * square == length * length:
        return True
    width, precision = _BITS, 192
    while True:
        word = (word << (precision - width)) | bits(precision - width)
        width = precision
        # root <= 2^precision a sqrt(square) < root + 1, for rate = a / b.
        root = math.isqrt(rate.numerator**2 * square << (2 * precision))
        unit = rate.denominator << precision
        least = max(Fraction(root, unit) - length, Fraction(0))
        most = Fraction(root + 1, unit) - length
        low, high = exponentials([most, least], precision)
        if word + 1 <= low:
            return True
        if word >= high + 2:
            return False
        precision *= 2
