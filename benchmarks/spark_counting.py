"""A release by Spark and by DuckDB from the same Parquet files: time, jobs, memory, equal counts.

    python benchmarks/spark_counting.py --rows 10000000
    python benchmarks/spark_counting.py --rows 1000000 10000000 --files 8 --cores 2

Every engine runs in a fresh process: a release by ``mst`` with the same seed, whose rows must
agree, for exact counts are all that the engines contribute. Then all pairs and all triples of six
columns are counted in one round each. Jobs are those that Spark itself has recorded; the driver's
memory is that of the Python process (where counts arrive) and of its Java process. Throughput is
that of the pairs' job: rows times marginals, by seconds and cores. Processor seconds are those of
all processes of an engine, Spark's workers among them; they say more on a busy machine. Set
PYSPARK_PYTHON to this Python where another one comes first on the path.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from counting import SCHEMA as COUNTED
from counting import make

from marginalsyn.table.columns import CategoricalColumn, OrdinalColumn
from marginalsyn.table.numeric import IntegerColumn
from marginalsyn.table.schema import Schema

# The columns of ``counting.py`` with three more: fifteen in all.
MORE = (
    IntegerColumn(name="visits", lower=0, upper=30),
    CategoricalColumn(name="sector", categories=tuple(f"s{i}" for i in range(12))),
    OrdinalColumn(name="band", categories=tuple("abcdefg")),
)
SCHEMA = Schema(columns=(*COUNTED.columns, *MORE))
EXTRA = """COPY (SELECT *, (hash(income + 1) % 31)::INT AS visits, 's' || (hash(income + 2) % 12)
AS sector, substr('abcdefg', 1 + (hash(income + 3) % 7)::INT, 1) AS band FROM '{source}')
TO '{path}' (FORMAT parquet)"""


def write(folder: Path, rows: int, files: int) -> None:
    """Write the rows as several files, all alike: what differs is how many there are."""
    import duckdb

    part = folder / "part.parquet"
    make(part, rows // files, 2)
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2")
        connection.execute(EXTRA.format(source=part, path=folder / "rows-0.parquet"))
    part.unlink()
    for number in range(1, files):
        os.link(folder / "rows-0.parquet", folder / f"rows-{number}.parquet")


def spark_session(cores: int):
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )


def jobs(session) -> int:
    """How many jobs Spark has recorded so far."""
    return int(session.sparkContext._jsc.sc().statusStore().jobsList(None).size())


def seconds(process: int) -> float:
    """Processor seconds of a process and of all that it started."""
    parents: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            parts = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        number = int(file.parent.name)
        parents.setdefault(int(parts[1]), []).append(number)
        # Of itself, and of its children that have ended.
        used[number] = sum(map(int, parts[11:15])) / os.sysconf("SC_CLK_TCK")
    total, queue = 0.0, [process]
    while queue:
        number = queue.pop()
        total += used.get(number, 0.0)
        queue += parents.get(number, [])
    return total


def run(folder: Path, engine: str, cores: int) -> dict[str, float | str]:
    """One engine, in this process."""
    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.contract import make_config
    from marginalsyn.host import generate
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.privacy.charges import ZCDP, Charge
    from marginalsyn.privacy.noise import make_noise
    from marginalsyn.table import engine as local

    told: dict[str, float | str] = {"engine": engine}
    source, session, number = str(folder), None, lambda: 0
    local.MOST_THREADS = cores
    if engine == "spark":
        started = time.perf_counter()
        session = spark_session(cores)
        session.read.parquet(str(folder)).createOrReplaceTempView("rows")
        told["start"] = time.perf_counter() - started
        source, number = "spark://rows", lambda: jobs(session)
    started, before, spent = time.perf_counter(), number(), seconds(os.getpid())
    table = PrivateTable.open(source, SCHEMA)
    made, _ = generate(
        table, make_config("mst", {"rows": 1000}), Budget(eps=1), noise=make_noise(1)
    )
    told["release"] = time.perf_counter() - started
    told["release cpu"] = seconds(os.getpid()) - spent
    told["release jobs"] = number() - before
    told["rows"] = hashlib.sha256(made.frame.to_csv(index=False).encode()).hexdigest()[:12]
    pairs = list(itertools.combinations(SCHEMA.names, 2))
    triples = list(itertools.combinations(SCHEMA.names[-6:], 3))
    charge = Charge(mechanism="benchmark", cost=ZCDP(rho=1.0))
    with table.charge([charge], noise=make_noise(1)) as visit:
        for name, wanted in (("pairs", pairs), ("triples", triples)):
            visit._rows._codes.__dict__.get("_kept", {}).clear()
            started, before = time.perf_counter(), number()
            found = visit.counts_many(wanted)
            told[name], told[f"{name} jobs"] = time.perf_counter() - started, number() - before
            told["n"] = int(found[wanted[0]].sum())
    table.close()
    told["python MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if session is not None:
        told["java MiB"] = java_peak(session)
        session.stop()
    return told


def java_peak(session) -> float:
    """Peak resident memory of the Java process; with local workers it holds their rows, too."""
    process = int(session._jvm.java.lang.ProcessHandle.current().pid())
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> None:
    """Print one row an engine and number of rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--engines", nargs="+", default=["duckdb", "spark"])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(run(Path(args.one[0]), args.one[1], args.cores)))
        return
    print("| rows | engine | release s | cpu s | jobs | 105 pairs s | jobs | 20 triples s | jobs "
          "| row marginals/s a core | Python MiB | Java MiB |")  # fmt: skip
    print("|" + "---|" * 12)
    for rows in args.rows:
        releases = {}
        with tempfile.TemporaryDirectory(prefix="marginalsyn-") as folder:
            write(Path(folder), rows, args.files)
            for engine in args.engines:
                command = [sys.executable, __file__, "--one", folder, engine]
                found = subprocess.run(
                    [*command, "--cores", str(args.cores)],
                    check=False,
                    capture_output=True,
                    text=True,
                )
                if found.returncode:
                    sys.exit(f"{engine} at {rows:,} rows failed:\n{found.stderr}")
                told = json.loads(found.stdout.splitlines()[-1])
                releases[engine] = told
                rate = told["n"] * 105 / told["pairs"] / args.cores
                print(
                    f"| {told['n']:,} | {engine} | {told['release']:.1f} "
                    f"| {told['release cpu']:.1f} | {told['release jobs']} "
                    f"| {told['pairs']:.1f} | {told['pairs jobs']} "
                    f"| {told['triples']:.1f} | {told['triples jobs']} | {rate / 1e6:.0f} million "
                    f"| {told['python MiB']:.0f} | {told.get('java MiB', 0):.0f} |",
                    flush=True,
                )
        if len({told["rows"] for told in releases.values()}) > 1:
            sys.exit("the engines' releases must be the same rows")


if __name__ == "__main__":
    main()
