"""Scores against scikit-learn and hand-computed cases."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from marginalsyn import Schema
from marginalsyn.evaluation.scores import (
    Output,
    Scored,
    calibration,
    roc_curve,
    row_errors,
    score,
)
from marginalsyn.table.design import CodedRows, Task


def task(classes: int) -> Task:
    schema = Schema.from_domain({"x": 2, "y": classes})
    codes = np.column_stack([np.zeros(classes, int), np.arange(classes)])
    return Task.of(schema, "y", [CodedRows(schema, codes, codes.astype(float))])


def test_two_classes_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 500)
    p = np.clip(0.5 + 0.2 * (truth - 0.5) + 0.2 * rng.standard_normal(500), 0.01, 0.99).round(2)
    found = score(task(2), Output(chances=np.column_stack([1 - p, p])), truth).values()
    assert found["auc"] == pytest.approx(metrics.roc_auc_score(truth, p))
    assert found["log_loss"] == pytest.approx(metrics.log_loss(truth, p))
    assert found["risk"] == found["log_loss"]
    assert found["brier"] == pytest.approx(metrics.brier_score_loss(truth, p))
    assert found["accuracy"] == pytest.approx(np.mean((p > 0.5) == truth))


@pytest.mark.parametrize("classes", [2, 3])
def test_hinge_loss_agrees_with_scikit_learn(classes: int) -> None:
    rng = np.random.default_rng(0)
    truth, margins = rng.integers(0, classes, 200), rng.standard_normal((200, classes))
    if classes == 2:
        margins[:, 0] = -margins[:, 1]
    found = score(task(classes), Output(margins=margins), truth).values()
    told = margins[:, 1] if classes == 2 else margins
    labels = np.arange(classes)
    assert found["risk"] == pytest.approx(metrics.hinge_loss(truth, told, labels=labels))


def test_standard_errors_agree_with_resampling() -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 400)
    one = 1 / (1 + np.exp(-(truth + rng.standard_normal(400))))
    two = 1 / (1 + np.exp(-(truth + rng.standard_normal(400))))

    def scored(p: np.ndarray, y: np.ndarray):
        return score(task(2), Output(chances=np.column_stack([1 - p, p])), y)

    alone = row_errors(scored(one, truth))
    pair = row_errors(scored(one, truth), scored(two, truth))
    draws, gaps = [], []
    for _ in range(600):
        rows = rng.integers(0, 400, 400)
        a, b = scored(one[rows], truth[rows]).values(), scored(two[rows], truth[rows]).values()
        draws.append([a["auc"], a["risk"], a["accuracy"]])
        gaps.append([a["auc"] - b["auc"], a["risk"] - b["risk"], a["accuracy"] - b["accuracy"]])
    names = ["auc", "risk", "accuracy"]
    assert [alone[n] for n in names] == pytest.approx(np.std(draws, axis=0), rel=0.15)
    assert [pair[n] for n in names] == pytest.approx(np.std(gaps, axis=0), rel=0.15)


def test_roc_and_calibration() -> None:
    marks = np.array([0.9, 0.8, 0.8, 0.1])
    positive = np.array([True, True, False, False])
    assert roc_curve(marks, positive) == [[0, 0], [0, 0.5], [0.5, 1], [1, 1]]
    many = np.random.default_rng(0).random(5000)
    curve = np.array(roc_curve(many, many > 0.3))
    assert len(curve) <= 61
    assert (np.diff(curve, axis=0) >= 0).all()
    bins = calibration(np.linspace(0, 1, 100), np.linspace(0, 1, 100) > 0.5, bins=4)
    assert [b["rows"] for b in bins] == [25] * 4
    assert [b["observed"] for b in bins] == [0, 0, 1, 1]


def test_errors_of_differences_are_of_the_scores_that_both_models_have() -> None:
    chances = Scored({"risk": np.array([0.0, 1.0]), "log_loss": np.array([0.0, 1.0])})
    margins = Scored({"risk": np.array([0.0, 0.0])})
    assert row_errors(chances, margins) == {"risk": 0.5}
