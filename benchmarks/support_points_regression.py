"""Linear regression on private points: the shape of Figure 5.8 of Diesendruck (2019).

    python benchmarks/support_points_regression.py [--sizes 0.1] [--eps 1 10 100 1000] [--folds 5]

Five folds of Diabetes (scikit-learn's, bundled), Heart (bundled; its label as 0 or 1) and a
simulated table of eight house-price-like columns. Points are released from the training folds,
a ridge regression of one-hot columns is fitted to them, and its squared error on the held-out fold
is told as a multiple of what predicting the training mean gives: below 1 is better than nothing.
Neighbours: replace one row, so that the number of rows is public for everybody.

Baselines are the generators ``kme`` (Algorithm 2 of Balog, Tolstikhin and Schoelkopf 2018) and
``histogram``, with as many points as the others.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd

from marginalsyn import datasets
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.plugins.points.fitting import mixed_support_points
from marginalsyn.plugins.points.metric import Metric
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.noise import make_noise
from marginalsyn.table.codec import Codec
from marginalsyn.table.numeric import ContinuousColumn
from marginalsyn.table.schema import Schema

RIDGE = 1.0  # on the sum of squares: few points and many columns need a little of it


def houses(rows: int = 1500) -> tuple[pd.DataFrame, Schema]:
    """Eight columns and a price with bends and a product, all in [0, 1]."""
    rng = np.random.default_rng(0)
    x = rng.beta(2, 4, (rows, 8))
    x[:, 1] = np.clip(0.6 * x[:, 0] + 0.4 * x[:, 1], 0, 1)
    price = 0.9 * x[:, 0] - 0.5 * x[:, 2] ** 2 + 0.6 * x[:, 6] * x[:, 7] + 0.3 * x[:, 1]
    price = np.clip(price + 0.05 * rng.standard_normal(rows), 0, 1)
    names = [f"x{i}" for i in range(8)] + ["price"]
    frame = pd.DataFrame(np.column_stack([x, price]), columns=names)
    columns = tuple(ContinuousColumn(name=name, lower=0, upper=1) for name in names)
    return frame, Schema(columns=columns, label="price")


def tables() -> dict[str, tuple[pd.DataFrame, Schema]]:
    """Whole tables: the benchmark makes its own folds."""
    found = {"houses": houses()}
    for name in ("diabetes", "heart"):
        data = datasets.load(name)
        found[name] = (pd.concat([data.train, data.test], ignore_index=True), data.schema)
    return found


class Task:
    """A table's rows as points, and regression of the label on one-hot coordinates."""

    def __init__(self, frame: pd.DataFrame, schema: Schema) -> None:
        self.schema, self.metric = schema, Metric(schema)
        self.codec = Codec(schema)
        self.label = schema.names.index(schema.label or schema.names[-1])
        self.points = self.encode(frame)

    def encode(self, frame: pd.DataFrame) -> np.ndarray:
        units = self.codec._matrix(
            frame, lambda table: self.codec.unit_table(table, absent=-1.0), np.dtype(float)
        )
        return self.metric.points(units)

    def design(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        space, place = self.metric.space, self.metric.places[self.label]
        parts, target = [np.ones((len(points), 1))], np.zeros(len(points))
        for c in range(space.numeric):
            if place.scale == c:
                target = points[:, c]
            else:
                parts.append(points[:, c : c + 1])
        for c, size in enumerate(space.sizes):
            codes = points[:, space.numeric + c]
            if place.code == c:
                target = codes
            else:
                parts.append(np.equal.outer(codes, np.arange(1, size)).astype(float))
        return np.concatenate(parts, axis=1), target

    def error(self, released: np.ndarray, test: np.ndarray, mean: float) -> float:
        """Held-out squared error over that of the training mean."""
        x, y = self.design(released)
        w = np.full(len(x), 1.0 / len(x))
        penalty = RIDGE / len(x) * np.diag([0.0] + [1.0] * (x.shape[1] - 1))
        slope = np.linalg.solve(x.T @ (w[:, None] * x) + penalty, x.T @ (w * y))
        a, b = self.design(test)
        return float(np.mean((b - a @ slope) ** 2) / np.mean((b - mean) ** 2))


def private(task: Task, train: pd.DataFrame, method: str, budget: Budget, seed: int,
            **options: object) -> np.ndarray:  # fmt: skip
    """The released rows of a generator, as points."""
    table = PrivateTable.open(train, task.schema)
    synthesis, _ = generate(table, make_config(method, options), budget, noise=make_noise(seed))
    return task.encode(synthesis.frame)


def without_noise(task: Task, rows: np.ndarray, points: int, seed: int) -> np.ndarray:
    """Support points of the training rows: by the usual procedure, or slices for mixed tables."""
    rng = np.random.default_rng(seed)
    return mixed_support_points(rows, points, task.metric.space, rng)


def compare(
    frame: pd.DataFrame, schema: Schema, size: float, levels: list[float], folds: int
) -> pd.DataFrame:
    """Mean error over folds, one row per mechanism and one column per eps."""
    task = Task(frame, schema)
    fold = np.random.default_rng(0).permutation(len(frame)) % folds
    errors: dict[tuple[str, float], list[float]] = {}
    for k in range(folds):
        train, rows, test = frame[fold != k], task.points[fold != k], task.points[fold == k]
        mean = float(task.design(rows)[1].mean())
        points = max(int(size * len(rows)), 5)
        fixed = {
            "full data": task.error(rows, test, mean),
            "support points, not private": task.error(
                without_noise(task, rows, points, k), test, mean
            ),
        }
        for eps in levels:
            budget = Budget(eps=eps, neighbours=Neighbours.REPLACE)
            chain = {"points": points, "chains": 1, "steps": 20_000, "burn": 5_000}
            gp = "support-points-gp"
            released = {
                "histogram": private(task, train, "histogram", budget, k, rows=points),
                "kme": private(task, train, "kme", budget, k, points=points),
                "kme, 200 points": private(task, train, "kme", budget, k),
                "MH, energy": private(
                    task, train, "support-points", budget, k, score="energy", **chain
                ),
                "MH, root-energy": private(task, train, "support-points", budget, k, **chain),
                "herding": private(task, train, "support-points-herding", budget, k, points=points),
                "gp": private(task, train, gp, budget, k, points=points),
                "gp, 200 points": private(task, train, gp, budget, k),
            }  # fmt: skip
            released["MH, paper"] = private(
                task, train, "support-points", budget, k, score="paper", **chain
            )
            found = {name: task.error(at, test, mean) for name, at in released.items()}
            for name, value in {**fixed, **found}.items():
                errors.setdefault((name, eps), []).append(value)
    table = pd.Series({key: np.median(values) for key, values in errors.items()}).unstack()
    order = [name for name, eps in errors if eps == levels[0]]
    return table.loc[order]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=float, nargs="+", default=[0.05, 0.1, 0.2])
    parser.add_argument("--eps", type=float, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--tables", nargs="+", default=["diabetes", "houses", "heart"])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.tables:
        frame, schema = tables()[name]
        for size in args.sizes:
            started = time.perf_counter()
            table = compare(frame, schema, size, args.eps, args.folds)
            print(f"\n{name}: {len(frame)} rows, {len(schema.names)} columns, points {size:.0%} of "
                  f"train ({time.perf_counter() - started:.0f} s)")  # fmt: skip
            print("| mechanism | " + " | ".join(f"eps {eps:g}" for eps in args.eps) + " |")
            print("|---" * (len(args.eps) + 1) + "|")
            for mechanism, row in table.iterrows():
                shown = " | ".join(f"{value:.2f}" for value in row[args.eps])
                print(f"| {mechanism} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
