"""The engine of our own: streams that are left early."""

from __future__ import annotations

import os
import signal
import threading

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from marginalsyn.table.arrow import arrow_table
from marginalsyn.table.engine import batches_of, engine_errors, private_engine


def test_a_stream_that_is_left_early_is_closed() -> None:
    """Left to its destructor it would wait for threads that wait for Python's lock."""
    frame = pd.DataFrame({"a": np.arange(300_000)})
    backend = private_engine()
    backend.con.register("t", arrow_table(frame, ("a",)))
    with batches_of(backend, backend.table("t"), 1000) as batches:
        first = next(iter(batches))
    assert 0 < first.num_rows <= 2048  # DuckDB's own batches are of 2,048 rows
    with pytest.raises((pa.ArrowInvalid, OSError)):
        next(iter(batches))
    assert backend.con.execute("SELECT count(*) FROM t").fetchone() == (300_000,)
    with batches_of(backend, backend.table("t"), 100_000) as batches:
        whole = np.concatenate([batch.column(0).to_numpy() for batch in batches])
    assert np.array_equal(np.sort(whole), frame["a"])


def test_ctrl_c_in_a_query_is_ctrl_c() -> None:
    endless = "SELECT count(*) FROM range(1000000000000) t(n) WHERE sqrt(n) > 5"
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    connection = duckdb.connect()
    timer.start()
    with pytest.raises(KeyboardInterrupt), engine_errors("people.csv"):
        connection.execute(endless).fetchall()
    # DuckDB's threads go on with what they began, and it waits for them where it is closed.
    connection.interrupt()
