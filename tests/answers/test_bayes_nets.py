"""Releases of PrivBayes: columns by groups of codes, noise of two laws, and tables refitted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from marginalsyn import Budget, PrivateTable, Release, Schema, make_noise
from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.evidence import Evidence, measured_pairs
from marginalsyn.answers.limits import limits_of
from marginalsyn.answers.subgroups import difference_of, mean_of, table_of
from marginalsyn.contract import Measurement, Model, make_config
from marginalsyn.graphical.bayes_net import BayesNet, Node, Parent
from marginalsyn.graphical.compression import identity
from marginalsyn.host import generate
from marginalsyn.table.columns import BooleanColumn
from marginalsyn.table.numeric import IntegerColumn

Run = Callable[..., Result]
SCHEMA = Schema(columns=(IntegerColumn(name="a", lower=0, upper=3), BooleanColumn(name="b")))
GROUPS = np.array([0, 0, 1, 1])
SHARES = np.array([[0.1, 0.2], [0.15, 0.05], [0.1, 0.1], [0.05, 0.25]])
ROWS, SIGMA = 3000, 12.0


def evidence_of(seed: int, *, laplace: bool = False) -> Evidence:
    """A table of two columns, of which one was measured with halves of the other."""
    rng = np.random.default_rng(seed)
    counts = SHARES * ROWS
    halves = np.add.reduceat(counts, [0, 2], axis=0)
    exact = {("a",): counts.sum(axis=1), ("b",): counts.sum(axis=0)}
    found = [(("a",), exact["a",]), (("b",), exact["b",])]  # singles, the root's table, b's table
    found += [(("a",), exact["a",]), (("a", "b"), halves)]
    scale = SIGMA / np.sqrt(2)
    measured = [
        Measurement(
            columns=columns,
            values=values
            + (
                rng.laplace(0, scale, values.shape)
                if laplace
                else rng.normal(0, SIGMA, values.shape)
            ),
            sigma=SIGMA,
        )
        for columns, values in found
    ]
    table = halves / halves.sum(axis=1, keepdims=True)
    network = BayesNet(
        (
            Node(0, (), exact["a",][None, :] / ROWS),
            Node(1, (Parent(0, GROUPS),), table),
        )
    )
    model = Model(
        kind="privbayes",
        arrays={**network.arrays(), **identity(SCHEMA.domain).arrays()},
        meta={"network": network.index(), "rows": ROWS},
    )
    budget = Budget(eps=1.0)
    return Evidence.read(model, measured, SCHEMA, budget.neighbours)


def test_a_model_with_groups_of_codes_is_the_network() -> None:
    evidence = evidence_of(0)
    halves = np.add.reduceat(SHARES, [0, 2], axis=0)
    expected = SHARES.sum(axis=1)[:, None] * (halves / halves.sum(axis=1, keepdims=True))[GROUPS]
    assert np.allclose(evidence.shares(("a", "b")), expected, atol=1e-12)
    rows = evidence.fitted.sample(1000, np.random.default_rng(0))
    assert rows.shape == (1000, 2)


@pytest.mark.parametrize("laplace", [False, True])
def test_estimates_from_groups_are_unbiased_and_as_noisy_as_they_say(laplace: bool) -> None:
    """Shares of the halves and of b are told exactly: errors have the stated deviation."""
    errors = []
    for seed in range(300):
        evidence = evidence_of(seed, laplace=laplace)
        rng = np.random.default_rng(seed)
        problem = Problem(evidence, table_of(("a", "b"), SCHEMA, "share"), "table", rng)
        # Of a = 0 and b = no the release tells half of what both codes of the half have in common.
        half = problem.value.reshape(4, 2)[:2, 0].sum()
        mean = Problem(evidence, mean_of("b", SCHEMA), "table", rng)
        errors.append(
            (
                (half - SHARES[:2, 0].sum()),
                (mean.value[0] - SHARES[:, 1].sum()) / mean.error[0],
            )
        )
    found = np.array(errors)
    # 300 draws: a mean is known to .058 of a deviation, a deviation to 4% (Laplace 6%).
    assert np.all(np.abs(found.mean(axis=0) / found.std(axis=0)) < 0.3)
    assert 0.75 < found[:, 1].std() < 1.25
    # One cell of sigma 12 among 3,000 rows, pooled with the singles.
    assert found[:, 0].std() < SIGMA / ROWS


def test_a_pair_that_was_measured_in_groups_is_marked() -> None:
    evidence = evidence_of(3)
    problem = Problem(
        evidence, difference_of("b", "a", SCHEMA), "population", np.random.default_rng(0)
    )
    assert (problem.measured_share < 0.999).any()
    limits = limits_of(problem, {})
    assert any("in groups of their values" in note for own in limits.notes for note in own)
    assert (limits.up - limits.down)[(problem.measured_share < 0.9)].max() > 0.05


def test_a_refit_of_the_release_is_the_release_and_replays_are_near_it() -> None:
    frame = _frame(2000)
    schema = Schema(
        columns=(
            IntegerColumn(name="age", lower=0, upper=99, bins=20),
            BooleanColumn(name="ill"),
            BooleanColumn(name="male"),
        ),
        label="ill",
        positive=True,
    )
    for noise in ("gaussian", "laplace"):
        made, statement = generate(
            PrivateTable.open(frame, schema),
            make_config("privbayes", {"noise": noise}),
            Budget(eps=2.0),
            noise=make_noise(5),
        )
        evidence = Evidence.read(made.model, made.measurements, schema, statement.neighbours)
        columns = ("age", "ill", "male")
        own = evidence.shares(columns)
        assert np.allclose(evidence.refitted().shares(columns), own, atol=1e-9)
        again = evidence.replay("population", np.random.default_rng(1)).shares(columns)
        assert 0.001 < np.abs(again - own).sum() < 0.6


def _frame(rows: int):  # type: ignore[no-untyped-def]
    import pandas as pd

    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, rows)
    return pd.DataFrame(
        {"age": age, "ill": rng.random(rows) < age / 150, "male": rng.random(rows) < 0.5}
    )


def test_the_command_asks_a_release_of_privbayes_with_either_noise(run: Run, people: Path) -> None:
    for noise in ("gaussian", "laplace"):
        told = ("--method", "privbayes", "--noise", noise, "--eps", 8, "--seed", 1, "-q")
        run("generate", "--data", people, "--schema", "people.json", *told, "--out", noise)
        assert Evidence.of(Release.read(noise)).laplace == (noise == "laplace")
        asked = ("--model", "ill ~ age", "--share", "ill", "--replicates", 20, "--seed", 0)
        found = json.loads(run("estimate", noise, *asked, "--json").stdout)
        assert all(a["low"] <= a["estimate"] <= a["high"] for a in found["answers"])
    pairs = {pair for pair, _ in measured_pairs(Release.read("gaussian"))}
    assert pairs
    assert all(name in Release.read("gaussian").schema.names for pair in pairs for name in pair)
    run("sample", "gaussian", "--imputations", 5, "--out", "tables")
    assert len(list(Path("tables").glob("imputation-*.csv"))) == 5
