"""Distances against POT, scipy and hand-computed cases, with weights."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import contingency

from marginalsyn import Schema
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.plugins.reports import distances_report as module
from marginalsyn.plugins.reports.distances_report import (
    association_difference,
    distances,
    two_sample,
    wasserstein,
)
from marginalsyn.table.codec import Codec
from marginalsyn.table.design import CodedRows
from marginalsyn.table.numeric import ContinuousColumn

SCHEMA = example_schema()
RNG = np.random.default_rng


def table(rows: int, seed: int = 0) -> CodedRows:
    return CodedRows.of(Codec(SCHEMA).conform(example_frame(rows, seed)), SCHEMA)


def points(values: np.ndarray, weights: np.ndarray | None = None) -> CodedRows:
    columns = [ContinuousColumn(name=f"x{j}", lower=0, upper=1) for j in range(values.shape[1])]
    return CodedRows(Schema(columns=tuple(columns)), np.zeros(values.shape, int), values, weights)


def test_the_exact_one_against_an_assignment_in_two_dimensions() -> None:
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    rng = RNG(2)
    x, y = rng.random((40, 2)), rng.random((40, 2))
    cost = cdist(x, y)
    best = cost[linear_sum_assignment(cost)].mean()
    assert wasserstein(points(x), points(y), rng=rng)["value"] == pytest.approx(best)


def test_the_sliced_one_against_the_exact_one_in_one_dimension(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = RNG(1)
    x, y, w = rng.random((50, 1)), rng.random((40, 1)), rng.random(50)
    exact = wasserstein(points(x, w), points(y), rng=rng)["value"]
    monkeypatch.setattr(module, "EXACT_ROWS", 10)
    found = wasserstein(points(x, w), points(y), rng=rng)
    assert found["kind"] == "sliced"
    assert found["value"] == pytest.approx(exact)


def test_weights_are_counted() -> None:
    one, two = table(150), table(120, 1)
    weights = np.ones(150)
    weights[:50] = 3
    repeated = one.take(np.repeat(np.arange(150), weights.astype(int)))
    weighted = distances(one.weigh(weights), two, rng=RNG(0))
    plain = distances(repeated, two, rng=RNG(0))
    for name in ("wasserstein", "energy"):
        assert weighted[name]["value"] == pytest.approx(plain[name]["value"])
    assert weighted["mmd"]["value"] == pytest.approx(plain["mmd"]["value"])
    assert weighted["association"]["mean"] == pytest.approx(plain["association"]["mean"])
    unit = distances(one.weigh(np.full(150, 2.0)), two, rng=RNG(0))
    ignored = distances(one, two, rng=RNG(0))
    assert unit["wasserstein"]["value"] == pytest.approx(ignored["wasserstein"]["value"])


def test_association_against_scipy() -> None:
    one, two = table(300), table(300, 1)
    found = association_difference(one, two)
    i, j = (SCHEMA.names.index(name) for name in found["pair"])
    tables = [contingency.crosstab(t.codes[:, i], t.codes[:, j]).count for t in (one, two)]
    values = [contingency.association(t, method="cramer") for t in tables]
    assert found["worst"] == pytest.approx(abs(values[0] - values[1]))


def test_a_classifier_tells_only_what_differs() -> None:
    same = two_sample(table(800), table(800, 1), rng=RNG(0))
    assert abs(same["z"]) < 5
    other = table(800, 2)
    shifted = CodedRows(SCHEMA, (other.codes * [1, 1, 0, 1, 1]), other.units)
    found = two_sample(shifted, table(800, 1), rng=RNG(0))
    assert found["auc"] > 0.8
    assert found["z"] > 10


def test_few_rows_are_not_classified() -> None:
    assert two_sample(table(10), table(100), rng=RNG(0))["auc"] is None
