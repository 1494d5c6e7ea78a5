"""Scores of predictions, row by row, so that two models can be compared in pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from marginalsyn.table.design import Task

# Chances are kept this far from 0 and 1 before their logarithm is taken, as scikit-learn does.
TINY = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Output:
    """What a model says of rows: chances by class, else margins by class, else numbers."""

    chances: np.ndarray | None = None
    margins: np.ndarray | None = None
    values: np.ndarray | None = None


@dataclass(frozen=True)
class Scored:
    """The scores of one model on one table.

    ``rows`` holds what is a mean over rows (``risk`` is the loss that the model minimises: log
    loss, hinge loss or squared error); ``auc`` comes with its placements (DeLong, DeLong and
    Clarke-Pearson 1988), which are means over the rows of each class.
    """

    rows: Mapping[str, np.ndarray]
    auc: float | None = None
    placements: tuple[np.ndarray, np.ndarray] | None = None
    totals: Mapping[str, float] = field(default_factory=dict)

    def values(self) -> dict[str, float]:
        """Every score as one number."""
        found = {name: float(np.mean(rows)) for name, rows in self.rows.items() if len(rows)}
        if self.auc is not None:
            found["auc"] = self.auc
        return {**found, **self.totals}


def score(task: Task, output: Output, truth: np.ndarray) -> Scored:
    """Score a model's output against the labels of the same rows."""
    if task.quantity:
        return _score_quantity(output, truth)
    if output.chances is not None:
        chances = np.clip(output.chances, TINY, 1.0)
        picked = chances[np.arange(len(truth)), truth]
        rows = {"risk": -np.log(picked), "accuracy": _right(chances, truth)}
        rows["log_loss"] = rows["risk"]
        if task.binary:
            rows["brier"] = np.square(output.chances[:, 1] - truth)
        else:
            hot = truth[:, None] == np.arange(chances.shape[1])
            rows["brier"] = np.square(output.chances - hot).sum(axis=1)
        marks = output.chances
    else:
        assert output.margins is not None
        margins = output.margins
        own = margins[np.arange(len(truth)), truth]
        others = margins.copy()
        others[np.arange(len(truth)), truth] = -np.inf
        # Two classes have opposite margins; with more, the best other class counts.
        lead = own if task.binary else own - others.max(axis=1, initial=-np.inf)
        rows = {"risk": np.maximum(0.0, 1.0 - lead), "accuracy": _right(margins, truth)}
        marks = margins
    if task.binary:
        auc, placements = delong(marks[:, 1], truth == 1)
        return Scored(rows, auc, placements)
    areas = [delong(marks[:, k], truth == k)[0] for k in range(marks.shape[1])]
    known = [area for area in areas if area is not None]
    return Scored(rows, float(np.mean(known)) if known else None)


def _score_quantity(output: Output, truth: np.ndarray) -> Scored:
    assert output.values is not None
    squared = np.square(output.values - truth)
    spread = float(np.var(truth)) if len(truth) else 0.0
    totals = {}
    if len(truth):
        totals["rmse"] = math.sqrt(float(np.mean(squared)))
    if spread > 0:
        totals["r2"] = 1.0 - float(np.mean(squared)) / spread
    return Scored({"risk": squared, "absolute": np.abs(output.values - truth)}, totals=totals)


def _right(marks: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return (np.argmax(marks, axis=1) == truth).astype(float)


def delong(
    marks: np.ndarray, positive: np.ndarray
) -> tuple[float | None, tuple[np.ndarray, np.ndarray] | None]:
    """The area under the ROC curve and the placements whose means it is; None for one class.

    A positive row's placement is the share of negative rows that it ranks above, ties counting
    half, and the other way round.

    Example:
        >>> delong(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, False, True, True]))[0]
        0.875
    """
    ups, downs = np.sort(marks[positive]), np.sort(marks[~positive])
    if not len(ups) or not len(downs):
        return None, None

    def below(sorted_marks: np.ndarray, points: np.ndarray) -> np.ndarray:
        left = np.searchsorted(sorted_marks, points, side="left")
        return (left + np.searchsorted(sorted_marks, points, side="right")) / 2

    up = below(downs, marks[positive]) / len(downs)
    down = 1.0 - below(ups, marks[~positive]) / len(ups)
    return float(np.mean(up)), (up, down)


def standard_error(values: np.ndarray) -> float:
    """Of the mean of independent values; 0 for fewer than two."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def row_errors(first: Scored, second: Scored | None = None) -> dict[str, float]:
    """Standard errors of a model's scores, or of their differences to another's on the same rows.

    They say how much the scores would vary with other test rows; the models are taken as given.
    """
    found = {}
    for name, rows in first.rows.items():
        # A model that gives chances has scores that one of margins has not.
        if second is None or name in second.rows:
            found[name] = standard_error(rows if second is None else rows - second.rows[name])
    one, two = first.placements, second.placements if second is not None else None
    if one is not None and (second is None or two is not None):
        up, down = one if two is None else (one[0] - two[0], one[1] - two[1])
        found["auc"] = math.hypot(standard_error(up), standard_error(down))
    if "rmse" in first.totals and second is None:
        # The delta method: sd of a root is the sd of the mean over twice the root.
        found["rmse"] = found["risk"] / max(2 * first.totals["rmse"], TINY)
    return found


def roc_curve(marks: np.ndarray, positive: np.ndarray, points: int = 60) -> list[list[float]]:
    """False and true positive rates at the thresholds that matter, at most ``points`` of them."""
    order = np.argsort(-marks, kind="stable")
    hits, ends = positive[order], np.flatnonzero(np.diff(marks[order]) != 0)
    ends = np.append(ends, len(hits) - 1)
    true = np.cumsum(hits)[ends] / max(int(hits.sum()), 1)
    false = np.cumsum(~hits)[ends] / max(int((~hits).sum()), 1)
    if len(ends) > points:
        # Evenly along the curve, so that steep and flat parts are drawn alike.
        length = true + false
        kept = np.unique(np.searchsorted(length, np.linspace(0, length[-1], points)))
        true, false = true[kept], false[kept]
    return [[0.0, 0.0], *np.column_stack([false, true]).tolist()]


def calibration(
    chances: np.ndarray, positive: np.ndarray, bins: int = 10
) -> list[dict[str, float]]:
    """Predicted chances and observed shares, in bins of as many rows each."""
    order = np.argsort(chances, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    return [
        {
            "predicted": float(np.mean(chances[part])),
            "observed": float(np.mean(positive[part])),
            "se": standard_error(positive[part].astype(float)),
            "rows": len(part),
        }
        for part in parts
    ]


def clopper_pearson(hits: int, trials: int, alpha: float) -> tuple[float, float]:
    """A lower and an upper bound of a probability, each wrong with probability at most ``alpha``.

    Example:
        >>> low, high = clopper_pearson(0, 100, 0.05)
        >>> low, round(high, 4)
        (0.0, 0.0295)
    """
    from scipy.special import betaincinv

    if trials == 0:
        return 0.0, 1.0
    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, alpha))
    high = 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1 - alpha))
    return low, high
