"""A clinic of three tables with effects that are known: patients, their visits, drugs of visits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from marginalsyn import LinkedSchema, Schema
from marginalsyn.people.tree import LinkedTable

PATIENTS = Schema.from_domain({"sex": 2})
VISITS = Schema(
    columns=(
        {"kind": "date", "name": "day", "lower": "2020-01-01", "upper": "2029-12-31"},
        {"kind": "categorical", "name": "ward", "categories": [f"w{i}" for i in range(12)]},
    )
)
DRUGS = Schema(columns=({"kind": "categorical", "name": "code", "categories": ["a", "b", "c"]},))
TREE = LinkedSchema(
    (
        LinkedTable("patients", PATIENTS, key="id"),
        LinkedTable(
            "visits",
            VISITS,
            key="vid",
            parent="patients",
            link="id",
            max_children=6,
            order="day",
            max_gap=90,
        ),
        LinkedTable("drugs", DRUGS, parent="visits", link="vid", max_children=2),
    )
)


def clinic(persons: int = 3000, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Women have more visits; wards stay; women begin in w0; doses go by sex, two links away."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, persons)
    visits = np.where(sex == 1, rng.integers(2, 7, persons), rng.integers(0, 4, persons))
    rows = []
    for person in range(persons):
        ward = 0 if sex[person] else int(rng.integers(0, 12))
        day = pd.Timestamp("2020-01-01") + pd.Timedelta(days=int(rng.integers(0, 365)))
        for _ in range(visits[person]):
            rows.append((person, day.strftime("%Y-%m-%d"), f"w{ward}"))
            day += pd.Timedelta(days=int(rng.choice([7, 30])))
            ward = ward if rng.random() < 0.7 else int(rng.integers(0, 12))
    table = pd.DataFrame(rows, columns=["id", "day", "ward"])
    table.insert(0, "vid", np.arange(len(table)))
    number = rng.integers(0, 3, len(table))
    drugs = pd.DataFrame({"vid": np.repeat(table["vid"], number).to_numpy()})
    women = np.repeat(sex[table["id"]], number)
    likely = rng.random(len(drugs)) < 0.8
    drugs["code"] = np.where(likely, np.where(women, "a", "b"), "c")
    return {
        "patients": pd.DataFrame({"id": range(persons), "sex": sex}),
        "visits": table,
        "drugs": drugs,
    }


def write(folder: Path, tables: dict[str, pd.DataFrame], tree: LinkedSchema) -> None:
    (folder / "clinic").mkdir()
    for name, frame in tables.items():
        frame.to_csv(folder / "clinic" / f"{name}.csv", index=False)
    tree.write(folder / "clinic.schema.json")
