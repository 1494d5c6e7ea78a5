"""The noise that protects rows: from the operating system, or from a seed for research.

Noise comes as *answers*, drawn from a law (:mod:`marginalsyn.privacy.laws`). What else a mechanism
draws comes from streams of three kinds (:mod:`marginalsyn.privacy.streams`), which only this module
makes.
"""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.privacy.laws import Law
from marginalsyn.privacy.recorded_laws import Used
from marginalsyn.privacy.streams import TOKEN, Key, PostStream, SecretStream


class Noise(Protocol):
    """Draws the noise that protects rows; ``post`` is for post-processing only.

    ``used`` counts the answers by the law that they were drawn from. ``known`` is true where the
    next answer was drawn before, so that nothing need be computed for it.
    """

    used: Used
    private: bool
    description: str
    post_seed: int

    @property
    def post(self) -> PostStream: ...

    @property
    def known(self) -> bool: ...

    def secret(self) -> SecretStream: ...

    def key(self) -> Key: ...

    def draw(self, law: Law, values: Any) -> Any: ...

    def answer(self, what: str, draw: Callable[[], np.ndarray]) -> np.ndarray: ...


def make_noise(seed: int | None = None) -> SecureNoise | SeededNoise:
    """The secure noise, or with a seed the reproducible one that is *not private*.

    Example:
        >>> make_noise().private, make_noise(7).private
        (True, False)
    """
    return SecureNoise() if seed is None else SeededNoise(seed)


class _NewNoise(ABC):
    """The secure and the seeded noise: every answer is drawn when it is asked for."""

    private: bool
    known = False

    def __init__(self, used: Used, post_seed: int, post: np.random.PCG64) -> None:
        self.used, self.post_seed, self.post = used, post_seed, PostStream(post)

    def secret(self) -> SecretStream:
        """A new secret stream."""
        from marginalsyn.privacy.chacha import ChaCha20

        self.used.note("expanded secret")
        return SecretStream(ChaCha20(self._new_bytes("secret")), private=self.private, token=TOKEN)

    def key(self) -> Key:
        """A new secret key, for values that depend on a row's own content."""
        self.used.note("keyed hash")
        return Key(self._new_bytes("key"), private=self.private, token=TOKEN)

    def draw(self, law: Law, values: Any) -> Any:
        """Draw an answer from a law: noisy values, or what it chooses by them.

        Args:
            law: with its parameters.
            values: whole numbers to add noise to, scores, or whatever else the law draws for.
        """
        self.used.note(law.name)
        return self._drawn(law, values)

    def answer(self, what: str, draw: Callable[[], np.ndarray]) -> np.ndarray:
        """Return ``draw()``, and mark it as an answer: a draw from a secret stream that may be
        published.

        The journal (:mod:`marginalsyn.records.runs`) then keeps the result. A draw that is
        interrupted starts over when the run resumes, at no further charge. This is sound because
        nothing of the first attempt was seen: ``draw`` must not reveal anything that depends on
        rows, not even its progress.

        Args:
            what: a public name.
            draw: computes the answer.
        """
        del what
        return draw()

    @abstractmethod
    def _new_bytes(self, purpose: str) -> bytes:
        """32 bytes that nothing else is made of."""

    @abstractmethod
    def _drawn(self, law: Law, values: Any) -> Any:
        """An answer from this noise's own random bits."""


class SystemBits:
    """Random bits from the operating system's entropy."""

    def words(self, count: int) -> np.ndarray:
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)

    def bits(self, count: int) -> int:
        return secrets.randbits(count)


class SecureNoise(_NewNoise):
    """Protective noise from the operating system's entropy, which cannot be seeded.

    Example:
        >>> from marginalsyn.privacy.laws import DiscreteGaussian
        >>> noisy = SecureNoise().draw(DiscreteGaussian(2.0), np.array([10, 0, 3]))
        >>> noisy.dtype, noisy.shape
        (dtype('int64'), (3,))
    """

    private = True
    description = "exact integer samplers, operating system entropy"

    def __init__(self) -> None:
        seed = secrets.randbits(256)
        super().__init__(Used("operating system"), seed, np.random.PCG64(seed))

    def _new_bytes(self, purpose: str) -> bytes:
        return os.urandom(32)

    def _drawn(self, law: Law, values: Any) -> Any:
        return law.draw(values, SystemBits())


class SeededBits:
    """Bits of a seeded generator of numpy, ``rng``, for research."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self.rng = np.random.Generator(np.random.PCG64(seed))

    def words(self, count: int) -> np.ndarray:
        return self.rng.integers(0, 2**64, count, dtype=np.uint64)

    def bits(self, count: int) -> int:
        return int.from_bytes(self.rng.bytes((count + 7) // 8), "little") >> (-count % 8)


class SeededNoise(_NewNoise):
    """The same distributions from one seed, for research: whoever knows the seed knows the noise.

    Example:
        >>> from marginalsyn.privacy.laws import DiscreteGaussian
        >>> law, zeros = DiscreteGaussian(3.0), np.zeros(4, dtype=int)
        >>> bool((SeededNoise(1).draw(law, zeros) == SeededNoise(1).draw(law, zeros)).all())
        True
    """

    private = False
    description = "seeded, not private"

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise UsageError(f"seed ({seed}) must be a whole number that is not negative")
        noise, choice, post, secret, key = np.random.SeedSequence(int(seed)).spawn(5)
        super().__init__(Used("seed"), int(seed), np.random.PCG64(post))
        self._noise, self._choice = SeededBits(noise), SeededBits(choice)
        self._seeds = {"secret": secret, "key": key}

    def _new_bytes(self, purpose: str) -> bytes:
        (child,) = self._seeds[purpose].spawn(1)
        return child.generate_state(4, np.uint64).tobytes()

    def _drawn(self, law: Law, values: Any) -> Any:
        return law.draw_seeded(values, self._choice if law.chooses else self._noise)
