"""A column's counts by evidence: against sampling, against the nearest counts, and at the ends."""

from __future__ import annotations

import numpy as np
import pytest

from marginalsyn.graphical import shrunken_fit
from marginalsyn.graphical.estimation import project_to_simplex
from marginalsyn.graphical.shrunken_fit import settle

SPIKY = np.array([400.0, 60, 25, 9, 4, 2, 0, 0, 0, 0, 0, 0])
EVEN = np.array([45.0, 38, 52, 41, 47, 40, 44, 39, 43, 36, 37, 38])


def errors(counts: np.ndarray, sigma: float, draws: int = 40) -> tuple[float, float]:
    """Mean total variation of settled counts, and of the nearest counts that are possible."""
    rng, total, found = np.random.default_rng(0), counts.sum(), []
    for _ in range(draws):
        noisy = counts + rng.normal(0, sigma, counts.size)
        weights = np.full(counts.size, sigma**-2)
        both = settle(noisy, weights, total), project_to_simplex(noisy, total)
        found.append([np.abs(each - counts).sum() / 2 / total for each in both])
    own, nearest = np.mean(found, axis=0)
    return float(own), float(nearest)


@pytest.mark.parametrize("counts", [SPIKY, EVEN])
def test_counts_that_stand_clear_of_the_noise_stay_and_drowned_ones_come_nearer(
    counts: np.ndarray,
) -> None:
    own, nearest = errors(counts, 1.0)
    assert own < 1.15 * nearest
    own, nearest = errors(counts, 60.0)
    assert own < 0.93 * nearest


def test_even_columns_come_out_even_and_no_code_is_lost() -> None:
    own, nearest = errors(EVEN, 60.0)
    assert own < 0.5 * nearest
    noisy = EVEN + np.random.default_rng(1).normal(0, 300, EVEN.size)
    found = settle(noisy, np.full(EVEN.size, 300.0**-2), EVEN.sum())
    assert found.min() > 5
    assert found.sum() == pytest.approx(EVEN.sum())


def test_the_mean_is_that_of_draws_from_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one shape: gamma counts of a known sum are Dirichlet, weighed by the noise's law."""
    noisy, sigma, total = np.array([90.0, 12.0, -5.0, 33.0]), 12.0, 130.0
    rng = np.random.default_rng(2)
    for shape in (0.3, 2.0):
        monkeypatch.setattr(shrunken_fit, "SHAPES", np.array([shape]))
        own = settle(noisy, np.full(4, sigma**-2), total)
        drawn = rng.dirichlet(np.full(4, shape), 400_000) * total
        weigh = np.exp(-0.5 * np.square((drawn - noisy) / sigma).sum(axis=1))
        expected = weigh @ drawn / weigh.sum()
        assert own == pytest.approx(expected, abs=2.0)


def test_one_code_has_all_rows_and_noise_may_differ() -> None:
    assert settle(np.array([3.0]), np.array([0.01]), 50.0) == pytest.approx([50.0])
    sure = settle(np.array([70.0, 10.0, 40.0]), np.array([100.0, 100.0, 1e-4]), 100.0)
    assert sure == pytest.approx([70.0, 10.0, 20.0], abs=0.5)
