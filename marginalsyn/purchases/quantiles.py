"""Bounds and bins bought with privacy: quantiles by the exponential mechanism on a public grid.

A grid of M cells gives M + 1 candidate edges. The score of edge v for the quantile q is
-|#{x < v} - q N| (Smith 2011). Bounds are chosen among the M cells instead, with the score
-max(0, #{x < cell} - q N, q N - #{x <= cell}): where many rows share one value no edge is near the
quantile, but the cell that holds them is. One row added or removed moves either score by at most
max(q, 1 - q), one replaced row by at most 1. Where persons are counted a person's rows weigh a
public whole number together, and scores are divided by it. Nothing here sees rows: the counts come
from inside a charged visit and leave through ``select``, which draws and pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from marginalsyn.privacy.charges import ZCDP, Charge, Neighbours
from marginalsyn.privacy.zcdp import exponential_rho

if TYPE_CHECKING:
    from marginalsyn.table.unit import Unit


class Select(Protocol):
    """The exponential mechanism, as :meth:`marginalsyn.privacy.noise.Noise.select` offers it."""

    def __call__(self, scores: np.ndarray, *, eps: float, sensitivity: float) -> int: ...


def quantile_charge(
    column: str,
    selections: int,
    eps_each: float,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    unit: Unit | None = None,
) -> Charge:
    """What ``selections`` quantiles of one column cost: eps_each^2 / 8 each, in zCDP.

    ``unit`` is whom it is paid for, if not rows.

    Example:
        >>> round(quantile_charge("age", 2, 0.4).rho, 6)
        0.04
    """
    return Charge(
        mechanism="exponential-quantile",
        purpose=f"quantiles of {column}",
        neighbours=neighbours,
        cost=ZCDP(rho=selections * exponential_rho(eps_each)),
        details={
            "column": column,
            "selections": selections,
            "eps_each": eps_each,
            **({"unit": unit.whom} if unit is not None else {}),
        },
    )


def rank_scores(counts: np.ndarray, q: float) -> np.ndarray:
    """The score of every edge of the grid for the quantile ``q``."""
    below = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return -np.abs(below - q * below[-1])


def cell_scores(counts: np.ndarray, q: float) -> np.ndarray:
    """The score of every cell of the grid for the quantile ``q``; 0 where it holds it."""
    upto = np.cumsum(counts, dtype=np.int64)
    target = q * upto[-1]
    return -np.maximum(0.0, np.maximum(upto - counts - target, target - upto))


def rank_sensitivity(q: float, neighbours: Neighbours = Neighbours.REPLACE) -> float:
    """How much one row can move a score; the value for replace is valid for both relations."""
    return 1.0 if neighbours is Neighbours.REPLACE else max(q, 1 - q)


def quantiles(
    counts: np.ndarray,
    edges: np.ndarray,
    qs: Sequence[float],
    select: Select,
    eps_each: float,
    neighbours: Neighbours = Neighbours.REPLACE,
) -> np.ndarray:
    """Private quantiles, one selection of ``eps_each`` for every q, in increasing order.

    Args:
        counts: private integer counts of the cells of a public grid; values outside the grid
            belong in its end cells.
        edges: the grid's ``len(counts) + 1`` increasing edges.
        qs: the shares of rows to find, between 0 and 1.
        select: draws an index by the exponential mechanism and pays for it.
        eps_each: the bounded-range eps of each selection.
        neighbours: the relation; replace is valid for both, add-remove draws sharper.

    Returns:
        For each q (sorted) an edge of the grid.

    Example:
        >>> from marginalsyn.privacy.noise import SeededNoise
        >>> counts, edges = np.full(10, 1000), np.linspace(0, 1, 11)
        >>> quantiles(counts, edges, [0.2, 0.5], SeededNoise(0).select, 1.0).tolist()
        [0.2, 0.5]
    """
    counts, edges = _check(counts, edges)
    for q in qs:
        if not 0 <= q <= 1:
            raise ValueError(f"q ({q}) must lie between 0 and 1")
    chosen = [
        select(rank_scores(counts, q), eps=eps_each, sensitivity=rank_sensitivity(q, neighbours))
        for q in qs
    ]
    return np.sort(edges[chosen])


def quantile_bounds(
    counts: np.ndarray,
    edges: np.ndarray,
    select: Select,
    eps_each: float,
    tail: float = 0.005,
    neighbours: Neighbours = Neighbours.REPLACE,
) -> tuple[float, float]:
    """A private lower and upper bound that leave at most about ``tail`` of the rows out each side.

    Two selections. The bounds are at least one cell of the grid apart.
    """
    if not 0 <= tail < 0.5:
        raise ValueError(f"tail ({tail}) must be at least 0 and below 0.5")
    counts, edges = _check(counts, edges)
    cells = [
        select(cell_scores(counts, q), eps=eps_each, sensitivity=rank_sensitivity(q, neighbours))
        for q in (tail, 1 - tail)
    ]
    return float(edges[min(cells)]), float(edges[max(cells) + 1])


def quantile_bins(
    counts: np.ndarray,
    edges: np.ndarray,
    k: int,
    select: Select,
    eps_each: float,
    neighbours: Neighbours = Neighbours.REPLACE,
) -> np.ndarray:
    """Edges of about ``k`` bins of about equal weight between the grid's ends.

    ``k - 1`` selections of ``eps_each``. Quantiles that fall on one edge are merged, so that there
    may be fewer than ``k`` bins; there is always at least one.

    Example:
        >>> from marginalsyn.privacy.noise import SeededNoise
        >>> counts, edges = np.full(100, 1000), np.linspace(0, 1, 101)
        >>> quantile_bins(counts, edges, 4, SeededNoise(0).select, 1.0).tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if k < 1:
        raise ValueError(f"k ({k}) must be at least 1")
    inner = quantiles(counts, edges, [i / k for i in range(1, k)], select, eps_each, neighbours)
    return np.unique(np.concatenate([[edges[0]], inner, [edges[-1]]]))


def _check(counts: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    counts, edges = np.asarray(counts), np.asarray(edges, dtype=np.float64)
    if counts.ndim != 1 or counts.size == 0 or counts.dtype.kind not in "iu":
        raise ValueError("counts must be a one-dimensional array of integers")
    if edges.shape != (counts.size + 1,) or not np.isfinite(edges).all():
        raise ValueError(f"edges must be {counts.size + 1} finite numbers, one more than cells")
    if not (np.diff(edges) > 0).all():
        raise ValueError("edges must increase")
    return counts, edges
