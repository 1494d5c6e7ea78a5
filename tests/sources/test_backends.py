"""The same counts from DuckDB, from a PostgreSQL server of our own and from a local Spark."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import forest_traps
import hospital
import numpy as np
import pandas as pd
import person_traps
import pytest
import spellings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marginalsyn import Budget, Charge, PrivateTable, Schema, Unit, make_noise
from marginalsyn.drafting.draft import draft_schema
from marginalsyn.errors import DataError
from marginalsyn.plugins.audit.testkit.generators import check_rows_alone
from marginalsyn.privacy.charges import ZCDP, Approximate
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn, OrdinalColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SCHEMA = Schema(
    columns=(
        IntegerColumn(name="Age", lower=0, upper=99, bins=12, nullable=True),
        ContinuousColumn(name="income", lower=-10.0, upper=100.0, bins=7, nullable=True),
        CategoricalColumn(name="home town", categories=("Bath", "Ely", "O'Neill"), nullable=True),
        CategoricalColumn(name="grade", categories=(1, 2, 3)),
        OrdinalColumn(name="size", categories=("small", "middle", "large")),
        BooleanColumn(name="ill", nullable=True),
        # Numbers and truth values that the source keeps as text.
        IntegerColumn(name="visits", lower=0, upper=9, nullable=True),
        BooleanColumn(name="smokes", true_label="yes", false_label="no"),
    ),
    drop=("id",),
)
MARGINALS = [
    (),
    *((name,) for name in SCHEMA.names),
    *itertools.combinations(SCHEMA.names, 2),
    ("Age", "home town", "ill"),
]
TEXTS = ["0", "1", " 2", "3.0", "4.7", "5e0", "6", "7", "8", "12", "-3", "inf", "-inf", "nan"]
TEXTS += ["NA", "", "?", "x", "1e400"]


@functools.cache
def people(rows: int = 2000) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    income = rng.normal(50, 40, rows)
    income[:6] = [np.nan, np.inf, -np.inf, 100.0, -10.0, 1e300]
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "Age": pd.array(np.where(rng.random(rows) < 0.1, None, rng.integers(-9, 120, rows))),
            "income": income,
            "home town": rng.choice(np.array(["Bath", " Ely ", "O'Neill", "York", None]), rows),
            "grade": rng.integers(0, 5, rows),
            "size": rng.choice(["small", "middle", "large", "LARGE"], rows),
            "ill": pd.array(rng.choice(np.array([True, False, None]), rows), dtype="boolean"),
            "visits": rng.choice(np.array([*TEXTS, None]), rows),
            "smokes": rng.choice(["yes", "no", "true", "Maybe"], rows),
        }
    ).astype({"Age": "Int64"})


def sql_type(dtype: Any) -> str:
    if pd.api.types.is_bool_dtype(dtype):
        return "boolean"
    if pd.api.types.is_integer_dtype(dtype):
        return "bigint"
    return "double precision" if pd.api.types.is_float_dtype(dtype) else "text"


@pytest.fixture(scope="module")
def postgres_table(postgres: str) -> str:
    import psycopg

    frame = people()
    columns = ", ".join(f'"{name}" {sql_type(kind)}' for name, kind in frame.dtypes.items())
    with psycopg.connect(postgres) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE people ({columns})")
        with cursor.copy("COPY people FROM STDIN") as copy:
            for row in frame.astype(object).itertuples(index=False):
                # Missing incomes stay NaN, which this server tells from NULL.
                copy.write_row(
                    [None if value is None or value is pd.NA else value for value in row]
                )
        cursor.execute("CREATE SCHEMA elsewhere")
        cursor.execute("CREATE VIEW elsewhere.folk AS SELECT * FROM people")
    return f"{postgres}?table=people"


@pytest.fixture(scope="module")
def spark_table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    sql = pytest.importorskip("pyspark.sql", reason="the extra 'spark' is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    folder = tmp_path_factory.mktemp("spark")
    people().to_parquet(folder / "people.parquet")
    session = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.read.parquet(str(folder / "people.parquet")).createOrReplaceTempView("people")
    yield "spark://people"
    session.stop()


@pytest.fixture(params=["postgres", "spark"])
def remote(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(f"{request.param}_table")


def visit_of(data: Any, schema: Schema = SCHEMA) -> Any:
    charge = Charge(mechanism="test", cost=ZCDP(rho=1.0))
    table = PrivateTable.open(data, schema)
    return table.charge([charge], noise=make_noise(3), persons=schema.survey_weight is not None)


def test_counts_are_those_of_duckdb(remote: str) -> None:
    here = visit_of(people()).counts_many(MARGINALS)
    there = visit_of(remote).counts_many(MARGINALS)
    for columns in MARGINALS:
        assert there[columns].dtype == np.int64
        np.testing.assert_array_equal(there[columns], here[columns], str(columns))
    assert int(here[()]) == 2000
    # Every code is tried, so that the comparison means something.
    assert all((here[(name,)] > 0).all() for name in SCHEMA.names)


@pytest.mark.parametrize(("weight", "bound"), [("visits", 7), ("income", 80.5)])
def test_sums_of_survey_weights_are_those_of_duckdb(remote: str, weight: str, bound: float) -> None:
    """Texts, numbers, what is infinite or no number: clipped in the server as here."""
    columns = [column for column in SCHEMA.columns if column.name != weight]
    schema = Schema(columns=columns, drop=("id",), survey_weight={"column": weight, "bound": bound})
    marginals = [columns for columns in MARGINALS if weight not in columns]
    here, there = (visit_of(data, schema).counts_many(marginals) for data in (people(), remote))
    for columns in marginals:
        np.testing.assert_array_equal(there[columns], here[columns], str(columns))
    if weight == "income":
        clipped = people()[weight].fillna(0).clip(0, bound).sum()
        assert float(there[()]) == pytest.approx(clipped / bound, abs=1)


def test_rows_are_those_of_duckdb_in_any_order(remote: str) -> None:
    here, there = visit_of(people()), visit_of(remote)
    codes = [rows[np.lexsort(rows.T)] for rows in (here.all_rows().values, there.all_rows().values)]
    np.testing.assert_array_equal(*codes)
    assert sum(len(batch.values) for batch in there.batches(["Age"], size=300)) == 2000
    assert max(len(batch.values) for batch in there.batches(["Age"], size=300)) <= 300
    units = [
        np.sort(visit.all_rows(["Age", "income"], units=True).values, axis=0)
        for visit in (here, there)
    ]
    np.testing.assert_allclose(*units)


def test_noisy_measurements_are_those_of_duckdb(remote: str) -> None:
    columns = ["home town", "ill"]
    here, there = (visit_of(data).measure(columns, 2.0) for data in (people(), remote))
    np.testing.assert_array_equal(there.values, here.values)


def test_the_unprotected_view(remote: str) -> None:
    frames = [
        PrivateTable.open(data, SCHEMA).unprotected("compare").frame()
        for data in (people(), remote)
    ]
    assert (frames[0].dtypes == frames[1].dtypes).all()
    here, there = (frame.sort_values(list(frame.columns), ignore_index=True) for frame in frames)
    pd.testing.assert_frame_equal(there, here)


def test_a_whole_release(remote: str) -> None:
    """With the same seed, only the counts could make two runs differ."""
    from marginalsyn.generators.independent import IndependentConfig
    from marginalsyn.host import generate

    frames = []
    for data in (people(), remote):
        table = PrivateTable.open(data, SCHEMA)
        synthesis, statement = generate(
            table, IndependentConfig(rows=500), Budget(eps=1.0), noise=make_noise(11)
        )
        assert statement.problems() == []
        assert len(table.ledger.read().charges) > 0
        frames.append(synthesis.frame)
    pd.testing.assert_frame_equal(frames[1], frames[0])


@pytest.fixture
def spelt(request: pytest.FixtureRequest) -> str:
    """A table of texts of every worded kind, in the engine that the test asks for."""
    texts = spellings.frame()
    if request.param == "spark":
        request.getfixturevalue("spark_table")
        from pyspark.sql import SparkSession

        folder = request.getfixturevalue("tmp_path")
        texts.to_parquet(folder / "spelt.parquet")
        read = SparkSession.builder.getOrCreate().read
        read.parquet(str(folder / "spelt.parquet")).createOrReplaceTempView("spelt")
        return "spark://spelt"
    import psycopg

    address = request.getfixturevalue("postgres")
    columns = ", ".join(f'"{name}" text' for name in texts)
    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS spelt; CREATE TABLE spelt ({columns})")
        with cursor.copy("COPY spelt FROM STDIN") as copy:
            for row in texts.astype(object).itertuples(index=False):
                copy.write_row([None if pd.isna(value) else value for value in row])
    return f"{address}?table=spelt"


@pytest.mark.parametrize("spelt", ["postgres", "spark"], indirect=True)
def test_spellings_are_read_as_by_duckdb(spelt: str) -> None:
    schema = spellings.schema()
    here = Codec(schema).encode(spellings.frame())
    there = PrivateTable.open(spelt, schema).unprotected("compare").all_rows().values
    for position, name in enumerate(schema.names):
        found = (np.sort(codes[:, position]) for codes in (there, here))
        np.testing.assert_array_equal(*found, err_msg=name)


def test_a_whole_table_of_texts_is_drafted_and_coded_as_by_duckdb(
    postgres: str, tmp_path: Path
) -> None:
    """All kinds at once, where a text that was parsed anew at every mention took hours."""
    import psycopg

    text, _ = hospital.hospital(300)
    (tmp_path / "raw.csv").write_text(text)
    frame = pd.read_csv(tmp_path / "raw.csv", sep=";", dtype=str, keep_default_na=False)
    columns = ", ".join(f'"{name}" text' for name in frame)
    with psycopg.connect(postgres) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS raw; CREATE TABLE raw ({columns})")
        with cursor.copy("COPY raw FROM STDIN") as copy:
            for row in frame.itertuples(index=False):
                copy.write_row(list(row))
    here, there = (
        draft_schema(data, "readmitted") for data in (tmp_path / "raw.csv", f"{postgres}?table=raw")
    )
    assert there.schema == here.schema
    assert [*there.verdicts] == [*here.verdicts]
    data = here.schema.model_dump()
    for column in data["columns"]:
        if column["name"] == "diagnosis":
            column["categories"] = ["C03", "E", *hospital.CODES[::7]]
        if column["kind"] in ("date", "datetime"):
            column["parts"] = ["weekday", "month"]
    schema = Schema(**data)
    codes = [
        PrivateTable.open(source, schema).unprotected("compare").all_rows().values
        for source in (tmp_path / "raw.csv", f"{postgres}?table=raw")
    ]
    assert len(codes[0]) == 300
    np.testing.assert_array_equal(*(rows[np.lexsort(rows.T)] for rows in codes))


DRAWN = st.fixed_dictionaries(
    {
        "id": st.integers(0, 9),
        "Age": st.none() | st.integers(-(2**40), 2**40),
        "income": st.none() | st.floats(width=64),
        "home town": st.none() | st.sampled_from(["Bath", " Ely ", "O'Neill", "?", "x", ""]),
        "grade": st.integers(0, 4),
        "size": st.none() | st.sampled_from(["small", "middle", "LARGE", "1"]),
        "ill": st.none() | st.booleans(),
        "visits": st.none() | st.sampled_from(TEXTS),
        "smokes": st.sampled_from(["yes", "no", "true", "1", "Maybe"]),
    }
)


def drawn(rows: list[dict[str, Any]]) -> pd.DataFrame:
    kinds = {"Age": "Int64", "income": "Float64", "ill": "boolean"}
    texts = dict.fromkeys(["home town", "size", "visits", "smokes"], "str")
    return pd.DataFrame(rows).astype({**kinds, **texts})


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(DRAWN, min_size=2, max_size=4))
def test_every_row_of_a_server_s_table_is_encoded_alone(
    postgres: str, rows: list[dict[str, Any]]
) -> None:
    import psycopg

    number = itertools.count()

    def write(frame: pd.DataFrame) -> str:
        name = f"alone{next(number)}"
        columns = ", ".join(f'"{n}" {sql_type(kind)}' for n, kind in frame.dtypes.items())
        with psycopg.connect(postgres) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {name}")
            cursor.execute(f"CREATE TABLE {name} ({columns})")
            with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                for row in frame.astype(object).itertuples(index=False):
                    copy.write_row([None if pd.isna(value) else value for value in row])
        return f"{postgres}?table={name}"

    check_rows_alone(write, drawn(rows), SCHEMA, share=0)


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(DRAWN, min_size=2, max_size=3))
def test_every_row_of_a_spark_table_is_encoded_alone(
    spark_table: str, tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    from pyspark.sql import SparkSession

    folder, number = tmp_path_factory.mktemp("alone"), itertools.count()

    def write(frame: pd.DataFrame) -> str:
        name = f"alone{next(number)}"
        frame.to_parquet(folder / f"{name}.parquet")
        read = SparkSession.builder.getOrCreate().read
        read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
        return f"spark://{name}"

    check_rows_alone(write, drawn(rows), SCHEMA, share=0)


def test_rows_are_held_out_by_the_server_itself(remote: str) -> None:
    """By a keyed hash in the query: the parts are one table, and a row's side is its own."""

    def codes(held_out: bool, salt: str = "a") -> np.ndarray:
        view = PrivateTable.open(remote, SCHEMA, holdout=0.2, holdout_salt=salt)
        rows = view.unprotected("test")
        found = Codec(SCHEMA).encode(rows.holdout_frame()) if held_out else rows.all_rows().values
        return found[np.lexsort(found.T)]

    kept, held = codes(False), codes(True)
    whole = PrivateTable.open(remote, SCHEMA).unprotected("test").all_rows().values
    # 400 of 2,000 rows are expected, with a standard deviation of 18.
    assert 300 < len(held) < 500
    assert len(kept) + len(held) == len(whole)
    np.testing.assert_array_equal(codes(True), held)
    other = codes(True, "b")
    assert len(other) != len(held) or (other != held).any()
    charge = Charge(mechanism="test", cost=ZCDP(rho=1.0))
    table = PrivateTable.open(remote, SCHEMA, holdout=0.2, holdout_salt="a")
    counted = table.charge([charge], noise=make_noise(3)).counts(["ill"])
    assert counted.sum() == len(kept)


# A column of every type that the engines share, as PostgreSQL and as Parquet have it.
EVERY_TYPE = {
    "whole": ("bigint", "int64"),
    "small": ("smallint", "int16"),
    "real": ("double precision", "float64"),
    "single": ("real", "float32"),
    "price": ("numeric(12,3)", "decimal"),
    "truth": ("boolean", "bool"),
    "day": ("date", "date32"),
    "moment": ("timestamp", "timestamp[us]"),
    "word": ("text", "string"),
    "padded": ("char(6)", "string"),
    "kind": ("smallint", "int16"),
}


def every_type(rows: int = 300) -> list[tuple[Any, ...]]:
    """Rows of every type and its odd values; a third of them occurs three times."""
    rng = np.random.default_rng(5)
    reals = [0.1, -0.0, 0.0, 1e-5, 1e16, 123456789.125, 2 / 3, -1e300, 1e-300, math.inf, 5e-324]
    words = ["", " a ", "1.50", "1e3", "true", "Ünï", "x\x1fy", "2020-01-01 00:00:00", "-0", None]
    start = dt.datetime(2020, 1, 1)

    def one(of: list[Any]) -> Any:
        return of[int(rng.integers(len(of)))]

    def row() -> tuple[Any, ...]:
        seconds = one([0, 0.5, 3600, 86400.000001])
        return (
            one([None, 0, -7, 2**53 + 1, 10**17]),
            int(rng.integers(-9, 9)),
            one([None, math.nan, *reals, float(rng.normal())]),
            float(np.float32(rng.normal())),
            one([None, Decimal("1.500"), Decimal("-0.001"), Decimal("123456789.123")]),
            one([None, True, False]),
            start.date() + dt.timedelta(days=int(rng.integers(900))),
            start + dt.timedelta(seconds=seconds),
            one(words),
            one(["a", "bc", "abcdef"]).ljust(6),
            int(rng.integers(3)),
        )

    found = [row() for _ in range(rows // 3)]
    return [*found, *found, *found]


def kept_codes(data: Any, schema: Schema) -> list[list[int]]:
    table = PrivateTable.open(data, schema, holdout=0.3, holdout_salt="salt")
    return sorted(table.unprotected("compare").all_rows().values.tolist())


def every_schema() -> Schema:
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=n) for n in range(900)]
    return Schema(
        columns=(
            CategoricalColumn(name="day", categories=tuple(map(str, days))),
            IntegerColumn(name="small", lower=-9, upper=9),
            CategoricalColumn(name="kind", categories=(0, 1, 2)),
            CategoricalColumn(name="word", categories=("a", "1.50", "1e3", "true"), nullable=True),
        ),
        drop=tuple(n for n in EVERY_TYPE if n not in ("day", "small", "kind", "word")),
    )


@pytest.fixture(scope="module")
def every_parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {
        name: pa.decimal128(12, 3) if kind == "decimal" else pa.type_for_alias(kind)
        for name, (_, kind) in EVERY_TYPE.items()
    }
    columns = zip(*every_type(), strict=True)
    arrays = {n: pa.array(list(v), kinds[n]) for n, v in zip(EVERY_TYPE, columns, strict=True)}
    path = tmp_path_factory.mktemp("every") / "every.parquet"
    pq.write_table(pa.table(arrays), path)
    return path


def test_the_same_rows_are_held_out_in_every_engine(
    postgres: str, spark_table: str, every_parquet: Path
) -> None:
    """Of a table with a column of every type, and equal rows, no row is on another side."""
    import psycopg
    from pyspark.sql import SparkSession

    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in EVERY_TYPE.items())
    with psycopg.connect(postgres) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS every_type; CREATE TABLE every_type ({columns})")
        with cursor.copy("COPY every_type FROM STDIN") as copy:
            for row in every_type():
                copy.write_row(row)
    read = SparkSession.builder.getOrCreate().read
    read.parquet(str(every_parquet)).createOrReplaceTempView("every_type")
    schema = every_schema()
    here = kept_codes(every_parquet, schema)
    assert 150 < len(here) < 270
    assert kept_codes(f"{postgres}?table=every_type", schema) == here
    assert kept_codes("spark://every_type", schema) == here


def test_persons_are_bounded_by_the_server_itself(remote: str) -> None:
    """In the order of ids the rows kept are the same in every engine, and so are the counts."""
    persons = SCHEMA.select([n for n in SCHEMA.names if n != "smokes"])
    unit = Unit(column="smokes", max_rows=3, order="id")
    charge = Charge(mechanism="test", cost=ZCDP(rho=1.0))
    wanted = [(), ("rows_of_person",), ("grade",), ("ill", "size")]

    def counts(source: Any, unit: Unit) -> dict[tuple[str, ...], np.ndarray]:
        table = PrivateTable.open(source, persons.with_unit(unit))
        with table.charge([charge], noise=make_noise(3), persons=True) as visit:
            return visit.counts_many(wanted)

    found, expected = counts(remote, unit), counts(people(), unit)
    for key in wanted:
        np.testing.assert_array_equal(found[key], expected[key])
    # By hashes other rows may be kept, for engines write numbers in their own way.
    hashed = counts(remote, Unit(column="smokes", max_rows=3))
    assert hashed[()] == found[()] == 4.0
    assert hashed[("ill", "size")].sum() == 4.0


@pytest.fixture
def load(request: pytest.FixtureRequest, remote: str) -> Callable[[pd.DataFrame], str]:
    """Brings a frame of texts and whole numbers into the engine."""

    def there(frame: pd.DataFrame) -> str:
        if remote.startswith("spark"):
            from pyspark.sql import SparkSession

            session = SparkSession.getActiveSession()
            assert session is not None
            kinds = {name: "long" if frame[name].dtype.kind == "i" else "string" for name in frame}
            layout = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
            listed = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
            session.createDataFrame(listed, layout).createOrReplaceTempView("traps")
            return "spark://traps"
        import psycopg

        postgres = request.getfixturevalue("postgres")
        columns = ", ".join(f'"{name}" {sql_type(kind)}' for name, kind in frame.dtypes.items())
        with psycopg.connect(postgres) as connection, connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS traps")
            cursor.execute(f"CREATE TABLE traps ({columns})")
            with cursor.copy("COPY traps FROM STDIN") as copy:
                for row in frame.astype(object).where(frame.notna(), None).itertuples(index=False):
                    copy.write_row(row)
        return f"{postgres}?table=traps"

    return there


@pytest.fixture
def load_linked(request: pytest.FixtureRequest, remote: str) -> Callable[[Any], Any]:
    """Brings several frames of texts and whole numbers into the engine."""

    def there(tables: dict[str, pd.DataFrame]) -> Any:
        whole = {
            name: {column: column in ("a", "b", "c", "day") for column in frame}
            for name, frame in tables.items()
        }
        plain = {
            name: [
                [None if pd.isna(value) else value for value in row]
                for row in frame.astype(object).itertuples(index=False)
            ]
            for name, frame in tables.items()
        }
        if remote.startswith("spark"):
            import ibis
            from pyspark.sql import SparkSession

            session = SparkSession.getActiveSession()
            assert session is not None
            backend = ibis.pyspark.connect(session)
            for name, columns in whole.items():
                kinds = [f"{c} {'long' if number else 'string'}" for c, number in columns.items()]
                made = session.createDataFrame(plain[name], ", ".join(kinds))
                made.createOrReplaceTempView(f"traps_{name}")
            return {name: backend.table(f"traps_{name}") for name in tables}
        import psycopg

        postgres = request.getfixturevalue("postgres")
        with psycopg.connect(postgres) as connection, connection.cursor() as cursor:
            for name, columns in whole.items():
                kinds = [f"{c} {'bigint' if number else 'text'}" for c, number in columns.items()]
                cursor.execute(f"DROP TABLE IF EXISTS {name}")
                cursor.execute(f"DROP TABLE IF EXISTS {name}")
                cursor.execute(f"CREATE TABLE {name} ({', '.join(kinds)})")
                with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                    for row in plain[name]:
                        copy.write_row(row)
        return postgres

    return there


def test_traps_of_linked_tables_do_not_break_the_bound(
    load_linked: Callable[[Any], Any],
) -> None:
    forest_traps.check(load_linked)


@pytest.mark.parametrize("kind", ["double precision", "text", "timestamp"])
def test_values_at_the_ends_of_an_order_are_no_error(postgres: str, kind: str) -> None:
    """PostgreSQL fails on a difference that is no number: a row would decide it."""
    import psycopg

    ends = ("-infinity", "infinity") if kind == "timestamp" else ("-1.7e308", "1.7e308")
    tree = replace(forest_traps.TREE, tables=forest_traps.TREE.tables[:2])
    with psycopg.connect(postgres) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS owners, visits")
        cursor.execute("CREATE TABLE owners (id text, a int)")
        cursor.execute(f"CREATE TABLE visits (vid text, id text, b int, day {kind})")
        cursor.execute("INSERT INTO owners VALUES ('x', 1)")
        for end in ends:
            cursor.execute("INSERT INTO visits VALUES ('v', 'x', 1, %s)", [end])
    assert forest_traps.counts(postgres, tree)["visits next", ()] == 1.0


def test_traps_of_sql_do_not_break_the_bound(load: Callable[[pd.DataFrame], str]) -> None:
    person_traps.check(load)


def test_what_is_not_there(remote: str) -> None:
    with pytest.raises(DataError, match=r"table \(nobody\) of"):
        PrivateTable.open(remote, SCHEMA, table="nobody")


def test_a_view_in_another_schema(postgres: str, postgres_table: str) -> None:
    table = PrivateTable.open(f"{postgres}?table=elsewhere.folk", SCHEMA)
    assert table.source.endswith("/postgres?table=elsewhere.folk")
    assert table.unprotected("count").counts([]) == 2000


def test_a_server_that_is_not_there() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(DataError, match="must be reachable") as caught:
        PrivateTable.open("postgres://ann:hunter2@127.0.0.1:1/db?table=t", SCHEMA)
    assert "hunter2" not in str(caught.value)


def test_a_failing_query_does_not_quote_rows(postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres) as connection:
        connection.execute("CREATE TABLE texts AS SELECT 's3cr3t'::text AS t")
        connection.execute("CREATE VIEW broken AS SELECT t::bigint AS a FROM texts")
    table = PrivateTable.open(f"{postgres}?table=broken", Schema.from_domain({"a": 3}))
    charge = Charge(mechanism="test", cost=ZCDP(rho=1.0))
    visit = table.charge([charge], noise=make_noise(3))
    with pytest.raises(DataError, match="withheld") as caught:
        visit.counts(["a"])
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("unit", [None, Unit(column="id", max_rows=2)])
def test_texts_are_counted_and_fall_back_as_in_duckdb(remote: str, unit: Unit | None) -> None:
    def opened(name: str, **fields: Any) -> dict[str, Any]:
        return {"kind": "categorical", "name": name, "prefixes": [1, 2], **fields}

    names = ("home town", "visits", "grade")
    found = Schema(columns=[opened(name, categories="private", nullable=True) for name in names])
    drop = tuple(name for name in people().columns if name not in (*names, "id"))
    found = Schema(**{**found.model_dump(), "drop": (*drop, "id")}).with_unit(unit)
    paid = [
        Charge(mechanism="set union", cost=ZCDP(rho=0.01)),
        Charge(mechanism="set union", cost=Approximate(eps=0, delta=0.1)),
    ]

    def texts(data: Any) -> dict[tuple[str, int | None], dict[str, int]]:
        table = PrivateTable.open(data, found)
        with table.charge(paid, noise=make_noise(), persons=True) as visit:
            return {(n, k): visit._rows.texts(n, k) for n in names for k in (None, 1, 2)}

    assert texts(remote) == texts(people())
    listed = [opened(name, categories=["B", "Y", "4", "1", "2."], nullable=True) for name in names]
    bought = Schema(
        **{**found.model_dump(), "columns": listed, "unit": None, "drop": (*drop, "id")}
    )
    counts = []
    for data in (remote, people()):
        with PrivateTable.open(data, bought).charge(paid, noise=make_noise()) as visit:
            counts.append(visit.counts_many([(name,) for name in names]))
    for name in names:
        assert counts[0][name,].tolist() == counts[1][name,].tolist()


def test_linked_tables_are_counted_by_the_server_itself(postgres: str) -> None:
    """Counts that no choice by hashes decides are those of this process's engine."""
    import psycopg

    from marginalsyn.access.linked_tables import PrivateForest
    from marginalsyn.people.tree import LinkedSchema, LinkedTable

    rng = np.random.default_rng(1)
    owners = pd.DataFrame({"id": [f"o{i}" for i in range(40)], "sex": rng.integers(0, 2, 40)})
    orders = pd.DataFrame({"id": rng.choice([*owners["id"], "lost"], 90)})
    orders = orders.assign(place=rng.permutation(90), kind=rng.integers(0, 3, 90))
    tree = LinkedSchema(
        (
            LinkedTable("owners", Schema.from_domain({"sex": 2}), key="id"),
            LinkedTable(
                "orders",
                Schema.from_domain({"place": 90, "kind": 3}),
                parent="owners",
                link="id",
                max_children=3,
                order="place",
            ),
        )
    )
    with psycopg.connect(postgres) as connection, connection.cursor() as cursor:
        for name, frame in (("owners", owners), ("orders", orders)):
            kinds = [sql_type(kind) if n != "id" else "text" for n, kind in frame.dtypes.items()]
            told = ", ".join(f'"{n}" {k}' for n, k in zip(frame, kinds, strict=True))
            cursor.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({told})")
            with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                for row in frame.astype(object).itertuples(index=False):
                    copy.write_row(row)

    def counts(data: Any) -> dict[tuple[str, ...], np.ndarray]:
        forest = PrivateForest.open(data, tree)
        cost = [Charge(mechanism="test", cost=ZCDP(rho=1.0))]
        found = {}
        whole = forest.charge(cost * len(forest.views), noise=make_noise(3))
        for name in (view.name for view in forest.views):
            with whole.view(name, cost) as visit:
                for key in [(), *((column,) for column in visit.schema.names)]:
                    found[(name, *key)] = visit.counts(key)
        return found

    found, expected = counts(postgres), counts({"owners": owners, "orders": orders})
    for key, values in expected.items():
        np.testing.assert_array_equal(found[key], values)
