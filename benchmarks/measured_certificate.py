"""How near measured certificates are to the truth, and how often they miss it.

python benchmarks/measured_certificate.py
python benchmarks/measured_certificate.py --dataset heart

A release is made at eps 1 once. Tables are drawn from the bundled one; of each the true excess of
the release's model is computed, and certified many times with the exact discrete noise that
`certify --measured` draws. A miss is an upper bound below the truth, or a lower one above it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from marginalsyn import Budget, PrivateTable, Release, datasets, make_noise
from marginalsyn.certificates.excess_plan import MeasuredPlan, steps_of_rows, true_excess
from marginalsyn.certificates.measured import fitted
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.table.design import CodedRows

KINDS = [(1e-2, None, False), (1e-3, None, False), (1e-4, None, False)]
KINDS += [(1e-4, 5.0, False), (1e-6, 5.0, True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="adult")
    parser.add_argument("--method", default="aim")
    parser.add_argument("--eps", type=float, default=0.3)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--draws", type=int, default=1000, help="certificates of each table")
    args = parser.parse_args()
    schema, frame = datasets.schema(args.dataset), datasets.load(args.dataset).train
    made = generate(
        PrivateTable.open(frame, schema),
        make_config(args.method, {}),
        Budget(eps=1.0),
        noise=make_noise(1),
    )
    rng, noise = np.random.default_rng(7), make_noise(11)
    print(
        f"{args.dataset}, {len(frame):,} rows, `{args.method}` at eps 1, certified at eps "
        f"{args.eps:g} with confidence .95: {args.tables} tables, {args.draws:,} certificates\n"
    )
    print(
        "| ridge | within | neighbours | true excess | upper, median | 95% quantile "
        "| lower, median | misses above | below | no information | s a table |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        release = Release.write(made[0], schema, made[1], Path(folder) / "release")
        for ridge, within, free in KINDS:
            model = fitted(release, ridge=ridge, within=within, free=free)
            found: dict[Neighbours, list[np.ndarray]] = {r: [] for r in Neighbours}
            truths, seconds = [], 0.0
            for _ in range(args.tables):
                rows = CodedRows.of(frame.iloc[rng.integers(0, len(frame), len(frame))], schema)
                start = time.process_time()
                steps = steps_of_rows(model, rows.units)
                seconds += time.process_time() - start
                truths.append(true_excess(model, rows))
                count = int(model.problem.labels(rows.units)[1].sum())
                for relation in Neighbours:
                    own = Budget(eps=args.eps, neighbours=relation)
                    plan = MeasuredPlan(model, relation, own.rho)
                    draws = noise.gaussian(np.full(args.draws, steps), plan.sigma)
                    counts = np.full(args.draws, count)
                    if plan.buys_rows:
                        counts = noise.gaussian(counts, plan.rows_sigma)
                    bounds = [
                        plan.bounds(int(k), int(n)) for k, n in zip(draws, counts, strict=True)
                    ]
                    ends = [
                        [np.nan if b[end] is None else b[end] for end in ("lower", "upper")]
                        for b in bounds
                    ]
                    found[relation].append(np.array(ends, dtype=float))
            for relation, tables in found.items():
                ends = np.array(tables)
                truth = np.array(truths)[:, None]
                upper = np.where(np.isnan(ends[..., 1]), np.inf, ends[..., 1])
                silent = np.isnan(ends[..., 1]).mean()
                print(
                    f"| {ridge:g} | {within or 'all'}{', free intercept' if free else ''} "
                    f"| {relation.value} | {np.mean(truths):.5f} | {np.median(upper):.5f} "
                    f"| {np.quantile(upper, 0.95, method='higher'):.5f} "
                    f"| {np.nanmedian(ends[..., 0]):.5f} "
                    f"| {(upper < truth).mean():.4f} | {(ends[..., 0] > truth).mean():.4f} "
                    f"| {silent:.3f} | {seconds / args.tables:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
