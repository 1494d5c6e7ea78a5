"""From few points to full tables: kernels at the points, and three ways to choose their width.

A row is a point plus a Gaussian of standard deviation ``bandwidth`` in every numeric coordinate,
reflected into the bounds. A category changes with the probability that Gaussian noise of the same
width on its scaled one-hot vector would change the largest entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numba import njit

from marginalsyn.access.visit import Visit
from marginalsyn.errors import UsageError
from marginalsyn.graphical.estimation import impossible_rows, redraw, zeros_of
from marginalsyn.plugins.points.metric import Batch, Metric, PointSpace, weights_of
from marginalsyn.privacy.charges import Neighbours

WIDTHS = tuple(float(w) for w in np.geomspace(0.005, 0.25, 18))
"""The public grid of bandwidths."""
TRUNCATION = 0.1  # share of the uniform law mixed into the density
LOG_RANGE = 10.0  # a record's log-density is cut off this far above its least value
_TRIALS = 2000


def switch_probability(size: int, weight: float, bandwidth: float) -> float:
    """How often a category of ``size`` codes changes; ``weight`` is how far apart codes are.

    Example:
        >>> switch_probability(2, 1.0, 1e-3)
        0.0
    """
    from scipy.special import ndtr

    gap = math.sqrt(weight / 2.0) / bandwidth
    z = np.linspace(-9.0, 9.0, 2001)
    density = np.exp(-(z**2) / 2.0)
    stays = float(np.sum(density * ndtr(z + gap) ** (size - 1)) / density.sum())
    return min(max(1.0 - stays, 0.0), 1.0 - 1.0 / size)


def spread(
    points: np.ndarray, rows: int, bandwidth: float, space: PointSpace, rng: np.random.Generator
) -> np.ndarray:
    """Draw rows around the points, each point as often as any other up to one.

    Args:
        points: centres, (points, coordinates).
        rows: how many to draw.
        bandwidth: standard deviation of the kernel; 0 copies the points.
        space: what the coordinates are.
        rng: draws the rows.
    """
    order = np.concatenate([rng.permutation(len(points)) for _ in range(-(-rows // len(points)))])[
        :rows
    ]
    drawn = points[rng.permutation(order)].copy()
    if bandwidth <= 0:
        return drawn
    numeric = space.numeric
    noise = bandwidth * rng.standard_normal((rows, numeric))
    moved = np.abs(drawn[:, :numeric] + noise) % 2.0
    moved = np.where(moved > 1.0, 2.0 - moved, moved)
    fresh = rng.random((rows, len(space.sizes)))
    for c, (size, weight, link) in enumerate(
        zip(space.sizes, space.weights, space.links, strict=True)
    ):
        codes = drawn[:, numeric + c]
        switched = rng.random(rows) < switch_probability(int(size), float(weight), bandwidth)
        others = rng.integers(0, size - 1, rows)
        others += others >= codes
        if link >= 0:  # a number that was missing comes from anywhere
            moved[:, link] = np.where(codes > 0, fresh[:, c], moved[:, link])
        drawn[:, numeric + c] = np.where(switched, others, codes)
        if link >= 0:
            moved[drawn[:, numeric + c] > 0, link] = 0.5
    drawn[:, :numeric] = moved
    return drawn


def keep_possible(
    points: np.ndarray,
    metric: Metric,
    draw: Callable[[int], np.ndarray],
    rng: np.random.Generator,
) -> np.ndarray:
    """Replace points in structural zeros: by fresh draws, then uniform ones, then copies."""
    zeros = zeros_of(metric.schema)
    if not zeros:
        return points
    return redraw(
        points,
        lambda some: impossible_rows(metric.codes(some), zeros),
        draw,
        lambda count: metric.space.uniform(count, rng),
        rng,
    )


def width_by_loss(
    points: np.ndarray,
    loss: Callable[[np.ndarray], float],
    space: PointSpace,
    rng: np.random.Generator,
) -> float:
    """The width on the public grid whose draws have the least loss: post-processing, so free.

    ``loss`` is, say, the energy to a released potential. All widths see the same random numbers.
    """
    seed = int(rng.integers(0, 2**63))
    losses = [
        loss(spread(points, max(_TRIALS, len(points)), width, space, np.random.default_rng(seed)))
        for width in WIDTHS
    ]
    return WIDTHS[int(np.argmin(losses))]


def width_by_points(points: np.ndarray, space: PointSpace) -> float:
    """A width from the points alone, also free: half the usual distance to the nearest other one.

    That distance is shared out over the coordinates, as a Gaussian step of the width would be.
    """
    from marginalsyn.plugins.points.energy import distance_matrix

    if len(points) < 2 or space.numeric == 0:
        return WIDTHS[0]
    apart = distance_matrix(points, points, space=space) + np.diag(np.full(len(points), np.inf))
    near = float(np.median(apart.min(axis=1)))
    return float(np.clip(near / (2.0 * math.sqrt(space.numeric)), WIDTHS[0], WIDTHS[-1]))


@njit(cache=True, nogil=True)
def _log_densities(
    rows: Any, weights: Any, points: Any, widths: Any, stays: Any, numeric: Any, sizes: Any,
    links: Any, truncation: Any, cut: Any, out: Any,
) -> None:  # fmt: skip
    """Add every record's truncated log-density, for every width, to ``out``."""
    n = points.shape[0]
    for s in range(widths.shape[0]):
        width = widths[s]
        scale = 1.0 / (np.sqrt(2.0 * np.pi) * width)
        for i in range(rows.shape[0]):
            total = 0.0
            for j in range(n):
                density = 1.0
                for c in range(sizes.shape[0]):
                    same = rows[i, numeric + c] == points[j, numeric + c]
                    keep = stays[s, c]
                    density *= sizes[c] * (keep if same else (1.0 - keep) / (sizes[c] - 1))
                for c in range(numeric):
                    held = False
                    anywhere = False
                    for k in range(links.shape[0]):
                        if links[k] == c:
                            held = rows[i, numeric + k] != 0
                            anywhere = points[j, numeric + k] != 0
                    if held or anywhere:
                        continue
                    part = 0.0
                    for image in range(-1, 2):  # reflections at both ends
                        near = (rows[i, c] - points[j, c] - 2.0 * image) / width
                        far = (rows[i, c] + points[j, c] - 2.0 * image) / width
                        part += np.exp(-near * near / 2.0) + np.exp(-far * far / 2.0)
                    density *= scale * part
                total += density
            value = np.log((1.0 - truncation) * total / n + truncation) - np.log(truncation)
            out[s] += weights[i] * min(max(value, 0.0), cut)


def log_densities(
    batches: Iterable[Batch],
    points: np.ndarray,
    space: PointSpace,
    widths: Sequence[float] = WIDTHS,
    whole: int = 1,
) -> np.ndarray:
    """Sum over rows of the truncated log-density at the rows, for every width.

    One row adds between 0 and ``LOG_RANGE`` to every entry: the density is relative to the uniform
    law, a tenth of which is mixed in, and the cut is made on every row. Rows with weights count for
    their share of ``whole``, so that those of one person add an average of such numbers.
    """
    stays = np.array(
        [
            [
                1.0 - switch_probability(int(size), float(weight), width)
                for size, weight in zip(space.sizes, space.weights, strict=True)
            ]
            for width in widths
        ]
    ).reshape(len(widths), len(space.sizes))
    out = np.zeros(len(widths))
    for batch in batches:
        rows, weights = weights_of(batch)
        _log_densities(
            rows, weights / whole, points, np.array(widths), stays, space.numeric, space.sizes,
            space.links, TRUNCATION, LOG_RANGE, out,
        )  # fmt: skip
    return out


def width_by_likelihood(visit: Visit, points: np.ndarray, metric: Metric, *, eps: float) -> float:
    """A width by the exponential mechanism on the truncated log-likelihood; costs ``eps``.

    The sum over rows is the score. Do not divide by the number of rows: it is private. A row
    changes every score by 0 to LOG_RANGE if it is added, by at most LOG_RANGE either way if it is
    replaced.
    """
    scores = log_densities(metric.weighed(visit), points, metric.space, whole=visit.whole)
    one_sided = visit.neighbours is Neighbours.ADD_REMOVE
    chosen = visit.select(
        scores,
        eps=eps,
        sensitivity=LOG_RANGE / 2.0 if one_sided else LOG_RANGE,
        purpose="bandwidth by likelihood",
    )
    return WIDTHS[chosen]


def parse_bandwidth(text: str) -> float | None:
    """The number in a ``bandwidth`` option; None where it names a way to choose one.

    Example:
        >>> parse_bandwidth("0.05"), parse_bandwidth("auto")
        (0.05, None)
    """
    if text in ("auto", "likelihood"):
        return None
    try:
        width = float(text)
    except ValueError:
        width = math.nan
    if not 0.0 <= width <= 1.0:
        raise UsageError(f"bandwidth ({text}) must be auto, likelihood, or a number from 0 to 1")
    return width
