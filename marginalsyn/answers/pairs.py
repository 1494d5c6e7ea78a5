"""Which pairs of columns a release has measured, and how well."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from marginalsyn.answers.evidence import Evidence

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release


@dataclass(frozen=True)
class MeasuredPair:
    """A pair, and the standard deviation that noise gives the share of one of its cells.

    A column may have been measured by groups of its codes: a cell is then one of groups.
    """

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
        sizes = {evidence.base(c): n for c, n in zip(look.columns, look.values.shape, strict=True)}
        ordered = sorted(sizes, key=order.index)
        for pair in itertools.combinations(ordered, 2):
            cells = math.prod(n for name, n in sizes.items() if name not in pair)
            precision[pair] = precision.get(pair, 0.0) + 1.0 / (look.sigma**2 * cells)
    found = [MeasuredPair(p, w**-0.5 / evidence.total[0]) for p, w in precision.items()]
    return sorted(found, key=lambda pair: pair.noise)
