"""What bins and shapes bought inside a run are worth, on Adult's wide numeric columns.

    python benchmarks/shapes.py --binning --eps 1 2 4 10
    python benchmarks/shapes.py --releases 3 --eps 1 2 --method clique-tree
    python benchmarks/shapes.py --exact 5 10 20 40 80

Four schemas: equal steps ("auto" bins, nothing bought), public bins as bundled (from a code book),
bought (auto bins, ``--shape auto``), and public bins with bought shapes inside them.
``--binning``: every training row is encoded and decoded, so that nothing else is noised; the excess
log loss of boosting on the test rows over that of boosting on the rows themselves. ``--releases``:
whole releases, the excess of boosting and of logistic regression, median and spread between them.
``--exact K``: what could be hoped for: the K values that most rows share are kept exactly, without
any noise, all others are drawn anew inside the public bins.
"""

from __future__ import annotations

import argparse

import numpy as np
from bin_cost import loss
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marginalsyn import datasets
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.purchases.value_histograms import ShapePlan, with_shapes
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema

WIDE = ("capital-gain", "capital-loss", "fnlwgt")
SHARE = 0.05


def schemas(public: Schema) -> dict[str, Schema]:
    """The schemas that are compared."""
    equal = public.with_bins(**dict.fromkeys(WIDE, "auto"))
    return {
        "equal steps": equal,
        "public bins": public,
        "bought": with_shapes(equal),
        "public bins, bought shapes": with_shapes(public, WIDE),
    }


def boosting():
    return HistGradientBoostingClassifier(random_state=0)


def logistic():
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def bought(table: datasets.Dataset, schema: Schema, eps: float, seed: int) -> Schema:
    """The schema after the purchase that a run of this budget makes."""
    if not schema.shapeless:
        return schema
    budget = Budget(eps=eps)
    plan = ShapePlan.of(schema, budget, SHARE * len(schema.shapeless) * budget.rho)
    with PrivateTable.open(table.train, schema).charge(
        plan.charges(), noise=make_noise(seed)
    ) as visit:
        return plan.buy(visit, None)


def binning(table: datasets.Dataset, budgets: list[float], draws: int) -> None:
    own = loss(boosting(), table.train, table)
    print("| schema | eps | boosting, excess | codes of the wide columns |\n|---|---|---|---|")
    for name, schema in schemas(table.schema).items():
        for eps in budgets if schema.shapeless else budgets[:1]:
            found = []
            for seed in range(draws):
                known = bought(table, schema, eps, seed)
                codec = Codec(known)
                rows = codec.decode(codec.encode(table.train), np.random.default_rng(seed))
                found.append(loss(boosting(), rows, table) - own)
            codes = ", ".join(str(known.column(column).size) for column in WIDE)
            at = f"{eps:g}" if schema.shapeless else "none"
            print(f"| {name} | {at} | {np.mean(found):.4f} | {codes} |", flush=True)


def exact(table: datasets.Dataset, kept: list[int], draws: int) -> None:
    own, codec = loss(boosting(), table.train, table), Codec(table.schema)
    codes = codec.encode(table.train)
    print("| values kept exactly | the rarest of them: rows | boosting, excess |\n|---|---|---|")
    for most in kept:
        found, rarest = [], []
        for seed in range(draws):
            drawn, rows = codec.decode(codes, np.random.default_rng(seed)), table.train.copy()
            rarest = []
            for column in WIDE[:2]:
                counts = rows[column].value_counts().iloc[:most]
                rarest.append(str(counts.iloc[-1]))
                rows[column] = rows[column].where(rows[column].isin(counts.index), drawn[column])
            found.append(loss(boosting(), rows, table) - own)
        print(f"| {most} | {', '.join(rarest)} | {np.mean(found):.4f} |", flush=True)


def releases(table: datasets.Dataset, budgets: list[float], method: str, runs: int) -> None:
    own = [loss(model(), table.train, table) for model in (boosting, logistic)]
    print("| schema | eps | boosting, excess | sd | logistic, excess | sd |")
    print("|---|---|---|---|---|---|")
    for eps in budgets:
        for name, schema in schemas(table.schema).items():
            found = []
            for seed in range(runs):
                made, _ = generate(
                    PrivateTable.open(table.train, schema),
                    make_config(method, {}),
                    Budget(eps=eps),
                    noise=make_noise(100 + seed),
                )
                pair = (boosting, logistic)
                found.append([loss(model(), made.frame, table) for model in pair])
            excess = np.array(found) - own
            (first, second), (one, other) = np.median(excess, axis=0), excess.std(axis=0)
            print(
                f"| {name} | {eps:g} | {first:.4f} | {one:.4f} | {second:.4f} | {other:.4f} |",
                flush=True,
            )


def main() -> None:
    """Print one table or the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binning", action="store_true")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--releases", type=int, default=0)
    parser.add_argument("--exact", type=int, nargs="+", default=[], metavar="K")
    parser.add_argument("--eps", type=float, nargs="+", default=[1, 2, 4])
    parser.add_argument("--method", default="clique-tree")
    args = parser.parse_args()
    table = datasets.load("adult")
    if args.binning:
        binning(table, args.eps, args.draws)
    if args.exact:
        exact(table, args.exact, args.draws)
    if args.releases:
        releases(table, args.eps, args.method, args.releases)


if __name__ == "__main__":
    main()
