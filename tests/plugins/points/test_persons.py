"""Points and cells of persons: what one person moves, whatever the number of the person's rows.

Taken for granted, and tested: rows of a person weigh one together, so that what they add is an
average of rows; sums of weighted rows are exact whole numbers; where they are divided, rounding
adds less than one to each, which the sensitivity holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Budget, Ledger, Neighbours, PrivateTable, Schema, Unit, make_noise
from marginalsyn.contract import Measurement, make_config
from marginalsyn.errors import UsageError
from marginalsyn.host import generate
from marginalsyn.plugins.points.fitting import Field
from marginalsyn.plugins.points.histogram import Grid
from marginalsyn.plugins.points.kme import RandomFourierFeatures
from marginalsyn.plugins.points.slices import public_slices
from marginalsyn.privacy.laws import (
    DiscreteLaplace,
    Gaussian,
    Law,
)
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.progress import Silent
from marginalsyn.sources import persons
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.metric import Metric, PointSpace
from marginalsyn.table.numeric import ContinuousColumn

X = ContinuousColumn(name="x", lower=0, upper=1)
UNIT = Unit(column="who", max_rows=20)
MIXED = Schema(columns=(X, CategoricalColumn(name="g", categories=("u", "v", "w"))))
NUMBERS = Schema(columns=(X,))
WIDTH = {"bandwidth": "0.1"}
METHODS: dict[str, tuple[str, dict[str, Any], Schema]] = {
    "field": ("support-points-gp", {"candidates": 25, "points": 4, "chains": 1, **WIDTH}, NUMBERS),
    "slices": ("support-points-gp", {"directions": 12, "points": 4, "chains": 1, **WIDTH}, MIXED),
    "herding": ("support-points-herding", {"candidates": 32, "points": 3, **WIDTH}, MIXED),
    "pure herding": (
        "support-points-herding",
        {"candidates": 32, "points": 3, "composition": "pure", **WIDTH},
        MIXED,
    ),
    "kme": ("kme", {"features": 9, "points": 4, **WIDTH}, MIXED),
    "histogram": ("histogram", {"cells": 64}, MIXED),
}


def rows_of(rng: np.random.Generator, who: str, rows: int, place: float | None = None) -> Any:
    """Rows of a person; at a ``place`` all of them are alike."""
    x = rng.random(rows) if place is None else np.full(rows, place)
    codes = rng.integers(0, 3, rows) if place is None else np.full(rows, 2 * round(place))
    return pd.DataFrame({"who": who, "x": x, "g": np.array(["u", "v", "w"])[codes]})


def crowd(rng: np.random.Generator, most: int = 30, size: int = 12) -> pd.DataFrame:
    many = rng.integers(1, most + 1, size)
    return pd.concat([rows_of(rng, f"p{i}", int(k)) for i, k in enumerate(many)])


def asked(
    method: str, options: dict[str, Any], schema: Schema, frame: pd.DataFrame, relation: Neighbours
) -> list[tuple[np.ndarray, float]]:
    """Everything that noise is added to, in units of the bound that is paid for."""
    generator = make_config(method, options).configure(schema, Budget(eps=1, neighbours=relation))
    found: list[tuple[np.ndarray, float]] = []

    def draw(law: Law, values: Any, *, purpose: str = "", **bound: Any) -> Any:
        if isinstance(law, ExponentialMechanism):
            found.append((values / (2 * law.sensitivity), 0))
            return len(found) % len(values)
        assert np.asarray(values).dtype.kind == "i"
        if isinstance(law, DiscreteLaplace):
            found.append((np.atleast_1d(values) / bound["l1"], 1))
            return np.atleast_1d(values) if np.ndim(values) else 12
        assert isinstance(law, Gaussian)
        most = bound["l2"] / law.sigma if "l2" in bound else bound["whitened_l2"]
        found.append((values / law.sigma / most, 2))
        return values

    data = frame[[name for name in frame if name in {*schema.names, "who"}]].reset_index(drop=True)
    named = Schema(columns=schema.columns, drop=[] if schema.unit else ["who"])
    table = PrivateTable.open(data, schema if schema.unit else named)
    with table.charge(generator.cost, noise=make_noise(1), persons=True) as visit:
        visit.measure = lambda columns, sigma, **_: Measurement(  # type: ignore[method-assign]
            columns=(), values=np.array(12.0), sigma=sigma
        )
        visit.draw = draw  # type: ignore[method-assign]
        generator(visit, progress=Silent())
    return found


def moved(*given: Any, one: pd.DataFrame, other: pd.DataFrame, relation: Neighbours) -> float:
    """The largest move of anything that noise is added to, over what is paid for."""
    pairs = zip(
        asked(*given, frame=one, relation=relation),
        asked(*given, frame=other, relation=relation),
        strict=True,
    )
    found = []
    for (before, norm), (after, _) in pairs:
        change = np.ravel(after - before)
        # Of a selection it is the range of the log-ratios that counts.
        found.append(np.ptp(change) if norm == 0 else np.linalg.norm(change, norm))
    return float(max(found))


def neighbours(seed: int, relation: Neighbours) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables that differ by a person with 20 rows or more, every other time all alike."""
    rng = np.random.default_rng(seed)
    place = None if seed % 2 else 1.0
    others, one = crowd(rng), rows_of(rng, "new", 20 + 10 * (seed % 3), place)
    if relation is Neighbours.ADD_REMOVE:
        return others, pd.concat([others, one])
    old = rows_of(rng, "old", 1 + seed, None if seed % 2 else 0.0)
    return pd.concat([others, old]), pd.concat([others, one])


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("name", METHODS)
def test_a_person_with_many_rows_moves_what_one_row_may(name: str, relation: Neighbours) -> None:
    method, options, schema = METHODS[name]
    given = (method, options, schema.with_unit(UNIT))
    worst = []
    for seed in range(2):
        one, other = neighbours(seed, relation)
        worst.append(moved(*given, one=one, other=other, relation=relation))
    assert max(worst) <= 1 + 1e-9
    # The bound is no larger than it need be by much.
    assert max(worst) > 0.3


@pytest.mark.parametrize("name", METHODS)
def test_rows_that_do_not_share_their_weight_break_the_bound(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, options, schema = METHODS[name]
    monkeypatch.setattr(persons, "weights", lambda most: np.full(2 * most + 2, persons.WHOLE))
    one, other = neighbours(2, Neighbours.ADD_REMOVE)
    given = (method, options, schema.with_unit(UNIT))
    assert moved(*given, one=one, other=other, relation=Neighbours.ADD_REMOVE) > 3


def test_weighted_sums_are_those_of_whole_numbers_rounded_down_and_do_not_overflow() -> None:
    rng = np.random.default_rng(4)
    waves = RandomFourierFeatures.draw(PointSpace.cube(2), 5, 0.3, rng)
    field, whole = Field(PointSpace.cube(2), 4), 2**20
    points = rng.random((60, 2))
    weights = rng.integers(0, 2**42, len(points))
    alone = [waves.measure([point[None]])[0] for point in points]
    laws: list[tuple[RandomFourierFeatures | Field, Any]] = [
        (waves, alone),
        (field, field.vectors(points)),
    ]
    for law, single in laws:
        exact = [
            sum(int(w) * int(v) for w, v in zip(weights, column, strict=True))
            for column in np.transpose(single)
        ]
        # Undivided, they would not fit.
        assert max(map(abs, exact)) > 2**63
        parts = [(points[i : i + 1], weights[i : i + 1]) for i in range(len(points))]
        sums, rows = law.measure(parts, whole)
        assert sums.tolist() == [total // whole for total in exact]
        assert rows == len(points)


def test_weighted_counts_are_those_of_repeated_rows() -> None:
    rng = np.random.default_rng(5)
    points, weights = rng.random((50, 2)), rng.integers(0, 5, 50)
    often = np.repeat(points, weights, axis=0)
    slices = public_slices(PointSpace.cube(2), 10, 6, rng)
    grid = Grid.even(Metric(Schema(columns=(X, X.model_copy(update={"name": "y"})))), 4)
    one, other = slices.measure([(points, weights)]), slices.measure([often])
    assert np.array_equal(one[0], other[0])
    assert one[1] == other[1] == weights.sum()
    assert np.array_equal(grid.count([(points, weights)]), grid.count([often]))


@pytest.mark.parametrize("name", METHODS)
def test_the_ledger_holds_the_cost_of_rows_and_all_of_it_is_spent(name: str) -> None:
    method, options, schema = METHODS[name]
    ledger = Ledger(None, source="here")
    frame = crowd(np.random.default_rng(6))[[*schema.names, "who"]]
    table = PrivateTable.open(frame, schema.with_unit(UNIT), ledger=ledger)
    budget = Budget(eps=1)
    made, statement = generate(table, make_config(method, options), budget, noise=make_noise(2))
    rows = make_config(method, options).configure(schema, budget).cost
    assert [charge.cost for charge in statement.charges] == [charge.cost for charge in rows]
    assert 0.99 < ledger.total(budget.delta).eps <= 1 + 1e-9
    currency = "rho" if hasattr(rows[0].cost, "rho") else "eps"
    paid = sum(one.get(currency) or 0.0 for one in statement.payments)
    charged = sum(float(getattr(one.cost, currency)) for one in statement.charges)
    assert paid == pytest.approx(charged, rel=1e-6)
    assert made.notes["estimated_persons"] > 0


def test_the_chain_scores_rows_one_by_one_and_is_refused() -> None:
    table = PrivateTable.open(crowd(np.random.default_rng(8)), MIXED.with_unit(UNIT))
    with pytest.raises(UsageError, match=r"cannot protect persons.*support-points-gp"):
        generate(table, make_config("support-points"), Budget(eps=1), noise=make_noise())
