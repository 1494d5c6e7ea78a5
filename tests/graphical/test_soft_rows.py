"""The table of soft rows: gradients by finite differences, and a fit that reaches its targets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from marginalsyn.contract import Measurement
from marginalsyn.graphical import soft_rows as rowfit

DOMAIN = {"a": 3, "b": 2, "c": 4}


def counts(codes: np.ndarray, columns: tuple[str, ...]) -> np.ndarray:
    """Exact counts over the named columns."""
    table = np.zeros([DOMAIN[c] for c in columns])
    np.add.at(table, tuple(codes[:, list(DOMAIN).index(c)] for c in columns), 1)
    return table


@pytest.fixture(scope="module")
def codes() -> np.ndarray:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 4000)
    b = (rng.random(4000) < np.array([0.1, 0.5, 0.9])[a]).astype(int)
    c = np.where(rng.random(4000) < 0.7, a + b, rng.integers(0, 4, 4000))
    return np.stack([a, b, c], axis=1)


def all_marginals(codes: np.ndarray, sigma: float = 1.0) -> list[Measurement]:
    """Exact marginals of every order."""
    subsets = itertools.chain.from_iterable(itertools.combinations(DOMAIN, k) for k in (1, 2, 3))
    return [Measurement(columns=q, values=counts(codes, q), sigma=sigma) for q in subsets]


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_joint_and_its_gradient_against_brute_force(order):
    rng = np.random.default_rng(order)
    parts = [rng.random((5, k)) for k in (3, 2, 4)[:order]]
    brute = sum(
        np.multiply.outer(np.multiply.outer(a, b), c)
        for a, b, c in zip(*(parts + [np.ones((5, 1))] * 2)[:3], strict=True)
    )
    np.testing.assert_allclose(rowfit._joint(parts), brute.reshape([p.shape[1] for p in parts]))
    residual = rng.normal(size=rowfit._joint(parts).shape)
    for part, gradient in zip(parts, rowfit._backward(parts, residual), strict=True):
        step = rng.normal(size=part.shape) * 1e-6
        before = (rowfit._joint(parts) * residual).sum()
        part += step
        after = (rowfit._joint(parts) * residual).sum()
        part -= step
        assert after - before == pytest.approx((gradient * step).sum(), rel=1e-3, abs=1e-12)


@pytest.mark.parametrize("batch", [1_000_000, 30])
def test_a_fit_to_exact_marginals_reaches_them(codes, batch, monkeypatch):
    monkeypatch.setattr(rowfit, "_BATCH_CELLS", batch)
    measurements = all_marginals(codes)
    table = rowfit.fit_rows(
        DOMAIN, measurements, total=4000, rng=np.random.default_rng(1), soft_rows=200, steps=400
    )
    for m in measurements:
        error = np.abs(table.marginal(m.columns) - m.values).sum() / 4000
        assert error < 0.06, m.columns


@pytest.mark.parametrize("n", [1, 150, 5000])
def test_rows_follow_the_table(codes, n):
    table = rowfit.fit_rows(
        DOMAIN,
        all_marginals(codes),
        total=4000,
        rng=np.random.default_rng(1),
        soft_rows=200,
        steps=100,
    )
    rows = table.rows(n, np.random.default_rng(2))
    assert rows.shape == (n, 3)
    assert rows.dtype == np.int32
    expected = table.marginal(("a", "b", "c")) / 4000
    error = np.abs(counts(rows, ("a", "b", "c")) / n - expected).sum()
    # l1 of a multinomial of 24 cells: below sqrt(24 / n) on average.
    assert n < 1000 or error < 2 * np.sqrt(24 / n)
