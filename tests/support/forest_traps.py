"""Traps in SQL by which a bound on what hangs on a person breaks, each a pair of linked tables.

The second tables have something more than the first: a person with all that hangs on it, or rows
that are nobody's. Whatever engine counts, no marginal of any view moves by more than the number of
persons that came.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn import Charge, LinkedSchema, PrivateForest, Schema, make_noise
from marginalsyn.people.tree import LinkedTable
from marginalsyn.privacy.charges import ZCDP

MOST = 13  # which does not divide a power of two
TREE = LinkedSchema(
    (
        LinkedTable("owners", Schema.from_domain({"a": 3}), key="id"),
        LinkedTable(
            "visits",
            Schema.from_domain({"b": 12, "day": 30}),
            key="vid",
            parent="owners",
            link="id",
            max_children=MOST,
            order="day",
        ),
        LinkedTable(
            "drugs", Schema.from_domain({"c": 3}), parent="visits", link="vid", max_children=3
        ),
    )
)
Tables = dict[str, pd.DataFrame]


def family(who: Any, visits: int, seed: int = 0, days: Any = None, drugs: int = 2) -> Tables:
    """A person, so many visits in the order of some days, and what was given at each."""
    rng = np.random.default_rng(seed)
    keys = [f"{who}/{seed}/{i}" for i in range(visits)]
    told = [None if day is None else int(day) for day in (days or range(30))]
    when = [told[place] for place in rng.integers(0, len(told), visits)]
    return {
        "owners": pd.DataFrame({"id": pd.Series([who], dtype=object), "a": rng.integers(0, 3, 1)}),
        "visits": pd.DataFrame(
            {
                "vid": pd.Series(keys, dtype=object),
                "id": pd.Series([who] * visits, dtype=object),
                "b": rng.integers(0, 12, visits),
                "day": pd.Series(when, dtype=object),
            }
        ),
        "drugs": pd.DataFrame(
            {
                "vid": pd.Series(np.repeat(keys, drugs), dtype=object),
                "c": rng.integers(0, 3, visits * drugs),
            }
        ),
    }


def joined(*parts: Tables) -> Tables:
    return {name: pd.concat([p[name] for p in parts], ignore_index=True) for name in parts[0]}


def others(persons: int = 8) -> Tables:
    sizes = np.random.default_rng(1).integers(0, 17, persons)
    days = [2, 10, 10, None]
    return joined(*[family(f"p{i}", int(n), i, days, i % 4) for i, n in enumerate(sizes)])


def bare(**rows: pd.DataFrame) -> Tables:
    empty = {name: frame.head(0) for name, frame in family("x", 1).items()}
    return {**empty, **rows}


def sharing(who: str) -> Tables:
    """A person whose visits have keys that visits of others have, some of them twice."""
    made, keys = family(who, 9, 5), list(others()["visits"]["vid"])
    visits = made["visits"].assign(vid=[*keys[:5], keys[0], *keys[-3:]])
    return bare(owners=made["owners"], visits=visits)


SPELT = ("01", "1", " 1", "1.0")
TWICE = joined(family("new", 9, 5), bare(owners=family("new", 1, 7)["owners"]))
NOBODY = bare(owners=family(None, 0)["owners"], visits=family("", 9)["visits"])
# What comes, and how many persons that is.
TRAPS: dict[str, tuple[Tables, int]] = {
    # 2^20 / 13, rounded and added up thirteen times, is more than 2^20.
    "integer division": (family("new", 13, 5), 1),
    "integer division, two levels down": (family("new", 7, 5, drugs=3), 1),
    "more rows than are counted": (family("new", 40, 5, drugs=9), 1),
    "ties in the order": (family("new", 25, 5, days=[4]), 1),
    "nothing but missing order values": (family("new", 25, 5, days=[None]), 1),
    "a person who is there twice": (TWICE, 1),
    "rows of a parent who is not there": (bare(visits=family("lost", 20, 5)["visits"]), 0),
    "rows without a link": (bare(visits=family(None, 20, 5)["visits"]), 0),
    "a person without a key": (NOBODY, 0),
    "keys that others have": (sharing("new"), 1),
    "keys that differ by spelling": (joined(*[family(k, 9, n) for n, k in enumerate(SPELT)]), 4),
}


def counts(source: Any, tree: LinkedSchema = TREE) -> dict[tuple[str, tuple[str, ...]], np.ndarray]:
    """All single columns of all views, and pairs of neighbours, as paid visits have them."""
    forest = PrivateForest.open(source, tree)
    cost = [Charge(mechanism="test", cost=ZCDP(rho=1.0))]
    found = {}
    whole = forest.charge(cost * len(forest.views), noise=make_noise(3))
    for name in (view.name for view in forest.views):
        with whole.view(name, cost) as visit:
            names = visit.schema.names
            pairs = list(itertools.pairwise(names))
            told = visit.counts_many([(), *((n,) for n in names), *pairs])
        found.update({(name, columns): values for columns, values in told.items()})
    return found


def check(load: Callable[[Tables], Any]) -> None:
    """Count all traps, each with its rows shuffled; ``load`` brings tables into the engine."""
    before = others()
    one = counts(load(before))
    assert one["owners", ()] == 8.0
    for name, (added, persons) in TRAPS.items():
        shuffled = {
            table: frame.sample(frac=1, random_state=3).reset_index(drop=True)
            for table, frame in joined(before, added).items()
        }
        two = counts(load(shuffled))
        for key, values in one.items():
            moved = two[key] - values
            assert np.abs(moved).sum() <= persons, (name, key)
            # Whoever has rows in a view weighs one there, exactly.
            assert float(moved.sum()) in {float(n) for n in range(persons + 1)}, (name, key)
        assert two["owners", ()] == 8.0 + persons, name
