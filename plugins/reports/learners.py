"""The models that are trained on one table and judged on another, by name.

Whatever a table holds, a model comes out: one of a single class predicts that class with the
confidence of its row count, and classes it lacks keep a small chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.evaluation.scores import Output
from marginalsyn.table.design import CodedRows, FeatureKind, Task

# An RBF support vector machine takes time and memory quadratic in its rows.
MOST_KERNEL_ROWS = 4000


@dataclass(frozen=True)
class Fit:
    """A trained model. ``coefficients`` holds those of the features, one row per class or one."""

    predict: Callable[[np.ndarray], Output]
    features: FeatureKind
    coefficients: np.ndarray | None = None
    note: str = ""

    def __call__(self, task: Task, table: CodedRows) -> Output:
        return self.predict(task.features(table, self.features))


@dataclass(frozen=True)
class Learner:
    """A kind of model: what it sees, whether it is for quantities, linear, or gives margins."""

    name: str
    title: str
    make: Callable[[bool, int], Any]
    features: FeatureKind = "scaled"
    quantity: bool = False
    random: bool = False
    linear: bool = False
    margins: bool = False
    most_rows: int | None = None

    def constant(self, chances: np.ndarray, rows: int) -> Output:
        """The same for every row: these chances of the classes, or the margins that suit them."""
        if self.margins:
            return Output(margins=np.tile(np.where(chances >= chances.max(), 1.0, -1.0), (rows, 1)))
        return Output(chances=np.tile(chances, (rows, 1)))


def _sklearn(place: str, **settings: Any) -> Callable[[bool, int], Any]:
    """Makes one of scikit-learn's models, which is imported when the first one is made."""
    module, name = place.split(".")

    def make(binary: bool, seed: int) -> Any:
        kind = getattr(import_module(f"sklearn.{module}"), name)
        return kind(**settings, random_state=seed)

    return make


def _logistic(binary: bool, seed: int) -> Any:
    # Newton's method is exact and quick where the Hessian is small; else scikit-learn's own choice.
    solver = "newton-cholesky" if binary else "lbfgs"
    make = _sklearn("linear_model.LogisticRegression", C=1.0, solver=solver, max_iter=2000)
    return make(binary, seed)


_coded_logistic = _sklearn("linear_model.LogisticRegression", max_iter=1000)
_svm = _sklearn("svm.LinearSVC", C=1.0, dual=False, max_iter=2000)
_ridge = _sklearn("linear_model.Ridge", alpha=1.0)
_mlp = _sklearn("neural_network.MLPClassifier", hidden_layer_sizes=(64,), early_stopping=True)
_forest = _sklearn("ensemble.RandomForestClassifier", n_estimators=200, min_samples_leaf=3)
_boosted = {"max_iter": 60, "early_stopping": False}
_boosting = _sklearn("ensemble.HistGradientBoostingClassifier", **_boosted)
_boosted_quantity = _sklearn("ensemble.HistGradientBoostingRegressor", **_boosted)
_rbf = _sklearn("svm.SVC", kernel="rbf")


LEARNERS: Mapping[str, Learner] = {
    learner.name: learner
    for learner in (
        Learner("logistic", "Logistic regression, scaled features", _logistic, linear=True),
        Learner(
            "logistic-coded",
            "Logistic regression, raw codes",
            _coded_logistic,
            "coded",
            linear=True,
        ),
        Learner("svm", "Linear support vector machine", _svm, linear=True, margins=True),
        Learner("ridge", "Ridge regression", _ridge, quantity=True, linear=True),
        Learner("boosting", "Boosted trees, raw codes", _boosting, "coded"),
        Learner(
            "boosting-quantity",
            "Boosted trees, raw codes",
            _boosted_quantity,
            "coded",
            quantity=True,
        ),
        Learner("mlp", "Neural network, one layer of 64", _mlp, random=True),
        Learner("random-forest", "Random forest of 200 trees", _forest, random=True),
        Learner(
            "rbf-svm",
            "RBF support vector machine",
            _rbf,
            margins=True,
            most_rows=MOST_KERNEL_ROWS,
        ),
    )
}


# What is trained where nothing is asked for: linear models, and trees for what those cannot see.
CLASSES = ("logistic", "logistic-coded", "svm", "boosting")
QUANTITIES = ("ridge", "boosting-quantity")


def choose_learners(names: tuple[str, ...], *, quantity: bool) -> list[Learner]:
    """The learners asked for, or the linear ones and the trees that suit the label."""
    if not names:
        names = QUANTITIES if quantity else CLASSES
    for name in names:
        if name not in LEARNERS:
            raise UsageError(f"model ({name}) must be one of: {', '.join(LEARNERS)}")
    chosen = [LEARNERS[name] for name in dict.fromkeys(names)]
    wrong = [learner.name for learner in chosen if learner.quantity != quantity]
    if wrong:
        kind = "a quantity" if quantity else "a class"
        fitting = ", ".join(n for n, learner in LEARNERS.items() if learner.quantity == quantity)
        raise UsageError(f"model ({wrong[0]}) must suit a label that is {kind}: {fitting}")
    return chosen


def train(learner: Learner, task: Task, table: CodedRows, *, seed: int = 0) -> Fit:
    """Fit one model to one table, with its weights.

    Rows without a known label are left out, and so are rows of weight zero.
    """
    table = task.known(table)
    if table.weights is not None:
        table = table.take(table.weights > 0)
    note = ""
    if learner.most_rows is not None and len(table) > learner.most_rows:
        rng = np.random.default_rng(seed)
        table = table.take(rng.choice(len(table), learner.most_rows, replace=False))
        note = f"trained on {learner.most_rows:,} of its rows"
    if task.quantity:
        return _fit_quantity(learner, task, table, seed, note)
    return _fit_classes(learner, task, table, seed, note)


def _fit_quantity(learner: Learner, task: Task, table: CodedRows, seed: int, note: str) -> Fit:
    if not len(table):
        column: Any = task.schema.column(task.label)
        middle = (column.lower + column.upper) / 2
        return Fit(
            lambda x: Output(values=np.full(len(x), middle)),
            learner.features,
            note="no labelled row to learn from",
        )
    model = learner.make(False, seed)
    model.fit(
        task.features(table, learner.features), task.labels(table), sample_weight=table.masses
    )
    return Fit(
        lambda x: Output(values=model.predict(x)),
        learner.features,
        np.atleast_2d(model.coef_) if learner.linear else None,
        note,
    )


def _fit_classes(learner: Learner, task: Task, table: CodedRows, seed: int, note: str) -> Fit:
    count = len(task.classes)
    labels, masses = task.labels(table), table.masses
    present = np.unique(labels)
    # A class without rows is as likely as one row in a table of one more row per class.
    unseen = 1.0 / (len(table) + count)
    if len(present) < 2:
        chances = np.full(count, unseen)
        if len(present):
            chances[present[0]] = 1.0 - unseen * (count - 1)
        else:
            chances[:] = 1.0 / count
        note = "only one class to learn from" if len(present) else "no labelled row to learn from"
        return Fit(lambda x: learner.constant(chances, len(x)), learner.features, None, note)
    model = learner.make(len(present) == 2, seed)
    x = task.features(table, learner.features)
    if learner.name == "mlp" and not _takes_weights(model):
        rng = np.random.default_rng(seed)
        drawn = rng.choice(len(x), len(x), p=masses / masses.sum())
        model.fit(x[drawn], labels[drawn])
    else:
        model.fit(x, labels, sample_weight=masses)
    absent = count - len(present)

    def predict(x: np.ndarray) -> Output:
        if not learner.margins:
            chances = np.full((len(x), count), unseen)
            chances[:, model.classes_] = model.predict_proba(x) * (1 - absent * unseen)
            return Output(chances=chances)
        found = model.decision_function(x)
        margins = np.full((len(x), count), np.min(found) - 1.0)
        both = np.column_stack([-found, found]) if found.ndim == 1 else found
        margins[:, model.classes_] = both
        return Output(margins=margins)

    coefficients = model.coef_ if learner.linear and not absent else None
    return Fit(predict, learner.features, coefficients, note)


def _takes_weights(model: Any) -> bool:
    from sklearn.utils.validation import has_fit_parameter

    return bool(has_fit_parameter(model, "sample_weight"))
