"""Types with ordinary and extreme values: of DuckDB, PostgreSQL and Spark. See value_targets.py.

Values are SQL. Most are texts that are cast to their type, listed as ``type | usual | extreme``.
"""

from __future__ import annotations

import atexit
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from extreme_files import NAMES, REALS, TEXTS, Kind, draw_real, draw_text, draw_whole, ends

BITS = {
    **{"tinyint": 8, "smallint": 16, "integer": 32, "int": 32, "bigint": 64},
    **{"utinyint": -8, "usmallint": -16, "uinteger": -32, "ubigint": -64},
}
DUCKDB = f"""
boolean | true; false
double | 1; 2.5 | {"; ".join(map(str, REALS))}
float | 1; 2.5 | inf; nan; -inf; 3e38; 1e-45
date | 2020-01-02; 1970-01-01 | infinity; -infinity; epoch; 5881580-07-10; 5877642-06-25 (BC);
  10000-01-01
time | 03:04:05 | 24:00:00; 23:59:59.999999; 00:00:00
timetz | 03:04:05+02 | 24:00:00+15:59:59; 00:00:00-15:59:59
timestamp | 2020-01-02 03:04:05; 1970-01-01 00:00:00.5 | infinity; -infinity; epoch;
  294247-01-10 04:00:54.775806; 290309-12-22 (BC) 00:00:00
timestamptz | 2020-01-02 03:04:05+00 | infinity; -infinity; epoch;
  294246-01-10 04:00:54.775806+00; 290309-12-22 (BC) 00:00:00+00
interval | 1 day; 2 hours | -178956970 years; 2147483647 days; 9223372036854775807 microseconds;
  -1 month 1 day
uuid | 00000000-0000-0000-0000-000000000001 | ffffffff-ffff-ffff-ffff-ffffffffffff
blob | a | \\xFF
bit | 1; 0101 | {"1" * 300}; 0
json | 1; "a" | 1e400; null; "{"x" * 1000}"; {"9" * 400}
hugeint | 1; 2 | {2**127 - 1}; {-(2**127)}; {2**64}; {10**38}
uhugeint | 1; 2 | {2**128 - 1}; {10**38}; {2**127}
bignum | 1; 2 | {10**300}; {-(10**300)}; {10**1000}; {10**309}
decimal(4, 1) | 0; 0.5 | 999.9; -999.9
decimal(18, 18) | 0; 0.5 | 0.{"9" * 18}
decimal(38, 0) | 0; 1 | {"9" * 38}; -{"9" * 38}
decimal(38, 38) | 0; 0.5 | 0.{"9" * 38}; -0.{"9" * 38}
"""
POSTGRES = f"""
boolean | true; false
real | 1; 2.5 | inf; -inf; nan; 3e38; 1e-44
double precision | 1; 2.5 | NaN; inf; -inf; 1.7e308; 4.9e-324; -0
numeric | 1; 2.5 | NaN; Infinity; -Infinity; 1e400; -1e400; 1e-400; -1e-400; 1e131071; 1e-16383;
  1.7976931348623158e308; 1.7976931348623159e308; 2.2e-308; 4.9e-324; 2e-324; {"9" * 309}
numeric(6, 2) | 1; 2.5 | NaN; 9999.99; -9999.99
numeric(1000, 500) | 1; 2.5 | NaN; {"9" * 499}; 1e-499; 1e400; 1e-400
money | 1; 2.5 | 92233720368547758.07; -92233720368547758.08
"char" | 1; a | \x7f
date | 2020-01-02 | infinity; -infinity; epoch; 4713-01-01 BC; 5874897-12-31; 10000-01-01
timestamp | 2020-01-02 03:04:05 | infinity; -infinity; epoch; 4713-01-01 00:00:00 BC;
  294276-12-31 23:59:59.999999
timestamptz | 2020-01-02 03:04:05+02 | infinity; -infinity; 4713-01-02 00:00:00+00 BC;
  294276-12-31 23:59:59.999999+00
time | 03:04:05 | 24:00:00; 23:59:59.999999; 00:00
timetz | 03:04:05+02 | 24:00:00+15:59:59; 00:00:00-15:59:59
interval | 1 day | -178000000 years; 178000000 years; 1 month -1 day; 2147483647 days
uuid | 00000000-0000-0000-0000-000000000001 | ffffffff-ffff-ffff-ffff-ffffffffffff
bytea | a | \\xff
json | 1; "a" | {{"a": "\\u0000"}}; 1e400; null; "\\ud800"; {"9" * 400}
jsonb | 1; "a" | {{"a": 1e400}}; 1e400; null; {"9" * 400}
xml | <a/> | <b/>
inet | 1.2.3.4 | ::1; 255.255.255.255/0
cidr | 1.2.3.4 | ::/0
macaddr | 08:00:2b:01:02:03 | ff:ff:ff:ff:ff:ff
macaddr8 | 08:00:2b:01:02:03:04:05 | ff:ff:ff:ff:ff:ff:ff:ff
bit(3) | 101 | 000; 111
varbit | 101 | {"1" * 500}
tsvector | a b | it:1A
tsquery | a & b | !a
oid | 1; 2 | 0; {2**32 - 1}
xid | 1; 2 | 0; {2**32 - 1}
xid8 | 1; 2 | 0; {2**64 - 1}
regclass | pg_class | 1
pg_lsn | 0/1 | FFFFFFFF/FFFFFFFF
point | (1,2) | (infinity,nan)
box | (1,2),(3,4) | (0,0),(1e300,1e300)
polygon | ((0,0),(1,1)) | ((0,0),(1e300,1))
int4range | [1,2) | empty; (,)
integer[] | {{1}} | {{NULL}}
"""
SPARK = f"""
boolean | true; false
float | 1; 2.5 | Infinity; NaN; -Infinity; 3e38; 1e-45
double | 1; 2.5 | Infinity; NaN; -Infinity; 1.7e308; 5e-324; -0.0
decimal(38, 0) | 1; 2 | {"9" * 38}; -{"9" * 38}
decimal(38, 38) | 0.5; 0.25 | 0.{"9" * 38}; -0.{"9" * 38}
decimal(9, 2) | 1; 2.5 | 9999999.99
date | 2020-01-02 | 0001-01-01; -290000-01-01; +290000-01-01; 10000-01-01
timestamp | 2020-01-02 03:04:05 | 0001-01-01 00:00:00; -290000-01-01 00:00:00;
  +290000-01-01 00:00:00; 1582-10-10 00:00:00
timestamp_ntz | 2020-01-02 03:04:05 | 0001-01-01 00:00:00; -290000-01-01 00:00:00;
  +290000-01-01 00:00:00
binary | a | b
"""


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def as_type(kind: str, values: Sequence[Any]) -> list[str]:
    return [f"CAST({literal(str(value))} AS {kind})" for value in values]


def cast(kind: str, usual: Sequence[Any], odd: Sequence[Any], draw: Any = None) -> Kind:
    """A type whose values are texts that are cast to it, or missing."""

    def drawn(rng: random.Random) -> str:
        return as_type(kind, [draw(rng)])[0]

    extreme = [*as_type(kind, odd), f"CAST(NULL AS {kind})"]
    return Kind(kind, as_type(kind, usual), extreme, drawn if draw else None)


def listed(text: str, draws: dict[str, Callable[[random.Random], Any]]) -> Iterator[Kind]:
    """The types of a list, and the whole numbers that it does not name."""
    for line in text.strip().replace("\n  ", " ").splitlines():
        name, usual, *odd = [part.strip() for part in line.split(" | ")]
        yield cast(
            name, usual.split("; "), "".join(odd).split("; ") if odd else [], draws.get(name)
        )


def whole(names: Sequence[str]) -> Iterator[Kind]:
    for name in names:
        bits, signed = abs(BITS[name]), BITS[name] > 0
        yield cast(name, [1, 2], ends(bits, signed), draw_whole(bits, signed))


def create(kinds: Sequence[Kind], columns: Sequence[Sequence[str]]) -> Iterator[str]:
    """The statements that make a table: its types are those of the first values."""
    for kind in dict.fromkeys(kinds):
        yield from kind.build or ()
    rows = [", ".join(row) for row in zip(*columns, strict=True)]
    first = ", ".join(f'{c[0]} AS "{n}"' for c, n in zip(columns, NAMES, strict=True))
    yield f"CREATE TABLE people AS SELECT {first} LIMIT 0"
    for start in range(0, len(rows), 100):
        yield f"INSERT INTO people VALUES {', '.join(f'({r})' for r in rows[start : start + 100])}"


@contextmanager
def duckdb_table(kinds: Sequence[Kind], columns: Sequence[Sequence[str]]) -> Iterator[Any]:
    import ibis

    backend = ibis.duckdb.connect()
    try:
        for statement in create(kinds, columns):
            backend.con.execute(statement)
        yield backend.table("people")
    finally:
        backend.disconnect()


@cache
def duckdb_kinds() -> list[Kind]:
    def last(unit: str, *more: str) -> Kind:
        usual = as_type(f"timestamp_{unit}", ["2020-01-02 03:04:05"])
        return Kind(
            f"timestamp_{unit}", usual, [f"CAST({one} AS timestamp_{unit})" for one in more]
        )

    def draw_time(rng: random.Random) -> str:
        return f"coalesce(try(make_timestamp_ns({draw_whole(64)(rng)})), NULL)"

    infinite = ("'infinity'", "'-infinity'", "NULL")
    far = "make_timestamp(9223372036854775806)"
    fine = ("make_timestamp_ns(9223372036854775806)", "make_timestamp_ns(-9223286400000000000)")
    words = ["'é'::mood", "NULL::mood", "'9'::mood"]
    mood = ("CREATE TYPE mood AS ENUM ('a', '1', 'é', '9', '')",)
    either = "UNION(a INTEGER, b VARCHAR)"
    draws: dict[str, Any] = {"double": draw_real, "hugeint": draw_whole(128)}
    draws |= {"uhugeint": draw_whole(128, signed=False), "bignum": draw_whole(3000)}
    ns = last("ns", *infinite, *fine)
    return [
        cast("varchar", ["1", "a"], TEXTS, draw_text),
        Kind("zeros", ["'1'"], ["chr(0)", "'1' || chr(0)"]),
        *listed(DUCKDB, draws),
        *whole([name for name in BITS if name != "int"]),
        *(last("s", *infinite, far), last("ms", *infinite, far)),
        Kind(ns.name, ns.ordinary, ns.extreme, draw_time),
        Kind("enum", ["'a'::mood", "'1'::mood"], words, None, mood),
        Kind("struct", ["{'a': 1}"], ["NULL::STRUCT(a INTEGER)", "{'a': 9}"]),
        Kind("map", ["MAP {'a': 1}"], ["MAP {'b': NULL}"]),
        Kind("list", ["[1]"], ["[NULL]", "NULL::INTEGER[]"]),
        Kind("union", [f"1::{either}"], [f"'x'::{either}", f"NULL::{either}"]),
        Kind("null", ["NULL"], ["NULL"]),
    ]


@cache
def _postgres() -> str:
    import servers

    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(servers.postgres())


@contextmanager
def postgres_table(kinds: Sequence[Kind], columns: Sequence[Sequence[str]]) -> Iterator[str]:
    address = _postgres()
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS people")
        for statement in create(kinds, columns):
            cursor.execute(statement)
    yield f"{address}?table=people"


@cache
def postgres_kinds() -> list[Kind]:
    def numeric(rng: random.Random) -> str:
        return f"{rng.choice(('', '-'))}{rng.getrandbits(80)}e{rng.randrange(-2000, 2000)}"

    def own(name: str, kind: str, made: str, usual: Sequence[str], odd: Sequence[str]) -> Kind:
        found = cast(name, usual, odd)
        statements = (f"DROP {kind} IF EXISTS {name}", f"CREATE {kind} {name} AS {made}")
        return Kind(name, found.ordinary, found.extreme, None, statements)

    folded = cast("citext", ["A", "b"], TEXTS, draw_text)
    extension = ("CREATE EXTENSION IF NOT EXISTS citext",)
    texts = ("text", "varchar(300)", "char(5)", "name")
    return [
        *(cast(name, ["1", "a"], TEXTS, draw_text) for name in texts),
        Kind("citext", folded.ordinary, folded.extreme, folded.draw, extension),
        *listed(POSTGRES, {"numeric": numeric}),
        *whole(["smallint", "integer", "bigint"]),
        own("mood", "TYPE", "ENUM ('a', '1', 'é', '')", ["a", "1"], ["é", ""]),
        own("share", "DOMAIN", "numeric", ["1", "2.5"], ["1e400", "NaN", "1e-400"]),
        own("word", "DOMAIN", "text", ["1", "a"], TEXTS),
        own("pair", "TYPE", "(a integer)", ["(1)"], ["()"]),
    ]


@cache
def _spark() -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise LookupError("the extra 'spark' is not installed") from None
    if shutil.which("java") is None:
        raise LookupError("Spark needs Java")
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )


@contextmanager
def spark_table(kinds: Sequence[Kind], columns: Sequence[Sequence[str]]) -> Iterator[str]:
    session = _spark()
    chosen = [
        f"get(array({', '.join(column)}), CAST(id AS INT)) AS `{name}`"
        for name, column in zip(NAMES, columns, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        found = session.range(0, len(columns[0]), 1, 2).selectExpr(*chosen)
        if any(kind.build == "as it is" for kind in kinds):
            found.createOrReplaceTempView("people")
        else:
            found.write.parquet(folder + "/people")
            session.read.parquet(folder + "/people").createOrReplaceTempView("people")
        yield "spark://people"


@cache
def spark_kinds() -> list[Kind]:
    def text(value: str) -> str:
        return f"decode(X'{value.encode().hex()}', 'UTF-8')"

    def draw(rng: random.Random) -> str:
        return text(draw_text(rng))

    broken = [f"CAST(X'{code}' AS STRING)" for code in ("FF", "61C3", "00", "EDA080")]
    usual = ["'1'", "'a'", "CAST(NULL AS STRING)"]
    unwritten = "as it is"
    return [
        Kind("string", usual, [*map(text, TEXTS), *broken], draw),
        *listed(SPARK, {"decimal(38, 0)": draw_whole(126)}),
        *whole(["tinyint", "smallint", "int", "bigint"]),
        Kind("day", ["INTERVAL '1' DAY"], ["INTERVAL '106751991' DAY"], None, unwritten),
        Kind("month", ["INTERVAL '1' MONTH"], ["INTERVAL '-9' MONTH"], None, unwritten),
        Kind("void", ["NULL"], ["NULL"], None, unwritten),
        Kind("array", ["array(1)"], ["array(CAST(NULL AS INT))"]),
        Kind("struct", ["named_struct('a', 1)"], ["named_struct('a', 9)"]),
        Kind("map", ["map('a', 1)"], ["map('b', 2)"]),
    ]
