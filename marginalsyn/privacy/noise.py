"""The only place that draws protective noise, and the only importer of OpenDP.

Noise comes as *answers*, added to what it protects. What else a mechanism draws comes from streams
of three kinds (:mod:`marginalsyn.privacy.streams`), which only this module makes.

:class:`SecureNoise` draws from the operating system's entropy and cannot be seeded; its discrete
Gaussian and Laplace are OpenDP's exact integer samplers, and its exponential mechanism is exact
too. :class:`SeededNoise` has the same distributions and is for research: it protects nobody.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.privacy.k_norm import k_norm_noise
from marginalsyn.privacy.laws import Used
from marginalsyn.privacy.rounded_normal import MAX_SIGMA, rounded_normal
from marginalsyn.privacy.selection import exponential_mechanism
from marginalsyn.privacy.streams import TOKEN, Key, PostStream, SecretStream

# Beyond this a discrete noise no longer fits 64-bit integers with room to spare.
MAX_SCALE = float(2**52)


class Noise(Protocol):
    """Draws the noise that protects rows; ``post`` is for post-processing only.

    ``used`` counts the answers by the law that they were drawn from, see
    :mod:`marginalsyn.privacy.laws`.
    """

    used: Used

    @property
    def private(self) -> bool: ...

    @property
    def description(self) -> str: ...

    @property
    def post(self) -> PostStream: ...

    @property
    def post_seed(self) -> int: ...

    @property
    def known(self) -> bool: ...

    def secret(self) -> SecretStream: ...

    def key(self) -> Key: ...

    def gaussian(self, values: np.ndarray, sigma: float | np.ndarray) -> np.ndarray: ...

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray: ...

    def select(self, scores: np.ndarray, *, eps: float, sensitivity: float) -> int: ...

    def k_norm(self, values: np.ndarray, rate: float) -> np.ndarray: ...

    def rounded_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray: ...

    def lot(self, rows: int, rate: float) -> np.ndarray: ...

    def answer(self, what: str, draw: Callable[[], np.ndarray]) -> np.ndarray: ...


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
    # No answer is known before it is drawn.
    known = False
    description = "exact integer samplers, operating system entropy"

    def __init__(self) -> None:
        self.used = Used("operating system")
        self.post_seed = secrets.randbits(256)
        self.post = PostStream(np.random.PCG64(self.post_seed))

    def secret(self) -> SecretStream:
        """A new secret stream, seeded from fresh entropy."""
        self.used.note("expanded secret")
        return _secret_stream(os.urandom(32), private=True)

    def key(self) -> Key:
        """A new secret key, for values that depend on a row's own content."""
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

    def k_norm(self, values: np.ndarray, rate: float) -> np.ndarray:
        """Integers plus K-norm noise: P(z) proportional to exp(-rate ||z||_2) over all vectors.

        A query of L2 sensitivity D is (rate D)-DP. Exact, see :mod:`marginalsyn.privacy.k_norm`; the
        work grows fast with the number of values, of which there may be at most ``knorm.MAX_DIM``.
        Sums saturate at the ends of int64.

        Args:
            values: integers of any shape.
            rate: positive; taken as the rational number that it is.
        """
        self.used.note("K-norm")
        counts = _integers(values)
        return _plus(
            counts, k_norm_noise(counts.size, _rate(rate), _secret_words, secrets.randbits)
        )

    def rounded_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """Integers plus round(N(0, sigma^2)), int64, exact, thousands in a millisecond.

        It is post-processing of continuous Gaussian noise, so accountants of sampled Gaussian
        steps apply to it; see :mod:`marginalsyn.privacy.rounded_normal`. Values beyond 2^61 saturate.
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

    def answer(self, what: str, draw: Callable[[], np.ndarray]) -> np.ndarray:
        """Return ``draw()``, and mark it as an answer: a draw from a secret stream that may be
        published.

        The journal (:mod:`marginalsyn.records.journal`) then keeps the result. A draw that is
        interrupted starts over when the run resumes, at no further charge. This is sound because
        nothing of the first attempt was seen: ``draw`` must not reveal anything that depends on
        rows, not even its progress.

        Args:
            what: a public name.
            draw: computes the answer.
        """
        del what
        return draw()


class SeededNoise:
    """The same distributions from one seed, for research. Anyone who knows the seed knows the
    noise.

    Example:
        >>> a = SeededNoise(1).gaussian(np.zeros(4, dtype=int), 3.0)
        >>> b = SeededNoise(1).gaussian(np.zeros(4, dtype=int), 3.0)
        >>> bool((a == b).all())
        True
    """

    private = False
    known = False
    description = "seeded, not private"

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise UsageError(f"seed ({seed}) must be a whole number that is not negative")
        self.used = Used("seed")
        noise, choice, rest, secret, key = np.random.SeedSequence(int(seed)).spawn(5)
        self._noise = np.random.Generator(np.random.PCG64(noise))
        self._choice = np.random.Generator(np.random.PCG64(choice))
        self.post_seed = int(seed)
        self.post = PostStream(np.random.PCG64(rest))
        self._secret, self._key = secret, key

    def secret(self) -> SecretStream:
        """As :meth:`SecureNoise.secret`, but anyone who knows the seed knows it."""
        self.used.note("expanded secret")
        (child,) = self._secret.spawn(1)
        return _secret_stream(child.generate_state(4, np.uint64).tobytes(), private=False)

    def key(self) -> Key:
        """As :meth:`SecureNoise.key`, but anyone who knows the seed knows it."""
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

    def k_norm(self, values: np.ndarray, rate: float) -> np.ndarray:
        """As :meth:`SecureNoise.k_norm`."""
        self.used.note("K-norm")
        counts = _integers(values)
        return _plus(counts, k_norm_noise(counts.size, _rate(rate), self._words, self._noise_bits))

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

    def answer(self, what: str, draw: Callable[[], np.ndarray]) -> np.ndarray:
        """As :meth:`SecureNoise.answer`."""
        del what
        return draw()

    def _discrete_laplace(self, scale: np.ndarray) -> np.ndarray:
        p = -np.expm1(-1 / scale)
        return self._noise.geometric(p) - self._noise.geometric(p)

    def _words(self, count: int) -> np.ndarray:
        return self._noise.integers(0, 2**64, count, dtype=np.uint64)

    def _noise_bits(self, k: int) -> int:
        return int.from_bytes(self._noise.bytes((k + 7) // 8), "little") >> (-k % 8)

    def _bits(self, k: int) -> int:
        return int.from_bytes(self._choice.bytes((k + 7) // 8), "little") >> (-k % 8)


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


def _secret_stream(key: bytes, *, private: bool) -> SecretStream:
    from marginalsyn.privacy.chacha import ChaCha20

    return SecretStream(ChaCha20(key), private=private, token=TOKEN)


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


def _rate(rate: float) -> Fraction:
    if not 1 / MAX_SCALE <= rate <= MAX_SCALE:
        raise ValueError(f"rate ({rate}) must be at least 2^-52 and at most 2^52")
    return Fraction(rate)


def _plus(counts: np.ndarray, noise: list[int]) -> np.ndarray:
    """Sums in Python's integers, kept within int64."""
    ends = np.iinfo(np.int64)
    sums = [int(v) + z for v, z in zip(counts.ravel(), noise, strict=True)]
    kept = [min(max(v, int(ends.min)), int(ends.max)) for v in sums]
    return np.array(kept, dtype=np.int64).reshape(counts.shape)


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
