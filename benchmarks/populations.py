"""Populations whose truth is known, for `benchmarks/coverage.py`: public tables, and made up ones.

Half of those that are made up have effects that cross: what one column does depends on another.
Pairs of columns do not show that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from marginalsyn import Schema, datasets
from marginalsyn.contract import Measurement
from marginalsyn.graphical import model as pgm
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn, OrdinalColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn

Population = tuple[Schema, np.ndarray]
"""The schema, and the codes of all rows."""

ROWS = 200_000
ADULT6 = ["age", "marital-status", "education-num", "hours-per-week", "sex", "income"]
ADULT8 = [
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "income",
]
TELCO7 = [
    "tenure",
    "Partner",
    "InternetService",
    "Contract",
    "PaymentMethod",
    "MonthlyCharges",
    "Churn",
]
GERMAN8 = [
    "checking_status",
    "duration",
    "credit_history",
    "savings",
    "age",
    "housing",
    "telephone",
    "credit_risk",
]
SCHOOLS = ("none", "school", "college", "bachelor", "master")
WORKS = ("private", "public", "self", "none")
CENSUS = Schema(
    title="persons, made up",
    columns=(
        IntegerColumn(name="age", lower=17, upper=90, bins=12),
        BooleanColumn(name="female"),
        OrdinalColumn(name="schooling", categories=SCHOOLS),
        CategoricalColumn(name="work", categories=WORKS),
        IntegerColumn(name="hours", lower=0, upper=80, bins=8),
        BooleanColumn(name="married"),
        ContinuousColumn(name="income", lower=0, upper=200_000, bins=12),
        BooleanColumn(name="high"),
    ),
    label="high",
    positive=True,
)
WARDS = Schema(
    title="patients, made up",
    columns=(
        CategoricalColumn(name="ward", categories=("a", "b", "c", "d")),
        BooleanColumn(name="drug"),
        BooleanColumn(name="old"),
        IntegerColumn(name="dose", lower=0, upper=5, bins=6),
        IntegerColumn(name="days", lower=0, upper=29, bins=10),
        BooleanColumn(name="sex"),
        BooleanColumn(name="ill"),
    ),
    label="ill",
    positive=True,
)


def of_table(name: str, columns: list[str]) -> Population:
    """The training part of a bundled table."""
    schema = datasets.schema(name).select(columns)
    return schema, Codec(schema).encode(datasets.load(name).train)


def of_model() -> Population:
    """A chain of pairs fitted to Adult: nothing crosses."""
    schema, codes = of_table("adult", ADULT6)
    pairs = []
    for (i, a), (j, b) in itertools.pairwise(enumerate(schema.names)):
        shape = (schema.column(a).size, schema.column(b).size)
        found = np.bincount(np.ravel_multi_index((codes[:, i], codes[:, j]), shape))
        found = np.append(found, np.zeros(shape[0] * shape[1] - len(found)))
        pairs.append(Measurement((a, b), found.reshape(shape).astype(float), 1.0))
    model = pgm.fit(schema.domain, pairs, total=float(len(codes)))
    return schema, model.rows(400_000, np.random.default_rng(0))


def census(n: int) -> pd.DataFrame:
    """Persons: schooling, work, hours and income depend on one another as they do in surveys."""
    rng = np.random.default_rng(2018)
    age = np.clip(17 + rng.gamma(2.6, 12.0, n), 17, 90).astype(int)
    female = rng.random(n) < 0.51
    schooling = np.clip(np.rint(rng.normal(1.9 - 0.01 * np.abs(age - 45), 1.1, n)), 0, 4).astype(
        int
    )
    married = rng.random(n) < 1 / (1 + np.exp(-(age - 33) / 8)) * 0.65
    idle = rng.random(n) < np.where(age > 66, 0.8, 0.28 - 0.04 * schooling)
    kind = np.where(rng.random(n) < 0.1 + 0.03 * schooling, 1, np.where(rng.random(n) < 0.1, 2, 0))
    work = np.where(idle, 3, kind)
    full = np.where(rng.random(n) < np.where(female, 0.65, 0.85), 40, 22)
    hours = np.where(idle, 0, np.clip(rng.normal(full, 9, n), 1, 80)).astype(int)
    level = 9.4 + 0.28 * schooling + 0.008 * np.minimum(age, 60) - 0.16 * female + 0.1 * married
    pay = np.exp(level + 0.55 * rng.standard_normal(n)) * hours / 40
    income = np.where(idle, 9000.0 * (age > 66) * rng.random(n) * 3, pay)
    return pd.DataFrame(
        {
            "age": age,
            "female": female,
            "schooling": np.array(SCHOOLS)[schooling],
            "work": np.array(WORKS)[work],
            "hours": hours,
            "married": married,
            "income": np.minimum(income, 200_000),
            "high": income > 30_000,
        }
    )


def plain_census() -> Population:
    return CENSUS, Codec(CENSUS).encode(census(ROWS))


def crossed_census() -> Population:
    """The same persons, where what schooling does depends on the sex, and hours on marriage."""
    frame, rng = census(ROWS), np.random.default_rng(9)
    school = frame["schooling"].map({v: i for i, v in enumerate(SCHOOLS)}).to_numpy()
    female, married = frame["female"].to_numpy(), frame["married"].to_numpy()
    odds = -1 + np.where(female, 1.1 - 0.5 * school, -1.1 + 0.6 * school)
    odds += 0.02 * (frame["hours"].to_numpy() - 30) * np.where(married, 1, -0.5)
    frame["high"] = rng.random(ROWS) < 1 / (1 + np.exp(-odds))
    return CENSUS, Codec(CENSUS).encode(frame)


def wards() -> Population:
    """Patients: a drug helps the young and harms the old."""
    rng = np.random.default_rng(5)
    ward = rng.integers(0, 4, ROWS)
    drug = rng.random(ROWS) < 0.4 + 0.1 * (ward == 2)
    old = rng.random(ROWS) < 0.3 + 0.15 * ward / 3
    dose = np.clip(rng.poisson(2 + drug), 0, 5)
    days = np.clip(rng.gamma(2 + 1.5 * (drug ^ old), 2, ROWS), 0, 29.9).astype(int)
    odds = -0.6 + 2.4 * (drug ^ old) - 0.4 * (ward == 1) + 0.15 * dose * np.where(old, 1, -1)
    ill = rng.random(ROWS) < 1 / (1 + np.exp(-odds))
    frame = pd.DataFrame(
        {
            "ward": np.array(list("abcd"))[ward],
            "drug": drug,
            "old": old,
            "dose": dose,
            "days": days,
            "sex": rng.random(ROWS) < 0.5,
            "ill": ill,
        }
    )
    return WARDS, Codec(WARDS).encode(frame)


def of_cells(sizes: Mapping[str, int], shares: np.ndarray, rng: np.random.Generator) -> Population:
    """A table of small columns by the shares of all its cells: numbers, a list, and an order."""
    kinds = {"a": CategoricalColumn, "c": OrdinalColumn}
    columns = tuple(
        kinds[c.name](name=c.name, categories=tuple("uvwx"[: c.size])) if c.name in kinds else c
        for c in Schema.from_domain(dict(sizes)).columns
    )
    cells = rng.choice(shares.size, ROWS, p=shares.ravel() / shares.sum())
    codes = np.stack(np.unravel_index(cells, tuple(sizes.values())), 1)
    return Schema(columns=columns, label="y"), codes


def any_cells(seed: int, alpha: float) -> Population:
    """Every cell has a share of its own: all columns cross with all; a small alpha leaves few."""
    sizes = {"a": 3, "b": 2, "c": 4, "d": 3, "e": 2, "y": 2}
    rng = np.random.default_rng(seed)
    return of_cells(sizes, rng.dirichlet(np.full(int(np.prod(list(sizes.values()))), alpha)), rng)


def loglinear(seed: int, triples: float) -> Population:
    """Effects of columns, of pairs, and of half of the triples, of a given size."""
    sizes = {"a": 3, "b": 4, "c": 3, "d": 5, "e": 2, "y": 2}
    rng, shape = np.random.default_rng(seed), tuple(sizes.values())
    found = np.zeros(shape)
    for size, spread in ((1, 0.5), (2, 0.5), (3, triples)):
        for places in itertools.combinations(range(len(shape)), size):
            own = [n if i in places else 1 for i, n in enumerate(shape)]
            effect = spread * rng.normal(size=own)
            found += effect * (rng.random() < (1 if size < 3 else 0.5))
    return of_cells(sizes, np.exp(found), rng)


# The rule's constants were chosen on the first; the second had no part in that.
CHOSEN: dict[str, Callable[[], Population]] = {
    "adult6": lambda: of_table("adult", ADULT6),
    "adult6 (model)": of_model,
    "adult8": lambda: of_table("adult", ADULT8),
    "telco7": lambda: of_table("telco", TELCO7),
    "census": plain_census,
    "wards": wards,
    "triples": lambda: loglinear(3, 0.25),
    "any cells": lambda: any_cells(11, 1.0),
}
JUDGED: dict[str, Callable[[], Population]] = {
    "german8": lambda: of_table("german", GERMAN8),
    "crossed census": crossed_census,
    "strong triples": lambda: loglinear(8, 0.6),
    "other triples": lambda: loglinear(21, 0.4),
    "few cells": lambda: any_cells(12, 0.3),
}
CROSS = ("wards", "triples", "any cells", *[name for name in JUDGED if name != "german8"])
"""Those with effects that cross, by how they were made."""
POPULATIONS = {**CHOSEN, **JUDGED}
