"""Raw log-weights to weights, resampling, and what weights are worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from marginalsyn.errors import UsageError
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.table.design import resample
from marginalsyn.weights.effectiveness import (
    cautions,
    diagnose,
    label_size,
    likelihood_size,
)
from marginalsyn.weights.processing import (
    Processing,
    calibrate,
    effective_size,
    log_mean,
    pareto_smooth,
)

ONES = np.zeros(500)
logs = arrays(np.float64, st.integers(1, 60), elements=st.floats(-40, 40))


# -- processing -----------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(logs, st.floats(-300, 300), st.sampled_from([None, 1.5, 4.0]), st.floats(0, 2))
def test_weights_have_mean_one_and_ignore_constants(values, shift, clip, temper) -> None:
    steps = Processing(clip=clip, temper=temper)
    weights = steps.apply(values)
    assert np.isclose(weights.mean(), 1)
    assert (weights >= 0).all()
    assert np.allclose(weights, steps.apply(values + shift), rtol=1e-6, atol=1e-9)
    if clip is not None:
        assert weights.max() <= clip * (1 + 1e-9)
    assert np.allclose(np.argsort(np.argsort(weights)), np.argsort(np.argsort(weights)))


@pytest.mark.parametrize(
    "options",
    [
        {"temper": -1},
        {"temper": 11},
        {"clip": 1},
        {"clip": np.inf},
        {"smooth": "loess"},
        {"calibrate": "platt"},
    ],
    ids=str,
)
def test_strange_steps_are_refused(options) -> None:
    with pytest.raises(UsageError, match="must"):
        Processing(**options)


# -- Pareto smoothing -----------------------------------------------------------------------------


@pytest.mark.parametrize("a", [1.25, 2.0, 5.0])
def test_pareto_weights_give_the_shape_one_over_a(a) -> None:
    rng = np.random.default_rng(2)
    values = rng.exponential(1 / a, 40_000)  # log of Pareto(a)
    smoothed, shape = pareto_smooth(values)
    assert abs(shape - 1 / a) < 0.12
    # The sign is right: it is the largest that are smoothed, and in the same order.
    changed = np.flatnonzero(~np.isclose(smoothed - smoothed.min(), values - values.min()))
    assert values[changed].min() > np.quantile(values, 0.97)
    assert (np.diff(smoothed[np.argsort(values)]) >= -1e-12).all()
    assert np.isclose(log_mean(smoothed), log_mean(values))


def test_weights_of_too_few_rows_are_tempered_unless_told_otherwise() -> None:
    values = np.random.default_rng(0).normal(0, 3, 4000)
    whole = Processing(temper=1.0).apply(values)
    assert effective_size(whole) < 400
    power = Processing().power(values)
    assert 0 < power < 1
    assert effective_size(Processing().apply(values)) == pytest.approx(1000, rel=1e-3)
    # Enough rows, weights that are the ratio itself, and none at all are left alone.
    assert Processing().power(values / 10) == 1
    assert Processing().power(values, scaled=True) == 1
    assert Processing().power(np.empty(0)) == 1


# -- calibration ----------------------------------------------------------------------------------


def scores(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Log ratios of normals at +1/2 and -1/2: real and synthetic rows of a calibrated score."""
    rng = np.random.default_rng(seed)
    return rng.normal(0.5, 1, rows), rng.normal(-0.5, 1, 3 * rows)


@pytest.mark.parametrize(("kind", "error"), [("beta", 0.12), ("isotonic", 0.35)])
def test_calibration_mends_a_stretched_score(kind, error) -> None:
    real, synthetic = scores(1, 6000)
    grid = np.linspace(-1.5, 1.5, 31)
    for stretch, shift in ((1.0, 0.0), (3.0, 0.0), (0.4, 100.0)):
        found = calibrate(
            stretch * grid + shift, stretch * real + shift, stretch * synthetic + shift, kind
        )
        assert np.sqrt(np.mean((found - grid) ** 2)) < error
        assert (np.diff(found) >= -1e-9).all()


def test_calibration_needs_public_rows() -> None:
    with pytest.raises(UsageError, match="--public"):
        calibrate(ONES, np.empty(0), ONES, "beta")
    assert (calibrate(ONES, np.empty(0), ONES, "none") == ONES).all()


# -- resampling -----------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(logs, st.integers(0, 1000), st.integers(1, 200))
def test_systematic_copies_are_within_one_of_their_mean(values, seed, rows) -> None:
    weights = np.exp(values - values.max())
    found = resample(weights, "systematic", np.random.default_rng(seed), rows)
    copies = np.bincount(found, minlength=weights.size)
    assert found.size == rows
    assert (np.abs(copies - rows * weights / weights.sum()) < 1 + 1e-9).all()
    assert (np.diff(found) >= 0).all()


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, -1.0], [np.nan, 1.0]], ids=str)
def test_weights_that_cannot_be_drawn_from(weights) -> None:
    with pytest.raises(UsageError, match="weights must"):
        resample(np.array(weights), "systematic", np.random.default_rng(0))
    with pytest.raises(UsageError, match="resample"):
        resample(np.ones(3), "often", np.random.default_rng(0))  # type: ignore[arg-type]


# -- worth ----------------------------------------------------------------------------------------


def test_likelihood_size_is_kishs_for_equal_pulls_and_counts_rows() -> None:
    rng = np.random.default_rng(3)
    weights = rng.exponential(1, 200)
    signs = rng.choice([-1.0, 1.0], 200)[:, None]
    assert np.isclose(
        likelihood_size(weights, signs, np.eye(1)), effective_size(weights), rtol=1e-9
    )
    assert np.isclose(likelihood_size(np.ones(200), rng.normal(size=(200, 3)), np.eye(3)), 200)
    # Variance of a weighted mean over many tables: the size predicts it.
    pulls = rng.normal(0, 1 + weights, (4000, 200))
    variance = np.var((pulls * weights).sum(axis=1) / weights.sum())
    target = np.mean((weights * pulls**2).sum(axis=1) / weights.sum())
    sizes = [likelihood_size(weights, row[:, None], np.eye(1)) for row in pulls[:300]]
    assert abs(np.median(sizes) / (target / variance) - 1) < 0.2


def test_label_size_needs_a_label() -> None:
    frame, schema = example_frame(300), example_schema()
    size = label_size(np.ones(300), frame, schema)
    assert size is not None
    assert np.isclose(size, 300)
    assert label_size(np.ones(300), frame[["age"]], schema.select(["age"])) is None
    constant = frame.assign(ill="no")
    assert label_size(np.ones(300), constant, schema) is not None


def test_cautions_say_when_not_to_use_weights() -> None:
    rng = np.random.default_rng(1)
    heavy = rng.exponential(1.0, 5000) * 2  # Pareto(1/2): not even a mean
    facts = diagnose(Processing(temper=1.0).apply(heavy), heavy)
    said = " ".join(cautions(facts, "w"))
    assert "k-hat" in said
    assert "not even their mean" in said
    assert "Do not use" in said
    assert "1% of the rows carry" in said
    calm = rng.normal(0, 0.2, 5000)
    assert cautions(diagnose(Processing().apply(calm), calm), "w") == []
    assert "more noise than signal" in cautions(diagnose(np.ones(9), np.zeros(9)), "w", 1.5)[0]
