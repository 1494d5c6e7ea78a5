"""Intervals of questions about a skewed number, for its real values and not for its bins' middles.

    python benchmarks/skewed_column.py --bins auto --repeats 12
    python benchmarks/skewed_column.py --bins shape --repeats 12

A balance is lognormal and differs by group; tables of 10,000 rows are released with all pairs
measured at eps 3. With `auto` a few of 32 bins of equal width hold nearly all rows, with `shape`
the run buys the column's shape and its bins. Prints, for every number, the real one, how often its
interval held it, and the mean estimate and ends.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from marginalsyn import Budget, PrivateTable, Release, Schema, make_noise
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn

POPULATION, ROWS, EPS = 400_000, 10_000, 3.0
BINS = {
    "auto": {},
    "shape": {"shape": "private"},
    "ten": {"bins": 10},
    "log": {"bins": (0, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600)},
}


def population() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    ill, region = rng.random(POPULATION) < 0.35, rng.integers(0, 3, POPULATION)
    balance = np.exp(rng.normal(6.2 + 0.4 * ill + 0.2 * region, 1.2, POPULATION))
    balance = np.clip(np.rint(balance), 0, 60_000)
    score = rng.normal(3 + 0.0002 * np.minimum(balance, 20_000) + ill, 1, POPULATION).clip(-2, 12)
    names = np.array(list("abc"))[region]
    return pd.DataFrame(
        {"balance": balance.astype(int), "ill": ill, "region": names, "score": score}
    )


def truths(frame: pd.DataFrame) -> dict[str, list[float]]:
    """Questions and the real numbers."""

    def line(y: str, *x: str) -> list[float]:
        design = np.column_stack([np.ones(len(frame)), *(frame[c].astype(float) for c in x)])
        return list(np.linalg.lstsq(design, frame[y].to_numpy(float), rcond=None)[0])

    by, ill = (frame.groupby(c)["balance"].mean() for c in ("region", "ill"))
    odds = LogisticRegression(C=1e9, max_iter=500).fit(frame[["balance"]] / 1000, frame["ill"])
    return {
        "mean(balance)": [frame["balance"].mean()],
        "mean(balance) by region": list(by),
        "difference(mean(balance) by region)": [by["b"] - by["a"], by["c"] - by["a"]],
        "ratio(mean(balance) by ill)": [ill[True] / ill[False]],
        "median(balance)": [frame["balance"].median()],
        "score ~ balance": line("score", "balance"),
        "score ~ balance + ill": line("score", "balance", "ill"),
        "balance ~ ill": line("balance", "ill"),
        "ill ~ balance": [odds.intercept_[0], odds.coef_[0][0] / 1000],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bins", default="auto", choices=BINS)
    parser.add_argument("--repeats", type=int, default=12)
    args = parser.parse_args()
    schema = Schema(
        columns=(
            IntegerColumn(name="balance", lower=0, upper=60_000, **BINS[args.bins]),
            BooleanColumn(name="ill"),
            CategoricalColumn(name="region", categories=("a", "b", "c"), other=False),
            ContinuousColumn(name="score", lower=-2, upper=12, bins=20),
        ),
        label="ill",
        positive=True,
    )
    frame = population()
    known, found = truths(frame), defaultdict[tuple[str, str, float], list[list[float]]](list)
    for seed in range(args.repeats):
        with tempfile.TemporaryDirectory() as folder:
            pairs = Path(folder) / "pairs.json"
            pairs.write_text(json.dumps(list(itertools.combinations(schema.names, 2))))
            synthesis, statement = generate(
                PrivateTable.open(frame.sample(ROWS, random_state=seed), schema),
                make_config("fixed-marginals", {"marginals": str(pairs)}),
                Budget(eps=EPS),
                noise=make_noise(seed),
            )
            written = synthesis.schema or schema
            release = Release.write(synthesis, written, statement, Path(folder) / "release")
            for question, numbers in known.items():
                answers = release.ask(question, replicates=0).answers
                for answer, truth in zip(answers, numbers, strict=True):
                    ends = [answer.estimate, answer.low, answer.high]
                    found[question, answer.term, truth].append(ends)
    for (question, term, truth), lines in found.items():
        ends = np.array([own for own in lines if not np.isnan(own).any()])
        if not len(ends):
            continue
        held = np.mean((ends[:, 1] <= truth) & (truth <= ends[:, 2]))
        middle, low, high = ends.mean(axis=0)
        print(f"| {question} | {term} | {truth:.4g} | {held:.2f} of {len(ends)} ", end="")
        print(f"| {middle:.4g} ({low:.4g} to {high:.4g}) |")


if __name__ == "__main__":
    main()
