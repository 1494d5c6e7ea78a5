"""From points to rows: the kernels' law, the bounds, and what choosing their width costs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

from marginalsyn import Neighbours, Schema
from marginalsyn.access.rows import RowBatch
from marginalsyn.plugins.audit.testkit.generators import (
    edge_tables,
    example_frame,
    example_schema,
    run_generator,
)
from marginalsyn.plugins.points import point_generator as expansion
from marginalsyn.plugins.points.support_points import SupportPointsConfig
from marginalsyn.plugins.points.support_points_gp import SupportPointsGPConfig
from marginalsyn.table.metric import Metric, PointSpace
from marginalsyn.table.numeric import ContinuousColumn

MIXED = PointSpace(2, np.array([0.75, 1.0]), 2.0, np.array([2, 3]), np.array([1, -1]))


def test_rows_lie_in_bounds_and_around_every_point():
    rng = np.random.default_rng(0)
    points = np.array([[0.02, 0.5], [0.9, 0.99]])
    rows = expansion.spread(points, 5001, 0.05, PointSpace.cube(2), rng)
    assert np.all((rows >= 0) & (rows <= 1))
    first = rows[:, 0] < 0.5
    assert abs(int(first.sum()) - 2500) <= 1
    assert rows[first, 1].std() == pytest.approx(0.05, rel=0.1)
    same = expansion.spread(points, 4, 0.0, PointSpace.cube(2), rng)
    assert np.array_equal(np.unique(same, axis=0), points)


@pytest.mark.parametrize(
    ("size", "weight", "width"), [(2, 1.0, 0.4), (5, 1.0, 0.5), (3, 0.75, 0.4)]
)
def test_categories_switch_as_noise_on_one_hot_vectors_would(size, weight, width):
    rng = np.random.default_rng(1)
    vectors = width * rng.standard_normal((200_000, size))
    vectors[:, 0] += np.sqrt(weight / 2)
    switched = np.mean(vectors.argmax(axis=1) != 0)
    assert expansion.switch_probability(size, weight, width) == pytest.approx(switched, abs=0.006)
    space = PointSpace(0, np.array([weight]), 2.0, np.array([size]), np.array([-1]))
    rows = expansion.spread(np.zeros((1, 1)), 50_000, width, space, rng)
    counts = np.bincount(rows[:, 0].astype(int), minlength=size) / 50_000
    assert counts[0] == pytest.approx(1 - switched, abs=0.012)
    assert np.ptp(counts[1:]) < 0.02


def test_the_density_is_that_of_the_rows_drawn():
    """Its mean over uniform rows is one, and drawn rows have a higher one than others."""
    rng = np.random.default_rng(3)
    points = MIXED.uniform(5, rng)
    width = expansion.WIDTHS[-1]
    uniform = MIXED.uniform(20_000, rng)

    def densities(rows):
        one = (width,)
        sums = [expansion.log_densities([row[None]], points, MIXED, one)[0] for row in rows[:3000]]
        return (np.exp(np.array(sums)) - 1) * expansion.TRUNCATION / (1 - expansion.TRUNCATION)

    assert densities(uniform).mean() == pytest.approx(1.0, abs=0.1)
    drawn = expansion.spread(points, 3000, width, MIXED, rng)
    squares = np.mean(densities(uniform) ** 2)  # E over the law itself is E over uniform, squared
    assert densities(drawn).mean() == pytest.approx(squares, rel=0.1)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_bandwidths_law_keeps_its_eps(neighbours):
    """A row at a centre and one in the far corner are the extremal pair."""
    points = np.array([[0.0, 0.0], [0.1, 0.0]])
    base = np.full((20, 2), 0.05)
    centre, corner = np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])
    space = PointSpace.cube(2)
    scores = {
        name: expansion.log_densities([np.concatenate([base, row])], points, space)
        for name, row in (("centre", centre), ("corner", corner), ("none", base[:0]))
    }
    pair = ("centre", "corner" if neighbours is Neighbours.REPLACE else "none")
    moved = scores[pair[0]] - scores[pair[1]]
    bound = expansion.LOG_RANGE * (1 if neighbours is Neighbours.ADD_REMOVE else 2)
    assert np.ptp(moved) <= bound
    assert np.all(scores["corner"] >= scores["none"])
    asked = {}

    class Visit:
        def __init__(self, rows):
            self.neighbours, self._rows, self.whole = neighbours, rows, 1

        def batches(self, **how):
            yield RowBatch(self._rows)

        def draw(self, law, scores, *, purpose):
            logs = law.eps * scores / (2 * law.sensitivity)
            asked["law"] = logs - logsumexp(logs)
            return 0

    schema = Schema(columns=tuple(ContinuousColumn(name=n, lower=0, upper=1) for n in ("a", "b")))
    laws = []
    for row in (centre, corner if neighbours is Neighbours.REPLACE else base[:0]):
        visit = Visit(np.concatenate([base, row]))
        expansion.width_by_likelihood(visit, points, Metric(schema), eps=0.7)
        laws.append(asked["law"])
    assert np.ptp(laws[0] - laws[1]) <= 0.7 * (1 + 1e-9)
    assert np.abs(laws[0] - laws[1]).max() > 0.05


@pytest.mark.parametrize("bandwidth", ["likelihood", "0.03", "auto"])
@pytest.mark.parametrize("config", [SupportPointsGPConfig, SupportPointsConfig])
def test_every_way_to_choose_a_width_runs_within_budget(config, bandwidth):
    options = {"bandwidth": bandwidth, "rows": 30, "points": 8}
    options |= {"steps": 100, "burn": 0} if config is SupportPointsConfig else {"directions": 20}
    for neighbours in Neighbours:
        run = run_generator(
            config, example_frame(60), example_schema(), options=options, neighbours=neighbours
        )
        width = run.synthesis.notes["bandwidth"]
        assert 0 < width <= 0.25
        bought = [p for p in run.statement.payments if "bandwidth" in p["purpose"]]
        assert len(bought) == (bandwidth == "likelihood")
        assert run.statement.eps <= 1 + 1e-9


def test_a_width_by_likelihood_finds_the_scale():
    rng = np.random.default_rng(4)
    rows = np.clip(rng.normal(0.5, 0.06, (4000, 1)), 0, 1)
    frame = pd.DataFrame(rows, columns=["a"])
    schema = Schema(columns=(ContinuousColumn(name="a", lower=0, upper=1),))
    options = {"bandwidth": "likelihood", "points": 1, "bandwidth_share": 0.5}
    run = run_generator(SupportPointsGPConfig, frame, schema, options=options, eps=2)
    assert run.synthesis.notes["bandwidth"] == pytest.approx(0.06, rel=0.35)


@pytest.mark.parametrize("name", sorted(edge_tables()))
def test_points_come_back_as_the_rows_they_were(name):
    from marginalsyn.table.codec import Codec

    frame, schema = edge_tables()[name]
    metric, codec = Metric(schema), Codec(schema)
    units = codec.unit(frame, absent=-1.0)
    points = metric.points(units)
    pd.testing.assert_frame_equal(metric.frame(points), codec.conform(frame))
    assert np.array_equal(metric.codes(points), codec.encode(frame))
    drawn = metric.space.uniform(300, np.random.default_rng(0))
    assert np.array_equal(metric.codes(drawn), codec.encode(metric.frame(drawn)))
