"""Identifies a private source: every name of the same rows gives the same identity.

A file is identified by its resolved path and by marks that survive a move; a table by what its
database calls it, whoever asks and by whatever address. Contents are never read.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import socket
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, replace
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from marginalsyn.errors import MarginalsynError
from marginalsyn.sources.databases import ASKED, Address, ask, parse_address
from marginalsyn.sources.relations import NotOneTableError, Rows
from marginalsyn.sources.source import expand, file_kind, place_of_table

_PORTS = {"postgres": "5432"}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True)
class Identity:
    """What a name stands for.

    Attributes:
        names: absolute paths of files (with ``?table=`` for tables in one), or one normal form of
            an address.
        marks: hashes of where the system keeps the files, or of what a database calls a table.
        within: names and marks of what it is a part of, or was known by: they are searched for, and
            not recorded.
        earlier: names under which a version that asked no database may have recorded it, or
            another table: they count only where nothing else is known.
        unasked: why a database was not asked, where it should have been.
    """

    names: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()
    within: frozenset[str] = frozenset()
    earlier: frozenset[str] = frozenset()
    unasked: str = ""

    def meets(
        self,
        names: AbstractSet[str],
        marks: AbstractSet[str],
        unasked: AbstractSet[str] = frozenset(),
    ) -> bool:
        """Whether it shares rows with one of these names or marks.

        ``unasked`` are those of the names that were recorded without asking a database.
        """
        mine = self.names | self.within, self.marks | self.within
        if mine[0] & names or mine[1] & marks or self.earlier & unasked:
            return True
        return any(_same(mine, theirs) for mine in self.names for theirs in names)

    def __or__(self, other: Identity) -> Identity:
        joint = {f.name: getattr(self, f.name) | getattr(other, f.name) for f in fields(self)[:-1]}
        return Identity(**joint, unasked=self.unasked or other.unasked)


def identity(source: str | Path, tables: Iterable[str] = (), *, start: bool = False) -> Identity:
    """The identity of a path, folder, glob, address or bundled table; a database is asked.

    Where the database does not answer, it is that of the name alone, and says why.

    Args:
        source: as users name it. A folder stands for all files of tables in it.
        tables: those that are meant, where it is the address of a database, or files in folders of
            a folder.
        start: start Spark, or connect to it, to ask it.

    Raises:
        NotOneTableError: a view whose rows are not those of one table.
    """
    text, tables = str(source), list(tables)
    found = name_of(text, tables)
    if not _URL.match(text) or urlsplit(text).scheme.lower() not in ASKED:
        return found
    try:
        address = parse_address(text)
        wanted = tables or [address.table]
        if not all(wanted):
            return found
        rows = ask(address, wanted, start=start)
    except NotOneTableError:
        raise
    except MarginalsynError as error:
        return replace(found, unasked=str(error))
    # That of the whole database is known to those who name no table.
    known = name_of(text) if tables else Identity()
    for table, one in zip(wanted, rows, strict=True):
        single = name_of(text, [table])
        if one is None:
            known |= replace(single, unasked=f"table ({table}) must be there to be asked for")
        else:
            known |= _asked(address, one, single)
    return known


def same_source(first: str | Path, second: str | Path) -> bool:
    """Whether two names share any rows."""
    found = []
    for name in (first, second):
        try:
            found.append(identity(name))
        except NotOneTableError:
            found.append(name_of(name))
    return found[0].meets(found[1].names, found[1].marks | found[1].within)


def name_of(source: str | Path, tables: Iterable[str] = ()) -> Identity:
    """The identity that a name has by itself, where nobody is asked.

    Example:
        >>> one = name_of("postgres://me:secret@127.0.0.1/db?table=t")
        >>> one.names == name_of("postgresql://you@LOCALHOST:5432/db?table=public.t").names
        True
        >>> sorted(one.names)
        ['postgres://localhost:5432/db?table=public.t']
    """
    text, every = str(source), list(tables)
    address = _URL.match(text)
    if text.startswith("dataset:"):
        return Identity(frozenset({text}))
    if address is None:
        return _files(text, tables=every)
    scheme, parts = address[1].lower(), urlsplit(text)
    if scheme == "file":
        return _files(unquote(parts.path))
    found = Identity()
    named = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    for query in [named, *({**named, "table": table} for table in every)]:
        if scheme == "duckdb":
            table = query.get("table", "").casefold()
            found |= _in_file(parse_address(text).path, table)
            # Older versions read more into a path than the engine does.
            misread = _in_file(unquote(parts.netloc + parts.path), table)
            found |= Identity(earlier=misread.names - found.names)
        elif scheme in ("spark", "sc"):
            found |= _in_spark(parse_address(text), query.get("table", ""))
        else:
            found |= _in_server(scheme, text, query)
    return found


def _asked(address: Address, rows: Rows, typed: Identity) -> Identity:
    """The identity of the rows that a database found under a name."""
    marks, within = (frozenset(map(_hash, keys)) for keys in (rows.keys, rows.within))
    found = Identity(marks=marks, within=within, earlier=typed.names | typed.earlier)
    for table in rows.tables:
        if address.scheme == "duckdb":
            # No search path leads elsewhere: what was spent on a view of this name was on this one.
            found |= Identity(within=typed.names | typed.marks)
            found |= _in_file(address.path, table.casefold())
        elif address.remote is not None or address.scheme == "spark":
            found |= _in_spark(address, table)
        else:
            found |= _in_postgres(rows.server, table)
    for place in rows.files:
        scheme, _, path = place.partition(":")
        if scheme != "file":
            found |= Identity(frozenset({place.rstrip("/")}))
            continue
        # The folders of partitions may be tables of their own.
        folder = Path("/" + path.lstrip("/")).resolve()
        found |= Identity(within=frozenset(map(str, folder.parents)))
        for each in (folder, *(one for one in folder.rglob("*") if one.is_dir())):
            found |= _files(str(each))
    return found


def _in_postgres(server: tuple[str, ...], table: str) -> Identity:
    """A table of the server that a connection has reached, under all names of its host."""
    port, database, *hosts = server
    first = _host(hosts[0])
    names = [
        f"postgres://{host.casefold()}:{port}/{database}?table={table}"
        for host in (first, *hosts, *([_machine()] if first == "localhost" else []))
    ]
    return Identity(frozenset(names[:1]), earlier=frozenset(names[1:]))


def _in_file(path: str, table: str) -> Identity:
    """A table in a DuckDB file."""
    table = table if "." in table else f"main.{table}"
    return _files(str(Path(path).expanduser()), f"?table={table}")


def _in_spark(address: Address, table: str) -> Identity:
    """A table that Spark knows."""
    server = address.shown.partition("://")[2]
    full = (table or address.table).replace("`", "").casefold()
    full = full if "." in full else f"default.{full}"
    names = []
    for name in (full.removeprefix("spark_catalog."), full):
        host, port = _split_port(server.casefold())
        names.append(f"spark://{_host(host)}:{port}/{name}" if port else f"spark://{name}")
    return Identity(frozenset(names[:1]), earlier=frozenset(names[1:]) - {names[0]})


def _in_server(scheme: str, text: str, query: dict[str, str]) -> Identity:
    """A table in a server, without who asks for it and how."""
    parts = urlsplit(text)
    scheme = "postgres" if scheme.startswith("postgres") else scheme
    # Not parts.hostname, which takes a password with an @ for a part of the host.
    user, _, place = parts.netloc.rpartition("@")
    host, port = _split_port(place)
    host = query.get("host") or host
    port = query.get("port") or port or _PORTS.get(scheme, "")
    database, _, folder = unquote(parts.path).strip("/").partition("/")
    if scheme == "postgres":
        database = query.get("dbname") or database or user.partition(":")[0]
        folder = folder or "public"
    table = query.get("table", "")
    if folder and "." not in table:
        table = f"{folder}.{table}"
    rest = f"{':' + port if port else ''}/{database}?table={table}"
    names = [f"{scheme}://{one}{rest}" for one in (_host(host), host.casefold().rstrip("."))]
    return Identity(frozenset(names[:1]), earlier=frozenset(names[1:]) - {names[0]})


def _host(name: str) -> str:
    """A host's name in one form: this machine is ``localhost``."""
    name = name.casefold().rstrip(".")
    try:
        found = ipaddress.ip_address(name)
    except ValueError:
        here = not name or name.startswith("/") or name in ("localhost", _machine())
        return "localhost" if here else name
    return "localhost" if found.is_loopback or found.is_unspecified else str(found)


def _machine() -> str:
    return socket.gethostname().casefold()


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
        paths = [Path(text).expanduser()]
    folder = Path(text).expanduser()
    if not suffix and folder.is_dir():
        # Linked tables, each in a file of its own: whoever takes one of them shares their ledger.
        every = [*sorted(folder.iterdir()), *(place_of_table(folder, name) for name in tables)]
        paths = [folder, *(path for path in every if path is not None and _of_table(path))]
    resolved = [path.resolve() for path in paths]
    # Of a file that was deleted and is still open, its name in /proc leads to it, and no other.
    marks = {mark for path in paths for mark in _marks(path, suffix)}
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
        yield _hash(f"{found.st_dev} {found.st_ino} {found.st_mtime_ns} {found.st_size}{suffix}")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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
