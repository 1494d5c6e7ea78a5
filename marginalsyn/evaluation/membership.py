"""Membership inference: guess from synthetic rows which real rows were behind them.

Three marks for a real row, higher where it seems likelier to be a member: how close the closest
synthetic row is; the density of synthetic rows around it, with their weights; and, with shadow
releases, the likelihood ratio of such a mark between releases made with the row and without it
(Carlini et al. 2022, "Membership inference attacks from first principles").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marginalsyn.evaluation.scores import clopper_pearson, delong, roc_curve, standard_error
from marginalsyn.plugins.points.energy import distance_matrix
from marginalsyn.plugins.points.metric import Metric
from marginalsyn.table.design import CodedRows

# The share of non-members that an attack may name wrongly.
FALSE_RATE = 0.01
CONFIDENCE = 0.95
_CHUNK = 512
_LEAST_SPREAD = 1e-9


def choose_rows(rows: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """Positions of at most so many of these rows, in order."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(rng.choice(rows, most, replace=False))


def nearness(rows: CodedRows, synthetic: CodedRows) -> dict[str, np.ndarray]:
    """Marks of rows: ``closest`` and, with the synthetic rows' weights, ``density``.

    The density's kernel is exp(-distance / h), h a quarter of the median distance to the closest
    row.

    Example:
        >>> table = CodedRows.of(frame, schema)
        >>> abs(nearness(table, table)["closest"]).max()
        0.0
    """
    metric = Metric(synthetic.schema)
    points, others = metric.points(rows.units), metric.points(synthetic.units)
    parts = [points[start : start + _CHUNK] for start in range(0, len(points), _CHUNK)]
    closest = np.concatenate(
        [distance_matrix(part, others, space=metric.space).min(axis=1) for part in parts]
    )
    apart = closest[closest > 0]
    width = max(float(np.median(apart)) / 4 if len(apart) else 0.0, 1e-3 * metric.space.diameter)
    masses = synthetic.masses / max(synthetic.masses.sum(), 1e-300)
    density = [
        np.exp(-distance_matrix(part, others, space=metric.space) / width) @ masses
        for part in parts
    ]
    return {"closest": -closest, "density": np.log(np.concatenate(density) + 1e-300)}


def success(marks: np.ndarray, members: np.ndarray) -> dict[str, Any]:
    """How well marks tell members from others: AUC, and hits at a small rate of false alarms.

    Args:
        marks: one per row, higher for likelier members.
        members: whether a row is one.

    Returns:
        JSON values: ``auc`` with its standard error ``se`` (DeLong, DeLong and Clarke-Pearson
        1988), and ``hits``, the share of members that are named where at most a hundredth of the
        others is, with its Clopper-Pearson interval.

    Example:
        >>> found = success(np.array([0.0, 1.0, 2.0]), np.array([False, False, True]))
        >>> found["auc"], found["hits"]["rate"]
        (1.0, 1.0)
    """
    auc, placements = delong(marks, members)
    if auc is None or placements is None:
        raise ValueError("there must be members and others")
    up, down = placements
    others = np.sort(marks[~members])[::-1]
    # Ties at the threshold are not named: the rate of false alarms is kept.
    threshold = others[int(FALSE_RATE * len(others))]
    hits = int((marks[members] > threshold).sum())
    low, high = clopper_pearson(hits, int(members.sum()), (1 - CONFIDENCE) / 2)
    return {
        "auc": auc,
        "se": math.hypot(standard_error(up), standard_error(down)),
        "hits": {"rate": hits / int(members.sum()), "low": low, "high": high},
        "curve": roc_curve(marks, members),
    }


def most_hits(eps: float, delta: float) -> float:
    """The most hits that any attack can have against (eps, delta), knowing all other rows.

    Example:
        >>> round(most_hits(1.0, 0.0), 4)
        0.0272
    """
    if eps > 700:
        return 1.0
    one = math.exp(eps) * FALSE_RATE + delta
    other = 1 - math.exp(-eps) * (1 - delta - FALSE_RATE)
    return min(1.0, one, other)


def likelihood_ratios(marks: np.ndarray, shadows: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Log likelihood ratios of marks between releases with a row and without it.

    Every row has means of its own, under one spread for all rows: with few shadow releases that
    does better than a spread for each.

    Args:
        marks: one per row, of the release under attack.
        shadows: (releases, rows) marks of the same rows in shadow releases.
        inside: which rows each shadow release was made with.
    """
    means, spreads = [], []
    for where in (inside, ~inside):
        count = where.sum(axis=0)
        overall = shadows[where].mean() if where.any() else 0.0
        mean = np.where(where, shadows, 0.0).sum(axis=0) / np.maximum(count, 1)
        mean = np.where(count > 0, mean, overall)
        left = np.where(where, shadows - mean, 0.0)
        freedom = max(int(where.sum()) - int((count > 0).sum()), 1)
        means.append(mean)
        spreads.append(max(math.sqrt(float((left**2).sum()) / freedom), _LEAST_SPREAD))
    (mean_in, mean_out), (spread_in, spread_out) = means, spreads
    inlier = -((marks - mean_in) ** 2) / (2 * spread_in**2) - math.log(spread_in)
    outlier = -((marks - mean_out) ** 2) / (2 * spread_out**2) - math.log(spread_out)
    return inlier - outlier


def shadow_success(
    marks: Mapping[Any, np.ndarray],
    shadows: Mapping[Any, Sequence[np.ndarray]],
    inside: np.ndarray,
    members: np.ndarray,
) -> dict[Any, Any]:
    """The likelihood-ratio attack on a release, and on every shadow by means of the others.

    Args:
        marks: by kind: of the release under attack.
        shadows: by kind: one array for each shadow release.
        inside: which rows each shadow release was made with.
        members: which rows the release was made with.
    """
    found = {}
    for kind, own in marks.items():
        others = np.array(shadows[kind])
        aucs, hits = [], []
        for number, where in enumerate(inside):
            rest = np.arange(len(inside)) != number
            ratios = likelihood_ratios(others[number], others[rest], inside[rest])
            if where.any() and not where.all():
                attack = success(ratios, where)
                aucs.append(attack["auc"])
                hits.append(attack["hits"]["rate"])
        found[kind] = {
            "release": success(likelihood_ratios(own, others, inside), members),
            "shadows": {
                "auc": float(np.mean(aucs)),
                "se": standard_error(np.array(aucs)),
                "hits": float(np.mean(hits)),
                "hits_se": standard_error(np.array(hits)),
            },
        }
    return found
