"""Numbers of groups where noise drowns a column's high values, as of visits or incomes.

    python benchmarks/rare_values.py --repeats 60
    python benchmarks/rare_values.py --method aim --repeats 30

A column of numbers has a long tail of values that hardly a row has, so that a release measures many
of them as one. Tables of 4,000 rows are released at eps 1. Prints, for every number,
the real one, how often its interval contained it, by how many standard errors estimates are too
high on average, and the mean estimate.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd

from marginalsyn import Budget, PrivateTable, Release, Schema, make_noise
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.release.folder import Release as Folder
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn

POPULATION, ROWS = 400_000, 4000
QUESTIONS = (
    "mean(visits) by sex",
    "difference(mean(visits) by sex)",
    "mean(income) by sex",
    "share(income > 50000) by sex",
    "income ~ sex",
)
SCHEMA = Schema(
    columns=(
        CategoricalColumn(name="sex", categories=("f", "m")),
        IntegerColumn(name="age", lower=18, upper=90),
        IntegerColumn(name="visits", lower=0, upper=20),
        ContinuousColumn(name="income", lower=0, upper=300_000, bins=40),
        CategoricalColumn(name="union", categories=("no", "yes")),
    ),
    label="union",
)


def draw(rows: int, seed: int) -> pd.DataFrame:
    """Rows of the population."""
    rng = np.random.default_rng(seed)
    female, age = rng.random(rows) < 0.5, np.clip(rng.gamma(6, 8, rows), 18, 90).astype(int)
    visits = np.minimum(rng.poisson(np.exp(-0.4 + 0.015 * (age - 45) + 0.5 * female)), 20)
    income = np.exp(10 + 0.01 * (age - 45) - 0.3 * female + rng.normal(0, 0.6, rows))
    union = rng.random(rows) < 0.15 + 0.1 * ~female
    return pd.DataFrame(
        {
            "sex": np.where(female, "f", "m"),
            "age": age,
            "visits": visits,
            "income": np.minimum(income, 300_000),
            "union": np.where(union, "yes", "no"),
        }
    )


def truths() -> list[dict[str, float]]:
    """For every question the real numbers by the group that a term ends with."""
    groups = draw(POPULATION, 99).groupby("sex")
    visits, income = groups["visits"].mean(), groups["income"].mean()
    rich = groups["income"].apply(lambda own: (own > 50_000).mean())
    far = [{"less f": own["m"] - own["f"]} for own in (visits, income)]
    line = {"Intercept": income["f"], "sex = m": far[1]["less f"]}
    by = [{f"sex = {sex}": own[sex] for sex in "fm"} for own in (visits, income, rich)]
    return [by[0], far[0], by[1], by[2], line]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--eps", type=float, default=1.0)
    parser.add_argument("--method", default="auto")
    args = parser.parse_args()
    real, found = truths(), defaultdict(list)
    for seed in range(args.repeats):
        table = PrivateTable.open(draw(ROWS, 1000 + seed), SCHEMA)
        config, noise = make_config(args.method), make_noise(seed)
        made = generate(table, config, Budget(eps=args.eps), noise=noise)
        with tempfile.TemporaryDirectory() as folder:
            Folder.write(made[0], SCHEMA, made[1], Path(folder) / "release")
            release = Release.read(Path(folder) / "release")
            for question, truth in zip(QUESTIONS, real, strict=True):
                for answer in release.ask(question, replicates=0).answers:
                    own = [value for end, value in truth.items() if answer.term.endswith(end)]
                    if own and answer.measured:
                        found[question, answer.term].append((answer, own[0]))
    print("| question | number | truth | answered | contained | too high by | mean estimate |")
    print("|---" * 7 + "|")
    for (question, term), pairs in found.items():
        values = np.array([(a.estimate, a.low, a.high, a.error) for a, _ in pairs])
        truth = pairs[0][1]
        inside = np.mean((values[:, 1] <= truth) & (truth <= values[:, 2]))
        far = np.mean((values[:, 0] - truth) / values[:, 3])
        print(
            f"| {question} | {term} | {truth:.4g} | {len(pairs)} of {args.repeats} | {inside:.2f} "
            f"| {far:+.2f} | {values[:, 0].mean():.4g} |"
        )


if __name__ == "__main__":
    main()
