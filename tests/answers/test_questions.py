"""The language of questions: every kind against a direct computation on the rows themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize
from scipy.stats import chi2, chi2_contingency

from marginalsyn import Schema
from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.limits import limits_of
from marginalsyn.answers.questions import read_question
from marginalsyn.answers.single_numbers import tail
from marginalsyn.errors import UsageError
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn, OrdinalColumn
from marginalsyn.table.numeric import IntegerColumn

Make = Callable[..., Any]
SCHEMA = Schema(
    columns=(
        IntegerColumn(name="visits", lower=0, upper=3),
        CategoricalColumn(name="ward", categories=("a", "b", "c"), other=False),
        OrdinalColumn(name="pain", categories=("low", "mid", "high")),
        CategoricalColumn(name="sex", categories=("f", "m")),
        BooleanColumn(name="ill", true_label="yes", false_label="no"),
    ),
    label="ill",
    positive="yes",
)
SIZES = {column.name: column.size for column in SCHEMA.columns}
ROWS = 4000


def counts_of(seed: int = 3) -> np.ndarray:
    """A table without rows of another sex than those listed."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(int(np.prod(list(SIZES.values()))), 2.0)).reshape(
        tuple(SIZES.values())
    )
    shares[:, :, :, 2] = 0
    return np.rint(shares / shares.sum() * ROWS)


COUNTS = counts_of()
CODES = np.indices(COUNTS.shape).reshape(5, -1).T.repeat(COUNTS.ravel().astype(int), axis=0)
FRAME = pd.DataFrame(
    {
        "visits": CODES[:, 0],
        "ward": np.array(list("abc"))[CODES[:, 1]],
        "pain": CODES[:, 2],
        "sex": np.array(list("fm?"))[CODES[:, 3]],
        "ill": CODES[:, 4],
    }
)


@pytest.fixture
def exact(evidence_of: Make) -> Any:
    """A release of the whole table with next to no noise."""
    everything = [(tuple(SIZES), 1e-3)]
    return evidence_of(SIZES, everything, seed=0, counts=COUNTS, schema=SCHEMA)[0]


def answered(evidence: Any, text: str, target: str = "population") -> list[tuple[Problem, Any]]:
    found = []
    for question in read_question(text, SCHEMA):
        problem = Problem(evidence, question, target, np.random.default_rng(0))  # type: ignore[arg-type]
        found.append((problem, question.conclude(problem, 0.95, None)))
    return found


def _share(frame: pd.DataFrame) -> float:
    return float(frame["ill"].mean())


F, M = FRAME[FRAME.sex == "f"], FRAME[FRAME.sex == "m"]
BY_WARD = [_share(FRAME[FRAME.ward == w]) for w in "abc"]
OLD = FRAME[(FRAME.visits > 1) & (FRAME.sex == "f")]
STANDARD = [
    sum(
        (FRAME.ward == w).mean() * _share(FRAME[(FRAME.ward == w) & (FRAME.sex == s)])
        for w in "abc"
    )
    for s in "fm"
]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("mean(visits)", [FRAME.visits.mean()]),
        ("mean(ill) by ward", BY_WARD),
        (
            "mean(visits) by ward where visits > 1 and sex = f",
            list(OLD.groupby("ward").visits.mean()),
        ),
        ("share(ill = yes, ward = a)", [((FRAME.ill == 1) & (FRAME.ward == "a")).mean()]),
        (
            "share(ward) by ill",
            [(FRAME[FRAME.ill == i].ward == w).mean() for w in "abc" for i in (0, 1)],
        ),
        ("count(ill = yes)", [FRAME.ill.sum()]),
        ("count()", [len(FRAME)]),
        ("total(visits) by ward", list(FRAME.groupby("ward").visits.sum())),
        ("difference(mean(ill) by ward)", [BY_WARD[1] - BY_WARD[0], BY_WARD[2] - BY_WARD[0]]),
        ("ratio(share(ill = yes) by ward)", [BY_WARD[1] / BY_WARD[0], BY_WARD[2] / BY_WARD[0]]),
        (
            "mean(visits where sex = f) - mean(visits where sex = m)",
            [F.visits.mean() - M.visits.mean()],
        ),
        (
            "share(ill = yes where sex = f) / share(ill = yes where sex = m)",
            [_share(F) / _share(M)],
        ),
        ("count(sex = f) / count(sex = m)", [len(F) / len(M)]),
        ("median(visits)", [np.median(FRAME.visits)]),
        ("mean(ill) by sex standardised by ward where visits < 9", [*STANDARD, np.nan]),
    ],
)
def test_numbers_are_those_of_the_rows(exact: Any, text: str, wanted: list[float]) -> None:
    (problem, found), *_ = answered(exact, text)
    expected = pytest.approx(np.array(wanted, dtype=float), rel=1e-3, abs=1e-3, nan_ok=True)
    assert found.value == expected
    known = ~np.isnan(found.value)
    assert np.all(found.low[known] <= found.value[known])
    assert np.all(found.value[known] <= found.high[known])
    # The influence is the derivative in a combination's weight.
    statistic, weights = problem.statistic, problem.weights
    influence = statistic.influence(weights, problem.fitted)
    i = int(np.argmax(weights))
    moved = weights * (1 - 1e-6)
    moved[i] += 1e-6
    slope = (statistic.value(moved) - problem.fitted) / 1e-6
    there = known if len(known) == len(slope) else np.ones(len(slope), dtype=bool)
    assert slope[there] == pytest.approx(influence[i][there], rel=1e-3, abs=1e-3)


def test_a_model_of_some_rows_is_that_of_these_rows(exact: Any) -> None:
    ((problem, found),) = answered(exact, "visits ~ ill + pain where sex = f and ward = a")
    own = F[F.ward == "a"]
    design = np.column_stack([np.ones(len(own)), own.ill, own.pain == 1, own.pain == 2]).astype(
        float
    )
    beta, *_ = np.linalg.lstsq(design, own.visits, rcond=None)
    names = ["Intercept", "ill = yes", "pain = mid", "pain = high"]
    places = [list(found.names).index(name) for name in names]
    assert found.value[places] == pytest.approx(beta, abs=2e-3)
    bread = np.linalg.inv(design.T @ design)
    scores = design * (own.visits - design @ beta).to_numpy()[:, None]
    sandwich = np.sqrt(np.diag(bread @ scores.T @ scores @ bread))
    assert problem.error[places] == pytest.approx(sandwich, rel=0.02)


def _design(*names: str) -> np.ndarray:
    columns = [np.ones(len(FRAME))]
    for name in names:
        columns.append((FRAME[name] == "m").astype(float) if name == "sex" else FRAME[name])
    return np.column_stack(columns).astype(float)


def _poisson(beta: np.ndarray) -> np.ndarray:
    eta = _design("sex", "ill") @ beta
    return np.exp(eta) - FRAME.visits.to_numpy() * eta


def _multinomial(beta: np.ndarray) -> np.ndarray:
    eta = np.column_stack([np.zeros(len(FRAME)), _design("sex") @ beta.reshape(2, 2).T])
    y = FRAME.ward.map({"a": 0, "b": 1, "c": 2}).to_numpy()
    return np.log(np.exp(eta).sum(axis=1)) - eta[np.arange(len(y)), y]


def _ordinal(beta: np.ndarray) -> np.ndarray:
    eta = beta[2:][None] - (_design("sex", "ill")[:, 1:] @ beta[:2])[:, None]
    below = np.column_stack([np.zeros(len(eta)), 1 / (1 + np.exp(-eta)), np.ones(len(eta))])
    y = FRAME.pain.to_numpy()
    return -np.log(below[np.arange(len(y)), y + 1] - below[np.arange(len(y)), y])


def _logistic(beta: np.ndarray) -> np.ndarray:
    eta = _design("visits") @ beta
    return np.log1p(np.exp(eta)) - (FRAME.sex == "m").to_numpy() * eta


@pytest.mark.parametrize(
    ("text", "loss", "start"),
    [
        ("poisson(visits ~ sex + ill)", _poisson, np.zeros(3)),
        ("ward ~ sex", _multinomial, np.zeros(4)),
        ("pain ~ sex + ill", _ordinal, np.array([0.0, 0.0, -1.0, 1.0])),
        # A list of two categories has a place for others, and two values all the same.
        ("sex ~ visits", _logistic, np.zeros(2)),
    ],
)
def test_a_model_is_that_of_its_likelihood(
    exact: Any, text: str, loss: Callable[[np.ndarray], np.ndarray], start: np.ndarray
) -> None:
    (problem, found), *_ = answered(exact, text)
    # A second value of sex that nobody has: its coefficient is not of the direct computation.
    own = [i for i, name in enumerate(found.names) if "OTHER" not in name]
    best = optimize.minimize(lambda beta: loss(beta).mean(), start, method="BFGS", tol=1e-9).x
    assert found.value[own] == pytest.approx(best, rel=1e-3, abs=2e-3)
    step = 1e-4 * np.eye(len(best))
    scores = np.column_stack([(loss(best + s) - loss(best - s)) / 2e-4 for s in step])
    bread = np.array(
        [
            [
                (
                    loss(best + s + t)
                    - loss(best + s - t)
                    - loss(best - s + t)
                    + loss(best - s - t)
                ).mean()
                / 4e-8
                for t in step
            ]
            for s in step
        ]
    )
    solved = np.linalg.solve(bread, scores.T @ scores / len(FRAME))
    sandwich = np.sqrt(np.diag(np.linalg.solve(bread, solved.T)) / len(FRAME))
    assert problem.error[own] == pytest.approx(sandwich, rel=0.02)


def test_a_contrast_knows_the_covariance(exact: Any) -> None:
    ((whole, _),) = answered(exact, "visits ~ sex + ill")
    ((problem, found),) = answered(
        exact, "contrast(visits ~ sex + ill; [sex = m] - 2 * [ill = yes])"
    )
    names = list(whole.statistic.names)
    numbers = np.zeros(len(names))
    numbers[names.index("sex = m")], numbers[names.index("ill = yes")] = 1.0, -2.0
    assert found.value[0] == pytest.approx(numbers @ whole.value, abs=1e-6)
    covariance = sum(whole.covariances())
    assert problem.error[0] == pytest.approx(np.sqrt(numbers @ covariance @ numbers), rel=0.02)
    with pytest.raises(UsageError, match="must add and subtract"):
        answered(exact, "contrast(visits ~ sex; [age])")
    with pytest.raises(UsageError, match="must add and subtract"):
        answered(exact, "contrast(visits ~ sex + ill; [sex = m] [ill = yes])")


@pytest.mark.parametrize(
    ("text", "columns"), [("test(ward, ill)", ["ward", "ill"]), ("test(visits, ill)", [])]
)
def test_without_noise_a_test_is_the_usual_one(exact: Any, text: str, columns: list[str]) -> None:
    ((_, found),) = answered(exact, text)
    if columns:
        table = pd.crosstab(FRAME[columns[0]], FRAME[columns[1]])
        usual = chi2_contingency(table, correction=False)
        assert found.names[0] == "chi-square, 2 degrees of freedom"
    else:
        groups = [FRAME[FRAME.ill == i].visits for i in (0, 1)]
        square = (groups[0].mean() - groups[1].mean()) ** 2
        usual = (square / sum(g.var() / len(g) for g in groups),)
    assert found.value[0] == pytest.approx(usual[0], rel=0.03, abs=0.1)
    assert found.p is not None
    assert found.p[0] == pytest.approx(
        chi2.sf(found.value[0], 2 if columns else 1), rel=0.15, abs=0.01
    )


def test_the_tail_of_squared_normals_is_right() -> None:
    values = np.array([3.0, 1.0, 0.5])
    drawn = np.square(np.random.default_rng(0).normal(size=(400_000, 3))) @ values
    for total in (2.0, 4.6, 10.0, 20.0):
        assert tail(total, values) == pytest.approx((drawn > total).mean(), rel=0.12)


def test_p_values_are_even_if_nothing_goes_together(evidence_of: Make) -> None:
    rng, found = np.random.default_rng(1), []
    sizes = {"ward": 3, "ill": 2}
    schema = Schema(columns=[SCHEMA.column(name) for name in sizes], label="ill", positive="yes")
    (question,) = read_question("test(ward, ill)", schema)
    for seed in range(250):
        counts = rng.multinomial(600, np.outer([0.6, 0.3, 0.1], [0.8, 0.2]).ravel()).reshape(3, 2)
        marginals = [(("ward", "ill"), 6.0), (("ward",), 6.0)]
        evidence, _ = evidence_of(
            sizes, marginals, seed=seed, counts=counts.astype(float), schema=schema, fit=True
        )
        problem = Problem(evidence, question, "population", rng)
        found.append(question.conclude(problem, 0.95, None).p[0])
    share = np.mean(np.array(found) < 0.05)
    assert 0.01 < share < 0.1
    assert 0.38 < np.mean(np.array(found) < 0.5) < 0.62


def test_a_test_needs_a_population(exact: Any) -> None:
    with pytest.raises(UsageError, match="population for a test"):
        answered(exact, "test(ward, ill)", "table")


def test_of_a_group_that_may_be_empty_nothing_is_known(evidence_of: Make) -> None:
    sizes = {"ward": 3, "ill": 2}
    schema = Schema(columns=[SCHEMA.column(name) for name in sizes], label="ill", positive="yes")
    counts = np.array([[300.0, 100.0], [200.0, 200.0], [0.0, 1.0]])
    marginals = [(("ward", "ill"), 10.0), (("ward",), 10.0), (("ill",), 10.0)]
    evidence, _ = evidence_of(sizes, marginals, seed=0, counts=counts, schema=schema)
    for text, known in (("mean(ill) by ward", 2), ("difference(mean(ill) by ward)", 1)):
        (question,) = read_question(text, schema)
        found = question.conclude(
            Problem(evidence, question, "population", np.random.default_rng(0)), 0.95, None
        )
        assert np.isfinite(found.low[:known]).all()
        assert np.isnan([found.value[known], found.low[known], found.high[known]]).all()


def test_a_condition_that_cuts_a_bin_is_allowed_for(evidence_of: Make) -> None:
    schema = Schema(
        columns=(IntegerColumn(name="age", lower=0, upper=29, bins=3), BooleanColumn(name="ill")),
        label="ill",
    )
    counts = np.array([[300.0, 100.0], [300.0, 100.0], [300.0, 100.0]])
    evidence, _ = evidence_of(
        {"age": 3, "ill": 2}, [(("age", "ill"), 1.0)], seed=0, counts=counts, schema=schema
    )
    (question,) = read_question("share(age < 15)", schema)
    problem = Problem(evidence, question, "table", np.random.default_rng(0))
    found = question.conclude(problem, 0.95, None)
    # Half of the bin of 10 to 19, give or take what a density within a factor of two makes of it.
    assert found.value[0] == pytest.approx(0.5, abs=0.01)
    assert found.low[0] == pytest.approx(0.5 - 1 / 12, abs=0.02)
    assert found.high[0] == pytest.approx(0.5 + 1 / 12, abs=0.02)
    assert any("cuts its bins" in note for note in limits_of(problem, {}).notes[0])
    (question,) = read_question("mean(age) standardised by ill", schema)
    found = question.conclude(
        Problem(evidence, question, "table", np.random.default_rng(0)), 0.95, None
    )
    # Values may all lie at either end of their bins of ten.
    assert found.high[0] - found.low[0] == pytest.approx(9, abs=0.1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("average(visits)", "must read as"),
        ("mean(agee)", "must be one of"),
        ("mean(visits) by nothing", "must be one of"),
        ("mean(visits) where", "must read as"),
        ("mean(visits) by sex by ward", "once"),
        ("mean(visits) - count(ill = yes)", "two means or shares"),
        ("total(ward)", "must be of a number"),
        ("share()", "must be of a column"),
        ("quantile(visits)", "must name a share"),
        ("mean(ill = yes)", r"ask for share\(ill = yes\)"),
        ("median(pain)", r"ask for share\(pain\)"),
        ("median(visits) by sex standardised by ward", "must be a mean"),
        ("mean(ill) by ward standardised by sex(0.5, 0.3, 0.1, 0.1)", "a share for each of 2"),
        ("test(ward)", "must test two columns"),
        ("test(mean(visits) by sex)", "must test two columns"),
        ("difference(mean(ill))", "must compare groups"),
        ("mean(visits where age = 3)", "must name a column"),
        ("ill ~ sex by ward", "in the formula"),
    ],
)
def test_a_question_that_is_none_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_question(text, SCHEMA)


def test_what_is_not_listed_has_no_part_in_tests_and_strata(evidence_of: Make) -> None:
    """A value that no row has and that noise drowned kept tests and rates from being answered."""
    sizes = {"pain": 3, "sex": 3, "ill": 2}
    schema = Schema(columns=[SCHEMA.column(name) for name in sizes], label="ill", positive="yes")
    counts = np.einsum("i,j,k", [200.0, 300, 100], [3.0, 1.5, 0.0], [1.0, 1.0])
    evidence, _ = evidence_of(
        sizes,
        [(("pain",), 5.0), (("sex",), 5.0), (("pain", "sex", "ill"), 5.0)],
        seed=0,
        counts=counts,
        schema=schema,
        merges={"sex": ([0, 1, 1], [1.0, 1, 0])},
    )
    for text, name in (
        ("test(pain, sex)", "chi-square, 2 degrees of freedom"),
        ("mean(ill) standardised by sex", "ill = yes"),
    ):
        (question,) = read_question(text, schema)
        problem = Problem(evidence, question, "population", np.random.default_rng(0))
        found = question.conclude(problem, 0.95, None)
        assert list(found.names) == [name]
        assert np.isfinite(found.value).all()
        assert problem.unmeasured.sum() > 0  # what the merged values hide adds no freedom
    # What of the model does not go together, and may, lies between what is possible.
    (question,) = read_question("mean(ill) by sex", schema)
    limits = limits_of(Problem(evidence, question, "population", np.random.default_rng(0)), {})
    assert np.all((limits.down <= 0) & (limits.up >= 0) & (limits.up - limits.down <= 1))


def test_answers_of_medians_name_their_rows(exact: Any) -> None:
    texts = [f"median(visits) by ward where sex = {sex}" for sex in "fm"]
    asked = [question for text in texts for question in read_question(text, SCHEMA)]
    assert [question.title for question in asked] == [text for text in texts for _ in "abc"]
    assert [answered(exact, text)[0][1].names for text in texts] == [["ward = a"]] * 2
