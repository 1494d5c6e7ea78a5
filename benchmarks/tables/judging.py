"""What synthetic codes are worth: marginals of one to three columns, and models on real rows."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from marginalsyn.table import CodedRows
from tables.cases import Case

# Three-way marginals are judged on so many triples at most, the same for every method.
TRIPLES = 100


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
    """Log loss on the test rows of a model that was trained on the given ones."""
    y = case.task.labels(rows)
    test = case.task.labels(case.real[1])
    if len(np.unique(y)) < 2:
        share = np.clip(np.mean(y), 1e-6, 1 - 1e-6)
        return float(log_loss(test, np.full(len(test), share), labels=[0, 1]))
    model = HistGradientBoostingClassifier(random_state=0)
    if kind == "linear":
        model = LogisticRegression(max_iter=1000)
        if case.features == "scaled":
            model.set_params(solver="newton-cholesky")
    model.fit(case.task.features(rows, case.features), y)
    chances = model.predict_proba(case.task.features(case.real[1], case.features))
    return float(log_loss(test, chances, labels=model.classes_))
