"""Private training on the real rows themselves, to compare "synthetic first" with.

Three ways to a logistic regression of the same (eps, delta) as a release: DP-SGD (Abadi et al.
2016), full-batch descent with noisy gradients (Bassily et al. 2014), and PATE (Papernot et al.
2018), whose student learns from rows drawn from noisy one-way marginals. They are trained by the
curator for the evaluation only: no model of theirs is published, nothing is charged, and their
noise is seeded.

Feature vectors are divided by their greatest possible length, a fact about the schema, so that
every gradient is at most 1 long and nothing needs to be clipped.

The models that are trained on one table and judged on another, by name.

Whatever a table holds, a model comes out: one of a single class predicts that class with the
confidence of its row count, and classes it lacks keep a small chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.evaluation.reports import Case, RealData
from marginalsyn.evaluation.scores import Output
from marginalsyn.graphical.estimation import project_to_simplex
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.composition import find_noise_multiplier
from marginalsyn.privacy.laws import DiscreteGaussian
from marginalsyn.privacy.noise import Noise, make_noise
from marginalsyn.privacy.zcdp import gaussian_sigma, rho_of
from marginalsyn.progress import Progress
from marginalsyn.table.codec import Codec
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
            "rbf-svm", "RBF support vector machine", _rbf, margins=True, most_rows=MOST_KERNEL_ROWS
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


BASELINES = ("dpsgd", "gradient", "pate")
# Gradients are rounded to multiples of this before noise: sums of whole numbers are exact.
_GRID = 2**20
_PENALTY = 1e-3
# Coefficients, the constant last; facts; and a line of text.
_Trained = tuple[np.ndarray, dict[str, Any], str]


@dataclass(frozen=True)
class _Setting:
    """The training rows as feature vectors of length at most 1, and the budget."""

    x: np.ndarray
    y: np.ndarray
    rows: int
    budget: Budget
    noise: Noise
    rng: np.random.Generator
    task: Task
    table: CodedRows

    def noisy_sum(self, vectors: np.ndarray, sigma: float) -> np.ndarray:
        """A sum of vectors of length 1 at most plus discrete Gaussian noise of ``sigma``.

        Rounding to the grid lengthens a vector by at most sqrt(d)/2 grid steps, which the
        noise is made larger for.
        """
        longer = 1.0 + math.sqrt(vectors.shape[1]) / (2 * _GRID)
        exact = np.rint(vectors * _GRID).astype(np.int64).sum(axis=0)
        return self.noise.draw(DiscreteGaussian(sigma * longer * _GRID), exact) / _GRID


def train_baselines(
    names: Sequence[str], task: Task, case: Case, ground: RealData, progress: Progress
) -> tuple[dict[str, list[Fit]], dict[str, dict[str, Any]]]:
    """Train the baselines at a release's eps and delta, once per repetition.

    Returns:
        By name, one fit per repetition; and JSON facts with a line of text each.
    """
    if not names:
        return {}, {}
    unknown = [name for name in names if name not in BASELINES]
    if unknown:
        raise UsageError(f"baseline ({unknown[0]}) must be one of: {', '.join(BASELINES)}")
    if case.release is None:
        raise UsageError(
            "baselines need a release made here: they are trained at its eps and delta, which "
            "another tool's rows do not tell"
        )
    trials = ground.trials.trials if ground.trials is not None else ()
    if not task.binary or not trials or trials[0].train is None:
        raise UsageError("baselines need a label of two classes and real rows to train on")
    statement = case.release.statement
    delta = statement.target_delta or statement.delta
    budget = Budget(
        eps=statement.eps, delta=delta, neighbours=statement.neighbours, allow_large_delta=True
    )
    fits = {}
    facts = {}

    def train_all(name: str) -> list[tuple[Fit, dict[str, Any]]]:
        found = []
        for r, trial in enumerate(trials):
            progress.report("baseline", fraction=r / len(trials), text=name)
            assert trial.train is not None
            found.append(_train(name, task, trial.train, len(case.synthetic), budget, trial.seed))
        return found

    for name in names:
        key = ("baseline", name, budget.eps, budget.delta, task.label)
        found = ground.once(key, partial(train_all, name))
        fits[name] = [fit for fit, _ in found]
        facts[name] = {"eps": budget.eps, "delta": budget.delta, **found[0][1]}
    return fits, facts


def _train(
    name: str, task: Task, table: CodedRows, rows: int, budget: Budget, seed: int
) -> tuple[Fit, dict[str, Any]]:
    table = task.known(table)
    x = _vectors(task, table)
    setting = _Setting(
        x=x,
        y=2.0 * task.labels(table) - 1.0,
        rows=max(rows, 1),
        budget=budget,
        noise=make_noise(seed),
        rng=np.random.default_rng([seed, 2]),
        task=task,
        table=table,
    )
    w, facts, text = _WAYS[name](setting)

    def predict(features: np.ndarray) -> Output:
        from scipy.special import expit

        chance = expit(_constant(features) @ w / _length(task))
        return Output(chances=np.column_stack([1 - chance, chance]))

    coefficients = (w[:-1] / _length(task))[None, :]
    return Fit(predict, "scaled", coefficients), {**facts, "text": text}


def _vectors(task: Task, table: CodedRows) -> np.ndarray:
    return _constant(task.features(table)) / _length(task)


def _constant(features: np.ndarray) -> np.ndarray:
    return np.hstack([features, np.ones((len(features), 1))])


def _length(task: Task) -> float:
    """The greatest possible length: every column adds 1 to its square, and so does the constant."""
    return math.sqrt(len(task.schema.names))


def _dpsgd(s: _Setting) -> _Trained:
    """Poisson samples at a public rate, one noisy gradient each; the last half is averaged."""
    lot = min(512, s.rows)
    rate, steps = lot / s.rows, 600
    multiplier = find_noise_multiplier(
        s.budget.eps, s.budget.delta, s.budget.neighbours, rate, steps
    )
    w, total = np.zeros(s.x.shape[1]), np.zeros(s.x.shape[1])
    for step in range(steps):
        drawn = s.rng.random(len(s.x)) < rate
        gradient = s.noisy_sum(_slopes(s.x[drawn], s.y[drawn], w), multiplier) / lot
        w = w - 8.0 / math.sqrt(1 + step / 50) * (gradient + _PENALTY * w)
        total += w if step >= steps // 2 else 0.0
    facts = {"steps": steps, "rate": rate, "noise_multiplier": multiplier}
    text = (
        f"DP-SGD on the real rows, {steps} steps at rate {rate:.4g}, noise multiplier "
        f"{multiplier:.3g}"
    )
    return total / (steps - steps // 2), facts, text


def _gradient(s: _Setting) -> _Trained:
    """Descent with momentum on the noisy gradient of all rows."""
    steps = 60
    l2 = 1.0 if s.budget.neighbours is Neighbours.ADD_REMOVE else 2.0
    sigma = gaussian_sigma(s.budget.rho / steps, l2)
    w, speed, total = np.zeros(s.x.shape[1]), np.zeros(s.x.shape[1]), np.zeros(s.x.shape[1])
    for step in range(steps):
        gradient = s.noisy_sum(_slopes(s.x, s.y, w), sigma) / s.rows + _PENALTY * w
        speed = 0.8 * speed - 4.0 * gradient
        w = w + speed
        total += w if step >= steps // 2 else 0.0
    text = f"noisy gradient descent on the real rows, {steps} steps, noise {sigma:.4g}"
    return total / (steps - steps // 2), {"steps": steps, "sigma": sigma}, text


def _pate(s: _Setting) -> _Trained:
    """Teachers on disjoint parts give chances, averaged with noise, for rows of noisy marginals.

    One person changes one teacher, and with it every query's sum of chances by at most 1. (Votes
    for the likelier class, as in the paper, would teach a student little: with few queries nearly
    all of them go to the more frequent class.)
    """
    neighbours, rho = s.budget.neighbours, rho_of(s.budget.eps, s.budget.delta)
    teachers, queries = int(np.clip(s.rows // 100, 5, 400)), 200
    columns = s.table.schema.domain
    sigma_one = gaussian_sigma(0.2 * rho / len(columns), neighbours.l2)
    sigma = gaussian_sigma(0.8 * rho / queries)
    # Unlabelled rows: every column on its own, from its noisy marginal.
    codes = np.empty((queries, len(columns)), dtype=np.int32)
    for j, size in enumerate(columns.values()):
        exact = np.bincount(s.table.codes[:, j], minlength=size)
        noisy = s.noise.draw(DiscreteGaussian(sigma_one), exact)
        shares = project_to_simplex(noisy, float(s.rows))
        codes[:, j] = s.rng.choice(size, queries, p=shares / shares.sum())
    asked = CodedRows.of(Codec(s.table.schema).decode(codes, s.rng), s.table.schema)
    sums = np.zeros(queries, dtype=np.int64)
    part = s.rng.integers(0, teachers, len(s.table))
    for teacher in range(teachers):
        output = train(LEARNERS["logistic"], s.task, s.table.take(part == teacher))(s.task, asked)
        assert output.chances is not None
        # Rounded down, so that a chance is at most 1 in whole numbers as well.
        sums += np.floor(output.chances[:, 1] * _GRID).astype(np.int64)
    noisy = s.noise.draw(DiscreteGaussian(sigma * _GRID), sums) / _GRID
    share = np.clip(noisy / teachers, 0.0, 1.0)
    x, ones = _vectors(s.task, asked), np.ones(queries)
    w = np.zeros(x.shape[1])
    for _ in range(1000):
        up, down = _slopes(x, ones, w), _slopes(x, -ones, w)
        w = w - 4.0 * (share @ up + (1 - share) @ down) / queries - 4.0 * _PENALTY * w
    text = (
        f"PATE, {teachers} teachers, {queries} queries, noise {sigma:.4g} on the sums of their "
        "chances; the student sees rows of noisy one-way marginals"
    )
    facts = {"teachers": teachers, "queries": queries, "sigma": sigma, "marginal_sigma": sigma_one}
    return w, facts, text


def _slopes(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The gradient of every row's logistic loss; no longer than its features."""
    from scipy.special import expit

    return -(y * expit(-y * (x @ w)))[:, None] * x


_WAYS: Mapping[str, Callable[[_Setting], _Trained]] = {
    "dpsgd": _dpsgd,
    "gradient": _gradient,
    "pate": _pate,
}
