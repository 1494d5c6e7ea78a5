"""Does a key that two persons have show in an error, or move what others have in the counts?

Visits of two patients have the same number. One row more or less decides whether that is so: where
it was refused, the refusal was an answer about private rows that nobody paid for. Where it is not,
each patient must have paths of his own: what the views hold is the sum of what they hold for each
patient alone, and that is one unit at most.

    python -m benchmarks.attacks.shared_keys
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.attacks.relation import own_ledgers, run
from marginalsyn.access.linked_tables import PrivateForest
from marginalsyn.people.tree import LinkedSchema, LinkedTable
from marginalsyn.sources.persons import WHOLE
from marginalsyn.sources.shares import AMOUNT
from marginalsyn.table.schema import Schema

FORESTS = 3
CODES = Schema.from_domain({"v": 3})
TREE = LinkedSchema(
    (
        LinkedTable("patients", Schema.from_domain({"a": 2}), key="id"),
        LinkedTable("visits", CODES, key="vid", parent="patients", link="id", max_children=2),
        LinkedTable("drugs", CODES, key="did", parent="visits", link="vid", max_children=2),
        LinkedTable("effects", CODES, parent="drugs", link="did", max_children=3),
    )
)


def clinic(*visits: str) -> dict[str, pd.DataFrame]:
    """Twenty patients with one visit each; the first ones have visits of these numbers."""
    who = [str(i) for i in range(20)]
    numbers = [*visits, *(f"own {i}" for i in range(20))][:20]
    return {
        "patients": pd.DataFrame({"id": who, "a": 1}),
        "visits": pd.DataFrame({"id": who, "vid": numbers, "v": 1}),
        "drugs": pd.DataFrame({"vid": numbers, "did": [f"d{i}" for i in range(20)], "v": 1}),
        "effects": pd.DataFrame({"did": ["d0", "d1"], "v": [1, 2]}),
    }


def refused() -> str | None:
    """An error that one of two neighbouring folders gives and the other does not."""
    found = {}
    with tempfile.TemporaryDirectory() as place, chdir(place), own_ledgers(Path(place)):
        TREE.write("clinic.json")
        for name, keys in (("distinct", ("1", "2")), ("shared", ("1", "1"))):
            Path(name).mkdir()
            for table, frame in clinic(*keys).items():
                frame.to_csv(Path(name, f"{table}.csv"), index=False)
            asked = ("--data", name, "--schema", "clinic.json", "--eps", 1, "--out", f"{name}-out")
            found[name] = run("generate", *asked, "-q", "--method", "clique-tree")
    first, second = found["distinct"], found["shared"]
    assert first.exit_code == 0, first.output
    if second.exit_code:
        return f"one row decides, repeatably and for nothing: {second.stderr.strip()[:100]}..."
    return None


def tangle(seed: int) -> dict[str, pd.DataFrame]:
    """Keys at every level are drawn from so few that many stand under several parents."""
    rng = np.random.default_rng(seed)

    def keys(kind: str, size: int = 12) -> list[str]:
        return [f"{kind}{i}" for i in rng.integers(0, 4, size)]

    def values(size: int = 12) -> np.ndarray:
        return rng.integers(0, 3, size)

    return {
        "patients": pd.DataFrame({"id": keys("p", 6), "a": rng.integers(0, 2, 6)}),
        "visits": pd.DataFrame({"id": keys("p"), "vid": keys("v"), "v": values()}),
        "drugs": pd.DataFrame({"vid": keys("v"), "did": keys("d"), "v": values()}),
        "effects": pd.DataFrame({"did": keys("d"), "v": values()}),
    }


def seen(tables: dict[str, pd.DataFrame]) -> dict[str, Counter[tuple[int, ...]]]:
    """By view, what stands on each combination of codes."""
    forest = PrivateForest.open(tables, TREE)
    found: dict[str, Counter[tuple[int, ...]]] = {}
    for view in forest.views:
        coded = forest.connection.backend.to_pyarrow(forest.forest.coded(view)).to_pandas()
        amounts = coded.pop(AMOUNT)
        found[view.name] = Counter()
        for row, amount in zip(coded.itertuples(index=False), amounts, strict=True):
            found[view.name][tuple(row)] += int(amount)
    return found


def moved(seed: int) -> str | None:
    """A view in which a person weighs more than one, or moves what is another's."""
    tables = tangle(seed)
    people = tables["patients"]
    whole = seen(tables)
    alone = [
        seen({**tables, "patients": people[people["id"] == who]}) for who in people["id"].unique()
    ]
    for view, counted in whole.items():
        heaviest = max(one[view].total() for one in alone)
        if heaviest > WHOLE:
            return f"forest {seed}: a person weighs {heaviest / WHOLE:g} in view {view}"
        if sum((one[view] for one in alone), Counter()) != counted:
            return f"forest {seed}: in view {view} what a person adds depends on who else is there"
    return None


def attack() -> str | None:
    """What an error or a view shows of others' keys."""
    return refused() or next(filter(None, map(moved, range(FORESTS))), None)


if __name__ == "__main__":
    found = attack()
    sys.stdout.write(f"{found or 'no error, and each person weighs one at most in every view'}\n")
    sys.exit(found is not None)
