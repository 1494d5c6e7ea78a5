"""Calibrations as they were published: what they claim, what they give, and what ours gives.

Every number is computed when it is asked for, by enumeration, integration or an exact minimiser,
on the tables that break the published form. The papers are worth reading, and most of what they say
stands; what is shown here is where a constant, a set or a step went wrong, and by how much.

    python -m benchmarks.attacks.published

prints the table of docs/audits.md, and ends with 1 where one of ours breaks its bound.
"""

from __future__ import annotations

from . import points, tables, weights
from .claim import Claim

FAMILIES = (*points.FAMILIES, *weights.FAMILIES, *tables.FAMILIES)


def published_claims() -> list[Claim]:
    """All of them, computed now; takes some seconds.

    Example:
        >>> all(claim.broken and claim.holds for claim in published_claims())   # doctest: +SKIP
        True
    """
    return [claim for family in FAMILIES for claim in family()]


def to_markdown(claims: list[Claim]) -> str:
    """The table of the guide."""
    lines = [["as published", "by", "unit", "claimed", "gives", "ours", "at most"], ["---"] * 7]
    for claim in claims:
        numbers = (claim.claimed, claim.found, claim.ours, claim.bound)
        lines.append([claim.name, claim.source, claim.unit, *(f"{n:.4g}" for n in numbers)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
