"""Intervals for the persons of linked tables: how often they hold the truth.

Persons are drawn from a population, with rows in two tables below theirs; a release of all three is
made by `auto`, and questions about the persons are answered from it. The truth of the target
``table`` is that of the persons drawn, the truth of ``population`` that of a million persons.

    python benchmarks/linked_coverage.py --eps 1 4 --releases 200
"""

from __future__ import annotations

import argparse
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
    estimate,
    generate_linked,
    make_config,
    make_noise,
)
from marginalsyn.people.tree import LinkedTable
from marginalsyn.table.schema import Schema

TREE = LinkedSchema(
    (
        LinkedTable("owners", Schema.from_domain({"sex": 2, "zone": 4}), key="id"),
        LinkedTable(
            "visits",
            Schema.from_domain({"ward": 3}),
            key="vid",
            parent="owners",
            link="id",
            max_children=5,
        ),
        LinkedTable(
            "drugs", Schema.from_domain({"dose": 3}), parent="visits", link="vid", max_children=2
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
    visits.insert(0, "vid", np.arange(len(visits)))
    visits["ward"] = rng.integers(0, 3, len(visits))
    drugs = pd.DataFrame({"vid": np.repeat(visits["vid"], rng.integers(0, 3, len(visits)))})
    drugs["dose"] = rng.integers(0, 3, len(drugs))
    return {"owners": owners, "visits": visits, "drugs": drugs}


def truths(tables: dict[str, pd.DataFrame], persons: int) -> dict[tuple[str, str], float]:
    """The exact answers about the persons, by question and term; counts as of so many persons."""
    owners = tables["owners"]
    number = owners["id"].map(tables["visits"]["id"].value_counts()).fillna(0).clip(upper=5)
    sex, zone = owners["sex"], owners["zone"]
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
    print("| eps | target | question | coverage of 95% intervals | mean width |")
    print("|---|---|---|---|---|")
    for eps in args.eps:
        hits: dict[tuple[str, str], list[bool]] = defaultdict(list)
        widths: dict[tuple[str, str], list[float]] = defaultdict(list)
        for seed in range(args.releases):
            tables = drawn(args.persons, np.random.default_rng([7, seed]))
            forest = PrivateForest.open(tables, TREE)
            made, statement = generate_linked(
                forest, make_config("auto"), Budget(eps=eps), noise=make_noise(seed)
            )
            with tempfile.TemporaryDirectory() as folder:
                release = LinkedRelease.write(
                    made.frames,
                    made.measurements,
                    made.model,
                    TREE,
                    statement,
                    Path(folder) / "release",
                )
                own = truths(tables, args.persons)
                for target, known in (("population", many), ("table", own)):
                    found = estimate(release, **ASKED, target=target, replicates=0)
                    for one in found.answers:
                        truth = known[one.question, one.term]
                        hits[target, one.question].append(one.low <= truth <= one.high)
                        widths[target, one.question].append(one.high - one.low)
        for (target, question), inside in hits.items():
            width = float(np.mean(widths[target, question]))
            print(f"| {eps:g} | {target} | {question} | {np.mean(inside):.3f} | {width:.3g} |")


if __name__ == "__main__":
    main()
