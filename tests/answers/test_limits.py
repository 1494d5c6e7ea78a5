"""What a release cannot know is said, with how far it may move an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.limits import limits_of, pair_bounds
from marginalsyn.answers.quantiles import Quantile
from marginalsyn.answers.quantities import Difference, Mean, Table
from marginalsyn.answers.ratios import fieller
from marginalsyn.answers.regression import Regression
from marginalsyn.table import BooleanColumn, IntegerColumn, Schema

Make = Callable[..., Any]
SIZES = {"a": 2, "b": 2}
SCHEMA = Schema(columns=(BooleanColumn(name="a"), BooleanColumn(name="b")), label="a")
SINGLES = [(("a",), 1e-3), (("b",), 1e-3)]
COUNTS = np.array([[400.0, 200.0], [100.0, 300.0]])
RNG = np.random.default_rng(0)


def test_an_unmeasured_pair_is_set_to_its_extremes(evidence_of: Make) -> None:
    evidence, _ = evidence_of(SIZES, SINGLES, seed=0, counts=COUNTS, schema=SCHEMA)
    problem = Problem(evidence, Table(("a", "b"), SCHEMA, "share"), "table", RNG)
    found = limits_of(problem, {})
    # P(a) = .4 and P(b) = .5: by Frechet's bounds their joint share lies between 0 and .4.
    joint = 3
    assert problem.fitted[joint] == pytest.approx(0.2, abs=1e-3)
    assert found.down[joint] == pytest.approx(-0.2, abs=2e-3)
    assert found.up[joint] == pytest.approx(0.2, abs=2e-3)
    assert "never measured together" in found.notes[joint][0]
    # A bound of .1 on the l1 error lets each of the four cells move by a quarter of it.
    bounded = limits_of(problem, {("a", "b"): 0.1})
    assert bounded.up[joint] == pytest.approx(0.025, abs=1e-3)


def test_a_measured_pair_has_no_such_limits(evidence_of: Make) -> None:
    looks = [*SINGLES, (("a", "b"), 1.0)]
    evidence, _ = evidence_of(SIZES, looks, seed=0, counts=COUNTS, schema=SCHEMA)
    for question in (Regression("a ~ b", SCHEMA), Difference("a", "b", SCHEMA)):
        found = limits_of(Problem(evidence, question, "table", RNG), {})
        assert not found.down.any()
        assert not found.up.any()


def test_bounds_are_read_from_what_aim_says() -> None:
    told = {
        "confidence": 0.95,
        "marginals": [
            {"columns": ["a"], "l1": 0.1, "measured": True},
            {"columns": ["a", "b"], "l1": 0.2, "measured": False},
            {"columns": ["a", "c"], "l1": 0.3, "measured": True},
        ],
    }
    assert pair_bounds(told) == {("a", "b"): 0.2}
    assert pair_bounds(None) == {}


def test_bins_and_small_groups_are_told(evidence_of: Make) -> None:
    schema = Schema(
        columns=(IntegerColumn(name="n", lower=0, upper=29, bins=3), BooleanColumn(name="b")),
        label="b",
    )
    looks = [(("n", "b"), 8.0), (("n",), 8.0), (("b",), 8.0)]
    counts = np.array([[300.0, 8.0], [400.0, 2.0], [290.0, 0.0]])
    evidence, _ = evidence_of({"n": 3, "b": 2}, looks, seed=0, counts=counts, schema=schema)
    notes = limits_of(Problem(evidence, Mean("n", schema), "table", RNG), {}).notes[0]
    assert any("up to 4.5" in note for note in notes)
    assert any("beyond its bounds (0, 29)" in note for note in notes)
    notes = limits_of(Problem(evidence, Difference("n", "b", schema), "table", RNG), {}).notes[0]
    assert any("b = True holds about" in note for note in notes)
    middle = Quantile("n", 0.5, schema)
    found = middle.read(Problem(evidence, middle, "table", RNG).conclude(0.95, None))
    assert (found.low[0], found.high[0]) == (10.0, 19.0)
    assert 10 <= found.value[0] <= 19


def test_ratios_of_hardly_any_rows_may_be_anything() -> None:
    spread = np.diag([1.0, 1.0])
    assert fieller(0.5, 1.0, spread, 1.96, (0.0, 1.0), 0.4) == (0.4, 0.0, 1.0)
    rng, held = np.random.default_rng(0), []
    for _ in range(2000):
        top, bottom = np.array([3.0, 10.0]) + rng.normal(size=2) * 2
        _, low, high = fieller(top, bottom, 4 * spread, 1.96, (0.0, 1.0), 0.3)
        held.append(low <= 0.3 <= high)
    assert 0.93 < np.mean(held) < 0.97


def test_a_merged_code_that_the_model_holds_empty_is_not_taken_as_known(evidence_of: Make) -> None:
    evidence, _ = evidence_of(
        {"a": 4, "b": 2},
        [(("a",), 20.0), (("a", "b"), 20.0)],
        seed=1,
        merges={"a": ([0, 1, 2, 2], [1.0, 1.0, 1.0, 0.0])},
    )
    schema = Schema.from_domain({"a": 4, "b": 2})
    problem = Problem(
        evidence, Table(("a", "b"), schema, "share"), "table", np.random.default_rng(0)
    )
    told = problem.told.reshape(4, 2)
    assert np.all(told[3] < 0.9)
    assert np.all(told[:2] > 0.999)
    notes = limits_of(problem, {}).notes
    assert all("were measured as one" in " ".join(own) for own in notes[6:])
