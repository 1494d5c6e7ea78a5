"""When is a GAN worth its budget? Private GANs and PrivBayes, weights of all kinds, beside AIM.

    python benchmarks/gans.py --cache gans.jsonl --tables breast-cancer --minutes 10
    python benchmarks/gans.py --cache gans.jsonl --summary

What ``weights_tables.py`` measures, for the generators and the tables of Ghalebikesabi et al. 2022,
Tables 1 and 3, or what comes near them without a download. ``banknote-like`` is drawn from a fixed
seed: two classes of 762 and 610 rows of four numbers in the ranges of the UCI table, each class two
overlapping normal clouds whose coordinates depend on one another. ``adult-5000`` is 5,000 rows of
Adult's train part. ``digits`` are the 64 grey values of scikit-learn's digits in two bins each and
the digit. ``discriminator`` weights cost nothing, so they weight the release of the whole budget.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import weighted_runs

from marginalsyn import datasets
from marginalsyn.datasets import Dataset
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.numeric import ContinuousColumn
from marginalsyn.table.schema import Schema

BANKNOTE = {
    "variance": (-8.0, 8.0),
    "skewness": (-15.0, 15.0),
    "curtosis": (-6.0, 20.0),
    "entropy": (-10.0, 4.0),
}


def banknote_like() -> Dataset:
    """A public stand-in for the banknote table: the same shape, not the same numbers."""
    rng = np.random.default_rng(20220804)
    clouds = {
        "genuine": ([(3.0, 6.0, -1.0, -1.5), (1.5, -1.0, 4.0, 0.5)], 762),
        "forged": ([(-3.0, 4.0, 0.0, -2.5), (-0.5, -6.0, 8.0, 0.0)], 610),
    }
    spread = np.array([1.6, 3.0, 2.6, 1.5])
    mix = np.eye(4) + 0.5 * np.array([[0, 1, -1, 0], [0, 0, -1, -1], [0, 0, 0, 1], [0] * 4])
    parts = []
    for label, (centres, rows) in clouds.items():
        chosen = np.array(centres)[rng.integers(0, len(centres), rows)]
        values = chosen + rng.normal(size=(rows, 4)) @ mix * spread
        part = pd.DataFrame(values, columns=list(BANKNOTE)).round(4)
        for name, (lower, upper) in BANKNOTE.items():
            part[name] = part[name].clip(lower, upper)
        parts.append(part.assign(note=label))
    frame = pd.concat(parts, ignore_index=True).sample(frac=1.0, random_state=rng)
    numbers = [
        ContinuousColumn(name=name, lower=lower, upper=upper, bins=16, decimals=4)
        for name, (lower, upper) in BANKNOTE.items()
    ]
    note = CategoricalColumn(name="note", categories=("genuine", "forged"), other=False)
    schema = Schema(columns=(*numbers, note), label="note", positive="forged")
    cut = int(0.8 * len(frame))
    return Dataset(
        name="banknote-like",
        train=frame.iloc[:cut].reset_index(drop=True).astype({"note": "str"}),
        test=frame.iloc[cut:].reset_index(drop=True).astype({"note": "str"}),
        schema=schema,
        description="four made-up measures of made-up banknotes",
    )


def load(name: str) -> Dataset:
    """A table of this benchmark."""
    if name == "banknote-like":
        return banknote_like()
    data = datasets.load("adult" if name == "adult-5000" else name)
    train, schema = data.train, data.schema
    if name == "adult-5000":
        train = train.sample(5000, random_state=np.random.default_rng(0)).reset_index(drop=True)
    if name == "digits":
        schema = schema.with_bins(**{n: 2 for n in schema.names if n != schema.label})
    return Dataset(
        name=name, train=train, test=data.test, schema=schema, description=data.description
    )


PLAN = weighted_runs.Plan(
    load=load,
    tables=("breast-cancer", "banknote-like", "adult-5000", "digits"),
    generators=("aim", "privbayes", "dpgan", "dpcgan", "pategan"),
    methods=("discriminator", "beta-noised", "beta-debiased", "dp-mlp", "logreg", "mlp"),
    free=("discriminator",),
    alone=("aim",),
)

if __name__ == "__main__":
    weighted_runs.main(PLAN, (__doc__ or "").split("\n")[0])
