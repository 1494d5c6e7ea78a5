"""One regression for all: where it stops, and that masses count as rows do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from marginalsyn.weights.logistic import Labelled, fit_logistic


def table(seed: int, rows: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.hstack([rng.uniform(-1, 1, (rows, 3)), np.ones((rows, 1))])
    return x, np.where(rng.random(rows) < 0.5 + 0.4 * x[:, 0], 1.0, -1.0), rng.gamma(0.5, 2, rows)


def slope(beta: np.ndarray, x: np.ndarray, y: np.ndarray, m: np.ndarray, penalty: float):
    return penalty * beta - (y * m / (1 + np.exp(y * (x @ beta)))) @ x


@pytest.mark.parametrize("penalty", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("tolerance", [10.0, 1e-3, 1e-9])
def test_it_stops_at_the_stated_slope(penalty: float, tolerance: float) -> None:
    x, y, m = table(1)
    found = fit_logistic([Labelled([x], y, m)], 4, penalty, tolerance)
    true = float(np.linalg.norm(slope(found.beta, x, y, m, penalty)))
    assert found.slope == pytest.approx(true, rel=1e-6, abs=1e-12)
    assert true <= tolerance * (1 + 1e-9) + 1e-12
    # The objective is penalty-strongly convex: sensitivity() builds on this distance.
    best = minimize(
        lambda b: m @ np.logaddexp(0, -y * (x @ b)) + penalty / 2 * b @ b,
        np.zeros(4),
        jac=lambda b: slope(b, x, y, m, penalty),
        options={"gtol": 1e-10},
    ).x
    assert np.linalg.norm(found.beta - best) <= tolerance / penalty + 1e-5


def test_masses_labels_and_chunks_say_the_same() -> None:
    x, y, _ = table(2)
    twice = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    repeated = np.repeat(np.arange(len(y)), twice.astype(int))
    x_two, y_two = x[repeated], y[repeated]
    one = fit_logistic([Labelled([x], y, twice)], 4, 1.0)
    sides = [Labelled([x_two[y_two == s][:5], x_two[y_two == s][5:]], s) for s in (1.0, -1.0)]
    two = fit_logistic(sides, 4, 1.0)
    assert one.beta == pytest.approx(two.beta, abs=1e-6)
    assert one.hessian == pytest.approx(two.hessian, abs=1e-5)
