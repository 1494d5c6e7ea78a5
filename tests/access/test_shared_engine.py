"""Tables of one process share a DuckDB and the texts of queries, and nothing else."""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from marginalsyn import Charge, PrivateTable, Schema, Unit, make_noise
from marginalsyn.access import rows
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.sources import counting, source
from marginalsyn.table import engine
from marginalsyn.table.unit import SurveyWeight

SIZES = {"a": 3, "b": 5}
CHARGE = Charge(mechanism="test", cost=ZCDP(rho=0.01))


def frame(seed: int = 1, count: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: rng.integers(0, size, count) for name, size in SIZES.items()})


def counted(data: Any, schema: Schema, **how: Any) -> np.ndarray:
    with PrivateTable.open(data, schema, **how).charge([CHARGE], noise=make_noise()) as visit:
        return visit.counts(("a", "b"))


def stored(kind: str, folder: Path) -> Any:
    place = folder / f"people.{kind}"
    if kind == "parquet":
        frame().to_parquet(place)
    elif kind != "frame":
        frame().to_csv(place, index=False)
    return frame() if kind == "frame" else place


def shared() -> Any:
    """The connection that all others of this process come from."""
    return engine._engine_of(os.getpid()).con


def names_and_bytes(connection: Any) -> tuple[list[Any], int]:
    names = connection.sql(
        "SELECT table_name FROM duckdb_tables() UNION ALL "
        "SELECT view_name FROM duckdb_views() WHERE NOT internal"
    ).fetchall()
    query = "SELECT sum(memory_usage_bytes + temporary_storage_bytes)::BIGINT FROM duckdb_memory()"
    return names, connection.sql(query).fetchone()[0]


def visited(data: Any, before: int) -> None:
    """Count in a visit whose rows and codes are tables of its own connection alone."""
    table = PrivateTable.open(data, Schema.from_domain(SIZES))
    with table.charge([CHARGE], noise=make_noise()) as visit:
        assert visit.counts(("a",)).sum() == 60
        names, size = names_and_bytes(table._rows._connection.backend.con)
        assert ("rows_of_source",) in names
        assert any(name.startswith("kept_") for (name,) in names)
        assert size > before
        for other in (shared(), engine.private_engine().con, engine.cursor()):
            assert names_and_bytes(other)[0] == []
            for (name,) in names:
                with pytest.raises(duckdb.CatalogException):
                    other.execute(f'SELECT * FROM "{name}"')


@pytest.mark.parametrize("kind", ["frame", "csv", "csv.gz", "parquet"])
def test_no_rows_stay_in_the_engine_and_no_other_connection_sees_them(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MEMORY_BYTES", 0)  # codes stay in the engine's own table
    arrays: list[Any] = []

    def noted(*given: Any, real: Any = source.arrow_table) -> pa.Table:
        found = real(*given)
        arrays.append(weakref.ref(found))
        return found

    monkeypatch.setattr(source, "arrow_table", noted)
    gc.collect()
    before = names_and_bytes(shared())
    assert before[0] == []
    visited(stored(kind, tmp_path), before[1])
    gc.collect()
    assert names_and_bytes(shared()) == before
    assert [made() for made in arrays] == [None] * (kind == "frame")


def test_what_is_kept_of_a_query_is_its_text() -> None:
    """It names columns, codes and bounds, which are public, and holds no table and no engine."""
    rows._written.cache_clear()
    table = PrivateTable.open(frame(), Schema.from_domain(SIZES))
    with table.charge([CHARGE], noise=make_noise()) as visit:
        visit.counts(("a",))
    backend = weakref.ref(table._rows._connection.backend)
    assert rows._written.cache_info().currsize == 1
    del visit, table
    gc.collect()
    assert backend() is None


def test_a_kept_query_is_that_of_its_own_schema_and_hold_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tables of one layout, opened in many ways one after the other, are counted as by themselves.

    Each is counted as visits and as the curator see it.
    """
    data = frame().assign(who=np.arange(60) // 4)
    base = Schema.from_domain(SIZES).model_copy(update={"drop": ("who",)})
    split, other = {"holdout": 0.3, "holdout_salt": "x"}, {"holdout": 0.3, "holdout_salt": "y"}
    two, three = (Unit(column="who", max_rows=most) for most in (2, 3))
    ways: list[tuple[dict[str, Any], Schema]] = [
        ({}, base),
        (split, base),
        (other, base),
        (other | {"holdout": 0.6}, base),
        ({}, Schema.from_domain({"a": 2, "b": 5}).model_copy(update={"drop": ("who",)})),
        ({}, base.model_copy(update={"unit": two})),
        ({}, base.model_copy(update={"unit": three})),
        (split, base.model_copy(update={"unit": two})),
        ({}, base.model_copy(update={"survey_weight": SurveyWeight(column="who", bound=9)})),
    ]

    def counts() -> list[Any]:
        found = []
        for how, schema in ways:
            table = PrivateTable.open(data, schema, **how)
            for seen in (table._rows, table._plain):
                found.append(seen.count([("a", "b")], {})["a", "b"].tolist())
                seen.close()
        return found

    rows._written.cache_clear()
    first, again = counts(), counts()
    monkeypatch.setattr(rows, "_written", rows._written.__wrapped__)
    assert first == again == counts()
    # Ways differ in what they count: as visits see it in all of them.
    assert len({str(one) for one in first[::2]}) == len(ways)


def test_a_kept_query_is_the_one_that_would_be_written(tmp_path: Path) -> None:
    """To the letter, for columns of every type: an engine's name decides how some are read."""
    data = frame().assign(
        c=pd.Timestamp("2020-02-03 04:05:06"),
        d=1.5,
        e="x",
        f=True,
        g=pd.to_datetime(["2020-01-01"] * 60).date,
        h=[1, "1"] * 30,
    )
    schema = Schema.from_domain(dict.fromkeys(data.columns, 5))
    file = duckdb.connect(tmp_path / "people.duckdb")
    file.execute("CREATE TABLE people AS SELECT a, b, c, d, e, f, g, 'x' AS h FROM data")
    file.close()
    data.astype(str).to_csv(tmp_path / "people.csv", index=False)
    for rows_of, where in (
        (data, None),
        (tmp_path / "people.csv", None),
        (f"duckdb://{tmp_path}/people.duckdb", "people"),
    ):
        table = PrivateTable.open(rows_of, schema, table=where, holdout=0.2, holdout_salt="x")
        seen, taken = table._rows, []
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(counting, "load", lambda *given, taken=taken: taken.extend(given))
            _ = seen._codes
        connection, encoded, sizes, _, query = taken
        assert query == connection.backend.compile(encoded(tuple(sizes)))


def test_tables_of_two_threads_are_counted_at_once() -> None:
    schema = Schema.from_domain(SIZES)
    tables = [frame(seed, 400) for seed in range(12)]
    wanted = [pd.crosstab(t["a"], t["b"]).to_numpy() for t in tables]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda data: counted(data, schema), tables * 3))
    for one, other in zip(found, wanted * 3, strict=True):
        assert np.array_equal(one, other)


def test_ctrl_c_ends_one_query_and_other_connections_go_on() -> None:
    endless = "SELECT count(*) FROM range(1000000000000) t(n) WHERE sqrt(n) > 5"
    own = engine.private_engine()
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt), engine.engine_errors("people.csv"):
        own.con.execute(endless).fetchall()
    own.con.interrupt()
    assert counted(frame(), Schema.from_domain(SIZES)).sum() == 60
    assert own.con.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_counts_in_an_engine_of_its_own() -> None:
    schema, wanted = Schema.from_domain(SIZES), pd.crosstab(frame()["a"], frame()["b"]).to_numpy()
    assert np.array_equal(counted(frame(), schema), wanted)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(counted(frame(), schema), wanted) else 1)
    assert os.waitpid(child, 0)[1] == 0
