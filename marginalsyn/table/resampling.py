"""Weighted rows as an unweighted table."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from marginalsyn.errors import UsageError

Scheme = Literal["systematic", "stratified", "duplication"]
SCHEMES: tuple[str, ...] = get_args(Scheme)


def resample(
    weights: np.ndarray, scheme: Scheme, rng: np.random.Generator, rows: int | None = None
) -> np.ndarray:
    """Positions of rows drawn with probabilities proportional to their weights.

    Each row appears rows * w_i / sum(w) times on average. ``systematic`` uses one random offset
    for all equally spaced points, so that a row's number of copies is within one of that mean;
    ``stratified`` draws one point in each of ``rows`` equal parts; ``duplication`` rounds every
    row's number of copies up or down on its own (Diesendruck et al. 2018), and so gives a table of
    about ``rows`` rows.

    Args:
        weights: not negative; at least one above 0.
        scheme: one of the three.
        rng: draws; it protects nothing.
        rows: how many; as many as there are weights if None.

    Returns:
        Positions in increasing order.

    Example:
        >>> resample(np.array([1.0, 0.0, 3.0]), "systematic", np.random.default_rng(0), 4).tolist()
        [0, 2, 2, 2]
    """
    weights = np.asarray(weights, dtype=np.float64)
    if scheme not in SCHEMES:
        raise UsageError(f"resample ({scheme}) must be one of {', '.join(SCHEMES)}")
    if weights.size == 0:
        return np.empty(0, dtype=np.int64)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise UsageError("weights must be finite, not negative, and not all 0")
    count = weights.size if rows is None else rows
    shares = weights / weights.sum()
    if scheme == "duplication":
        copies = count * shares
        whole = np.floor(copies)
        copies = whole + (rng.random(weights.size) < copies - whole)
        return np.repeat(np.arange(weights.size), copies.astype(np.int64))
    offsets = rng.random() if scheme == "systematic" else rng.random(count)
    points = (np.arange(count) + offsets) / count
    edges = np.cumsum(shares)
    edges[-1] = max(edges[-1], 1.0)
    found = np.searchsorted(edges, points, side="right")
    # Rounding may reach past the last row of positive weight.
    return np.minimum(found, int(np.flatnonzero(weights)[-1]))
