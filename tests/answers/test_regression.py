"""Regressions as quantities: coefficients against scikit-learn, influence against differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from marginalsyn import Schema
from marginalsyn.answers.code_combinations import CodeCombinations, as_values
from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.evidence import Evidence
from marginalsyn.answers.questions import read_question
from marginalsyn.answers.regression import Regression
from marginalsyn.errors import UsageError
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn
from marginalsyn.table.numeric import IntegerColumn

SCHEMA = Schema(
    columns=(
        IntegerColumn(name="age", lower=20, upper=59, bins=4),
        IntegerColumn(name="years-in", lower=0, upper=2, nullable=True),
        CategoricalColumn(name="ward", categories=("A", "B", "C"), other=False),
        BooleanColumn(name="ill"),
    ),
    label="ill",
    positive=True,
)


Make = Callable[..., tuple[Evidence, np.ndarray]]


@pytest.mark.parametrize("formula", ["ill ~ pay", "pay ~ ill", "ill ~ log(pay)", "ill ~ bs(pay)"])
def test_an_interval_of_a_coefficient_holds_what_bins_may_move(
    evidence_of: Make, formula: str
) -> None:
    bins = (100, 200, 400, 800, 1600)
    pay = IntegerColumn(name="pay", lower=1, upper=9999, bins=bins)
    schema = Schema(columns=(pay, BooleanColumn(name="ill")), label="ill", positive=True)
    rng = np.random.default_rng(0)
    numbers = np.clip(np.exp(rng.normal(5, 1.2, 100_000)), 1, 9999).astype(int)
    chance = 1 / (1 + np.exp(1 - numbers / 500))
    frame = pd.DataFrame({"pay": numbers.astype(float), "ill": rng.random(100_000) < chance})
    codes = np.searchsorted(bins, numbers, side="right")
    counts = np.zeros((6, 2))
    np.add.at(counts, (codes, frame["ill"].astype(int)), 1)
    marginals = [(("pay", "ill"), 1.0), (("pay",), 1.0), (("ill",), 1.0)]
    evidence, _ = evidence_of({"pay": 6, "ill": 2}, marginals, seed=0, counts=counts, schema=schema)
    question = Regression(formula, schema)
    problem = Problem(evidence, question, "table", np.random.default_rng(0))
    bare, found = problem.conclude(0.95, None), question.conclude(problem, 0.95, None)
    assert ((found.low < bare.low) & (bare.high < found.high)).all()
    frame["ill"] = pd.Categorical.from_codes(frame["ill"].astype(int), ["False", "True"])
    own = CodeCombinations(
        ("pay", "ill"), np.stack([codes, frame["ill"].cat.codes], 1), frame, None
    )
    truth = question.on(own).value(np.full(len(frame), 1 / len(frame)))
    if "bs" not in formula:  # whose ends are those of the first and the last bin
        assert ((found.low <= truth) & (truth <= found.high)).all()
        assert not ((bare.low <= truth) & (truth <= bare.high)).all()


def combinations_of(columns: tuple[str, ...]) -> tuple[CodeCombinations, np.ndarray]:
    shape = tuple(SCHEMA.column(c).size for c in columns)
    grid = np.indices(shape).reshape(len(shape), -1).T
    weights = np.random.default_rng(1).dirichlet(np.ones(len(grid)))
    return CodeCombinations(columns, grid, as_values(SCHEMA, columns, grid), shape), weights


@pytest.mark.parametrize("formula", ["ill ~ age + ward", "age ~ ward * ill + years-in"])
def test_coefficients_are_those_of_scikit_learn(formula: str) -> None:
    question = Regression(formula, SCHEMA)
    cells, weights = combinations_of(question.columns)
    fit = question.on(cells)
    own = weights[fit.kept]
    if question.family == "logistic":
        theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000)
    else:
        theirs = LinearRegression()
    theirs.fit(fit.x[:, 1:], fit.y, sample_weight=own / own.mean())
    beta = fit.value(weights)
    assert np.allclose(beta[1:], np.ravel(theirs.coef_), atol=2e-3)
    assert fit.names[0] == "Intercept"
    assert fit.kept.mean() < 1 or "years-in" not in question.columns


@pytest.mark.parametrize("formula", ["ill ~ age + ward", "age ~ ill"])
def test_influence_is_the_derivative_in_the_weights(formula: str) -> None:
    question = Regression(formula, SCHEMA)
    cells, weights = combinations_of(question.columns)
    fit = question.on(cells)
    value = fit.value(weights)
    influence = fit.influence(weights, value)
    assert np.abs(weights @ influence).max() < 1e-6
    for i in (0, 3, 5):
        moved = weights * (1 - 1e-5)
        moved[i] += 1e-5
        assert np.allclose((fit.value(moved) - value) / 1e-5, influence[i], rtol=2e-2, atol=1e-3)


def test_curves_are_fitted_and_other_values_of_the_label_left_out() -> None:
    wards = CategoricalColumn(name="ward", categories=("A", "B"))
    schema = Schema(columns=(SCHEMA.column("age"), wards), label="age")
    shape = (4, 3)
    grid = np.indices(shape).reshape(2, -1).T
    cells = CodeCombinations(("age", "ward"), grid, as_values(schema, ("age", "ward"), grid), shape)
    weights = np.random.default_rng(1).dirichlet(np.ones(len(grid)))
    plain = Regression("ward ~ age", schema).on(cells)
    own = weights[grid[:, 1] < 2]
    assert len(plain.y) == len(own)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000)
    theirs.fit(plain.x[:, 1:], grid[grid[:, 1] < 2, 1], sample_weight=own / own.mean())
    assert np.allclose(plain.value(weights)[1:], np.ravel(theirs.coef_), atol=2e-3)
    for formula, names in (
        ("ward ~ bs(age, df=3)", [f"bs(age, df=3)[{i}]" for i in (1, 2, 3)]),
        ("ward ~ poly(age, degree=2)", [f"poly(age, degree=2)[{i}]" for i in (1, 2)]),
        ("ward ~ log(age)", ["log(age)"]),
    ):
        question = Regression(formula, schema)
        assert question.columns == ("age", "ward")
        fit = question.on(cells)
        assert list(fit.names) == ["Intercept", *names]
        # Curves of as many coefficients as there are ages give each age its own log-odds.
        if len(names) == 3:
            shares = [weights[(grid[:, 0] == i) & (grid[:, 1] == 1)].sum() for i in range(4)]
            wholes = [weights[(grid[:, 0] == i) & (grid[:, 1] < 2)].sum() for i in range(4)]
            odds = fit.x[grid[grid[:, 1] < 2, 1] == 0] @ fit.value(weights)
            expected = np.array(shares) / np.array(wholes)
            assert 1 / (1 + np.exp(-odds)) == pytest.approx(expected, abs=1e-4)


def test_awkward_names_and_the_dot_are_understood() -> None:
    assert Regression("ill ~ years-in + age", SCHEMA).columns == ("age", "years-in", "ill")
    assert Regression("ill ~ `years-in`", SCHEMA).columns == ("years-in", "ill")
    assert Regression("ill ~ .", SCHEMA).columns == tuple(SCHEMA.names)
    names = Regression("ill ~ ward + years-in", SCHEMA)
    assert list(names.on(combinations_of(names.columns)[0]).names) == [
        "Intercept",
        "ward = B",
        "ward = C",
        "years-in",
    ]


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("ill", "must read"),
        ("ill ~ agee", "did you mean 'age'"),
        ("ill ~ ill + age", "both sides"),
        ("ill ~ age + (", "must be a formula"),
        ("logistic(ward ~ age)", "must be multinomial: ward has 3 values"),
        ("ordinal(ward ~ age)", "must be multinomial"),
        ("poisson(ill ~ age)", "must be logistic or multinomial: ill has 2"),
        ("ill ~ log(age - 100)", "must fit the columns"),
        ("ill ~ nothing(age)", "nothing"),
    ],
)
def test_a_wrong_formula_is_told_what_is_wrong(formula: str, said: str) -> None:
    cells, _ = combinations_of(("age", "ward", "ill"))

    def ask() -> None:
        questions = read_question(formula, SCHEMA) if "~" in formula else []
        for question in questions or [Regression(formula, SCHEMA)]:
            question.on(cells)

    with pytest.raises(UsageError, match=said):
        ask()
