"""How weighted rows agree with the noisy marginals of a release: told without private rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.table import CodedRows
from marginalsyn.weights.bought import read_bought

if TYPE_CHECKING:
    from marginalsyn.contract import Measurement
    from marginalsyn.release import Release

# Answers whose noise alone shows a larger l1 error say nothing of rows.
MOST_NOISE = 0.5


def agreement(release: Release, column: str) -> Mapping[str, Any] | None:
    """The mean l1 error of rows against the release's answers, without weights and with a column.

    Beside both stands what the noise of the answers shows by itself: rows that agree with the
    private ones exactly would have that error. None where no answer is precise enough.

    Example:
        >>> from marginalsyn import Release
        >>> weighted = Release.read("release").weight(frame, method="beta-noised", eps=1.0)
        >>> sorted(agreement(weighted, "beta-noised"))
        ['answers', 'noise', 'unweighted', 'weighted']
    """
    weights = release.weights()
    if weights is None:
        return None
    table = CodedRows.of(release.frame(), release.schema)
    names, sizes = release.schema.names, release.schema.domain
    errors = []
    for one in _answers(release):
        if not one.columns or np.shape(one.values) != tuple(sizes[c] for c in one.columns):
            continue  # added up, or the number of rows
        noise = float(np.broadcast_to(one.sigma, one.values.shape).sum())
        noise *= math.sqrt(2 / math.pi) / len(table)
        if noise > MOST_NOISE:
            continue
        codes = table.codes[:, [names.index(c) for c in one.columns]]
        index = np.ravel_multi_index(tuple(codes.T), one.values.shape)
        told = one.values.ravel() / len(table)
        errors.append(
            [
                *(
                    float(np.abs(_shares(index, told.size, mass) - told).sum())
                    for mass in (None, weights[column].to_numpy())
                ),
                noise,
            ]
        )
    if not errors:
        return None
    unweighted, weighted, noise = np.mean(errors, axis=0)
    return {
        "answers": len(errors),
        "unweighted": float(unweighted),
        "weighted": float(weighted),
        "noise": float(noise),
    }


def _answers(release: Release) -> list[Measurement]:
    """What the generator was told, and what weights were bought with."""
    found = release.measurements()
    try:
        bought = read_bought(release)
    except UsageError:
        return found
    return [*found, *(one for some in bought for one in some.measurements)]


def _shares(index: np.ndarray, cells: int, mass: np.ndarray | None) -> np.ndarray:
    counts = np.bincount(index, weights=mass, minlength=cells).astype(float)
    return counts / counts.sum()
