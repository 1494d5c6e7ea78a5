"""Calibrations as they were published: what they claim, what they give, and what ours gives.

Every number is computed when it is asked for, by enumeration, integration or an exact minimiser,
on the tables that break the published form. The papers are worth reading, and most of what they say
stands; what is shown here is where a constant, a set or a step went wrong, and by how much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from marginalsyn.audit.exact import SLACK
from marginalsyn.progress import Progress, Silent

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

    def to_json(self) -> dict[str, Any]:
        """JSON values; an infinite number is a text."""
        values = {
            name: "infinite" if isinstance(value, float) and math.isinf(value) else value
            for name, value in asdict(self).items()
        }
        return {**values, "broken": self.broken, "ours_holds": self.holds}


def published_claims(progress: Progress | None = None) -> list[Claim]:
    """All of them, computed now; takes some seconds.

    Example:
        >>> # Takes ten seconds: tests/audit computes the same.
        >>> all(claim.broken and claim.holds for claim in published_claims())  # doctest: +SKIP
        True
    """
    from marginalsyn.audit import published_points, published_tables, published_weights

    progress, found = progress or Silent(), []
    families: Sequence[Callable[[], list[Claim]]] = (
        *published_points.FAMILIES,
        *published_weights.FAMILIES,
        *published_tables.FAMILIES,
    )
    for done, family in enumerate(families):
        progress.report("claims", fraction=done / len(families), text=family.__name__)
        found += family()
    return found
