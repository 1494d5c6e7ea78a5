"""Which pairs of columns a release has measured, and how well."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from marginalsyn.answers.evidence import Evidence

if TYPE_CHECKING:
    from marginalsyn.release import Release


@dataclass(frozen=True)
class MeasuredPair:
    """A pair, and the standard deviation that noise gives the share of one of its cells."""

    columns: tuple[str, str]
    noise: float


def measured_pairs(release: Release) -> list[MeasuredPair]:
    """The pairs that a release's marginals hold, the best measured first.

    Example:
        >>> from marginalsyn import Release
        >>> measured_pairs(Release.read("release"))
        []
    """
    evidence = Evidence.of(release)
    precision: dict[tuple[str, str], float] = {}
    order = evidence.schema.names
    for look in evidence.looks:
        ordered = sorted(look.columns, key=order.index)
        for pair in itertools.combinations(ordered, 2):
            others = [c for c in ordered if c not in pair]
            cells = 1
            for name in others:
                cells *= look.values.shape[look.columns.index(name)]
            precision[pair] = precision.get(pair, 0.0) + 1.0 / (look.sigma**2 * cells)
    found = [MeasuredPair(p, w**-0.5 / evidence.total[0]) for p, w in precision.items()]
    return sorted(found, key=lambda pair: pair.noise)
