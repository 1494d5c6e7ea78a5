"""Released potentials: sensitivities reached and never exceeded, noise of the stated shape."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, kstest

from marginalsyn import Budget, Neighbours, Schema, make_noise
from marginalsyn.contract import Model
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.plugins.audit.testkit.generators import (
    example_frame,
    example_schema,
    run_generator,
)
from marginalsyn.plugins.points.fitting import Field
from marginalsyn.plugins.points.slices import Slices, isotropic, public_slices
from marginalsyn.plugins.points.support_points_gp import SupportPointsGPConfig
from marginalsyn.plugins.points.walks import SliceWalk
from marginalsyn.privacy.laws import DiscreteGaussian
from marginalsyn.table.energy import potential, self_distance
from marginalsyn.table.metric import PointSpace
from marginalsyn.table.numeric import ContinuousColumn

REPLACE, ADD_REMOVE = Neighbours.REPLACE, Neighbours.ADD_REMOVE
MIXED = PointSpace(2, np.array([0.75, 1.0]), 2.0, np.array([2, 3]), np.array([1, -1]))


def cube(dimension: int) -> Schema:
    return Schema(
        columns=tuple(ContinuousColumn(name=f"x{i}", lower=0, upper=1) for i in range(dimension))
    )


# -- the field --------------------------------------------------------------------------------


@pytest.mark.parametrize(("dimension", "side"), [(1, 65), (2, 13), (3, 5)])
@pytest.mark.parametrize("p", [1.5, 2.0])
def test_lattice_vectors_are_as_far_apart_as_the_energy_says(dimension, side, p):
    field = Field(PointSpace.cube(dimension, p), side)
    vectors, unit = field._vectors
    assert vectors.dtype == np.int64
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, len(vectors), (300, 2))
    pairs[0] = 0, len(vectors) - 1  # the far corners
    squares = np.sum(((vectors[pairs[:, 0]] - vectors[pairs[:, 1]]) * unit) ** 2, axis=1)
    expected = 2.0 * field.distances[pairs[:, 0], pairs[:, 1]]
    assert squares == pytest.approx(expected, rel=1e-4, abs=1e-4)
    diam = field.space.diameter
    assert field.sensitivity(REPLACE) * unit == pytest.approx(np.sqrt(2 * diam), rel=1e-4)


def test_corners_are_the_best_centre_when_rows_come_and_go():
    field = Field(PointSpace.cube(2), 17)
    unit = field._vectors[1]
    corners = np.array(list(itertools.product([0.0, 1.0], repeat=2)))
    radius = self_distance(corners)  # mean distance of two random corners: 0.854
    assert (field.sensitivity(ADD_REMOVE) * unit) ** 2 == pytest.approx(radius, rel=1e-4)
    assert radius == pytest.approx((2 + np.sqrt(2)) / 4)
    # The cube's middle as centre would give 2 |corner - middle|.
    assert radius < 0.61 * 2 * np.sqrt(0.5)
    places = np.random.default_rng(0).random((500, 2))
    assert np.all(2 * potential(corners, places) - radius <= radius + 1e-12)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_field_sums_never_move_by_more_than_their_sensitivity(seed):
    field, rng = Field(PointSpace.cube(2), 9), np.random.default_rng(seed)
    rows = rng.random((rng.integers(0, 5), 2))
    x, other = np.round(rng.random((2, 2))) if seed % 2 else rng.random((2, 2))
    sums, _ = field.measure([rows])
    added, _ = field.measure([rows, x[None]])
    replaced, _ = field.measure([rows, other[None]])
    assert added.dtype == np.int64
    assert np.linalg.norm((added - sums).astype(float)) <= field.sensitivity(ADD_REMOVE)
    assert np.linalg.norm((added - replaced).astype(float)) <= field.sensitivity(REPLACE)


def test_field_sensitivities_are_reached():
    field = Field(PointSpace.cube(2), 9)
    none, low, high = (
        field.measure([np.full((n, 2), v)])[0].astype(float)
        for n, v in ((0, 0.0), (1, 0.0), (1, 1.0))
    )
    assert np.linalg.norm(low - high) >= field.sensitivity(REPLACE) * (1 - 1e-9)
    assert np.linalg.norm(low - none) >= field.sensitivity(ADD_REMOVE) * (1 - 1e-6)


def test_potentials_without_noise_are_the_rows_potentials():
    field, rng = Field(PointSpace.cube(2), 17), np.random.default_rng(0)
    rows = field.lattice[rng.integers(0, len(field.lattice), 200)]
    sums, count = field.measure([rows[:50], rows[50:]])
    assert count == 200
    found = field.answers(sums, count) - potential(rows, field.lattice)
    assert np.ptp(found) < 1e-4  # a constant apart


def test_noise_on_potentials_has_the_kernels_covariance():
    """The same strength in every direction of the Hilbert space, and not half of it."""
    field = Field(PointSpace.cube(1), 9)
    vectors, unit = field._vectors
    noise, sigma, draws = make_noise(1), 3e5, 3_000
    zero = np.zeros((draws, vectors.shape[1]), dtype=np.int64)
    noisy = np.array([field.answers(row, 1.0) for row in noise.draw(DiscreteGaussian(sigma), zero)])
    kernel = vectors.astype(float) @ vectors.T.astype(float) * unit**2
    expected = (sigma * unit) ** 2 * kernel
    centred = noisy - field.reach
    scale = np.sqrt(np.diag(expected))[:-1]
    found = np.cov(centred.T)[:-1, :-1] / np.outer(scale, scale)
    assert found == pytest.approx(expected[:-1, :-1] / np.outer(scale, scale), abs=0.12)
    whitened = np.sum((noise.draw(DiscreteGaussian(sigma), zero) / sigma) ** 2, axis=1)
    degrees = vectors.shape[1]
    assert kstest(whitened, chi2(degrees).cdf).pvalue > 1e-6
    assert kstest(whitened * 1.5**2, chi2(degrees).cdf).pvalue < 1e-6


# -- slices -----------------------------------------------------------------------------------


def families() -> list[Slices]:
    rng = np.random.default_rng(0)
    return [
        isotropic(PointSpace.cube(1), 1, 16, rng),
        isotropic(PointSpace.cube(2), 40, 12, rng),
        isotropic(PointSpace.cube(4), 60, 12, rng),
        public_slices(PointSpace.cube(5), 30, 8, rng),
        public_slices(MIXED, 12, 8, rng),
        public_slices(PointSpace(0, np.ones(1), 2.0, np.array([4]), np.array([-1])), None, 8, rng),
    ]


@pytest.mark.parametrize("slices", families())
def test_counts_never_move_by_more_than_their_sensitivity(slices):
    rng, space = np.random.default_rng(1), slices.space
    scale = slices.noise_scale(1.0)
    places = space.uniform(400, rng)
    # Corners are the extremal rows.
    held = np.zeros_like(places, dtype=bool)
    for c, link in enumerate(space.links):
        if link >= 0:
            held[:, link] = places[:, space.numeric + c] > 0
    numeric = np.arange(places.shape[1]) < space.numeric
    places[::2] = np.where(numeric & ~held, np.round(places), places)[::2]
    none, _ = slices.measure([places[:0]])
    singles = np.array([slices.measure([row[None]])[0] for row in places]) / scale
    assert none.dtype == np.int64
    added = np.linalg.norm(singles, axis=1)
    assert added.max() <= slices.sensitivity(ADD_REMOVE)
    assert added.max() >= 0.9 * slices.sensitivity(ADD_REMOVE)
    pairs = np.linalg.norm(singles[:200] - singles[200:], axis=1)
    assert pairs.max() <= slices.sensitivity(REPLACE)
    near = singles[:120]
    diagonal = np.linalg.norm(near[:, None] - near[None], axis=-1).max()
    assert diagonal <= slices.sensitivity(REPLACE)
    assert diagonal >= 0.6 * slices.sensitivity(REPLACE)


def test_counts_are_the_rows_beyond_the_thresholds():
    rng = np.random.default_rng(3)
    slices = public_slices(MIXED, 8, 6, rng)
    rows = MIXED.uniform(70, rng)
    beyond = slices.beyond(rows)
    for k in range(slices.count):
        projection = rows[:, :2] @ slices.scales[k]
        for c, table in enumerate(slices.tables):
            projection = projection + table[k][rows[:, 2 + c].astype(int)]
        edges = slices.low[k] + slices.step[k] * np.arange(slices.bins[k])
        expected = (projection[:, None] >= edges - 1e-12).sum(axis=0)
        assert np.array_equal(beyond[slices.starts[k] : slices.starts[k + 1]], expected)
    values, count = slices.measure([rows[:30], rows[30:]])
    assert count == 70
    assert slices.answers(values, 70) == pytest.approx(beyond / 70)


def test_the_cached_sliced_energy_stays_the_energy():
    rng = np.random.default_rng(5)
    slices = public_slices(MIXED, 12, 8, rng)
    survival = slices.beyond(MIXED.uniform(300, rng)) / 300
    walk = SliceWalk(slices, survival, 12)
    moved, accepted = walk.step(rng, walk.start(rng), 4_000, 2_000.0)
    fresh = walk.at(moved.points)
    assert 100 < accepted < 4_000
    assert moved.energy == pytest.approx(fresh.energy, abs=1e-9)
    assert moved.energy == pytest.approx(slices.loss(survival, moved.points), abs=1e-9)
    assert np.array_equal(moved.places, fresh.places)
    assert moved.prefix == pytest.approx(fresh.prefix, abs=1e-9)
    assert np.all(moved.points[moved.points[:, 2] == 1, 1] == 0.5)


def test_visits_of_a_sliced_chain_follow_the_exact_law():
    space = PointSpace(0, np.ones(2), 2.0, np.array([2, 3]), np.array([-1, -1]))
    rng = np.random.default_rng(7)
    slices = public_slices(space, None, 4, rng)
    cells = np.array(list(itertools.product(range(2), range(3))), dtype=float)
    survival = slices.beyond(cells[[0, 0, 4, 5]]) / 4
    sets = list(itertools.product(range(6), repeat=2))
    law = np.exp([-30 * slices.loss(survival, cells[list(s)]) for s in sets])
    law /= law.sum()
    walk = SliceWalk(slices, survival, 2)
    state, visits = walk.at(cells[[0, 0]]), np.zeros((6, 6))
    for _ in range(8_000):
        state, _ = walk.step(rng, state, 25, 30.0)
        visits[tuple((state.points @ [3, 1]).astype(int))] += 1
    expected = 8_000 * law
    assert np.sum((visits.ravel() - expected) ** 2 / expected) < chi2.isf(1e-6, 35)


# -- the generator ----------------------------------------------------------------------------


def test_mixed_tables_keep_their_columns_and_their_ties():
    frame, schema = example_frame(2000), example_schema()
    run = run_generator(
        SupportPointsGPConfig, frame, schema, options={"rows": 2000, "points": 150}, eps=3
    )
    table = run.synthesis.frame
    for name in ("colour", "grade", "ill"):
        real = frame[name].value_counts(normalize=True, dropna=False)
        drawn = table[name].value_counts(normalize=True, dropna=False).reindex(real.index)
        assert np.abs(real - drawn.fillna(0)).max() < 0.08
    assert table["income"].isna().mean() == pytest.approx(frame["income"].isna().mean(), abs=0.06)
    ill = table.groupby("ill")["age"].mean()
    truth = frame.groupby("ill")["age"].mean()
    assert ill["yes"] - ill["no"] == pytest.approx(truth["yes"] - truth["no"], abs=12)


def test_the_form_follows_the_columns():
    budget = Budget(eps=1)
    assert SupportPointsGPConfig().configure(cube(2), budget).form == "field"
    assert SupportPointsGPConfig().configure(cube(5), budget).form == "slices"
    assert SupportPointsGPConfig().configure(example_schema(), budget).form == "slices"
    assert SupportPointsGPConfig(p=1.5).configure(cube(3), budget).form == "field"
    with pytest.raises(UsageError, match="form"):
        SupportPointsGPConfig(form="field").configure(example_schema(), budget)
    with pytest.raises(UsageError, match="must be 2"):
        SupportPointsGPConfig(form="slices", p=1.5).configure(cube(2), budget)
    plan = SupportPointsGPConfig().configure(example_schema(), budget).plan
    assert plan.facts["directions"] > 10
    assert sum(plan.split.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("arrays", "meta"),
    [
        ({}, {"bandwidth": 0.1, "p": 2.0}),
        ({"points": np.zeros((3, 2))}, {"bandwidth": 0.1, "p": 2.0}),
        ({"points": np.full((3, 1), 2.0)}, {"bandwidth": 0.1, "p": 2.0}),
        ({"points": np.full((3, 1), np.nan)}, {"bandwidth": 0.1, "p": 2.0}),
        ({"points": np.zeros((0, 1))}, {"bandwidth": 0.1, "p": 2.0}),
        ({"points": np.array([["a"]])}, {"bandwidth": 0.1, "p": 2.0}),
        ({"points": np.zeros((3, 1))}, {"bandwidth": "wide", "p": 2.0}),
        ({"points": np.zeros((3, 1))}, {"bandwidth": 7.0, "p": 2.0}),
        ({"points": np.zeros((3, 1))}, {"bandwidth": 0.1, "p": 1.0}),
        ({"points": np.zeros((3, 1))}, {}),
    ],
)
def test_models_that_hold_no_points_are_refused(arrays, meta):
    model = Model(kind="support-points-gp", arrays=arrays, meta=meta)
    with pytest.raises(ReleaseError, match="must hold points"):
        SupportPointsGPConfig.sample(model, cube(1), 5, np.random.default_rng(0))
