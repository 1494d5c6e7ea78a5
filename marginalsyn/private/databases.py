"""Database addresses: ``postgres://user@host/db?table=t``, ``spark://table`` and their like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from marginalsyn.errors import DataError, MarginalsynError, MissingExtraError, UsageError
from marginalsyn.table import first_line, private_engine

if TYPE_CHECKING:
    import ibis

SCHEMES = ("duckdb", "postgres", "postgresql", "spark", "bigquery", "snowflake")


def open_url(url: str, table: str | None) -> tuple[str, ibis.Table]:
    """Return a name without the password, and the table. Only the catalogue is read."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    table = table or query.pop("table", None)
    address = f"{scheme}://{parts.netloc}{parts.path}" + ("?" + urlencode(query) if query else "")
    user, at, host = parts.netloc.rpartition("@")
    name = f"{scheme}://{user.partition(':')[0]}{at}{host}{parts.path}"
    if scheme not in SCHEMES:
        raise UsageError(
            f"data ({name}) must be a file or start with one of "
            f"{', '.join(one + '://' for one in SCHEMES)}"
        )
    if scheme == "spark":
        table = table or (parts.netloc + parts.path).strip("/").replace("/", ".")
    if not table:
        raise UsageError(f"data ({name}) must name a table: add ?table=NAME")
    folder, _, short = table.rpartition(".")
    database: str | tuple[str, str] | None = folder or None
    try:
        if scheme == "duckdb":
            backend: Any = private_engine()
            database = attach(backend, parts.netloc + parts.path, folder)
        elif scheme == "spark":
            backend = spark()
        else:
            backend = connect(scheme, address)
        found = backend.table(short, database=database)
    except MarginalsynError:
        raise
    except Exception as error:
        # No row has been asked for yet, so the engine's words speak of the catalogue only.
        reason = first_line(error)
        if parts.password:
            reason = reason.replace(parts.password, "***")
        raise DataError(f"table ({table}) of {name} must be reachable: {reason}") from None
    shown = f"spark://{table}" if scheme == "spark" else f"{name}?table={table}"
    return shown, found


def attach(backend: Any, path: str, database: str) -> tuple[str, str]:
    """Attach a DuckDB file, read only, and return where its tables are."""
    if not Path(path).is_file():
        raise DataError(f"data (duckdb://{path}) must be an existing DuckDB file")
    backend.attach(path, name="source", read_only=True)
    return ("source", database or "main")


def spark() -> Any:
    """Connect to the active Spark session, or to a local one."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtraError("a Spark table", "spark") from None
    import ibis

    return ibis.pyspark.connect(SparkSession.builder.getOrCreate())


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
