"""The privacy audits of the support-point generators, on spaces that can be enumerated."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import beta as beta_law

from marginalsyn import Budget, Neighbours
from marginalsyn.errors import UsageError
from marginalsyn.plugins.audit.exact import Scripted, cube, halves, support_law
from marginalsyn.plugins.audit.testkit.generators import (
    example_frame,
    example_schema,
    run_generator,
)
from marginalsyn.plugins.points.fitting import mixed_support_points
from marginalsyn.plugins.points.support_points import (
    SupportPointsConfig,
    SupportPointsHerdingConfig,
)
from marginalsyn.plugins.points.walks import CandidateWalk, make_candidate_law
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.noise import LAWS
from marginalsyn.progress import Silent
from marginalsyn.table.energy import energy_distance, potential, self_distance
from marginalsyn.table.metric import Metric, PointSpace

REPLACE, ADD_REMOVE = Neighbours.REPLACE, Neighbours.ADD_REMOVE


@pytest.mark.parametrize("points", [1, 2])
@pytest.mark.parametrize("score", ["root-energy", "energy"])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_exact_law_keeps_its_eps(score, neighbours, points):
    grid = np.linspace(0, 1, 21)[:, None]
    sets = list(itertools.product(range(21), repeat=points))
    config, budget = (
        SupportPointsConfig(points=points, score=score),
        Budget(eps=1.0, neighbours=neighbours),
    )
    rows = halves(201, 100)
    others = [halves(201, 101), np.concatenate([rows[1:], [[0.5]]])]
    if neighbours is ADD_REMOVE:
        others = [rows[1:], rows[:-1], np.concatenate([rows, [[1.0]]])]
    law = support_law(rows, grid, sets, config, budget)
    losses = [
        np.abs(law - support_law(other, grid, sets, config, budget)).max() for other in others
    ]
    assert max(losses) <= 1.0 + 1e-6  # rows are in single precision
    assert max(losses) > 0.2  # and the budget is used


@pytest.mark.parametrize("score", ["root-energy", "energy"])
def test_the_range_of_log_ratios_is_bounded_and_the_bound_is_reached(score):
    """Log-ratios lie in an interval of length eps: what makes eps^2 / 8 in rho true."""
    grid = np.linspace(0, 1, 41)[:, None]
    sets = [(i,) for i in range(41)]
    worst = 0.0
    for neighbours in Neighbours:
        config, budget = SupportPointsConfig(score=score), Budget(eps=1.0, neighbours=neighbours)
        for rows in (halves(9, 4), halves(1, 0), halves(2, 1)):
            for place in (0.0, 1.0):
                other = np.concatenate([rows if neighbours is ADD_REMOVE else rows[1:], [[place]]])
                ratio = support_law(rows, grid, sets, config, budget) - support_law(
                    other, grid, sets, config, budget
                )
                worst = max(worst, np.ptp(ratio))
    assert worst <= 1.0 + 1e-6
    assert worst > 0.99


def test_algorithm_1_spends_fifty_times_its_claim():
    """Scored through the data's support points with the sensitivity that it prints."""
    grid = np.linspace(0, 1, 41)[:, None]
    budget = Budget(eps=1.0, neighbours=REPLACE)
    count = 201
    laws, valid = [], []
    for ones in (100, 101):  # the single support point is the median: it jumps from 0 to 1
        median = np.array([[float(ones > 100)]])
        energies = np.array([energy_distance(median, g[None]) for g in grid])
        logs = -energies * budget.eps / (2 * 2 * (2 * count - 1) / count**2)
        laws.append(logs - logsumexp(logs))
        sharp = SupportPointsConfig(points=1, score="paper").configure(cube(1), budget)
        logs = -energies * sharp.coefficient
        valid.append(logs - logsumexp(logs))
    assert np.abs(laws[0] - laws[1]).max() == pytest.approx(50.38, abs=0.01)
    assert 0.49 < np.abs(valid[0] - valid[1]).max() <= 1.0


def test_an_audit_by_sampling_catches_algorithm_1_and_passes_the_fix():
    """Clopper-Pearson on Metropolis-Hastings runs, as an auditor without the formulas would do."""
    grid = np.linspace(0, 1, 11)[:, None]
    count, runs = 201, 2_000

    def lower_bound(coefficient: float, places: tuple[np.ndarray, np.ndarray]) -> float:
        shares = []
        for offset, place in enumerate(places):
            walk = CandidateWalk(make_candidate_law(grid, potential(place, grid)), 1)
            rng = np.random.default_rng(offset)
            state, low = walk.at(np.array([5])), 0
            for _ in range(runs):
                state, _ = walk.step(rng, state, 200, coefficient)
                low += state.indices[0] <= 5
            shares.append(low)
        at_least = beta_law.ppf(5e-7, shares[0], runs - shares[0] + 1)
        at_most = beta_law.ppf(1 - 5e-7, shares[1] + 1, runs - shares[1])
        return float(np.log(at_least / at_most))

    medians = (np.array([[0.0]]), np.array([[1.0]]))
    assert lower_bound(1.0 / (4 * (2 * count - 1) / count**2), medians) > 4.0
    budget = Budget(eps=1.0, neighbours=REPLACE)
    direct = SupportPointsConfig(points=1, score="energy").configure(cube(1), budget)
    rows = (halves(count, 100), halves(count, 101))
    assert lower_bound(direct.coefficient * count, rows) < 1.0


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_scores_move_by_no_more_than_their_sensitivity(dimension):
    rng, space = np.random.default_rng(dimension), PointSpace.cube(dimension)
    diam = space.diameter
    energy, one_sided, root = [], [], []
    for trial in range(300):
        n, count = int(rng.integers(1, 4)), int(rng.integers(1, 6))
        rows, points = rng.random((count, dimension)), rng.random((n, dimension))
        x, other = rng.random(dimension), rng.random(dimension)
        if trial % 3 == 0:  # the extremal pair
            x, other = np.ones(dimension), np.zeros(dimension)
            points[:] = trial % 2
        if trial % 5 == 0:
            rows[:] = points[0]
        base = np.concatenate([rows, [x]])
        replaced = np.concatenate([rows, [other]])

        def summed(data, at=points):
            return len(data) * (2 * potential(data, at).mean() - self_distance(at))

        def rooted(data, at=points):
            return len(data) * np.sqrt(max(energy_distance(data, at), 0.0))

        energy.append(abs(summed(base) - summed(replaced)) / (2 * diam))
        one_sided.append((summed(base) - summed(rows)) / (2 * diam))
        root.append(abs(rooted(base) - rooted(replaced)) / np.sqrt(2 * diam))
        root.append(abs(rooted(base) - rooted(rows)) / np.sqrt(2 * diam))
    assert max(energy) <= 1 + 1e-9
    assert max(energy) == pytest.approx(1.0, abs=1e-9)
    assert min(one_sided) >= -1e-9
    assert max(one_sided) == pytest.approx(1.0, abs=1e-9)
    assert max(root) <= 1 + 1e-6
    assert max(root) > 0.999


def test_the_rows_own_term_does_not_matter_for_the_energy():
    grid = np.linspace(0, 1, 9)[:, None]
    rows = np.random.default_rng(0).random((20, 1))
    sets = list(itertools.product(range(9), repeat=2))
    full = np.array([energy_distance(rows, grid[list(s)]) for s in sets])
    part = np.array(
        [2 * potential(rows, grid[list(s)]).mean() - self_distance(grid[list(s)]) for s in sets]
    )
    laws = [-30 * e - logsumexp(-30 * e) for e in (full, part)]
    assert np.abs(laws[0] - laws[1]).max() < 1e-12


# -- what is stated ---------------------------------------------------------------------------


@pytest.mark.parametrize("score", ["root-energy", "energy", "paper"])
def test_no_finite_chain_is_called_exact(score):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x0": rng.random(40), "x1": rng.random(40)})
    options = {"score": score, "points": 4, "steps": 200, "burn": 50}
    for neighbours in Neighbours:
        run = run_generator(
            SupportPointsConfig, frame, cube(2), options=options, neighbours=neighbours
        )
        statement = run.statement
        assert compose(statement.charges, neighbours=neighbours).guarantee == "asymptotic"
        assert "Markov chain" in {line.law for line in statement.samplers}
        assert LAWS["Markov chain"].guarantee == "asymptotic"
        assert any("asymptotic" in warning for warning in statement.warnings)
        assert all(charge.guarantee == "asymptotic" for charge in statement.charges)
        assert (statement.eps, statement.delta) == (1.0, 0.0)
        # What the chains did depends on private rows: for the curator only.
        assert "rhat" in run.synthesis.diagnostics["energy"]
        assert "rhat" not in repr(statement.notes)
        claim = statement.notes.get("eps_that_algorithm_1_would_claim")
        if score == "paper" and neighbours is REPLACE:
            assert claim == pytest.approx((2 * 40 - 1) / 40**2)
        else:
            assert claim is None
        if score == "paper":
            assert "twice the diameter" in statement.notes["calibration"]


def test_many_releases_share_the_budget():
    frame = example_frame(30)
    options = {"points": 3, "steps": 50, "burn": 0, "releases": 40, "chains": 1}
    run = run_generator(SupportPointsConfig, frame, example_schema(), options=options)
    assert len(run.synthesis.frame) == 120
    assert len(run.statement.charges) == 40
    assert run.statement.eps <= 1.0 + 1e-9
    assert run.generator.eps_each > 1.5 / 40  # zCDP's composition, not the basic one


def test_the_papers_score_runs_on_a_table_with_categories():
    frame, schema = example_frame(60), example_schema()
    options = {"score": "paper", "points": 6, "steps": 200, "burn": 50, "chains": 1}
    run = run_generator(SupportPointsConfig, frame, schema, options=options, eps=5)
    assert len(run.synthesis.frame) == 6
    assert run.statement.eps == pytest.approx(5)
    rng = np.random.default_rng(0)
    rows = Metric(schema).space.uniform(300, rng)
    rows[:, 0] = np.where(rng.random(300) < 0.8, 0.1, 0.9)
    found = mixed_support_points(rows, 20, Metric(schema).space, rng)
    assert found.shape == (20, rows.shape[1])
    assert abs(np.mean(found[:, 0] < 0.5) - 0.8) < 0.11


def test_bad_knobs_are_refused():
    for options, word in (
        ({"points": 0}, "points"),
        ({"p": 1.0}, "p"),
        ({"bandwidth": "wide"}, "bandwidth"),
        ({"steps": 0}, "steps"),
        ({"bandwidth_share": 1.0}, "bandwidth_share"),
    ):
        with pytest.raises(UsageError, match=word):
            SupportPointsConfig(**options)
    with pytest.raises(UsageError, match="must be 2 with the score paper"):
        SupportPointsConfig(score="paper", p=1.5).configure(example_schema(), Budget(eps=1))
    with pytest.raises(UsageError, match="total_share"):
        SupportPointsHerdingConfig(total_share=0.6, bandwidth_share=0.6)


# -- herding ----------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_herding_by_full_enumeration(neighbours):
    config = SupportPointsHerdingConfig(points=3, candidates=5)
    generator = config.configure(cube(1), Budget(eps=3.0, neighbours=neighbours))
    rows = np.array([[0.0], [0.0], [0.4], [1.0]])
    other = rows[1:] if neighbours is ADD_REMOVE else np.concatenate([rows[1:], [[1.0]]])
    scripts = list(itertools.product(range(5), repeat=3))
    laws = []
    for data in (rows, other):
        logs = []
        for script in scripts:
            visit = Scripted(data, neighbours, script, total=4)
            generator(visit, progress=Silent())
            logs.append(visit.log_probability)
        laws.append(np.array(logs))
        assert logsumexp(logs) == pytest.approx(0.0, abs=1e-9)
    eps = generator.eps_each
    losses = laws[0] - laws[1]
    assert np.abs(losses).max() <= 3 * eps * (1 + 1e-9)
    assert np.abs(losses).max() > 0.3 * 3 * eps
    for order in (1.01, 2.0, 5.0, 30.0):
        for p, q in (laws, laws[::-1]):
            renyi = logsumexp(order * p + (1 - order) * q) / (order - 1)
            assert renyi <= order * 3 * eps**2 / 8 * (1 + 1e-9)


@pytest.mark.parametrize("composition", ["zcdp", "pure"])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_herding_spends_what_it_says(composition, neighbours):
    options = {"points": 5, "candidates": 64, "composition": composition}
    run = run_generator(
        SupportPointsHerdingConfig,
        example_frame(80),
        example_schema(),
        options=options,
        neighbours=neighbours,
    )
    assert compose(run.statement.charges, neighbours=neighbours).guarantee == "exact"
    assert all(LAWS[line.law].guarantee == "exact" for line in run.statement.samplers)
    assert (run.statement.delta == 0) == (composition == "pure")
    if composition == "pure":
        spent = sum(payment["eps"] for payment in run.statement.payments)
        assert 0.999 < spent <= 1.0 + 1e-9
    else:
        spent = sum(payment["rho"] for payment in run.statement.payments)
        assert spent == pytest.approx(Budget(eps=1.0).rho, rel=1e-6)


def test_a_record_far_out_moves_no_other_record():
    """Coordinates come from public bounds, row by row: an outlier scales nobody else."""
    frame = pd.DataFrame({"x0": [0.2, 0.5, 0.9]})
    metric = Metric(cube(1))
    from marginalsyn.table.codec import Codec

    before = metric.points(Codec(cube(1)).unit(frame))
    frame.loc[2, "x0"] = 1e9
    after = metric.points(Codec(cube(1)).unit(frame))
    assert np.array_equal(before[:2], after[:2])
    assert after[2] == 1.0
