"""Count all two-way marginals of a large Parquet file, and report time and resident memory.

    python benchmarks/counting.py                     # 20 million rows, 12 columns
    python benchmarks/counting.py --rows 2000000

The file is made in a temporary folder. A fresh process counts, so that making the file does not
show in the peak; the target is a peak below 1.5 GiB whatever the number of rows.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from marginalsyn.table.columns import BooleanColumn, CategoricalColumn, OrdinalColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.schema import Schema

ROWS = 20_000_000
TARGET_MIB = 1536

WORK = ("private", "self-employed", "government", "unpaid", "none")
SCHEMA = Schema(
    columns=(
        IntegerColumn(name="age", lower=17, upper=90),
        CategoricalColumn(name="work", categories=WORK, nullable=True),
        ContinuousColumn(name="income", lower=0, upper=10_000),
        ContinuousColumn(name="capital", lower=0, upper=600, nullable=True),
        BooleanColumn(name="member"),
        IntegerColumn(name="education", lower=0, upper=15),
        CategoricalColumn(name="region", categories=tuple(f"region-{i}" for i in range(20))),
        IntegerColumn(name="hours", lower=0, upper=99, bins=20),
        OrdinalColumn(name="grade", categories=("low", "middle", "high")),
        IntegerColumn(name="month", lower=1, upper=12),
        CategoricalColumn(name="country", categories=tuple(f"c{i}" for i in range(39))),
        BooleanColumn(name="outcome", true_label=1, false_label=0),
    )
)

MAKE = """
COPY (
  WITH r AS (SELECT hash(range) AS h, hash(range + 1000000007) AS g FROM range({rows}))
  SELECT
    17 + (h % 74)::INT AS age,
    CASE WHEN g % 50 > 0 THEN {work}[1 + ((h >> 8) % 5)::INT] END AS work,
    ((h >> 16) % 100000)::DOUBLE / 10 AS income,
    CASE WHEN (g >> 20) % 20 > 0 THEN ((g >> 24) % 4000)::DOUBLE / 7 END AS capital,
    (h >> 32) % 2 = 0 AS member,
    ((h >> 34) % 16)::INT AS education,
    'region-' || ((g >> 8) % 20) AS region,
    ((g >> 16) % 100)::INT AS hours,
    ['low', 'middle', 'high'][1 + ((g >> 40) % 3)::INT] AS grade,
    (1 + (h >> 44) % 12)::INT AS month,
    'c' || ((g >> 46) % 40) AS country,
    ((h >> 50) % 2)::INT AS outcome
  FROM r
) TO '{path}' (FORMAT parquet)
"""


def make(path: Path, rows: int, threads: int) -> None:
    """Write the file; its values come from a hash, so every run makes the same."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {threads}")
        connection.execute(MAKE.format(rows=rows, work=list(WORK), path=path))


def count(path: Path, threads: int, memory_bytes: int | None) -> None:
    """Count through a paid visit, as a mechanism would, and print what it took."""
    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.privacy.charges import ZCDP, Charge
    from marginalsyn.privacy.noise import make_noise
    from marginalsyn.sources import counting
    from marginalsyn.table import engine

    engine.MOST_THREADS = threads
    if memory_bytes is not None:
        counting.MEMORY_BYTES = memory_bytes
    table = PrivateTable.open(path, SCHEMA)
    charge = Charge(mechanism="benchmark", cost=ZCDP(rho=1.0))
    with table.charge([charge], noise=make_noise()) as visit:
        started = time.perf_counter()
        rows = int(visit.counts(()))
        encoded = time.perf_counter()
        pairs = list(itertools.combinations(SCHEMA.names, 2))
        counts = visit.counts_many(pairs)
        finished = time.perf_counter()
    if any(int(values.sum()) != rows for values in counts.values()):
        sys.exit("counts must add up to the rows")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    where = "engine" if memory_bytes == 0 else "chosen"
    print(
        f"{rows:,} rows, {len(pairs)} marginals, {threads} threads, {where}: "
        f"encode {encoded - started:.1f} s, count {finished - encoded:.1f} s, "
        f"peak resident {peak:.0f} MiB"
    )
    if peak > TARGET_MIB:
        sys.exit(f"peak resident memory ({peak:.0f} MiB) must stay below {TARGET_MIB} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--file", type=Path, help="count this file, made by an earlier run")
    parser.add_argument("--engine", action="store_true", help="count in the engine, not in memory")
    options = parser.parse_args()
    if options.file is not None:
        count(options.file, options.threads, 0 if options.engine else None)
        return
    with tempfile.TemporaryDirectory(prefix="marginalsyn-") as folder:
        path = Path(folder) / "large.parquet"
        make(path, options.rows, options.threads)
        print(f"made {path.stat().st_size / 1e6:.0f} MB")
        for extra in ([], ["--engine"]):
            command = [sys.executable, __file__, "--threads", str(options.threads)]
            subprocess.run([*command, "--file", str(path), *extra], check=True)


if __name__ == "__main__":
    main()
