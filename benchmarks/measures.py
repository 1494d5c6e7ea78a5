"""What the benchmarks measure alike, whatever made the synthetic table."""

from __future__ import annotations

import resource
from collections.abc import Mapping

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from marginalsyn.plugins.reports.marginal_errors import marginal_errors


def two_way_tv(real: np.ndarray, synthetic: np.ndarray, domain: Mapping[str, int]) -> float:
    """Mean total variation over all pairs of columns."""
    pairs = [q for q in marginal_errors(real, synthetic, domain).items() if len(q[0]) == 2]
    return float(np.mean([error for _, error in pairs]) / 2)


def tstr(train: pd.DataFrame, test: pd.DataFrame, label: str) -> dict[str, float]:
    """Accuracy, AUC and log loss on ``test`` of scikit-learn's logistic regression."""
    y = train[label].to_numpy()
    if len(np.unique(y)) < 2:
        share = np.clip(np.mean(y), 1e-6, 1 - 1e-6)
        chance = np.full(len(test), share)
    else:
        model = LogisticRegression(max_iter=1000)
        model.fit(train.drop(columns=label).to_numpy(float), y)
        chance = model.predict_proba(test.drop(columns=label).to_numpy(float))[:, 1]
    truth = test[label].to_numpy()
    return {
        "accuracy": float(np.mean((chance > 0.5) == truth)),
        "auc": float(roc_auc_score(truth, chance)),
        "loss": float(log_loss(truth, chance, labels=[0, 1])),
    }


def peak_mb() -> float:
    """Peak resident memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
