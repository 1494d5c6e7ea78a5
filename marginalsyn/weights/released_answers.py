"""How weighted rows agree with the noisy marginals of a release: told without private rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.contract import Target
from marginalsyn.errors import UsageError
from marginalsyn.graphical.estimation import estimate_total
from marginalsyn.table.design import CodedRows
from marginalsyn.weights.bought import read_bought

if TYPE_CHECKING:
    from marginalsyn.contract import Measurement
    from marginalsyn.release.folder import Release

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
    target = Target.of(release)
    codes, persons = CodedRows.of(target.frame, release.schema).codes, target.persons
    names, sizes = release.schema.names, release.schema.domain
    answers = _answers(release)
    # Answers count private rows, of which a release may have more or fewer.
    total = _total(answers)
    errors = []
    for one in answers:
        if not one.columns or np.shape(one.values) != tuple(sizes[c] for c in one.columns):
            continue  # added up, or the number of rows
        noise = float(np.broadcast_to(one.sigma, one.values.shape).sum())
        noise *= math.sqrt(2 / math.pi) / total
        if noise > MOST_NOISE:
            continue
        own = codes[:, [names.index(c) for c in one.columns]]
        index = np.ravel_multi_index(tuple(own.T), one.values.shape)
        told = one.values.ravel() / total
        errors.append(
            [
                *(
                    float(np.abs(_shares(index, told.size, mass) - told).sum())
                    for mass in (persons, persons * weights[column].to_numpy())
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


def _total(answers: Sequence[Measurement]) -> float:
    """The number of private rows, or persons: public where an answer says so, else estimated."""
    known = [float(one.values) for one in answers if not one.columns]
    return max(known[0] if known else estimate_total(answers)[0], 1.0)


def _shares(index: np.ndarray, cells: int, mass: np.ndarray) -> np.ndarray:
    counts = np.bincount(index, weights=mass, minlength=cells).astype(float)
    return counts / counts.sum()
