"""Weights where the truth is known: a uniform square as synthetic rows, a triangle as real ones.

    python benchmarks/weights_toy.py --runs 5 --sizes 1000 10000 --picture toy.png

Real rows are uniform below the diagonal of the unit square, synthetic ones uniform on all of it,
so that the true weight is 2 below and 0 above. Prints the mean squared error of the weights and of
their logarithms (both floored at log 0.05), the share of the weight above the diagonal, and the
effective share of rows; then what debiasing does to un-normalised weights, next to its theory.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_weights
from marginalsyn.host import weigh
from marginalsyn.operations.other_rows import adopt_rows
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.table.codec import Codec
from marginalsyn.table.features import Features
from marginalsyn.table.numeric import ContinuousColumn
from marginalsyn.table.schema import Schema
from marginalsyn.weights.coefficients import LAWS, CoefficientNoise
from marginalsyn.weights.processing import effective_size

BINS = 32
FLOOR = np.log(0.05)
SCHEMA = Schema(
    columns=tuple(ContinuousColumn(name=n, lower=0, upper=1, bins=BINS) for n in ("x", "y"))
)
METHODS = {
    "none": {},
    "logreg (not private)": {},
    "mlp (not private)": {},
    "beta-noised": {},
    "beta-debiased": {},
    "output-gaussian": {},
    "output-laplace": {},
    "dp-mlp": {},
}


def square(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(rng.random((rows, 2)), columns=["x", "y"])


def triangle(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    points = rng.random((rows, 2))
    return pd.DataFrame({"x": points.max(axis=1), "y": points.min(axis=1)})


def truth(frame: pd.DataFrame) -> np.ndarray:
    """The true weight of every row's cell."""
    codes = Codec(SCHEMA).encode(frame)
    return np.where(codes[:, 0] > codes[:, 1], 2.0, np.where(codes[:, 0] == codes[:, 1], 1.0, 0.0))


def run(method: str, rows: int, eps: float, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """The synthetic rows of one run and their weights."""
    rng = np.random.default_rng(seed)
    table = PrivateTable.open(triangle(rows, rng), SCHEMA)
    with tempfile.TemporaryDirectory() as folder:
        release = adopt_rows(square(rows, rng), SCHEMA, Path(folder) / "square")
        weighted = weigh(
            release,
            make_weights(method.split()[0], METHODS[method]),
            Budget(eps=eps),
            table,
            noise=make_noise(seed),
            non_private=True,
        )
        return release.frame(), weighted.weights


def judge(frame: pd.DataFrame, weights: np.ndarray) -> list[float]:
    right = truth(frame)
    logs, wanted = (np.log(np.maximum(w, np.exp(FLOOR))) for w in (weights, right))
    above = frame["y"].to_numpy() > frame["x"].to_numpy()
    return [
        float(np.mean((weights - right) ** 2)),
        float(np.mean((logs - wanted) ** 2)),
        float(weights[above].sum() / weights.sum()),
        effective_size(weights) / len(weights),
    ]


def show_toy(args: argparse.Namespace) -> None:
    print("| rows | method | MSE of weights | MSE of log-weights | weight above | effective |")
    print("|---|---|---|---|---|---|")
    for rows in args.sizes:
        for method in METHODS:
            found = np.array(
                [judge(*run(method, rows, args.eps, seed)) for seed in range(args.runs)]
            )
            mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(max(args.runs - 1, 1))
            cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]
            print(f"| {rows:,} | {method} | {' | '.join(cells)} |", flush=True)


def show_debiasing(args: argparse.Namespace, rows: int = 200, draws: int = 20_000) -> None:
    """Un-normalised weights over those of the same regression without noise, which is 1."""
    rng = np.random.default_rng(0)
    features = Features(SCHEMA)
    x = features.of_codes(Codec(SCHEMA).encode(square(rows, rng)))
    print("\n| noise | penalty | noised: bias | MSE | theory | debiased: bias | MSE | theory |")
    print("|---|---|---|---|---|---|---|---|")
    for law in LAWS:
        for penalty in (10.0, 40.0):
            noise = CoefficientNoise(
                law=law,
                dim=features.width,
                l2=features.radius / penalty,
                budget=Budget(eps=args.eps),
            )
            one, two = noise.log_moment(x), noise.log_moment(2 * x)
            plain = np.exp(draw(noise, draws, rng) @ x.T)
            theories = [np.exp(two) - 2 * np.exp(one) + 1, np.expm1(two - 2 * one)]
            cells = []
            for found, theory in zip((plain, plain * np.exp(-one)), theories, strict=True):
                cells += [
                    f"{np.mean(found.mean(axis=0) - 1):+.3f}",
                    f"{np.mean((found - 1) ** 2):.3f}",
                    f"{np.mean(theory):.3f}",
                ]
            print(f"| {law} | {penalty:g} | {' | '.join(cells)} |")


def draw(noise: CoefficientNoise, draws: int, rng: np.random.Generator) -> np.ndarray:
    if noise.law == "gaussian":
        return rng.normal(0, noise.scale, (draws, noise.dim))
    if noise.law == "laplace":
        return rng.laplace(0, noise.scale, (draws, noise.dim))
    z = rng.standard_normal((draws, noise.dim))
    radius = rng.gamma(noise.dim, noise.scale, draws) / np.linalg.norm(z, axis=1)
    return z * radius[:, None]


def paint(args: argparse.Namespace, rows: int = 10_000) -> None:
    """The density of the weighted synthetic rows, method by method."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    shown = ["none", "logreg (not private)", "mlp (not private)"]
    shown += ["beta-noised", "beta-debiased", "dp-mlp"]
    figure, axes = plt.subplots(2, 4, figsize=(11, 5.8), sharex=True, sharey=True)
    panels: list[tuple[str, pd.DataFrame, np.ndarray]] = []
    real = triangle(rows, np.random.default_rng(0))
    panels.append(("real rows", real, np.ones(rows)))
    for method in shown:
        name = "synthetic rows" if method == "none" else method
        panels.append((name, *run(method, rows, args.eps, 0)))
    for axis, (name, frame, weights) in zip(axes.flat, panels, strict=False):
        axis.hist2d(
            frame["x"],
            frame["y"],
            bins=24,
            range=[[0, 1], [0, 1]],
            weights=weights,
            cmap="viridis",
            vmin=0,
            vmax=3 * rows / 24**2,
        )
        axis.plot([0, 1], [0, 1], color="white", linewidth=0.8)
        axis.set_title(name, fontsize=10)
        axis.set_aspect("equal")
    axes.flat[-1].set_axis_off()
    title = f"{rows:,} rows, eps {args.eps:g} for the weights; bright where there is most weight"
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    figure.savefig(args.picture, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 10_000, 100_000])
    parser.add_argument("--eps", type=float, default=1.0)
    parser.add_argument("--picture")
    args = parser.parse_args()
    if args.sizes:
        show_toy(args)
        show_debiasing(args)
    if args.picture:
        paint(args)


if __name__ == "__main__":
    main()
