"""Fit two fixed structures with marginalsyn and with Private-PGM (mbi) in one run; print ratios.

The table is made here: columns of Adult's sizes that depend on their neighbours. Both sides get the
same noisy marginals and use double precision. mbi compiles anew for every structure; its compile
time is what one step takes, and is told apart. Run it with one or two cores to itself:

    python benchmarks/pgm_speed.py [--iters 1000] [--sigma 50] [--seed 0]
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence

import numpy as np

from marginalsyn.contract import Measurement
from marginalsyn.graphical.model import Fitted, fit, model_mb
from marginalsyn.graphical.private_pgm import fit_mbi

SIZES = (74, 9, 77, 16, 7, 15, 6, 5, 2, 23, 48, 96, 42, 2)
DOMAIN = {f"x{i}": size for i, size in enumerate(SIZES)}
ROWS = 40_000
Pair = tuple[str, ...]


def make_codes(rng: np.random.Generator) -> np.ndarray:
    """Rows whose columns are binned, shifted copies of two common normal factors."""
    factors = rng.normal(size=(ROWS, 2))
    columns = []
    for size in SIZES:
        mix = rng.normal(size=2)
        score = factors @ mix + rng.normal(size=ROWS)
        edges = np.quantile(score, np.sort(rng.beta(0.7, 0.7, size - 1)))
        columns.append(np.searchsorted(edges, score))
    return np.column_stack(columns)


def make_structures(rng: np.random.Generator) -> dict[str, list[Pair]]:
    """A tree of 13 pairs over all columns, and the same with 12 more pairs below 20 MB."""
    names = list(DOMAIN)
    tree: list[Pair] = [(names[int(rng.integers(i))], names[i]) for i in range(1, len(names))]
    looped = list(tree)
    rest = [pair for pair in itertools.combinations(names, 2) if pair not in tree]
    for i in rng.permutation(len(rest)):
        if len(looped) < 25 and model_mb(DOMAIN, [*looped, rest[i]]) < 20:
            looped.append(rest[i])
    return {"tree": tree, "loops": looped}


def measure(
    codes: np.ndarray, cliques: Sequence[Pair], sigma: float, rng: np.random.Generator
) -> list[Measurement]:
    """Noisy counts of every column and every pair."""
    names = list(DOMAIN)
    found = []
    for clique in [*((name,) for name in names), *cliques]:
        shape = tuple(DOMAIN[name] for name in clique)
        index = np.ravel_multi_index(tuple(codes[:, names.index(c)] for c in clique), shape)
        counts = np.bincount(index, minlength=int(np.prod(shape))).reshape(shape)
        found.append(Measurement(clique, counts + np.rint(rng.normal(0, sigma, shape)), sigma))
    return found


def timed(call: Callable[[], Fitted], repeats: int = 1) -> tuple[float, Fitted]:
    """The least wall time of some calls, and the last result."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - start)
    return best, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iters", type=int, default=1000, help="mbi's steps of mirror descent")
    parser.add_argument("--sigma", type=float, default=50.0, help="noise of every count")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    codes = make_codes(rng)
    fit_mbi({"a": 2}, [Measurement(("a",), np.ones(2), 1.0)], 2, iters=1)  # jax's own start
    pairs = list(itertools.combinations(DOMAIN, 2))
    for name, cliques in make_structures(rng).items():
        measured = measure(codes, cliques, options.sigma, rng)
        print(f"{name}: {len(cliques)} pairs, {model_mb(DOMAIN, cliques):.2f} MB")
        ours, model = timed(lambda m=measured: fit(DOMAIN, m, total=ROWS), repeats=3)
        exact, tight = timed(
            lambda m=measured: fit(DOMAIN, m, total=ROWS, tolerance=1e-5, max_iters=10_000)
        )
        compiled, _ = timed(lambda m=measured: fit_mbi(DOMAIN, m, ROWS, iters=1))
        theirs, reference = timed(lambda m=measured: fit_mbi(DOMAIN, m, ROWS, iters=options.iters))
        print(f"  marginalsyn  {ours:8.3f} s  loss {model.loss:10.1f}  {model.iterations} steps")
        print(f"    tight fit  {exact:8.3f} s  loss {tight.loss:10.1f}  {tight.iterations} steps")
        print(f"  mbi          {theirs:8.3f} s  loss {reference.loss:10.1f}  {options.iters} steps")
        print(f"    of that {compiled:.3f} s to compile and take one step")
        print(
            f"  ratio mbi / marginalsyn: {theirs / ours:.1f} in all, "
            f"{max(0.0, theirs - compiled) / ours:.1f} without compiling"
        )
        asked, _ = timed(lambda m=model: (m.marginals(pairs), m)[1])
        drawn, _ = timed(lambda m=model: (m.rows(ROWS, rng), m)[1])
        print(f"  all {len(pairs)} pairs {asked:.3f} s, {ROWS} rows {drawn:.3f} s")
        start = time.perf_counter()
        for pair in pairs:
            model_mb(DOMAIN, [*cliques, pair])
        print(f"  size with each pair added {(time.perf_counter() - start) / len(pairs):.2e} s")


if __name__ == "__main__":
    main()
