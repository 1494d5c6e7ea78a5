"""The whole potential of a table on a public lattice, released with one Gaussian noise.

With the kernel ``k(u, v) = U_nu(u) + U_nu(v) - |u - v| - I_nu`` (nu the uniform law on the cube's
corners, U_nu its potential) a row is a vector phi(x) in a Hilbert space and
``|phi(x) - phi(x')|^2 = 2 |x - x'|``, so the energy distance is the squared distance of mean
vectors. Rows are first moved to the nearest lattice point, a public map of a single row; the
lattice's vectors are written out by the eigenvectors of K, scaled and rounded to integers. Then a
table is a sum of integer vectors and its sensitivity is a maximum over a public finite set,
computed in integers. Gaussian noise of the same strength in every direction of the Hilbert space
is all it takes: how many points are fitted afterwards, and how often, costs nothing.

Why corners: under add-remove one row adds phi(x), and ``|phi(x)|^2 = 2 U_nu(x) - I_nu`` is convex
in x, largest at the corners, and by symmetry equal to I_nu there. No other centre has a smaller
maximum, since ``max_x |phi(x)|^2 >= E_nu |phi(x)|^2 = I_nu`` for every centre. In two dimensions
that is 0.854, where the cube's middle as centre gives 1.414.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.plugins.points.energy import distance_matrix
from marginalsyn.plugins.points.metric import Batch, PointSpace, weights_of
from marginalsyn.privacy.charges import Neighbours

LONGEST = 2**20  # length of the longest vector after rounding to integers


@dataclass(frozen=True)
class Field:
    """A lattice of ``side`` points per axis over the cube of a numeric space.

    Example:
        >>> field = Field(PointSpace.cube(2), side=9)
        >>> len(field.lattice)
        81
    """

    space: PointSpace
    side: int

    def __post_init__(self) -> None:
        if len(self.space.weights) or self.space.numeric < 1:
            raise UsageError(
                "the field form takes numeric and ordinal columns without missing values only; "
                "use the form 'slices'"
            )

    @cached_property
    def lattice(self) -> np.ndarray:
        """The lattice points, in the order of their flat index."""
        axis = np.linspace(0.0, 1.0, self.side)
        axes = np.meshgrid(*[axis] * self.space.numeric, indexing="ij")
        return np.stack(axes, axis=-1).reshape(-1, self.space.numeric)

    @cached_property
    def apart(self) -> np.ndarray:
        """All distances between lattice points."""
        return distance_matrix(self.lattice, self.lattice, space=self.space)

    @cached_property
    def reach(self) -> np.ndarray:
        """U_nu on the lattice: the mean distance to the corners."""
        corner = np.all((self.lattice == 0.0) | (self.lattice == 1.0), axis=1)
        return self.apart[:, corner].mean(axis=1)

    @cached_property
    def _vectors(self) -> tuple[np.ndarray, float]:
        """Integer vectors of the lattice points, and the length of their unit."""
        corner = np.all((self.lattice == 0.0) | (self.lattice == 1.0), axis=1)
        inner = self.reach[:, None] + self.reach[None, :] - self.apart - self.reach[corner].mean()
        values, directions = np.linalg.eigh(inner)
        kept = values > values[-1] * 1e-13
        vectors = directions[:, kept] * np.sqrt(values[kept])
        unit = float(np.sqrt(np.max(np.sum(vectors**2, axis=1)))) / LONGEST
        return np.rint(vectors / unit).astype(np.int64), unit

    def snap(self, points: np.ndarray) -> np.ndarray:
        """Flat index of the nearest lattice point."""
        steps = np.rint(np.clip(points, 0.0, 1.0) * (self.side - 1)).astype(np.int64)
        return np.ravel_multi_index(tuple(steps.T), (self.side,) * self.space.numeric)

    def vectors(self, points: np.ndarray) -> np.ndarray:
        """What each point adds to the integer sums."""
        return self._vectors[0][self.snap(points)]

    def measure(self, batches: Iterable[Batch], whole: int = 1) -> tuple[np.ndarray, int]:
        """The integer sums to add noise to, and the number of rows. One pass, flat memory.

        Sums of rows that weigh ``whole`` together are divided by it and rounded down, at the end.
        """
        cells, rows = np.zeros(len(self.lattice), dtype=np.int64), 0
        for batch in batches:
            points, weights = weights_of(batch)
            np.add.at(cells, self.snap(points), weights)
            rows += len(points)
        # Undivided, sums could pass 2^63 with 2^23 persons; no lattice is large enough for the
        # second product to.
        units, parts = np.divmod(cells, whole)
        vectors = self._vectors[0]
        return units @ vectors + parts @ vectors // whole, rows

    def sensitivity(self, neighbours: Neighbours, *, averaged: bool = False) -> float:
        """How much one row moves the integer sums, in Euclidean norm: a maximum over the lattice.

        All squared lengths are integers below 2^53, so they are exact in double precision. A
        person's weighted rows move them by an average of those (``averaged``), and rounding down
        moves each by less than 1 more.
        """
        vectors = self._vectors[0].astype(float)
        squares = np.sum(vectors**2, axis=1)
        if neighbours is Neighbours.ADD_REMOVE:
            largest = float(squares.max())
        else:
            inner = vectors @ vectors.T
            largest = float((squares[:, None] + squares[None, :] - 2.0 * inner).max())
        slack = math.sqrt(vectors.shape[1]) if averaged else 0.0
        return math.nextafter(math.sqrt(largest) + slack, math.inf)

    def potentials(self, sums: np.ndarray, total: float) -> np.ndarray:
        """Mean distances to the rows from (noisy) sums, up to a constant that does not matter."""
        vectors, unit = self._vectors
        return self.reach - vectors @ (np.asarray(sums, dtype=float) / total) * unit**2

    def loss(self, potentials: np.ndarray, points: np.ndarray) -> float:
        """Energy of points, moved to the lattice, to (noisy) potentials, up to a constant."""
        mass = np.bincount(self.snap(points), minlength=len(potentials)) / len(points)
        return float(2.0 * mass @ potentials - mass @ self.apart @ mass)

    def beta(self, total: float, sigma: float) -> float:
        """The likelihood's inverse temperature, ``rows^2 / (2 s^2)``, s the noise in H."""
        return total**2 / (2.0 * (sigma * self._vectors[1]) ** 2)
