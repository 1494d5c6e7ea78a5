"""Posteriors against what is known in closed form, and the report made of them."""

from __future__ import annotations

import numpy as np
import pytest

from marginalsyn import evaluate
from marginalsyn.errors import UsageError
from marginalsyn.evaluation.posterior import PRIOR, _worst_r_hat, sample_posterior
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema

pytest.importorskip("blackjax")


def rows(seed: int, count: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (count, 2))
    return x, x @ [0.5, -0.3] + 0.2 + 0.1 * rng.standard_normal(count)


def test_a_linear_posterior_is_nearly_normal() -> None:
    x, y = rows(0)
    masses = np.random.default_rng(1).gamma(2.0, 0.5, 300)
    masses /= masses.mean()
    found = sample_posterior(x, y, masses, quantity=True, draws=400, seed=0)
    design = np.hstack([x, np.ones((300, 1))])
    gram = (design * masses[:, None]).T @ design
    beta = np.linalg.solve(gram, design.T @ (masses * y))
    sigma = np.sqrt(np.average((y - design @ beta) ** 2, weights=masses))
    covariance = np.linalg.inv(gram / sigma**2 + np.eye(3) / PRIOR**2)
    deviation = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(found.mean, beta, atol=float(0.35 * deviation.max()))
    np.testing.assert_allclose(found.deviation, deviation, rtol=0.3)
    assert found.r_hat < 1.1
    low, high = found.interval()
    assert ((low < beta) & (beta < high)).all()


@pytest.mark.slow
def test_a_logistic_posterior_and_its_weights() -> None:
    x, _ = rows(2, 400)
    chance = 1 / (1 + np.exp(-(2 * x[:, 0] - x[:, 1])))
    y = (np.random.default_rng(3).random(400) < chance).astype(float)
    plain = sample_posterior(x, y, np.ones(400), quantity=False, draws=800, seed=0)
    counts = np.where(np.arange(400) < 200, 1.5, 0.5)
    weighted = sample_posterior(x, y, counts, quantity=False, draws=800, seed=0)
    # Rows of weights 3 and 1 repeated so often, at half a weight each, are the same likelihood.
    repeated = np.repeat(np.arange(400), (2 * counts).astype(int))
    same = sample_posterior(
        x[repeated], y[repeated], np.full(len(repeated), 0.5), quantity=False, draws=800, seed=1
    )
    np.testing.assert_allclose(weighted.mean, same.mean, atol=float(0.35 * same.deviation.max()))
    np.testing.assert_allclose(weighted.deviation, same.deviation, rtol=0.3)
    assert np.abs(plain.mean - [2, -1, 0]).max() < 4 * plain.deviation.max()


def test_chains_that_do_not_meet_are_told() -> None:
    rng = np.random.default_rng(0)
    assert _worst_r_hat(rng.standard_normal((2, 500, 3))) < 1.02
    apart = rng.standard_normal((2, 500, 3)) + np.array([0, 3])[:, None, None]
    assert _worst_r_hat(apart) > 1.5


def test_too_few_draws() -> None:
    with pytest.raises(UsageError, match="draws"):
        sample_posterior(np.ones((3, 1)), np.ones(3), np.ones(3), quantity=True, draws=3, seed=0)


@pytest.mark.slow
def test_the_report() -> None:
    frame = example_frame(250)
    weights = np.random.default_rng(0).gamma(2.0, 1.0, 250)
    found = evaluate(
        frame,
        example_frame(150, 1),
        example_schema(),
        train=frame,
        weights=weights,
        reports=["bayes"],
    )
    results = {r["trained_on"]: r for r in found.reports["bayes"]["synthetic"]["results"]}
    assert results["real"]["mean_shift"] == 0
    # The same rows: their two posteriors differ by the chains alone.
    assert results["synthetic"]["mean_shift"] < 0.2
    assert results["synthetic"]["coverage"] == 1
    assert results["weighted"]["mean_shift"] > results["synthetic"]["mean_shift"]
    assert "Bayesian" in found.to_html()
    assert found.to_frame().metric.isin(["coverage"]).sum() == 3
