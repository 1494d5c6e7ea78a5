"""Energy distances against brute force, scipy, and the identities that the mechanisms rest on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import energy_distance as root_of_energy

from marginalsyn.errors import UsageError
from marginalsyn.table import energy
from marginalsyn.table.metric import PointSpace


def brute_distance(a: np.ndarray, b: np.ndarray, space: PointSpace) -> np.ndarray:
    """All distances, one Python sum at a time, through explicit one-hot vectors."""
    result = np.zeros((len(a), len(b)))
    for i, u in enumerate(a):
        for j, v in enumerate(b):
            total = np.sum(np.abs(u[: space.numeric] - v[: space.numeric]) ** space.p)
            for c, weight in enumerate(space.weights):
                one, two = np.zeros(space.sizes[c]), np.zeros(space.sizes[c])
                one[int(u[space.numeric + c])] = (weight / 2) ** (1 / space.p)
                two[int(v[space.numeric + c])] = (weight / 2) ** (1 / space.p)
                total += np.sum(np.abs(one - two) ** space.p)
            result[i, j] = total ** (1 / space.p)
    return result


def mixed(p: float) -> PointSpace:
    """Two numeric columns, the second of which may be missing, and a category of four."""
    return PointSpace(2, np.array([1 - 2**-p, 1.0]), p, np.array([2, 4]), np.array([1, -1]))


@pytest.mark.parametrize("p", [1.3, 2.0])
def test_energy_agrees_with_brute_force_on_weighted_mixed_points(p):
    rng, space = np.random.default_rng(1), mixed(p)
    x, y = space.uniform(37, rng), space.uniform(11, rng)
    wx, wy = rng.random(37), rng.random(11)
    wx, wy = wx / wx.sum(), wy / wy.sum()
    xy, xx, yy = (brute_distance(*pair, space) for pair in ((x, y), (x, x), (y, y)))
    expected = 2 * wx @ xy @ wy - wx @ xx @ wx - wy @ yy @ wy
    found = energy.energy_distance(x, y, space=space, x_weights=5 * wx, y_weights=wy)
    assert found == pytest.approx(expected, rel=1e-10)
    swapped = energy.energy_distance(y, x, space=space, x_weights=wy, y_weights=wx)
    assert swapped == pytest.approx(expected, rel=1e-10)
    assert energy.distance_matrix(x, y, space=space) == pytest.approx(xy, rel=1e-10)
    assert energy.potential(x, y, space=space, weights=wx) == pytest.approx(wx @ xy, rel=1e-10)


def test_energy_agrees_with_scipy_in_one_dimension():
    rng = np.random.default_rng(2)
    x, y, wx, wy = rng.random(200), rng.random(30), rng.random(200), rng.random(30)
    expected = root_of_energy(x, y, wx, wy) ** 2
    found = energy.energy_distance(x, y, x_weights=wx, y_weights=wy)
    assert found == pytest.approx(expected, rel=1e-9)


def test_streamed_potentials_do_not_depend_on_the_batches():
    rng = np.random.default_rng(5)
    rows, points = rng.random((1_700, 3)), rng.random((9, 3))
    whole, count = energy.stream_potential([rows], points)
    parts, total = energy.stream_potential(
        [rows[:1], rows[1:1_200], rows[1_200:], rows[:0]], points
    )
    assert count == total == 1_700
    assert parts == pytest.approx(whole, rel=1e-12)
    assert whole / count == pytest.approx(energy.potential(rows, points), rel=1e-12)


def test_many_rows_are_dealt_to_threads_without_losing_any():
    rng = np.random.default_rng(6)
    rows = rng.random((3_000, 4))  # enough work for more than one thread
    apart = energy.distance_matrix(rows, rows)
    assert energy.self_distance(rows) == pytest.approx(apart.mean(), rel=1e-12)
    assert energy.potential(rows, rows) == pytest.approx(apart.mean(axis=0), rel=1e-12)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.2, 2.0]))
@settings(max_examples=50, deadline=None)
def test_no_two_points_are_farther_apart_than_the_diameter(seed, p):
    rng, space = np.random.default_rng(seed), mixed(p)
    points = space.uniform(20, rng)
    points[:, 0] = np.round(points[:, 0])
    present = points[:, 2] == 0
    points[present, 1] = np.round(points[present, 1])
    assert energy.distance_matrix(points, points, space=space).max() <= space.diameter * (1 + 1e-12)


def test_mmd_agrees_with_brute_force_and_its_sensitivity_bound_holds():
    rng = np.random.default_rng(7)
    x, y = rng.random((30, 2)), rng.random((8, 2))
    kernelled = {
        k: np.exp(-((np.linalg.norm(a[:, None] - b[None], axis=-1) / 0.3) ** 2) / 2)
        for k, (a, b) in {"xx": (x, x), "xy": (x, y), "yy": (y, y)}.items()
    }
    expected = kernelled["xx"].mean() + kernelled["yy"].mean() - 2 * kernelled["xy"].mean()
    assert energy.mmd(x, y, bandwidth=0.3) == pytest.approx(expected, rel=1e-10)
    # One moved row changes the part that depends on the other set by at most 2 K / N.
    corner = x.copy()
    corner[0] = 1.0
    x[0] = 0.0
    y = np.tile([1.0, 1.0], (4, 1))

    def cross(rows):  # mmd minus the term of the rows alone
        alone = energy.mmd(rows, rows[:1], bandwidth=0.05) - 1.0
        alone += 2.0 * _mean_kernel(rows, rows[:1])
        return energy.mmd(rows, y, bandwidth=0.05) - alone

    change = abs(cross(corner) - cross(x))
    assert 0.99 * 2 / 30 <= change <= 2 / 30 + 1e-12


def _mean_kernel(rows, point):
    return np.exp(-np.sum((rows - point) ** 2, axis=1) / (2 * 0.05**2)).mean()


def test_bad_arguments_are_refused():
    with pytest.raises(UsageError, match="p"):
        PointSpace.cube(2, p=1.0)
    with pytest.raises(UsageError, match="p"):
        PointSpace.cube(2, p=2.5)
    with pytest.raises(UsageError, match="weights"):
        energy.energy_distance([[0.0]], [[1.0]], x_weights=np.array([-1.0]))
    with pytest.raises(UsageError, match="at least one point"):
        energy.energy_distance(np.zeros((0, 2)), np.zeros((1, 2)))
    with pytest.raises(UsageError, match="coordinates"):
        energy.energy_distance(np.zeros((3, 2)), np.zeros((1, 3)))
    with pytest.raises(UsageError, match="bandwidth"):
        energy.mmd([[0.0]], [[1.0]], bandwidth=0.0)
