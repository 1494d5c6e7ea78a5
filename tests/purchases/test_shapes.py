"""Shapes of numeric columns: what is asked, what it costs, and how values are drawn from them.

Taken for granted, and tested: cells that are counted together are disjoint, and which they are
follows from answers alone, so one row or person more moves what a level asks by one in l2; every
level is paid by its noise; the charges are the run's own; rows keep their codes.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marginalsyn import Budget, Neighbours, PrivateTable, Schema, Unit, make_noise
from marginalsyn.contract import make_config
from marginalsyn.errors import SchemaError
from marginalsyn.host import calibrate, generate
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.zcdp import gaussian_rho
from marginalsyn.purchases.shapes import Shapes, cuts, described, search, with_shapes
from marginalsyn.release.folder import Release
from marginalsyn.sources.persons import WHOLE
from marginalsyn.table.codec import Codec
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn, Shape

GAIN: dict[str, Any] = {"kind": "integer", "name": "gain", "lower": 0, "upper": 9999}
AGE: dict[str, Any] = {"kind": "integer", "name": "age", "lower": 0, "upper": 99}
SCHEMA = Schema(columns=({**GAIN, "shape": "private", "nullable": True}, AGE))


def people(rows: int = 4000, seed: int = 1) -> pd.DataFrame:
    """Most gain nothing, many 5,000 or 7,298, the others about 3,000; some are unknown."""
    rng = np.random.default_rng(seed)
    gain = rng.normal(3000, 150, rows).round().clip(1, 9999)
    gain[: rows // 2] = 0
    gain[rows // 2 : rows // 2 + rows // 8] = 5000
    gain[rows // 2 + rows // 8 : rows // 2 + rows // 5] = 7298
    gain[-rows // 20 :] = np.nan
    return pd.DataFrame({"gain": gain, "age": rng.integers(0, 100, rows)})


COLUMNS = [
    IntegerColumn(name="a", lower=-3, upper=40, bins=(0, 7, 9)),
    IntegerColumn(name="a", lower=-3, upper=40, bins=5, nullable=True),
    ContinuousColumn(name="a", lower=-3, upper=41, bins=4, decimals=1),
    ContinuousColumn(name="a", lower=-3, upper=41, bins=(0, 0.25, 7), nullable=True),
]


@pytest.mark.parametrize("decimals", [1, 2, 3])
def test_a_shape_can_be_bought_of_every_range_of_decimal_numbers(decimals: int) -> None:
    """As many cells as there are steps: the last one holds the upper bound as well."""
    for steps in (999, 1000, 1001, 1002, 2000, 4999, 5001, 8191, 8192, 8193, 50_000):
        for lower in (0.0, -3.7, 12.34):
            upper = round(lower + steps / 10**decimals, decimals)
            pay = ContinuousColumn(name="pay", lower=lower, upper=upper, decimals=decimals)
            schema = with_shapes(Schema(columns=(pay,)), ["pay"])
            plan = Shapes.within(schema, Budget(eps=1))
            counted = plan.counted.column("pay")
            assert counted.levels == min(counted.steps, 8192)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(COLUMNS),
    st.lists(st.integers(-2, 40), unique=True, max_size=6),
    st.lists(st.sampled_from([0.0, 0.5, 3.0, 1e6]), min_size=7, max_size=7),
)
def test_rows_keep_their_codes_whatever_the_shape(column: Any, inner: Any, weights: Any) -> None:
    edges = [-3, *sorted(inner), 41]
    shape = Shape(edges=edges, weights=weights[: len(edges) - 1])
    data = {**column.model_dump(), "shape": shape}
    schema = Schema(columns=(data,))
    assert Schema.model_validate_json(schema.to_json()) == schema
    codes = np.repeat(np.arange(schema.columns[0].size, dtype=np.int32), 30)[:, None]
    frame = Codec(schema).decode(codes, np.random.default_rng(3))
    np.testing.assert_array_equal(Codec(schema).encode(frame), codes)


def test_values_are_drawn_by_weight_in_every_bin() -> None:
    shape = Shape(edges=(0, 10, 11, 30, 40), weights=(5, 20, 0, 5))
    column = IntegerColumn(name="a", lower=0, upper=39, bins=(5, 20, 30), shape=shape)
    codes = np.repeat(np.arange(4, dtype=np.int32), 20_000)
    rows = Codec(Schema(columns=(column,))).decode(codes[:, None], np.random.default_rng(1))
    counts = np.bincount(rows["a"], minlength=40)
    expected = np.zeros(40)
    expected[:5] = 20_000 / 5  # part of one piece
    expected[5:10], expected[10] = 0.5 * 20_000 / 22.5, 20 / 22.5 * 20_000
    expected[20:30] = 2_000  # a bin without mass is filled evenly
    expected[30:] = 2_000
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected) + 1e-9).all()


def test_a_search_without_noise_finds_the_values_and_the_mass() -> None:
    counts = np.bincount(people()["gain"].dropna().astype(int), minlength=10_000)
    levels = cuts(10_000)
    pieces = search(counts, levels, [1e-3] * len(levels), lambda cells, sigma: cells.astype(float))
    assert pieces.ends[0] == 0
    assert pieces.ends[-1] == 10_000
    exact = np.add.reduceat(counts, pieces.ends[:-1])
    np.testing.assert_allclose(pieces.weights, exact, atol=0.5)
    column = IntegerColumn(**{**GAIN, "shape": "private"})
    found = described(column, np.arange(10_001.0), pieces, 1e-3)
    for value in (0, 5000, 7298):
        assert value == 0 or value in found["bins"]
        assert value + 1 in found["bins"]
    assert len(found["bins"]) <= 31


def test_one_row_more_moves_every_level_by_one_under_fixed_answers() -> None:
    rng, levels = np.random.default_rng(5), cuts(3000)
    for _ in range(30):
        counts = rng.poisson(rng.gamma(0.2, 20, 3000))
        more = counts.copy()
        more[rng.integers(3000)] += 1
        asked: list[list[np.ndarray]] = [[], []]
        for run, exact in enumerate((counts, more)):
            answers = np.random.default_rng(7)

            def ask(
                cells: np.ndarray, sigma: float, told: Any = asked[run], draw: Any = answers
            ) -> np.ndarray:
                told.append(cells)
                return draw.gamma(0.3, 60, len(cells))

            search(exact, levels, [9.0] * len(levels), ask)
        for before, after in zip(*asked, strict=True):
            assert np.linalg.norm(after - before) <= 1
        assert np.linalg.norm(asked[1][0] - asked[0][0]) == 1


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_levels_cost_what_their_noise_does(neighbours: Neighbours) -> None:
    budget = Budget(eps=2, neighbours=neighbours)
    plan = Shapes(schema=SCHEMA, budget=budget.part(0.1))
    (charge,) = plan.charges()
    paid = math.fsum(gaussian_rho(sigma, neighbours.l2) for sigma in plan.sigmas["gain"])
    assert paid == pytest.approx(0.1 * budget.gaussian)
    assert paid <= charge.rho == pytest.approx(paid, rel=1e-12)
    mechanism, total = calibrate(make_config("independent", {}), SCHEMA, budget)
    assert total.eps <= 2
    assert compose(mechanism.cost, budget.delta, neighbours).eps > 2 * (1 - 1e-6)
    assert mechanism.plan.split["shape of gain"] == pytest.approx(0.05 * budget.gaussian)


def release_of(frame: pd.DataFrame, schema: Schema, path: Path, eps: float = 4) -> Release:
    table = PrivateTable.open(frame, schema)
    synthesis, statement = generate(
        table, make_config("mst", {}), Budget(eps=eps), noise=make_noise(2)
    )
    charged = [charge.cost for charge in table.ledger.read().charges]
    assert charged == [charge.cost for charge in statement.charges]
    assert statement.problems() == []
    for charge in statement.charges:
        payments = [p for p in statement.payments if p["purpose"] == charge.purpose]
        if charge.mechanism == "numeric shape":
            assert math.fsum(p["rho"] for p in payments) <= charge.rho * (1 + 1e-9)
            assert all(p["laws"] == ["rounded Gaussian"] for p in payments)
    return Release.write(synthesis, schema, statement, path / "release")


def test_where_nothing_stands_out_the_column_stays_as_it_is(tmp_path: Path) -> None:
    release = release_of(people(20), SCHEMA, tmp_path, eps=0.1)
    assert release.schema.column("gain") == IntegerColumn(**GAIN, nullable=True)


def test_persons_move_a_level_by_one(tmp_path: Path) -> None:
    frame = people(600)
    frame["who"] = np.arange(600) // 3
    schema = Schema(columns=SCHEMA.columns, drop=("who",)).with_unit(Unit(column="who", max_rows=4))
    plan = Shapes(schema=schema, budget=Budget(eps=2).part(0.1))
    more = pd.concat([frame, pd.DataFrame({"gain": [1, 1, 9999.0], "age": 5, "who": "new"})])
    found = []
    for data in (frame, more):
        with PrivateTable.open(data.reset_index(drop=True), schema).charge(
            plan.charges(), noise=make_noise(1), persons=True
        ) as visit:
            exact = visit.recoded(plan.counted).counts(["gain"]) * WHOLE
            with pytest.raises(ValueError, match="the same persons"):
                visit.recoded(SCHEMA)
        found.append(np.rint(exact))
        np.testing.assert_array_equal(exact, found[-1])
    assert np.abs(found[1] - found[0]).sum() == WHOLE
    assert release_of(frame, schema, tmp_path).statement.unit != "one row"


def test_the_columns_that_are_bought_by_default() -> None:
    schema = Schema(
        columns=(
            GAIN,
            AGE,
            {**GAIN, "name": "public", "bins": [0, 1, 100]},
            {"kind": "continuous", "name": "real", "lower": 0, "upper": 1},
            {"kind": "continuous", "name": "cents", "lower": 0, "upper": 1, "decimals": 2},
            {"kind": "date", "name": "day", "lower": "1900-01-01", "upper": "2020-01-01"},
        )
    )
    assert with_shapes(schema).shapeless == ["gain", "real"]
    assert with_shapes(schema, ["public"]).shapeless == ["public"]
    assert with_shapes(schema, []) == schema
    with pytest.raises(SchemaError, match="must be integer or continuous"):
        with_shapes(schema, ["day"])
