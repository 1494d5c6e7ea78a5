"""Energy distance to the data that every support-point mechanism reaches at equal rho.

    python benchmarks/support_points_energy.py [--seeds 4] [--only d=2]

Data: mixtures of three Gaussians clipped to the unit cube, one per seed. Every mechanism spends the
same rho (the exponential mechanism with Metropolis-Hastings: eps = sqrt(8 rho), its bounded-range
price). Neighbours: replace one row, so that the number of rows is public for everybody; the column
"add-remove" is the recommended mechanism under the other relation, its count of rows included.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.plugins.points.energy import distance_matrix, energy_distance, total_potential
from marginalsyn.plugins.points.fitting import descend
from marginalsyn.plugins.points.metric import PointSpace
from marginalsyn.plugins.points.point_generator import candidates
from marginalsyn.plugins.points.support import support_points
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.noise import make_noise
from marginalsyn.table.numeric import ContinuousColumn
from marginalsyn.table.schema import Schema

REPLACE, ADD_REMOVE = Neighbours.REPLACE, Neighbours.ADD_REMOVE
SETTINGS = [  # dimension, rows, rho, points
    (2, 1000, 0.01, 50),
    (2, 1000, 0.1, 50),
    (2, 1000, 0.1, 200),
    (5, 1000, 0.05, 100),
    (2, 200, 0.05, 50),
]


def mixture(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    """Three round clusters of different sizes."""
    centres = rng.uniform(0.2, 0.8, (3, dimension))
    widths = rng.uniform(0.03, 0.12, (3, 1))
    member = rng.choice(3, rows, p=rng.dirichlet(np.full(3, 5.0)))
    noise = rng.standard_normal((rows, dimension))
    return np.clip(centres[member] + widths[member] * noise, 0.0, 1.0)


def released(
    rows: np.ndarray, method: str, budget: Budget, seed: int, **options: object
) -> np.ndarray:
    """The points of a generator, through the whole of the library."""
    names = [f"x{i}" for i in range(rows.shape[1])]
    schema = Schema(columns=tuple(ContinuousColumn(name=n, lower=0, upper=1) for n in names))
    table = PrivateTable.open(pd.DataFrame(rows, columns=names), schema)
    synthesis, _ = generate(table, make_config(method, options), budget, noise=make_noise(seed))
    return synthesis.frame.to_numpy()


def herded_from(potentials: np.ndarray, places: np.ndarray, points: int, seed: int) -> np.ndarray:
    """Points of least energy to (noisy) potentials on candidates, by coordinate descent."""
    rng, apart = np.random.default_rng(seed), distance_matrix(places, places)
    indices = rng.integers(0, len(places), points)
    descend(potentials, apart, indices, 100)
    return places[indices]


def iid_potentials(rows: np.ndarray, rho: float, points: int, seed: int) -> np.ndarray:
    """Independent noise on every candidate's potential: the sensitivity grows with their number."""
    places = candidates(PointSpace.cube(rows.shape[1]), 1024)
    reach = math.sqrt(len(places) * rows.shape[1]) / len(rows)
    noise = np.random.default_rng(seed).normal(0, reach / math.sqrt(2 * rho), len(places))
    found = total_potential(rows, places) / len(rows) + noise
    return herded_from(found, places, points, seed)


def histogram(rows: np.ndarray, rho: float, points: int, seed: int, bins: int = 10) -> np.ndarray:
    """Support points of a noisy histogram's (clipped) cell centres."""
    rng, dimension = np.random.default_rng(seed), rows.shape[1]
    counts, _ = np.histogramdd(rows, bins=bins, range=[(0, 1)] * dimension)
    noisy = counts.ravel() + rng.normal(0, math.sqrt(2 / (2 * rho)), counts.size)
    mass = np.maximum(noisy, 0.0)
    axes = np.meshgrid(*[(np.arange(bins) + 0.5) / bins] * dimension, indexing="ij")
    centres = np.stack(axes, axis=-1).reshape(-1, dimension)
    apart = distance_matrix(centres, centres)
    indices = rng.choice(len(centres), points, p=mass / mass.sum())
    descend(apart @ (mass / mass.sum()), apart, indices, 100)
    return centres[indices]


def reached(dimension: int, count: int, rho: float, points: int, seed: int) -> dict[str, float]:
    """Energy of every mechanism on one data set."""
    rng = np.random.default_rng(seed)
    rows = mixture(rng, count, dimension)
    replace = Budget.of_rho(rho, neighbours=REPLACE)
    pure = Budget(eps=math.sqrt(8 * rho), neighbours=REPLACE)
    chain = {"points": points, "steps": 20_000, "burn": 5_000, "chains": 1}
    found = {
        "non-private": support_points(rows, points, rng, starts=2),
        "subsample": rows[rng.integers(0, count, points)],
        "uniform": rng.random((points, dimension)),
        "paper": released(rows, "support-points", pure, seed, score="paper", **chain),
        "energy": released(rows, "support-points", pure, seed, score="energy", **chain),
        "root-energy": released(rows, "support-points", pure, seed, **chain),
        "herding": released(rows, "support-points-herding", replace, seed, points=points),
        "iid potentials": iid_potentials(rows, rho, points, seed),
    }
    if dimension == 2:
        found["histogram"] = histogram(rows, rho, points, seed)
        found["gp field"] = released(
            rows, "support-points-gp", replace, seed, points=points, form="field"
        )
    found["gp slices"] = released(
        rows, "support-points-gp", replace, seed, points=points, form="slices"
    )
    both = Budget.of_rho(rho, neighbours=ADD_REMOVE)
    found["gp, add-remove"] = released(rows, "support-points-gp", both, seed, points=points)
    return {name: energy_distance(rows, at) for name, at in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--only", default="", help="settings that contain this text")
    args = parser.parse_args()
    for dimension, count, rho, points in SETTINGS:
        label = f"d={dimension}, N={count}, rho={rho}, n={points}"
        if args.only not in label:
            continue
        started = time.perf_counter()
        runs = [reached(dimension, count, rho, points, seed) for seed in range(args.seeds)]
        mean = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
        print(f"\n{label}  ({args.seeds} data sets, {time.perf_counter() - started:.0f} s)")
        print("| mechanism | energy | over non-private |\n|---|---|---|")
        for name, value in mean.items():
            print(f"| {name} | {value:.5f} | {value / mean['non-private']:.1f} |")


if __name__ == "__main__":
    main()
