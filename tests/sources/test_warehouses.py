"""The SQL for BigQuery and Snowflake, which no test can reach: written, parsed, run as DuckDB's.

sqlglot reads what is written for each of them, and where it can say the same for DuckDB, the codes
that come out are those of our own engine. No server of theirs has been asked, and help says so.
"""

from __future__ import annotations

import io
from typing import Any

import hospital
import ibis
import pandas as pd
import pytest
import sqlglot

from marginalsyn import Schema, Unit
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.sources.holdout import Holdout
from marginalsyn.sources.persons import bounded
from marginalsyn.table.codec import Codec
from marginalsyn.table.encoding import plain, text_key
from marginalsyn.table.moments import with_parts

WAREHOUSES = ("bigquery", "snowflake")
TEXT, TRUTH = hospital.hospital(300)
FRAME = pd.read_csv(io.StringIO(TEXT), sep=";", dtype=str, keep_default_na=False)


def source() -> Any:
    return ibis.table(dict.fromkeys(FRAME.columns, "string"), name="people")


def written(query: Any, dialect: str) -> str:
    """The SQL of a query, which the dialect's own parser takes."""
    sql = str(ibis.to_sql(query, dialect=dialect))
    sqlglot.parse_one(sql, read=dialect)
    return sql


def run_as_duckdb(query: Any, dialect: str) -> list[tuple[Any, ...]]:
    import duckdb

    engine = duckdb.connect()
    engine.register("people", FRAME)
    (sql,) = sqlglot.transpile(written(query, dialect), read=dialect, write="duckdb")
    return engine.execute(sql).fetchall()


@pytest.mark.parametrize("dialect", WAREHOUSES)
def test_codes_are_those_of_our_own_engine(dialect: str) -> None:
    names = ["sex", "zip", "ward", "diagnosis", "severity", "smoker", "readmitted"]
    whole = Schema(**hospital.schema_data(TRUTH)).select(names)
    codes = Codec(whole)
    found = run_as_duckdb(codes.encoded(source()), dialect)
    assert found == [tuple(row) for row in codes.encode(FRAME).tolist()]


@pytest.mark.parametrize("dialect", WAREHOUSES)
def test_texts_of_private_categories(dialect: str) -> None:
    data = {"kind": "categorical", "name": "diagnosis", "categories": "private", "prefixes": [1]}
    column = Schema(columns=(data,)).columns[0]
    for length in (None, 1):
        key = text_key(plain(source()["diagnosis"]), column, ("", "unknown"), length)
        found = source().select(text=key).view()
        counts = found.group_by("text").aggregate(rows=lambda rows: rows.count())
        true = FRAME["diagnosis"].str.strip().str[:length].value_counts().to_dict()
        assert dict(run_as_duckdb(counts, dialect)) == true


@pytest.mark.slow
@pytest.mark.parametrize("dialect", WAREHOUSES)
def test_every_query_can_be_written(dialect: str) -> None:
    whole = Schema(**hospital.schema_data(TRUTH)).select(["admitted", "crp", "cost", "sex"])
    date = {**whole.column("admitted").model_dump(), "parts": ["weekday", "month"]}
    parts = Schema(columns=(date,))
    table = with_parts(source(), parts.columns)
    for query in (
        Codec(whole).encoded(source()),
        Codec(whole).unit_table(source()),
        Codec(parts).encoded(table),
        Holdout(0.2, "s", Neighbours.ADD_REMOVE).part(source(), dialect, held_out=False),
        bounded(source(), Unit(column="patient_id", max_rows=3), dialect),
    ):
        assert "people" in written(query, dialect)


@pytest.mark.parametrize(
    ("dialect", "digest"), [("bigquery", "TO_HEX(SHA256("), ("snowflake", "SHA2(")]
)
def test_rows_are_held_out_by_the_digest_that_each_of_them_has(dialect: str, digest: str) -> None:
    kept, gone = (
        Holdout(0.3, "s", Neighbours.ADD_REMOVE).part(
            source(), dialect, held_out=side, by=source()["zip"]
        )
        for side in (False, True)
    )
    assert digest in written(kept, dialect).upper()
    assert digest in written(gone, dialect).upper()
