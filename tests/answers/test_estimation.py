"""Intervals hold the truth as often as they say, also where counts are pushed to zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from letters import PAIRS, SCHEMA, SIZES

from marginalsyn import Schema
from marginalsyn.answers.estimation import Problem, kept_inside
from marginalsyn.answers.regression import Regression
from marginalsyn.answers.replaying import replay
from marginalsyn.answers.subgroups import difference_of, mean_of, table_of
from marginalsyn.table.columns import BooleanColumn

Make = Callable[..., Any]


def law(seed: int = 5) -> np.ndarray:
    """A distribution with empty cells."""
    shares = np.random.default_rng(seed).dirichlet(np.full(24, 0.4)).reshape(4, 3, 2)
    return shares


@pytest.mark.parametrize("target", ["population", "table"])
def test_linear_intervals_hold_the_truth_as_often_as_they_say(
    evidence_of: Make, target: str
) -> None:
    rng, truth = np.random.default_rng(0), law()
    questions = [
        table_of(("a", "b"), SCHEMA, "share"),
        table_of(("a", "c"), SCHEMA, "count"),
        mean_of("a", SCHEMA),
        difference_of("c", "b", SCHEMA),
    ]
    held = np.zeros((60, 12 + 8 + 1 + 2), dtype=bool)
    for repeat in range(len(held)):
        counts = rng.multinomial(1500, truth.ravel()).reshape(truth.shape).astype(float)
        meant = truth if target == "population" else counts / counts.sum()
        evidence, _ = evidence_of(SIZES, PAIRS, seed=repeat, counts=counts, schema=SCHEMA)
        exact = [
            meant.sum(axis=2).ravel(),
            meant.sum(axis=1).ravel() * 1500,
            [(meant.sum(axis=(1, 2)) * np.arange(4)).sum()],
            np.diff(meant.sum(axis=0)[:, 1] / meant.sum(axis=(0, 2)), prepend=0),
        ]
        shares = meant.sum(axis=0)[:, 1] / meant.sum(axis=(0, 2))
        exact[3] = shares[1:] - shares[0]
        place = 0
        for question, values in zip(questions, exact, strict=True):
            found = Problem(evidence, question, target, rng).conclude(0.9, None)  # type: ignore[arg-type]
            inside = (found.low <= values) & (values <= found.high)
            held[repeat, place : place + len(values)] = inside
            place += len(values)
            assert np.all(found.low <= found.high)
    # 60 seeded repeats: the mean over 23 numbers moves by about .015, each by .04.
    assert 0.85 < held.mean() < 0.95
    assert held.mean(axis=0).min() > 0.7


def test_a_difference_of_shares_knows_that_they_share_a_margin(evidence_of: Make) -> None:
    """Where the margin is known well, what one group has too much of the other has too little."""
    schema = Schema(columns=(BooleanColumn(name="g"), BooleanColumn(name="y")))
    counts = np.array([[900.0, 600.0], [500.0, 1000.0]])
    question, truth = difference_of("y", "g", schema), 1000 / 1500 - 600 / 1500
    marginals = [(("g", "y"), 30.0), (("g",), 0.5), (("y",), 0.5)]
    errors, halves = [], []
    for seed in range(120):
        evidence, _ = evidence_of(
            {"g": 2, "y": 2}, marginals, seed=seed, counts=counts, schema=schema
        )
        found = Problem(evidence, question, "table", np.random.default_rng(0)).conclude(0.95, None)
        errors.append(float(found.value[0]) - truth)
        halves.append(float(found.high[0] - found.low[0]) / 2 / 1.96)
    # 120 draws tell a deviation to 6.5%; without the correlation the interval is 0.71 of it.
    assert np.mean(halves) / np.std(errors) == pytest.approx(1.0, abs=0.22)


def test_replays_split_merged_codes_anew(evidence_of: Make) -> None:
    evidence, _ = evidence_of(
        {"a": 4, "b": 2},
        [(("a",), 20.0), (("a", "b"), 20.0)],
        seed=1,
        merges={"a": ([0, 1, 2, 2], [1.0, 1.0, 0.5, 0.5])},
    )
    rng = np.random.default_rng(0)
    shares = [evidence.replay("table", rng).shares(("a",))[2] for _ in range(40)]
    counts = evidence.shares(("a",))[2:] * evidence.rows
    # Of two codes with as many rows each, noise of 20 moves one against the other by about 14.
    assert 4 < np.std(shares) * evidence.rows < 30
    assert np.all(counts > 0)


def test_the_linear_form_agrees_with_replays(evidence_of: Make) -> None:
    counts = np.rint(np.random.default_rng(2).dirichlet(np.full(24, 3.0)) * 4000).reshape(4, 3, 2)
    evidence, _ = evidence_of(SIZES, PAIRS, seed=1, counts=counts, schema=SCHEMA)
    rng = np.random.default_rng(3)
    problems = [
        Problem(evidence, Regression(formula, SCHEMA), "population", rng)
        for formula in ("c ~ a + b", "a ~ b + c")
    ]
    assert all(problem.measured_share.min() > 0.97 for problem in problems)
    found = replay(evidence, problems, "population", 100, rng, refit=True)
    for errors in found:
        assert errors is not None
        # A standard deviation of 100 draws is known to within 7%.
        assert np.all(np.abs(errors.std(axis=0) - 1) < 0.3)
        assert np.all(np.abs(errors.mean(axis=0)) < 0.5)


def test_an_interval_is_cut_to_what_is_possible_and_never_empty() -> None:
    low, high = kept_inside(
        np.array([-3.0, -0.1, 0.2, 1.2]), np.array([-1.0, 0.1, 0.4, 1.5]), np.full(4, 0.05), 0, 1
    )
    assert np.allclose(low, [0, 0, 0.2, 0.95])
    assert np.allclose(high, [0.05, 0.1, 0.4, 1.0])
