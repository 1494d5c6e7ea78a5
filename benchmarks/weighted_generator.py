"""Do weighted losses undo a known bias? Importance weighted generators on thinned data.

    python benchmarks/weighted_generator.py --cache iw.jsonl --minutes 10
    python benchmarks/weighted_generator.py --cache iw.jsonl --summary

After the simulations of Diesendruck et al. 2018 (Table 3.2 of the 2019 dissertation). The target is
an even mixture of two normal clouds at -2 and 2 in every coordinate, truncated at five deviations.
10,000 rows of it are observed after thinning: a row stays with probability
0.95 / (1 + exp(-x)) + 0.05, x its first coordinate, so that most of the cloud at -2 is missing. The
exact ratio is 0.525 over that probability. A generator is trained by each loss and scheme, once
without weights, and once *conditionally*: it makes the other coordinates given the first, which is
drawn from the observed rows by weight. Estimated against 2,000 fresh rows of the target: energy
distance, and squared MMD with Gaussian kernels of widths 0.5, 1 and 2 times the square root of the
dimension; ``target`` is another fresh sample. Lower is better; 0 is the target.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist
from scipy.special import ndtri
from scipy.stats import truncnorm
from weighted_runs import EXIT_UNFINISHED, read, with_error

from marginalsyn.plugins.networks.weighted_generator import LOSSES, WeightedGenerator
from marginalsyn.plugins.networks.weighted_losses import SCHEMES, mmd

ROWS, FRESH = 10_000, 2_000
MEAN_KEPT = 0.525
METHODS = ("no weights", *SCHEMES, "duplication", "conditional")
MEASURES = ("energy", "mmd", "share")


def target(rows: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of the target."""
    centre = np.where(rng.random(rows) < 0.5, -2.0, 2.0)
    return centre[:, None] + truncnorm.rvs(-5, 5, size=(rows, dimension), random_state=rng)


def kept(rows: np.ndarray) -> np.ndarray:
    """The probability with which each row is observed."""
    return 0.95 / (1 + np.exp(-rows[:, 0])) + 0.05


def observe(rows: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Thinned rows of the target."""
    parts: list[np.ndarray] = []
    while sum(map(len, parts)) < rows:
        drawn = target(rows, dimension, rng)
        parts.append(drawn[rng.random(rows) < kept(drawn)])
    return np.concatenate(parts)[:rows]


def make(
    loss: str, method: str, rows: np.ndarray, weights: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Fresh rows of a generator trained on the observed ones."""
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    scaled = (rows - mean) / spread
    if method == "conditional":
        chosen = rng.choice(len(rows), FRESH, p=weights / weights.sum())
        return conditional(loss, scaled, chosen, rng) * spread + mean
    scheme = "self-normalised" if method == "no weights" else method
    own = np.ones(len(rows)) if method == "no weights" else weights
    trained = WeightedGenerator(loss=loss, scheme=scheme).fit(scaled, own, rng)
    return trained(FRESH, rng) * spread + mean


def conditional(
    loss: str, rows: np.ndarray, chosen: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The first coordinate of chosen rows, the others made by a network that is told it.

    It is told by its first latent number, a normal one with the same quantile.
    """
    how = WeightedGenerator(loss=loss)
    grid = np.linspace(0.5, len(rows) - 0.5, 512) / len(rows)
    normal, values = ndtri(grid), np.quantile(rows[:, 0], grid)

    def head(outputs: Any, _: Any, latent: Any) -> Any:
        first = jnp.interp(latent[:, 0], jnp.asarray(normal), jnp.asarray(values))
        return jnp.concatenate([first[:, None], outputs], axis=1)

    trained = how.fit(rows, np.ones(len(rows)), rng, head=head, outputs=rows.shape[1] - 1)
    latent = rng.normal(size=(len(chosen), how.latent))
    latent[:, 0] = np.interp(rows[chosen, 0], values, normal)
    made = trained(len(chosen), rng, latent)
    return np.column_stack([rows[chosen, 0], made])


def judge(made: np.ndarray, rng: np.random.Generator) -> list[float]:
    """Energy distance and squared MMD from fresh rows of the target; the share below 0."""
    rows = target(FRESH, made.shape[1], rng)
    n, m = len(made), len(rows)
    inside = cdist(made, made).sum() / (n * (n - 1)) + cdist(rows, rows).sum() / (m * (m - 1))
    widths = [width * made.shape[1] ** 0.5 for width in (0.5, 1.0, 2.0)]
    found = mmd(rows, np.ones(m), made, widths=widths, scheme="known")
    share = float((made.mean(axis=1) < 0).mean())
    return [float(2 * cdist(made, rows).mean() - inside), float(found), share]


def measure(args: argparse.Namespace) -> None:
    """Do the runs that the cache lacks until the minutes are over."""
    end = time.monotonic() + 60 * args.minutes
    done = {(r["dimension"], r["loss"], r["method"], r["run"]) for r in read(args.cache)}
    cells = [("", "target"), ("", "observed"), *itertools.product(LOSSES, METHODS)]
    for seed, dimension in itertools.product(range(args.runs), args.dimensions):
        rng = np.random.default_rng([seed, dimension])
        rows = observe(ROWS, dimension, rng)
        weights = MEAN_KEPT / kept(rows)
        for number, (loss, method) in enumerate(cells):
            if (dimension, loss, method, seed) in done:
                continue
            if time.monotonic() > end:
                sys.exit(EXIT_UNFINISHED)
            own = np.random.default_rng([seed, dimension, number])
            if method == "target":
                made = target(FRESH, dimension, own)
            elif method == "observed":
                made = rows[:FRESH]
            else:
                made = make(loss, method, rows, weights, own)
            line = {"dimension": dimension, "loss": loss, "method": method, "run": seed}
            with args.cache.open("a") as file:
                file.write(json.dumps({**line, "found": judge(made, own)}) + "\n")


def summarise(args: argparse.Namespace) -> None:
    """A Markdown table of means and standard errors."""
    lines = [
        {key: run[key] for key in ("dimension", "loss", "method", "run")}
        | dict(zip(MEASURES, run["found"], strict=True))
        for run in read(args.cache)
    ]
    print("| dimension | loss | method | runs | energy | MMD | share of the thinned cloud |")
    print("|---|---|---|---|---|---|---|")
    cells = pd.DataFrame(lines).groupby(["dimension", "loss", "method"], sort=False)
    for place, rows in sorted(cells, key=lambda cell: (cell[0][0], cell[0][1])):
        start = " | ".join([*map(str, place), str(len(rows))])
        found = [with_error(rows[name], 4) for name in MEASURES[:2]]
        print(f"| {start} | {' | '.join(found)} | {with_error(rows['share'], 3)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cache", type=Path, required=True, help="a file of JSON lines")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[2, 10])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=1e6, help="start nothing after these")
    parser.add_argument("--summary", action="store_true", help="print what the cache holds")
    args = parser.parse_args()
    summarise(args) if args.summary else measure(args)


if __name__ == "__main__":
    main()
