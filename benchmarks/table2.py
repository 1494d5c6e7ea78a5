"""Zhou et al. 2024, table 2: a linear model trained on releases, tested on real rows.

    python benchmarks/table2.py TABLE.csv DOMAIN.json LABEL --method aim --releases 10

For every eps it makes several releases under two protocols and prints mean and spread of accuracy,
AUC and log loss of scikit-learn's logistic regression on the test rows:

* ``paper``: synthesise the whole table, then test on 20% of the same rows (the rows that are tested
  were seen by the generator);
* ``honest``: split first, synthesise the 80%, test on the 20% that nothing has seen.

delta is 1/n^2 of the rows given to the generator, as in the paper.
"""

from __future__ import annotations

import argparse
import json
import warnings

import numpy as np
from measures import tstr
from tables import Coded, read_coded

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise

METRICS = ("accuracy", "auc", "loss")


def release(table: Coded, rows, method: str, options: dict, eps: float):
    """One release of ``rows``."""
    door = PrivateTable.open(rows.reset_index(drop=True), table.schema)
    budget = Budget(eps=eps, delta=1 / len(rows) ** 2, allow_large_delta=True)
    synthesis, _ = generate(door, make_config(method, options), budget, noise=make_noise())
    return synthesis.frame.astype(int)


def line(name: str, scores: list[dict[str, float]]) -> None:
    """Print mean and standard deviation of each metric."""
    parts = [
        f"{m} {np.mean([s[m] for s in scores]):.3f} +- {np.std([s[m] for s in scores]):.3f}"
        for m in METRICS
    ]
    print(f"{name:24s}" + "   ".join(parts), flush=True)


def main() -> None:
    """Run both protocols."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("domain")
    parser.add_argument("label")
    parser.add_argument("--method", default="aim")
    parser.add_argument("--options", default="{}")
    parser.add_argument("--bins", type=int, help="coarser public bins for wide columns")
    parser.add_argument("--eps", type=float, nargs="+", default=[0.25, 0.5, 1.0, 2.0])
    parser.add_argument("--releases", type=int, default=10)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    table = read_coded(args.table, args.domain, args.label, args.bins)
    options = json.loads(args.options)
    seeds = range(args.releases)
    splits = [table.split(seed) for seed in seeds]
    line("real", [tstr(train, test, args.label) for train, test in splits])
    for eps in args.eps:
        whole = [release(table, table.frame, args.method, options, eps) for _ in seeds]
        pairs = zip(whole, splits, strict=True)
        line(f"eps {eps:g}, paper", [tstr(syn, test, args.label) for syn, (_, test) in pairs])
        scores = [
            tstr(release(table, train, args.method, options, eps), test, args.label)
            for train, test in splits
        ]
        line(f"eps {eps:g}, honest", scores)


if __name__ == "__main__":
    main()
