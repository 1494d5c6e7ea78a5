"""The engine that reads rows: a DuckDB of our own in this process, or the database they are in."""

from __future__ import annotations

import atexit
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.datatypes as dt

from marginalsyn.errors import DataError

# DuckDB spills to a temporary folder beyond this; it leaves room for Python under 1.5 GiB.
MEMORY_LIMIT = "640MB"
# Every thread of a scan holds buffers that cannot be spilled.
MOST_THREADS = 8
# Modules whose exceptions may quote rows: their text is never passed on.
ENGINES = {"duckdb", "_duckdb", "psycopg", "pyspark", "py4j", "pyarrow", "google", "snowflake"}
LINE = re.compile(r"CSV Error on Line: (\d+)")
LONG_LINE = re.compile(r"Maximum line size of \d+ bytes exceeded")
FILE = re.compile(r"^\s*file = (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Connection:
    """A table that can be queried, and the engine that does it."""

    backend: Any
    table: ibis.Table

    @property
    def embedded(self) -> bool:
        """Whether it runs in this process, and keeps the order of rows."""
        return bool(self.backend.name == "duckdb")


def private_engine() -> Any:
    """A connection to this process's DuckDB: no other one sees its tables, which go with it."""
    return ibis.duckdb.from_connection(cursor())


def cursor() -> Any:
    """The same without Ibis, to be closed after a query."""
    return _engine_of(os.getpid()).con.cursor()


def new_engine() -> Any:
    """Return an in-memory DuckDB of our own; what does not fit goes to a private folder."""
    backend = ibis.duckdb.connect(
        memory_limit=MEMORY_LIMIT,
        temp_directory=str(private_folder()),
        threads=min(os.cpu_count() or 1, MOST_THREADS),
        autoinstall_known_extensions=False,
        # It turns IN into a hash join, which does not keep the order of rows.
        disabled_optimizers="in_clause",
    )
    backend.con.execute("SET GLOBAL TimeZone = 'UTC'")
    return backend


@cache
def _engine_of(process: int) -> Any:
    """A forked process has an engine of its own, and keeps its parent's, which it cannot close."""
    return new_engine()


def engine_of(table: ibis.Expr) -> str | None:
    """The engine that a table or value is in; None for a query that is written and not run."""
    try:
        return str(table.get_backend().name)
    except ibis.IbisError:
        return None


def call(name: str, kind: Any, *values: Any) -> Any:
    """A function of an engine's own, which Ibis does not have, of one value or of two."""
    kinds = [one.type() if isinstance(one, ibis.Expr) else dt.infer(one) for one in values]
    stub = (lambda _: ..., lambda _, other: ...)[len(values) - 1]
    return ibis.udf.scalar.builtin(stub, name=name, signature=((*kinds,), kind))(*values)


@contextmanager
def batches_of(backend: Any, table: ibis.Table | str, size: int) -> Iterator[Any]:
    """The rows of a query, or of its text, as an iterator of Arrow batches of about ``size`` rows.

    A stream that is left early waits for DuckDB's threads, which may wait for Python's lock to let
    go of a frame: it must be closed, which gives the lock away, and not be left to a destructor,
    which holds it.
    """
    if backend.name != "duckdb":
        yield backend.to_pyarrow_batches(table, chunk_size=size)
        return
    query = table if isinstance(table, str) else backend.compile(table)
    reader = backend.raw_sql(query).fetch_record_batch(size)
    try:
        yield reader
    finally:
        reader.close()


def store(backend: Any, table: ibis.Table) -> ibis.Table:
    """A table's rows, computed once into a table of our own DuckDB, which may spill to disk."""
    name = f"kept_{secrets.token_hex(8)}"
    backend.create_table(name, table, temp=True)
    return backend.table(name, database=("temp", "main"))


def drop(backend: Any, stored: ibis.Table) -> None:
    """Drop a table that :func:`store` made."""
    # Ibis 12 writes a DROP TABLE that DuckDB does not parse with sqlglot 30.
    backend.con.execute(f"DROP TABLE {stored.get_name()}")


@contextmanager
def kept(backend: Any, table: ibis.Table) -> Iterator[ibis.Table]:
    """A table's rows in a table that :func:`store` makes, for a while."""
    stored = store(backend, table)
    try:
        yield stored
    finally:
        drop(backend, stored)


def private_folder() -> Path:
    """A new folder for copies of private rows, which goes when the process ends."""
    return Path(tempfile.mkdtemp(dir=_spill_folder(os.getpid())))


@cache
def _spill_folder(process: int) -> str:
    """A folder that only its owner may read, removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="marginalsyn-")
    atexit.register(shutil.rmtree, folder, True)
    return folder


@contextmanager
def engine_errors(name: str, *, text: bool = False) -> Iterator[None]:
    """Turn an engine's exception into a DataError that repeats nothing a row holds, or Ctrl-C."""
    try:
        yield
    except MemoryError:
        raise DataError(f"data ({name}) must fit: memory ran out; select fewer columns") from None
    except Exception as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        if type(error).__module__.partition(".")[0] not in ENGINES:
            raise
        if type(error).__name__ == "OutOfMemoryException":
            raise DataError(
                f"data ({name}) must fit: memory or the temporary folder ran full; free disk "
                "space, or point TMPDIR to a larger disk"
            ) from None
        if text or "CSV" in str(error):
            raise DataError(_text_problem(name, str(error))) from None
        raise DataError(
            f"data ({name}) must be readable by its engine, which failed; its message is withheld "
            "because it may quote rows"
        ) from None


def first_line(error: BaseException) -> str:
    """The first line of an exception's text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def not_utf8(where: str) -> str:
    return (
        f"data ({where}) must be UTF-8 text; convert it, for example with "
        "`iconv -f LATIN1 -t UTF-8`"
    )


def _text_problem(name: str, message: str) -> str:
    """Say what is wrong with a CSV file, and where, without quoting it."""
    # Only the last match is the engine's own, which quotes the line first; nobody knows our copies.
    files, line = FILE.findall(message)[-1:], LINE.search(message)
    known = (file for file in files if not file.startswith(_spill_folder(os.getpid())))
    where = next(known, name) + (f", line {line[1]}" if line else "")
    lower = message.lower()
    if "not utf-8" in lower or "unicode" in lower:
        return not_utf8(where)
    if "Expected Number of Columns" in message:
        return (
            f"data ({where}) must have as many fields as the header: quote fields that hold the "
            "separator, write an empty field for a missing value, delete lines above the header"
        )
    if LONG_LINE.search(message):
        return (
            f"data ({where}) must have no line beyond 2 MB: shorten the field that is so long, or "
            "close the quoted field that begins there"
        )
    if "quote" in lower.split("possible fixes")[0]:
        return f'data ({where}) must close every quoted field; write a quote inside one as ""'
    if "gzip" in lower:
        return f"data ({where}) must be a whole gzip file, as its name says"
    return (
        f"data ({where}) must be a regular CSV file: one kind of line ending, fields quoted with "
        '", no line beyond 2 MB'
    )
