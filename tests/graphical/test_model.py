"""The engine against brute force, against Private-PGM's own, and its rows against its marginals."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence

import numpy as np
import pytest

from marginalsyn.contract import Measurement
from marginalsyn.errors import DataError, UsageError
from marginalsyn.graphical.estimation import estimate_total
from marginalsyn.graphical.model import Fitted, fit, model_mb
from marginalsyn.graphical.private_pgm import fit_mbi

DOMAIN = {"a": 3, "b": 4, "c": 2, "d": 3, "e": 2}
MODELS: dict[str, list[tuple[str, ...]]] = {
    "empty": [],
    "single": [("b",)],
    "tree": [("a", "b"), ("c", "b"), ("b", "d"), ("d", "e")],
    "loop": [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("e",)],
    "disconnected": [("b", "a"), ("d", "e"), ("c",)],
    "triples": [("a", "b", "c"), ("b", "c", "d"), ("c", "e"), ("c",)],
    "full": [("a", "b", "c", "d", "e"), ("a",)],
}
IMPOSSIBLE = (("b", "a"), np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 1, 1]], dtype=bool))


def truth(rng: np.random.Generator, rows: int = 400) -> np.ndarray:
    """Counts of a table whose columns depend on each other."""
    weights = rng.gamma(0.4, size=tuple(DOMAIN.values()))
    return rng.multinomial(rows, weights.ravel() / weights.sum()).reshape(weights.shape)


def project(joint: np.ndarray, columns: Sequence[str], domain: dict[str, int]) -> np.ndarray:
    """A marginal of an explicit joint table."""
    names = list(domain)
    summed = joint.sum(axis=tuple(i for i, name in enumerate(names) if name not in columns))
    left = [name for name in names if name in columns]
    return summed.transpose([left.index(name) for name in columns])


def measure(
    cliques: Sequence[tuple[str, ...]], sigma: float = 4.0, seed: int = 1
) -> list[Measurement]:
    rng = np.random.default_rng(seed)
    joint = truth(rng)
    exact = [project(joint, clique, DOMAIN) for clique in cliques]
    return [
        Measurement(clique, values + np.rint(rng.normal(0, sigma, values.shape)), sigma)
        for clique, values in zip(cliques, exact, strict=True)
    ]


def explicit(model: Fitted) -> np.ndarray:
    """The joint table that a model's potentials define."""
    names = list(model.domain)
    logs = np.zeros(tuple(model.domain.values()))
    for clique, potential in model.potentials.items():
        logs = logs + potential[tuple(slice(None) if n in clique else None for n in names)]
    joint = np.exp(logs - logs.max())
    return joint * (model.total / joint.sum())


def subsets() -> list[tuple[str, ...]]:
    names = list(DOMAIN)
    chosen = [c for k in range(len(names) + 1) for c in itertools.combinations(names, k)]
    return [c[::-1] if len(c) % 2 else c for c in chosen]


@pytest.mark.parametrize("zeros", [(), (IMPOSSIBLE,)], ids=["", "zeros"])
@pytest.mark.parametrize("name", MODELS)
def test_marginals_equal_brute_force(name: str, zeros: tuple) -> None:
    model = fit(DOMAIN, measure(MODELS[name]), total=400, zeros=zeros)
    joint = explicit(model)
    answers = model.marginals(subsets())
    for columns, values in answers.items():
        expected = project(joint, columns, DOMAIN)
        assert values.shape == expected.shape
        np.testing.assert_allclose(values, expected, atol=1e-8)
        np.testing.assert_array_equal(values, model.marginal(columns))
    for clique, belief in model.marginals(model.cliques).items():
        np.testing.assert_allclose(belief, project(joint, clique, DOMAIN), atol=1e-8)
    if zeros:
        assert np.all(model.marginal(("b", "a"))[IMPOSSIBLE[1]] == 0)


def brute_force_loss(
    measurements: Sequence[Measurement], total: float, allowed: np.ndarray
) -> float:
    """The least loss over explicit tables: a non-negative least squares problem."""
    from scipy.optimize import nnls

    cells = np.argwhere(allowed)
    rows, targets = [np.full(len(cells), 1e6)], [1e6 * total]
    names = list(DOMAIN)
    for m in measurements:
        axes = [names.index(c) for c in m.columns]
        for index in np.ndindex(m.values.shape):
            rows.append(np.all(cells[:, axes] == index, axis=1) / m.sigma)
            targets.append(m.values[index] / m.sigma)
    matrix, target = np.array(rows), np.array(targets)
    solution, _ = nnls(matrix, target, maxiter=100_000)
    residual = matrix @ solution - target
    return 0.5 * float(residual @ residual)


@pytest.mark.parametrize("zeros", [(), (IMPOSSIBLE,)], ids=["", "zeros"])
@pytest.mark.parametrize("name", ["tree", "loop", "triples", "disconnected"])
def test_fit_reaches_the_optimum(name: str, zeros: tuple) -> None:
    measurements = measure(MODELS[name])
    allowed = np.ones(tuple(DOMAIN.values()), dtype=bool)
    if zeros:
        allowed &= ~IMPOSSIBLE[1].T[:, :, None, None, None]
    best = brute_force_loss(measurements, 400, allowed)
    model = fit(DOMAIN, measurements, total=400, zeros=zeros, tolerance=1e-8, max_iters=20_000)
    assert model.loss >= best * (1 - 1e-6)
    assert model.loss <= best * (1 + 1e-4)


@pytest.mark.parametrize("name", ["tree", "loop"])
def test_fit_agrees_with_private_pgm(name: str) -> None:
    pytest.importorskip("mbi")
    measurements = measure(MODELS[name])
    theirs = fit_mbi(DOMAIN, measurements, 400, iters=5000)
    ours = fit(DOMAIN, measurements, total=400, tolerance=1e-7, max_iters=5000)
    assert ours.loss <= theirs.loss * (1 + 1e-4)
    for pair in itertools.combinations(DOMAIN, 2):
        np.testing.assert_allclose(ours.marginal(pair), theirs.marginal(pair), atol=0.5)


def test_no_measurements_give_the_uniform_table() -> None:
    model = fit(DOMAIN, [], total=288)
    np.testing.assert_allclose(model.marginal(("a", "e")), np.full((3, 2), 48.0))
    left = fit({"a": 2, "b": 2}, [], total=3, zeros=[(("a", "b"), np.eye(2, dtype=bool)[::-1])])
    np.testing.assert_allclose(left.marginal(("a", "b")), np.eye(2) * 1.5)


def test_saved_model_gives_the_same_rows() -> None:
    model = fit(DOMAIN, measure(MODELS["loop"]), zeros=[IMPOSSIBLE])
    arrays, meta = model.arrays()
    again = Fitted.from_arrays(arrays, json.loads(json.dumps(meta)))
    assert again.cliques == model.cliques
    assert again.total == model.total
    np.testing.assert_array_equal(again.marginal(("a", "e")), model.marginal(("a", "e")))
    first, second = (m.rows(300, np.random.default_rng(5)) for m in (model, again))
    np.testing.assert_array_equal(first, second)
    with pytest.raises(DataError, match="format"):
        Fitted.from_arrays(arrays, {**meta, "format": 99})


def test_predicted_size_is_the_models_size() -> None:
    rng = np.random.default_rng(3)
    domain = {f"x{i}": int(n) for i, n in enumerate(rng.integers(2, 9, 9))}
    pairs = list(itertools.combinations(domain, 2))
    for count in (0, 3, 8, 12):
        cliques = [pairs[i] for i in rng.choice(len(pairs), count, replace=False)]
        shapes = [tuple(domain[c] for c in clique) for clique in cliques]
        model = fit(
            domain, [Measurement(c, np.ones(s), 1.0) for c, s in zip(cliques, shapes, strict=True)]
        )
        cells = sum(math.prod(domain[c] for c in clique) for clique in model.cliques)
        assert model_mb(domain, cliques) == cells * 8 / 2**20 == model.model_mb
        assert all(any({*pair} <= {*clique} for clique in model.cliques) for pair in cliques)


def test_total_is_estimated_by_inverse_variance() -> None:
    first = Measurement(("a",), np.array([10.0, 20.0]), 1.0)  # variance 2
    second = Measurement(("b",), np.array([5.0, 5.0, 5.0, 5.0]), 2.0)  # variance 16
    precision = 1 / 2 + 1 / 16
    expected = (30 / 2 + 20 / 16) / precision, precision**-0.5
    assert estimate_total([first, second]) == pytest.approx(expected)
    assert fit({"a": 2, "b": 4}, [first, second]).total == pytest.approx(expected[0])
    each = Measurement(("a",), np.array([10.0, 20.0]), np.array([3.0, 4.0]))  # variance 25
    assert estimate_total([each]) == pytest.approx((30, 5))
    assert fit({"a": 2}, [Measurement(("a",), np.array([-5.0, 1.0]), 1.0)]).total == 1
    assert fit({"a": 2}, []).total == 1


@pytest.mark.parametrize(
    ("measurement", "text"),
    [
        (Measurement(("z",), np.ones(3), 1.0), "must be in the domain"),
        (Measurement(("a", "a"), np.ones((3, 3)), 1.0), "once each"),
        (Measurement(("a",), np.ones(4), 1.0), "shape"),
        (Measurement(("a",), np.ones(3), 0.0), "sigma"),
    ],
)
def test_mistakes_are_named(measurement: Measurement, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        fit(DOMAIN, [measurement])


def test_impossible_everything_is_named() -> None:
    with pytest.raises(UsageError, match="structural zeros"):
        fit({"a": 2}, [], zeros=[(("a",), np.array([True, True]))])
