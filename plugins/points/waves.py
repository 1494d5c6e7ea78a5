"""A table's mean in random Fourier features, in integers, and points fitted to a noisy one.

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
from typing import Any

import numpy as np
from numba import njit

from marginalsyn.plugins.points.metric import Batch, PointSpace, weights_of
from marginalsyn.privacy.charges import Neighbours

UNIT = 2**20  # the length of a wave's pair after rounding to integers
ROUNDS, SWEEPS, STEPS = 4, 3, 60


@dataclass(frozen=True)
class Waves:
    """Public random waves over the coordinates of a space.

    ``scales`` (F, numeric) and ``tables`` (F, codes of all categories) give the angles: a sum of
    scaled coordinates and of looked-up numbers.

    Example:
        >>> waves = Waves.draw(PointSpace.cube(2), 50, 0.3, np.random.default_rng(0))
        >>> waves.measure([np.zeros((3, 2))])[0][:2].tolist()
        [3145728, 3145728]
    """

    space: PointSpace
    scales: np.ndarray
    tables: np.ndarray

    @classmethod
    def draw(cls, space: PointSpace, count: int, width: float, rng: np.random.Generator) -> Waves:
        """Waves of a Gaussian kernel that is ``width`` diameters wide."""
        wide = width * space.diameter
        scales = rng.standard_normal((count, space.numeric)) / wide
        tables = rng.standard_normal((count, int(space.sizes.sum()))) / wide
        # Two codes are as far apart as their weight says.
        tables = tables * np.sqrt(np.repeat(space.weights, space.sizes) / 2.0)
        return cls(space, np.ascontiguousarray(scales), np.ascontiguousarray(tables))

    @property
    def count(self) -> int:
        """Number of waves."""
        return len(self.scales)

    @cached_property
    def starts(self) -> np.ndarray:
        """Where each category's codes start in ``tables``."""
        return np.concatenate([[0], np.cumsum(self.space.sizes)])[:-1].astype(np.int64)

    def angles(self, points: np.ndarray) -> np.ndarray:
        """The angles of points, (points, waves)."""
        found = np.empty((len(points), self.count))
        _angles(
            np.ascontiguousarray(points, dtype=float), self.scales, self.tables, self.starts, found
        )
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
            _add_rows(
                np.ascontiguousarray(points, dtype=float),
                weights,
                self.scales,
                self.tables,
                self.starts,
                found,
            )
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
                    _sweep(
                        points,
                        self.scales,
                        self.tables,
                        self.starts,
                        mean,
                        self.space.sizes,
                        self.space.links,
                    )
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
                held = points[:, numeric + c] > 0
                low[held, link] = high[held, link] = 0.5

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
def _angle(point: Any, wave: Any, scales: Any, tables: Any, starts: Any) -> Any:
    numeric = scales.shape[1]
    found = 0.0
    for c in range(numeric):
        found += scales[wave, c] * point[c]
    for c in range(starts.shape[0]):
        found += tables[wave, starts[c] + int(point[numeric + c])]
    return found


@njit(cache=True, nogil=True)
def _angles(points: Any, scales: Any, tables: Any, starts: Any, out: Any) -> None:
    for i in range(points.shape[0]):
        for f in range(scales.shape[0]):
            out[i, f] = _angle(points[i], f, scales, tables, starts)


@njit(cache=True, nogil=True)
def _add_rows(points: Any, weights: Any, scales: Any, tables: Any, starts: Any, sums: Any) -> None:
    """Add every row's whole numbers: each a function of that row alone, wherever it lies."""
    many = scales.shape[0]
    for i in range(points.shape[0]):
        for f in range(many):
            angle = _angle(points[i], f, scales, tables, starts)
            sums[f] += weights[i] * np.int64(np.rint(UNIT * np.cos(angle)))
            sums[many + f] += weights[i] * np.int64(np.rint(UNIT * np.sin(angle)))


@njit(cache=True, nogil=True)
def _sweep(
    points: Any, scales: Any, tables: Any, starts: Any, mean: Any, sizes: Any, links: Any
) -> None:
    """Give every category of every point in turn the code that is best, in place."""
    n, many, numeric = points.shape[0], scales.shape[0], scales.shape[1]
    left = -mean.copy()
    angles = np.empty((n, many))
    for i in range(n):
        for f in range(many):
            angles[i, f] = _angle(points[i], f, scales, tables, starts)
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
                    angle = _angle(points[i], f, scales, tables, starts)
                    value += (left[f] + np.cos(angle) / n) ** 2
                    value += (left[many + f] + np.sin(angle) / n) ** 2
                if value < lowest:
                    lowest, best = value, points[i].copy()
            points[i, :] = best
            for f in range(many):
                trial[f] = _angle(points[i], f, scales, tables, starts)
                angles[i, f] = trial[f]
                left[f] += np.cos(trial[f]) / n
                left[many + f] += np.sin(trial[f]) / n
