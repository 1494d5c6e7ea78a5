"""Identifies a private source: every name of the same rows gives the same identity.

A file is identified by its resolved path and by marks that survive a move; a database table by its
server, database and name, whichever user connects. The contents of files are never read.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from marginalsyn.errors import MarginalsynError
from marginalsyn.private.databases import spark_address
from marginalsyn.private.sources import expand, file_kind

_PORTS = {"postgres": 5432}
_HERE = {"", "localhost", "127.0.0.1", "::1", "0.0.0.0"}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True)
class Identity:
    """What a name stands for.

    ``names`` are absolute paths of files (with ``?table=`` for tables in one), or one normal form
    of an address; ``marks`` are hashes of where the system keeps the files.
    """

    names: frozenset[str]
    marks: frozenset[str] = frozenset()

    def meets(self, names: set[str], marks: set[str]) -> bool:
        """Whether it shares rows with one of these names or marks."""
        if self.names & names or self.marks & marks:
            return True
        return any(_same(mine, theirs) for mine in self.names for theirs in names)


def identity(source: str | Path, tables: Iterable[str] = ()) -> Identity:
    """The identity of a path, folder, glob, address or bundled table.

    Args:
        source: as users name it. A folder stands for all files of tables in it.
        tables: those that are meant, where it is the address of a database, or files in folders of
            a folder.

    Example:
        >>> one = identity("postgres://me:secret@127.0.0.1/db?table=t")
        >>> one == identity("postgresql://you@LOCALHOST:5432/db?table=public.t")
        True
        >>> sorted(one.names)
        ['postgres://localhost:5432/db?table=public.t']
    """
    text = str(source)
    if _URL.match(text) and (every := list(tables)):
        joint = "&" if "?" in text else "?"
        found = [identity(text), *(identity(f"{text}{joint}table={table}") for table in every)]
        return Identity(
            frozenset().union(*(one.names for one in found)),
            frozenset().union(*(one.marks for one in found)),
        )
    if text.startswith("dataset:"):
        return Identity(frozenset({text}))
    address = _URL.match(text)
    if address is None:
        return _files(text, tables=tables)
    scheme = address[1].lower()
    parts = urlsplit(text)
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    if scheme == "file":
        return _files(unquote(parts.path))
    if scheme == "duckdb":
        table = query.get("table", "").casefold()
        table = table if "." in table else f"main.{table}"
        return _files(unquote(parts.netloc + parts.path), f"?table={table}")
    if scheme in ("spark", "sc"):
        server, own, _ = spark_address(parts.netloc, parts.path)
        table = (query.get("table") or own).casefold()
        table = table if "." in table else f"default.{table}"
        host, port = _split_port(server.casefold())
        host = "localhost" if host in _HERE else host.rstrip(".")
        return Identity(
            frozenset({f"spark://{host}:{port}/{table}" if port else f"spark://{table}"})
        )
    return Identity(frozenset({_server(scheme, text, query)}))


def same_source(first: str | Path, second: str | Path) -> bool:
    """Whether two names share any rows."""
    other = identity(second)
    return identity(first).meets(set(other.names), set(other.marks))


def _server(scheme: str, text: str, query: dict[str, str]) -> str:
    """A table in a server, without who asks for it and how."""
    parts = urlsplit(text)
    scheme = "postgres" if scheme.startswith("postgres") else scheme
    # Not parts.hostname, which takes a password with an @ for a part of the host.
    user, _, place = parts.netloc.rpartition("@")
    host, port = _split_port(place)
    host = (query.get("host") or host).casefold().rstrip(".")
    host = "localhost" if host in _HERE or host.startswith("/") else host
    port = query.get("port") or port or str(_PORTS.get(scheme, ""))
    database, _, folder = unquote(parts.path).strip("/").partition("/")
    if scheme == "postgres":
        database = query.get("dbname") or database or user.partition(":")[0]
        folder = folder or "public"
    table = query.get("table", "")
    if folder and "." not in table:
        table = f"{folder}.{table}"
    return f"{scheme}://{host}{':' + port if port else ''}/{database}?table={table}"


def _split_port(place: str) -> tuple[str, str]:
    if place.startswith("["):
        host, _, rest = place[1:].partition("]")
        return host, rest.lstrip(":")
    host, _, port = place.partition(":")
    return host, port


def _files(text: str, suffix: str = "", tables: Iterable[str] = ()) -> Identity:
    """The files that a path, a folder or a glob stands for now; the path where there are none."""
    try:
        paths = [Path(text)] if suffix else expand(text)
    except MarginalsynError:
        paths = [Path(text)]
    folder = Path(text).expanduser()
    if not suffix and folder.is_dir():
        # Linked tables, each in a file of its own: whoever takes one of them shares their ledger.
        every = [*sorted(folder.iterdir()), *(folder / name for name in tables)]
        paths = [folder, *(path for path in every if _of_table(path))]
    resolved = [path.expanduser().resolve() for path in paths]
    marks = {mark for path in resolved for mark in _marks(path, suffix)}
    return Identity(frozenset(f"{path}{suffix}" for path in resolved), frozenset(marks))


def _of_table(path: Path) -> bool:
    """Whether a file can hold the rows of a table, by its name."""
    try:
        return path.is_file() and bool(file_kind(path))
    except MarginalsynError:
        return False


def _marks(path: Path, suffix: str) -> Iterator[str]:
    """A hash of where the system keeps a file as it is now, which a new name does not change.

    Not of its place alone: the place of a file that was deleted is given to another.
    """
    try:
        found = path.stat()
    except OSError:
        return
    if found.st_ino:
        text = f"{found.st_dev} {found.st_ino} {found.st_mtime_ns} {found.st_size}{suffix}"
        yield hashlib.sha256(text.encode()).hexdigest()


def _same(mine: str, theirs: str) -> bool:
    """Whether two paths are one file: a hard link, or a file system that ignores case."""
    first, _, table = mine.partition("?table=")
    second, _, other = theirs.partition("?table=")
    if table != other or not (os.path.isabs(first) and os.path.isabs(second)):
        return False
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False
