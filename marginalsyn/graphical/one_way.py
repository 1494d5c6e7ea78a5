"""One-way marginals: the number of rows they imply, and the merging of codes that noise drowns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from marginalsyn.contract import KNOWN, Measurement
from marginalsyn.graphical.compression import (
    Compression,
    Merge,
    compress_column,
    identity,
    with_shares,
)
from marginalsyn.graphical.estimation import (
    draw_possible,
    known_total,
    project_to_simplex,
    warn_of_noise,
)
from marginalsyn.graphical.reference import CodedReference, ReferenceModel, trusted
from marginalsyn.table.codec import Codec

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.access.visit import Visit
    from marginalsyn.table.schema import Schema

L1_PER_CELL = math.sqrt(2 / math.pi)  # mean |N(0, 1)|: the noise that one cell adds to an l1 error


@dataclass(frozen=True, kw_only=True)
class OneWay:
    """The released one-way marginals and what follows from them.

    ``references`` are those that the answers bear out, the best first.
    """

    measurements: tuple[Measurement, ...]
    total: float
    compression: Compression
    domain: Mapping[str, int]
    observed: tuple[Measurement, ...]
    zeros: tuple[tuple[tuple[str, ...], np.ndarray], ...]
    warnings: tuple[str, ...]
    references: Sequence[CodedReference] = ()

    @cached_property
    def reference(self) -> ReferenceModel:
        """What the references say over merged codes."""
        return ReferenceModel(self.references, self.compression, self.zeros, self.total)


def summarise_one_way(
    visit: Visit,
    measured: Sequence[Measurement],
    *,
    sigma_next: float,
    merge: float,
) -> OneWay:
    """What follows from measured one-way marginals, with codes merged that noise would drown.

    Args:
        visit: tells the schema and the relation.
        measured: every one-way marginal; what is ``KNOWN`` of them was not measured.
        sigma_next: noise that the larger marginals will have, as far as it is known beforehand.
        merge: how readily codes are merged; 0 merges none.
    """
    schema = visit.schema
    visit.review(measured)
    total, spread = known_total(visit, measured)
    zeros = tuple(schema.structural_zeros())
    untouched = {name for columns, _ in zeros for name in columns}
    merges = dict(identity(schema.domain).merges)
    references = trusted(visit.references, schema, measured, total)
    settled = {name: c.counts for r in reversed(references) for name, c in r.settled.items()}
    for m in measured:
        (name,) = m.columns
        if merge > 0 and name not in untouched and m.values.size > 2:
            counts = settled.get(name)
            merges[name] = _merge(schema, name, m, total, sigma_next, merge, counts)
    compression = Compression(merges)
    return OneWay(
        measurements=tuple(m for m in measured if m.purpose != KNOWN),
        total=total,
        compression=compression,
        domain=compression.domain,
        observed=tuple(compression.compress(m) for m in measured),
        zeros=zeros,
        warnings=(*warn_of_noise(total, spread), *_drowned(measured, total)),
        references=[reference.table for reference in references],
    )


class RowModel(Protocol):
    """A fitted model that gives whole rows of merged codes."""

    def rows(self, n: int, rng: np.random.Generator) -> np.ndarray: ...


def draw_frame(
    fitted: RowModel, compression: Compression, schema: Schema, rows: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Rows of a fitted model as values of the schema, none of them impossible."""

    def codes(n: int) -> np.ndarray:
        return compression.refine(fitted.rows(n, rng), rng)

    return Codec(schema).decode(draw_possible(schema, rows, codes, rng), rng)


def noise_l1(sigma: float, cells: int) -> float:
    """The l1 error that noise alone is expected to give a marginal."""
    return L1_PER_CELL * sigma * cells


def _merge(
    schema: Schema,
    name: str,
    m: Measurement,
    total: float,
    sigma_next: float,
    merge: float,
    settled: np.ndarray | None,
) -> Merge:
    """Merge one column's codes by its noisy counts, ``settled`` where a reference helps to."""
    counts = project_to_simplex(np.asarray(m.values, float), total) if settled is None else settled
    # A code is rare when its count is lost in the noise that the larger marginals will have.
    threshold = 3 * max(float(m.sigma), sigma_next)
    ordered = schema.column(name).ordered
    found = compress_column(counts, ordered=ordered, threshold=merge * threshold)
    if settled is not None:
        return found
    return with_shares(found, np.asarray(m.values, float), float(m.sigma))


def _drowned(measured: Sequence[Measurement], total: float) -> list[str]:
    """Warnings about columns of more codes than the budget can distinguish."""
    drowned = [
        m.columns[0] for m in measured if noise_l1(float(m.sigma), np.size(m.values)) > 0.5 * total
    ]
    if not drowned:
        return []
    names = ", ".join(drowned[:5]) + (" ..." if len(drowned) > 5 else "")
    return [
        f"the budget cannot support all values of {len(drowned)} column(s) ({names}): the noise is "
        "more than half of the estimated rows; give these columns fewer bins or categories, or "
        "raise eps"
    ]
