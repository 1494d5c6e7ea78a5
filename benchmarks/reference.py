"""What a reference table is worth, and what a wrong one costs: all on the same rows in one run.

    python benchmarks/reference.py --tables compas heart telco ma --eps 0.1 0.2 0.5 1 2 --releases 3
    python benchmarks/reference.py --data FOLDER ...   # where the coded and NIST tables lie
    python benchmarks/reference.py --models ...        # excess of a linear model and of boosting
    python benchmarks/reference.py --years 5 ...       # each release leans on that of the last year

A part of every table is the private one, another part the reference of the same population. The
others are made of that part. shifted: rows are kept by their label and by a column, for `ma`
(Massachusetts) it is NIST's national excerpt. shuffled: each column is permuted by itself. crossed:
columns are right, and relations are as far from right as sorting makes them. reversed: codes stand
for each other, last for first. A line gives the mean over releases of the two-way total variation
from the private rows, beside it the ratio to no reference, and how much the release leans on it.
Noise is seeded, and the same for all references. With --years a fifth of the private rows change
every year, and a line gives the error of each year's release.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from tables import read_coded
from tables.cases import BUNDLED_DELTA, Case
from tables.judging import judge, variation

from marginalsyn import datasets
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.operations.references import open_references
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.records.ledger import Ledger
from marginalsyn.release.folder import Release
from marginalsyn.table.schema import Schema

# Rows of the private table and of the reference.
PARTS = {
    "compas": (3000, 1500),
    "heart": (180, 60),
    "telco": (3000, 1500),
    "adult": (20_000, 5000),
    "ma": (5000, 1500),
}
KINDS = ("none", "same", "shifted", "shuffled", "crossed", "reversed")


def read(name: str, folder: Path) -> tuple[pd.DataFrame, Schema, str]:
    """All rows of a table, its schema, and how models see it."""
    if name == "compas":
        paths = folder / "paper_compas.csv", folder / "paper_compas_domain.json"
        table = read_coded(*map(str, paths), "two_year_recid")
        return table.frame, table.schema, "coded"
    if name == "ma":
        return *nist("ma2019", folder), "scaled"
    data = datasets.load(name)
    return pd.concat([data.train, data.test], ignore_index=True), data.schema, "scaled"


def nist(name: str, folder: Path) -> tuple[pd.DataFrame, Schema]:
    """One of NIST's excerpts, under the schema of 21 columns without the area."""
    schema = Schema.read(folder / "nist" / "simple.schema.json")
    schema = schema.select([column for column in schema.names if column != "PUMA"])
    rows = pd.read_csv(folder / "nist" / f"{name}.csv.gz", dtype=str, keep_default_na=False)
    return rows[schema.names], schema


def split(name: str, folder: Path) -> tuple[Case, dict[str, pd.DataFrame]]:
    """The private rows with those that models are judged on, and the references by kind."""
    rows, schema, features = read(name, folder)
    rows = rows.sample(frac=1, random_state=1).reset_index(drop=True)
    own, public = PARTS[name]
    train, reference = rows[:own], rows[own : own + public]
    delta = 1 / own**2 if features == "coded" else BUNDLED_DELTA
    case = Case(name, schema, train, rows[own + public :], delta, features)
    rng = np.random.default_rng(0)
    reference, train = reference.reset_index(drop=True), train.reset_index(drop=True)
    codes = case.codec.encode(reference)
    ordered = np.sort(codes, axis=0)
    ordered[:, 1::2] = ordered[::-1, 1::2]
    sizes = np.array(list(schema.domain.values()))
    found = {
        "same": reference,
        "shuffled": pd.DataFrame({c: rng.permutation(reference[c].to_numpy()) for c in reference}),
        "crossed": case.codec.decode(ordered, rng),
        "reversed": case.codec.decode((sizes - 1 - codes).astype(np.int32), rng),
    }
    if name == "ma":
        found["shifted"] = nist("national2019", folder)[0]
    else:
        last = schema.names.index(schema.label) if schema.label else -1
        chances = np.where(codes[:, last] == codes[0, last], 0.9, 0.35)
        chances *= np.where(codes[:, 1] <= np.median(codes[:, 1]), 0.95, 0.3)
        found["shifted"] = reference[rng.random(len(reference)) < chances]
    return case, found


def release(case: Case, eps: float, seed: int, reference: pd.DataFrame | None) -> tuple:
    """Codes of a release, how much it leans, and processor seconds."""
    started = time.process_time()
    tables, _ = open_references(reference, case.schema, Ledger(None), seeded=True)
    made, statement = generate(
        PrivateTable.open(case.train, case.schema),
        make_config("auto"),
        Budget(eps=eps, delta=case.delta, allow_large_delta=True),
        noise=make_noise(seed),
        references=tables,
    )
    seconds = time.process_time() - started
    return case.codec.encode(made.frame), statement.notes.get("leaned", {}), seconds


def years(args: argparse.Namespace) -> Iterator[str]:
    """One line a table, budget and way: the error of every year's release."""
    for name in args.tables:
        case, _ = split(name, args.data)
        rows = read(name, args.data)[0].sample(frac=1, random_state=1).reset_index(drop=True)
        own, step = len(case.train), len(case.train) // 5
        tables = [
            replace(case, train=rows.iloc[np.arange(own) + year * step].reset_index(drop=True))
            for year in range(args.years)
        ]
        for eps in args.eps:
            for leaning in (False, True):
                found = [
                    [variation(table, codes, 2) for table, codes in zip(tables, made, strict=True)]
                    for made in (chain(tables, eps, 100 + s, leaning) for s in range(args.releases))
                ]
                way = "last year's release" if leaning else "none"
                shown = ", ".join(f"{error:.4f}" for error in np.mean(found, axis=0))
                yield f"| {name} | {eps:g} a year | {way} | {shown} |"


def chain(tables: list[Case], eps: float, seed: int, leaning: bool) -> list[np.ndarray]:
    """Codes of one release a year."""
    found, last = [], None
    with tempfile.TemporaryDirectory() as folder:
        for year, case in enumerate(tables):
            given = last if leaning else None
            references, _ = open_references(given, case.schema, Ledger(None), seeded=True)
            made, statement = generate(
                PrivateTable.open(case.train, case.schema),
                make_config("auto"),
                Budget(eps=eps, delta=case.delta, allow_large_delta=True),
                noise=make_noise(1000 * year + seed),
                references=references,
            )
            last = Release.write(made, case.schema, statement, Path(folder) / str(year))
            found.append(case.codec.encode(made.frame))
    return found


def lines(args: argparse.Namespace) -> Iterator[str]:
    """One line a table, budget and kind of reference."""
    for name in args.tables:
        case, references = split(name, args.data)
        for eps in args.eps:
            before = 1.0
            for kind in args.kinds:
                made = [
                    release(case, eps, 100 + seed, references.get(kind))
                    for seed in range(args.releases)
                ]
                tv = float(np.mean([variation(case, codes, 2) for codes, _, _ in made]))
                before = tv if kind == "none" else before
                leaned = [
                    np.mean([each[1].get(part, 0.0) for each in made])
                    for part in ("columns", "pairs")
                ]
                excess = ""
                if args.models:
                    found = [judge(case, codes) for codes, _, _ in made]
                    excess = "".join(
                        f" {np.mean([each[model] for each in found]):.4f} |"
                        for model in ("linear", "boosting")
                    )
                yield (
                    f"| {name} | {eps:g} | {kind} | {tv:.4f} | {tv / before:.2f} "
                    f"| {leaned[0]:.2f}, {leaned[1]:.2f} |{excess} "
                    f"{np.mean([each[2] for each in made]):.1f} |"
                )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=["compas", "heart", "telco"])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--eps", nargs="+", type=float, default=[0.1, 0.2, 0.5, 1, 2])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--releases", type=int, default=3)
    parser.add_argument("--models", action="store_true")
    parser.add_argument("--years", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.years:
        print("| table | eps | reference | two-way TV, year by year |\n|---|---|---|---|")
        for line in years(args):
            print(line, flush=True)
        return
    models = " linear | boosting |" if args.models else ""
    print(f"| table | eps | reference | two-way TV | ratio | leaned |{models} cpu s |")
    print("|---|---|---|---|---|---|---|" + "---|---|" * args.models)
    for line in lines(args):
        print(line, flush=True)


if __name__ == "__main__":
    main()
