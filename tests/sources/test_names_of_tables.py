"""Names of tables in a PostgreSQL server of our own and in a local Spark, and their ledgers."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from marginalsyn import PrivateTable, Schema
from marginalsyn.access.ledgers import open_ledger
from marginalsyn.sources import databases, relations
from marginalsyn.sources.identity import identity
from marginalsyn.sources.relations import NotOneTableError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SCHEMA = Schema.from_domain({"a": 3})

MADE = """
CREATE SCHEMA mine; CREATE SCHEMA "Odd.One";
CREATE TABLE mine.people (a int, b text); CREATE TABLE "Odd.One".people (a int, b text);
CREATE TABLE public.folk (a int, b text);
CREATE ROLE mine LOGIN; GRANT USAGE ON SCHEMA mine TO mine; GRANT SELECT ON mine.people TO mine;
CREATE FUNCTION public.upper(int) RETURNS text LANGUAGE sql AS 'SELECT max(b) FROM mine.people';
CREATE FUNCTION public.same(int, int) RETURNS bool LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR public.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = public.same);
CREATE VIEW mine.plain AS SELECT a AS "A b", upper(b) AS b FROM mine.people WHERE a IN (1, 2);
CREATE VIEW mine.over AS SELECT "A b" AS a FROM mine.plain WHERE b ~ 'x' OR b LIKE 'y%';
CREATE MATERIALIZED VIEW mine.kept AS SELECT a FROM mine.over;
CREATE VIEW mine.own_function AS SELECT upper(a) AS a FROM mine.people;
CREATE VIEW mine.own_operator AS SELECT a FROM mine.people WHERE a OPERATOR(public.===) 1;
CREATE VIEW mine.of_a_join AS SELECT p.a FROM mine.people p JOIN public.folk f USING (a);
CREATE VIEW mine.of_a_copy AS SELECT a FROM mine.of_a_join;
CREATE TABLE mine.years (a int, y int) PARTITION BY RANGE (y);
CREATE TABLE mine.year1 PARTITION OF mine.years FOR VALUES FROM (1) TO (2);
CREATE TABLE mine.child () INHERITS (mine.people);
CREATE EXTENSION IF NOT EXISTS file_fdw;
CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE mine.far (a int) SERVER files OPTIONS (filename '/nowhere');
CREATE TABLE mine.some (a int, y int) PARTITION BY RANGE (y);
CREATE FOREIGN TABLE mine.far_part PARTITION OF mine.some FOR VALUES FROM (1) TO (2)
SERVER files OPTIONS (filename '/nowhere');
"""


@pytest.fixture(scope="module")
def server(postgres: str) -> str:
    """Its address without a table, with tables and views in a schema of its own."""
    import psycopg

    with psycopg.connect(postgres) as connection:
        for command in MADE.split(";"):
            if not command.isspace():
                connection.execute(command)
    return postgres


def meet(first: str, second: str) -> bool:
    one, other = identity(first), identity(second)
    assert not one.unasked + other.unasked
    return one.meets(other.names, other.marks) and other.meets(one.names, one.marks | one.within)


def test_every_name_of_a_server_s_table_is_one(server: str) -> None:
    first = f"{server}?table=mine.people"
    place = server.rpartition("@")[2]
    port = place.partition(":")[2].partition("/")[0]
    for name in (
        f"postgresql://curator@{place}?table=mine.people",
        f"postgres://mine@{place}?table=people",
        f"postgres://curator@{place}?table=people&options=-csearch_path%3Dmine",
        f"postgres://curator@{place}/mine?table=people",
        f"postgres://curator@{place}?table=postgres.mine.people",
        f"postgres://curator@localhost:{port}/postgres?table=mine.people",
        f"postgres://curator@/postgres?host=127.0.0.1&port={port}&table=mine.people",
        *(f"{server}?table=mine.{name}" for name in ("plain", "over", "kept", "child")),
    ):
        assert meet(first, name), name
    for name in ("public.folk", "Odd.One.people"):
        assert not meet(first, f"{server}?table={name}"), name
    for name in ("PEOPLE", '"people"', "people", "mine.People"):
        assert "must be there" in identity(f"{server}?table={name}").unasked


def test_a_unix_socket_leads_to_the_same_server(server: str) -> None:
    import psycopg

    with psycopg.connect(server) as connection:
        asked = "SELECT current_setting('unix_socket_directories'), current_setting('port')"
        folder, port = connection.execute(asked).fetchone()  # type: ignore[misc]
    name = f"postgres://curator@/postgres?host={folder}&port={port}&table=mine.people"
    assert meet(f"{server}?table=mine.people", name)


@pytest.mark.parametrize(
    "view", ["own_function", "own_operator", "of_a_join", "of_a_copy", "far", "some"]
)
def test_other_views_are_refused(server: str, view: str) -> None:
    with pytest.raises(
        NotOneTableError, match=rf"table \(mine.{view}\) must be a table, or a view"
    ):
        open_ledger(f"{server}?table=mine.{view}")


def test_a_part_of_a_server_s_table(server: str) -> None:
    whole, part = (identity(f"{server}?table=mine.{name}") for name in ("years", "year1"))
    assert whole.meets(part.names, part.marks)
    assert part.meets({"postgres://elsewhere"}, whole.marks)


def test_a_server_that_does_not_say_which_it_is(server: str) -> None:
    """Its own address, and the moment it was started, stand in: other addresses are still one."""
    import psycopg

    known = identity(f"{server}?table=mine.people")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM public")
        try:
            place = server.rpartition("@")[2]
            name = f"postgres://mine@{place}?table=mine.people"
            other = name.replace("127.0.0.1", "localhost")
            assert identity(name).marks != known.marks
            assert meet(name, other)
            # Nor does a user who may ask for the number come to another ledger.
            assert identity(other).marks & known.marks
            # The address stays when the server is started again.
            assert len(identity(name).marks) == len(known.marks)
        finally:
            connection.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO public")


def test_one_connection_finds_the_ledger_and_the_table(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, connect = [], databases.connect

    def counted(scheme: str, address: str) -> Any:
        made.append(connect(scheme, address))
        return made[-1]

    monkeypatch.setattr(databases, "connect", counted)
    monkeypatch.setattr(databases, "_ASKED", {})
    name = f"{server}?table=mine.people"
    ledger = open_ledger(name)
    table = PrivateTable.open(name, SCHEMA, ledger=ledger)
    assert len(made) == 1
    table.close()
    # One that the server has closed meanwhile is made again.
    open_ledger(name)
    made[-1].con.close()
    PrivateTable.open(name, SCHEMA)
    assert len(made) == 3


def test_a_search_path_opens_what_it_is_charged_for(server: str) -> None:
    import psycopg

    with psycopg.connect(server) as connection:
        connection.execute("CREATE TABLE public.twins AS SELECT 1 AS a")
        connection.execute("CREATE TABLE mine.twins AS SELECT 2 AS a")
    address = f"{server}?table=twins&options=-csearch_path%3Dmine,public"
    assert meet(address, f"{server}?table=mine.twins")
    assert not meet(address, f"{server}?table=public.twins")
    counts = PrivateTable.open(address, SCHEMA).unprotected("test").counts(["a"])
    assert counts.tolist() == [0, 0, 1]


def test_the_attack_on_a_server_finds_nothing(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from benchmarks.attacks import ledger_identity

    assert ledger_identity.attack(server) is None


# Spark

VIEWS = {
    "limited": "SELECT * FROM files LIMIT 1",
    "joined": "SELECT x.a FROM files x JOIN plain USING (a)",
    "exploded": "SELECT explode(array(1, 2)) AS a FROM files",
    "numbered": "SELECT monotonically_increasing_id() AS a FROM files",
    "drawn": "SELECT rand() AS a FROM files",
    "ranked": "SELECT rank() OVER (ORDER BY a) AS a FROM files",
    "asked": "SELECT (SELECT max(a) FROM plain) AS a FROM files",
    "united": "SELECT a FROM files UNION ALL SELECT a FROM plain",
    "places": "SELECT CAST(_metadata AS string) AS a FROM plain",
    "named_files": "SELECT input_file_name() AS a FROM files",
    "distinct_rows": "SELECT DISTINCT a FROM files",
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    sql = pytest.importorskip("pyspark.sql", reason="the extra 'spark' is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    folder = tmp_path_factory.mktemp("names of tables")
    session = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sql("SELECT 1 AS a, 'x' AS b").write.parquet(str(folder / "rows"))
    session.sql("CREATE DATABASE clinic")
    session.sql("CREATE TABLE clinic.kept USING parquet AS SELECT 1 AS a, 'x' AS b")
    session.sql("CREATE TABLE plain USING parquet AS SELECT 1 AS a, 'x' AS b")
    where = f"USING parquet LOCATION '{folder / 'rows'}'"
    session.sql(f"CREATE TABLE outside (a int, b string) {where}")
    session.sql("CREATE VIEW seen AS SELECT upper(b) AS b, a + 1 AS a FROM clinic.kept WHERE a > 0")
    session.sql("CREATE VIEW counted AS SELECT count(*) AS a FROM clinic.kept")
    read = session.read.parquet(str(folder / "rows"))
    read.createOrReplaceTempView("files")
    read.repartition(3).createOrReplaceGlobalTempView("global_files")
    for name in ("in_memory", "other_in_memory"):
        session.createDataFrame([(1,)], "a int").createOrReplaceTempView(name)
    session.sql("CREATE TEMPORARY VIEW over_memory AS SELECT a + 1 AS a FROM in_memory")
    session.table("in_memory").createOrReplaceTempView("again_in_memory")
    parts = f"'{folder / 'parts'}'"
    session.sql(
        f"CREATE TABLE parts (a int, b string) USING parquet PARTITIONED BY (b) LOCATION {parts}"
    )
    session.sql("INSERT INTO parts VALUES (1, 'x'), (2, 'y')")
    session.sql(
        f"CREATE TABLE one_part (a int) USING parquet LOCATION '{folder / 'parts' / 'b=x'}'"
    )
    for name, query in VIEWS.items():
        session.sql(query).createOrReplaceTempView(name)
    # Rows of a database that several tables of Spark may name.
    log = str(folder / "derby.log")
    session._jvm.java.lang.System.setProperty("derby.stream.error.file", log)
    far = {"url": "jdbc:derby:memory:far;create=true", "dbtable": "PEOPLE"}
    session.table("plain").write.format("jdbc").options(**far).save()
    options = ", ".join(f"{name} '{value}'" for name, value in far.items())
    for name in ("far_rows", "far_rows_again"):
        session.sql(f"CREATE TABLE {name} USING jdbc OPTIONS ({options})")
    session.sql("CREATE TEMPORARY VIEW over_far_rows AS SELECT a FROM far_rows")
    session.udf.register("mine", lambda value: value)
    session.sql("SELECT mine(b) AS b FROM files").createOrReplaceTempView("own_function")
    yield folder
    session.stop()


def test_every_name_of_a_spark_table_is_one(spark: Path) -> None:
    for name in ("default.plain", "spark_catalog.default.plain", "Plain", "DEFAULT.PLAIN"):
        assert meet("spark://plain", f"spark://{name}"), name
    assert meet("spark://clinic.kept", "spark://seen")
    assert meet("spark://clinic.kept", "spark://spark_catalog.clinic.kept")
    for name in ("files", "global_temp.global_files"):
        assert meet("spark://outside", f"spark://{name}"), name
        assert meet(str(spark / "rows"), f"spark://{name}"), name
    assert meet(str(spark / "rows" / "*.parquet"), "spark://outside")
    assert meet("spark://in_memory", "spark://over_memory")
    assert meet("spark://in_memory", "spark://again_in_memory")
    # A partition's folder may be a table of its own, and its files may be named.
    assert meet("spark://parts", "spark://one_part")
    assert meet(str(spark / "parts" / "b=x" / "*.parquet"), "spark://parts")
    for one, other in (
        *(("plain", "clinic.kept"), ("plain", "files"), ("in_memory", "files")),
        *(("parts", "plain"), ("in_memory", "other_in_memory"), ("parts", "outside")),
    ):
        assert not meet(f"spark://{one}", f"spark://{other}")
    assert identity("spark://in_memory").names == {"spark://default.in_memory"}


def test_other_views_of_spark_are_refused(spark: Path) -> None:
    far = ("far_rows", "far_rows_again", "over_far_rows")
    for view in ("counted", "own_function", *far, *VIEWS):
        with pytest.raises(NotOneTableError, match=rf"table \({view}\) must be a table, or a view"):
            open_ledger(f"spark://{view}")


def test_views_behind_spark_connect_are_refused(spark: Path) -> None:
    """Its client shows no plan: a table is known by the catalogue, a view by nothing."""
    from pyspark.sql import SparkSession

    class Session:
        def __init__(self, session: Any) -> None:
            self.sql = session.sql

        def table(self, name: str) -> object:
            return object()

    session = Session(SparkSession.getActiveSession())
    found = relations._rows_in_spark(session, "plain")
    assert found is not None
    assert found.tables == ("default.plain",)
    with pytest.raises(NotOneTableError):
        relations._rows_in_spark(session, "seen")


def test_this_machine_s_name_is_no_other_server(server: str) -> None:
    name = server.replace("127.0.0.1", socket.gethostname())
    found = identity(f"{name}?table=mine.people")
    assert found.unasked or meet(f"{name}?table=mine.people", f"{server}?table=mine.people")
