"""Sliced energy in integer counts: public directions, public thresholds, exact sensitivities.

The energy of two measures on a line is twice the integral of their distribution functions' squared
difference, and the mean over directions of the energies of the projections is itself an energy
distance (a constant times the Euclidean one if all directions are equally likely). So a table is
measured well for it by counting, along every direction, the rows beyond every threshold.

With spacing h_k and weight w_k a threshold's count enters the energy with the factor w_k h_k, and
noise of standard deviation ``sigma / sqrt(w_k h_k)`` on it has the same strength along every
direction. Counts are integers: no sensitivity here depends on floating point.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from marginalsyn.privacy.charges import Neighbours
from marginalsyn.table.metric import Batch, PointSpace, weights_of

FEW = 3  # numeric coordinates alone are seen from all sides, with nothing else
PER_COORDINATE = 40  # directions over the numeric coordinates, for each of up to five of them
MOST_PAIRED = 2000  # directions that pair a category with another column
SINGLE_SHARE, SINGLE_SHARE_NUMERIC = 0.5, 0.2  # of the columns alone; less without categories

OFFSET = 0.4876  # of a step: thresholds in the middle, but on no round number

Entry = dict[int, np.ndarray]
"""A direction: per coordinate a factor, or a number for each of its codes."""

BATCH = 4096  # rows projected at a time, for memory's sake


@dataclass(frozen=True)
class Slices:
    """Directions over the coordinates of a space, and thresholds along each.

    ``scales`` (K, numeric) and ``tables`` (one (K, codes) array per categorical coordinate) give
    the projection: a sum of scaled coordinates and of looked-up numbers. Along direction k there
    are ``bins[k]`` thresholds from ``low[k]`` in steps of ``step[k]``; row i is in bin b if b of
    them lie at or below its projection. ``shares`` sum to one. ``single[k]`` is the categorical
    coordinate of which direction k is one category, or -1.
    """

    space: PointSpace
    scales: np.ndarray
    tables: tuple[np.ndarray, ...]
    low: np.ndarray
    step: np.ndarray
    bins: np.ndarray
    shares: np.ndarray
    single: np.ndarray

    @property
    def count(self) -> int:
        """Number of directions."""
        return len(self.low)

    @cached_property
    def starts(self) -> np.ndarray:
        """Where each direction's thresholds start in a flat array of all; one more for the end."""
        return _starts(self.bins)

    @cached_property
    def owner(self) -> np.ndarray:
        """The direction of every threshold."""
        return np.repeat(np.arange(self.count), self.bins)

    @cached_property
    def factors(self) -> np.ndarray:
        """What a squared difference of distribution functions counts for, per threshold."""
        return (self.shares * self.step)[self.owner]

    @cached_property
    def middle(self) -> np.ndarray:
        """1 where counts are taken as twice the rows beyond minus all rows, 0 where as twice those.

        Half-way counts have entries of +-1 for every row, which is the least any centring can do
        for a threshold that splits the range; a single category's count is best left alone.
        """
        return (self.single < 0).astype(np.int64)[self.owner]

    @cached_property
    def law(self) -> SliceLaw:
        """Arrays for the compiled kernels."""
        space = self.space
        seen = [self.scales[:, c] != 0 for c in range(space.numeric)]
        seen += [np.any(table != 0, axis=1) for table in self.tables]
        touched = [*seen]
        for c, link in enumerate(space.links):  # a code that holds a number moves it as well
            if link >= 0:
                touched[space.numeric + c] = seen[space.numeric + c] | seen[link]
        part = np.array(seen).reshape(space.dimension, self.count).T
        touch = np.array(touched).reshape(space.dimension, self.count)
        sizes = [table.shape[1] for table in self.tables]
        return SliceLaw(
            space.numeric,
            space.sizes,
            space.links,
            np.ascontiguousarray(self.scales),
            np.concatenate([np.zeros((self.count, 0)), *self.tables], axis=1),
            _starts(sizes),
            self.low,
            self.step,
            self.bins,
            self.shares * self.step,
            self.starts[:-1] + np.arange(self.count),
            _starts(touch.sum(axis=1)),
            np.nonzero(touch)[1],
            _starts(part.sum(axis=1)),
            np.nonzero(part)[1],
        )

    def project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Projections and bins of points, both (points, directions)."""
        points = np.ascontiguousarray(points, dtype=float)
        shadows = np.empty((len(points), self.count))
        places = np.empty((len(points), self.count), dtype=np.int64)
        project(self.law, points, shadows, places)
        return shadows, places

    def beyond(self, points: np.ndarray) -> np.ndarray:
        """Points beyond every threshold, an exact int64 count per threshold."""
        return self._beyond([points])[0]

    def measure(self, batches: Iterable[Batch]) -> tuple[np.ndarray, int]:
        """The integers to add noise to, ``2 * beyond - middle * rows``, and the number of rows.

        Rows with weights count as much, so of persons all is in parts of one.
        """
        beyond, rows = self._beyond(batches)
        return 2 * beyond - self.middle * rows, rows

    def _beyond(self, batches: Iterable[Batch]) -> tuple[np.ndarray, int]:
        starts = self.law.prefix_start  # a direction has one cell more than thresholds
        cells = np.zeros(self.starts[-1] + self.count, dtype=np.int64)
        rows = 0
        for batch in batches:
            points, weights = weights_of(batch)
            for first in range(0, len(points), BATCH):
                part = slice(first, first + BATCH)
                tally(self.project(points[part])[1], weights[part], starts, cells)
            rows += int(weights.sum())
        ends = starts + self.bins + 1
        parts = [np.cumsum(cells[a:b][::-1])[::-1][1:] for a, b in zip(starts, ends, strict=True)]
        return np.concatenate(parts), rows

    def answers(self, values: np.ndarray, total: float) -> np.ndarray:
        """The share of rows beyond every threshold, from (noisy) measured values."""
        return (np.asarray(values, dtype=float) / total + self.middle) / 2.0

    def sensitivity(self, neighbours: Neighbours) -> float:
        """Largest change of the values divided by ``noise_scale(1)``, in Euclidean norm.

        Add-remove: a row adds +-1 at every half-way threshold, and 2 at the single categories that
        it is in. Replace: along a direction +-2 at the thresholds between the two projections, of
        which there are at most ``bins`` and at most the distance over the step, plus one;
        Cauchy-Schwarz over the directions bounds the sum of the distances.
        """
        half = self.single < 0
        alone = 0.0
        for c, table in enumerate(self.tables):
            mine = self.single == c
            inside = table[mine] >= self.low[mine][:, None]
            alone += float(np.max((self.shares * self.step)[mine] @ inside, initial=0.0))
        width = self.shares * self.step * self.bins
        if neighbours is Neighbours.ADD_REMOVE:
            return math.sqrt(math.fsum(width[half]) / 4.0 + alone) * (1 + 1e-12)
        vectors = self._vectors()[half] * np.sqrt(self.shares[half])[:, None]
        spread = float(np.linalg.norm(vectors, 2)) if len(vectors) else 0.0
        diagonal = math.sqrt(self.space.columns) * spread * math.sqrt(self.shares[half].sum())
        near = diagonal * (1 + 1e-9) + math.fsum((self.shares * self.step)[half])
        return math.sqrt(min(math.fsum(width[half]), near) + 2 * alone) * (1 + 1e-12)

    def loss(self, survival: np.ndarray, points: np.ndarray) -> float:
        """Sliced energy of points to a (noisy) share of rows beyond every threshold, halved."""
        return float(np.sum(self.factors * (survival - self.beyond(points) / len(points)) ** 2))

    def beta(self, total: float, sigma: float) -> float:
        """The likelihood's inverse temperature, for a whitened ``sigma``."""
        return total**2 / (2.0 * sigma**2)

    def noise_scale(self, sigma: float) -> np.ndarray:
        """Standard deviation of the noise of every value for a whitened ``sigma``."""
        return 2.0 * sigma / np.sqrt(self.factors)

    def _vectors(self) -> np.ndarray:
        """Directions in one-hot coordinates scaled so that codes have the metric's distances."""
        parts = [self.scales]
        for table, weight in zip(self.tables, self.space.weights, strict=True):
            centred = table - table.mean(axis=1, keepdims=True)
            parts.append(centred / math.sqrt(weight / 2.0))
        return np.concatenate(parts, axis=1)


def isotropic(space: PointSpace, directions: int, bins: int, rng: np.random.Generator) -> Slices:
    """Directions uniform on the sphere of numeric coordinates: Euclidean energy in the limit."""
    entries = _dense(space, directions, rng)
    return _build(space, entries, np.ones(len(entries)), bins)


def public_slices(
    space: PointSpace, directions: int | None, bins: int, rng: np.random.Generator
) -> Slices:
    """Directions that suit a space, all of them public.

    Every column alone; the numeric ones from all sides, which sees how they depend on one another
    at once; and every category's column with every other one, since in one-hot coordinates a
    random direction sees little but noise. The more pairs of columns a family serves, the larger
    its share.
    """
    numeric, coded = space.numeric, len(space.sizes)
    if coded == 0 and numeric <= FEW:
        return isotropic(space, directions or PER_COORDINATE * numeric, bins, rng)
    count = directions or PER_COORDINATE * min(numeric, 5)
    between = numeric * (numeric - 1) // 2
    others = coded * numeric + coded * (coded - 1) // 2
    families = [
        (_alone(space), SINGLE_SHARE if coded else SINGLE_SHARE_NUMERIC),
        (_dense(space, count, rng) if between else [], float(between)),
        (_with_codes(space, min(max(MOST_PAIRED // max(others, 1), 1), 4), rng), float(others)),
    ]
    alone = families[0][1] if between + others else 1.0
    shares = [np.full(len(families[0][0]), alone / space.dimension)]
    for entries, pairs in families[1:]:
        if entries:
            share = (1.0 - alone) * pairs / (between + others)
            shares.append(np.full(len(entries), share / len(entries)))
    entries = [entry for family, _ in families for entry in family]
    return _build(space, entries, np.concatenate(shares), bins)


def _starts(sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    """Where lists of these lengths begin when laid end to end, and the end."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _alone(space: PointSpace) -> list[Entry]:
    """Every numeric coordinate, and every single category."""
    entries = [{c: np.ones(1)} for c in range(space.numeric)]
    for c, size in enumerate(space.sizes):
        entries += [{space.numeric + c: row} for row in np.eye(int(size))]
    return entries


def _dense(space: PointSpace, count: int, rng: np.random.Generator) -> list[Entry]:
    """At least ``count`` directions over the numeric coordinates, from all sides."""
    d = space.numeric
    if d == 1:
        return [{0: np.ones(1)}]
    if d == 2:
        angles = np.pi * (np.arange(count) + 0.5) / count
        raw = np.column_stack([np.cos(angles), np.sin(angles)])
    else:  # random orthonormal bases look evenly in all directions
        bases = [np.linalg.qr(rng.standard_normal((d, d)))[0].T for _ in range(-(-count // d))]
        raw = np.concatenate(bases)
    return [{c: row[c : c + 1] for c in range(d)} for row in raw]


def _with_codes(space: PointSpace, per_pair: int, rng: np.random.Generator) -> list[Entry]:
    """Every categorical coordinate with every other coordinate: half of its codes against half."""
    entries = []
    for a, b in combinations(range(space.dimension), 2):
        if b < space.numeric:
            continue
        for turn in range(per_pair):
            entry = {}
            for coordinate, factor in ((a, 1.0), (b, -1.0 if turn % 2 else 1.0)):
                values = np.ones(1)
                if coordinate >= space.numeric:
                    size = int(space.sizes[coordinate - space.numeric])
                    values = (rng.permutation(size) < max(size // 2, 1)).astype(float)
                entry[coordinate] = factor * math.sqrt(0.5) * values
            entries.append(entry)
    return entries


def _build(space: PointSpace, entries: list[Entry], shares: np.ndarray, bins: int) -> Slices:
    """Thresholds over the public range of every direction; one where it is a single category."""
    scales = np.zeros((len(entries), space.numeric))
    tables = [np.zeros((len(entries), int(size))) for size in space.sizes]
    single = np.full(len(entries), -1)
    for k, entry in enumerate(entries):
        for coordinate, values in entry.items():
            if coordinate < space.numeric:
                scales[k, coordinate] = values[0]
            else:
                tables[coordinate - space.numeric][k] = values
                if len(entry) == 1:
                    single[k] = coordinate - space.numeric
    least = np.minimum(scales, 0).sum(axis=1)
    most = np.maximum(scales, 0).sum(axis=1)
    for table in tables:
        least, most = least + table.min(axis=1), most + table.max(axis=1)
    counts = np.where(single >= 0, 1, bins)
    step = (most - least) / counts
    low = least + OFFSET * step
    return Slices(space, scales, tuple(tables), low, step, counts, shares / shares.sum(), single)


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
