"""What a name of a table stands for, as its database says, and the ledger that this leads to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from marginalsyn import Charge, Ledger, PrivateForest, PrivateTable, Schema
from marginalsyn.access.ledgers import ledgers_folder, open_ledger
from marginalsyn.errors import DataError, LedgerError
from marginalsyn.operations.origins import UNNAMED
from marginalsyn.operations.origins import open_ledger as curators_ledger
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.records.entries import Known
from marginalsyn.sources import databases, identity
from marginalsyn.sources.relations import NotOneTableError, Rows, find_place, selects_from

CHARGE = Charge(mechanism="gaussian", cost=ZCDP(rho=0.01))

OTHER = [
    "SELECT a FROM people UNION ALL SELECT a FROM people",
    "SELECT DISTINCT a FROM people",
    "SELECT a FROM people LIMIT 3",
    "SELECT a FROM people OFFSET 3",
    "SELECT a FROM people FETCH FIRST 3 ROWS ONLY",
    "SELECT a FROM people GROUP BY a",
    "SELECT max(a) FROM people",
    "SELECT count(*) FROM people",
    "SELECT a FROM people HAVING count(*) > 1",
    "SELECT row_number() OVER () FROM people",
    "SELECT sum(a) OVER (PARTITION BY b) FROM people",
    "SELECT a FROM people, other",
    "SELECT a FROM people JOIN other USING (a)",
    "SELECT a FROM people CROSS JOIN other",
    "SELECT a FROM people, LATERAL generate_series(1, a) g",
    "SELECT generate_series(1, a) FROM people",
    "SELECT unnest(ARRAY[1, 2]), a FROM people",
    "SELECT a FROM people WHERE a > (SELECT avg(a) FROM people)",
    "SELECT a FROM people WHERE a IN (SELECT a FROM other)",
    "SELECT a FROM people WHERE EXISTS (SELECT 1)",
    "SELECT a = ANY (SELECT a FROM people) FROM people",
    "SELECT (SELECT max(a) FROM people) FROM people",
    "WITH x AS (SELECT a FROM people) SELECT a FROM x",
    "SELECT a FROM (SELECT a FROM people) x",
    "SELECT a FROM people TABLESAMPLE SYSTEM (10)",
    "SELECT a FROM people WHERE random() < 0.5",
    "SELECT mine(a) FROM people",
    "SELECT public.lower(a) FROM people",
    "SELECT query_to_xml('SELECT 1', true, true, '') FROM people",
    "SELECT ctid::text FROM people",
    "SELECT people.* IS NULL, xmin FROM people",
    "SELECT a FROM generate_series(1, 3) t(a)",
    "SELECT a FROM (VALUES (1)) t(a)",
    "SELECT 1",
    "VALUES (1)",
    "SELECT a FROM people; SELECT a FROM people",
    "not a query (",
    "",
]


@pytest.mark.parametrize("sql", OTHER)
def test_any_other_query_is_not(sql: str) -> None:
    assert selects_from(sql, "postgres") is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM 'people.csv'.x.y",
        "SELECT * FROM read_csv('people.csv')",
        "SELECT * FROM read_parquet(['a.parquet', 'b.parquet'])",
        "SELECT rowid FROM people",
        "SELECT COLUMNS(*) FROM people",
        "SELECT * EXCLUDE (a) FROM people",
        "SELECT a FROM people USING SAMPLE 10%",
        "SELECT a FROM people QUALIFY row_number() OVER () = 1",
        "SELECT a FROM people ORDER BY a LIMIT 3",
        "SELECT list(a) FROM people",
        "PIVOT people ON a",
        "SUMMARIZE people",
        "SELECT a FROM people ASOF JOIN other USING (a)",
        "SELECT DISTINCT ON (a) a FROM people",
    ],
)
def test_nor_are_those_that_only_duckdb_knows(sql: str) -> None:
    assert selects_from(sql, "duckdb") is None


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base.duckdb"
    with duckdb.connect(str(path)) as connection:
        for command in (
            "CREATE TABLE people AS SELECT 1 AS a, 'x' AS b",
            "CREATE TABLE folk AS SELECT 1 AS a",
            "CREATE SCHEMA s",
            "CREATE TABLE s.people AS SELECT 2 AS a",
            "CREATE VIEW v AS FROM people WHERE a > 0",
            "CREATE VIEW w AS SELECT upper(b) AS b FROM v",
            "CREATE VIEW s.v AS SELECT a FROM people",
            "CREATE VIEW s.f AS SELECT a FROM folk",
            "CREATE VIEW counted AS SELECT count(*) AS a FROM people",
            f"CREATE VIEW file AS SELECT * FROM '{tmp_path / 'people.csv'}'",
        ):
            if "people.csv" in command:
                (tmp_path / "people.csv").write_text("a\n1\n")
            connection.execute(command)
    return path


def meet(first: str, second: str) -> bool:
    other = identity.identity(second)
    return identity.identity(first).meets(other.names, other.marks)


def test_a_view_in_a_duckdb_file_is_its_table(base: Path) -> None:
    def named(table: str) -> str:
        return f"duckdb://{base}?table={table}"

    for name in ("v", "w", "MAIN.V", "main.People"):
        assert meet(named(name), named("people")), name
        assert not meet(named(name), named("s.people"))
    assert meet(named("s.v"), named("s.people"))
    assert not meet(named("s.v"), named("people"))
    # A schema's own tables come first, then those of main, as DuckDB finds them.
    assert meet(named("s.f"), named("folk"))
    for name in ("counted", "file"):
        with pytest.raises(NotOneTableError, match=rf"table \({name}\) must be a table, or a view"):
            open_ledger(named(name))


def test_a_view_that_tries_a_cast_is_its_table_and_no_row_stops_a_run(tmp_path: Path) -> None:
    schema = Schema(columns=({"kind": "integer", "name": "a", "lower": 0, "upper": 9},))
    counts = []
    for more in ([], ["no number"]):
        path = tmp_path / f"{len(more)}.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE people (a VARCHAR)")
            for text in ["1", "7", *more]:
                connection.execute("INSERT INTO people VALUES (?)", [text])
            connection.execute("CREATE VIEW v AS SELECT TRY_CAST(a AS INTEGER) AS a FROM people")
        address = f"duckdb://{path}?table="
        assert meet(f"{address}v", f"{address}people")
        counts.append(PrivateTable.open(f"{address}v", schema).unprotected("t").counts(("a",)))
    assert (counts[1] - counts[0]).tolist() == [1, *[0] * 9]


def test_a_macro_under_the_name_of_a_function_is_found_out(base: Path) -> None:
    with duckdb.connect(str(base)) as connection:
        connection.execute("CREATE MACRO upper(x) AS (SELECT max(b) FROM people)")
    with pytest.raises(NotOneTableError):
        open_ledger(f"duckdb://{base}?table=w")


def test_what_was_spent_on_a_view_by_its_name_counts(base: Path) -> None:
    names = identity.name_of(f"duckdb://{base}?table=v")
    path = old_ledger(sorted(names.names), tuple(names.marks))
    first = open_ledger(f"duckdb://{base}?table=v")
    assert first.path == path
    first.charge([CHARGE])
    # It is the table's from now on, by the table's own name.
    assert open_ledger(f"duckdb://{base}?table=people").path == path


def test_the_path_of_a_file_is_taken_as_it_is_written(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "%41.duckdb").symlink_to(base)
    for folder, place in (("home", base), ("~", tmp_path / "another.duckdb")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.duckdb").symlink_to(place)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    first = open_ledger(f"duckdb://{base}?table=people")
    first.charge([CHARGE])
    for name in (f"{tmp_path}/%41.duckdb", "%41.duckdb", "~/x.duckdb"):
        found = f"duckdb://{name}?table=people"
        assert PrivateTable.open(found, Schema.from_domain({"a": 2, "b": 2})).source
        assert open_ledger(found).path == first.path


def test_what_was_spent_under_a_path_that_was_misread_counts(base: Path, tmp_path: Path) -> None:
    link = tmp_path / "%41.duckdb"
    link.symlink_to(base)
    old_ledger([f"{tmp_path}/A.duckdb?table=main.people"])
    assert len(open_ledger(f"duckdb://{link}?table=people").read().charges) == 1


def test_a_linked_table_in_a_folder_below_has_its_ledger(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "people.csv").write_text("a\n1\n")
    first = open_ledger(tmp_path / "sub" / "people.csv")
    first.charge([CHARGE])
    for name in ("sub/people", "sub/people.csv", "../" + tmp_path.name + "/sub/people"):
        assert open_ledger(tmp_path, tables=[name]).path == first.path


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux")
def test_a_file_that_was_deleted_and_is_still_open_has_its_ledger(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("a\n1\n")
    first = open_ledger(path)
    first.charge([CHARGE])
    with path.open() as handle:
        path.unlink()
        assert open_ledger(f"/proc/self/fd/{handle.fileno()}").path == first.path


# Servers, which are made up here: tests/sources/test_backends.py asks real ones.


def old_ledger(names: list[str], marks: tuple[str, ...] = ()) -> Path:
    """A ledger with one charge, as a version that asked no database left it."""
    path = ledgers_folder() / "old.jsonl"
    Ledger(path, "x", Known(names=tuple(names), marks=marks)).charge([CHARGE], run="r")
    return path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> dict[str, Rows | None]:
    """What a server says of tables, by ``user/table``."""
    tables: dict[str, Rows | None] = {}

    def answer(address: Any, names: list[str], *, start: bool) -> list[Rows | None]:
        del start
        user = address.server.partition("://")[2].partition("@")[0]
        return [tables.get(f"{user}/{name}") for name in names]

    monkeypatch.setattr(identity, "ask", answer)
    return tables


def table_of(name: str, number: int, *within: str, host: str = "db.example") -> Rows:
    place = ("5432", "clinic", host, "192.0.2.1")
    return Rows((name,), (f"postgres 7 1 {number}",), within=within, server=place)


ALICE, BOB = (f"postgres://{user}@db.example/clinic?table=people" for user in ("alice", "bob"))


def test_a_search_path_leads_to_the_table_that_is_opened(server: dict[str, Rows | None]) -> None:
    server["alice/people"] = server["alice/alice.people"] = table_of("alice.people", 1)
    server["bob/people"] = table_of("public.people", 2)
    first = open_ledger(ALICE)
    first.charge([CHARGE])
    full = ALICE.replace("people", "alice.people")
    assert open_ledger(full).path == first.path
    # Not that of another user's table of this name, although the addresses are alike.
    assert open_ledger(BOB).path != first.path
    open_ledger(BOB).charge([CHARGE])
    assert open_ledger(ALICE).path == first.path
    assert first.read().names == {"postgres://db.example:5432/clinic?table=alice.people"}


def test_what_was_spent_before_databases_were_asked_counts(
    server: dict[str, Rows | None],
) -> None:
    server["alice/people"] = table_of("alice.people", 1)
    server["bob/people"] = table_of("public.people", 2)
    path = old_ledger(["postgres://db.example:5432/clinic?table=public.people"])
    assert open_ledger(ALICE).path == open_ledger(BOB).path == path
    # Whoever comes first adds a table's own names; the other one still finds what may be his.
    open_ledger(BOB).charge([CHARGE])
    assert open_ledger(ALICE).path == path
    assert len(open_ledger(ALICE).read().charges) == 2


def test_a_ledger_under_another_name_of_the_host_counts(server: dict[str, Rows | None]) -> None:
    server["bob/people"] = table_of("public.people", 2)
    path = old_ledger(["postgres://192.0.2.1:5432/clinic?table=public.people"])
    assert open_ledger(BOB).path == path


def test_two_ledgers_of_one_table_are_refused(server: dict[str, Rows | None]) -> None:
    server["bob/people"] = table_of("public.people", 2)
    open_ledger(BOB).charge([CHARGE])
    server["alice/people"] = server["bob/people"]
    old_ledger(["postgres://db.example:5432/clinic?table=public.people"])
    with pytest.raises(LedgerError, match=r"must have one ledger, but its rows are in 2"):
        open_ledger(ALICE)


def test_a_part_of_a_table_has_the_ledger_of_the_whole(server: dict[str, Rows | None]) -> None:
    key = "postgres 7 1 1"
    server["bob/whole"] = table_of("public.whole", 1)
    for number, part in ((2, "first"), (3, "second")):
        server[f"bob/{part}"] = table_of(f"public.{part}", number, key)
    first, second = (BOB.replace("people", part) for part in ("first", "second"))
    assert open_ledger(first).path != open_ledger(second).path
    whole = open_ledger(BOB.replace("people", "whole"))
    whole.charge([CHARGE])
    assert open_ledger(first).path == open_ledger(second).path == whole.path


def test_the_folder_of_a_partition_has_the_ledger_of_the_table(
    server: dict[str, Rows | None], tmp_path: Path
) -> None:
    (tmp_path / "rows" / "year=1").mkdir(parents=True)
    file = tmp_path / "rows" / "year=1" / "part-0.parquet"
    file.write_text("")
    names = {"whole": tmp_path / "rows", "part": file.parent, "other": tmp_path}
    for name, place in names.items():
        rows = Rows((f"default.{name}",), (f"spark {place}",), files=(f"file:{place}",))
        server[f"{name}/{name}"] = rows
    whole = open_ledger("spark://whole")
    whole.charge([CHARGE])
    for one in ("spark://part", str(file), "spark://other"):
        assert open_ledger(one).path == whole.path
    # Files that were written since have names of their own.
    file.rename(file.with_name("part-1.parquet"))
    assert open_ledger("spark://part").path == whole.path


def test_linked_tables_have_the_ledgers_of_their_tables(server: dict[str, Rows | None]) -> None:
    server["bob/people"] = server["bob/folk"] = table_of("public.people", 2)
    server["bob/visits"] = table_of("public.visits", 3)
    open_ledger(BOB).charge([CHARGE])
    base = BOB.partition("?")[0]
    assert open_ledger(base, tables=["folk", "visits"]).path == open_ledger(BOB).path


def test_rows_are_not_read_where_their_database_was_not_asked(
    server: dict[str, Rows | None], tmp_path: Path
) -> None:
    ledger = open_ledger(BOB)
    assert "must be there to be asked" in ledger.unasked
    frame, schema = pd.DataFrame({"a": [1]}), Schema.from_domain({"a": 2})
    with pytest.raises(LedgerError, match=r"their database was not asked.*Nothing was charged"):
        PrivateTable.open(frame, schema, ledger=ledger)
    from marginalsyn.people.tree import LinkedSchema, LinkedTable

    tree = LinkedSchema((LinkedTable("people", schema, key="id"),))
    with pytest.raises(LedgerError, match="was not asked"):
        PrivateForest.open({"people": frame.assign(id=1)}, tree, ledger=ledger)
    server["bob/people"] = table_of("public.people", 2)
    assert not open_ledger(BOB).unasked


def test_only_a_command_starts_spark_to_ask_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def start(remote: str | None) -> None:
        started.append(remote)
        raise DataError("data (spark) must be there")

    monkeypatch.setattr(databases, "spark", start)
    for name in ("spark://people", "spark://host:15002/people"):
        monkeypatch.setattr(databases, "_running", lambda address: False)
        assert "in a session of Spark" in open_ledger(name).unasked
    assert not started
    ledger = curators_ledger("spark://people", UNNAMED)
    assert started == [None]
    assert "must be there" in ledger.unasked


def test_commands_say_where_a_database_was_not_asked(run: Callable[..., Any]) -> None:
    pytest.importorskip("psycopg")
    name = "postgres://me@127.0.0.1:1/db?table=t"
    made = run("ledger", "cap", "--data", name, "--eps", 1)
    assert "this ledger is found by the name alone: table (t) of" in " ".join(made.stderr.split())
    assert "eps 1" in run("ledger", "show", "--data", name).stdout
    assert "in a session of Spark" in run("ledger", "show", "--data", "spark://people").stderr


SAME = [
    ("spark://people", "spark://spark_catalog.default.people", "spark://`default`.`People`"),
    ("postgres://me@localhost/db?table=t", "postgres://me@[0:0:0:0:0:0:0:1]/db?table=t"),
    ("postgres://me@localhost/db?table=t", "postgres://me@127.0.0.2:5432/db?table=t"),
    ("postgres://me@[2001:db8::1]/db?table=t", "postgres://me@[2001:DB8:0::1]:5432/db?table=t"),
]


@pytest.mark.parametrize("names", SAME)
def test_names_that_nobody_was_asked_about(names: tuple[str, ...]) -> None:
    assert len({identity.name_of(name).names for name in names}) == 1


def test_a_place_that_is_not_there_is_named_as_it_was_asked_for() -> None:
    class Spark:
        name = "pyspark"

    assert find_place(Spark(), "a.b.people").folder == "a.b"
