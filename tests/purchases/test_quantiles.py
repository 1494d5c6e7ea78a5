"""Bought quantiles: their sensitivity by brute force, their accuracy, their price."""

from __future__ import annotations

from itertools import combinations_with_replacement
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Budget, Neighbours, PrivateTable, Schema
from marginalsyn.drafting.drafted import widest
from marginalsyn.errors import SchemaError, UsageError
from marginalsyn.privacy.noise import SeededNoise
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.privacy.zcdp import exponential_rho
from marginalsyn.purchases.bounds import Bins, Bounds
from marginalsyn.purchases.purchase import buy, with_fields
from marginalsyn.purchases.quantiles import Grid, cell_scores, rank_scores, rank_sensitivity

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
CELLS = 4
UP_TO = 5


def tables(rows):
    for cells in combinations_with_replacement(range(CELLS), rows):
        yield np.bincount(np.array(cells, dtype=int), minlength=CELLS)


def neighbours(counts, relation):
    """Every table one step away (removing is adding seen from the other side)."""
    for new in range(CELLS):
        more = counts.copy()
        more[new] += 1
        if relation is ADD:
            yield more
            continue
        for old in np.flatnonzero(counts):
            changed = more.copy()
            changed[old] -= 1
            yield changed


@pytest.mark.parametrize("scores", [rank_scores, cell_scores])
@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("q", [0.0, 0.1, 0.25, 0.5, 0.9, 1.0])
def test_sensitivity_by_brute_force(relation, q, scores):
    moves = [
        np.abs(scores(there, q) - scores(here, q)).max()
        for rows in range(UP_TO + 1)
        for here in tables(rows)
        for there in neighbours(here, relation)
    ]
    claimed = rank_sensitivity(q, relation)
    assert max(moves) <= claimed + 1e-12
    # Nor is it paid for twice: the claim is reached, up to ranks being whole numbers.
    assert max(moves) >= claimed * (0.99 if q in (0.0, 0.5, 1.0) or relation is ADD else 0.5)
    assert claimed <= rank_sensitivity(q) == 1


def select_of(noise):
    """A select that draws from a noise and is paid by nobody."""
    return lambda scores, **how: noise.draw(ExponentialMechanism(**how), scores)


def exact(scores, *, eps, sensitivity):
    """A select without noise, to test the arithmetic alone."""
    assert eps > 0
    assert sensitivity > 0
    return int(np.argmax(scores))


def test_without_noise_they_are_the_quantiles():
    rng = np.random.default_rng(0)
    edges = np.linspace(0, 100, 201)
    values = rng.beta(2, 5, size=4_001) * 100
    counts = np.histogram(values, edges)[0]
    qs = [0.9, 0.1, 0.5]
    grid = Grid(counts, edges, exact, eps=1.0)
    found = grid.quantiles(qs)
    assert found == pytest.approx(np.quantile(values, sorted(qs)), abs=0.5)
    lower, upper = grid.bounds(tail=0.01)
    assert ((values >= lower) & (values < upper)).mean() == pytest.approx(0.98, abs=0.01)
    bins = grid.bins(8)
    assert len(bins) == 9
    assert np.histogram(values, bins)[0] / len(values) == pytest.approx(np.full(8, 1 / 8), abs=0.02)


def test_every_selection_is_paid_and_declared_as_it_is():
    paid = []

    def select(scores, *, eps, sensitivity):
        paid.append((eps, sensitivity))
        return exact(scores, eps=eps, sensitivity=sensitivity)

    counts, edges = np.full(50, 10), np.linspace(0, 1, 51)
    Grid(counts, edges, select, 0.3, ADD).bins(4)
    assert paid == [(0.3, 0.75), (0.3, 0.5), (0.3, 0.75)]
    schema = Schema(columns=[WIDE[0]])
    asked = Bins(schema=schema, budget=Budget(eps=1, neighbours=REPLACE), bins=4)
    (charge,) = asked.charges()
    assert charge.rho == pytest.approx(3 * exponential_rho(asked.eps_each))
    assert charge.neighbours is REPLACE
    assert charge.details["column"] == "age"


@pytest.mark.parametrize("counts", [np.zeros(6, dtype=int), np.array([0, 0, 900, 0, 0, 0])])
def test_empty_and_constant_columns_still_give_bins(counts):
    edges = np.arange(7.0)
    for seed in range(5):
        select = select_of(SeededNoise(seed))
        grid = Grid(counts, edges, select, 1.0)
        bins = grid.bins(4)
        assert bins[0] == 0
        assert bins[-1] == 6
        assert (np.diff(bins) > 0).all()
        lower, upper = grid.bounds(tail=0.005)
        assert 0 <= lower < upper <= 6
    assert Grid(counts, edges, exact, 1.0).bins(1).tolist() == [0, 6]


@pytest.mark.parametrize(
    ("counts", "edges", "message"),
    [
        (np.zeros(0, dtype=int), np.zeros(1), "counts"),
        (np.zeros(3), np.arange(4.0), "counts"),
        (np.zeros((2, 2), dtype=int), np.arange(5.0), "counts"),
        (np.zeros(3, dtype=int), np.arange(3.0), "edges"),
        (np.zeros(3, dtype=int), np.array([0.0, 1, 1, 2]), "increase"),
        (np.zeros(2, dtype=int), np.array([0.0, 1, np.inf]), "edges"),
    ],
)
def test_bad_grids_are_refused(counts, edges, message):
    with pytest.raises(ValueError, match=message):
        Grid(counts, edges, exact, 1.0)


def test_bad_shares_are_refused():
    with pytest.raises(ValueError, match="q "):
        Grid(np.ones(3, dtype=int), np.arange(4.0), exact, 1.0).quantiles([1.5])
    given = {"schema": Schema(columns=[WIDE[0]]), "budget": Budget(eps=1)}
    with pytest.raises(UsageError, match="tail"):
        Bounds(**given, tail=0.5)
    with pytest.raises(UsageError, match="bins"):
        Bins(**given, bins=1)


COLUMNS = {
    "whole": {"kind": "integer"},
    "limits": {"kind": "integer", "below": 3, "above": 90},
    "any": {"kind": "continuous"},
    "decimals": {"kind": "continuous", "decimals": 2},
    "detection": {"kind": "continuous", "decimals": 1, "below": 0.3},
    "both": {"kind": "continuous", "below": -7.5, "above": 1234.5},
    "date": {"kind": "date", "format": "%d.%m.%y"},
    "datetime": {"kind": "datetime"},
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("narrow", [False, True])
def test_whatever_cells_are_drawn_the_bounds_make_a_schema(name, narrow):
    """An error after the charge, which one row more or less decides, would reveal rows."""
    fields = {"name": name, **COLUMNS[name]}
    dated = "date" in fields["kind"]
    ends = ("2000-01-01", "2001-12-31") if dated else (-10, 2000)
    schema = Schema(columns=[{**fields, "lower": ends[0], "upper": ends[1], "bins": 4}])
    if not narrow:
        schema = Schema(columns=[widest(schema.columns[0], 16).model_dump()])
    asked = Bounds(schema=schema, budget=Budget(eps=1))
    cells, edges = asked.counted.column(name).levels, asked.counted.column(name).edges
    chosen = np.unique(np.linspace(0, cells - 1, 25).astype(int))
    counts = np.zeros(cells, dtype=np.int64)
    for pair in combinations_with_replacement(chosen.tolist(), 2):
        grid = Grid(counts, edges, Mock(side_effect=pair), 0.1)
        found = with_fields(schema, {name: asked.fields(schema.column(name), grid)})
        assert schema.column(name).lower <= found.column(name).lower
        assert found.column(name).upper <= schema.column(name).upper
        assert found.column(name).size


def test_bounds_at_a_limit_of_detection_are_no_error():
    """Most values lie under the limit, so the quantile does, or above it."""
    column = {"kind": "continuous", "name": "crp", "lower": 0, "upper": 500, "decimals": 1}
    schema = Schema(columns=[{**column, "below": 0.3, "above": 400}])
    for text in ("<0.3", ">400", "7.5"):
        frame = pd.DataFrame({"crp": [text] * 500})
        asked = Bounds(schema=schema, budget=Budget(eps=20), cells=100)
        opened = PrivateTable.open(frame, asked.counted)
        found = buy(opened, asked, noise=SeededNoise(0)).column("crp")
        assert found.lower < 0.3 < 400 < found.upper


def test_without_any_bounds_round_ones_are_found():
    columns = [widest(Schema(columns=[c]).columns[0], 16).model_dump() for c in WIDE]
    schema = Schema(columns=columns)
    rng, rows = np.random.default_rng(0), 20_000
    days = np.datetime64("2015-03-01") + rng.integers(0, 1500, rows)
    frame = pd.DataFrame({"age": rng.integers(17, 91, rows), "day": days.astype(str)})
    frame["cost"] = np.round(rng.lognormal(7, 1, rows), 2)
    asked = Bounds(schema=schema, budget=Budget(eps=1), tail=0.03)
    assert max(asked.counted.domain.values()) <= 400
    bought = buy(PrivateTable.open(frame, asked.counted), asked, noise=SeededNoise(0))
    found = {c.name: (c.bound(c.lower), c.bound(c.upper)) for c in bought.columns}
    assert found["age"] == (10, 99)
    assert found["day"] == ("2015-01-01", "2019-12-31")
    assert found["cost"] == (100.0, 10_000.0)
    time = Schema(columns=[{"kind": "time", "name": "t", "lower": "08:00", "upper": "17:59"}])
    with pytest.raises(SchemaError, match="must have dates"):
        Bounds(schema=time, budget=Budget(eps=1))


WIDE = (
    {"kind": "integer", "name": "age", "lower": 0, "upper": 1},
    {"kind": "date", "name": "day", "lower": "2020-01-01", "upper": "2020-01-02"},
    {"kind": "continuous", "name": "cost", "lower": 0, "upper": 1, "decimals": 2},
)
