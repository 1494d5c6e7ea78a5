"""Database addresses: ``postgres://user@host/db?table=t``, ``spark://table`` and their like.

``spark://table`` is a table of the Spark session that is running, or else of a local one;
``spark://host:port/table`` and ``sc://host:port/table`` are tables behind a Spark Connect server,
whose options (``;token=...;use_ssl=true``) follow the table.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import ibis

from marginalsyn.defaults import PASSWORD
from marginalsyn.errors import DataError, MarginalsynError, MissingExtraError, UsageError
from marginalsyn.sources.relations import Place, Rows, find_place, find_rows
from marginalsyn.table.engine import first_line, new_engine
from marginalsyn.validation import check_address, like

# Where a table is not there, so many of the others are named.
MOST_TABLES = 8
SCHEMES = ("duckdb", "postgres", "postgresql", "spark", "sc", "bigquery", "snowflake")
# Those that are asked which rows a name stands for; the others are known by their addresses.
ASKED = ("duckdb", "postgres", "postgresql", "spark", "sc")
# Connections to servers that were asked, for whoever opens the table next.
_ASKED: dict[str, Any] = {}
# Numbers of PostgreSQL's types: whole numbers; and texts.
WHOLE, TEXTS = {20, 21, 23}, {18, 19, 25, 1042, 1043}


@dataclass(frozen=True)
class Address:
    """The parts of an address.

    Attributes:
        scheme: such as ``postgres``.
        server: what is connected to: the address without the table.
        table: the table that the address names; empty where it names none.
        path: of a DuckDB file, links resolved. It is taken as it is written: ``%41`` is no ``A``.
        shown: the address for people: without the password and the table.
        remote: what Spark Connect takes; None for a session of this process.
        secret: what no message may repeat.
    """

    scheme: str
    server: str
    table: str
    path: str
    shown: str
    remote: str | None = None
    secret: str | None = None


def parse_address(url: str) -> Address:
    """The parts of an address."""
    check_address(url)
    parts = urlsplit(url)
    scheme, path = parts.scheme.lower(), parts.netloc + parts.path
    file = str(Path(path).expanduser().resolve()) if scheme == "duckdb" else ""
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    table = query.pop("table", "")
    server = f"{scheme}://{path}" + ("?" + urlencode(query) if query else "")
    if scheme not in ("spark", "sc"):
        return Address(scheme, server, table, file, shown_url(url), secret=parts.password)
    place, own, remote = spark_address(parts.netloc, parts.path)
    secret = remote.partition(";")[2] if remote else None
    return Address(scheme, server, table or own, file, f"spark://{place}", remote, secret)


def open_urls(url: str, tables: Sequence[str | None]) -> list[tuple[str, ibis.Table]]:
    """Several tables of one database, through one connection; None is the one in the address.

    With each comes its name without the password. Only the catalogue is read.
    """
    address = parse_address(url)
    scheme, name = address.scheme, address.shown
    if scheme not in SCHEMES:
        raise UsageError(
            f"data ({name}) must be a file or start with one of "
            f"{', '.join(one + '://' for one in SCHEMES)}"
        )
    if scheme == "sc" and not address.remote:
        raise UsageError(f"data ({name}) must name a server: sc://host:port/table")
    if not all(wanted := [table or address.table for table in tables]):
        raise UsageError(f"data ({name}) must name a table: add ?table=NAME")
    found: list[tuple[str, ibis.Table]] = []
    for table in wanted:
        with _reached(address, table):
            backend = found[0][1].get_backend() if found else reach(address)
            opened = _table(backend, find_place(backend, table), name)
        shown = f"{name}?table={table}"
        if scheme in ("spark", "sc"):
            shown = f"{name}/{table}" if address.remote else f"spark://{table}"
        found.append((shown, opened))
    return found


def ask(address: Address, tables: Sequence[str], *, start: bool) -> list[Rows | None]:
    """Which rows names of tables stand for, in a database that can be asked.

    The connection to a server is kept for whoever opens the table next. None stands for a table
    that is not there. With ``start`` a session of Spark begins where none is running here.

    Raises:
        DataError: the database does not answer, or refuses.
        NotOneTableError: a view whose rows are not those of one table.
    """
    if address.scheme in ("spark", "sc") and not start and not _running(address):
        raise DataError(f"data ({address.shown}) must be asked in a session of Spark")
    with _reached(address, tables[0]):
        backend = reach(address)
        found = [find_rows(backend, table) for table in tables]
    if backend.name == "postgres":
        _ASKED[address.server] = backend
    return found


def _running(address: Address) -> bool:
    """Whether a session of Spark runs in this process and is the one that an address means."""
    module = sys.modules.get("pyspark.sql")
    return (
        not address.remote and module is not None and bool(module.SparkSession.getActiveSession())
    )


@contextmanager
def _reached(address: Address, table: str) -> Iterator[None]:
    """Say what an engine said; no row has been asked for yet, so it speaks of its catalogue."""
    try:
        yield
    except MarginalsynError:
        raise
    except Exception as error:
        reason = first_line(error)
        if address.secret:
            reason = reason.replace(address.secret, "***")
        advice, password = "", urlsplit(address.server).password
        if address.scheme.startswith("postgres") and "password" in reason and not password:
            advice = f"; no password is remembered: {PASSWORD}"
            if "PGPASSWORD" in os.environ:
                advice = "; the password in PGPASSWORD must be this user's"
        raise DataError(
            f"table ({table}) of {address.shown} must be reachable: {reason}{advice}"
        ) from None


def reach(address: Address) -> Any:
    """The engine that has the tables of an address."""
    if address.scheme == "duckdb":
        if not Path(address.path).is_file():
            raise DataError(f"data (duckdb://{address.path}) must be an existing DuckDB file")
        backend = new_engine()
        backend.attach(address.path, name="source", read_only=True)
        return backend
    if address.scheme in ("spark", "sc"):
        return spark(address.remote)
    asked = _ASKED.pop(address.server, None)
    if asked is not None:
        with suppress(Exception):
            asked.con.execute("SELECT 1")
            return asked
    return connect(address.scheme, address.server)


def _table(backend: Any, place: Place, where: str) -> Any:
    """A table of a database, or which ones it has."""
    from ibis.common.exceptions import TableNotFound

    try:
        return backend.table(place.name, database=place.folder)
    except TableNotFound:
        try:
            there = sorted(backend.list_tables(database=place.folder))
        except Exception:
            there = []
        known = f"; there are {', '.join(there[:MOST_TABLES])}" if there else ""
        raise DataError(
            f"table ({place.name}) of {where} must be there: it holds none of this name that this "
            f"user may read{like(place.name, there) or known}"
        ) from None


def spark_address(netloc: str, path: str) -> tuple[str, str, str | None]:
    """The server of a Spark address, its table, and the address that Spark Connect takes.

    Example:
        >>> spark_address("host:15002", "/clinic.people;use_ssl=true")
        ('host:15002', 'clinic.people', 'sc://host:15002/;use_ssl=true')
        >>> spark_address("clinic", "/people")
        ('', 'clinic.people', None)
    """
    path, mark, options = path.partition(";")
    user, _, server = netloc.rpartition("@")
    if ":" not in server:
        return "", (netloc + path).strip("/").replace("/", "."), None
    table = path.strip("/").replace("/", ".")
    options = ";".join([*([f"user_id={user}"] if user else []), *([options] if mark else [])])
    return server, table, f"sc://{server}/" + (f";{options}" if options else "")


def shown_url(url: str) -> str:
    """A database address without its password and without the table."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    return f"{parts.scheme.lower()}://{user.partition(':')[0]}{at}{host}{parts.path}"


def spark(remote: str | None = None) -> Any:
    """Connect to a Spark Connect server, to the active session, or to a local one."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtraError("a Spark table", "spark") from None
    if remote is None:
        return ibis.pyspark.connect(SparkSession.builder.getOrCreate())
    try:
        from pyspark.sql.connect.session import SparkSession as Remote
    except ImportError:
        raise UsageError(
            "data (spark://host:port) must have Spark Connect's client: install it with "
            'pip install "pyspark[connect]"'
        ) from None
    return ibis.pyspark.connect(Remote.builder.remote(remote).getOrCreate())


def connect(scheme: str, address: str) -> Any:
    """Connect to a database server; passwords may come from the engine's own files."""
    engine = "postgres" if scheme.startswith("postgres") else scheme
    try:
        return ibis.connect(address)
    except ImportError:
        if engine == "postgres":
            raise MissingExtraError("a PostgreSQL table", "postgres") from None
        raise UsageError(
            f"data ({scheme}://) must have its driver: install it with pip install "
            f'"ibis-framework[{engine}]"'
        ) from None


def in_plain_types(
    backend: Any, table: ibis.Table, name: str
) -> tuple[ibis.Table, tuple[str, ...]]:
    """A PostgreSQL table with texts for what functions of texts do not take, such as enumerations.

    And the columns that Ibis takes for whole numbers and that the server casts to none.
    """
    if backend.con.info.parameter_status("server_encoding") == "SQL_ASCII":
        raise DataError(
            f"database of {name} (SQL_ASCII) must have an encoding, such as UTF8: texts may be "
            "none in one that has not"
        )
    kinds = table.schema()
    odd_kinds = {
        column: table[column].cast("string")
        for column, kind in kinds.items()
        if not (kind.is_string() or kind.is_numeric() or kind.is_boolean() or kind.is_temporal())
    }
    # Shapes become texts first: Ibis reads them by functions of PostGIS, which may not be there.
    table = table.mutate(**odd_kinds)
    with backend.con.cursor() as cursor:
        cursor.execute(backend.compile(table.limit(0)))
        codes = {column.name: column.type_code for column in cursor.description}
    # A cast from text to text is left out.
    texts = {
        column: table[column] + ""
        for column, kind in kinds.items()
        if kind.is_string() and codes[column] not in TEXTS
    }
    odd = [n for n, kind in kinds.items() if kind.is_integer() and codes[n] not in WHOLE]
    return table.mutate(**texts).drop(*odd), tuple(odd)
