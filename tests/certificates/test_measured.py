"""The measured certificate: what one person moves, its fit against brute force, its bounds."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize
from unit_rows import random_rows

from marginalsyn import Budget, Neighbours, PrivateTable, Schema, Unit, datasets, make_noise
from marginalsyn.certificates.excess_plan import (
    PURPOSE,
    SLACK,
    STEP,
    MeasuredPlan,
    Model,
    steps_of,
    steps_of_rows,
    true_excess,
)
from marginalsyn.certificates.least_loss import Chunk, Least, Objective, least_loss
from marginalsyn.certificates.linear_models import Measure, Problem
from marginalsyn.certificates.measured import (
    MEASURED,
    certify_measured,
    fitted,
    read_measured,
    verify,
)
from marginalsyn.contract import make_config
from marginalsyn.errors import BudgetError, UsageError
from marginalsyn.host import generate
from marginalsyn.plugins.audit.exact import extremes
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.privacy.laws import DiscreteGaussian
from marginalsyn.privacy.zcdp import gaussian_rho
from marginalsyn.release.folder import Release
from marginalsyn.table.design import CodedRows

SCHEMA = example_schema()
KINDS = [(1e-2, None, False), (1e-3, 2.0, False), (1e-6, 1.0, True)]
IDS = ["ridge", "ridge and distance", "distance"]


def model_for(
    label: str, seed: int, ridge: float, within: float | None, free: bool, rows: int = 40
) -> Model:
    problem = Problem.of(SCHEMA, label)
    rng = np.random.default_rng(seed)
    w = rng.normal(size=problem.width) * rng.choice([0.0, 0.3, 3.0, 30.0])
    return Model(problem, w, rows, ridge, within, free)


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize(("ridge", "within", "free"), KINDS, ids=IDS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**9), number=st.booleans())
def test_one_person_moves_it_by_no_more_than_declared(
    ridge: float, within: float | None, free: bool, relation: Neighbours, seed: int, number: bool
) -> None:
    label = "age" if number else (SCHEMA.label or "")
    model = model_for(label, seed, ridge, within, free)
    rows = random_rows(SCHEMA, 1 + seed % 30, seed)
    other = rows[1:] if relation is Neighbours.ADD_REMOVE else np.vstack([rows[2:3], rows[1:]])
    plan = MeasuredPlan(model, relation, 0.1)
    assert abs(steps_of_rows(model, rows) - steps_of_rows(model, other)) <= plan.reach


@pytest.mark.parametrize("relation", list(Neighbours))
def test_extremal_neighbours_reach_what_is_declared(relation: Neighbours) -> None:
    reached = []
    for model, one, other in extremes(relation):
        plan = MeasuredPlan(model, relation, 0.1)
        moved = abs(steps_of_rows(model, one) - steps_of_rows(model, other))
        assert moved <= plan.reach
        reached.append(moved / plan.reach)
    assert max(reached) > 0.98
    # Two of the three kinds of sets at least are tight.
    assert sorted(reached)[-2] > 0.95


@pytest.mark.parametrize("residual", [None, 1.7])
@pytest.mark.parametrize(
    ("ridge", "within", "free"),
    [(3.0, None, False), (3.0, 0.8, False), (0.01, 2.0, False), (1.0, 2.0, True)],
)
def test_the_scale_is_the_integral_and_has_an_inverse(
    ridge: float, within: float | None, free: bool, residual: float | None
) -> None:
    measure = Measure(ridge, within, residual, free)

    def s(v: float) -> float:
        u = math.inf if free else math.sqrt(2 * v / ridge)
        u = min(u, within or math.inf)
        return u if residual is None else residual * u + u * u / 2

    for v in (0.001, 0.3, 2.0, 40.0):
        # v = x^2 takes away the root at 0.
        corner = [math.sqrt(measure.bend)] if 0 < measure.bend < v else None
        whole = quad(lambda x: 2 * x / s(x * x), 1e-12, math.sqrt(v), points=corner)[0]
        assert measure.psi(v) == pytest.approx(whole, rel=1e-6)
        assert measure.inverse(measure.psi(v)) == pytest.approx(v, rel=1e-9)


@pytest.mark.parametrize("number", [False, True], ids=["classes", "number"])
@pytest.mark.parametrize(("ridge", "within", "free"), KINDS, ids=IDS)
def test_the_fit_is_that_of_brute_force(
    ridge: float, within: float | None, free: bool, number: bool
) -> None:
    """Against a general solver with one constraint for every row that the schema allows."""
    columns = [{"name": "y", "kind": "integer", "lower": 0, "upper": 9}] if number else []
    schema = Schema.from_domain({"a": 2, "b": 3} | ({} if number else {"y": 2}))
    if number:
        schema = Schema.model_validate(
            {"columns": [c.model_dump() for c in schema.columns] + columns}
        )
    problem = Problem.of(schema, "y")
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(0, 2, 60), rng.integers(0, 3, 60), rng.integers(0, 2, 60)])
    units = rows.astype(float)
    y, has = problem.labels(units)
    assert has.all()
    model = Model(problem, rng.normal(size=problem.width), 60, ridge, within, free)
    chunk = Chunk(problem.integers(units), y.astype(float))
    objective = Objective(problem, [chunk], model.coefficients, model.penalties)
    found = least_loss(objective, model.measure, SLACK / 2)
    legal = np.array([[a, b, 0] for a, b in itertools.product(range(2), range(3))], dtype=float)
    legal = problem.scale(problem.integers(legal))
    limits = []
    if within is not None:
        limits = [{"type": "ineq", "fun": lambda d, k=k: within - k * (legal @ d)} for k in (1, -1)]
    best = minimize(objective.value, np.zeros(problem.width), constraints=limits, tol=1e-12)
    # The proven gap is a true one, and small enough.
    assert found.value - found.gap - 1e-6 <= best.fun <= found.value + 1e-6
    v = max(-found.value, 0.0)
    assert model.measure.psi(v + found.gap) - model.measure.psi(v) <= SLACK / 2
    if within is not None:
        assert np.abs(legal @ found.step).max() <= within
        assert problem.farthest(found.step) == pytest.approx(np.abs(legal @ found.step).max())


def test_bounds_hold_as_often_as_they_say() -> None:
    problem = Problem.of(SCHEMA)
    w = 0.3 * np.random.default_rng(0).normal(size=problem.width)
    model = Model(problem, w, 3000, 1e-2, None, False)
    rows = random_rows(SCHEMA, 3000, 2)
    for relation in Neighbours:
        plan = MeasuredPlan(model, relation, 0.05)
        steps, noise = steps_of_rows(model, rows), make_noise(3)
        true = true_excess(model, CodedRows(SCHEMA, np.zeros((0, 0), int), rows))
        _, has = model.problem.labels(rows)
        count = int(has.sum())
        draws = noise.draw(DiscreteGaussian(plan.sigma), np.full(2000, steps))
        counts = [count] * 2000
        if plan.buys_rows:
            counts = noise.draw(DiscreteGaussian(plan.rows_sigma), np.full(2000, count)).tolist()
        found = [plan.bounds(int(k), int(n)) for k, n in zip(draws, counts, strict=True)]
        high = sum(one["upper"] is not None and one["upper"] < true for one in found)
        low = sum(one["lower"] is not None and one["lower"] > true for one in found)
        # 2,000 draws at 5% miss 157 or more times with a chance below 1e-7; some must miss.
        assert 20 < high < 157
        assert low < 157


def test_an_infinite_gap_counts_as_an_excess_beyond_all_others() -> None:
    model = model_for(SCHEMA.label or "", 1, 1e-2, None, False)
    steps = steps_of(Least(-1.0, math.inf, np.zeros(1)), model.measure)
    assert steps == 2**52
    bounds = MeasuredPlan(model, Neighbours.ADD_REMOVE, 0.1).bounds(steps, 10**6)
    assert (bounds["upper"], bounds["lower"]) == (None, None)


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize(("ridge", "within", "free"), KINDS, ids=IDS)
def test_no_table_makes_it_fail(
    ridge: float, within: float | None, free: bool, relation: Neighbours
) -> None:
    rows = random_rows(SCHEMA, 50, 0)
    place = SCHEMA.names.index(SCHEMA.label or "")
    alike = rows.copy()
    alike[:] = alike[0]
    one_sided = rows.copy()
    one_sided[:, place] = 0
    for table in (rows[:0], rows[:1], alike, one_sided, np.repeat(alike, 40, axis=0)):
        for label in (SCHEMA.label or "", "age"):
            for seed in (0, 3):
                steps = steps_of_rows(model_for(label, seed, ridge, within, free), table)
                assert 0 <= steps < 2**52


def release_of(
    folder: Path, relation: Neighbours = Neighbours.ADD_REMOVE
) -> tuple[PrivateTable, Release]:
    table = PrivateTable.open(example_frame(300), SCHEMA)
    budget = Budget(eps=1, neighbours=relation)
    made, statement = generate(table, make_config("independent"), budget, noise=make_noise(0))
    return table, Release.write(made, SCHEMA, statement, folder / "release")


class Tape:
    """Noise whose outcome is fixed beforehand, whatever it is added to."""

    private, description = True, "tape"

    def __init__(self) -> None:
        self.post = np.random.default_rng(0)
        self.seen: list[int] = []

    def draw(self, law: Any, values: np.ndarray) -> np.ndarray:
        self.seen.append(int(np.size(values)))
        return np.array([[5000], [280]][len(self.seen) - 1])


@pytest.mark.parametrize("relation", list(Neighbours))
def test_it_uses_no_quantity_without_noise(tmp_path: Path, relation: Neighbours) -> None:
    written = []
    for number, seed in enumerate((0, 7)):
        rows = 300 if relation is Neighbours.REPLACE else 300 + 50 * number
        _, release = release_of(tmp_path / str(number), relation)
        private = PrivateTable.open(example_frame(rows, seed), SCHEMA)
        budget = Budget(eps=3, neighbours=relation)
        tape = Tape()
        done = certify_measured(private, release, budget, noise=tape)
        told = done.statement.model_copy(update={"files": {}}).to_json().encode()
        written.append([(done.path / MEASURED).read_bytes(), told])
        entry = read_measured(done)[0]
        assert entry["answer"] == 5000
        assert tape.seen == ([1, 1] if entry["rows_sigma"] else [1])
    assert written[0] == written[1]


@pytest.mark.parametrize("relation", list(Neighbours))
def test_it_is_charged_stated_and_verified(tmp_path: Path, relation: Neighbours) -> None:
    table, release = release_of(tmp_path, relation)
    budget = Budget(eps=2, neighbours=relation)
    before = table.ledger.read().total().rho or 0.0
    done = certify_measured(table, release, budget, noise=make_noise(0))
    assert (table.ledger.read().total().rho or 0.0) == pytest.approx(before + budget.gaussian)
    assert done.statement.charges[-1] == table.ledger.read().charges[-1]
    paid = [p for p in done.statement.payments if PURPOSE in p["purpose"]]
    assert sum(p["rho"] for p in paid) == pytest.approx(budget.gaussian)
    done = certify_measured(table, done, budget, noise=make_noise(1), within=2, free_intercept=True)
    done = certify_measured(table, done, budget, noise=make_noise(2), label="age", ridge=0.1)
    assert [e["loss"] for e in read_measured(done)] == ["log loss"] * 2 + ["squared error"]
    assert verify(done.path) == []


def test_noise_is_paid_for() -> None:
    for relation, label in itertools.product(Neighbours, (SCHEMA.label, "age")):
        plan = MeasuredPlan(model_for(label or "", 0, 1e-3, None, False), relation, 0.2)
        cost = gaussian_rho(plan.sigma, plan.reach)
        cost += gaussian_rho(plan.rows_sigma) if plan.buys_rows else 0.0
        assert cost == pytest.approx(0.2, rel=1e-9)
        assert cost <= 0.2 * (1 + 1e-12)
        # Tables that differ in one row may differ by one row's worth, and by slack.
        assert plan.reach >= STEP * (1 if relation is Neighbours.ADD_REMOVE else 2)


def test_verify_finds_what_was_changed(tmp_path: Path) -> None:
    table, release = release_of(tmp_path)
    done = certify_measured(table, release, Budget(eps=30), noise=make_noise(0), ridge=0.1)
    assert verify(done.path) == []
    whole = (done.path / MEASURED).read_text()
    changes: list[tuple[str, Callable[[Any], Any]]] = [
        ("upper must be", lambda f: f["certificates"][0].update(upper=0.001)),
        ("answer_sigma must be", lambda f: f["certificates"][0].update(answer_sigma=1.0)),
        ("must cover", lambda f: f["certificates"].append(f["certificates"][0])),
        ("must", lambda f: f["certificates"][0]["coefficients"].update(constant=9.0)),
        ("must be", lambda f: f["certificates"][0].update(label="nothing")),
        ("as it was written", lambda f: f["certificates"][0].pop("ridge")),
        ("list of certificates", lambda f: f.clear()),
    ]
    for said, change in changes:
        facts = json.loads(whole)
        change(facts)
        done = done.amend({MEASURED: json.dumps(facts).encode()})
        problems = verify(done.path)
        assert any(said in problem for problem in problems), (said, problems)


def test_nothing_is_spent_where_it_would_be_refused(tmp_path: Path) -> None:
    table, release = release_of(tmp_path)
    count, budget = len(table.ledger.read().charges), Budget(eps=1)
    for about in (
        {"ridge": 0.0},
        {"within": -1.0},
        {"free_intercept": True},
        {"label": "colour"},
        {"weights": "none"},
    ):
        with pytest.raises(UsageError):
            certify_measured(table, release, budget, noise=make_noise(0), **about)
    table.ledger.set_cap(eps=1.05)
    with pytest.raises(BudgetError):
        certify_measured(table, release, budget, noise=make_noise(0))
    assert len(table.ledger.read().charges) == count


def test_rows_of_a_table_without_the_unit_are_refused(tmp_path: Path) -> None:
    """Persons of one row each have no column more than rows: only the unit itself tells."""
    table, release = release_of(tmp_path)
    unit = Unit(column="who", max_rows=1)
    release.schema = release.schema.with_unit(unit)
    assert table.schema.columns == release.schema.columns
    with pytest.raises(UsageError, match="with its unit"):
        certify_measured(table, release, Budget(eps=1), noise=make_noise(0))


def test_weights_have_a_model_of_their_own(tmp_path: Path) -> None:
    table, release = release_of(tmp_path)
    rows = len(release.frame())
    column = "\n".join(["w", *(f"{1 + k % 5}.0" for k in range(rows)), ""]).encode()
    release = release.amend({"weights.csv": column})
    plain, weighted = fitted(release), fitted(release, weights="w")
    assert np.abs(plain.coefficients - weighted.coefficients).max() > 1e-3
    done = certify_measured(table, release, Budget(eps=1), noise=make_noise(0), weights="w")
    assert verify(done.path) == []
    # Weights that change later leave the certificate of the model as it was.
    done.amend({"weights.csv": b"w\n" + b"1.0\n" * rows})
    assert verify(done.path) == []


def test_a_small_table_gets_no_information(tmp_path: Path) -> None:
    heart = datasets.load("heart")
    table = PrivateTable.open(heart.train, heart.schema)
    made, statement = generate(table, make_config("mst"), Budget(eps=1), noise=make_noise(0))
    release = Release.write(made, heart.schema, statement, tmp_path / "release")
    done = certify_measured(table, release, Budget(eps=0.3), noise=make_noise(0))
    entry = read_measured(done)[0]
    assert (entry["upper"], entry["lower"]) == (None, None)


def test_other_rows_of_the_label_are_left_out() -> None:
    """Rows without a label move nothing, and their number is bought even where rows are public."""
    model = model_for(SCHEMA.label or "", 1, 1e-2, None, False)
    frame = pd.DataFrame({"a": [0, 1], "y": ["no", None]})
    schema = Schema.model_validate(
        {
            "columns": [
                {"name": "a", "kind": "integer", "lower": 0, "upper": 1},
                {"name": "y", "kind": "categorical", "categories": ["no", "yes"], "nullable": True},
            ],
            "label": "y",
            "positive": "yes",
        }
    )
    problem = Problem.of(schema)
    _, has = problem.labels(CodedRows.of(frame, schema).units)
    assert has.tolist() == [True, False]
    assert not problem.every_row_counts
    nullable = Model(problem, np.zeros(problem.width), 10, 0.1, None, False)
    assert MeasuredPlan(nullable, Neighbours.REPLACE, 0.1).buys_rows
    assert model.problem.every_row_counts != MeasuredPlan(model, Neighbours.REPLACE, 0.1).buys_rows
