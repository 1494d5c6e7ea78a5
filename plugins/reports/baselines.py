"""Private training on the real rows themselves, to compare "synthetic first" with.

Three ways to a logistic regression of the same (eps, delta) as a release: DP-SGD (Abadi et al.
2016), full-batch descent with noisy gradients (Bassily et al. 2014), and PATE (Papernot et al.
2018), whose student learns from rows drawn from noisy one-way marginals. They are trained by the
curator for the evaluation only: no model of theirs is published, nothing is charged, and their
noise is seeded.

Feature vectors are divided by their greatest possible length, a fact about the schema, so that
every gradient is at most 1 long and nothing needs to be clipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.evaluation.reports import Case, RealData
from marginalsyn.evaluation.scores import Output
from marginalsyn.graphical.estimation import project_to_simplex
from marginalsyn.plugins.reports.learners import LEARNERS, Fit, train
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.laws import DiscreteGaussian
from marginalsyn.privacy.noise import Noise, make_noise
from marginalsyn.privacy.noise_search import find_noise_multiplier
from marginalsyn.privacy.zcdp import gaussian_sigma, rho_of
from marginalsyn.progress import Progress
from marginalsyn.table.codec import Codec
from marginalsyn.table.design import CodedRows, Task

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
    fits: dict[str, list[Fit]] = {}
    facts: dict[str, dict[str, Any]] = {}

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
