"""The noise that protects rows: from the operating system, or from a seed for research.

Noise comes as *answers*, drawn from a law (:mod:`marginalsyn.privacy.laws`). What else a mechanism
draws comes from streams of three kinds (:mod:`marginalsyn.privacy.streams`), which only this module
makes.

Every noise counts in its ``used`` the laws that it really drew. A statement is built from these
counts, and ``marginalsyn verify`` derives it from them again.
"""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from marginalsyn.errors import UsageError
from marginalsyn.libraries import version
from marginalsyn.privacy.charges import Guarantee
from marginalsyn.privacy.k_norm import KNorm
from marginalsyn.privacy.laws import DiscreteGaussian, DiscreteLaplace, Law, PoissonSample
from marginalsyn.privacy.rounded_normal import RoundedGaussian
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.privacy.streams import TOKEN, Key, PostStream, SecretStream

Origin = Literal["operating system", "seed", "fixed answers"]
"""Where a noise takes its random bits from. Only the first protects anybody."""

UNRECORDED = "unrecorded"


DRAWN: tuple[type[Law], ...] = (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    KNorm,
    RoundedGaussian,
    PoissonSample,
)
"""The laws that ``noise.draw`` draws from."""


@dataclass(frozen=True)
class RecordedLaw:
    """A law that mechanisms draw from in their own way, as statements record it."""

    name: str
    guarantee: Guarantee
    libraries: tuple[str, ...] = ("marginalsyn",)


_OWN = (
    # A choice by a row's own content, such as its teacher: the bound holds for every key
    # (docs/gans.md).
    RecordedLaw("keyed hash", "exact"),
    # A stream that ChaCha20 makes of 256 secret bits: the law holds against whoever cannot
    # distinguish that stream from chance (docs/privacy.md).
    RecordedLaw("expanded secret", "computational"),
    # The state of a chain after finitely many steps, whose limit is the law of the proof
    # (docs/support-points.md).
    RecordedLaw("Markov chain", "asymptotic"),
    # A payment by a noise or mechanism that does not say what it draws (docs/plugins.md).
    RecordedLaw(UNRECORDED, "none"),
)

LAWS: dict[str, type[Law] | RecordedLaw] = {
    **{law.name: law for law in DRAWN},
    **{law.name: law for law in _OWN},
}
"""Every law that a statement may list, by its name."""


class Used:
    """The laws that a noise has drawn, in order of first use, with the number of answers.

    Answers are counted, never the values in them: how many rows a lot was drawn from is private.

    Example:
        >>> used = Used("operating system")
        >>> used.note("discrete Gaussian")
        >>> used.counts()
        {'discrete Gaussian': 1}
    """

    def __init__(self, origin: Origin) -> None:
        self.origin: Origin = origin
        self._counts: dict[str, int] = {}

    def note(self, law: str) -> None:
        """Count one answer drawn from a law, by its name in :data:`LAWS`."""
        self._counts[law] = self._counts.get(law, 0) + 1

    def counts(self) -> dict[str, int]:
        """A copy of the counts so far."""
        return dict(self._counts)

    def since(self, before: Mapping[str, int]) -> dict[str, int]:
        """What was counted after ``before``, which :meth:`counts` gave."""
        more = {law: n - before.get(law, 0) for law, n in self._counts.items()}
        return {law: n for law, n in more.items() if n}


def used_of(noise: Any) -> Used:
    """The record of a noise; an empty one where it keeps none."""
    found = getattr(noise, "used", None)
    return found if isinstance(found, Used) else Used("fixed answers")


class Sampler(BaseModel):
    """A line of a statement: a law, how many answers it gave, and what that is worth."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    law: str
    origin: Origin
    count: int = Field(ge=1)
    guarantee: Guarantee
    library: str
    version: str

    @property
    def worth(self) -> Guarantee:
        """The guarantee that the registry of laws gives, whatever the line says."""
        return _worth(self.law, self.origin)

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries that drew it, this line's first."""
        return libraries_of(self.law, self.origin)


def _worth(law: str, origin: Origin) -> Guarantee:
    return LAWS[law].guarantee if origin == "operating system" and law in LAWS else "none"


def libraries_of(law: str, origin: Origin) -> tuple[str, ...]:
    """The libraries that draw a law from bits of that origin."""
    own = LAWS[law].libraries if law in LAWS else ("marginalsyn",)
    # From a seed numpy draws everything but choices, which are made as they are from the system.
    return ("numpy",) if origin == "seed" and own[0] == "opendp" else own


def samplers(counts: Mapping[str, int], origin: Origin) -> list[Sampler]:
    """The lines of a statement for what a noise has drawn."""
    lines = []
    for law, count in counts.items():
        library = libraries_of(law, origin)[0]
        lines.append(
            Sampler(
                law=law,
                origin=origin,
                count=count,
                guarantee=_worth(law, origin),
                library=library,
                version=version(library),
            )
        )
    return lines


def merge(lines: Iterable[Sampler]) -> list[Sampler]:
    """Lines that differ in nothing but their count become one."""
    found: dict[Sampler, int] = {}
    for line in lines:
        key = line.model_copy(update={"count": 1})
        found[key] = found.get(key, 0) + line.count
    return [key.model_copy(update={"count": count}) for key, count in found.items()]


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
        """Draw an answer from a law: noisy values, or what it chooses by them."""
        self.used.note(law.name)
        return self._drawn(law, values)

    def answer(self, what: str, draw: Callable[[], np.ndarray]) -> np.ndarray:
        """Return ``draw()``, and mark it as an answer: a draw from a secret stream that may be
        published.

        The journal (:mod:`marginalsyn.records.runs`) then keeps the result. A draw that is
        interrupted starts over when the run resumes, at no further charge. This is sound because
        nothing of the first attempt was seen: ``draw`` must not reveal anything that depends on
        rows, not even its progress. ``what`` is a public name of the answer.
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
