"""Support points: the sums that a potential holds are asked, and what they do not tell is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from marginalsyn import Budget, Neighbours, Schema, Unit
from marginalsyn.answers.answering import read_evidence
from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.limits import limits_of
from marginalsyn.answers.quantities import Question
from marginalsyn.answers.subgroups import mean_of, table_of
from marginalsyn.contract import Model, make_config
from marginalsyn.errors import UsageError
from marginalsyn.plugins.points import support_points_gp
from marginalsyn.plugins.points.support_points_gp import NoisyPotential, SupportPointsGP
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.numeric import IntegerColumn

Run = Callable[..., Result]
MIXED = Schema(
    columns=(
        IntegerColumn(name="a", lower=0, upper=100),
        CategoricalColumn(name="b", categories=("x", "y", "z"), other=False),
    )
)
NUMBERS = Schema(columns=(IntegerColumn(name="a", lower=0, upper=100),))
SCHEMAS = {"slices": MIXED, "field": NUMBERS}
ROWS, SIGMA, OFF = 4000, 6.0, 10.0
RNG = np.random.default_rng(3)


@cache
def measured(kind: str) -> tuple[SupportPointsGP, np.ndarray, np.ndarray, np.ndarray]:
    """A generator, the exact sums of a table, their deviations, and points of another table."""
    schema = SCHEMAS[kind]
    made = make_config("support-points-gp", {}).configure(schema, Budget(eps=1.0))
    assert isinstance(made, SupportPointsGP)
    if made.form == "field":
        sums, _ = made.field.measure([table(schema)])
        return made, sums.astype(float), np.full(sums.shape, made.sigma), other(schema)
    sums, _ = made.slices.measure([table(schema)])
    return made, sums.astype(float), made.slices.noise_scale(SIGMA / 20), other(schema)


def table(schema: Schema) -> np.ndarray:
    """The private rows, as points."""
    rng = np.random.default_rng(1)
    a = np.rint(100 * rng.beta(2, 4, ROWS)) / 100
    code = (rng.random(ROWS) < a) + 1.0 * (rng.random(ROWS) < 0.2)
    return np.column_stack([a, code])[:, : len(schema.columns)]


def other(schema: Schema) -> np.ndarray:
    """Rows around points that are not those of the table, and nowhere above 80; rows anywhere."""
    rng = np.random.default_rng(2)
    a = np.append(0.8 * rng.beta(2, 3, 3000), rng.random(1000))
    return np.column_stack([a, rng.integers(0, 3, 4000)])[:, : len(schema.columns)]


def evidence_of(schema: Schema, seed: int) -> NoisyPotential:
    made, sums, sigmas, points = measured("slices" if schema is MIXED else "field")
    rng = np.random.default_rng(seed)
    total = ROWS + rng.normal(0, OFF)
    noisy = sums + rng.normal(0, sigmas)
    return NoisyPotential(schema, made, noisy, sigmas, (total, OFF), points, 3000)


def errors_of(schema: Schema, question: Question, truth: np.ndarray, repeats: int) -> np.ndarray:
    """Errors over their stated deviations, privacy noise alone."""
    found = []
    for seed in range(repeats):
        problem = Problem(evidence_of(schema, seed), question, "table", np.random.default_rng(0))
        found.append((problem.value * problem.size - truth) / (problem.error * problem.size))
    return np.array(found)


@pytest.mark.parametrize("scale", ["share", "count"])
def test_what_the_sums_tell_is_unbiased_and_as_noisy_as_it_says(scale: str) -> None:
    """A category is a sum of its own: points of another table change nothing."""
    codes = table(MIXED)[:, 1]
    truth = np.bincount(codes.astype(int), minlength=3) / (1 if scale == "count" else ROWS)
    errors = errors_of(MIXED, table_of(("b",), MIXED, scale), truth, 200)  # type: ignore[arg-type]
    # 200 draws: a mean is known to .07 of a deviation, a deviation to 5%; a wrong total's share
    # or a forgotten noise would show.
    assert np.all(np.abs(errors.mean(axis=0)) < 0.36)
    assert np.all(np.abs(errors.std(axis=0) - 1) < 0.25)


@pytest.mark.parametrize("schema", [MIXED, NUMBERS], ids=["slices", "field"])
def test_the_interval_of_a_mean_holds_it_though_the_points_are_elsewhere(schema: Schema) -> None:
    truth = 100 * table(schema)[:, 0].mean()
    question = mean_of("a", schema)
    errors = errors_of(schema, question, np.array([truth]), 20)
    # Intervals that hold it in 95% miss 9 of 20 less than once in a million runs. The lattice's
    # vectors, and so the noise, differ between machines.
    assert np.sum(np.abs(errors) < 1.96) >= 12
    problem = Problem(evidence_of(schema, 0), question, "table", np.random.default_rng(0))
    # The points' own mean is far off, and most of the way is measured.
    assert abs(problem.fitted[0] - truth) > 4 * abs(problem.value[0] - truth)
    assert problem.measured_share[0] > 0.9


def test_what_no_sum_tells_is_said_and_widens_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = evidence_of(MIXED, 0)
    cells = table_of(("a", "b"), MIXED, "share")
    problem = Problem(evidence, cells, "table", np.random.default_rng(0))
    assert problem.measured_share.min() < 0.9
    assert any("potential measured" in note for own in limits_of(problem, {}).notes for note in own)
    found = problem.conclude(0.95, None)
    monkeypatch.setattr(NoisyPotential, "drift", 1e-9)
    bare = Problem(evidence, cells, "table", np.random.default_rng(0))
    hidden = problem.measured_share < 0.9
    assert np.all(bare.error[hidden] < problem.error[hidden])
    assert np.all((found.high - found.low)[hidden] > bare.error[hidden])


def test_intervals_hold_where_no_point_lies() -> None:
    counts = np.bincount(_bins(table(NUMBERS)[:, 0]), minlength=NUMBERS.column("a").size)
    problem = Problem(
        evidence_of(NUMBERS, 0),
        table_of(("a",), NUMBERS, "share"),
        "table",
        np.random.default_rng(0),
    )
    found, truth = problem.conclude(0.95, None), counts / ROWS
    empty = problem.fitted == 0
    assert empty.any()
    assert np.all((found.low <= truth) & (truth <= found.high))
    assert np.all(found.high[empty] > found.low[empty])


def _bins(unit: np.ndarray) -> np.ndarray:
    column = NUMBERS.column("a")
    assert isinstance(column, IntegerColumn)
    return np.searchsorted(column.edges[1:-1], 100 * unit, side="right")


def test_the_command_asks_a_release_of_support_points(run: Run, people: Path) -> None:
    told = ("--method", "support-points-gp", "--points", 40, "--rows", 300, "--eps", 20)
    run("generate", "--data", people, "--schema", "people.json", *told, "--seed", 1, "-q")
    asked = ("--share", "ill", "--mean", "age", "--model", "ill ~ age", "--risk", "ill ~ age")
    found = json.loads(
        run("estimate", "release", *asked, "--quantile", "age", 0.5, "--json").stdout
    )
    assert {a["question"].split()[0] for a in found["answers"]} >= {"share", "mean", "logistic"}
    assert all(a["low"] <= a["estimate"] <= a["high"] for a in found["answers"])
    assert any("support points" in text for text in found["warnings"])
    refused = run("sample", "release", "--imputations", 5, "--out", "tables", code=2).output
    assert "no marginals" in " ".join(refused.split())
    assert support_points_gp.METHOD == "support-points-gp"


def test_of_persons_each_is_counted_once_or_nothing_is_told() -> None:
    unit = Unit(column="who", max_rows=3)
    made = make_config("support-points-gp", {"points": 5}).configure(
        MIXED.with_unit(unit), Budget(eps=1.0)
    )
    assert isinstance(made, SupportPointsGP)
    space = made.metric.space
    model = Model(
        kind="support-points-gp",
        arrays={"released": np.zeros(len(made.slices.factors)), "points": space.uniform(5, RNG)},
        meta={"bandwidth": 0.1},
    )
    statement = SimpleNamespace(
        generator="support-points-gp",
        parameters={"points": 5},
        neighbours=Neighbours.ADD_REMOVE,
        charges=made.cost,
        persons=unit,
        # Rows are told of the drawn table; the sums are of persons.
        notes={"estimated_rows": 90, "estimated_persons": 40, "estimated_rows_sd": 2.0},
    )
    release: Any = SimpleNamespace(
        model=lambda: model, statement=statement, schema=MIXED.with_unit(unit), path=Path("r")
    )
    evidence = read_evidence(release, "person", RNG)
    assert isinstance(evidence, NoisyPotential)
    assert evidence.total == (40.0, 2.0)
    with pytest.raises(UsageError, match="--each person"):
        read_evidence(release, "row", RNG)
