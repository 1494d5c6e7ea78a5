"""The documented distance between rows: which coordinates a table has and how far apart they are.

Every distance is an l_p norm with 1 < p <= 2, taken after public maps of single rows:

* an integer or continuous column is scaled by its public bounds to [0, 1];
* an ordinal column is its rank, scaled to [0, 1];
* a categorical or boolean column is a one-hot vector scaled so that two different categories are
  1 apart;
* a missing (or, for ordinals, "other") entry sits at 1/2 and carries a one-hot flag of weight
  ``1 - 2**-p``, so that it is never more than 1 away from a present one.

Each column therefore adds at most 1 to ``dist**p`` and the diameter is ``columns ** (1 / p)``,
whatever the data. One-hot vectors are never built for a distance: two of them are their weight
apart if the codes differ, and 0 if not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marginalsyn.errors import UsageError


class Space(NamedTuple):
    """Coordinates of points: ``numeric`` ones in [0, 1] first, then codes of categories.

    The first three fields are the metric: ``weights[c]`` is what two different codes of the c-th
    categorical coordinate add to ``dist ** p``. ``sizes[c]`` is its number of codes, and
    ``links[c]`` the numeric coordinate that sits at 1/2 unless code c is 0 ("present"), or -1.

    Example:
        >>> Space.cube(2).p
        2.0
    """

    numeric: int
    weights: np.ndarray
    p: float
    sizes: np.ndarray
    links: np.ndarray

    @classmethod
    def cube(cls, dimension: int, p: float = 2.0) -> Space:
        """The unit cube with the norm ``p``."""
        none = np.zeros(0, dtype=np.int64)
        return cls(dimension, np.zeros(0), check_norm(p), none, none)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.numeric + len(self.weights)

    @property
    def columns(self) -> int:
        """Number of columns; each adds at most 1 to ``dist ** p``."""
        return self.numeric + int(np.sum(self.links < 0))

    @property
    def diameter(self) -> float:
        """The largest distance between any two points."""
        return self.columns ** (1.0 / self.p)

    def uniform(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Points drawn from the uniform law: every code of a category is equally likely."""
        points = rng.random((count, self.dimension))
        for c, (size, link) in enumerate(zip(self.sizes, self.links, strict=True)):
            codes = rng.integers(0, size, count)
            points[:, self.numeric + c] = codes
            if link >= 0:
                points[codes > 0, link] = 0.5
        return points


def check_norm(p: float) -> float:
    """Refuse norms for which the energy is blind to dependence (1) or may be negative (above 2)."""
    if not 1.0 < p <= 2.0:
        raise UsageError(
            f"p ({p}) must be above 1 and at most 2: at 1 the energy distance cannot see how "
            "columns depend on each other, above 2 it can be negative; 2 is the usual choice"
        )
    return float(p)
