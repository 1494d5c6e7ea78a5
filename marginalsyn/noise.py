"""The only place that draws protective noise, and the only importer of OpenDP.

Noise comes as *answers*, added to what it protects. What else a mechanism draws comes from streams
of three kinds (:mod:`marginalsyn.streams`), which only this module makes.

:class:`SecureNoise` draws from the operating system's entropy and cannot be seeded; its discrete
Gaussian and Laplace are OpenDP's exact integer samplers, and its exponential mechanism is exact
too. :class:`SeededNoise` has the same distributions and is for research: it protects nobody.
"""

from __future__ import annotations

import math
import os
import random
import secrets
from collections.abc import Callable
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.laws import Used
from marginalsyn.normal import MAX_SIGMA, rounded_normal
from marginalsyn.streams import TOKEN, Key, PostStream, SecretStream

# Beyond this a discrete noise no longer fits 64-bit integers with room to spare.
MAX_SCALE = float(2**52)
# Scores are rounded to a grid of the sensitivity's power of two times 2**-GRID_BITS.
GRID_BITS = 20
_LN2_UP = 0.6931471805599454


class Noise(Protocol):
    """Draws the noise that protects rows; ``post`` is for post-processing only.

    ``used`` counts the answers by the law that they were drawn from, see :mod:`marginalsyn.laws`.
    """

    used: Used

    @property
    def private(self) -> bool: ...

    @property
    def description(self) -> str: ...

    @property
    def post(self) -> PostStream: ...

    def secret(self) -> SecretStream: ...

    def key(self) -> Key: ...

    def gaussian(self, values: np.ndarray, sigma: float | np.ndarray) -> np.ndarray: ...

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray: ...

    def select(self, scores: np.ndarray, *, eps: float, sensitivity: float) -> int: ...

    def gamma_norm(self, dim: int, scale: float) -> np.ndarray: ...

    def rounded_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray: ...

    def lot(self, rows: int, rate: float) -> np.ndarray: ...


def make_noise(seed: int | None = None) -> SecureNoise | SeededNoise:
    """The secure noise, or with a seed the reproducible one that is *not private*.

    Example:
        >>> make_noise().private, make_noise(7).private
        (True, False)
    """
    return SecureNoise() if seed is None else SeededNoise(seed)


class SecureNoise:
    """Protective noise from the operating system's entropy.

    Example:
        >>> noisy = SecureNoise().gaussian(np.array([10, 0, 3]), sigma=2.0)
        >>> noisy.dtype, noisy.shape
        (dtype('int64'), (3,))
    """

    private = True
    description = "exact integer samplers, operating system entropy"

    def __init__(self) -> None:
        self.used = Used("operating system")
        self.post = PostStream(np.random.PCG64(secrets.randbits(256)))

    def secret(self) -> SecretStream:
        """A new stream for what a proof averages over; entropy of its own."""
        self.used.note("expanded secret")
        return SecretStream(np.random.PCG64(secrets.randbits(256)), private=True, token=TOKEN)

    def key(self) -> Key:
        """A new secret key, for what rows are given by their own content."""
        self.used.note("keyed hash")
        return Key(os.urandom(32), private=True, token=TOKEN)

    def gaussian(self, values: np.ndarray, sigma: float | np.ndarray) -> np.ndarray:
        """Integers plus discrete Gaussian noise: P(z) proportional to exp(-z^2 / (2 sigma^2)).

        A query of L2 sensitivity D under one ``sigma`` is D^2 / (2 sigma^2)-zCDP (Canonne, Kamath
        and Steinke 2020). The sampler is exact and sums saturate at the ends of int64.

        Args:
            values: integers of any shape.
            sigma: positive; a number, or an array that broadcasts to ``values``.

        Returns:
            int64 array of the shape of ``values``.
        """
        self.used.note("discrete Gaussian")
        counts, sigmas = _integers(values), _scales(sigma, "sigma")
        if sigmas.ndim == 0:
            return _opendp("gaussian", counts, float(sigmas))
        sigmas = np.broadcast_to(sigmas, counts.shape)
        noisy = np.empty_like(counts)
        for one in np.unique(sigmas):
            cells = sigmas == one
            noisy[cells] = _opendp("gaussian", counts[cells], float(one))
        return noisy

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """Integers plus discrete Laplace noise: P(z) proportional to exp(-|z| / scale).

        A query of L1 sensitivity D is (D / scale)-DP. Exact, any shape, int64.
        """
        self.used.note("discrete Laplace")
        counts = _integers(values)
        return _opendp("laplace", counts, float(_scales(scale, "scale", scalar=True)))

    def select(self, scores: np.ndarray, *, eps: float, sensitivity: float) -> int:
        """The exponential mechanism: an index i with P(i) ~ exp(eps * score_i / (2 sensitivity)).

        See :func:`exponential_mechanism` for what exactly is drawn and why it is eps-bounded-range
        (hence eps-DP and eps^2/8-zCDP) as computed, not only on paper.
        """
        self.used.note("exponential mechanism")
        return exponential_mechanism(
            scores, eps=eps, sensitivity=sensitivity, random_bits=secrets.randbits
        )

    def gamma_norm(self, dim: int, scale: float) -> np.ndarray:
        """A vector of density proportional to exp(-||z||_2 / scale).

        The radius is Gamma(dim, scale), the direction uniform. Drawn in floating point: the law is
        right, but unlike the integer samplers it is not exact in the last bits.
        """
        self.used.note("floating-point gamma-norm")
        _check_gamma(dim, scale)
        system = random.SystemRandom()
        direction = np.array([system.normalvariate(0.0, 1.0) for _ in range(dim)])
        return direction * (system.gammavariate(dim, scale) / np.linalg.norm(direction))

    def rounded_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """Integers plus round(N(0, sigma^2)), int64, exact, thousands in a millisecond.

        It is post-processing of continuous Gaussian noise, so accountants of sampled Gaussian
        steps apply to it; see :mod:`marginalsyn.normal`. Values beyond 2^61 saturate.
        """
        self.used.note("rounded Gaussian")
        counts = _roomy(values)
        noise = rounded_normal(counts.size, sigma, _secret_words, secrets.randbits)
        return counts + noise.reshape(counts.shape)

    def lot(self, rows: int, rate: float) -> np.ndarray:
        """A Poisson sample: positions of rows, each taken with probability ``rate`` on its own.

        The probability is ``rate`` rounded down to a multiple of 2^-64.
        """
        self.used.note("Poisson sample")
        return _picked(_secret_words(rows), rate)


class SeededNoise:
    """The same distributions from one seed, for research. Whoever knows the seed knows the noise.

    Example:
        >>> a = SeededNoise(1).gaussian(np.zeros(4, dtype=int), 3.0)
        >>> b = SeededNoise(1).gaussian(np.zeros(4, dtype=int), 3.0)
        >>> bool((a == b).all())
        True
    """

    private = False
    description = "seeded, not private"

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise UsageError(f"seed ({seed}) must be a whole number that is not negative")
        self.used = Used("seed")
        noise, choice, rest, secret, key = np.random.SeedSequence(int(seed)).spawn(5)
        self._noise = np.random.Generator(np.random.PCG64(noise))
        self._choice = np.random.Generator(np.random.PCG64(choice))
        self.post = PostStream(np.random.PCG64(rest))
        self._secret, self._key = secret, key

    def secret(self) -> SecretStream:
        """As :meth:`SecureNoise.secret`, but known to whoever knows the seed."""
        self.used.note("expanded secret")
        (child,) = self._secret.spawn(1)
        return SecretStream(np.random.PCG64(child), private=False, token=TOKEN)

    def key(self) -> Key:
        """As :meth:`SecureNoise.key`, but known to whoever knows the seed."""
        self.used.note("keyed hash")
        (child,) = self._key.spawn(1)
        return Key(child.generate_state(4, np.uint64).tobytes(), private=False, token=TOKEN)

    def gaussian(self, values: np.ndarray, sigma: float | np.ndarray) -> np.ndarray:
        """As :meth:`SecureNoise.gaussian`, by rejection in floating point."""
        self.used.note("discrete Gaussian")
        counts = _integers(values)
        sigmas = np.broadcast_to(_scales(sigma, "sigma"), counts.shape).ravel()
        noise = np.empty(counts.size, dtype=np.int64)
        todo = np.arange(counts.size)
        # Canonne, Kamath and Steinke 2020, Algorithm 3: thin a discrete Laplace.
        while todo.size:
            s = sigmas[todo]
            t = np.floor(s) + 1
            y = self._discrete_laplace(t)
            excess = (np.abs(y) - s * s / t) / s
            keep = self._noise.random(todo.size) < np.exp(-excess * excess / 2)
            noise[todo[keep]] = y[keep]
            todo = todo[~keep]
        return counts + noise.reshape(counts.shape)

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """As :meth:`SecureNoise.laplace`, as a difference of two geometric draws."""
        self.used.note("discrete Laplace")
        counts = _integers(values)
        scales = np.full(counts.size, _scales(scale, "scale", scalar=True))
        return counts + self._discrete_laplace(scales).reshape(counts.shape)

    def select(self, scores: np.ndarray, *, eps: float, sensitivity: float) -> int:
        """As :meth:`SecureNoise.select`."""
        self.used.note("exponential mechanism")
        return exponential_mechanism(
            scores, eps=eps, sensitivity=sensitivity, random_bits=self._bits
        )

    def gamma_norm(self, dim: int, scale: float) -> np.ndarray:
        """As :meth:`SecureNoise.gamma_norm`."""
        self.used.note("floating-point gamma-norm")
        _check_gamma(dim, scale)
        direction = self._noise.standard_normal(dim)
        return direction * (self._noise.gamma(dim, scale) / np.linalg.norm(direction))

    def rounded_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """As :meth:`SecureNoise.rounded_gaussian`, in floating point."""
        self.used.note("rounded Gaussian")
        counts = _roomy(values)
        if not 0 < sigma <= MAX_SIGMA:
            raise ValueError(f"sigma ({sigma}) must be above 0 and at most 2^36")
        return counts + np.rint(self._noise.normal(0.0, sigma, counts.shape)).astype(np.int64)

    def lot(self, rows: int, rate: float) -> np.ndarray:
        """As :meth:`SecureNoise.lot`."""
        self.used.note("Poisson sample")
        return _picked(self._choice.integers(0, 2**64, rows, dtype=np.uint64), rate)

    def _discrete_laplace(self, scale: np.ndarray) -> np.ndarray:
        p = -np.expm1(-1 / scale)
        return self._noise.geometric(p) - self._noise.geometric(p)

    def _bits(self, k: int) -> int:
        return int.from_bytes(self._choice.bytes((k + 7) // 8), "little") >> (-k % 8)


def exponential_mechanism(
    scores: np.ndarray,
    *,
    eps: float,
    sensitivity: float,
    random_bits: Callable[[int], int],
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
        scores: one-dimensional; ``-inf`` marks a candidate that (publicly) cannot be drawn.
        eps: positive.
        sensitivity: the most that one person can change any score.
        random_bits: ``random_bits(k)`` returns k random bits as an integer.

    Raises:
        ValueError: no candidate, NaN or +inf among the scores, or a parameter out of range.
    """
    points = np.asarray(scores, dtype=np.float64)
    if points.ndim != 1 or points.size == 0:
        raise ValueError("scores must be a one-dimensional array with at least one candidate")
    if np.isnan(points).any() or (points == np.inf).any():
        raise ValueError("scores must not hold NaN or +inf")
    for name, value in (("eps", eps), ("sensitivity", sensitivity)):
        if not 1e-100 < value < 1e100:
            raise ValueError(f"{name} ({value}) must be a positive finite number")
    candidates = np.flatnonzero(points > -np.inf)
    if candidates.size == 0:
        raise ValueError("scores must hold at least one candidate that is not -inf")
    scaled, rate = _on_grid(points[candidates], eps, sensitivity)
    return int(candidates[_softmax_index(scaled, rate, random_bits)])


def _on_grid(points: np.ndarray, eps: float, sensitivity: float) -> tuple[np.ndarray, Fraction]:
    """The whole numbers m_i and the rational c of :func:`exponential_mechanism`."""
    exponent = math.frexp(sensitivity)[1] - 1 - GRID_BITS
    # Clipping cannot raise the sensitivity; it only keeps absurd scores inside float range.
    with np.errstate(over="ignore"):
        scaled = np.rint(np.clip(np.ldexp(points, -exponent), -(2.0**900), 2.0**900))
    grid = Fraction(2) ** exponent
    return scaled, Fraction(eps) * grid / (2 * (Fraction(sensitivity) + 2 * grid))


def _softmax_index(
    scaled: np.ndarray,
    rate: Fraction,
    random_bits: Callable[[int], int],
    margin: float | None = None,
) -> int:
    """An index with P(i) exactly proportional to exp(rate * scaled[i]); whole numbers in floats."""
    size = scaled.size
    if size == 1:
        return 0
    width, u = 64, random_bits(64)
    # Weights carry a relative error below 1e-13 (or are below e^-50), their sum size * 2^-53 more.
    margin = 1e-12 + size * 1e-15 if margin is None else margin
    cumulative = np.cumsum(np.exp(float(rate) * (scaled - scaled.max())))
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
        weights = _exponentials([rate * (top - m) for m in whole], precision)
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


def _exponentials(exponents: list[Fraction], bits: int) -> list[int]:
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


def _secret_words(count: int) -> np.ndarray:
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def _picked(words: np.ndarray, rate: float) -> np.ndarray:
    if not 0 < rate <= 1:
        raise ValueError(f"rate ({rate}) must be above 0 and at most 1")
    if rate == 1:
        return np.arange(words.size)
    return np.flatnonzero(words < np.uint64(int(math.ldexp(rate, 64))))


def _integers(values: np.ndarray) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ValueError(f"values must be integers, not {array.dtype}")
    return array.astype(np.int64)


def _roomy(values: np.ndarray) -> np.ndarray:
    """Integers that noise cannot push out of int64; clipping brings no two of them apart."""
    return np.clip(_integers(values), -(2**61), 2**61)


def _scales(scale: Any, name: str, *, scalar: bool = False) -> np.ndarray:
    array = np.asarray(scale, dtype=np.float64)
    if scalar and array.ndim:
        raise ValueError(f"{name} must be one number")
    if not ((array > 0) & (array <= MAX_SCALE)).all():
        raise ValueError(f"{name} ({scale}) must be positive and at most 2^52")
    return array


def _check_gamma(dim: int, scale: float) -> None:
    if dim < 1:
        raise ValueError(f"dim ({dim}) must be at least 1")
    if not 0 < scale < math.inf:
        raise ValueError(f"scale ({scale}) must be a positive finite number")


def _opendp(kind: str, values: np.ndarray, scale: float) -> np.ndarray:
    if values.size == 0:
        return values.copy()
    noisy = _measurement(kind, scale)(values.ravel())
    return np.array(noisy, dtype=np.int64).reshape(values.shape)


@lru_cache(maxsize=64)
def _measurement(kind: str, scale: float) -> Any:
    # Not opendp.prelude, which imports scikit-learn and takes seconds.
    from opendp import domains, measurements, metrics, mod

    mod.enable_features("contrib")
    domain = domains.vector_domain(domains.atom_domain(T="i64"))
    if kind == "gaussian":
        return measurements.make_gaussian(domain, metrics.l2_distance(T="f64"), scale=scale)
    return measurements.make_laplace(domain, metrics.l1_distance(T="f64"), scale=scale)
