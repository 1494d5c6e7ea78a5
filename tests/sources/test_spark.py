"""Counts in Spark: one job a round, cancelled cleanly, and right after an executor was lost."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Charge, PrivateTable, Schema, make_noise
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.sources import count_blocks, spark

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SCHEMA = Schema.from_domain({"a": 3, "b": 300, "c": 2})
PAIRS = list(itertools.combinations(SCHEMA.names, 2))


def frame(rows: int = 5000) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    return pd.DataFrame({n: rng.integers(0, k, rows) for n, k in SCHEMA.domain.items()})


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql", reason="the extra 'spark' is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    folder = tmp_path_factory.mktemp("spark")
    frame().to_parquet(folder / "people.parquet")
    found = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    people = found.read.parquet(str(folder / "people.parquet")).repartition(5)
    people.createOrReplaceTempView("people")
    yield found
    found.stop()


def jobs(session: Any) -> int:
    return int(session.sparkContext._jsc.sc().statusStore().jobsList(None).size())


def visit_of(data: Any) -> tuple[PrivateTable, Any]:
    charge = Charge(mechanism="test", cost=ZCDP(rho=1.0))
    table = PrivateTable.open(data, SCHEMA)
    return table, table.charge([charge], noise=make_noise(3))


def kept_blocks(session: Any) -> int:
    return int(session.sparkContext._jsc.getPersistentRDDs().size())


@pytest.mark.parametrize("direct", [0, spark.DIRECT_BYTES])
def test_a_round_is_one_job_and_leaves_the_session_as_it_was(
    session: Any, monkeypatch: pytest.MonkeyPatch, direct: int
) -> None:
    monkeypatch.setattr(spark, "DIRECT_BYTES", direct)
    monkeypatch.setattr(spark, "PIECE_CELLS", 100)
    before = dict(session.sparkContext.getConf().getAll()), session.conf.get(spark._BATCH)
    expected = visit_of(frame())[1].counts_many([(), *PAIRS, SCHEMA.names])
    _, visit = visit_of("spark://people")
    rounds = [[(n,) for n in SCHEMA.names], [(), *PAIRS], [tuple(SCHEMA.names)]]
    for wanted in rounds:
        started = jobs(session)
        found = visit.counts_many(wanted)
        assert jobs(session) == started + 1
        for columns in wanted:
            if columns in expected:
                np.testing.assert_array_equal(found[columns], expected[columns])
    assert kept_blocks(session) == 1
    with visit:
        pass
    assert kept_blocks(session) == 0
    assert session.conf.get("spark.sql.adaptive.enabled") == "true"
    after = dict(session.sparkContext.getConf().getAll()), session.conf.get(spark._BATCH)
    assert after == before
    assert not session.getTags()


def test_rows_come_a_block_at_a_time(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "BLOCK_BYTES", 4 * 300)
    here, there = visit_of(frame())[1], visit_of("spark://people")[1]
    batches = list(there.batches(["c", "b"], size=200))
    assert max(len(batch.values) for batch in batches) <= 200
    codes = [
        np.concatenate([batch.values for batch in rows])
        for rows in (batches, here.batches(["c", "b"]))
    ]
    codes = [rows[np.lexsort(rows.T)] for rows in codes]
    np.testing.assert_array_equal(*codes)


def test_a_table_without_rows(session: Any) -> None:
    session.table("people").limit(0).createOrReplaceTempView("nobody")
    table, visit = visit_of("spark://nobody")
    assert visit.counts(()) == 0
    assert visit.counts(["a", "b"]).sum() == 0
    table.close()


def test_what_workers_run_needs_nothing_of_this_package(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from pyspark import cloudpickle

    task = count_blocks.Task(PAIRS, SCHEMA.domain, {"b": np.arange(300) // 9}, None)
    kinds = count_blocks.kinds_of(SCHEMA.domain)
    with spark._sent_by_value():
        sent = [spark._packer(kinds), spark._counter(task, kinds), spark._make_adder()]
        (tmp_path / "sent").write_bytes(cloudpickle.dumps(sent))
    assert not cloudpickle.list_registry_pickle_by_value()
    script = """
    import pickle, sys
    sys.modules["marginalsyn"] = None
    import pyarrow as pa
    pack, count, add = pickle.load(open(sys.argv[1], "rb"))
    rows = [pa.array([0, 0x01010001, 0x01010001], pa.int64())]
    batch = pa.RecordBatch.from_arrays(rows, names=["w0"])
    print(sum(sum(piece.column(1)[0].as_py()) for piece in add(count(pack([batch])))))
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "sent")],
        check=True,
        capture_output=True,
        text=True,
    )
    # Three rows in each of three marginals, and one partition.
    assert int(found.stdout) == 10


def test_ctrl_c_cancels_the_job(session: Any) -> None:
    from pyspark.sql.functions import udf

    session.udf.register("slowly", udf(lambda a: time.sleep(0.05) or a, "bigint"))
    session.sql("SELECT slowly(a) AS a, b, c FROM people").createOrReplaceTempView("slow")
    table, visit = visit_of("spark://slow")
    tracker = session.sparkContext.statusTracker()

    def interrupt() -> None:
        while not tracker.getActiveJobsIds():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        visit.counts_many(PAIRS)
    until = time.monotonic() + 30
    while tracker.getActiveJobsIds() and time.monotonic() < until:
        time.sleep(0.1)
    assert not tracker.getActiveJobsIds()
    assert session.conf.get("spark.sql.adaptive.enabled") == "true"
    table.close()
    # The session is as good as before.
    assert visit_of("spark://people")[1].counts(()) == 5000


LOST = """
import os, signal, subprocess, sys, time
from pyspark.sql import SparkSession
sys.path.insert(0, sys.argv[2])
import test_spark

session = (
    SparkSession.builder.master("local-cluster[2,1,1024]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.executor.memory", "512m")
    .getOrCreate()
)
people = session.read.parquet(sys.argv[1]).repartition(6)
people.createOrReplaceTempView("people")
table, visit = test_spark.visit_of("spark://people")
first = visit.counts_many(test_spark.PAIRS)
java = session._jvm.java.lang.ProcessHandle.current()
executors = [
    int(child.pid())
    for child in java.descendants().toList()
    if "CoarseGrainedExecutorBackend" in child.info().commandLine().orElse("")
]
assert len(executors) == 2, executors
os.kill(executors[0], signal.SIGKILL)
visit._rows._codes._kept.clear()
second = visit.counts_many(test_spark.PAIRS)
assert all((first[q] == second[q]).all() for q in test_spark.PAIRS)
print("rows", int(second[test_spark.PAIRS[0]].sum()))
"""


def test_counts_are_the_same_after_an_executor_was_lost(tmp_path: Path) -> None:
    """On a cluster of two workers on this machine; Spark makes the lost blocks again."""
    pyspark = pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    frame().to_parquet(tmp_path / "people.parquet")
    home = str(Path(pyspark.__file__).parent)
    found = subprocess.run(
        [sys.executable, "-c", LOST, str(tmp_path / "people.parquet"), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env={**os.environ, "SPARK_HOME": home, "PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
    )
    assert "rows 5000" in found.stdout, found.stderr[-3000:]
