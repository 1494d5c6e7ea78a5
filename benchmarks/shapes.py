"""What bins and shapes bought inside a run are worth, on Adult's wide numeric columns.

    python benchmarks/shapes.py --binning --eps 1 2 4 10
    python benchmarks/shapes.py --releases 3 --eps 1 2 --method clique-tree
    python benchmarks/shapes.py --exact 5 10 20 40 80
    python benchmarks/shapes.py --money 3

Four schemas: equal steps ("auto" bins, nothing bought), public bins as bundled (from a code book),
bought (auto bins, ``--shape auto``), and public bins with bought shapes inside them.
``--binning``: every training row is encoded and decoded, so that nothing else is noised; the excess
log loss of boosting on the test rows over that of boosting on the rows themselves. ``--releases``:
whole releases, the excess of boosting and of logistic regression, median and spread between them.
``--exact K``: what could be hoped for: the K values that most rows share are kept exactly, without
any noise, all others are drawn anew inside the public bins.
``--money N``: why models of a made table of 13 amounts of money do worse with bought shapes, by N
releases each at eps 1: with equal steps, with shapes, and with the bins of a purchase for nothing.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from bin_cost import loss
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import judging
from tables.cases import Case

from marginalsyn import datasets
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.purchases.purchase import buy_all
from marginalsyn.purchases.shapes import Shapes, with_shapes
from marginalsyn.table.codec import Codec
from marginalsyn.table.design import CodedRows
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
    plan = Shapes(schema=schema, budget=budget.part(SHARE * len(schema.shapeless)))
    with PrivateTable.open(table.train, schema).charge(
        plan.charges(), noise=make_noise(seed)
    ) as visit:
        return buy_all([plan], schema, visit, None)


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


def money(runs: int, columns: int = 13, rows: int = 30_000) -> None:
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(rows, 3))
    logs = hidden @ (rng.normal(size=(3, columns)) * 0.6) + rng.normal(size=(rows, columns)) * 0.7
    names = [f"m{place}" for place in range(columns)]
    table = pd.DataFrame(np.round(np.exp(6 + 1.1 * logs), 2).clip(0, 50_000), columns=names)
    chances = 1 / (1 + np.exp(-(1.2 * hidden[:, 0] + 0.5 * hidden[:, 1])))
    table["y"] = np.where(rng.random(rows) < chances, "yes", "no")
    about = {"kind": "continuous", "lower": 0, "upper": 50_000, "decimals": 2}
    equal = Schema(
        columns=(
            *({**about, "name": name} for name in names),
            {"kind": "categorical", "name": "y", "categories": ["no", "yes"]},
        ),
        label="y",
        positive="yes",
    )
    train, test = table[:24_000], table[24_000:].reset_index(drop=True)
    case = Case("money", equal, train, test, 1e-9, "scaled")

    def excess(frame: pd.DataFrame) -> list[float]:
        made = CodedRows.of(Codec(equal).conform(frame), equal)
        kinds = ("linear", "boosting")
        return [judging.loss(case, made, kind) - judging.real_loss(case, kind) for kind in kinds]

    print(
        "| bins | linear, boosting: binning alone | releases | pairs measured: with label, other |"
    )
    print("|---|---|---|---|")
    schemas = {"equal steps": equal, "bought shapes": with_shapes(equal)}
    for name in (*schemas, "bins as bought, for nothing"):
        schema, found, pairs = schemas[name], [], (0, 0)
        for seed in range(runs):
            made, statement = generate(
                PrivateTable.open(train, schema),
                make_config("auto", {}),
                Budget(eps=1),
                noise=make_noise(seed),
            )
            found.append(excess(made.frame))
            asked = [q for q in statement.notes["measured"] if len(q) > 1]
            pairs = sum("y" in q for q in asked), sum("y" not in q for q in asked)
            schemas["bins as bought, for nothing"] = made.schema or schema
        known = schema if not schema.shapeless else schemas["bins as bought, for nothing"]
        codes = Codec(known).encode(train)
        binned = excess(Codec(known).decode(codes, np.random.default_rng(0)))
        shown = [", ".join(f"{x:.4f}" for x in pair) for pair in (binned, np.mean(found, axis=0))]
        print(f"| {name} | {shown[0]} | {shown[1]} | {pairs[0]}, {pairs[1]} |", flush=True)


def main() -> None:
    """Print one table or the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binning", action="store_true")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--releases", type=int, default=0)
    parser.add_argument("--exact", type=int, nargs="+", default=[], metavar="K")
    parser.add_argument("--money", type=int, default=0, metavar="N")
    parser.add_argument("--eps", type=float, nargs="+", default=[1, 2, 4])
    parser.add_argument("--method", default="clique-tree")
    args = parser.parse_args()
    if args.money:
        money(args.money)
    table = datasets.load("adult")
    if args.binning:
        binning(table, args.eps, args.draws)
    if args.exact:
        exact(table, args.exact, args.draws)
    if args.releases:
        releases(table, args.eps, args.method, args.releases)


if __name__ == "__main__":
    main()
