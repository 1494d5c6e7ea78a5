"""All small marginals of Adult, weighted: ours, and through mbi's ``Dataset.project``, in one run.

    python benchmarks/evaluate_marginals.py --degree 3
    python benchmarks/evaluate_marginals.py --degree 4 --peer-share 0.05

Compares the train part with a bootstrap sample of it that has random weights. mbi computes both
tables' marginals, then the l1 norm; with ``--peer-share`` it gets a random part of the workload and
its time is scaled up. Prints wall seconds, peak memory, and the largest difference of an error.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
import pandas as pd
from measures import peak_mb

from marginalsyn import datasets
from marginalsyn.plugins.reports.marginal_errors import marginal_errors
from marginalsyn.table.codec import Codec


def main() -> None:
    """Time ours, then mbi's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="adult")
    parser.add_argument("--degree", type=int, default=3)
    parser.add_argument("--peer-share", type=float, default=1.0)
    args = parser.parse_args()
    table = datasets.load(args.dataset)
    real = Codec(table.schema).encode(table.train)
    rng = np.random.default_rng(0)
    synthetic = real[rng.integers(0, len(real), len(real))]
    weights = rng.gamma(2.0, 1.0, len(real))
    domain = table.schema.domain
    # One tiny call compiles the kernel; a compiled one is cached on the disk.
    marginal_errors(real[:2], real[:2], domain, degree=1)
    started = time.perf_counter()
    ours = marginal_errors(real, synthetic, domain, degree=args.degree, second_weights=weights)
    seconds = time.perf_counter() - started
    print(
        f"{args.dataset}: {len(real):,} rows, {len(domain)} columns, {len(ours):,} marginals of up "
        f"to {args.degree} columns"
    )
    print(f"ours       {seconds:8.2f} s   peak memory of the process {peak_mb():.0f} MB")

    from mbi import Dataset, Domain

    names = list(domain)
    shape = Domain(names, list(domain.values()))
    one = Dataset(pd.DataFrame(real, columns=names), shape)
    two = Dataset(pd.DataFrame(synthetic, columns=names), shape, weights)
    every = [q for k in range(1, args.degree + 1) for q in itertools.combinations(names, k)]
    some = [q for q in every if rng.random() < args.peer_share] or every[:1]
    worst = 0.0
    started = time.perf_counter()
    for q in some:
        x, y = (np.asarray(d.project(q).datavector()) for d in (one, two))
        worst = max(worst, abs(float(np.abs(x / x.sum() - y / y.sum()).sum()) - ours[q]))
    theirs = (time.perf_counter() - started) * len(every) / len(some)
    told = "" if len(some) == len(every) else f" (scaled up from {len(some)})"
    print(f"mbi        {theirs:8.2f} s{told}   largest difference of an error {worst:.1e}")
    print(f"ratio      {theirs / seconds:8.1f}")


if __name__ == "__main__":
    main()
