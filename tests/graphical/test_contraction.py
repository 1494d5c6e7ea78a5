"""Contraction and propagation against explicit joint tables, in every mode of arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from marginalsyn.graphical import contraction as network_module
from marginalsyn.graphical.contraction import Contraction
from marginalsyn.graphical.factors import Factor, aligned, contract_all, summed
from marginalsyn.graphical.junction_tree import triangulate


def random_network(rng: np.random.Generator, scale: float) -> Contraction:
    """Up to six columns and a few tables over some of them, with some impossible cells."""
    columns = int(rng.integers(1, 7))
    sizes = tuple(int(n) for n in rng.integers(1, 5, columns))
    scopes = [(v,) for v in range(columns)]
    for _ in range(rng.integers(0, 7)):
        width = int(rng.integers(1, min(3, columns) + 1))
        scopes.append(tuple(sorted(rng.choice(columns, width, replace=False).tolist())))
    network = Contraction(triangulate(sizes, scopes), scopes)
    for logs in network.logs:
        logs[...] = rng.normal(0, scale, logs.shape)
        if logs.size > 3:
            logs.flat[0] = -np.inf
    return network


def explicit(network: Contraction) -> tuple[Factor, float]:
    """The joint table, and the log of the mass."""
    scope = tuple(range(len(network.tree.sizes)))
    total = np.zeros(network.tree.sizes)
    for table, logs in zip(network.scopes, network.logs, strict=True):
        total = total + aligned(Factor(table, logs), scope)
    mass = np.logaddexp.reduce(total, axis=None)
    return Factor(scope, np.exp(total - mass)), float(mass)


def laid_out(table: Factor, scope: tuple[int, ...], sizes: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(aligned(table, scope), [sizes[v] for v in scope])


@pytest.mark.parametrize("mode", ["plain", "scaled", "logs"])
def test_propagation_equals_the_explicit_joint(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    if mode == "scaled":
        monkeypatch.setattr(network_module, "_LARGEST_UNSCALED", 0.0)
    for _ in range(40):
        network = random_network(rng, 3.0)
        joint, mass = explicit(network)
        if mode == "logs":
            monkeypatch.setattr(network_module, "_TINY", 1e300)
        if not np.isfinite(mass):
            assert not network.propagate()
            continue
        assert network.propagate()
        assert network.in_logs == (mode == "logs")
        assert network.log_mass == pytest.approx(mass, abs=1e-9)
        sizes = network.tree.sizes
        for scope, marginal in zip(network.scopes, network.marginals, strict=True):
            np.testing.assert_allclose(marginal, summed(joint, scope).array, atol=1e-12)
        for column in range(len(sizes)):
            bucket = network.tree.bucket(column)
            exact = aligned(summed(joint, bucket), bucket)
            found = laid_out(contract_all(network.joint(column), bucket, sizes), bucket, sizes)
            np.testing.assert_allclose(found / found.sum(), exact, atol=1e-12)
            given = contract_all(network.conditional(column), bucket, sizes)
            values = laid_out(given, bucket, sizes) * exact.sum(axis=0)
            sums = laid_out(given, bucket, sizes).sum(axis=0)
            np.testing.assert_allclose(values, exact * sums, atol=1e-9 * sums.max())


def test_huge_ranges_fall_back_to_logarithms() -> None:
    scopes = [(0,), (1,), (2,), (0, 1), (1, 2)]
    network = Contraction(triangulate((2, 2, 2), scopes), scopes)
    # every table peaks where another forbids it
    network.logs[3][...] = [[0.0, -2000.0], [-2000.0, -1999.0]]
    network.logs[4][...] = [[-5000.0, -5001.0], [0.0, -2500.0]]
    network.logs[0][...] = [-900.0, 900.0]
    joint, mass = explicit(network)
    assert network.propagate()
    assert network.in_logs
    assert network.log_mass == pytest.approx(mass)
    for scope, marginal in zip(network.scopes, network.marginals, strict=True):
        np.testing.assert_allclose(marginal, summed(joint, scope).array, atol=1e-12)


def test_wide_domains_neither_overflow_nor_underflow() -> None:
    columns = 120
    sizes = (50,) * columns
    scopes = [(v,) for v in range(columns)] + [(v, v + 1) for v in range(columns - 1)]
    network = Contraction(triangulate(sizes, scopes), scopes)
    rng = np.random.default_rng(0)
    for logs in network.logs:
        logs[...] = rng.normal(0, 5, logs.shape)
    assert network.propagate()
    assert not network.in_logs
    forward = network.logs[0].copy()
    for v in range(columns - 1):  # the chain's own forward recursion
        step = forward[:, None] + network.logs[columns + v]
        forward = np.logaddexp.reduce(step, axis=0) + network.logs[v + 1]
    assert network.log_mass == pytest.approx(np.logaddexp.reduce(forward), rel=1e-12)
    last = np.exp(forward - np.logaddexp.reduce(forward))
    np.testing.assert_allclose(network.marginals[columns - 1], last, atol=1e-10)


def cells(
    sizes: tuple[int, ...], cliques: list[tuple[int, int]], order: tuple[int, ...] | None
) -> int:
    """Cells of the junction tree that an order (by default the greedy one) leads to."""
    found = triangulate(sizes, cliques, order).cliques()
    return sum(int(np.prod([sizes[v] for v in clique])) for clique in found)
