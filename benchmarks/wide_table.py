"""Wide tables: writes a made-up one, or runs generators on a survey made of Adult, in one run.

    python benchmarks/wide_table.py 50 50000 wide.csv wide.json
    python benchmarks/wide_table.py 200 50000 --methods independent mst aim auto --eps 1

Without files the table is a survey: blocks of Adult's columns, each of whose rows is that of the
block before or, in two of five cases, another row of Adult; and of each answer one in seven is
another person's. Every method runs in a process of its own. A line gives processor seconds and peak
memory of the generation, both as predicted by ``--dry-run`` too, the mean two-way total variation
over all pairs, over those of the label, and over the fiftieth of pairs that it is largest on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from measures import peak_mb

from marginalsyn import datasets
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.plugins.reports.marginal_errors import marginal_errors
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.table.codec import Codec
from marginalsyn.table.design import CodedRows
from marginalsyn.table.schema import Schema

ANEW, WRONG = 0.4, 0.15
LABEL = "income.0"


def chain(columns: int, rows: int) -> tuple[pd.DataFrame, dict[str, int]]:
    """Each column of 2 to 20 values depends on one of the six before it; the last has 2."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 21, columns)
    sizes[-1] = 2  # the label
    codes = [rng.choice(sizes[0], rows, p=rng.dirichlet(np.ones(sizes[0])))]
    for j in range(1, columns):
        parent = codes[rng.integers(max(0, j - 6), j)]
        given_parent = rng.dirichlet(np.full(sizes[j], 0.3), parent.max() + 1).cumsum(axis=1)
        drawn = (rng.random(rows)[:, None] > given_parent[parent]).sum(axis=1)
        codes.append(drawn.clip(0, sizes[j] - 1))
    names = [f"c{j}" for j in range(columns)]
    return pd.DataFrame(dict(zip(names, codes, strict=True))), dict(
        zip(names, sizes.tolist(), strict=True)
    )


def survey(columns: int, rows: int) -> tuple[pd.DataFrame, Schema]:
    """Blocks of Adult's columns that hang together, within and from one to the next."""
    adult, rng = datasets.load("adult"), np.random.default_rng(0)
    names = [name for name in adult.schema.names if name != "fnlwgt"]
    codes = Codec(adult.schema).encode(adult.train)
    person, table, domain = rng.integers(0, len(codes), rows), {}, {}
    for j in range(columns):
        block, name = divmod(j, len(names))[0], names[j % len(names)]
        if j and j % len(names) == 0:
            other = rng.integers(0, len(codes), rows)
            person = np.where(rng.random(rows) < ANEW, other, person)
        other = rng.integers(0, len(codes), rows)
        asked = np.where(rng.random(rows) < WRONG, other, person)
        table[f"{name}.{block}"] = codes[asked, adult.schema.names.index(name)]
        domain[f"{name}.{block}"] = adult.schema.domain[name]
    label = LABEL if LABEL in domain else None
    schema = Schema.from_domain(domain).model_copy(update={"label": label})
    return pd.DataFrame(table), schema


def run(args: argparse.Namespace) -> None:
    """Generate once in this process and print what the parent asked for."""
    frame, schema = survey(args.columns, args.rows)
    config = make_config(args.child, json.loads(args.options) if args.child != "mst" else {})
    budget = Budget(eps=args.eps, delta=1e-9)
    facts = config.configure(schema, budget).plan.facts
    door, started = PrivateTable.open(frame, schema), time.process_time()
    made, _ = generate(door, config, budget, noise=make_noise(args.seed))
    seconds, memory = time.process_time() - started, peak_mb()
    real, rows = CodedRows.of(frame, schema), CodedRows.of(made.frame, schema)
    found = marginal_errors(real.codes, rows.codes, schema.domain)
    errors = {q: e / 2 for q, e in found.items() if len(q) == 2}
    worst = np.sort(list(errors.values()))[-max(1, len(errors) // 50) :]
    label = [e for q, e in errors.items() if LABEL in q]
    told = {k: facts[k] for k in ("predicted seconds", "predicted MB") if k in facts}
    print(
        f"| {args.columns} | {args.eps:g} | {args.child} | {seconds:.1f} | "
        f"{told.get('predicted seconds', '')} | {memory:.0f} | {told.get('predicted MB', '')} | "
        f"{np.mean(list(errors.values())):.4f} | {np.mean(label):.4f} | {worst.mean():.4f} |",
        flush=True,
    )


def main() -> None:
    """Write a table, or run every method in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("columns", type=int)
    parser.add_argument("rows", type=int)
    parser.add_argument("files", nargs="*", help="CSV and domain file to write")
    parser.add_argument("--methods", nargs="+", default=["independent", "mst", "aim"])
    parser.add_argument("--eps", type=float, default=1.0)
    parser.add_argument("--options", default="{}", help="of aim, clique-tree and auto")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        run(args)
        return
    if args.files:
        csv, domain = args.files
        frame, sizes = chain(args.columns, args.rows)
        frame.to_csv(csv, index=False)
        Path(domain).write_text(json.dumps(sizes), encoding="utf-8")
        return
    print("| columns | eps | method | cpu s | predicted | MB | predicted | TV | label | worst |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for method in args.methods:
        options = args.options if method in ("aim", "clique-tree", "auto") else "{}"
        with tempfile.TemporaryDirectory() as folder:
            again = [sys.executable, str(Path(__file__).resolve()), str(args.columns)]
            again += [str(args.rows), "--eps", str(args.eps), "--child", method]
            again += ["--options", options, "--seed", str(args.seed)]
            subprocess.run(again, check=True, cwd=folder)


if __name__ == "__main__":
    main()
