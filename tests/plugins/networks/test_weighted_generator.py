"""Losses that take row weights, against brute force; networks that learn from weighted rows."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax")
from marginalsyn.errors import UsageError
from marginalsyn.plugins.networks.weighted_generator import (
    GROUPS,
    SCHEMES,
    WeightedGenerator,
    discriminator_loss,
    generator_loss,
    mmd,
    weighted_mean,
)

WIDTHS = [0.5, 2.0]


def kernel(a, b):
    square = float(np.sum((a - b) ** 2))
    return float(np.mean([np.exp(-square / (2 * width**2)) for width in WIDTHS]))


def brute_mmd(x, w, y, *, normalise):
    """The estimate by its definition, one pair after the other."""
    n, m = len(x), len(y)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    inside = sum(w[i] * w[j] * kernel(x[i], x[j]) for i, j in pairs)
    across = sum(w[i] * kernel(x[i], y[j]) for i in range(n) for j in range(m)) / m
    own = sum(kernel(y[i], y[j]) for i in range(m) for j in range(m) if i != j) / (m * (m - 1))
    if normalise:
        return inside / sum(w[i] * w[j] for i, j in pairs) - 2 * across / sum(w) + own
    return inside / (n * (n - 1)) - 2 * across / n + own


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(14, 3)), rng.gamma(1.0, size=14), rng.normal(size=(10, 3)) + 0.5


def test_weighted_mmd_is_that_of_the_definition(rows):
    x, w, y = rows
    for scheme, normalise in (("known", False), ("self-normalised", True)):
        found = float(mmd(x, w, y, widths=WIDTHS, scheme=scheme))
        assert found == pytest.approx(brute_mmd(x, w, y, normalise=normalise), abs=1e-5)
    parts = [np.array_split(v, GROUPS) for v in (x, w, y)]
    each = [brute_mmd(a, b, c, normalise=False) for a, b, c in zip(*parts, strict=True)]
    found = float(mmd(x, w, y, widths=WIDTHS, scheme="median-of-means"))
    assert found == pytest.approx(np.median(each), abs=1e-5)


def test_median_of_means_of_a_constant_and_under_one_huge_weight():
    ones = np.ones(25)
    assert float(weighted_mean(np.full(25, 3.0), ones, "median-of-means")) == pytest.approx(3.0)
    spoilt = ones.copy()
    spoilt[7] = 1e6
    values = np.linspace(0, 1, 25)
    calm = float(weighted_mean(values, ones, "median-of-means"))
    assert abs(float(weighted_mean(values, spoilt, "median-of-means")) - calm) < 0.25
    assert float(weighted_mean(values, spoilt, "known")) > 1e3


def test_cross_entropy_is_that_of_the_definition():
    real, w, made = np.array([0.3, -2.0]), np.array([0.5, 1.5]), np.array([1.0, -1.0, 4.0])

    def chance(odds):
        return 1 / (1 + np.exp(-odds))

    told = np.sum(w * -np.log(chance(real))) / 2 + np.mean(-np.log(1 - chance(made)))
    assert float(discriminator_loss(real, w, made, "known")) == pytest.approx(told, abs=1e-5)
    assert float(generator_loss(made)) == pytest.approx(np.mean(-np.log(chance(made))), abs=1e-5)


def test_known_weights_are_unbiased_for_the_target():
    """Rows thinned by a known function: the weighted estimate is, on average, that of all rows."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=(40, 1))
    truth, told = [], []
    for _ in range(300):
        rows = rng.normal(size=(200, 1))
        keep = 1 / (1 + np.exp(-rows[:, 0]))  # half of them on average
        kept = np.flatnonzero(rng.random(200) < keep)[:40]
        x, w = rows[kept], 0.5 / keep[kept]
        told.append(float(mmd(x, w, y, widths=WIDTHS, scheme="known")))
        truth.append(float(mmd(rows[:40], np.ones(40), y, widths=WIDTHS, scheme="known")))
    error = np.hypot(np.std(told), np.std(truth)) / np.sqrt(300)
    assert abs(np.mean(told) - np.mean(truth)) < 5 * error


@pytest.mark.parametrize("scheme", [*SCHEMES, "duplication"])
def test_a_network_learns_what_the_weights_ask_for(scheme):
    """Two clouds of which one is rare; weights make them equal."""
    rng = np.random.default_rng(2)
    side = rng.random(2000) < 0.15
    rows = rng.normal(size=(2000, 2)) * 0.4 + np.where(side, 2.0, -2.0)[:, None]
    weights = np.where(side, 0.5 / 0.15, 0.5 / 0.85)
    settings = {"steps": 400, "batch": 150, "hidden": (16, 16), "latent": 4}
    made = WeightedGenerator(scheme=scheme, **settings).fit(rows, weights, rng)(2000, rng)
    assert 0.4 < (made[:, 0] > 0).mean() < 0.6
    assert np.abs(np.abs(made).mean(axis=0) - 2.0).max() < 0.4


def test_an_adversary_teaches_too_and_a_seed_settles_all():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(500, 1)) + 3.0
    weights = np.where(rows[:, 0] > 3.0, 1.8, 0.2)
    how = WeightedGenerator(loss="cross-entropy", steps=400, hidden=(16,), latent=2)
    first, again = (how.fit(rows, weights, np.random.default_rng(4)) for _ in range(2))
    draws = [made(1000, np.random.default_rng(5)) for made in (first, again)]
    assert np.array_equal(*draws)
    assert (draws[0] > 3.0).mean() > 0.7


@pytest.mark.parametrize(
    "options",
    [{"loss": "l2"}, {"scheme": "mine"}, {"steps": 0}, {"hidden": ()}, {"rate": 0}, {"batch": 0}],
    ids=str,
)
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(UsageError, match="must be"):
        WeightedGenerator(**options)
    with pytest.raises(UsageError, match="must be one of"):
        weighted_mean(np.ones(2), np.ones(2), "mine")
