"""Unbiased means against brute force: the best linear estimate from the same noisy answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from marginalsyn import Schema
from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.noisy_marginals import combine, decompose, model_mean, weigh
from marginalsyn.answers.projection import evaluate, project
from marginalsyn.answers.questions import read_question
from marginalsyn.graphical.compression import with_shares

Make = Callable[..., Any]
SIZES = {"a": 2, "b": 3, "c": 2}


def test_the_parts_of_a_function_add_up_to_it() -> None:
    values = np.random.default_rng(0).normal(size=(2, 3, 4))
    parts = decompose(("a", "b", "c"), values)
    total = np.zeros_like(values)
    for key, part in parts.items():
        shape = [n if c in key else 1 for n, c in zip(values.shape, "abc", strict=True)]
        total += part.reshape(shape)
        for axis in range(part.ndim):
            assert np.abs(part.sum(axis=axis)).max() < 1e-12
    assert np.allclose(total, values)


def test_pooled_means_are_the_best_linear_unbiased_estimates(evidence_of: Make) -> None:
    marginals = [
        (("a", "b"), 3.0),
        (("b", "c"), 2.0),
        (("a",), 1.5),
        (("b",), 4.0),
        (("b", "a"), 5.0),
    ]
    evidence, counts = evidence_of(SIZES, marginals, seed=1, public=True)
    function = combine(
        evidence,
        [(("b", "a"), np.arange(6.0).reshape(3, 2) ** 2), (("c", "b"), np.eye(2, 3))],
        {},
    )
    line = weigh(evidence, function)
    value = evaluate(evidence, function, evidence.cells(tuple(SIZES), np.random.default_rng(0)))
    # Brute force: counts of all twelve cells, unconstrained, from every answer of all marginals;
    # the total is public, so it is one more answer without noise.
    cells = list(itertools.product(*(range(n) for n in SIZES.values())))
    rows, answers, precision = [np.ones(12)], [counts.sum()], [1e6]
    for marginal in evidence.marginals:
        for index in np.ndindex(*marginal.values.shape):
            held = dict(zip(marginal.columns, index, strict=True))
            rows.append([all(cell["abc".index(c)] == v for c, v in held.items()) for cell in cells])
            answers.append(marginal.values[index])
            precision.append(marginal.sigma**-2)
    design, weights = np.array(rows, float), np.array(precision)
    normal = np.linalg.pinv(design.T @ (weights[:, None] * design), rcond=1e-12)
    best = value @ normal @ design.T @ (weights * np.array(answers)) / counts.sum()
    assert line.value(evidence) == pytest.approx(best, rel=1e-5)
    variance = value @ normal @ value / counts.sum() ** 2
    mean = line.value(evidence)
    assert line.noise(evidence, mean) == pytest.approx(variance, rel=1e-4)


@pytest.mark.parametrize("public", [True, False])
def test_means_are_unbiased_and_their_noise_is_as_told(evidence_of: Make, public: bool) -> None:
    marginals = [(("a", "b"), 6.0), (("b", "c"), 4.0), (("a",), 3.0), (("c",), 3.0)]
    function_values = np.array([[1.0, 5.0, 2.0], [0.0, -3.0, 7.0]])
    found, told = [], 0.0
    for seed in range(400):
        evidence, counts = evidence_of(SIZES, marginals, seed=seed, public=public, fit=False)
        line = weigh(evidence, combine(evidence, [(("a", "b"), function_values)], {}))
        found.append(line.value(evidence))
        truth = float((counts.sum(axis=2) * function_values).sum() / counts.sum())
        told = line.noise(evidence, truth) ** 0.5
    assert abs(np.mean(found) - truth) < 5 * told / 20
    assert 0.85 < np.std(found) / told < 1.15


def test_merged_codes_are_told_by_their_own_column(evidence_of: Make) -> None:
    merges = {"b": ([0, 1, 1], [1.0, 0.3, 0.7])}
    marginals = [(("a", "b"), 1e-6), (("a",), 1e-6), (("b",), 1e-6), (("c",), 1e-6)]
    evidence, counts = evidence_of(SIZES, marginals, seed=3, merges=merges)
    assert evidence.domain == {"a": 2, "b": 2, "c": 2}
    cells = evidence.cells(("a", "b"), np.random.default_rng(0))
    cell = np.zeros((6, 1))
    cell[5] = 1.0  # a = 1, b = 2
    functions, projected = project(evidence, cells, evidence.weights(cells), cell)
    line = weigh(evidence, functions[0])
    # Within merged codes the model holds the columns independent; b alone is told exactly.
    single = weigh(evidence, combine(evidence, [], {"b": np.array([0.0, 0.0, 1.0])}))
    assert single.value(evidence) == pytest.approx(
        counts.sum(axis=(0, 2))[2] / counts.sum(), abs=1e-6
    )
    assert np.ptp(projected) > 0
    exact = (counts[1].sum(axis=1)[1:].sum()) * 0.7 / counts.sum()
    assert line.value(evidence) == pytest.approx(exact, abs=0.02)


def test_what_was_never_measured_is_left_to_the_model(evidence_of: Make) -> None:
    evidence, _ = evidence_of(SIZES, [(("a",), 1.0), (("b",), 1.0), (("c",), 1.0)], seed=0)
    both = combine(evidence, [(("a", "c"), np.array([[1.0, 0.0], [0.0, 1.0]]))], {})
    line = weigh(evidence, both)
    assert set(line.unmeasured.parts) == {("a", "c")}
    assert line.value(evidence) == pytest.approx(model_mean(evidence, both), abs=1e-2)


def test_codes_that_noise_drowned_do_not_weigh_their_own_noise(evidence_of: Make) -> None:
    """High values that no row has were measured as one; lucky noise gave every group some."""
    schema = Schema.from_domain({"n": 16, "b": 2})
    counts = np.outer([600.0, 300, 100, 10, *[0.0] * 12], [1.0, 1.0])
    (question,) = read_question("share(n >= 6) by b", schema)
    found = []
    for seed in range(120):
        evidence, _ = evidence_of(
            {"n": 16, "b": 2},
            [(("n",), 20.0), (("n", "b"), 15.0)],
            seed=seed,
            counts=counts,
            schema=schema,
            merges={"n": ([0, 1, 2, *[3] * 13], [1.0] * 3 + [1 / 13] * 13)},
        )
        again = evidence._split(evidence.marginals, with_shares)
        evidence = replace(evidence, compression=again).refitted()
        problem = Problem(evidence, question, "table", np.random.default_rng(0))
        found.append(problem.value / problem.error)
    # The truth is 0.
    assert np.all(np.abs(np.mean(found, axis=0)) < 0.45)
    assert np.all(np.mean(np.abs(found) < 1.96, axis=0) > 0.88)
