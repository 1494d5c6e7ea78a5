"""What synthetic codes are worth: marginals of one to three columns, and models on real rows."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV

from marginalsyn.table.design import CodedRows
from tables.cases import Case

# Three-way marginals are judged on so many triples at most, the same for every method.
TRIPLES = 100
# The least chance that a model gives to a class.
LEAST = 1e-6


def judge(case: Case, codes: np.ndarray) -> dict[str, float]:
    """Mean total variations, and the excess log loss of two kinds of model on the test rows."""
    found = {f"tv{k}": variation(case, codes, k) for k in (1, 2, 3)}
    rows = CodedRows.of(case.codec.decode(codes, np.random.default_rng(0)), case.schema)
    for name in ("linear", "boosting"):
        found[name] = loss(case, rows, name) - real_loss(case, name)
    return found


def variation(case: Case, codes: np.ndarray, ways: int) -> float:
    """The mean total variation of marginals of so many columns."""
    sizes = list(case.schema.domain.values())
    chosen = list(itertools.combinations(range(len(sizes)), ways))
    if ways == 3 and len(chosen) > TRIPLES:
        picks = np.random.default_rng(0).choice(len(chosen), TRIPLES, replace=False)
        chosen = [chosen[i] for i in np.sort(picks)]
    errors = []
    for columns in chosen:
        shape = [sizes[c] for c in columns]
        shares = []
        for rows in (case.codes, codes):
            cells = np.ravel_multi_index([rows[:, c] for c in columns], shape)
            shares.append(np.bincount(cells, minlength=math.prod(shape)) / max(len(rows), 1))
        errors.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(errors))


@lru_cache(maxsize=2)
def real_loss(case: Case, kind: str) -> float:
    """Log loss of a model that was trained on the real train rows."""
    return loss(case, case.real[0], kind)


def loss(case: Case, rows: CodedRows, kind: str) -> float:
    """Log loss on the test rows of a model that was trained on the given ones.

    Of a label that is a number: the mean squared error, as a share of the label's variance.
    """
    task, test, raw = case.task, case.real[1], case.features == "coded"
    x, seen = task.features(rows, case.features), task.features(test, case.features)
    truth = task.labels(test)
    if task.quantity:
        model = RidgeCV() if kind == "linear" else HistGradientBoostingRegressor(random_state=0)
        found = model.fit(x, task.labels(rows)).predict(seen)
        return float(np.mean(np.square(found - truth)) / np.var(truth))
    known = np.isin(rows.codes[:, task.position], task.order)
    y = task.labels(rows.take(np.flatnonzero(known)))
    # Classes that no row has are as good as impossible to a model.
    chances = np.full((len(truth), len(task.order)), LEAST)
    if len(classes := np.unique(y)) < 2:
        chances[:, classes] = 1.0
    else:
        model = HistGradientBoostingClassifier(random_state=0)
        if kind == "linear":
            several = {} if raw or len(classes) > 2 else {"solver": "newton-cholesky"}
            model = LogisticRegression(max_iter=1000, **several)
        chances[:, classes] = model.fit(x[known], y).predict_proba(seen)
    chances = np.maximum(chances, LEAST)
    chances /= chances.sum(axis=1, keepdims=True)
    return float(-np.log(chances[np.arange(len(truth)), truth]).mean())
