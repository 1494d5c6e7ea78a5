"""What is told before weights are paid for: from the release's own record, and nothing private."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from marginalsyn.budget import Budget, Neighbours
from marginalsyn.contract import Measurement, Target
from marginalsyn.table import Schema
from marginalsyn.weights import Conditional, LabelWeights, predict_marginals
from marginalsyn.weights.prediction import PAIR, RANGE, SCATTER, Record, predict_gain

SCHEMA = Schema.from_domain({"a": 3, "b": 4, "y": 2}).model_copy(update={"label": "y"})
PAIRS = [{"y", "a"}, {"y", "b"}]


def target(*measured: tuple[tuple[str, ...], float], rows: int = 4000, tie: bool = False) -> Target:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({n: rng.integers(0, s, rows) for n, s in SCHEMA.domain.items()})
    if tie:
        frame["y"] = np.where(rng.random(rows) < 0.9, frame["a"] > 0, frame["y"]).astype(int)
    told = []
    for columns, sigma in measured:
        shape = tuple(SCHEMA.domain[name] for name in columns)
        told.append(Measurement(columns=columns, values=np.zeros(shape), sigma=sigma))
    release = SimpleNamespace(measurements=lambda: told) if measured else None
    return Target(frame=frame, schema=SCHEMA, rows=float(rows), release=release)  # type: ignore[arg-type]


def test_noise_in_nats_is_what_noise_says_of_columns_that_do_not_go_together() -> None:
    """Against the mutual information of noisy counts, many times."""
    rng, rows, sigma = np.random.default_rng(1), 40_000.0, 60.0
    found = []
    for _ in range(400):
        noisy = np.full((2, 3), rows / 6) + rng.normal(0, sigma, (2, 3))
        shares = noisy / noisy.sum()
        alone = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0)
        found.append(float((shares * np.log(shares / alone)).sum()))
    told = Record.of(target((("y", "a"), sigma), rows=int(rows)), [{"y", "a"}])
    assert told.noise == pytest.approx(np.mean(found), rel=0.12)


def test_what_was_measured_is_known_but_for_its_noise() -> None:
    def unknown(*measured):
        return Record.of(target(*measured), PAIRS).unknown[0]

    assert Record.of(target(), PAIRS).unknown == (0.0, 1.0)
    assert unknown((("a",), 1.0)) == 1.0
    assert unknown((("y", "a"), 1e-6)) == pytest.approx(0.5)
    assert unknown((("y", "a"), 1e-6), (("b", "y"), 1e9)) == pytest.approx(0.5, abs=1e-6)
    # A triple tells of both of its pairs, with the noise of all cells that are added up.
    triple = unknown((("a", "b", "y"), 100.0))
    pairs = unknown((("a", "y"), 100.0), (("b", "y"), 100.0))
    assert 0 < pairs < triple < 1
    assert unknown((("a", "y"), 100.0), (("a", "y"), 100.0), (("b", "y"), 1e-6)) < unknown(
        (("a", "y"), 100.0), (("b", "y"), 1e-6)
    )
    whole = Record.of(target((("y", "a"), 1e9)), [{"y", "a"}])
    assert whole.unknown[0] == pytest.approx(1.0)
    assert whole.noise == pytest.approx(PAIR)


def test_a_prediction_falls_with_noise_and_with_what_is_known() -> None:
    def gain(given: Target, keeps: float = 1.0) -> list[float]:
        made = Conditional(given)
        return predict_gain(given, made, lambda effect: keeps)["predicted_gain"]

    nothing = target((("a",), 1.0))
    least, middle, most = gain(nothing)
    scatter = SCATTER[0] / nothing.rows + SCATTER[1]
    assert least == pytest.approx(RANGE[0] * middle - scatter, rel=0.06)
    assert most == pytest.approx(RANGE[1] * middle + scatter, rel=0.06)
    assert gain(nothing, 0.5)[1] == pytest.approx(middle / 2, rel=0.06)
    assert gain(target((("y", "a"), 1.0)))[1] < middle / 2
    assert gain(target((("y", "a"), 1.0), (("y", "b"), 1.0)))[1] < 1e-4
    assert gain(target((("a",), 1.0), tie=True))[1] < middle / 2
    # Without a record anything from none to all may be missing.
    assert gain(target())[0] == pytest.approx(-scatter, rel=0.06)
    assert gain(target())[2] == pytest.approx(most, rel=0.06)


def test_budgets_and_methods_are_told_apart() -> None:
    given = target((("a",), 1.0))

    def gains(rho: float, **how) -> list[float]:
        budget = Budget.of_rho(rho, neighbours=how.pop("neighbours", Neighbours.ADD_REMOVE))
        weights = LabelWeights(mechanism="test", target=given, budget=budget, **how)
        return weights.plan.facts["predicted_gain"]

    assert gains(1e-8)[1] < gains(1e-6)[1] < gains(1e-4)[1]
    assert gains(1e-6, neighbours=Neighbours.REPLACE)[1] < gains(1e-6)[1]
    assert gains(1e-6, units=8)[1] < gains(1e-6)[1]
    triples, pairs = [("y", "a", "b")], [("y", "a"), ("y", "b")]
    bought = [
        predict_marginals(given, "y", q, Budget.of_rho(1e-6))["predicted_gain"][1]
        for q in (triples, pairs)
    ]
    assert 0 < bought[0] <= bought[1] < gains(1e-6)[1]
    assert predict_marginals(given, None, pairs, Budget.of_rho(1e-6)) == {}
