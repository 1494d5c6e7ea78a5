"""The compiled Metropolis-Hastings steps on sliced counts: a point moves in one coordinate."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from marginalsyn.points.walks import fold, is_held, other_code

SCALES = 4.0


@njit(cache=True, nogil=True)
def _place(value: Any, low: Any, step: Any, bins: Any) -> Any:
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
            places[j, k] = _place(shadow, law.low[k], law.step[k], law.bins[k])


@njit(cache=True, nogil=True)
def tally(places: Any, prefix_start: Any, cells: Any) -> None:
    """Add one to the cell of every point along every direction."""
    for j in range(places.shape[0]):
        for k in range(places.shape[1]):
            cells[prefix_start[k] + places[j, k]] += 1


@njit(cache=True, nogil=True)
def slice_walk(
    slices: Any, points: Any, shadows: Any, places: Any, prefix: Any, beta: Any, size: Any,
    steps: Any, rng: Any,
) -> Any:  # fmt: skip
    """Run the chain in place; return the change of the energy and the number of accepted steps.

    ``shadows`` and ``places`` (n, K) are projections and bins; ``prefix`` holds, per direction, the
    running sums of target minus own survival function. Point j going from bin a to bin c along
    direction k changes the energy by w h (|c - a| / n^2 - 2 / n (prefix[c] - prefix[a])).
    """
    n, numeric = points.shape[0], slices.numeric
    coordinates = points.shape[1]
    change, accepted = 0.0, 0
    moved = np.zeros(slices.step.shape[0])
    landed = np.zeros(slices.step.shape[0], dtype=np.int64)
    for _ in range(steps):
        j = rng.integers(0, n)
        c = rng.integers(0, coordinates)
        link, value, code = -1, 0.0, 0
        if c < numeric:
            if is_held(points[j], c, slices):
                continue
            if rng.random() < 0.25:
                value = rng.random()
            else:
                # Steps of many lengths: long ones while hot, short ones while cold.
                value = size * np.exp(-SCALES * rng.random()) * rng.standard_normal()
                value = fold(points[j, c] + value)
        else:
            code = other_code(points[j, c], slices.sizes[c - numeric], rng)
            link = slices.links[c - numeric]
            if link >= 0:
                value = rng.random() if code == 0 else 0.5
        first, last = slices.touch_start[c], slices.touch_start[c + 1]
        delta = 0.0
        for t in range(first, last):
            k = slices.touch[t]
            shadow = shadows[j, k]
            if c < numeric:
                shadow += slices.scales[k, c] * (value - points[j, c])
            else:
                at = slices.table_start[c - numeric]
                shadow += slices.table[k, at + code] - slices.table[k, at + int(points[j, c])]
                if link >= 0:
                    shadow += slices.scales[k, link] * (value - points[j, link])
            moved[t - first] = shadow
            place = _place(shadow, slices.low[k], slices.step[k], slices.bins[k])
            landed[t - first] = place
            old = places[j, k]
            if place != old:
                row = slices.prefix_start[k]
                gain = abs(place - old) / (n * n)
                gain -= 2.0 / n * (prefix[row + place] - prefix[row + old])
                delta += slices.weight[k] * gain
        if np.log(rng.random()) < -beta * delta:
            accepted += 1
            change += delta
            for t in range(first, last):
                k = slices.touch[t]
                shadows[j, k] = moved[t - first]
                old, place = places[j, k], landed[t - first]
                if place == old:
                    continue
                row = slices.prefix_start[k]
                low, high = min(old, place), max(old, place)
                sign = -1.0 / n if place > old else 1.0 / n
                for b in range(low + 1, slices.bins[k] + 1):
                    prefix[row + b] += sign * (min(b, high) - low)
                places[j, k] = place
            if c < numeric:
                points[j, c] = value
            else:
                points[j, c] = code
                if link >= 0:
                    points[j, link] = value
    return change, accepted
