"""Can the value of one row stop a run that has been paid for?

Pairs of tables that differ by one row. Where its value makes the engine fail, or has no text or
number for it, the run of one table ends in an error after its charge and that of the other gives a
release: one glance at the folder tells the tables apart, whatever the noise.

    python -m benchmarks.attacks.one_value

PostgreSQL is tried where its server is installed. benchmarks/fuzz.py draws more values.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.privacy.charges import ZCDP, Charge
from marginalsyn.privacy.noise import make_noise
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.schema import Schema

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

ROWS = 50
SCHEMA = Schema(columns=(CategoricalColumn(name="a", categories=("1", "2020-01-01 00:00:00")),))
FARTHEST = 2**63 - 1


def viewed(values: list[Any], stored: Any, kind: Any) -> Any:
    """An array of a type by what it stores, valid or not."""
    return pa.array(values, stored).view(kind)


def arrays() -> Iterator[tuple[str, list[Any], Any, Any, Any]]:
    """Name, usual values, the one more, the stored type and the type, for Parquet files."""
    for unit, size in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        far = {"s": 10**15, "ms": 10**18}.get(unit, -FARTHEST)
        for zone in (None, "UTC"):
            kind = pa.timestamp(unit, zone)
            yield str(kind), [1577836800 * size], far, pa.int64(), kind
    for kind, stored, far in (
        (pa.time32("ms"), pa.int32(), -5),
        (pa.time64("us"), pa.int64(), FARTHEST),
        (pa.time64("ns"), pa.int64(), -1000),
    ):
        yield str(kind), [0], far, stored, kind
    yield "date32", [0], -(2**31), pa.int32(), pa.date32()
    yield "string", [b"1"], b"\xff", pa.binary(), pa.string()


def pairs(stack: ExitStack, everywhere: bool) -> Iterator[tuple[str, Any, Any]]:
    """Name, the table and the table with one row more."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    for number, (name, usual, odd, stored, kind) in enumerate(arrays()):
        both = [folder / f"{number}-{more}.parquet" for more in range(2)]
        for path, more in zip(both, ([], [odd]), strict=True):
            parquet.write_table(pa.table({"a": viewed(usual * ROWS + more, stored, kind)}), path)
        yield f"Parquet, {name}, {odd!r}", *both
    usual = pd.Series(["1"] * ROWS, dtype=object)
    half = pd.concat([usual, pd.Series(["\ud800"], dtype=object)])
    yield "frame, half of a character", usual.to_frame("a"), half.to_frame("a")
    times = pd.arrays.ArrowExtensionArray(viewed([0, FARTHEST], pa.int64(), pa.duration("s")))
    frame = pd.DataFrame({"a": times})
    yield "frame, a duration beyond Python's", frame[:1], frame
    yield from databases(stack, everywhere)


def databases(stack: ExitStack, everywhere: bool) -> Iterator[tuple[str, Any, Any]]:
    import ibis

    backend = ibis.duckdb.connect()
    stack.callback(backend.disconnect)
    last = f"make_timestamp({FARTHEST - 1})::TIMESTAMP_MS"
    backend.con.execute(f"CREATE TABLE far AS SELECT {last} AS a")
    far = backend.table("far")
    yield "DuckDB, a time beyond its texts", far.limit(0), far
    if not everywhere:
        return
    try:
        import servers

        address = stack.enter_context(servers.postgres())
    except (ImportError, LookupError) as error:
        print(f"PostgreSQL was not tried: {error}")
        return
    import psycopg

    for number, odd in enumerate(("1e400", "-1e400", "1e-400")):
        with psycopg.connect(address) as connection:
            for name, rows in ((f"one{number}", ()), (f"two{number}", (odd,))):
                connection.execute(f"CREATE TABLE {name} (a numeric)")
                for value in ["1"] * ROWS + list(rows):
                    connection.execute(f"INSERT INTO {name} VALUES ({value})")
        yield (
            f"PostgreSQL, numeric {odd}",
            *(f"{address}?table={t}{number}" for t in ("one", "two")),
        )


def ends(data: Any) -> tuple[str | None, np.ndarray | None]:
    """How a paid run ends: None where it gives counts, else what it says; and the counts."""
    table = PrivateTable.open(data, SCHEMA)
    charge = Charge(mechanism="gaussian", cost=ZCDP(rho=0.1))
    try:
        with table.charge([charge], noise=make_noise()) as visit:
            counts = visit.counts(["a"])
            visit.measure(["a"], sigma=10.0)
    except Exception as error:
        spent = "charged" if table.ledger.read().charges else "nothing charged"
        return f"{type(error).__name__}, {spent}: {error}", None
    return None, counts


def attack(*, everywhere: bool = True) -> str | None:
    """What was found, or None; ``everywhere`` is on a PostgreSQL server, too."""
    broken = []
    with ExitStack() as stack:
        for name, without, with_row in pairs(stack, everywhere):
            (first, counts), (second, more) = ends(without), ends(with_row)
            print(f"{name}: {second or 'ends as its neighbour does'}")
            if first != second:
                broken.append(name)
            elif counts is not None and more is not None:
                moved = int(np.abs(more - counts).sum())
                if moved > 1:
                    broken.append(f"{name} (counts move by {moved})")
    return f"one value stops a paid run: {'; '.join(broken)}" if broken else None


if __name__ == "__main__":
    problem = attack()
    print(problem or "nothing found")
    sys.exit(1 if problem else 0)
