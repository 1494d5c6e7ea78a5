"""What a release cannot know is said, with how far it may move an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from marginalsyn import Schema
from marginalsyn.answers.code_combinations import Bins
from marginalsyn.answers.estimation import ANSWERED, UNMEASURED, Problem, fieller
from marginalsyn.answers.limits import limits_of, pair_bounds
from marginalsyn.answers.projection import missing_marginals
from marginalsyn.answers.quantities import Mask
from marginalsyn.answers.questions import read_question
from marginalsyn.answers.regression import Regression
from marginalsyn.answers.replaying import with_measured
from marginalsyn.answers.single_numbers import Quantile
from marginalsyn.answers.subgroups import difference_of, mean_of, table_of
from marginalsyn.contract import Measurement
from marginalsyn.table.columns import BooleanColumn
from marginalsyn.table.numeric import IntegerColumn, Shape

Make = Callable[..., Any]
SIZES = {"a": 2, "b": 2}
SCHEMA = Schema(columns=(BooleanColumn(name="a"), BooleanColumn(name="b")), label="a")
SINGLES = [(("a",), 1e-3), (("b",), 1e-3)]
COUNTS = np.array([[400.0, 200.0], [100.0, 300.0]])
RNG = np.random.default_rng(0)


def test_an_unmeasured_pair_is_set_to_its_extremes(evidence_of: Make) -> None:
    evidence, _ = evidence_of(SIZES, SINGLES, seed=0, counts=COUNTS, schema=SCHEMA)
    problem = Problem(evidence, table_of(("a", "b"), SCHEMA, "share"), "table", RNG)
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
    marginals = [*SINGLES, (("a", "b"), 1.0)]
    evidence, _ = evidence_of(SIZES, marginals, seed=0, counts=COUNTS, schema=SCHEMA)
    for question in (Regression("a ~ b", SCHEMA), difference_of("a", "b", SCHEMA)):
        found = limits_of(Problem(evidence, question, "table", RNG), {})
        assert not found.down.any()
        assert not found.up.any()


# Ill are those with one of two causes, and hardly those with both: no pair shows it.
CROSSED = np.array([[[350.0, 150.0], [150.0, 350.0]], [[150.0, 350.0], [350.0, 150.0]]])
THREE = Schema(columns=tuple(BooleanColumn(name=n) for n in "abc"), label="c")
PAIRS = [(pair, 5.0) for pair in (("a", "b"), ("a", "c"), ("b", "c"))]


def test_a_triple_that_was_never_measured_has_no_interval_but_a_remedy(evidence_of: Make) -> None:
    evidence, _ = evidence_of({"a": 2, "b": 2, "c": 2}, PAIRS, seed=0, counts=CROSSED, schema=THREE)
    crossed = Problem(evidence, Regression("c ~ a * b", THREE), "population", RNG)
    cells = Problem(evidence, table_of(("a", "b", "c"), THREE, "share"), "population", RNG)
    assert crossed.measured_share[3] < 0.01
    for problem in (crossed, cells):
        found, limits = problem.conclude(0.95, None), limits_of(problem, {})
        assert not problem.answered.any()
        assert not problem.needs_replays
        assert np.isnan([found.value, found.low, found.high]).all()
        assert np.isfinite(found.fitted).all()
        for notes in limits.notes:
            assert 'rake --marginals "a,b,c"' in notes[0]
        assert missing_marginals(problem, ANSWERED) == (("a", "b", "c"),)
    # What the pairs decide is answered as before, on the same release.
    plain = Problem(evidence, Regression("c ~ a + b", THREE), "population", RNG)
    assert plain.measured_share.min() > 0.999
    assert limits_of(plain, {}).notes == [(), (), ()]
    # And the triple is, once it was bought.
    bought = Measurement(columns=("a", "b", "c"), values=CROSSED + 1.0, sigma=5.0)
    after = Problem(with_measured(evidence, [bought]), crossed.question, "population", RNG)
    found, truth = after.conclude(0.95, None), -4 * np.log(350 / 150)
    assert after.measured_share.min() > 0.999
    assert found.low[3] < truth < found.high[3]


def test_the_measured_share_is_that_of_a_regression_on_the_measured_cells(
    evidence_of: Make,
) -> None:
    sizes = {"a": 3, "b": 2, "c": 2}
    evidence, _ = evidence_of(sizes, PAIRS, seed=3)
    schema = Schema.from_domain(sizes)
    problem = Problem(evidence, table_of(("a", "b", "c"), schema, "share"), "table", RNG)
    codes = problem.cells.codes
    design = np.hstack(
        [
            (codes[:, [i, j]] == np.array(cell)).all(axis=1)[:, None].astype(float)
            for i, j in ((0, 1), (0, 2), (1, 2))
            for cell in np.ndindex(codes[:, i].max() + 1, codes[:, j].max() + 1)
        ]
    )
    root = np.sqrt(problem.weights)[:, None]
    solved = np.linalg.lstsq(root * design, root * problem.influence, rcond=None)[0]
    rest = root * (problem.influence - design @ solved)
    whole = np.square(root * problem.influence).sum(axis=0)
    expected = 1 - np.square(rest).sum(axis=0) / whole
    # A small part of the weight is spread evenly, for cells that the model holds empty.
    assert problem.measured_share == pytest.approx(expected, abs=0.02)


def test_an_interval_holds_what_the_rest_of_its_question_usually_does(evidence_of: Make) -> None:
    counts = np.rint(CROSSED * [[[4.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 40.0]]])
    evidence, _ = evidence_of({"a": 2, "b": 2, "c": 2}, PAIRS, seed=0, counts=counts, schema=THREE)
    problem = Problem(evidence, table_of(("a", "b", "c"), THREE, "share"), "population", RNG)
    part = problem.widened & (problem.value > 0.1)
    assert part.any()
    found = problem.conclude(0.95, None)
    rest = problem.influence - problem.projected
    spread = np.sqrt(problem.reach @ np.square(rest - problem.reach @ rest))
    half = 1.96 * np.hypot(problem.error, UNMEASURED * spread)
    assert (found.high - found.low)[part] / 2 == pytest.approx(half[part], rel=1e-3)
    assert all("rests in part" in limits_of(problem, {}).notes[i][-1] for i in np.flatnonzero(part))
    # Replays know nothing of what was not measured: they leave that part of the interval.
    replays = problem.conclude(0.95, np.random.default_rng(0).normal(0, 0.5, (400, 8)))
    assert np.all((replays.high - replays.low)[part] > 1.9 * 1.96 * (UNMEASURED * spread)[part])


def test_a_mean_holds_what_its_bins_hide(evidence_of: Make) -> None:
    schema = Schema(columns=(IntegerColumn(name="n", lower=0, upper=29, bins=3),))
    counts = np.array([300.0, 400.0, 300.0])
    evidence, _ = evidence_of({"n": 3}, [(("n",), 1.0)], seed=0, counts=counts, schema=schema)
    problem = Problem(evidence, mean_of("n", schema), "population", RNG)
    found = problem.question.conclude(problem, 0.95, None)
    # All values may lie at the ends of their bins: the means are then 10 and 19 about 14.5.
    assert found.low[0] < 10 < 19 < found.high[0]
    assert found.high[0] - found.low[0] == pytest.approx(9 + 2 * 1.96 * problem.error[0], abs=0.1)


def test_a_bought_shape_tells_as_much_of_a_bin_as_its_noise_leaves() -> None:
    shape = Shape(edges=(0, 10, 11, 100), weights=(100.0, 900.0, 0.0))
    column = IntegerColumn(name="n", lower=0, upper=99, bins=(10,), shape=shape)
    shares = np.array([0.1, 0.9])
    guessed, bought, noisy = (
        Bins.of(column, shares, noise) for noise in ((), (9.0, 1.0), (225.0,))
    )
    # Nearly all of the second bin is said to be 10, and up to four deviations may be anywhere.
    assert guessed.room[:, 1].tolist() == [0, 89]
    assert bought.room[:, 1] == pytest.approx([0, 4 / 900 * 89])
    assert noisy.room[:, 1].tolist() == [0, 89]


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
    marginals = [(("n", "b"), 8.0), (("n",), 8.0), (("b",), 8.0)]
    counts = np.array([[300.0, 8.0], [400.0, 2.0], [290.0, 0.0]])
    evidence, _ = evidence_of({"n": 3, "b": 2}, marginals, seed=0, counts=counts, schema=schema)
    notes = limits_of(Problem(evidence, mean_of("n", schema), "table", RNG), {}).notes[0]
    assert any("up to 4.5" in note for note in notes)
    assert any("beyond its bounds (0, 29)" in note for note in notes)
    notes = limits_of(Problem(evidence, difference_of("n", "b", schema), "table", RNG), {}).notes[0]
    assert any("b = True holds about" in note for note in notes)
    middle = Quantile("n", 0.5, schema)
    found = middle.conclude(Problem(evidence, middle, "table", RNG), 0.95, None)
    # Counts of 308, 402, 290: the middle lies .48 into the bin of 10 to 19; the density there is
    # within a factor of two of the bin's own.
    assert 10 < found.low[0] < found.value[0] < found.high[0] < 19
    assert found.low[0] <= 10 + 9 * 0.48 / 2
    assert found.high[0] >= 19 - 9 * 0.52 / 2


def test_of_a_group_that_may_be_empty_nothing_is_known(evidence_of: Make) -> None:
    marginals = [(("a", "b"), 10.0), (("a",), 10.0), (("b",), 10.0)]
    counts = np.array([[400.0, 1.0], [300.0, 0.0]])
    evidence, _ = evidence_of(SIZES, marginals, seed=0, counts=counts, schema=SCHEMA)
    problem = Problem(evidence, difference_of("a", "b", SCHEMA), "population", RNG)
    assert problem.answered.all()
    found = problem.conclude(0.95, None)
    assert np.isnan([found.value, found.low, found.high]).all()


@pytest.mark.parametrize("spread", ["even", "normal", "lognormal"])
def test_intervals_of_quantiles_hold_the_real_ones_and_are_narrower_than_bins(
    evidence_of: Make, spread: str
) -> None:
    schema = Schema(columns=(IntegerColumn(name="n", lower=0, upper=199, bins=10),))
    rng = np.random.default_rng(3)
    numbers = {
        "even": rng.integers(0, 200, 20_000),
        "normal": rng.normal(100, 40, 20_000),
        "lognormal": np.exp(rng.normal(3.5, 0.7, 20_000)),
    }[spread]
    numbers = np.clip(numbers, 0, 199).astype(int)
    counts = np.bincount(numbers // 20, minlength=10).astype(float)
    evidence, _ = evidence_of({"n": 10}, [(("n",), 5.0)], seed=0, counts=counts, schema=schema)
    for level in (0.1, 0.25, 0.5, 0.75, 0.9):
        question = Quantile("n", level, schema)
        found = question.conclude(Problem(evidence, question, "table", RNG), 0.95, None)
        assert found.low[0] <= np.quantile(numbers, level) <= found.high[0]
        assert found.high[0] - found.low[0] < 19


def test_a_median_rests_on_the_shares_near_it_alone(evidence_of: Make) -> None:
    """Rare high values that were measured as one kept every group from having a median."""
    schema = Schema(
        columns=(IntegerColumn(name="n", lower=0, upper=3), BooleanColumn(name="b")), label="b"
    )
    counts = np.array([[300.0, 100.0], [400.0, 700.0], [100.0, 100.0], [100.0, 100.0]])
    evidence, _ = evidence_of(
        {"n": 4, "b": 2},
        [(("n",), 8.0), (("n", "b"), 8.0)],
        seed=0,
        counts=counts,
        schema=schema,
        merges={"n": ([0, 1, 2, 2], [1.0, 1, 0.5, 0.5])},
    )
    for group in (0, 1):
        within = (Mask("b", np.eye(2)[group]),)
        problem = Problem(evidence, Quantile("n", 0.5, schema, "", within), "population", RNG)
        assert not problem.answered[2]
        found = problem.question.conclude(problem, 0.95, None)
        assert (found.low[0], found.high[0]) == (1, 1)
        assert found.measured_share[0] > 0.9
        # All that was not measured is of another group, and notes name it.
        asked = read_question("median(n) by b", schema)[group]
        assert asked.about == f"median(n) by b (b = {bool(group)})"
        # Of a share that lies among those that are not known, the ends do.
        level = float(counts[:3, group].sum() / counts[:, group].sum())
        last = replace(problem.question, level=level)
        found = last.conclude(Problem(evidence, last, "population", RNG), 0.95, None)
        assert found.low[0] <= 2
        assert found.high[0] == 3


def test_ratios_of_hardly_any_rows_may_be_anything() -> None:
    spread = np.diag([1.0, 1.0])
    assert np.isnan(fieller(0.5, 1.0, spread, 1.96, (0.0, 1.0))).all()
    rng, held = np.random.default_rng(0), []
    for _ in range(2000):
        top, bottom = np.array([3.0, 10.0]) + rng.normal(size=2) * 2
        _, low, high = fieller(top, bottom, 4 * spread, 1.96, (0.0, 1.0))
        held.append(not low > 0.3 and not high < 0.3)
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
        evidence, table_of(("a", "b"), schema, "share"), "table", np.random.default_rng(0)
    )
    share = problem.measured_share.reshape(4, 2)
    assert np.all(share[3] < 0.9)
    assert np.all(share[:2] > 0.999)
    notes = limits_of(problem, {}).notes
    assert all("were measured as one" in " ".join(own) for own in notes[6:])


def test_notes_name_what_was_not_measured(evidence_of: Make) -> None:
    """That of one group, which hardly a row has, was said of the whole question."""
    sizes = {"a": 3, "b": 2}
    evidence, _ = evidence_of(
        sizes,
        [(("a",), 5.0), (("a", "b"), 5.0)],
        seed=0,
        counts=np.array([[900.0, 600.0], [500.0, 80.0], [300.0, 260.0]]),
        merges={"a": ([0, 1, 1], [1.0, 0.5, 0.5])},
    )
    (question,) = read_question("mean(b) by a", Schema.from_domain(sizes))
    problem = Problem(evidence, question, "population", RNG)
    notes = limits_of(problem, {}).notes
    assert [any("not measured" in note for note in own) for own in notes] == (
        [not one for one in problem.answered]
    )
    (lacking,) = {note for own in notes for note in own if "is not measured" in note}
    assert lacking.startswith("mean(b) by a (b: a = 1, b: a = 2) is not measured")
