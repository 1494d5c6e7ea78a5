"""Compiled projections of points along slices' directions, and their counts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit


class SliceLaw(NamedTuple):
    """Slices as the compiled kernels take them.

    ``touch`` lists the directions that each coordinate moves, ``part`` the coordinates that each
    direction sees; their ``_start`` arrays say where each list begins.
    """

    numeric: int
    sizes: np.ndarray
    links: np.ndarray
    scales: np.ndarray
    table: np.ndarray
    table_start: np.ndarray
    low: np.ndarray
    step: np.ndarray
    bins: np.ndarray
    weight: np.ndarray
    prefix_start: np.ndarray
    touch_start: np.ndarray
    touch: np.ndarray
    part_start: np.ndarray
    part: np.ndarray


@njit(cache=True, nogil=True)
def bin_of(value: Any, low: Any, step: Any, bins: Any) -> Any:
    """The bin of a projection."""
    place = int(np.floor((value - low) / step)) + 1
    return min(max(place, 0), bins)


@njit(cache=True, nogil=True)
def project(law: Any, points: Any, shadows: Any, places: Any) -> None:
    """Projections and bins of points, into ``shadows`` and ``places`` (n, K)."""
    numeric = law.numeric
    for j in range(points.shape[0]):
        for k in range(law.step.shape[0]):
            shadow = 0.0
            for t in range(law.part_start[k], law.part_start[k + 1]):
                c = law.part[t]
                if c < numeric:
                    shadow += law.scales[k, c] * points[j, c]
                else:
                    shadow += law.table[k, law.table_start[c - numeric] + int(points[j, c])]
            shadows[j, k] = shadow
            places[j, k] = bin_of(shadow, law.low[k], law.step[k], law.bins[k])


@njit(cache=True, nogil=True)
def tally(places: Any, weights: Any, prefix_start: Any, cells: Any) -> None:
    """Add its weight to the cell of every point along every direction."""
    for j in range(places.shape[0]):
        for k in range(places.shape[1]):
            cells[prefix_start[k] + places[j, k]] += weights[j]
