"""Learns to tell two tables' runs apart, and measures how well on held-out runs.

A part of the runs trains scores (single numbers, and linear combinations of all of them); a part
chooses the score and the threshold for every form of the claim; the rest is counted. So the choice
cannot flatter the count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from marginalsyn.plugins.audit.forms import Form
from marginalsyn.plugins.audit.observations import LIKELIHOOD, Observation, matrix
from marginalsyn.plugins.audit.statistics import Rates

FEWEST = 8
"""Runs on each table below which nothing is said."""
_TRAIN, _CHOOSE = 0.2, 0.4  # the runs up to these shares train, and choose; the rest is counted
_SINGLES = 12
_RIDGES = (1e-3, 1.0)
_THRESHOLDS = 40

Score = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Finding:
    """The best bound of all forms, and the event that it rests on."""

    eps: float
    form: str
    event: str
    rates: Rates
    runs: int


def prove_eps(
    base: Sequence[Observation],
    other: Sequence[Observation],
    forms: Sequence[Form],
    *,
    alpha: float,
) -> Finding:
    """The largest eps that runs on two neighbouring tables prove, wrong with chance ``alpha``.

    Args:
        base: runs on one table.
        other: runs on its neighbour.
        forms: of the claim.
        alpha: over all forms together.

    Example:
        >>> from marginalsyn.privacy.charges import Charge, Neighbours, Pure
        >>> from marginalsyn.plugins.audit.forms import forms_of
        >>> rng = np.random.default_rng(0)
        >>> runs = [[{"x": x} for x in rng.laplace(m, 1.0, 4000)] for m in (0, 1)]
        >>> charge = Charge(mechanism="laplace", cost=Pure(eps=1.0))
        >>> found = prove_eps(*runs, forms_of([charge], 1e-9, Neighbours.ADD_REMOVE), alpha=0.01)
        >>> 0.7 < found.eps < 1
        True
    """
    count = min(len(base), len(other))
    nothing = Finding(0.0, forms[0].name, "too few runs", Rates(0.0, 1.0), count)
    if count < FEWEST:
        return nothing
    names, (x, y) = matrix([base[:count], other[:count]])
    first, second = int(_TRAIN * count), int(_CHOOSE * count)
    share = alpha / len(forms)
    scores = _scores(names, x[:first], y[:first])
    chosen = {name: (score(x), score(y)) for name, score in scores.items()}
    best = nothing
    for form in forms:
        pick = _choose(chosen, first, second, form, share)
        if pick is None:
            continue
        name, edge, swapped = pick
        a, b = chosen[name]
        rates = _rates(a[second:], b[second:], edge, swapped=swapped, alpha=share)
        eps = form.least(rates)
        if eps >= best.eps:
            best = Finding(eps, form.name, f"{name} at least {edge:.6g}", rates, count)
    return best


def _scores(names: Sequence[str], x: np.ndarray, y: np.ndarray) -> dict[str, Score]:
    """The candidate scores: the likelihood, the numbers that differ most, linear discriminants."""
    spread = np.sqrt((x.var(axis=0) + y.var(axis=0)) / 2)
    apart = np.abs(y.mean(axis=0) - x.mean(axis=0))
    scale = np.where(spread > 0, spread, 1.0)
    effect = apart / np.where(spread > 0, spread, np.where(apart > 0, 1e-12, 1.0))
    found: dict[str, Score] = {}
    for column in np.argsort(-effect, kind="stable")[:_SINGLES]:
        if effect[column] > 0:
            found[names[column]] = _column(int(column))
    if LIKELIHOOD in names:
        found[LIKELIHOOD] = _column(names.index(LIKELIHOOD))
    live = np.flatnonzero((spread > 0) & (np.array(names) != LIKELIHOOD))
    if live.size:
        centre = (x.mean(axis=0) + y.mean(axis=0))[live] / 2
        a, b = ((part[:, live] - centre) / scale[live] for part in (x, y))
        for ridge in _RIDGES:
            weights = _discriminant(a, b, ridge)
            found[f"all numbers, ridge {ridge:g}"] = _linear(live, centre, scale[live], weights)
    return found


def _discriminant(x: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    """Fisher's direction on standardised columns, shrunk towards that of independent ones."""
    gap = y.mean(axis=0) - x.mean(axis=0)
    rows = np.concatenate([x - x.mean(axis=0), y - y.mean(axis=0)]) / np.sqrt(len(x) + len(y))
    if rows.shape[1] <= len(rows):
        return np.linalg.solve(rows.T @ rows + ridge * np.eye(rows.shape[1]), gap)
    # More columns than runs: (R'R + r)^-1 = (1 - R' (R R' + r)^-1 R) / r.
    inner = np.linalg.solve(rows @ rows.T + ridge * np.eye(len(rows)), rows @ gap)
    return (gap - rows.T @ inner) / ridge


def _column(column: int) -> Score:
    return lambda values: values[:, column]


def _linear(live: np.ndarray, centre: np.ndarray, scale: np.ndarray, weights: np.ndarray) -> Score:
    return lambda values: ((values[:, live] - centre) / scale) @ weights


def _choose(
    chosen: dict[str, tuple[np.ndarray, np.ndarray]],
    first: int,
    second: int,
    form: Form,
    alpha: float,
) -> tuple[str, float, bool] | None:
    """Pick the score, threshold and order of tables that look best for the part that is counted."""
    best, found = -1.0, None
    for name, (a, b) in chosen.items():
        x, y = np.sort(a[first:second]), np.sort(b[first:second])
        both = np.unique(np.concatenate([x, y]))
        # Between values, so that rounding cannot move a value across.
        edges = (both[1:] + both[:-1]) / 2
        if edges.size > _THRESHOLDS:
            edges = np.quantile(edges, np.linspace(0.005, 0.995, _THRESHOLDS))
        for edge in edges:
            shares = [(np.sum(v >= edge) + 1) / (v.size + 2) for v in (x, y)]
            for swapped in (False, True):
                often, seldom = shares if swapped else shares[::-1]
                if often <= seldom:
                    continue
                held = len(a) - second
                rates = Rates.of(round(often * held), round(seldom * held), held, held, alpha=alpha)
                # Where nothing can be proved, the event whose shares differ most.
                worth = form.rank(rates) or (often - seldom) * 1e-9
                if worth > best:
                    best, found = worth, (name, float(edge), swapped)
    return found


def _rates(x: np.ndarray, y: np.ndarray, edge: float, *, swapped: bool, alpha: float) -> Rates:
    """Rates of the event that a score is at least ``edge``, or of its complement.

    The event is thought to be likelier on y, or on x if ``swapped``.
    """
    hits = [int(np.sum(v >= edge)) for v in (x, y)]
    often, seldom = (0, 1) if swapped else (1, 0)
    sizes = (len(x), len(y))
    return Rates.of(hits[often], hits[seldom], sizes[often], sizes[seldom], alpha=alpha)
