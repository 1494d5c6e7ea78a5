"""Releases of small known tables, as parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from marginalsyn import Neighbours, Schema
from marginalsyn.answers.evidence import Evidence
from marginalsyn.contract import Measurement, Model
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.compression import Compression, Merge, identity

EvidenceOf = Callable[..., tuple[Evidence, np.ndarray]]


def table_of(sizes: Mapping[str, int], seed: int = 7, rows: float = 2000.0) -> np.ndarray:
    """Counts of a small table."""
    shares = np.random.default_rng(seed).dirichlet(np.ones(int(np.prod(list(sizes.values())))))
    return np.asarray(np.rint(shares * rows).reshape(tuple(sizes.values())))


def make(
    sizes: Mapping[str, int],
    marginals: Sequence[tuple[tuple[str, ...], float]],
    *,
    seed: int,
    counts: np.ndarray | None = None,
    public: bool = False,
    merges: Mapping[str, tuple[list[int], list[float]]] | None = None,
    schema: Schema | None = None,
    fit: bool = True,
) -> tuple[Evidence, np.ndarray]:
    """What a release of a table tells, and the table's counts."""
    rng = np.random.default_rng(seed)
    counts = table_of(sizes) if counts is None else counts
    names = list(sizes)
    held = dict(identity(sizes).merges)
    for name, (groups, shares) in (merges or {}).items():
        held[name] = Merge(np.array(groups, dtype=np.int32), np.array(shares))
    compression = Compression(held)
    measured = []
    for columns, sigma in marginals:
        order = [names.index(c) for c in columns]
        exact = counts.sum(axis=tuple(i for i in range(len(names)) if i not in order))
        exact = exact.transpose(np.argsort(np.argsort(order)))
        if len(columns) > 1:
            whole = Measurement(columns=columns, values=exact, sigma=1.0)
            exact = compression.compress(whole).values
        values = exact + rng.normal(0, sigma, exact.shape)
        measured.append(Measurement(columns=columns, values=values, sigma=sigma))
    total = float(counts.sum())
    observed = [compression.compress(m) if len(m.columns) == 1 else m for m in measured]
    model = pgm.fit(compression.domain, observed if fit else [], total=total)
    arrays, meta = model.arrays()
    stored = Model(
        kind="fixed-marginals",
        arrays={**{f"pgm_{k}": v for k, v in arrays.items()}, **compression.arrays()},
        meta={"pgm": meta, "columns": names, "rows": round(total)},
    )
    neighbours = Neighbours.REPLACE if public else Neighbours.ADD_REMOVE
    own = schema or Schema.from_domain(dict(sizes))
    return Evidence.read(stored, measured, own, neighbours), counts


@pytest.fixture
def evidence_of() -> EvidenceOf:
    """Makes a release's parts; see :func:`make`."""
    return make
