"""Support points of data: known optima, and better than the usual ways to choose few points."""

from __future__ import annotations

import numpy as np
import pytest

from marginalsyn.errors import UsageError
from marginalsyn.plugins.points.fitting import support_points
from marginalsyn.table.energy import energy_distance


def mixture(rng, count=400):
    centres = np.array([[0.3, 0.3], [0.7, 0.6], [0.4, 0.8]])
    return np.clip(centres[rng.integers(0, 3, count)] + rng.normal(0, 0.08, (count, 2)), 0, 1)


def test_support_points_beat_subsampling_and_means():
    from scipy.cluster.vq import kmeans2

    rng = np.random.default_rng(1)
    rows = mixture(rng)
    best = energy_distance(rows, support_points(rows, 20, rng, starts=2))
    sampled = energy_distance(rows, rows[rng.integers(0, 400, 20)])
    means = energy_distance(rows, kmeans2(rows, 20, seed=2, minit="points")[0])
    assert best < 0.5 * means
    assert best < 0.3 * sampled


def test_more_points_than_rows_and_bad_counts():
    rng = np.random.default_rng(4)
    assert support_points(np.array([[0.2, 0.4]]), 3, rng).shape == (3, 2)
    with pytest.raises(UsageError, match="at least 1"):
        support_points(mixture(rng), 0, rng)
