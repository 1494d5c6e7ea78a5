"""How often `combine` holds the truth on small tables, without files between its steps.

    python benchmarks/combined_tables.py --table adult --rows 2000 --repeats 40

Four columns of a table, all pairs measured at eps 1, twenty tables of five times the rows. For
every question: the coverage of the rule of Raghunathan, Reiter and Rubin as it stands, that of
`combine`, and how much wider its intervals are.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from populations import POPULATIONS, of_table
from scipy.stats import t as student

from marginalsyn import Budget, PrivateTable, make_noise
from marginalsyn.answers.code_combinations import CodeCombinations
from marginalsyn.answers.evidence import Evidence
from marginalsyn.answers.imputations import FITTED, TIMES, Index, rule
from marginalsyn.answers.questions import read_question
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.table.codec import Codec

TABLES = 20
QUESTIONS = {
    "adult": (
        "income ~ age + education-num + sex",
        "age ~ income + sex",
        *("mean(age)", "mean(education-num)", "share(sex)", "share(income)", "share(age)"),
        *("share(education-num)", "share(sex, income)"),
    ),
    "crossed census": (
        "high ~ age + hours + schooling",
        "hours ~ high + age",
        *("mean(age)", "mean(hours)", "share(schooling)", "share(age)", "share(hours, high)"),
        "share(schooling, high)",
    ),
}


def population(name: str) -> tuple[Any, np.ndarray]:
    if name == "adult":
        return of_table("adult", ["age", "education-num", "sex", "income"])
    schema, codes = POPULATIONS[name]()
    kept = ["age", "schooling", "hours", "high"]
    return schema.select(kept), codes[:, [schema.names.index(c) for c in kept]]


def plain(own: pd.DataFrame, index: Index) -> tuple[float, float]:
    """The rule as it stands."""
    every = own.loc[index.imputations]
    between = float(every["estimate"].var(ddof=1)) * (1 + 1 / len(every))
    within = float(every["variance"].mean())
    degrees = max((len(every) - 1) * (1 - within / between) ** 2, 1.0) if between > 0 else 1.0
    half = float(student.ppf(0.975, degrees)) * max(between - within, 0.05 * between) ** 0.5
    return 2 * float(own["estimate"].to_dict()[FITTED]) - float(every["estimate"].mean()), half


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", default="adult", choices=QUESTIONS)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    schema, codes = population(args.table)
    cells = CodeCombinations.grid(schema, schema.names)
    assert cells.shape is not None

    def shares(rows: np.ndarray) -> np.ndarray:
        keys = np.ravel_multi_index(tuple(rows.T), cells.shape)
        return np.bincount(keys, minlength=len(cells.codes)) / len(rows)

    asked = {text: read_question(text, schema)[0] for text in QUESTIONS[args.table]}
    own = {text: question.on(cells.only(question.columns)) for text, question in asked.items()}
    truth = {text: statistic.value(shares(codes)) for text, statistic in own.items()}
    rng, found = np.random.default_rng(args.seed), defaultdict[str, list[list[float]]](list)
    names = [FITTED, *map(str, range(TABLES))]
    with tempfile.TemporaryDirectory() as folder:
        pairs = Path(folder) / "pairs.json"
        pairs.write_text(json.dumps(list(itertools.combinations(schema.names, 2))))
        for _ in range(args.repeats):
            drawn = codes[rng.integers(0, len(codes), args.rows)]
            synthesis, statement = generate(
                PrivateTable.open(Codec(schema).decode(drawn, rng), schema),
                make_config("fixed-marginals", {"marginals": str(pairs)}),
                Budget(eps=1.0),
                noise=make_noise(int(rng.integers(2**31))),
            )
            evidence = Evidence.read(
                synthesis.model, synthesis.measurements, schema, statement.neighbours
            )
            rows = TIMES * evidence.rows
            index = Index(dict(zip(names, names, strict=True)), "population", rows, evidence.rows)
            models = [evidence, *(evidence.replay("population", rng) for _ in range(TABLES))]
            tables = []
            for number, model in enumerate(models):
                merged = (model.fitted.sample if number else model.fitted.rows)(rows, rng)
                tables.append(shares(model.compression.refine(merged, rng)))
            for text, statistic in own.items():
                values = [statistic.value(table) for table in tables]
                spread = [
                    table @ np.square(statistic.influence(table, value)) / rows
                    for table, value in zip(tables, values, strict=True)
                ]
                for i, real in enumerate(truth[text]):
                    columns = {
                        "estimate": [v[i] for v in values],
                        "variance": [s[i] for s in spread],
                    }
                    results = pd.DataFrame(columns, index=names)
                    centre, half = plain(results, index)
                    line = rule(results, index, 0.95)
                    low, high = float(line["low"]), float(line["high"])  # type: ignore[arg-type]
                    wider = (high - low) / 2 / half
                    found[text].append([abs(centre - real) <= half, low <= real <= high, wider])
    for text, lines in found.items():
        before, now, wider = np.array(lines, float).T
        print(f"| {text} | {before.mean():.3f} | {now.mean():.3f} | {np.median(wider):.2f} |")


if __name__ == "__main__":
    main()
