"""Releases that protect persons beside releases of rows, of the same table at the same eps.

First where each person has one row: protecting persons must cost nothing. Then a table of visits:
what protects a person with up to 12 rows otherwise is a release of rows at a twelfth of the eps.

    python benchmarks/people.py [RELEASES]
"""

from __future__ import annotations

import itertools
import sys
import time

import numpy as np
import pandas as pd

from marginalsyn import datasets
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import Unit

METHODS = ("mst", "clique-tree", "aim")
MOST = 12


def error(made: pd.DataFrame, real: pd.DataFrame, schema: Schema) -> float:
    """The mean total variation of all pairs of columns."""
    codes = [Codec(schema).encode(frame[schema.names]) for frame in (made, real)]
    sizes, found = list(schema.domain.values()), []
    for a, b in itertools.combinations(range(len(sizes)), 2):
        shares = [
            np.bincount(c[:, a] * sizes[b] + c[:, b], minlength=sizes[a] * sizes[b]) / len(c)
            for c in codes
        ]
        found.append(0.5 * float(np.abs(shares[0] - shares[1]).sum()))
    return float(np.mean(found))


def compare(
    real: pd.DataFrame, schema: Schema, runs: dict[str, tuple[Schema, float]], releases: int
) -> None:
    print("| method | " + " | ".join(runs) + " |\n|---|" + "---|" * len(runs))
    for method in METHODS:
        cells = []
        for public, eps in runs.values():
            found = []
            for seed in range(releases):
                table = PrivateTable.open(real, public)
                config, budget = make_config(method), Budget(eps=eps)
                made, _ = generate(table, config, budget, noise=make_noise(seed))
                found.append(error(made.frame, real, schema))
            cells.append(f"{np.mean(found):.4f} ± {np.std(found) / np.sqrt(releases):.4f}")
        print(f"| {method} | " + " | ".join(cells) + " |", flush=True)


def visits(persons: int = 3000) -> tuple[pd.DataFrame, Schema]:
    """Patients of whom some come often, and are worse and in other wards."""
    rng = np.random.default_rng(0)
    k = np.minimum(1 + rng.geometric(0.3, persons), MOST)
    who = np.repeat(np.arange(persons), k)
    often = k[who] > 4
    age = np.repeat(rng.integers(0, 6, persons), k)
    ward = np.where(often, rng.integers(0, 3, len(who)), rng.integers(1, 5, len(who)))
    severe = rng.random(len(who)) < 0.1 + 0.4 * often + 0.08 * age
    values = {"age": age, "ward": ward, "severe": severe.astype(int)}
    schema = Schema.from_domain({"age": 6, "ward": 5, "severe": 2})
    return pd.DataFrame({"patient_id": who, **values}), schema


def main(releases: int = 5) -> None:
    began = time.process_time()
    found = datasets.load("heart")
    schema, real = found.schema, found.train.assign(person=np.arange(len(found.train)))
    print(f"Heart, {len(real)} persons with one row each, eps 1, {releases} releases\n")
    rows = Schema(**{**schema.model_dump(), "drop": ["person"]})
    one, most = (rows.with_unit(Unit(column="person", max_rows=m)) for m in (1, MOST))
    runs = {"rows": (rows, 1.0), "persons, 1 row": (one, 1.0), f"persons, {MOST} rows": (most, 1.0)}
    compare(real, schema, runs, releases)
    real, schema = visits()
    print(f"\nVisits, {len(real)} rows, eps 1 for a person, {releases} releases\n")
    rows = Schema(**{**schema.model_dump(), "drop": ["patient_id"]})
    persons = rows.with_unit(Unit(column="patient_id", max_rows=MOST))
    runs = {
        f"rows at eps 1/{MOST}": (rows, 1 / MOST),
        "persons": (persons, 1.0),
        "rows (protects no person)": (rows, 1.0),
    }
    compare(real, schema, runs, releases)
    print(f"\n{time.process_time() - began:.0f} processor seconds")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
