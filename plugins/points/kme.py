"""Kernel mean embedding: one noisy mean of random features, and points fitted to it for free.

A table's mean in random Fourier features, in integers, and points fitted to a noisy one.

A row is the cosines and sines of its projections on public random waves: the mean over the rows is
an embedding of the table under a Gaussian kernel (Rahimi and Recht 2007). Each wave's pair is a
vector of length one, whatever the row, and is rounded to whole numbers before it is added: so the
sensitivity of a sum is a constant that rests on no floating-point sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from marginalsyn.access.visit import Visit
from marginalsyn.contract import Plan, Synthesis, option
from marginalsyn.errors import UsageError
from marginalsyn.graphical.estimation import warn_of_noise
from marginalsyn.plugins.points.point_generator import (
    BANDWIDTH,
    BANDWIDTH_SHARE,
    CountedConfig,
    PointGenerator,
)
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.progress import Progress
from marginalsyn.table.metric import Batch, PointSpace, weights_of
from marginalsyn.table.schema import Schema

UNIT = 2**20  # the length of a wave's pair after rounding to integers
ROUNDS, SWEEPS, STEPS = 4, 3, 60


class Waves(NamedTuple):
    """Random waves as the compiled functions take them; ``starts`` are of categories' codes."""

    scales: np.ndarray
    tables: np.ndarray
    starts: np.ndarray


@dataclass(frozen=True)
class RandomFourierFeatures:
    """Public random waves over the coordinates of a space.

    ``scales`` (F, numeric) and ``tables`` (F, codes of all categories) give the angles: a sum of
    scaled coordinates and of looked-up numbers.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> waves = RandomFourierFeatures.draw(PointSpace.cube(2), 50, 0.3, rng)
        >>> waves.measure([np.zeros((3, 2))])[0][:2].tolist()
        [3145728, 3145728]
    """

    space: PointSpace
    scales: np.ndarray
    tables: np.ndarray

    @classmethod
    def draw(
        cls, space: PointSpace, count: int, width: float, rng: np.random.Generator
    ) -> RandomFourierFeatures:
        """Waves of a Gaussian kernel that is ``width`` diameters wide."""
        wide = width * space.diameter
        scales = rng.standard_normal((count, space.numeric)) / wide
        tables = rng.standard_normal((count, int(space.sizes.sum()))) / wide
        # The distance of two codes is what their weight says.
        tables = tables * np.sqrt(np.repeat(space.weights, space.sizes) / 2.0)
        return cls(space, np.ascontiguousarray(scales), np.ascontiguousarray(tables))

    @property
    def count(self) -> int:
        """Number of waves."""
        return len(self.scales)

    @cached_property
    def waves(self) -> Waves:
        """Arrays for the compiled functions."""
        starts = np.concatenate([[0], np.cumsum(self.space.sizes)])[:-1].astype(np.int64)
        return Waves(self.scales, self.tables, starts)

    def angles(self, points: np.ndarray) -> np.ndarray:
        """The angles of points, (points, waves)."""
        found = np.empty((len(points), self.count))
        _angles(np.ascontiguousarray(points, dtype=float), self.waves, found)
        return found

    def measure(self, batches: Iterable[Batch], whole: int = 1) -> tuple[np.ndarray, int]:
        """The integers to add noise to, cosines before sines, and the number of rows.

        Sums of rows that weigh ``whole`` together are divided by it and rounded down, at the end.
        """
        sums, rows = np.zeros(2 * self.count, dtype=np.int64), 0
        parts = np.zeros_like(sums)
        for batch in batches:
            points, weights = weights_of(batch)
            found = np.zeros_like(sums)
            points = np.ascontiguousarray(points, dtype=float)
            _add_rows(points, weights, self.waves, found)
            # A batch's sums stay below 2^63; undivided, those of 2^23 persons could not.
            units, left = np.divmod(found, whole)
            sums += units
            parts += left
            rows += len(points)
        return sums + parts // whole, rows

    def sensitivity(self, neighbours: Neighbours, *, averaged: bool = False) -> float:
        """How much one row moves the integer sums, in Euclidean norm.

        A wave's pair is ``UNIT`` long; rounding moves both of its numbers by half at most. The
        relative slack covers cosines and sines in floating point. A row that is replaced moves
        twice that. A person's weighted rows move the sums by an average of those (``averaged``),
        and rounding down moves each by less than 1 more.
        """
        slack = math.sqrt(2 * self.count) if averaged else 0.0
        longest = math.sqrt(self.count) * (UNIT * (1 + 1e-9) + math.sqrt(0.5))
        return neighbours.l1 * longest + slack

    def mean(self, sums: np.ndarray, total: float, sigma: float) -> np.ndarray:
        """The table's embedding from noisy sums: each wave shrunk by the share that is noise."""
        found = np.asarray(sums, dtype=float).reshape(2, -1) / (UNIT * total)
        noise = 2.0 * (sigma / (UNIT * total)) ** 2
        squares = np.maximum(np.sum(found**2, axis=0), 1e-300)
        return (found * np.maximum(1.0 - noise / squares, 0.0)).ravel()

    def embed(self, points: np.ndarray) -> np.ndarray:
        """The embedding of points."""
        angles = self.angles(points)
        return np.concatenate([np.cos(angles).mean(axis=0), np.sin(angles).mean(axis=0)])

    def loss(self, mean: np.ndarray, points: np.ndarray) -> float:
        """The squared distance of points from an embedding."""
        return float(np.sum((self.embed(points) - mean) ** 2) / self.count)

    def fit(self, mean: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """Points whose embedding is near a given one: post-processing, so it is free.

        Numbers move by a quasi-Newton method, categories one at a time, in turn.
        """
        points = self.space.uniform(count, rng)
        for _ in range(ROUNDS if len(self.space.sizes) else 1):
            if len(self.space.sizes):
                for _ in range(SWEEPS):
                    _sweep(points, self.waves, mean, self.space.sizes, self.space.links)
            if self.space.numeric:
                self._move(mean, points)
        return points

    def _move(self, mean: np.ndarray, points: np.ndarray) -> None:
        """Move the numeric coordinates of points, in place."""
        from scipy.optimize import minimize

        count, numeric = len(points), self.space.numeric
        start = points[:, :numeric].copy()
        rest = points.copy()
        rest[:, :numeric] = 0.0
        fixed = self.angles(rest)
        low, high = np.zeros_like(start), np.ones_like(start)
        for c, link in enumerate(self.space.links):
            if link >= 0:  # what is missing stays in the middle
                missing = points[:, numeric + c] > 0
                low[missing, link] = high[missing, link] = 0.5

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            angles = fixed + flat.reshape(start.shape) @ self.scales.T
            cosines, sines = np.cos(angles), np.sin(angles)
            left = np.concatenate([cosines.mean(axis=0), sines.mean(axis=0)]) - mean
            slope = (cosines * left[self.count :] - sines * left[: self.count]) @ self.scales
            return float(left @ left), (2.0 / count * slope).ravel()

        bounds = list(zip(low.ravel(), high.ravel(), strict=True))
        start = np.clip(start, low, high)
        how = {"method": "L-BFGS-B", "jac": True, "options": {"maxiter": STEPS}}
        solved = minimize(loss, start.ravel(), bounds=bounds, **how)
        points[:, :numeric] = np.clip(solved.x.reshape(start.shape), low, high)


@njit(cache=True, nogil=True)
def _angle(point: Any, wave: Any, waves: Any) -> Any:
    numeric = waves.scales.shape[1]
    found = 0.0
    for c in range(numeric):
        found += waves.scales[wave, c] * point[c]
    for c in range(waves.starts.shape[0]):
        found += waves.tables[wave, waves.starts[c] + int(point[numeric + c])]
    return found


@njit(cache=True, nogil=True)
def _angles(points: Any, waves: Any, out: Any) -> None:
    for i in range(points.shape[0]):
        for f in range(waves.scales.shape[0]):
            out[i, f] = _angle(points[i], f, waves)


@njit(cache=True, nogil=True)
def _add_rows(points: Any, weights: Any, waves: Any, sums: Any) -> None:
    """Add every row's whole numbers: each a function of that row alone, wherever it lies."""
    many = waves.scales.shape[0]
    for i in range(points.shape[0]):
        for f in range(many):
            angle = _angle(points[i], f, waves)
            sums[f] += weights[i] * np.int64(np.rint(UNIT * np.cos(angle)))
            sums[many + f] += weights[i] * np.int64(np.rint(UNIT * np.sin(angle)))


@njit(cache=True, nogil=True)
def _sweep(points: Any, waves: Any, mean: Any, sizes: Any, links: Any) -> None:
    """Give every category of every point in turn the code that is best, in place."""
    n, (many, numeric) = points.shape[0], waves.scales.shape
    left = -mean.copy()
    angles = np.empty((n, many))
    for i in range(n):
        for f in range(many):
            angles[i, f] = _angle(points[i], f, waves)
            left[f] += np.cos(angles[i, f]) / n
            left[many + f] += np.sin(angles[i, f]) / n
    trial = np.empty(many)
    for i in range(n):
        for c in range(sizes.shape[0]):
            for f in range(many):
                left[f] -= np.cos(angles[i, f]) / n
                left[many + f] -= np.sin(angles[i, f]) / n
            old = points[i].copy()
            best, lowest = old.copy(), np.inf
            for code in range(sizes[c]):
                points[i, :] = old
                points[i, numeric + c] = code
                if links[c] >= 0 and code > 0:
                    points[i, links[c]] = 0.5
                value = 0.0
                for f in range(many):
                    angle = _angle(points[i], f, waves)
                    value += (left[f] + np.cos(angle) / n) ** 2
                    value += (left[many + f] + np.sin(angle) / n) ** 2
                if value < lowest:
                    lowest, best = value, points[i].copy()
            points[i, :] = best
            for f in range(many):
                trial[f] = _angle(points[i], f, waves)
                angles[i, f] = trial[f]
                left[f] += np.cos(trial[f]) / n
                left[many + f] += np.sin(trial[f]) / n


PUBLIC_SEED = 20_180_710  # of the waves: public geometry, the same for everybody


@dataclass(frozen=True, kw_only=True)
class KMEConfig(CountedConfig):
    """The mean of the rows in random Fourier features, with one Gaussian noise (Balog et al. 2018).

    Every row is a vector of one length, whatever the row, so the sensitivity of the sum is a
    constant and the guarantee is exact. Points are then fitted to the noisy mean (Algorithm 2 of
    Balog, Tolstikhin and Schoelkopf), as many and as often as one likes. It is the baseline that
    support points are compared with.

    Example:
        >>> generator = KMEConfig(rows=5000).configure(schema, Budget(eps=1))
        >>> round(generator.cost[0].cost.mu, 4)
        0.182
    """

    name = "kme"
    summary = (
        "kernel mean embedding: a noisy mean of random features, points fitted for free; exact"
    )
    audit_options = {
        "points": 1,
        "features": 2,
        # So narrow that some rows lie at opposite ends of a wave.
        "kernel_width": 0.02,
        "bandwidth": "0.1",
    }
    ranges = {"features": (1, 100_000)}

    points: int = option(200, "Number of fitted points; public. More points cost no privacy.")
    features: int = option(500, "Number of random waves, each a cosine and a sine.")
    kernel_width: float = option(
        0.3, "The kernel's standard deviation, as a share of the largest possible distance."
    )
    total_share: float = option(
        0.05, "Share of the budget for the number of rows, if that is private."
    )
    bandwidth: str = BANDWIDTH
    bandwidth_share: float = BANDWIDTH_SHARE

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.001 <= self.kernel_width <= 10:
            raise UsageError(f"kernel_width ({self.kernel_width}) must be from 0.001 to 10")

    def configure(self, schema: Schema, budget: Budget) -> KME:
        """One Gaussian measurement, after the number of rows."""
        return KME(config=self, schema=schema, budget=budget)


class KME(PointGenerator):
    """Calibrated: the waves are public, and so is the noise."""

    config: KMEConfig
    main, exact = "embedding", True

    @cached_property
    def feature_map(self) -> RandomFourierFeatures:

        rng, config = np.random.default_rng(PUBLIC_SEED), self.config
        return RandomFourierFeatures.draw(
            self.metric.space, config.features, config.kernel_width, rng
        )

    @cached_property
    def sigma(self) -> float:
        """The noise of every sum, in units of the grid."""
        relation = self.budget.neighbours
        return self.noise_for(self.feature_map.sensitivity(relation, averaged=self.averaged))

    @property
    def cost(self) -> tuple[Charge, ...]:
        details = {"features": self.config.features, "sigma": self.sigma}
        return (self.budget.gaussian_charge("kernel mean embedding", details),)

    @property
    def plan(self) -> Plan:
        """Shares, the features and the noise."""
        facts = {
            "points": self.config.points,
            "features": self.config.features,
            "coordinates": self.metric.space.dimension,
            "sigma": self.sigma,
            "guarantee": "exact",
        }
        return Plan(split=self.split, facts=facts)

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        config, feature_map, rng = self.config, self.feature_map, visit.noise.post

        # Measure.
        progress.report("measure", text="mean of the features")
        total, spread = self.count_rows(visit)
        sums, _ = feature_map.measure(self.metric.weighed(visit), visit.whole)
        l2 = feature_map.sensitivity(visit.neighbours, averaged=visit.whole > 1)
        released = visit.draw(visit.gaussian(self.sigma), sums, l2=l2, purpose="mean embedding")

        # Estimate: post-processing, free of privacy cost unless a bandwidth is bought.
        progress.report("estimate", text="fit points to the mean")
        mean = feature_map.mean(released, total, self.sigma)
        points = feature_map.fit(mean, config.points, rng)

        # Generate.
        return self.draw(
            visit,
            points,
            progress,
            loss=lambda drawn: feature_map.loss(mean, drawn),
            arrays={"released": released},
            warnings=warn_of_noise(total, spread) if spread else (),
            notes={"estimated_rows": total, "estimated_rows_sd": spread},
        )
