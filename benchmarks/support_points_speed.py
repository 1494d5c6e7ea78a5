"""How fast the support-point machinery is, against plain numpy, and how it grows with the rows.

python benchmarks/support_points_speed.py
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator

import numpy as np

from marginalsyn import datasets
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.plugins.points.fitting import Field
from marginalsyn.plugins.points.point_generator import candidates
from marginalsyn.plugins.points.slices import public_slices
from marginalsyn.plugins.points.walks import (
    CandidateWalk,
    RandomWalk,
    make_candidate_law,
    make_law,
)
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.noise import make_noise
from marginalsyn.table.energy import potential, stream_potential
from marginalsyn.table.metric import PointSpace


def per_second(run: Callable[[int], object], count: int) -> float:
    """Steps per second of the better of three runs, the code compiled beforehand."""
    run(max(count // 100, 1))
    best = np.inf
    for _ in range(3):
        started = time.perf_counter()
        run(count)
        best = min(best, time.perf_counter() - started)
    return count / best


def numpy_steps(rows: np.ndarray, points: np.ndarray, count: int) -> None:
    """What one writes first: both energies of the moved point against all data, in numpy."""
    rng, n = np.random.default_rng(0), len(points)
    for _ in range(count):
        j = rng.integers(n)
        moved = np.clip(points[j] + 0.1 * rng.standard_normal(points.shape[1]), 0, 1)
        heights = []
        for at in (points[j], moved):
            near = np.linalg.norm(rows - at, axis=1).mean()
            own = np.linalg.norm(np.delete(points, j, axis=0) - at, axis=1).sum()
            heights.append(2 / n * near - 2 / n**2 * own)
        if np.log(rng.random()) < -100.0 * (heights[1] - heights[0]):
            points[j] = moved


def careful_steps(rows: np.ndarray, points: np.ndarray, count: int) -> None:
    """The same with the old point's potential kept and the distances as one matrix product."""
    rng, n = np.random.default_rng(0), len(points)
    squares = np.einsum("ij,ij->i", rows, rows)
    kept = [np.sqrt(np.maximum(squares - 2 * rows @ y + y @ y, 0)).mean() for y in points]
    for _ in range(count):
        j = rng.integers(n)
        moved = np.clip(points[j] + 0.1 * rng.standard_normal(points.shape[1]), 0, 1)
        near = np.sqrt(np.maximum(squares - 2 * rows @ moved + moved @ moved, 0)).mean()
        others = np.delete(points, j, axis=0)
        own = np.linalg.norm(others - moved, axis=1) - np.linalg.norm(others - points[j], axis=1)
        change = 2 / n * (near - kept[j]) - 2 / n**2 * own.sum()
        if np.log(rng.random()) < -100.0 * change:
            points[j], kept[j] = moved, near


def steps() -> None:
    """Metropolis-Hastings at N = 48,842, d = 14, n = 100, and on cached candidates."""
    rng = np.random.default_rng(0)
    rows, points = rng.random((48_842, 14)), rng.random((100, 14))
    plain = per_second(lambda n: numpy_steps(rows, points.copy(), n), 60)
    careful = per_second(lambda n: careful_steps(rows, points.copy(), n), 600)
    # Only the target's constant needs all pairs; it does not change the cost of a step.
    walk = RandomWalk(make_law(rows, coefficient=100.0, root=True, offset=1.5), 100)
    start = walk.at(points)
    ours = per_second(lambda n: walk.step(np.random.default_rng(0), start, n, 100.0, 0.1), 10_000)
    places = candidates(PointSpace.cube(14), 1024)
    on_places = CandidateWalk(make_candidate_law(places, potential(rows, places)), 100)
    first = on_places.at(np.arange(100))
    cached = per_second(lambda n: on_places.step(np.random.default_rng(0), first, n, 1e4), 500_000)
    print(
        "N = 48,842, d = 14, n = 100; one thread\n| chain | steps/s | over numpy |\n|---|---|---|"
    )
    for name, rate in (
        ("plain numpy", plain),
        ("careful numpy", careful),
        ("compiled random walk", ours),
        ("cached potentials, 1,024 candidates", cached),
    ):
        print(f"| {name} | {rate:,.0f} | {rate / plain:,.0f} |")


def stream(count: int, dimension: int) -> Iterator[np.ndarray]:
    """Rows made on the fly, so that memory shows what the measurement itself takes."""
    rng = np.random.default_rng(0)
    for first in range(0, count, 65_536):
        yield rng.random((min(65_536, count - first), dimension))


def growth() -> None:
    """One pass: the time of a measurement grows with the rows, the memory does not."""
    flat, mixed = Field(PointSpace.cube(2), 32), PointSpace.cube(6)
    slices = public_slices(mixed, None, 24, np.random.default_rng(0))
    places = candidates(mixed, 1024)
    measures: dict[str, Callable[[int], object]] = {
        "field, d = 2": lambda n: flat.measure(stream(n, 2)),
        "slices, d = 6": lambda n: slices.measure(stream(n, 6)),
        "1,024 potentials, d = 6": lambda n: stream_potential(stream(n, 6), places),
        "(making the rows, d = 6)": lambda n: sum(len(batch) for batch in stream(n, 6)),
    }
    print("\n| seconds for N rows | 10^4 | 10^5 | 10^6 | peak MB before, after |")
    print("|---|---|---|---|---|")
    for name, measure in measures.items():
        measure(100)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        seconds = []
        for count in (10**4, 10**5, 10**6):
            started = time.perf_counter()
            measure(count)
            seconds.append(time.perf_counter() - started)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        shown = " | ".join(f"{s:.2f}" for s in seconds)
        print(f"| {name} | {shown} | {before:.0f}, {after:.0f} |")


def adult() -> None:
    """The whole of a run on bundled Adult, its numeric columns and all of them."""
    data = datasets.load("adult")
    numeric = [column.name for column in data.schema.columns if column.numeric]
    print("\n| bundled Adult (train) | columns | seconds |\n|---|---|---|")
    for method in ("support-points-gp", "support-points-herding", "support-points"):
        for schema in (data.schema.select(numeric), data.schema):
            table = PrivateTable.open(data.train[schema.names], schema)
            config = make_config(method, {"rows": len(data.train)})
            started = time.perf_counter()
            generate(table, config, Budget(eps=1), noise=make_noise())
            seconds = time.perf_counter() - started
            print(f"| {method} | {len(schema.names)} | {seconds:.1f} |")


def main() -> None:
    print(f"{os.cpu_count()} cores, {Neighbours.ADD_REMOVE}\n")
    steps()
    growth()
    adult()


if __name__ == "__main__":
    main()
