"""Exact checks for persons: what one moves, however many rows the person has."""

from __future__ import annotations

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.plugins.audit.exact import Check
from marginalsyn.privacy.charges import ZCDP, Charge
from marginalsyn.privacy.noise import make_noise
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import Unit

_SIZES = (1, 3, 50)
_MOST = 7


def counts() -> list[Check]:
    """A person's rows share one unit of weight, so every marginal moves by it and no more."""
    schema = Schema.from_domain({"a": 3, "b": 2}).with_unit(Unit(column="who", max_rows=_MOST))
    rng, moved, rows_moved = np.random.default_rng(0), 0.0, 0
    others = pd.concat([_rows(rng, f"p{i}", int(rng.integers(1, 9))) for i in range(12)])
    before = _counts(others, schema)
    for size in _SIZES:
        after = _counts(pd.concat([_rows(rng, "new", size), others]), schema)
        differences = [np.abs(after[key] - before[key]).sum() for key in before]
        moved = max(moved, *map(float, differences))
        rows_moved = max(rows_moved, size)
    return [
        Check(name="change of a marginal by one person", value=moved,
              how=f"persons with 1 to {rows_moved} rows, of which {_MOST} are counted")
    ]  # fmt: skip


def _rows(rng: np.random.Generator, who: str, size: int) -> pd.DataFrame:
    values = {"a": rng.integers(0, 3, size), "b": rng.integers(0, 2, size)}
    return pd.DataFrame({"who": [who] * size, **values})


def _counts(frame: pd.DataFrame, schema: Schema) -> dict[tuple[str, ...], np.ndarray]:
    names = schema.names
    wanted = [(), *((name,) for name in names), tuple(names)]
    table = PrivateTable.open(frame.reset_index(drop=True), schema)
    charge = Charge(mechanism="gaussian", cost=ZCDP(rho=0.1))
    with table.charge([charge], noise=make_noise(0), persons=True) as visit:
        return visit.counts_many(wanted)


FAMILIES = (((), counts),)
