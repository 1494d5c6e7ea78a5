"""A walk on sliced counts: a proposal moves one point in one coordinate."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from marginalsyn.plugins.points.candidates import fold, is_missing, other_code
from marginalsyn.plugins.points.driver import Kernel, StepInfo
from marginalsyn.plugins.points.slices import SliceLaw, Slices, bin_of

LONGEST = 0.3  # the default standard deviation of the longest moves
SCALES = 4.0  # moves are down to exp(-4) as long


class SliceState(NamedTuple):
    """Points, their projections and bins, and the running sums of what is left of the target.

    ``energy`` is the weighted squared difference between the target's survival functions and the
    points' own.
    """

    points: np.ndarray
    shadows: np.ndarray
    places: np.ndarray
    prefix: np.ndarray
    energy: float


def init(points: np.ndarray, slices: Slices, survival: np.ndarray) -> SliceState:
    """The state at ``points`` for a target given as the share beyond every threshold."""
    points = np.array(points, dtype=float)
    left = survival - slices.beyond(points) / len(points)
    energy = float(np.sum(slices.factors * left**2))
    prefix = np.zeros(slices.starts[-1] + slices.count)
    for k, start in enumerate(slices.law.prefix_start):
        part = left[slices.starts[k] : slices.starts[k + 1]]
        prefix[start + 1 : start + 1 + len(part)] = np.cumsum(part)
    return SliceState(points, *slices.project(points), prefix, energy)


def step(
    rng: np.random.Generator,
    state: SliceState,
    law: SliceLaw,
    steps: int = 1,
    *,
    beta: float,
    size: float = LONGEST,
) -> tuple[SliceState, StepInfo]:
    """Take ``steps`` steps at the inverse temperature ``beta``."""
    points, shadows, places, prefix = (part.copy() for part in state[:4])
    change, accepted = _walk(law, points, shadows, places, prefix, beta, size, steps, rng)
    after = SliceState(points, shadows, places, prefix, state.energy + float(change))
    return after, StepInfo(int(accepted), steps)


def build_kernel(slices: Slices, survival: np.ndarray, points: int) -> Kernel[SliceState]:
    """The kernel for sets of ``points`` points."""
    law = slices.law
    return Kernel(
        law,
        start=lambda rng: init(slices.space.uniform(points, rng), slices, survival),
        step=lambda rng, state, steps, beta, size: step(
            rng, state, law, steps, beta=beta, size=size
        ),
        mean=lambda state: state.points.mean(axis=0),
    )


@njit(cache=True, nogil=True)
def _walk(
    law: Any, points: Any, shadows: Any, places: Any, prefix: Any, beta: Any, size: Any,
    steps: Any, rng: Any,
) -> Any:  # fmt: skip
    """Run the chain in place; return the change of the energy and the number of accepted steps.

    ``shadows`` and ``places`` (n, K) are projections and bins; ``prefix`` holds, per direction, the
    running sums of target minus own survival function. Point j going from bin a to bin c along
    direction k changes the energy by w h (|c - a| / n^2 - 2 / n (prefix[c] - prefix[a])).
    """
    n, numeric = points.shape[0], law.numeric
    coordinates = points.shape[1]
    change, accepted = 0.0, 0
    moved = np.zeros(law.step.shape[0])
    landed = np.zeros(law.step.shape[0], dtype=np.int64)
    for _ in range(steps):
        j = rng.integers(0, n)
        c = rng.integers(0, coordinates)
        link, value, code = -1, 0.0, 0
        if c < numeric:
            if is_missing(points[j], c, law):
                continue
            if rng.random() < 0.25:
                value = rng.random()
            else:
                # Steps of many lengths: long ones while hot, short ones while cold.
                value = size * np.exp(-SCALES * rng.random()) * rng.standard_normal()
                value = fold(points[j, c] + value)
        else:
            code = other_code(points[j, c], law.sizes[c - numeric], rng)
            link = law.links[c - numeric]
            if link >= 0:
                value = rng.random() if code == 0 else 0.5
        first, last = law.touch_start[c], law.touch_start[c + 1]
        delta = 0.0
        for t in range(first, last):
            k = law.touch[t]
            shadow = shadows[j, k]
            if c < numeric:
                shadow += law.scales[k, c] * (value - points[j, c])
            else:
                at = law.table_start[c - numeric]
                shadow += law.table[k, at + code] - law.table[k, at + int(points[j, c])]
                if link >= 0:
                    shadow += law.scales[k, link] * (value - points[j, link])
            moved[t - first] = shadow
            place = bin_of(shadow, law.low[k], law.step[k], law.bins[k])
            landed[t - first] = place
            old = places[j, k]
            if place != old:
                row = law.prefix_start[k]
                gain = abs(place - old) / (n * n)
                gain -= 2.0 / n * (prefix[row + place] - prefix[row + old])
                delta += law.weight[k] * gain
        if np.log(rng.random()) < -beta * delta:
            accepted += 1
            change += delta
            for t in range(first, last):
                k = law.touch[t]
                shadows[j, k] = moved[t - first]
                old, place = places[j, k], landed[t - first]
                if place == old:
                    continue
                row = law.prefix_start[k]
                low, high = min(old, place), max(old, place)
                sign = -1.0 / n if place > old else 1.0 / n
                for b in range(low + 1, law.bins[k] + 1):
                    prefix[row + b] += sign * (min(b, high) - low)
                places[j, k] = place
            if c < numeric:
                points[j, c] = value
            else:
                points[j, c] = code
                if link >= 0:
                    points[j, link] = value
    return change, accepted
