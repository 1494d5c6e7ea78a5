"""The laws that protective noise is drawn from, who draws them, and what guarantee each gives.

Every :class:`~marginalsyn.privacy.noise.Noise` counts in its ``used`` the laws that it really drew. A
statement is built from these counts, and ``marginalsyn verify`` derives it from them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from marginalsyn.libraries import version

Guarantee = Literal["exact", "rounded", "computational", "asymptotic", "none"]
"""What a law is worth, see :data:`GUARANTEES`."""

GUARANTEES: dict[str, str] = {
    "exact": "what is drawn has the law of the proof, to the last bit",
    "rounded": "what is drawn has the law of the proof up to stated bits",
    "computational": "the law holds against whoever cannot break the generator of the bits",
    "asymptotic": "the law is reached in the limit only: a Markov chain that runs for ever",
    "none": "nothing is promised",
}
"""From the strongest to the weakest."""

Origin = Literal["operating system", "seed", "fixed answers"]
"""Where a noise takes its random bits from. Only the first protects anybody."""

UNRECORDED = "unrecorded"


@dataclass(frozen=True)
class Law:
    """A law that noise is drawn from.

    Attributes:
        name: as a statement gives it.
        guarantee: what a draw is worth that takes its bits from the operating system.
        libraries: what draws it, the one whose sampler it is first.
        says: what is drawn, and why the guarantee is what it is.
        document: where that is explained or proved.
    """

    name: str
    guarantee: Guarantee
    libraries: tuple[str, ...]
    says: str
    document: str


LAWS: dict[str, Law] = {
    law.name: law
    for law in (
        Law(
            "discrete Gaussian",
            "exact",
            ("opendp",),
            "whole numbers z with P(z) proportional to exp(-z^2 / (2 sigma^2)), in whole-number "
            "arithmetic",
            "Canonne, Kamath and Steinke 2020; marginalsyn/privacy/noise.py",
        ),
        Law(
            "discrete Laplace",
            "exact",
            ("opendp",),
            "whole numbers z with P(z) proportional to exp(-|z| / scale), in whole-number "
            "arithmetic",
            "Canonne, Kamath and Steinke 2020; marginalsyn/privacy/noise.py",
        ),
        Law(
            "exponential mechanism",
            "exact",
            ("marginalsyn",),
            "one of several candidates, scores rounded to a grid that the proof covers, decided "
            "by as many random bits as it takes",
            "marginalsyn.privacy.selection.exponential_mechanism",
        ),
        Law(
            "K-norm",
            "exact",
            ("marginalsyn",),
            "vectors of whole numbers z with P(z) proportional to exp(-a |z|_2), by rejection from "
            "discrete Laplace noise with coins tossed exactly",
            "Hardt and Talwar 2010; marginalsyn/privacy/k_norm.py",
        ),
        Law(
            "rounded Gaussian",
            "exact",
            ("marginalsyn", "scipy"),
            "Gaussian noise rounded to whole numbers, which is post-processing of continuous "
            "noise; decided by as many random bits as it takes, where scipy's erfcinv is right to "
            "one part in 10^13",
            "marginalsyn/privacy/rounded_normal.py",
        ),
        Law(
            "Poisson sample",
            "exact",
            ("marginalsyn",),
            "every row with the same probability on its own, the stated rate rounded down to a "
            "multiple of 2^-64: fewer rows, never more",
            "marginalsyn.privacy.noise.SecureNoise.lot",
        ),
        Law(
            "keyed hash",
            "exact",
            ("marginalsyn",),
            "a choice by a row's own content, such as its teacher: the bound holds for every key",
            "docs/gans.md",
        ),
        Law(
            "expanded secret",
            "computational",
            ("marginalsyn",),
            "a stream that ChaCha20 makes of 256 secret bits: the law holds for whoever cannot "
            "tell that stream from chance",
            "docs/privacy.md",
        ),
        Law(
            "Markov chain",
            "asymptotic",
            ("marginalsyn",),
            "the state of a chain after finitely many steps, whose limit is the law of the proof",
            "docs/support-points.md",
        ),
        Law(
            UNRECORDED,
            "none",
            ("marginalsyn",),
            "a payment for which no law was recorded: a noise or mechanism that does not say what "
            "it draws",
            "docs/plugins.md",
        ),
    )
}


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
        if self.origin != "operating system" or self.law not in LAWS:
            return "none"
        return LAWS[self.law].guarantee

    @property
    def libraries(self) -> tuple[str, ...]:
        """What drew it, this line's library first."""
        return libraries_of(self.law, self.origin)


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
        worth: Guarantee = LAWS[law].guarantee if law in LAWS else "none"
        lines.append(
            Sampler(
                law=law,
                origin=origin,
                count=count,
                guarantee=worth if origin == "operating system" else "none",
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


def weakest(guarantees: Iterable[str]) -> Guarantee:
    """The weakest of several guarantees; exact where there is none.

    Example:
        >>> weakest(["exact", "asymptotic", "computational"])
        'asymptotic'
    """
    order: list[Any] = list(GUARANTEES)
    return order[max((order.index(one) for one in guarantees), default=0)]  # type: ignore[no-any-return]
