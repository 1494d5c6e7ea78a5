"""Train on synthetic, test on real: what must come out whatever the tables are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marginalsyn import Schema, datasets
from marginalsyn.errors import UsageError
from marginalsyn.evaluation.inputs import Trials
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.plugins.reports.baselines import LEARNERS, choose_learners, train
from marginalsyn.plugins.reports.tstr import evaluate_models
from marginalsyn.table.design import CodedRows, Task

SCHEMA = example_schema()


def table(rows: int, seed: int = 0) -> CodedRows:
    from marginalsyn.table.codec import Codec

    return CodedRows.of(Codec(SCHEMA).conform(example_frame(rows, seed)), SCHEMA)


def run(synthetic: CodedRows, weights: dict[str, np.ndarray] | None = None, **knobs: Any):
    real, test = table(300), table(200, 1)
    task = Task.of(SCHEMA, knobs.pop("label", None), [real, test])
    names = knobs.pop("models", ())
    trials = knobs.pop("trials", None) or Trials.hold_out(real, test, repeats=2, seed=0)
    block = evaluate_models(
        task, trials, synthetic, weights or {}, choose_learners(names, quantity=task.quantity)
    )
    return {(r["model"], r["trained_on"], r["weights"]): r for r in block["results"]}


def test_unit_weights_and_duplicated_rows() -> None:
    rows = table(150)
    counts = np.ones(150)
    counts[:50] = 2
    doubled = rows.take(np.repeat(np.arange(150), counts.astype(int)))
    models = ("logistic", "logistic-coded", "svm")
    found = run(rows, {"unit": np.full(150, 3.0), "twice": counts}, models=models)
    repeated = run(doubled, models=models)
    for model in models:
        plain = found[model, "synthetic", None]["scores"]
        assert found[model, "weighted", "unit"]["scores"]["risk"] == pytest.approx(plain["risk"])
        # Weights have mean 1: the penalty is that of 150 rows, not of 200.
        scores = found[model, "weighted", "twice"]["scores"]["risk"]["mean"]
        assert scores == pytest.approx(
            repeated[model, "synthetic", None]["scores"]["risk"]["mean"], abs=0.01
        )


def test_a_learner_agrees_with_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    rows, test = table(300), table(100, 1)
    task = Task.of(SCHEMA, None, [rows])
    weights = np.random.default_rng(0).random(300) + 0.1
    weighted = rows.weigh(weights)
    output = train(LEARNERS["logistic"], task, weighted)(task, test)
    own = LogisticRegression(max_iter=10_000, tol=1e-10).fit(
        task.features(rows), task.labels(rows), sample_weight=weights / weights.mean()
    )
    theirs = own.predict_proba(task.features(test))
    np.testing.assert_allclose(output.chances, theirs, atol=1e-4)


@pytest.mark.parametrize("model", ["logistic", "logistic-coded", "svm", "mlp", "random-forest"])
def test_a_single_class_has_a_defined_score(model: str) -> None:
    rows = table(200)
    position = SCHEMA.names.index("ill")
    one = rows.take(rows.codes[:, position] == 0)
    found = run(one, models=(model,))[model, "synthetic", None]
    assert found["note"] == "only one class to learn from"
    assert found["scores"]["auc"]["mean"] == 0.5
    assert 0 < found["scores"]["risk"]["mean"] < 10
    assert found["coefficient_error"] is None


def test_no_labelled_row_at_all() -> None:
    schema = Schema.from_domain({"x": 3, "y": 3})
    codes = np.array([[0, 0], [1, 1], [2, 0], [1, 1]])
    real = CodedRows(schema, codes, codes / 2)
    other = np.array([[0, 2], [1, 2]])
    task = Task.of(schema, "y", [real])
    fit = train(LEARNERS["logistic"], task, CodedRows(schema, other, other / 2))
    assert fit.note == "no labelled row to learn from"
    assert fit(task, real).chances == pytest.approx(np.full((4, 2), 0.5))


def test_three_classes_of_which_the_release_lacks_one() -> None:
    iris = datasets.load("iris")
    real, test = CodedRows.of(iris.train, iris.schema), CodedRows.of(iris.test, iris.schema)
    task = Task.of(iris.schema, None, [real, test])
    some = real.take(real.codes[:, task.position] != 1)
    learners = choose_learners((), quantity=False)
    trials = Trials.hold_out(real, test, repeats=1, seed=0)
    results = evaluate_models(task, trials, some, {}, learners)["results"]
    for r in results:
        assert 0.3 < r["scores"]["accuracy"]["mean"] <= 1
        assert np.isfinite(r["scores"]["risk"]["mean"])
        if r["trained_on"] == "synthetic":
            assert r["excess"]["risk"]["mean"] > 0
            assert r["scores"]["auc"]["se"] is None


def test_a_number_is_regressed_on() -> None:
    found = run(table(250, 5), {"w": np.ones(250)}, label="income")
    assert {model for model, _, _ in found} == {"ridge", "boosting-quantity"}
    r = found["ridge", "synthetic", None]
    assert r["scores"]["rmse"]["mean"] == pytest.approx(r["scores"]["risk"]["mean"] ** 0.5)
    assert r["scores"]["r2"]["mean"] > 0.1


def test_random_splits_never_test_on_training_rows() -> None:
    real = table(101)
    trials = Trials.split(real, repeats=4, seed=1, in_sample=False)
    assert trials.protocol == "splits"
    marked = CodedRows(SCHEMA, np.arange(505).reshape(101, 5), real.units)
    for trial in Trials.split(marked, repeats=4, seed=1, in_sample=True).trials:
        assert trial.train is not None
        seen, tested = set(trial.train.codes[:, 0]), set(trial.test.codes[:, 0])
        assert not seen & tested
        assert len(seen | tested) == 101
        assert len(tested) == 20
    found = run(table(200, 2), trials=trials)["logistic", "synthetic", None]
    assert found["scores"]["accuracy"]["se"] > 0


def test_models_must_suit_the_label() -> None:
    assert [learner.name for learner in choose_learners((), quantity=True)] == [
        "ridge",
        "boosting-quantity",
    ]
    with pytest.raises(UsageError, match="must be one of"):
        choose_learners(("logit",), quantity=False)
    with pytest.raises(UsageError, match="must suit"):
        choose_learners(("ridge",), quantity=False)


def test_labels_that_cannot_be_predicted() -> None:
    rows = table(50)
    with pytest.raises(UsageError, match="--label"):
        Task.of(Schema.from_domain({"a": 2}), None, [])
    constant = rows.take(rows.codes[:, SCHEMA.names.index("ill")] == 1)
    with pytest.raises(UsageError, match="at least two values"):
        Task.of(SCHEMA, None, [constant])
