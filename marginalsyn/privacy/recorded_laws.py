"""What was drawn: the laws of a noise's answers, and the lines of a statement about them.

Every :class:`~marginalsyn.privacy.noise.Noise` counts in its ``used`` the laws that it really drew.
A statement is built from these counts, and ``marginalsyn verify`` derives it from them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from marginalsyn.libraries import version
from marginalsyn.privacy.charges import Guarantee
from marginalsyn.privacy.k_norm import KNorm
from marginalsyn.privacy.laws import DiscreteGaussian, DiscreteLaplace, Law, PoissonSample
from marginalsyn.privacy.rounded_normal import RoundedGaussian
from marginalsyn.privacy.selection import ExponentialMechanism

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
