"""Kernel mean embedding and the noisy histogram: sensitivity, cost, noise, rows."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Budget, Neighbours, Schema
from marginalsyn.contract import Model
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.plugins.audit.testkit.generators import (
    example_frame,
    example_schema,
    run_generator,
)
from marginalsyn.plugins.points.histogram import Grid, HistogramConfig
from marginalsyn.plugins.points.kme import UNIT, KMEConfig, RandomFourierFeatures
from marginalsyn.privacy.noise import LAWS
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.energy import energy_distance
from marginalsyn.table.metric import Metric, PointSpace
from marginalsyn.table.numeric import ContinuousColumn


def cube(dimension: int) -> Schema:
    names = [f"x{i}" for i in range(dimension)]
    return Schema(columns=tuple(ContinuousColumn(name=n, lower=0, upper=1) for n in names))


def categories(**sizes: int) -> Schema:
    columns = [
        CategoricalColumn(name=name, categories=tuple(f"{name}{i}" for i in range(size)))
        for name, size in sizes.items()
    ]
    return Schema(columns=tuple(columns))


SPACES = {"cube": PointSpace.cube(2), "mixed": Metric(example_schema()).space}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("features", [1, 7, 60])
def test_one_row_moves_the_integer_sums_by_the_sensitivity_at_most(space, features) -> None:
    """Random neighbours, added, removed and replaced; with one wave it is reached."""
    rng = np.random.default_rng(features)
    waves = RandomFourierFeatures.draw(SPACES[space], features, 0.05, rng)
    largest = dict.fromkeys(Neighbours, 0.0)
    for _ in range(40):
        rows = SPACES[space].uniform(int(rng.integers(1, 40)), rng)
        place = int(rng.integers(len(rows)))
        other = np.vstack([np.delete(rows, place, 0), SPACES[space].uniform(1, rng)])
        sums = [waves.measure([t])[0] for t in (rows, np.delete(rows, place, 0), other)]
        for relation, changed in zip(Neighbours, sums[1:], strict=True):
            moved = float(np.linalg.norm((sums[0] - changed).astype(float)))
            largest[relation] = max(largest[relation], moved / waves.sensitivity(relation))
    assert list(Neighbours) == [Neighbours.ADD_REMOVE, Neighbours.REPLACE]
    assert max(largest.values()) <= 1
    assert largest[Neighbours.ADD_REMOVE] > 0.999
    if features == 1:
        assert largest[Neighbours.REPLACE] > 0.95


def test_a_rows_numbers_are_its_own_wherever_it_lies() -> None:
    rng = np.random.default_rng(0)
    space = SPACES["mixed"]
    waves, rows = RandomFourierFeatures.draw(space, 33, 0.3, rng), space.uniform(57, rng)
    alone = sum(waves.measure([row[None]])[0] for row in rows)
    for parts in ([rows], [rows[::-1]], [rows[:13], rows[13:]], [rows[5:], rows[:5]]):
        sums, many = waves.measure(parts)
        assert (sums == alone).all()
        assert many == 57
    assert (waves.measure([])[0] == 0).all()


def test_the_embedding_is_the_gaussian_kernels() -> None:
    """Inner products of rows' vectors against the kernel itself."""
    rng, space = np.random.default_rng(1), PointSpace.cube(3)
    waves = RandomFourierFeatures.draw(space, 20_000, 0.3, rng)
    one, two = rng.random((2, 3))
    inner = float(waves.embed(one[None]) @ waves.embed(two[None])) / waves.count
    wide = 0.3 * math.sqrt(3)
    assert inner == pytest.approx(math.exp(-np.sum((one - two) ** 2) / (2 * wide**2)), abs=0.03)
    sums, many = waves.measure([np.array([one, two])])
    mean = waves.mean(sums, many, sigma=0.0)
    assert np.abs(mean - waves.embed(np.array([one, two]))).max() < 2 / UNIT


def test_codes_are_as_far_apart_as_the_metric_says() -> None:
    space = Metric(categories(a=4, b=3)).space
    waves = RandomFourierFeatures.draw(space, 40_000, 0.5, np.random.default_rng(2))
    here, there = np.array([[0.0, 1.0]]), np.array([[2.0, 1.0]])
    inner = float(waves.embed(here) @ waves.embed(there)) / waves.count
    expected = math.exp(-1.0 / (2 * (0.5 * space.diameter) ** 2))
    assert inner == pytest.approx(expected, abs=0.02)


def clusters(rng, count=1000):
    centres = np.array([[0.3, 0.3], [0.7, 0.6], [0.4, 0.8]])
    return np.clip(centres[rng.integers(0, 3, count)] + rng.normal(0, 0.07, (count, 2)), 0, 1)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_fitted_points_come_close_and_every_answer_is_paid_for(neighbours) -> None:
    rows = clusters(np.random.default_rng(0))
    frame = pd.DataFrame(rows, columns=["x0", "x1"])
    budget = Budget.of_rho(0.1, neighbours=neighbours)
    how = {"eps": budget.eps, "neighbours": neighbours}
    options = {"points": 50, "features": 200, "kernel_width": 0.15}
    run = run_generator(KMEConfig, frame, cube(2), options=options, **how)
    assert energy_distance(rows, run.synthesis.frame.to_numpy()) < 0.006  # uniform points: 0.1
    assert all(LAWS[line.law].guarantee == "exact" for line in run.statement.samplers)
    spent = sum(payment["rho"] for payment in run.statement.payments)
    assert spent == pytest.approx(run.generator.budget.gaussian, rel=1e-6)
    sigma = run.generator.sigma
    share = run.generator.shares["embedding"]
    l2 = run.generator.feature_map.sensitivity(neighbours)
    assert l2**2 / (2 * sigma**2) == pytest.approx(share * run.generator.budget.gaussian, rel=1e-9)


def test_noise_of_the_sums_has_the_size_that_is_paid_for() -> None:
    """A wrong scale would be noticed."""
    from scipy import stats

    frame = example_frame(50)
    options = {"points": 5, "features": 400}
    run = run_generator(KMEConfig, frame, example_schema(), options=options, eps=1)
    exact, _ = run.generator.feature_map.measure([run.generator.metric.points(_units(frame))])
    drawn = run.synthesis.model.arrays["released"] - exact
    sigma = run.generator.sigma
    assert stats.kstest(drawn, stats.norm(0, sigma).cdf).pvalue > 1e-6
    for wrong in (sigma * 1.5, sigma / 1.5):
        assert stats.kstest(drawn, stats.norm(0, wrong).cdf).pvalue < 1e-6


def _units(frame: pd.DataFrame) -> np.ndarray:
    from marginalsyn.table.codec import Codec
    from marginalsyn.table.design import ABSENT

    codec = Codec(example_schema())
    return codec.unit(frame, absent=ABSENT)


def test_categories_follow_the_table_without_noise() -> None:
    rng = np.random.default_rng(4)
    schema = categories(a=4, b=3, c=2)
    a = rng.choice(4, 2000, p=[0.5, 0.3, 0.15, 0.05])
    rows = np.column_stack([a, a % 3, rng.integers(0, 2, 2000)]).astype(float)
    waves = RandomFourierFeatures.draw(Metric(schema).space, 200, 0.3, rng)
    sums, many = waves.measure([rows])
    points = waves.fit(waves.mean(sums, many, 0.0), 100, rng)
    for column, size in enumerate((4, 3, 2)):
        real = np.bincount(rows[:, column].astype(int), minlength=size) / 2000
        made = np.bincount(points[:, column].astype(int), minlength=size) / 100
        assert np.abs(real - made).max() < 0.05
    assert np.mean(points[:, 0] % 3 == points[:, 1]) > 0.9


def test_what_is_wrong_with_kme_is_said() -> None:
    for wrong in ({"features": 0}, {"kernel_width": 0.0}, {"points": 0}, {"total_share": 1.0}):
        with pytest.raises(UsageError, match="must"):
            KMEConfig(**wrong)


# -- histogram ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bins", [1, 2, 5, 40])
def test_a_row_lies_in_one_cell_and_is_drawn_back_into_it(bins) -> None:
    """Random rows of numbers, ranks, categories and missing entries."""
    rng, metric = np.random.default_rng(bins), Metric(example_schema())
    grid = Grid.even(metric, bins) if bins < 40 else Grid.within(metric, 5000)
    points = metric.space.uniform(400, rng)
    for c, link in enumerate(metric.space.links):
        if link >= 0:
            missing = points[:, metric.space.numeric + c] > 0
            points[missing, link] = 0.5
    counts = grid.count([points[:100], points[100:]])
    assert counts.sum() == 400
    assert grid.cells == counts.size
    for place in range(5):
        moved = counts - grid.count([np.delete(points, place, 0)])
        assert np.abs(moved).sum() == 1
        assert moved[grid.places(points[[place]])[0]] == 1
    drawn = grid.draw(counts / 400, 400, rng)
    assert (grid.count([drawn]) == counts).all()


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_histogram_costs_one_pure_charge(neighbours) -> None:
    frame, schema = example_frame(300), example_schema()
    run = run_generator(
        HistogramConfig, frame, schema, options={"cells": 3000}, eps=2, neighbours=neighbours
    )
    assert run.statement.eps == pytest.approx(2.0)
    assert run.statement.delta == 0
    assert sum(payment["eps"] for payment in run.statement.payments) == pytest.approx(2.0)
    assert run.generator.scale == pytest.approx(neighbours.l1 / 2)
    assert run.generator.grid.cells <= 3000
    shares = run.synthesis.model.arrays["shares"]
    assert shares.shape == (run.generator.grid.cells,)
    assert abs(shares.sum() - 1) < 1e-9


def test_bins_go_round_the_columns_with_the_label_first() -> None:
    schema = Schema.from_domain({"a": 5, "b": 5, "y": 2}).model_copy(update={"label": "y"})
    metric = Metric(schema)
    assert Grid.within(metric, 2).bins == (1, 1, 2)
    assert Grid.within(metric, 8).bins == (2, 2, 2)
    assert Grid.within(metric, 10**6).bins == (5, 5, 2)
    assert Grid.within(metric, 1).bins == (1, 1, 1)
    plan = HistogramConfig(cells=4).configure(schema, Budget(eps=1)).plan
    assert "b" in plan.warnings[0]
    with pytest.raises(UsageError, match="at most"):
        HistogramConfig(bins=20).configure(cube(9), Budget(eps=1))
    assert HistogramConfig(bins=20).configure(cube(3), Budget(eps=1)).grid.cells == 8000


@pytest.mark.parametrize(
    ("arrays", "meta"),
    [
        ({}, {"bins": [2], "rows": 5}),
        ({"shares": np.array([0.5, 0.6])}, {"bins": [2], "rows": 5}),
        ({"shares": np.array([1.5, -0.5])}, {"bins": [2], "rows": 5}),
        ({"shares": np.array([np.nan, 1.0])}, {"bins": [2], "rows": 5}),
        ({"shares": np.array([0.5, 0.5])}, {"bins": [3], "rows": 5}),
        ({"shares": np.array([0.5, 0.5])}, {"bins": [2, 1], "rows": 5}),
        ({"shares": np.array([0.5, 0.5])}, {"bins": [2], "rows": 0}),
        ({"shares": np.array([0.5, 0.5])}, {"bins": "x", "rows": 5}),
    ],
)
def test_a_file_that_was_tampered_with_is_refused(arrays, meta) -> None:
    model = Model(kind="histogram", arrays=arrays, meta=meta)
    with pytest.raises(ReleaseError, match="histogram"):
        HistogramConfig.sample(model, cube(1), 5, np.random.default_rng(0))
