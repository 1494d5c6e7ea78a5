"""Counts of a round, taken together: blocks of codes, kept counts, and one statement for many."""

from __future__ import annotations

import itertools
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from marginalsyn import Budget, Charge, PrivateTable, Schema, Unit, make_noise
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.sources import count_blocks, counting
from marginalsyn.sources.databases import spark_address
from marginalsyn.table.engine import Connection

SIZES = {"a": 3, "b": 300, "c": 2, "d": 40}
MARGINALS: list[tuple[str, ...]] = [(), ("a",), ("c", "a"), ("b", "d"), ("a", "c", "d")]


def frame(rows: int = 500, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: rng.integers(0, size, rows) for name, size in SIZES.items()})


def brute(codes: pd.DataFrame, task: count_blocks.Task) -> list[np.ndarray]:
    totals = [np.zeros([task.sizes[n] for n in q], np.int64) for q in task.marginals]
    for row in codes.to_dict("records"):
        weight = 1 if task.weighing is None else task.weighing.weights[row[task.weighing.column]]
        for columns, total in zip(task.marginals, totals, strict=True):
            cell = tuple(task.maps[n][row[n]] if n in task.maps else row[n] for n in columns)
            total[cell] += weight
    return totals


@given(st.integers(0, 90), st.integers(1, 40), st.integers(20, 400), st.booleans())
def test_blocks_hold_the_codes_and_are_counted_as_by_hand(rows, batch, most, weighed) -> None:
    codes, kinds = frame(rows), count_blocks.kinds_of(SIZES)
    assert list(kinds.values()) == ["uint8", "uint16", "uint8", "uint8"]
    # As Spark sends them: side by side in whole numbers, the widest first.
    assert count_blocks.places_of(kinds) == {"b": (0, 0), "a": (0, 2), "c": (0, 3), "d": (0, 4)}
    word = np.zeros(rows, np.int64)
    for name, (_, byte) in count_blocks.places_of(kinds).items():
        word |= codes[name].to_numpy(np.int64) << (8 * byte)
    arrow = pa.table({"w0": pa.array(word)})
    blocks = list(count_blocks.pack(arrow.to_batches(batch), kinds, most))
    assert sum(number for number, _ in blocks) == rows
    assert all(len(block) <= max(most, 5) for _, block in blocks)
    weights = np.arange(1, 41) * 2**20 + 7
    maps = {"b": np.arange(300) // 100, "c": np.zeros(2, int)}
    weighing = count_blocks.Weighing("d", weights) if weighed else None
    task = count_blocks.Task(MARGINALS, {**SIZES, "b": 3, "c": 1}, maps, weighing)
    totals = count_blocks.zeros(task)
    # A few blocks at a time.
    for start in range(0, len(blocks), 3):
        held = blocks[start : start + 3]
        count_blocks.tally(totals, *count_blocks.gather(held, kinds, task.used or ["a"]), task)
    for found, expected in zip(task.shaped(totals), brute(codes, task), strict=True):
        np.testing.assert_array_equal(found, expected)


class Asked:
    """Codes that note what they are asked for."""

    def __init__(self) -> None:
        arrays = {name: values.to_numpy() for name, values in frame().items()}
        self.codes, self.rounds = counting.ArrayCodes(arrays), []

    def count(self, marginals: Any, sizes: Any, maps: Any) -> Any:
        self.rounds.append(list(marginals))
        return self.codes.count(marginals, sizes, maps)

    def batches(self, columns: Any, size: int) -> Any:
        return self.codes.batches(columns, size)

    def close(self) -> None:
        self.codes.close()


def test_counts_are_asked_for_once_and_never_confused() -> None:
    asked = Asked()
    kept = counting.KeptCounts(asked)
    kept.prepare([("a",), ("b", "d")], SIZES, {})
    assert asked.rounds == [[("a",), ("b", "d")]]
    first = kept.count([("b", "d"), ("c",), ("a",)], SIZES, {})
    assert asked.rounds[1:] == [[("c",)]]
    # A caller may do with an answer what it likes.
    wanted = [values.copy() for values in first]
    first[0][:] = -1
    for maps in ({"b": np.arange(300) // 150}, {"b": np.arange(300) // 100}):
        sizes = {**SIZES, "b": int(maps["b"].max()) + 1}
        (merged,) = kept.count([("b", "d")], sizes, maps)
        np.testing.assert_array_equal(
            merged, np.add.reduceat(wanted[0], np.flatnonzero(np.diff(maps["b"], prepend=-1)))
        )
    again = kept.count([("b", "d"), ("a",)], SIZES, {"c": np.zeros(2, int)})
    np.testing.assert_array_equal(again[0], wanted[0])
    np.testing.assert_array_equal(again[1], wanted[2])
    assert len(asked.rounds) == 4


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "KEPT_BYTES", 400)
    asked = Asked()
    kept = counting.KeptCounts(asked)
    kept.prepare([("a",), ("d",), ("b", "d"), ("c",)], SIZES, {})
    assert asked.rounds == [[("a",), ("d",)]]
    (large,) = kept.count([("b", "d")], SIZES, {})
    assert large.sum() == 500
    kept.count([("c",)], SIZES, {})
    kept.count([("b", "d")], SIZES, {})
    assert asked.rounds[1:] == [[("b", "d")], [("c",)], [("b", "d")]]


def elsewhere(monkeypatch: pytest.MonkeyPatch, data: pd.DataFrame, *, grouped: bool) -> ibis.Table:
    """A table of an engine that is taken for one elsewhere."""
    backend = ibis.duckdb.connect()
    backend.con.register("people", pa.Table.from_pandas(data, preserve_index=False))
    monkeypatch.setattr(Connection, "embedded", False)
    if grouped:
        monkeypatch.setitem(counting.SETS, "duckdb", 2)
    return backend.table("people")


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("persons", [False, True])
def test_one_statement_counts_what_many_do(monkeypatch, grouped: bool, persons: bool) -> None:
    data = frame()
    schema = Schema.from_domain(SIZES)
    if persons:
        data["id"] = np.arange(500) // 3
        schema = schema.with_unit(Unit(column="id", max_rows=2))
    here = PrivateTable.open(data, schema)
    there = PrivateTable.open(elsewhere(monkeypatch, data, grouped=grouped), schema)
    charge = Charge(mechanism="test", cost=ZCDP(rho=1.0))
    maps = {"b": np.arange(300) // 100}
    found = [
        table.charge([charge], noise=make_noise(1), persons=persons)
        .merged(maps)
        .counts_many(MARGINALS)
        for table in (here, there)
    ]
    for columns in MARGINALS:
        np.testing.assert_array_equal(found[0][columns], found[1][columns])


@pytest.mark.parametrize("engine", ["snowflake", "bigquery", "postgres"])
def test_statements_are_sql_of_the_engine(engine: str) -> None:
    class Engine:
        name, dialect = engine, sqlglot.Dialect.get_or_raise(engine)

        def compile(self, table: ibis.Table) -> str:
            return ibis.to_sql(table, dialect=engine)

    table = ibis.table({"c0": "int32", "c1": "int32", "c2": "int32"}, name="codes of people")
    sets = [("c0",), (), *itertools.combinations(("c0", "c1", "c2"), 2)] * 30
    text = counting.grouping_sets(Engine(), table, sets)
    parsed = sqlglot.parse_one(text, dialect=engine)
    asked = [len(found.expressions) for found in parsed.find_all(sqlglot.exp.GroupingSets)]
    assert sum(asked) == len(sets)
    assert max(asked) <= counting.SETS[engine]


# One-way marginals; all pairs, or what is chosen among them; what is measured is known by then.
ROUNDS = {
    "independent": 1,
    "mst": 2,
    "all-marginals": 2,
    "fixed-marginals": 2,
    "clique-tree": 2,
    "aim": 3,
    "auto": 3,
}


@pytest.mark.parametrize("method", ROUNDS)
def test_an_engine_elsewhere_is_asked_once_a_round(monkeypatch, method: str) -> None:
    data = frame(400)[["a", "c", "d"]]
    data["d"] //= 10
    schema = Schema.from_domain({"a": 3, "c": 2, "d": 4})
    schema = schema.model_copy(update={"label": "c"})
    rounds: list[int] = []
    real = counting.TableCodes.count

    def noted(self: Any, marginals: Any, sizes: Any, maps: Any) -> Any:
        rounds.append(len(marginals))
        return real(self, marginals, sizes, maps)

    options: dict[str, Any] = {"rows": 50}
    frames = []
    for source in (data, elsewhere(monkeypatch, data, grouped=True)):
        if source is not data:
            monkeypatch.setattr(counting.TableCodes, "count", noted)
        table = PrivateTable.open(source, schema)
        made, _ = generate(table, make_config(method, options), Budget(eps=1), noise=make_noise(4))
        frames.append(made.frame)
    pd.testing.assert_frame_equal(*frames)
    assert len(rounds) <= ROUNDS[method], rounds


def test_spark_addresses() -> None:
    assert spark_address("people", "") == ("", "people", None)
    assert spark_address("h:1", "/a/b") == ("h:1", "a.b", "sc://h:1/")
    assert spark_address("me@h:1", "/t;token=x") == ("h:1", "t", "sc://h:1/;user_id=me;token=x")


def test_codes_of_every_width_travel_side_by_side() -> None:
    """Also those that reach the sign of a word, and more columns than one word holds."""
    sizes = {"a": 256, "b": 2**16, "c": 2, "d": 2**31, "e": 300, **dict.fromkeys("fghijklm", 256)}
    kinds, rng = count_blocks.kinds_of(sizes), np.random.default_rng(5)
    codes = {name: np.append(rng.integers(0, n, 40), n - 1) for name, n in sizes.items()}
    places, words = count_blocks.places_of(kinds), {}
    for name, (word, byte) in places.items():
        assert byte % np.dtype(kinds[name]).itemsize == 0
        assert byte + np.dtype(kinds[name]).itemsize <= count_blocks.WORD_BYTES
        part = codes[name].astype(np.uint64) << np.uint64(8 * byte)
        words[word] = words.get(word, np.uint64(0)) | part
    arrow = pa.table({f"w{n}": pa.array(words[n].view(np.int64)) for n in sorted(words)})
    ((rows, block),) = count_blocks.pack(arrow.to_batches(), kinds, 2**20)
    found = count_blocks.unpack(block, rows, kinds, sizes)
    for name, values in codes.items():
        np.testing.assert_array_equal(found[name], values)
