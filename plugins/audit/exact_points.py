"""Exact checks of the support-point generators."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Literal

import numpy as np
import pandas as pd

from marginalsyn.plugins.audit.exact import (
    Check,
    Scripted,
    cube,
    halves,
    loss,
    normalised,
    support_law,
)
from marginalsyn.plugins.points.point_generator import width_by_likelihood
from marginalsyn.plugins.points.slices import public_slices
from marginalsyn.plugins.points.support_points import (
    SupportPointsConfig,
    SupportPointsHerdingConfig,
)
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.progress import Silent
from marginalsyn.table.codec import Codec
from marginalsyn.table.energy import energy_distance, potential, self_distance
from marginalsyn.table.metric import Metric, PointSpace

CHAIN, HERDING, GP = "support-points", "support-points-herding", "support-points-gp"
KME, HISTOGRAM = "kme", "histogram"
_ORDERS = (1.01, 2.0, 5.0, 30.0)


def laws() -> Iterator[Check]:
    """The law that the chain aims at, enumerated on the table that breaks Algorithm 1."""
    grid = np.linspace(0, 1, 21)[:, None]
    rows = halves(201, 100)
    scores: tuple[Literal["root-energy", "energy"], ...] = ("root-energy", "energy")
    for score in scores:
        worst = 0.0
        for relation, points in itertools.product(Neighbours, (1, 2)):
            config, budget = (
                SupportPointsConfig(points=points, score=score),
                Budget(eps=1.0, neighbours=relation),
            )
            others = [halves(201, 101), np.concatenate([rows[1:], [[0.5]]])]
            if relation is Neighbours.ADD_REMOVE:
                others = [rows[1:], rows[:-1], np.concatenate([rows, [[1.0]]])]
            sets = list(itertools.product(range(21), repeat=points))
            law = support_law(rows, grid, sets, config, budget)
            worst = max(
                worst,
                *(loss(law, support_law(o, grid, sets, config, budget)) for o in others),
            )
        yield Check(
            f"eps of the law, score {score}",
            worst,
            "all outcomes of 1 and 2 points on 21 places, 201 rows and their neighbours",
        )


def spans() -> Iterator[Check]:
    """Log-ratios lie in an interval of length eps, which is what makes eps^2 / 8 in rho true."""
    grid = np.linspace(0, 1, 41)[:, None]
    sets = [(i,) for i in range(41)]
    worst = 0.0
    scores: tuple[Literal["root-energy", "energy"], ...] = ("root-energy", "energy")
    for score, relation in itertools.product(scores, Neighbours):
        config, budget = SupportPointsConfig(score=score), Budget(eps=1.0, neighbours=relation)
        for rows in (halves(9, 4), halves(1, 0), halves(2, 1)):
            law = support_law(rows, grid, sets, config, budget)
            for place in (0.0, 1.0):
                kept = rows if relation is Neighbours.ADD_REMOVE else rows[1:]
                other = np.concatenate([kept, [[place]]])
                worst = max(
                    worst, float(np.ptp(law - support_law(other, grid, sets, config, budget)))
                )
    yield Check("range of the log-ratios over eps", worst,
                "41 places, tables of 1, 2 and 9 rows, a row at either end")  # fmt: skip


def scores() -> Iterator[Check]:
    """How far one row moves the scores, on random tables and on the extremal one."""
    rng = np.random.default_rng(0)
    moved = {"energy": 0.0, "root-energy": 0.0}
    for trial in range(300):
        dimension = 1 + trial % 3
        diameter = PointSpace.cube(dimension).diameter
        rows = rng.random((int(rng.integers(1, 6)), dimension))
        points = rng.random((int(rng.integers(1, 4)), dimension))
        x, other = rng.random((2, dimension))
        if trial % 3 == 0:  # the extremal pair
            x, other = np.ones(dimension), np.zeros(dimension)
            points[:] = trial % 2
        if trial % 5 == 0:
            rows[:] = points[0]
        tables = [rows, np.concatenate([rows, [x]]), np.concatenate([rows, [other]])]
        energy = [
            len(t) * (2 * potential(t, points).mean() - self_distance(points)) for t in tables
        ]
        root = [len(t) * np.sqrt(max(energy_distance(t, points), 0.0)) for t in tables]
        pairs = ((1, 2, 2 * diameter), (1, 0, 2 * diameter))
        for a, b, most in pairs:
            moved["energy"] = max(moved["energy"], abs(energy[a] - energy[b]) / most)
            difference = abs(root[a] - root[b]) / np.sqrt(2 * diameter)
            moved["root-energy"] = max(moved["root-energy"], float(difference))
    for score, value in moved.items():
        yield Check(f"change of the score {score} over its sensitivity", value,
                    "300 tables in 1 to 3 dimensions, a row replaced and a row added")  # fmt: skip


def herding() -> Iterator[Check]:
    """Every outcome of three draws from five candidates, in either relation."""
    pure, renyi = 0.0, 0.0
    for relation in Neighbours:
        config = SupportPointsHerdingConfig(points=3, candidates=5)
        generator = config.configure(cube(1), Budget(eps=3.0, neighbours=relation))
        rows = np.array([[0.0], [0.0], [0.4], [1.0]])
        added = relation is Neighbours.ADD_REMOVE
        other = rows[1:] if added else np.concatenate([rows[1:], [[1.0]]])
        found = []
        for data in (rows, other):
            logs = []
            for script in itertools.product(range(5), repeat=3):
                visit = Scripted(data, relation, script, total=4)
                generator(visit, progress=Silent())  # type: ignore[arg-type]
                logs.append(visit.log_probability)
            found.append(np.array(logs))
        eps = generator.eps_each
        pure = max(pure, loss(*found) / (3 * eps))
        for (p, q), order in itertools.product((found, found[::-1]), _ORDERS):
            divergence = np.logaddexp.reduce(order * p + (1 - order) * q) / (order - 1)
            renyi = max(renyi, float(divergence) / (order * 3 * eps**2 / 8))
    how = "all 125 outcomes of 3 draws from 5 candidates"
    yield Check("loss of the draws over n eps", pure, how)
    yield Check("Renyi divergence over that of n eps^2 / 8", renyi, f"{how}, orders 1.01 to 30")


def potentials() -> Iterator[Check]:
    """Integer sums of a released potential or mean: corners and random rows, all forms."""
    from marginalsyn.plugins.points.fitting import Field
    from marginalsyn.plugins.points.kme import RandomFourierFeatures

    rng = np.random.default_rng(0)
    field, slices = Field(PointSpace.cube(2), 9), public_slices(PointSpace.cube(5), 30, 8, rng)
    waves = RandomFourierFeatures.draw(PointSpace.cube(3), 3, 0.3, rng)
    releases = {
        "field": (2, lambda rows: field.measure([rows])[0].astype(float), field.sensitivity),
        "slices": (
            5,
            lambda rows: slices.measure([rows])[0] / slices.noise_scale(1.0),
            slices.sensitivity,
        ),
        "mean of waves": (
            3,
            lambda rows: waves.measure([rows])[0].astype(float),
            waves.sensitivity,
        ),
    }
    for form, (dimension, measure, sensitivity) in releases.items():
        worst = 0.0
        places = rng.random((120, dimension))
        places[::2] = np.round(places[::2])
        places[:2] = [[0.0] * dimension, [1.0] * dimension]
        empty = measure(places[:0])
        singles = np.array([measure(place[None]) for place in places])
        for relation in Neighbours:
            moved = singles - empty
            if relation is Neighbours.REPLACE:
                moved = singles[::2][:, None] - singles[::2][None]
            lengths = np.linalg.norm(moved, axis=-1)
            worst = max(worst, float(lengths.max()) / sensitivity(relation))
        yield Check(f"change of the released {form} over its sensitivity", worst,
                    f"corners and random rows in {dimension} dimensions, added and replaced",
                    methods=(KME,) if form == "mean of waves" else (GP,))  # fmt: skip


def cells() -> Iterator[Check]:
    """Cells of a histogram: rows at the ends of bins, missing ones, categories in groups."""
    from marginalsyn.plugins.points.histogram import Grid

    rng, worst = np.random.default_rng(0), dict.fromkeys(Neighbours, 0.0)
    metric = Metric(cube(3))
    for bins in (1, 2, 3, 7):
        grid = Grid.even(metric, bins)
        places = rng.random((60, 3))
        places[::2] = np.round(places[::2] * bins) / bins
        singles = np.array([grid.count([place[None]]) for place in places])
        moved = {
            Neighbours.ADD_REMOVE: singles,
            Neighbours.REPLACE: singles[:, None] - singles[None],
        }
        for relation, change in moved.items():
            most = float(np.abs(change).sum(axis=-1).max()) / relation.l1
            worst[relation] = max(worst[relation], most)
    yield Check(
        "change of the histogram over its sensitivity",
        max(worst.values()),
        "1 to 343 cells in 3 dimensions, rows between cells, added and replaced",
    )


def bandwidth() -> Iterator[Check]:
    """The bought bandwidth: a row moves from a centre to the far corner."""
    points = np.array([[0.0, 0.0], [0.1, 0.0]])
    base, corner = np.full((20, 2), 0.05), np.array([[1.0, 1.0]])
    centre, worst = np.array([[0.0, 0.0]]), 0.0
    for relation in Neighbours:
        laws = []
        for row in (centre, corner if relation is Neighbours.REPLACE else base[:0]):
            visit = _Asked(np.concatenate([base, row]), relation)
            width_by_likelihood(visit, points, Metric(cube(2)), eps=0.7)  # type: ignore[arg-type]
            laws.append(visit.law)
        worst = max(worst, float(np.ptp(laws[0] - laws[1])) / 0.7)
    yield Check(
        "range of the bandwidth's log-ratios over eps",
        worst,
        "the public grid of widths, a row at a centre against the far corner, or none",
    )


class _Asked(Scripted):
    """A visit that records the law of the one draw it is asked for."""

    law: np.ndarray

    def __init__(self, rows: np.ndarray, neighbours: Neighbours) -> None:
        super().__init__(rows, neighbours, [0], len(rows))

    def draw(self, law: ExponentialMechanism, scores: np.ndarray, *, purpose: str = "") -> int:
        self.law = normalised(law.eps * scores / (2 * law.sensitivity))
        return 0


def outlier() -> Iterator[Check]:
    """Coordinates come from public bounds: a record far out scales nobody else."""
    schema, frame = cube(1), pd.DataFrame({"x0": [0.2, 0.5, 0.9]})
    metric, codec = Metric(schema), Codec(schema)
    before = metric.points(codec.unit(frame))
    frame.loc[2, "x0"] = 1e9
    after = metric.points(codec.unit(frame))
    yield Check("how far a record of 1e9 moves the others",
                float(np.abs(before[:2] - after[:2]).max()),
                "coordinates of three rows before and after", bound=0.0)  # fmt: skip


def guard() -> Iterator[Check]:
    """No finite chain is called exact."""
    called = 0
    for score in ("root-energy", "energy", "paper"):
        config = SupportPointsConfig(score=score)  # type: ignore[arg-type]
        cost = config.configure(cube(2), Budget(eps=1.0)).cost
        called += sum(charge.guarantee != "asymptotic" for charge in cost)
    yield Check(
        "draws of finite chains that are called exact", float(called), "three scores", bound=0.0
    )


FAMILIES = (
    ((CHAIN,), laws),
    ((CHAIN,), spans),
    ((CHAIN,), scores),
    ((CHAIN,), guard),
    ((HERDING,), herding),
    ((GP, KME), potentials),
    ((HISTOGRAM,), cells),
    ((CHAIN, HERDING, GP, KME), bandwidth),
    ((CHAIN, HERDING, GP, KME), outlier),
)
