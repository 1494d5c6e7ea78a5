"""One-way marginals: the number of rows they imply, and the merging of codes that noise drowns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pandas as pd

from marginalsyn.access.visit import Visit
from marginalsyn.contract import KNOWN, Measurement
from marginalsyn.graphical.compression import (
    Compression,
    Merge,
    Zero,
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
from marginalsyn.graphical.exact_margins import EXACT, PUBLIC, public_answers, public_columns
from marginalsyn.graphical.reference import CodedReference, ReferenceModel, trusted
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema

# How readily codes are merged where nobody says: from the first level on, until the noise on a
# column's mean pair is at most so many times the rows.
LEVELS = (0.4, 0.6, 0.8, 1.0, 1.3, 1.6)
AFFORDED = 1.0
L1_PER_CELL = math.sqrt(2 / math.pi)  # mean |N(0, 1)|: the noise that one cell adds to an l1 error


@dataclass(frozen=True, kw_only=True)
class OneWay:
    """The released one-way marginals and what follows from them.

    ``references`` are those that the answers bear out, the best first; ``zeros`` the impossible
    cells without those of rules; ``margins`` are public, over merged codes, and among ``observed``,
    too.
    """

    measurements: tuple[Measurement, ...]
    total: float
    compression: Compression
    domain: Mapping[str, int]
    observed: tuple[Measurement, ...]
    zeros: tuple[tuple[tuple[str, ...], np.ndarray], ...]
    warnings: tuple[str, ...]
    schema: Schema
    references: Sequence[CodedReference] = ()
    margins: tuple[Measurement, ...] = ()

    def zeros_within(self, measured: Iterable[Measurement]) -> tuple[Zero, ...]:
        """Impossible cells for a fit of measurements, those of rules in its cliques among them."""
        return self.compression.zeros_within(self.schema, [m.columns for m in measured])

    @cached_property
    def reference(self) -> ReferenceModel:
        """What the references say over merged codes."""
        return ReferenceModel(self.references, self.compression, self.zeros, self.total)


def summarise_one_way(
    visit: Visit, measured: Sequence[Measurement], *, sigma_next: float, merge: float | None
) -> OneWay:
    """What follows from measured one-way marginals, with codes merged that noise would drown.

    Args:
        visit: tells the schema and the relation.
        measured: every one-way marginal but those that a public margin gives; what is ``KNOWN`` of
            them was not measured.
        sigma_next: noise that the larger marginals will have, as far as it is known beforehand.
        merge: how readily codes are merged; 0 merges none. None finds it for each column.
    """
    schema = visit.schema
    visit.review(measured)
    total, spread = known_total(visit, measured)
    released = tuple(m for m in measured if m.purpose != KNOWN)
    public = public_answers(schema, total)
    if public:
        measured = _with_public(schema, measured, total)
    zeros = tuple(schema.structural_zeros(rules=False))
    joint = [columns for columns, _ in zeros] + [m.columns for m in public if len(m.columns) > 1]
    untouched = {name for columns in joint for name in columns}
    merges = dict(identity(schema.domain).merges)
    given = visit.references
    references = trusted(given, schema, measured, total) if given else []
    settled = {name: c.counts for r in reversed(references) for name, c in r.settled.items()}
    long = {
        m.columns[0]: m for m in measured if m.columns[0] not in untouched and m.values.size > 2
    }
    levels = LEVELS if merge is None else (merge,)
    found = {
        name: [
            _merge(schema, name, m, total, sigma_next, level, settled.get(name)) for level in levels
        ]
        for name, m in long.items()
        if levels[0] > 0
    }
    sizes = {name: [one.size for one in at] for name, at in found.items()}
    short = [merge.size for name, merge in merges.items() if name not in found]
    chosen = affordable(sizes, short, AFFORDED * total / (L1_PER_CELL * sigma_next))
    merges.update({name: at[chosen[name]] for name, at in found.items()})
    compression = Compression(merges)
    margins = tuple(compression.compress(m) for m in public)
    observed = tuple(compression.compress(m) for m in measured)
    return OneWay(
        measurements=released,
        total=total,
        compression=compression,
        domain=compression.domain,
        observed=(*observed, *(m for m in margins if len(m.columns) > 1)),
        zeros=compression.zeros(zeros),
        schema=schema,
        warnings=(*warn_of_noise(total, spread), *_drowned(measured, total)),
        references=[reference.table for reference in references],
        margins=margins,
    )


def _with_public(
    schema: Schema, measured: Sequence[Measurement], total: float
) -> list[Measurement]:
    """Every one-way marginal: the public ones in place of answers, if there are any."""
    found = {m.columns[0]: m for m in measured}
    for name, shares in public_columns(schema).items():
        found[name] = Measurement(
            columns=(name,), values=shares * total, sigma=EXACT, purpose=PUBLIC
        )
    return [found[name] for name in schema.names]


def affordable(
    sizes: Mapping[str, Sequence[int]], others: Sequence[int], cells: float
) -> dict[str, int]:
    """The first level at which each column's pairs have at most so many cells in the mean.

    Whether a column's codes are worth their noise depends on those that they stand next to: the
    column whose pairs are the largest goes up a level, until all fit or are at the last one.

    Args:
        sizes: by column, its number of codes at every level; they do not grow.
        others: the numbers of codes of columns without levels.
        cells: what the mean pair of a column may have.

    Example:
        >>> affordable({"age": [60, 30], "ward": [200, 50], "month": [12, 12]}, [2], 1800)
        {'age': 0, 'ward': 1, 'month': 0}
    """
    at = dict.fromkeys(sizes, 0)
    while True:
        now = {name: sizes[name][level] for name, level in at.items()}
        total, rest = sum(now.values()) + sum(others), max(len(now) + len(others) - 1, 1)
        large = {
            name: size * (total - size) / rest
            for name, size in now.items()
            if at[name] + 1 < len(sizes[name]) and size * (total - size) / rest > cells
        }
        if not large:
            return at
        at[max(large, key=lambda name: large[name])] += 1


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
