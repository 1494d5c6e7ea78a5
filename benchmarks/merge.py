"""How readily rare codes are merged: constants against what `auto` finds for each column.

    python benchmarks/merge.py --tables compas berka ma --data FOLDER --seeds 0 1 2
    python benchmarks/merge.py --tables flights national adult telco german --data FOLDER

FOLDER holds the papers' coded COMPAS and Adult (``paper_NAME.csv``, ``paper_NAME_domain.json``),
NIST's excerpts (``nist``) and Berka's bank (``berka``), as their own pages give them. The long
tables are cut from these and from the bundled flights so that some columns have 60 to 2,700 codes;
all codes that occur are listed, as a code book would. A line a table and budget: mean two-way total
variation and excess of the linear model for each rule, and both over those of 0.4.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import pandas as pd
from tables.cases import Case, bundled, coded
from tables.judging import loss, real_loss, variation

from marginalsyn import datasets
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.table.design import CodedRows
from marginalsyn.table.schema import Schema

RULES: dict[str, dict[str, float]] = {"0.4": {"merge": 0.4}, "1": {"merge": 1.0}, "found": {}}
LABELS = {"compas": "two_year_recid", "heart": "disease", "adult": "income>50K"}


def listed(name: str, frame: pd.DataFrame, label: str, numbers: Sequence[str], seed: int) -> Case:
    """A case of texts: numbers keep their order, other columns are categories."""
    codes, columns = {}, []
    for column in frame:
        texts = frame[column].astype(str)
        values = sorted(texts.unique(), key=lambda text: (len(text), text))
        codes[column] = texts.map({text: code for code, text in enumerate(values)})
        size = len(values)
        if column in numbers:
            kind = {"kind": "integer", "lower": 0, "upper": size - 1, "bins": size}
        else:
            kind = {"kind": "categorical", "categories": list(range(size)), "other": False}
        columns.append({"name": column, **kind})
    rows, schema = pd.DataFrame(codes), Schema(columns=tuple(columns), label=label)
    order = np.random.default_rng(seed).permutation(len(rows))
    cut = int(0.8 * len(rows))
    train, test = (rows.iloc[part].reset_index(drop=True) for part in (order[:cut], order[cut:]))
    return Case(name, schema, train, test, 1 / len(train) ** 2, "coded")


def ma(folder: Path, seed: int) -> Case:
    """Massachusetts: industry (233 codes), age, poverty ratio (470)."""
    rows = pd.read_csv(folder / "nist" / "ma2019.csv.gz", dtype=str)
    names = ["AGEP", "SEX", "MSP", "RAC1P", "OWN_RENT", "INDP", "EDU", "PUMA", "POVPIP"]
    return listed("ma", rows[names], "OWN_RENT", ["AGEP", "SEX", "EDU", "POVPIP"], seed)


def national(folder: Path, seed: int) -> Case:
    """The national excerpt: industry, age, income in steps of 500 dollars."""
    rows = pd.read_csv(folder / "nist" / "national2019.csv.gz", dtype=str)
    rows = rows[["AGEP", "SEX", "NPF", "PUMA", "EDU", "INDP", "PINCP", "DVET", "DREM"]].copy()
    income = pd.to_numeric(rows["PINCP"], errors="coerce")
    rows["PINCP"] = np.where(income.isna(), -1, np.clip(income // 500, 0, 600).fillna(0))
    rows["PINCP"] = rows["PINCP"].astype(float).astype(int)
    numbers = ["AGEP", "SEX", "NPF", "EDU", "PINCP", "DVET", "DREM"]
    return listed("national", rows, "DREM", numbers, seed)


def flights(_: Path, seed: int) -> Case:
    """Flights: the aircraft (2,671 codes), the destination, the delay."""
    path = Path(datasets.__file__).parent / "flights" / "flights.csv.gz"
    rows = pd.read_csv(path, dtype=str).sample(16_600, random_state=5)
    rows = rows[["carrier", "tailnum", "origin", "dest", "dep_delay", "distance"]].fillna("NA")
    delay = pd.to_numeric(rows["dep_delay"], errors="coerce").fillna(-99) // 3
    rows["dep_delay"] = np.clip(delay, -20, 60).astype(int)
    return listed("flights", rows, "origin", ["dep_delay", "distance"], seed)


def berka(folder: Path, seed: int) -> Case:
    """Standing orders: the district, the amount in steps of 50 crowns, the account's month."""
    orders = pd.read_csv(folder / "berka" / "order.asc.gz", sep=";", dtype=str)
    accounts = pd.read_csv(folder / "berka" / "account.asc.gz", sep=";", dtype=str)
    both = orders.merge(accounts, on="account_id")
    rows = pd.DataFrame(
        {
            "bank": both["bank_to"],
            "purpose": both["k_symbol"].fillna(""),
            "district": both["district_id"],
            "frequency": both["frequency"],
            "amount": (both["amount"].astype(float) // 50).astype(int),
            "month": both["date"].str[:4],
        }
    )
    return listed("berka", rows, "purpose", ["amount", "month"], seed)


LONG: dict[str, Callable[[Path, int], Case]] = {
    "ma": ma,
    "national": national,
    "flights": flights,
    "berka": berka,
}


def case_of(name: str, folder: Path, seed: int) -> Case:
    """A table by its name, split by the seed."""
    if name in LONG:
        return LONG[name](folder, seed)
    if name not in LABELS:
        return bundled(name, seed)
    (csv,) = folder.glob(f"paper_{name}.csv*")
    return coded(name, str(csv), str(folder / f"paper_{name}_domain.json"), LABELS[name], seed)


def main() -> None:
    """Release every table at every budget under every rule, and print the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", required=True)
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--eps", nargs="+", type=float, default=[0.5, 1, 2])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--rules", nargs="+", default=[*RULES], choices=[*RULES])
    args = parser.parse_args()
    print("| table | eps | " + " | ".join(f"{r}: TV, linear excess" for r in args.rules) + " |")
    print("|---" * (2 + len(args.rules)) + "|")
    for name in args.tables:
        cases = [case_of(name, args.data, seed) for seed in args.seeds]
        for eps in args.eps:
            cells = []
            for rule in args.rules:
                found = []
                for seed, case in zip(args.seeds, cases, strict=True):
                    budget = Budget(eps=eps, delta=case.delta, allow_large_delta=True)
                    table = PrivateTable.open(case.train, case.schema)
                    noise = make_noise(1000 * seed + int(10 * eps))
                    made, _ = generate(table, make_config("auto", RULES[rule]), budget, noise=noise)
                    codes = case.codec.encode(made.frame)
                    rows = CodedRows.of(made.frame, case.schema)
                    excess = loss(case, rows, "linear") - real_loss(case, "linear")
                    found.append((variation(case, codes, 2), excess))
                tv, linear = np.mean(found, axis=0)
                first = cells[0][0] if cells else tv
                cells.append((tv, f"{tv:.4f} ({tv / first:.2f}), {linear:.4f}"))
            print(f"| {name} | {eps:g} | {' | '.join(text for _, text in cells)} |", flush=True)


if __name__ == "__main__":
    main()
