"""The price of Gaussian noise in mu compared with that in zCDP: the noise, and the error of `auto`.

    python benchmarks/price.py --tables telco german --eps 1 2 --releases 5

First the ratio of sigma for one statement (eps, delta), new over old, and what that is worth in
rho. Then, on bundled tables, the mean two-way total variation of releases of the train rows with
either price, over the same seeds, and the ratio of the two; delta is 1e-9 or as given. The old
price is that of runs of earlier versions that go on: a budget in rho, with discrete noise.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from measures import two_way_tv

from marginalsyn import datasets
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.gdp import mu_of
from marginalsyn.privacy.noise import make_noise
from marginalsyn.privacy.zcdp import rho_of
from marginalsyn.table.design import CodedRows

EPS = (0.1, 0.5, 1.0, 2.0, 4.0, 10.0)
DELTAS = (1e-9, 1e-7, 1e-5)


def ratios() -> None:
    """Print what the same statement buys."""
    print("delta    eps   mu        sigma new/old  rho gained")
    for delta in DELTAS:
        for eps in EPS:
            mu, rho = mu_of(eps, delta), rho_of(eps, delta)
            gain = mu**2 / 2 / rho - 1
            print(
                f"{delta:g}  {eps:5g}  {mu:.6f}  {math.sqrt(2 * rho) / mu:.4f}         {gain:.1%}"
            )


def error(data, method: str, budget: Budget, seed: int) -> float:
    """The mean two-way total variation of one release."""
    table = PrivateTable.open(data.train, data.schema)
    made, _ = generate(table, make_config(method), budget, noise=make_noise(seed))
    real, synthetic = (CodedRows.of(rows, data.schema) for rows in (data.train, made.frame))
    return two_way_tv(real.codes, synthetic.codes, data.schema.domain)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", default=["telco", "german"])
    parser.add_argument("--eps", nargs="*", type=float, default=[1.0, 2.0])
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--releases", type=int, default=5)
    parser.add_argument("--method", default="auto")
    args = parser.parse_args()
    ratios()
    print(
        f"\ntwo-way total variation of {args.method}, {args.releases} releases, "
        f"delta {args.delta:g}"
    )
    print("table   eps   old price        new price        new/old")
    for name in args.tables:
        data = datasets.load(name)
        for eps in args.eps:
            new = Budget(eps=eps, delta=args.delta, allow_large_delta=True)
            found = np.array(
                [
                    [error(data, args.method, budget, seed) for budget in (new.in_rho, new)]
                    for seed in range(args.releases)
                ]
            )
            (old, now), spread = found.mean(axis=0), found.std(axis=0, ddof=1)
            sides = "  ".join(
                f"{mean:.5f} +- {sd:.5f}" for mean, sd in zip((old, now), spread, strict=True)
            )
            print(f"{name:7} {eps:4g}  {sides}  {now / old:.3f}", flush=True)


if __name__ == "__main__":
    main()
