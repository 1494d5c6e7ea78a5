"""Can a cap be passed by under another name of the same rows?

A cap of eps 1 is spent once, through the command line. Then the same rows are asked for again: a
file from a sub-folder, by a glob, through links; a table in a DuckDB file through a link whose name
looks encoded, and through views; a file through a view of it; linked tables in a folder below.
Every second run must be refused. With the address of a PostgreSQL server, where a schema is made
for it, a table is asked for by search paths, by other hosts, through views and the table that it is
a part of.

    python -m benchmarks.attacks.ledger_identity [postgres://curator@127.0.0.1:5432/postgres]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from contextlib import chdir
from pathlib import Path

from benchmarks.attacks.relation import SCHEMA, own_ledgers, run

HOW = ("--schema", "people.json", "--method", "independent", "--eps", 1, "-q", "--out")
ADDRESSES = (
    "postgres://you:secret@db.example/clinic?table=people",
    "postgresql://db.example:5432/clinic?table=public.people",
    "postgres://me@DB.EXAMPLE/clinic?table=people&sslmode=require",
)
# How a run is refused for its ledger, and for nothing else.
REFUSED = ("cap (", "selects plain rows", "must have one ledger")
ROWS = "('yes'), ('no')"
VIEWS = {
    "a view": "SELECT ill FROM {0}people",
    "a view of a view": "SELECT upper(ill) AS ill FROM {0}view0 WHERE ill <> 'maybe'",
    "a view that joins": "SELECT a.ill FROM {0}people a JOIN {0}people b ON a.ill = b.ill",
    "a view that groups": "SELECT ill FROM {0}people GROUP BY ill",
    "a view with a subquery": "SELECT max(ill) AS ill FROM (SELECT ill FROM {0}people) t",
}


def spend(place: Path, first: str, others: Iterable[tuple[str, Path, str]]) -> list[str]:
    """Spend the cap of a table by its first name; how it was spent again."""
    place.mkdir(exist_ok=True)
    (place / "people.json").write_text(SCHEMA)
    with chdir(place):
        run("ledger", "cap", "--data", first, "--eps", 1)
        made = run("generate", "--data", first, *HOW, "first")
        assert made.exit_code == 0, made.output
    found = []
    for number, (how, folder, name) in enumerate(others):
        folder.mkdir(exist_ok=True)
        (folder / "people.json").write_text(SCHEMA)
        with chdir(folder):
            again = run("generate", "--data", name, *HOW, f"again-{number}")
        if again.exit_code == 0:
            found.append(how)
        else:
            assert any(word in again.output for word in REFUSED), (how, again.output)
    return found


def files(place: Path) -> list[str]:
    """The names of a file under which its cap was spent a second time."""
    home, elsewhere = place / "home", place / "elsewhere"
    (home / "sub").mkdir(parents=True)
    (home / "people.csv").write_text("ill\n" + "yes\nno\n" * 50)
    (home / "link.csv").symlink_to("people.csv")
    (home / "hard.csv").hardlink_to(home / "people.csv")
    names = [
        ("glob", home, "peopl*.csv"),
        ("link", home, "link.csv"),
        ("hard link", home, "hard.csv"),
        ("absolute", home, str(home / "sub" / ".." / "people.csv")),
        ("another folder", elsewhere, str(home / "people.csv")),
        ("another folder, relative", elsewhere, "../home/people.csv"),
        ("sub-folder", home / "sub", "../people.csv"),
    ]
    view = place / "view.duckdb"
    _fill(view, f"CREATE VIEW people AS SELECT ill FROM read_csv('{home / 'people.csv'}')")
    names.append(("a view of the file in DuckDB", elsewhere, f"duckdb://{view}?table=people"))
    return spend(home, "people.csv", names)


def duckdb_files(place: Path) -> list[str]:
    """The same of a table in a DuckDB file."""
    base, link = place / "base.duckdb", place / "link%41.duckdb"
    views = [
        f"CREATE VIEW view{number} AS {query.format('')}"
        for number, query in enumerate(VIEWS.values())
    ]
    table = f"CREATE TABLE people AS SELECT ill FROM (VALUES {ROWS}) t(ill), range(50)"
    _fill(base, table, *views)
    link.symlink_to(base.name)
    names = [
        ("a link with %41", place, f"duckdb://{link}?table=people"),
        ("capitals", place, f"duckdb://{base}?table=MAIN.People"),
        *(
            (f"{how} in DuckDB", place, f"duckdb://{base}?table=view{number}")
            for number, how in enumerate(VIEWS)
        ),
    ]
    return spend(place / "duck", f"duckdb://{base}?table=people", names)


def postgres(place: Path, address: str) -> list[str]:
    """The same of a table in a PostgreSQL server."""
    import psycopg

    own = "names_of_people"
    server, _, query = address.partition("?")
    joint = f"&{query}" if query else ""
    with psycopg.connect(address) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {own} CASCADE; CREATE SCHEMA {own}")
        connection.execute(f"CREATE TABLE {own}.whole (ill text) PARTITION BY LIST (ill)")
        for table in ("people", "part"):
            values = "('yes', 'no')" if table == "people" else "('maybe')"
            connection.execute(
                f"CREATE TABLE {own}.{table} PARTITION OF {own}.whole FOR VALUES IN {values}"
            )
        connection.execute(f"INSERT INTO {own}.people SELECT * FROM (VALUES {ROWS}) t(ill)")
        for number, text in enumerate(VIEWS.values()):
            connection.execute(f"CREATE VIEW {own}.view{number} AS {text.format(own + '.')}")
        connection.execute(f"CREATE MATERIALIZED VIEW {own}.kept AS SELECT ill FROM {own}.people")
    there = place / "server"
    names = [
        ("a schema in the path", there, f"{server}/{own}?table=people{joint}"),
        (
            "a search path",
            there,
            f"{server}?table=people&options=-csearch_path%3D{own}{joint}",
        ),
        ("the partitioned table", there, f"{server}?table={own}.whole{joint}"),
        ("a materialised view", there, f"{server}?table={own}.kept{joint}"),
        *(
            (f"{how} in PostgreSQL", there, f"{server}?table={own}.view{number}{joint}")
            for number, how in enumerate(VIEWS)
        ),
    ]
    if "@127.0.0.1" in address:
        other = server.replace("@127.0.0.1", "@localhost")
        names.append(("localhost", there, f"{other}?table={own}.people{joint}"))
    return spend(there, f"{server}?table={own}.people{joint}", names)


def linked(place: Path) -> list[str]:
    """A file in a folder below the one that linked tables are in, by their schema's name for it."""
    home = place / "clinic"
    (home / "sub").mkdir(parents=True)
    (home / "sub" / "people.csv").write_text("ill\n" + "yes\nno\n" * 50)
    from marginalsyn.access.ledgers import open_ledger

    file = open_ledger(home / "sub" / "people.csv")
    file.set_cap(1.0)
    return [] if open_ledger(home, tables=["sub/people"]).path == file.path else ["linked tables"]


def attack(server: str | None = None) -> str | None:
    """Under which other names the cap was passed; None where every one was refused."""
    with tempfile.TemporaryDirectory() as folder, own_ledgers(Path(folder)):
        place = Path(folder).resolve()
        found = [*files(place), *duckdb_files(place), *linked(place)]
        if server is not None:
            found += postgres(place, server)
        ledgers = {ledger_of(address) for address in ADDRESSES}
    if len(ledgers) > 1:
        found.append("user, port, or host of an address")
    return f"a cap of eps 1 was spent again by way of: {', '.join(found)}" if found else None


def ledger_of(address: str) -> Path | None:
    """Where the ledger of an address lies."""
    from marginalsyn.access.ledgers import open_ledger

    return open_ledger(address).path


def _fill(path: Path, *commands: str) -> None:
    """Make a DuckDB file."""
    import duckdb

    with duckdb.connect(str(path)) as connection:
        for command in commands:
            connection.execute(command)


if __name__ == "__main__":
    found = attack(*sys.argv[1:2])
    sys.stdout.write(f"{found or 'every other name was refused: one source has one ledger'}\n")
    sys.exit(found is not None)
