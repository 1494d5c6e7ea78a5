"""Can one row change how all other rows are read?

Pairs of tables that differ by one row, whose type fits none of the others. Where an engine finds
one type for a whole column, or for a folder of files, that row re-encodes a thousand others, or
moves them across the held-out split, and no noise for one row hides a thousand.

    python -m benchmarks.attacks.reencoding [RUNS]
"""

from __future__ import annotations

import datetime as dt
import math
import sys
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.errors import DataError
from marginalsyn.evaluation.scores import clopper_pearson
from marginalsyn.privacy.charges import Charge, Pure
from marginalsyn.privacy.noise import make_noise
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.schema import Schema

EPS = 0.1
ROWS = 1000
RUNS = 1500
CONFIDENCE = 1e-9
TRUTHS = Schema(columns=(IntegerColumn(name="a", lower=0, upper=1),), drop=("left",))
EDGES = Schema(columns=(ContinuousColumn(name="a", lower=0, upper=1, bins=10, decimals=1),))


def pairs(folder: Path) -> Iterator[tuple[str, Any, Any, Schema, float]]:
    """Name, table, the table with one row more, schema, and the share that is held out."""
    for many, odd in ((True, "x"), (True, 2), (1, "x")):
        values = [many] * ROWS
        yield (
            f"{many} and one {odd!r}",
            pd.DataFrame({"a": values}),
            pd.DataFrame({"a": [*values, odd]}, dtype=object),
            TRUTHS.select(["a"]).model_copy(update={"drop": ()}),
            0.0,
        )
    # Both lie on the edge of a bin.
    for edge, places in ((Decimal("0.1"), 25), (Decimal("0.2"), 30)):
        values = [edge] * ROWS
        yield (
            f"Decimal {edge} and one of {places} places",
            pd.DataFrame({"a": values}),
            pd.DataFrame({"a": [*values, Decimal(1).scaleb(-places)]}),
            EDGES,
            0.0,
        )
    # Half seconds, which engines and Python spell in different ways.
    halves = [dt.datetime(2020, 1, 1) + n * dt.timedelta(seconds=1.5) for n in range(ROWS)]
    ones = [1] * (ROWS // 2) + [0] * (ROWS // 2)
    yield (
        "times and one 'n/a' in a dropped column",
        pd.DataFrame({"a": ones, "left": halves}),
        pd.DataFrame({"a": [*ones, 0], "left": pd.Series([*halves, "n/a"], dtype=object)}),
        TRUTHS,
        0.5,
    )
    truths = pd.DataFrame({"a": [True] * ROWS})
    for number, odd in enumerate(("x", 2, 0.5)):
        both = [folder / f"{number}-{name}" for name in ("one", "two")]
        for path in both:
            path.mkdir()
            truths.to_parquet(path / "0.parquet")
        pd.DataFrame({"a": [odd]}).to_parquet(both[1] / "1.parquet")
        schema = TRUTHS.model_copy(update={"drop": ()})
        yield f"Parquet files of truths and one of {odd!r}", *both, schema, 0.0


def answers(data: Any, schema: Schema, share: float, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """The exact counts, and as many paid ones as there are runs."""
    table = PrivateTable.open(data, schema, holdout=share)
    exact = table.unprotected("choose the event").counts(["a"])
    noise, charge = make_noise(), Charge(mechanism="laplace", cost=Pure(eps=EPS))
    found = []
    for _ in range(runs):
        with table.charge([charge], noise=noise) as visit:
            found.append(visit.laplace(visit.counts(["a"]), 1 / EPS, l1=1.0))
    return exact, np.array(found)


def attack(runs: int = RUNS) -> str | None:
    """What was found, or None."""
    broken = []
    with tempfile.TemporaryDirectory() as folder:
        for name, without, with_row, schema, share in pairs(Path(folder)):
            try:
                tables = [answers(data, schema, share, 1)[0] for data in (without, with_row)]
            except DataError as error:
                print(f"{name}: refused before a row is read ({str(error).partition('(')[0]}...)")
                continue
            moved = int(np.abs(tables[1] - tables[0]).sum())
            print(f"{name}: counts {tables[0].tolist()} become {tables[1].tolist()}")
            if moved <= 1:
                continue
            # What was measured, for the record: the event of the cell that changes most.
            cell = int(np.abs(tables[1] - tables[0]).argmax())
            middle = (tables[0][cell] + tables[1][cell]) / 2
            hits = [
                int((answers(data, schema, share, runs)[1][:, cell] > middle).sum())
                for data in (without, with_row)
            ]
            least = clopper_pearson(max(hits), runs, CONFIDENCE)[0]
            most = clopper_pearson(min(hits), runs, CONFIDENCE)[1]
            eps = math.log(least / most) if least > most else 0.0
            print(f"  seen {hits} times of {runs}: eps {eps:.2f} or more, claimed is {EPS:g}")
            broken.append(f"{name} (counts change by {moved}, eps {eps:.2f} or more)")
    if broken:
        return f"one row re-encodes others: {'; '.join(broken)}"
    return None


if __name__ == "__main__":
    told = attack(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
    print(told or "nothing found")
    sys.exit(1 if told else 0)
