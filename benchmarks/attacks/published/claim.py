"""A published form beside ours."""

from __future__ import annotations

from dataclasses import dataclass

from marginalsyn.plugins.audit.exact import SLACK

DIESENDRUCK = "Diesendruck 2019"
GHALEBIKESABI = "Ghalebikesabi et al. 2022"
ZHOU = "Zhou et al. 2024"
PRACTICE = "common practice"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One published form beside ours, on the same tables and in the same unit.

    Attributes:
        name: what is published.
        source: who states it.
        unit: ``eps``, ``delta``, ``chance`` or ``share``.
        claimed: by the published form.
        found: what it really gives, at least.
        ours: what the corrected form gives on the same check.
        bound: what the corrected form may give.
        how: the tables and the method.
        why: what went wrong, in one sentence.
    """

    name: str
    source: str
    unit: str
    claimed: float
    found: float
    ours: float
    bound: float
    how: str
    why: str

    @property
    def broken(self) -> bool:
        """Whether the published form gives more than it claims."""
        return bool(self.found > self.claimed * (1 + SLACK))

    @property
    def holds(self) -> bool:
        """Whether ours keeps its bound."""
        return bool(self.ours <= self.bound * (1 + SLACK))
