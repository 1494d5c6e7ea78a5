"""Traps in SQL by which a bound on the rows of a person breaks, each a pair of tables.

The second table has something more than the first: a person, or rows that are nobody's. Whatever
engine counts, every marginal moves by the number of persons that came, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn import Charge, PrivateTable, Schema, Unit, make_noise
from marginalsyn.privacy.charges import ZCDP

BASE = Schema(columns=Schema.from_domain({"a": 3, "b": 2}).columns, drop=["day"])
MOST = 13  # which does not divide a power of two


@dataclass(frozen=True)
class Trap:
    """Rows that are added, how many persons they are, and the column that puts rows in order."""

    added: pd.DataFrame
    persons: int
    order: str | None = None


def rows(who: Any, size: int, seed: int = 0, days: Any = None, alike: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    found = pd.DataFrame(
        {
            "who": pd.Series([who] * size, dtype=object),
            "a": rng.integers(0, 3, size),
            "b": rng.integers(0, 2, size),
            "day": pd.Series(rng.choice(days, size) if days else ["1"] * size, dtype=object),
        }
    )
    return found.assign(a=2, b=1) if alike else found


def others(persons: int = 12) -> pd.DataFrame:
    """Persons of 1 to 20 rows, some of whom have rows that are alike."""
    sizes = np.random.default_rng(1).integers(1, 21, persons)
    days = ["2", "10", "10", None]
    return pd.concat(
        [rows(f"p{i}", int(n), i, days, alike=i % 3 == 0) for i, n in enumerate(sizes)],
        ignore_index=True,
    )


TRAPS = {
    # Seven halves as rounded floats are more than their sum: a cast of 2^20 / 13 adds up beyond.
    "integer division": Trap(rows("new", 13), 1),
    "more rows than are counted": Trap(rows("new", 40), 1),
    "rows that are alike": Trap(rows("new", 30, alike=True), 1),
    # SQL takes all nulls of a partition for one value.
    "rows without an id": Trap(pd.concat([rows(None, 25), rows("", 9)]), 0),
    "rows without an id, in order": Trap(rows(None, 25, days=["1", None]), 0, "day"),
    "ties in the order": Trap(rows("new", 30, days=["5"]), 1, "day"),
    "missing order values": Trap(rows("new", 30, days=[None, "7"]), 1, "day"),
    "nothing but missing order values": Trap(rows("new", 30, days=[None]), 1, "day"),
    "ids that differ by spelling": Trap(
        pd.concat(
            [rows(who, 15, n) for n, who in enumerate(("01", "1", " 1", "1.0", "P1", "p1 "))]
        ),
        6,
    ),
}


def counts(source: Any, order: str | None = None) -> dict[tuple[str, ...], np.ndarray]:
    """All marginals, and what each person's rows weigh, as a paid visit has them."""
    schema = BASE.with_unit(Unit(column="who", max_rows=MOST, order=order))
    table = PrivateTable.open(source, schema)
    charge = Charge(mechanism="test", cost=ZCDP(rho=0.01))
    names = schema.names
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    with table.charge([charge], noise=make_noise(), persons=True) as visit:
        found = visit.counts_many([(), *((name,) for name in names), *pairs, tuple(names)])
        codes, weights, numbers = visit.all_rows(person=True)
        again, masses, _ = visit.all_rows(weighted=True)
    assert masses is not None
    # Rows that are asked for one by one say the same as counts.
    for seen, each in ((codes, weights), (again, masses)):
        np.testing.assert_array_equal(np.bincount(seen[:, 0], each, minlength=3), found[("a",)])
    persons = np.bincount(numbers, weights)
    np.testing.assert_array_equal(persons, np.ones(len(persons)))
    assert len(persons) == found[()]
    assert np.bincount(numbers).max() <= MOST
    return found


def check(load: Any) -> None:
    """Count all traps, each with its rows shuffled; ``load`` brings a table into the engine."""
    before = others()
    ones = {order: counts(load(before), order) for order in (None, "day")}
    for name, trap in TRAPS.items():
        after = pd.concat([before, trap.added], ignore_index=True)
        shuffled = after.sample(frac=1, random_state=3).reset_index(drop=True)
        one, two = ones[trap.order], counts(load(shuffled), trap.order)
        assert one[()] == 12.0
        for key, values in one.items():
            moved = two[key] - values
            assert moved.sum() == trap.persons, (name, key)
            if trap.persons <= 1:
                # All of it upwards: nobody else's rows are chosen anew.
                assert (moved >= 0).all(), (name, key)
