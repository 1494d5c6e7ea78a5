"""The report of distances between synthetic and real rows, over all columns at once.

Rows are points of :class:`marginalsyn.table.metric.Metric`: numbers scaled by their public bounds,
and 1 between different categories. Samples keep the quadratic distances quick; each result says
its size.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from marginalsyn.evaluation.reports import (
    Block,
    Blocks,
    Case,
    Fact,
    Options,
    RealData,
    Report,
    each_variant,
)
from marginalsyn.evaluation.scores import delong, standard_error
from marginalsyn.evaluation.view import Item, Table
from marginalsyn.plugins.reports.marginal_errors import share_table
from marginalsyn.progress import Progress
from marginalsyn.table.design import CodedRows, scaled_features, scaled_slots
from marginalsyn.table.energy import distance_matrix, energy_distance, mmd
from marginalsyn.table.metric import Metric

# Up to this many rows a side optimal transport is solved exactly; it takes cubic time.
EXACT_ROWS = 1000
# Rows a side of the distances over all pairs.
PAIR_ROWS = 4000
DIRECTIONS = 64
FOREST_ROWS = 10_000

_NAMES = {
    "wasserstein": "Wasserstein-1",
    "energy": "energy distance",
    "mmd": "MMD, squared",
    "two_sample": "classifier's AUC",
    "association": "difference of Cramér's V, mean",
}


class DistancesReport(Report):
    """Weighted Wasserstein-1, MMD, energy distance, a two-sample classifier, associations."""

    name = "distances"
    title = "Distances"
    summary = "weighted Wasserstein, MMD, energy, two-sample test, associations"
    place = 50
    on_terminal = False

    def compute(self, case: Case, ground: RealData, options: Options, progress: Progress) -> Block:
        variants = []
        for number, (weights, table) in enumerate(case.variants()):
            progress.report("distances", fraction=number / (1 + len(case.weights)), text=case.name)
            rng = np.random.default_rng(options.seed)
            found = distances(table, ground.reference, rng=rng)
            variants.append({"weights": weights, **found})
        fresh = None
        if ground.fresh is not None and len(ground.fresh):
            progress.report("distances", text="real rows against real rows")
            rng, rows = np.random.default_rng(options.seed), ground.fresh
            fresh = ground.once("distances", lambda: distances(rows, ground.reference, rng=rng))
        return {"variants": variants, "fresh": fresh}

    def facts(self, block: Block) -> Iterable[Fact]:
        for variant in block["variants"]:
            item = f"weights {variant['weights']}" if variant["weights"] else "rows"
            for metric in _NAMES:
                yield Fact(item, metric, _value(metric, variant))

    def show(self, blocks: Blocks, combined: Block | None = None) -> Iterator[Item]:
        first = next(iter(blocks.values()))
        kind = first["variants"][0]["wasserstein"]["kind"]
        yield (
            "All columns at once, against the real rows. Smaller is closer; of the classifier that "
            "tells synthetic rows from real ones, an AUC of one half is perfect, and one well "
            "below means that rows were copied. Held-out rows are the mark to compare with, where "
            f"there are as many of them. Wasserstein is {kind}."
        )
        lines = list(each_variant(blocks))
        if first["fresh"]:
            lines.append(("held-out real rows", first["fresh"]))
        rows = [(name, *(_value(metric, found) for metric in _NAMES)) for name, found in lines]
        yield Table(["table", *_NAMES.values()], rows, fold="Distances of all tables")


def _value(metric: str, found: Mapping[str, Any]) -> float | None:
    part = found[metric]
    return part.get("value", part.get("auc", part.get("mean")))


def distances(synthetic: CodedRows, real: CodedRows, *, rng: np.random.Generator) -> dict[str, Any]:
    """Every distance between two tables, each with the synthetic rows' weights.

    Args:
        synthetic: with its weights, if it has any.
        real: unweighted.
        rng: draws samples and directions.

    Returns:
        JSON values: ``wasserstein`` (order 1; ``exact`` or ``sliced``), ``energy`` (squared),
        ``mmd`` (squared, Gaussian kernel), ``two_sample`` (a classifier's accuracy and AUC at
        distinguishing the tables; one half is perfect) and ``association`` (differences of the
        strength of dependence of pairs of columns).

    Example:
        >>> table = CodedRows.of(frame, schema)
        >>> found = distances(table, table, rng=np.random.default_rng(0))
        >>> round(found["energy"]["value"], 9)
        0.0
    """
    if not len(synthetic) or not len(real):
        raise ValueError("both tables must have rows")
    metric = Metric(synthetic.schema)
    a = _sample(synthetic, PAIR_ROWS, rng)
    b = _sample(real, PAIR_ROWS, rng)
    x, y = metric.points(a.units), metric.points(b.units)
    wx, wy = a.masses / a.masses.sum(), b.masses / b.masses.sum()
    energy = energy_distance(x, y, space=metric.space, x_weights=wx, y_weights=wy)
    return {
        "wasserstein": wasserstein(synthetic, real, rng=rng),
        "energy": {"value": max(0.0, energy), "rows": [len(a), len(b)]},
        "mmd": _mmd(x, y, wx, wy, metric, rng),
        "two_sample": two_sample(synthetic, real, rng=rng),
        "association": association_difference(synthetic, real),
    }


def wasserstein(
    synthetic: CodedRows, real: CodedRows, *, rng: np.random.Generator
) -> dict[str, Any]:
    """The order-1 Wasserstein distance: exact where both tables are small, else sliced.

    The sliced one averages one-dimensional distances over random directions of the scaled features,
    by sorting, with all rows.
    """
    if max(len(synthetic), len(real)) <= EXACT_ROWS:
        metric = Metric(synthetic.schema)
        cost = distance_matrix(
            metric.points(synthetic.units), metric.points(real.units), space=metric.space
        )
        a, b = synthetic.masses, real.masses
        a, b = np.maximum(a, 0) / a.sum(), b / b.sum()
        value = float(_transport()(a, b / b.sum() * a.sum(), cost, numItermax=2_000_000))
        return {"value": value, "kind": "exact", "rows": [len(synthetic), len(real)]}
    x, y = _halved(synthetic), _halved(real)
    directions = rng.standard_normal((x.shape[1], DIRECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    wx, wy = synthetic.masses / len(synthetic), real.masses / len(real)
    value = float(np.mean([wasserstein_line(x @ t, y @ t, wx, wy) for t in directions.T]))
    return {"value": value, "kind": "sliced", "rows": [len(synthetic), len(real)]}


def wasserstein_line(x: np.ndarray, y: np.ndarray, wx: np.ndarray, wy: np.ndarray) -> float:
    """The order-1 distance of weighted points on a line: the area between their step functions.

    Example:
        >>> one = np.ones(1)
        >>> wasserstein_line(np.array([0.0]), np.array([2.0]), one, one)
        2.0
    """
    points = np.concatenate([x, y])
    order = np.argsort(points, kind="stable")
    steps = np.cumsum(np.concatenate([wx, -wy])[order])
    return float(np.abs(steps[:-1]) @ np.diff(points[order]))


def _transport() -> Any:
    """POT's exact solver, without the deep-learning frameworks that POT would import."""
    unwanted = [f"POT_BACKEND_DISABLE_{name}" for name in ("TENSORFLOW", "JAX", "PYTORCH", "CUPY")]
    before = {name: os.environ.get(name) for name in unwanted}
    os.environ.update(dict.fromkeys(unwanted, "1"))
    try:
        import ot
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    return ot.emd2


def _halved(table: CodedRows) -> np.ndarray:
    """Features in which two bounds, or two different categories, differ by one."""
    found = scaled_features(table.schema, table.units)
    position = 0
    for column in table.schema.columns:
        slots = scaled_slots(column)
        if slots.scale:
            found[:, position] /= 2
        else:
            found[:, position : position + slots.width] /= math.sqrt(2)
        position += slots.width
    return found


def _mmd(
    x: np.ndarray,
    y: np.ndarray,
    wx: np.ndarray,
    wy: np.ndarray,
    metric: Metric,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Squared MMD with a Gaussian kernel whose width is the median distance of real rows."""
    some = y[rng.permutation(len(y))[:500]]
    lengths = distance_matrix(some, some, space=metric.space)
    positive = lengths[lengths > 0]
    width = float(np.median(positive)) if positive.size else 1.0
    value = mmd(x, y, bandwidth=width, space=metric.space, x_weights=wx, y_weights=wy)
    return {"value": max(0.0, value), "width": width, "rows": [len(x), len(y)]}


def two_sample(
    synthetic: CodedRows, real: CodedRows, *, rng: np.random.Generator
) -> dict[str, Any]:
    """How well a classifier tells synthetic rows from real ones (Lopez-Paz and Oquab 2017).

    Boosted trees on codes are trained on one half of both tables and judged on the other. Each
    table counts for one half. Weights enter the fit and, by resampling, the test, so that a
    weighted table is judged as the distribution that it stands for. ``z`` is the AUC's distance
    from one half in standard errors. An AUC well *below* one half means that synthetic rows repeat
    real ones: what the classifier learnt as synthetic comes back as real.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows = min(len(synthetic), len(real), FOREST_ROWS)
    unknown = {"accuracy": None, "auc": None, "auc_se": None, "z": None, "rows": rows}
    if rows < 20:
        return unknown
    half = rows // 2
    a, b = (t.take(rng.permutation(len(t))[:rows]) for t in (synthetic, real))
    if synthetic.weights is not None and not (a.masses[:half].sum() and a.masses[half:].sum()):
        return unknown
    x = np.concatenate([a.codes[:half], b.codes[:half]])
    truth = np.repeat([0, 1], half)
    masses = np.concatenate([a.take(np.arange(half)).masses, np.ones(half)])
    model = HistGradientBoostingClassifier(
        max_iter=100, random_state=int(rng.integers(2**31)), early_stopping=False
    ).fit(x, truth, sample_weight=masses)
    rest = a.take(np.arange(half, rows))
    drawn = rest.resample(rng) if synthetic.weights is not None else rest
    other = np.concatenate([drawn.codes, b.codes[half:]])
    labels = np.repeat([0, 1], rows - half)
    marks = model.predict_proba(other)[:, 1]
    auc, placements = delong(marks, labels == 1)
    assert auc is not None
    assert placements is not None
    se = math.hypot(*(standard_error(part) for part in placements))
    accuracy = float(np.mean((marks > 0.5) == labels))
    z = (auc - 0.5) / se if se > 0 else None
    return {"accuracy": accuracy, "auc": auc, "auc_se": se, "z": z, "rows": rows}


def association_difference(synthetic: CodedRows, real: CodedRows) -> dict[str, Any]:
    """How much Cramer's V of every pair of columns differs: mean, worst, and which pair."""
    one, two = dict(_associations(synthetic)), dict(_associations(real))
    gaps = {pair: abs(one[pair] - two[pair]) for pair in one}
    if not gaps:
        return {"mean": 0.0, "worst": 0.0, "pair": None}
    worst = max(gaps, key=lambda pair: gaps[pair])
    mean = float(np.mean(list(gaps.values())))
    return {"mean": mean, "worst": gaps[worst], "pair": list(worst)}


def _associations(table: CodedRows) -> Iterator[tuple[tuple[str, str], float]]:
    """Cramer's V of every pair, from weighted shares; 0 where a column is constant."""
    names, sizes = table.schema.names, list(table.schema.domain.values())
    for j in range(len(names)):
        for i in range(j):
            shares = share_table(table.codes[:, [i, j]], [sizes[i], sizes[j]], table.weights)
            rows, columns = shares.sum(axis=1), shares.sum(axis=0)
            shares = shares[np.ix_(rows > 0, columns > 0)]
            free = np.outer(rows[rows > 0], columns[columns > 0])
            least = min(shares.shape) - 1
            chi = float(np.sum(np.square(shares - free) / free)) if least > 0 else 0.0
            yield (names[i], names[j]), math.sqrt(chi / least) if least > 0 else 0.0


def _sample(table: CodedRows, most: int, rng: np.random.Generator) -> CodedRows:
    """At most this many rows, drawn without replacement; they keep their weights."""
    if len(table) <= most:
        return table
    return table.take(rng.permutation(len(table))[:most])
