"""The independent generator, and the estimation it shares with others."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from marginalsyn.contract import Measurement, Model
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.generators.independent import IndependentConfig
from marginalsyn.graphical.estimation import (
    estimate_total,
    impossible_rows,
    project_to_simplex,
    redraw,
    round_counts,
    warn_of_noise,
)
from marginalsyn.plugins.audit.testkit.generators import (
    example_frame,
    example_schema,
    run_generator,
)
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.composition import compose
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_whole_budget_is_split_equally(neighbours):
    budget = Budget(eps=1, neighbours=neighbours)
    run = run_generator(
        IndependentConfig, example_frame(50), example_schema(), neighbours=neighbours
    )
    assert [tuple(p["columns"]) for p in run.statement.payments] == [
        (name,) for name in example_schema().names
    ]
    shares = [p["mu"] ** 2 / 2 for p in run.statement.payments]
    np.testing.assert_allclose(shares, budget.gaussian / 5, rtol=1e-12)
    sigma = math.sqrt(neighbours.l1 * 5 / (2 * budget.gaussian))
    np.testing.assert_allclose([m.sigma for m in run.synthesis.measurements], sigma, rtol=1e-9)
    total = compose(run.generator.cost, budget.delta, neighbours)
    assert 0.999 < total.eps <= 1


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_noise_has_the_scale_that_was_paid_for(neighbours):
    schema = Schema.from_domain({f"c{i}": 50 for i in range(40)})
    frame = pd.DataFrame(np.random.default_rng(0).integers(0, 50, (300, 40)), columns=schema.names)
    run = run_generator(IndependentConfig, frame, schema, neighbours=neighbours)
    exact = [np.bincount(frame[name], minlength=50) for name in schema.names]
    found = np.array([m.values for m in run.synthesis.measurements]) - np.array(exact)
    share = Budget(eps=1, neighbours=neighbours).rho / 40
    squares = float((found**2).sum()) * 2 * share / neighbours.l2**2

    def plausible(statistic):
        return 1e-6 < stats.chi2(found.size).cdf(statistic) < 1 - 1e-6

    assert plausible(squares)
    # The test can fail: noise a quarter too small or too large would not pass.
    assert not plausible(squares * 0.75**2)
    assert not plausible(squares * 1.25**2)


def test_marginals_are_kept_at_a_large_budget():
    frame, schema = example_frame(3000), example_schema()
    synthetic = run_generator(IndependentConfig, frame, schema, eps=200).synthesis.frame
    codec = Codec(schema)
    for real, drawn, size in zip(
        codec.encode(frame).T, codec.encode(synthetic).T, schema.domain.values(), strict=True
    ):
        distance = np.bincount(real, minlength=size) - np.bincount(drawn, minlength=size)
        assert np.abs(distance).max() < 20
    assert abs(len(synthetic) - 3000) < 20


def test_columns_are_independent():
    rng = np.random.default_rng(0)
    same = rng.integers(0, 4, 4000)
    frame = pd.DataFrame({"a": same, "b": same})
    schema = Schema.from_domain({"a": 4, "b": 4})
    synthetic = run_generator(IndependentConfig, frame, schema, eps=100).synthesis.frame
    joint = pd.crosstab(synthetic["a"], synthetic["b"]).to_numpy() / len(synthetic)
    assert np.abs(joint - 1 / 16).max() < 0.02


def test_rows_are_public_under_replace():
    run = run_generator(
        IndependentConfig,
        example_frame(123),
        example_schema(),
        neighbours=Neighbours.REPLACE,
        eps=0.1,
    )
    assert len(run.synthesis.frame) == 123
    assert run.synthesis.warnings == []


def test_little_budget_is_warned_of():
    run = run_generator(IndependentConfig, example_frame(10), example_schema(), eps=0.1)
    assert any("mostly noise" in warning for warning in run.statement.warnings)
    assert warn_of_noise(1000.0, 10.0) == []


@pytest.mark.parametrize("rows", [0, -1, 2**40, 1.5, "10", True])
def test_rows_are_checked(rows):
    with pytest.raises(UsageError, match=r"rows \(.*\) must be a whole number"):
        IndependentConfig(rows=rows)


@pytest.mark.parametrize(
    "array",
    [
        np.ones(3),
        np.array([1.0, -1.0]),
        np.array([np.nan, 1.0]),
        np.zeros(2),
        np.ones((2, 1)),
        np.array(["a", "b"]),
    ],
)
def test_model_that_is_no_distribution_is_refused(array):
    schema = Schema.from_domain({"a": 2})
    model = Model(kind="independent", arrays={"a": array}, meta={"rows": 5})
    with pytest.raises(ReleaseError, match="must be a distribution over 2 codes"):
        IndependentConfig.sample(model, schema, None, np.random.default_rng(0))


@pytest.mark.parametrize("meta", [{}, {"rows": "many"}, {"rows": 10**12}])
def test_model_without_a_number_of_rows_is_refused(meta):
    model = Model(kind="independent", arrays={"a": np.ones(2)}, meta=meta)
    with pytest.raises(UsageError, match="rows"):
        IndependentConfig.sample(
            model, Schema.from_domain({"a": 2}), None, np.random.default_rng(0)
        )


def test_plan_tells_the_noise():
    plan = IndependentConfig().configure(example_schema(), Budget(eps=1)).plan
    assert plan.split == {"measure": Budget(eps=1).gaussian}
    assert plan.facts["cells"] == sum(example_schema().domain.values())


# -- estimation -----------------------------------------------------------------------------------


def test_total_is_the_estimate_of_least_variance():
    rng = np.random.default_rng(1)
    sizes, sigmas = (2, 50, 7), (3.0, 1.0, 2.0)
    pairs = list(zip(sizes, sigmas, strict=True))
    estimates = [
        estimate_total([Measurement((f"{k}",), 100 / k + rng.normal(0, s, k), s) for k, s in pairs])
        for _ in range(3000)
    ]
    totals, spreads = np.array(estimates).T
    expected = sum(1 / (k * sigma**2) for k, sigma in pairs) ** -0.5
    assert spreads[0] == pytest.approx(expected)
    assert totals.mean() == pytest.approx(100, abs=5 * expected / math.sqrt(3000))
    assert totals.std() == pytest.approx(expected, rel=0.1)


vectors = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40).map(np.array)


@given(vectors, st.floats(0.1, 1e6))
@settings(deadline=None)
def test_projection_is_the_nearest_point(values, total):
    point = project_to_simplex(values, total)
    assert (point >= 0).all()
    assert point.sum() == pytest.approx(total, rel=1e-6, abs=1e-6)
    # Nearest (KKT): positive entries share one shift, and no zero entry lies above it.
    shift = (values - point)[point > 0]
    scale = 1e-6 * (1 + np.abs(values).max() + total)
    assert np.ptp(shift) <= scale
    assert (values[point == 0] <= shift.max() + scale).all()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(0, 1000), st.integers(0, 9))
@settings(deadline=None)
def test_rounded_counts_sum_up_and_stay_near(weights, rows, seed):
    p = np.array(weights) + 1e-9
    counts = round_counts(p, rows, np.random.default_rng(seed))
    assert counts.sum() == rows
    assert (np.abs(counts - p / p.sum() * rows) < 1 + 1e-6).all()


def test_rounded_counts_are_unbiased():
    p = np.array([0.05, 0.15, 0.3, 0.5])
    rng = np.random.default_rng(0)
    drawn = np.mean([round_counts(p, 3, rng) for _ in range(20000)], axis=0)
    np.testing.assert_allclose(drawn, 3 * p, atol=0.02)


def redraw_impossible(codes, zeros, draw, sizes, rng):
    def uniform(n):
        return rng.integers(0, np.asarray(sizes), size=(n, len(sizes)))

    return redraw(codes, lambda some: impossible_rows(some, zeros), draw, uniform, rng)


def test_impossible_rows_are_redrawn():
    rng = np.random.default_rng(0)
    zeros = [((0, 2), np.array([[True, False], [False, True]]))]

    def draw(n):
        return rng.integers(0, (2, 3, 2), size=(n, 3))

    codes = redraw_impossible(draw(500), zeros, draw, (2, 3, 2), rng)
    assert not impossible_rows(codes, zeros).any()
    assert len(np.unique(codes, axis=0)) == 6


@pytest.mark.parametrize("first_row", [[0, 0], [1, 1]])
def test_impossible_rows_that_draw_cannot_avoid(first_row):
    mask = np.ones((2, 2), dtype=bool)
    mask[1, 1] = False
    rng = np.random.default_rng(0)
    codes = np.array([first_row] + [[0, 0]] * 9)
    found = redraw_impossible(
        codes, [((0, 1), mask)], lambda n: np.zeros((n, 2), dtype=int), (2, 2), rng
    )
    assert (found == 1).all()


def test_impossible_rows_fall_back_on_copies():
    # Possible cells are one in a million million: uniform draws will not hit them.
    sizes = (10**6, 10**6)
    mask_a = np.ones(10**6, dtype=bool)
    mask_a[5] = False
    zeros = [((0,), mask_a), ((1,), mask_a)]
    rng = np.random.default_rng(0)

    def draw(n):
        return np.zeros((n, 2), dtype=int)

    codes = redraw_impossible(np.array([[5, 5], [0, 0], [1, 1]]), zeros, draw, sizes, rng)
    assert (codes == 5).all()
    hopeless = redraw_impossible(np.array([[0, 0]]), zeros, draw, sizes, rng)
    assert impossible_rows(hopeless, zeros).all()
