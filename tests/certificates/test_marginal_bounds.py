"""Bounds that may be printed: they hold, and not by miles."""

from __future__ import annotations

import math

import numpy as np
import pytest

from marginalsyn.certificates.marginal_bounds import (
    Gap,
    Selection,
    aim_bounds,
    fixed_sign_bound,
    measured_bound,
    noise_l1_bound,
    unmeasured_bounds,
)
from marginalsyn.privacy.noise import SeededNoise


@pytest.mark.parametrize(("sigma", "cells"), [(0.7, 50), (5.0, 1), (20.0, 400)])
def test_the_noise_bound_holds_at_its_rate_and_is_near_the_quantile(sigma, cells):
    noise = SeededNoise(3)
    draws = noise.gaussian(np.zeros((20_000, cells), np.int64), sigma)
    norms = np.abs(draws).sum(axis=1)
    bound = noise_l1_bound(sigma, cells, 0.01)
    # 20,000 draws at a rate of at most 0.01 exceed 0.014 with chance below 1e-7.
    assert (norms > bound).mean() < 0.014
    assert bound < 1.5 * np.quantile(norms, 0.99) + 2 * sigma


def test_the_fixed_sign_bound_holds():
    noise = SeededNoise(4)
    signs = np.where(np.arange(100) % 3, 1, -1)
    sums = noise.gaussian(np.zeros((20_000, 100), np.int64), 3.0) @ signs
    assert (sums > fixed_sign_bound(3.0, 100, 0.01)).mean() < 0.014


def test_a_measured_bound_covers_the_error_of_a_model_fitted_to_the_noise():
    noise = SeededNoise(5)
    truth = np.full(30, 40)
    missed = 0
    for _ in range(300):
        noisy = noise.gaussian(truth, 6.0)
        model = noisy.astype(float)  # the worst case: fitted to the last digit
        gap = float(np.abs(noisy - model).sum())
        missed += np.abs(truth - model).sum() > measured_bound(gap, 30, 6.0, 0.05)
    assert missed <= 35  # 300 draws at 0.05: more than 35 has chance below 1e-6


def test_bounds_of_a_selection_cover_every_candidate():
    rng = np.random.default_rng(6)
    noise = SeededNoise(6)
    candidates = [(f"c{i}",) for i in range(8)]
    weights = {q: 1.0 + (i % 3) for i, q in enumerate(candidates)}
    sigma, eps, beta = 4.0, 0.5, 0.05
    missed = 0
    for _ in range(200):
        truth = {q: rng.integers(0, 60, 12) for q in candidates}
        answers = {q: truth[q] + rng.normal(0, 8 * i, 12) for i, q in enumerate(candidates)}
        scores = [
            weights[q] * (np.abs(truth[q] - answers[q]).sum() - math.sqrt(2 / math.pi) * sigma * 12)
            for q in candidates
        ]
        sensitivity = max(weights.values())
        pick = noise.select(np.array(scores), eps=eps, sensitivity=sensitivity)
        chosen = candidates[pick]
        noisy = noise.gaussian(truth[chosen], sigma)
        model = {q: a + rng.normal(0, 3, 12) for q, a in answers.items()}
        selection = Selection(
            chosen=chosen,
            weights=weights,
            cells=dict.fromkeys(candidates, 12),
            gap=float(np.abs(noisy - answers[chosen]).sum()),
            moved={q: float(np.abs(model[q] - answers[q]).sum()) for q in candidates},
            sigma=sigma,
            eps=eps,
            sensitivity=sensitivity,
        )
        own = Gap(chosen, float(np.abs(noisy - model[chosen]).sum()), 12, sigma)
        bounds = aim_bounds([selection], [own], beta=beta, max_rounds=1)
        assert set(bounds) == set(candidates)
        missed += any(np.abs(truth[q] - model[q]).sum() > bounds[q][0] for q in candidates)
    assert missed <= 26  # 200 draws at 0.05: more than 26 has chance below 1e-6


def test_a_measurement_with_less_noise_than_was_judged_by_hides_no_larger_marginal():
    """The last lot takes what is left: scores took off more noise than the answer then has."""
    judged, sigma = 50.0, 10.0
    cells = {("small",): 4, ("large",): 400}
    per_cell = math.sqrt(2 / math.pi) * judged
    # The small one is chosen by a hair, so the large one's error is larger by its noise.
    errors = {("small",): 900.0}
    errors["large",] = errors["small",] + per_cell * (400 - 4) - 1
    common = {
        "chosen": ("small",),
        "weights": dict.fromkeys(cells, 1.0),
        "cells": cells,
        "gap": errors["small",],
        "moved": dict.fromkeys(cells, 0.0),
        "sigma": sigma,
        "eps": 100.0,
        "sensitivity": 1.0,
    }
    told = unmeasured_bounds(Selection(**common, judged=judged), 0.05)
    assert errors["large",] <= told["large",]
    assert unmeasured_bounds(Selection(**common), 0.05)["large",] < errors["large",]
