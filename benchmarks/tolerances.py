"""How long the last fit of ``auto`` goes on, and what that is worth.

    python benchmarks/tolerances.py --tables telco adult --eps 1 4 --runs 2

For every tolerance the processor seconds of a release, its mean two-way total variation and the
excess log loss of a logistic regression: means over the same splits and the same noise.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from tables.cases import bundled
from tables.judging import loss, real_loss, variation

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.generators import clique_tree
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.table.design import CodedRows

TOLERANCES = (1e-3, 1e-2, 5e-2)


def one(name: str, split: int, eps: float) -> tuple[float, float, float]:
    """Seconds, error and excess of one release."""
    case = bundled(name, split)
    began = time.process_time()
    table = PrivateTable.open(case.train, case.schema)
    budget = Budget(eps=eps, delta=case.delta)
    made, _ = generate(table, make_config("auto", {}), budget, noise=make_noise(70 + split))
    seconds = time.process_time() - began
    rows = CodedRows.of(made.frame, case.schema)
    excess = loss(case, rows, "linear") - real_loss(case, "linear")
    return seconds, variation(case, case.codec.encode(made.frame), 2), excess


def main() -> None:
    """Print one row for every table, budget and tolerance."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=["telco", "adult"])
    parser.add_argument("--eps", nargs="+", type=float, default=[1, 4])
    parser.add_argument("--runs", type=int, default=2)
    args = parser.parse_args()
    fit = clique_tree.fit_model
    print("| table | eps | tolerance | cpu s | two-way TV | linear, excess |")
    print("|---|---|---|---|---|---|")
    for name in args.tables:
        for eps in args.eps:
            for tolerance in TOLERANCES:
                clique_tree.fit_model = partial(fit, tolerance=tolerance)
                found = np.mean([one(name, split, eps) for split in range(args.runs)], axis=0)
                print(f"| {name} | {eps:g} | {tolerance:g} | {found[0]:.1f} | {found[1]:.4f} | "
                      f"{found[2]:.4f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
