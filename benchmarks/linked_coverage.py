"""Intervals for the persons of linked tables: how often they hold the truth.

Persons are drawn from a population, with rows in a table below theirs. Two releases answer the same
questions about the persons: that of both tables, and one of the persons alone, as a single table
with the number of rows, made with the budget that the first spends on persons. The truth of the
target ``table`` is that of the persons drawn, the truth of ``population`` that of a million
persons.

    python benchmarks/linked_coverage.py --eps 2 --releases 150
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd

from marginalsyn import (
    Budget,
    LinkedRelease,
    LinkedSchema,
    PrivateForest,
    PrivateTable,
    Release,
    estimate,
    generate,
    generate_linked,
    make_config,
    make_noise,
)
from marginalsyn.people.tree import LinkedTable
from marginalsyn.release.linked import TableRelease
from marginalsyn.table.schema import Schema

TREE = LinkedSchema(
    (
        LinkedTable("owners", Schema.from_domain({"sex": 2, "zone": 4}), key="id"),
        LinkedTable(
            "visits",
            Schema.from_domain({"ward": 3}),
            parent="owners",
            link="id",
            max_children=5,
        ),
    )
)
ASKED = {
    "mean": ["sex", "number of visits"],
    "count": ["zone"],
    "share": ["sex, zone"],
    "difference": ["number of visits by sex"],
}


def drawn(persons: int, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Persons whose sex goes with their zone and the number of their visits."""
    zone = rng.choice(4, persons, p=[0.5, 0.3, 0.15, 0.05])
    sex = (rng.random(persons) < 0.3 + 0.1 * zone).astype(int)
    number = rng.binomial(7, np.where(sex == 1, 0.5, 0.25), persons)
    owners = pd.DataFrame({"id": np.arange(persons), "sex": sex, "zone": zone})
    visits = pd.DataFrame({"id": np.repeat(owners["id"], number).to_numpy()})
    visits["ward"] = rng.integers(0, 3, len(visits))
    return {"owners": owners, "visits": visits}


def alone(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The persons as one table, with the number of rows that each has."""
    owners = tables["owners"]
    number = owners["id"].map(tables["visits"]["id"].value_counts()).fillna(0).clip(upper=5)
    return owners.drop(columns="id").assign(**{"number of visits": number.astype(int)})


def truths(tables: dict[str, pd.DataFrame], persons: int) -> dict[tuple[str, str], float]:
    """The exact answers about the persons, by question and term; counts as of so many persons."""
    persons_table = alone(tables)
    sex, zone, number = (persons_table[name] for name in ("sex", "zone", "number of visits"))
    found = {
        ("mean sex", "sex"): sex.mean(),
        ("mean number of visits", "number of visits"): number.mean(),
    }
    for k in range(4):
        found["count zone", f"zone = {k}"] = (zone == k).mean() * persons
        for s in range(2):
            name = f"sex = {s}, zone = {k}"
            found["share sex x zone", name] = ((sex == s) & (zone == k)).mean()
    gap = number[sex == 1].mean() - number[sex == 0].mean()
    found["difference number of visits by sex", "number of visits: sex = 1 less 0"] = gap
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--eps", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--persons", type=int, default=1500)
    parser.add_argument("--releases", type=int, default=200)
    args = parser.parse_args()
    many = truths(drawn(1_000_000, np.random.default_rng(1)), args.persons)
    print("| eps | target | question | linked | width | single | width |")
    print("|---|---|---|---|---|---|---|")
    for eps in args.eps:
        hits: dict[tuple[str, ...], list[bool]] = defaultdict(list)
        widths: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for seed in range(args.releases):
            tables = drawn(args.persons, np.random.default_rng([7, seed]))
            own = truths(tables, args.persons)
            with tempfile.TemporaryDirectory() as folder:
                releases = made(tables, eps, seed, Path(folder))
                for (kind, release), (target, known) in itertools.product(
                    releases.items(), (("population", many), ("table", own))
                ):
                    found = estimate(release, **ASKED, target=target, replicates=0)
                    for one in found.answers:
                        if one.measured:
                            truth = known[one.question, one.term]
                            hits[target, one.question, kind].append(one.low <= truth <= one.high)
                            widths[target, one.question, kind].append(one.high - one.low)
        for target, question in dict.fromkeys(key[:2] for key in hits):
            cells = [
                f"{np.mean(hits[key]):.3f} | {np.mean(widths[key]):.3g}"
                for key in ((target, question, kind) for kind in ("linked", "single"))
            ]
            print(f"| {eps:g} | {target} | {question} | {' | '.join(cells)} |", flush=True)


def made(
    tables: dict[str, pd.DataFrame], eps: float, seed: int, folder: Path
) -> dict[str, LinkedRelease | Release]:
    """The two releases, both of the method auto."""
    config, budget = make_config("auto"), Budget(eps=eps)
    result, statement = generate_linked(
        PrivateForest.open(tables, TREE), config, budget, noise=make_noise(seed)
    )
    linked = LinkedRelease.write(
        result.frames, result.measurements, result.model, TREE, statement, folder / "linked"
    )
    schema = TableRelease.of(linked).schema.with_unit(None)
    synthesis, statement = generate(
        PrivateTable.open(alone(tables), schema), config, budget.part(0.5), noise=make_noise(seed)
    )
    single = Release.write(synthesis, schema, statement, folder / "single")
    return {"linked": linked, "single": single}


if __name__ == "__main__":
    main()
