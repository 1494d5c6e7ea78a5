"""Database addresses: ``postgres://user@host/db?table=t``, ``spark://table`` and their like.

``spark://table`` is a table of the Spark session that is running, or else of a local one;
``spark://host:port/table`` and ``sc://host:port/table`` are tables behind a Spark Connect server,
whose options (``;token=...;use_ssl=true``) follow the table.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from marginalsyn.defaults import PASSWORD
from marginalsyn.errors import DataError, MarginalsynError, MissingExtraError, UsageError
from marginalsyn.table import first_line, private_engine
from marginalsyn.validation import check_address, like

if TYPE_CHECKING:
    import ibis

# Of the tables that are there: so many are told where one is not.
MOST_TABLES = 8
SCHEMES = ("duckdb", "postgres", "postgresql", "spark", "sc", "bigquery", "snowflake")


def open_url(url: str, table: str | None) -> tuple[str, ibis.Table]:
    """Return a name without the password, and the table. Only the catalogue is read."""
    check_address(url)
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    table = table or query.pop("table", None)
    address = f"{scheme}://{parts.netloc}{parts.path}" + ("?" + urlencode(query) if query else "")
    name = shown_url(url)
    if scheme not in SCHEMES:
        raise UsageError(
            f"data ({name}) must be a file or start with one of "
            f"{', '.join(one + '://' for one in SCHEMES)}"
        )
    remote, secret = None, parts.password
    if scheme in ("spark", "sc"):
        server, own, remote = spark_address(parts.netloc, parts.path)
        table, secret = table or own, remote.partition(";")[2] if remote else None
        name = f"spark://{server}"
        if scheme == "sc" and not remote:
            raise UsageError(f"data ({name}) must name a server: sc://host:port/table")
    if not table:
        raise UsageError(f"data ({name}) must name a table: add ?table=NAME")
    folder, _, short = table.rpartition(".")
    database: str | tuple[str, str] | None = folder or None
    try:
        if scheme == "duckdb":
            backend: Any = private_engine()
            database = attach(backend, parts.netloc + parts.path, folder)
        elif scheme in ("spark", "sc"):
            backend = spark(remote)
        else:
            backend = connect(scheme, address)
        found = _table(backend, short, database, name)
    except MarginalsynError:
        raise
    except Exception as error:
        # No row has been asked for yet, so the engine's words speak of the catalogue only.
        reason = first_line(error)
        if secret:
            reason = reason.replace(secret, "***")
        advice = ""
        if scheme.startswith("postgres") and "password" in reason and not parts.password:
            advice = f"; no password is remembered: {PASSWORD}"
            if "PGPASSWORD" in os.environ:
                advice = "; the password in PGPASSWORD must be this user's"
        raise DataError(f"table ({table}) of {name} must be reachable: {reason}{advice}") from None
    if scheme in ("spark", "sc"):
        return f"{name}/{table}" if remote else f"spark://{table}", found
    return f"{name}?table={table}", found


def _table(backend: Any, name: str, database: str | tuple[str, str] | None, where: str) -> Any:
    """A table of a database, or which ones it has."""
    from ibis.common.exceptions import TableNotFound

    try:
        return backend.table(name, database=database)
    except TableNotFound:
        try:
            there = sorted(backend.list_tables(database=database))
        except Exception:
            there = []
        known = f"; there are {', '.join(there[:MOST_TABLES])}" if there else ""
        raise DataError(
            f"table ({name}) of {where} must be there: it holds none of this name that this user "
            f"may read{like(name, there) or known}"
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


def open_urls(url: str, tables: Sequence[str]) -> list[tuple[str, ibis.Table]]:
    """Several tables of one database, through one connection; names as ``open_url`` gives them."""
    name, first = open_url(url, tables[0])
    backend, found = first.get_backend(), [(name, first)]
    duckdb = url.partition("://")[0].lower() == "duckdb"
    for table in tables[1:]:
        folder, _, short = table.rpartition(".")
        database = ("source", folder or "main") if duckdb else folder or None
        try:
            found.append((name, backend.table(short, database=database)))
        except Exception:
            raise DataError(
                f"table ({table}) of {shown_url(url)} must be there: it holds no table of this "
                "name, or none that this user may read"
            ) from None
    return found


def shown_url(url: str) -> str:
    """A database address without its password and without the table."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    return f"{parts.scheme.lower()}://{user.partition(':')[0]}{at}{host}{parts.path}"


def attach(backend: Any, path: str, database: str) -> tuple[str, str]:
    """Attach a DuckDB file, read only, and return where its tables are."""
    if not Path(path).is_file():
        raise DataError(f"data (duckdb://{path}) must be an existing DuckDB file")
    backend.attach(path, name="source", read_only=True)
    return ("source", database or "main")


def spark(remote: str | None = None) -> Any:
    """Connect to a Spark Connect server, to the active session, or to a local one."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtraError("a Spark table", "spark") from None
    import ibis

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
    import ibis

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
