"""The curator's workspace, ``.marginalsyn/`` in the current folder: never part of a release.

It remembers what the last release was made from, so that the next command needs no arguments. The
ledgers lie elsewhere: see :mod:`marginalsyn.access.ledgers`.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from marginalsyn import defaults
from marginalsyn.errors import UsageError
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.records.ledger_file import write_bytes
from marginalsyn.validation import check_address

if TYPE_CHECKING:
    from marginalsyn.people.tree import LinkedSchema
    from marginalsyn.table.schema import Schema

FOLDER = ".marginalsyn"


class WorkspaceError(UsageError):
    """The workspace cannot be written."""


class Kept(BaseModel):
    """Which rows were held out of one release."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    holdout: float = 0.0
    holdout_salt: str = ""
    neighbours: Neighbours = Neighbours.ADD_REMOVE


class Memory(Kept):
    """What is remembered of one source: the last release from it and how to read it again."""

    source: str
    schema_file: str | None = None
    label: str | None = None
    sep: str | None = None
    release: str | None = None
    kept: dict[str, Kept] = {}
    ledgers: dict[str, str] = {}


class _Memories(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    last: str | None = None
    sources: dict[str, Memory] = {}


def identify(source: str | Path) -> str:
    """Name a source so that the same source always has the same name, and no password is in it.

    A path or glob becomes absolute, links resolved; a URL loses its password; a bundled table is
    ``dataset:NAME`` already. The same rows under two names (a copy, say) are two sources.

    Example:
        >>> identify("postgres://me:secret@host/db?table=t")
        'postgres://me@host/db?table=t'
    """
    text = str(source)
    if text.startswith("dataset:"):
        return text
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text):
        check_address(text)
        parts = urlsplit(text)
        user, _, host = parts.netloc.rpartition("@")
        user = user.partition(":")[0]
        kept = [
            (key, value) for key, value in parse_qsl(parts.query) if "password" not in key.lower()
        ]
        netloc = f"{user}@{host}" if user else host
        # Spark Connect has its token among the options behind a semicolon.
        path = parts.path.partition(";")[0]
        # Not urlunsplit, which takes the slashes from an address without a host.
        query = f"?{urlencode(kept)}" if kept else ""
        tail = f"#{parts.fragment}" if parts.fragment else ""
        return f"{parts.scheme}://{netloc}{path}{query}{tail}"
    return str(Path(text).expanduser().resolve())


class Workspace:
    """The folder ``.marginalsyn/`` and what it remembers. Nothing is written until needed.

    Attributes:
        folder: the workspace's path.

    Example:
        >>> space = Workspace.here()
        >>> print(space.read_last().get("release"))
        None
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def here(cls, folder: str | Path | None = None) -> Self:
        """The workspace of a folder; of the current one when none is given."""
        return cls(Path(folder or Path.cwd()).resolve() / FOLDER)

    def read_last(self) -> dict[str, Any]:
        """What the last release was made from: the fields of :class:`Memory`; empty at first."""
        memories = self._read()
        return memories.sources[memories.last].model_dump(mode="json") if memories.last else {}

    def recall(self, source: str | Path) -> Memory | None:
        """What is remembered of one source."""
        return self._read().sources.get(identify(source))

    def of_rows(self, rows: str) -> tuple[Memory, Kept] | None:
        """The source of a release, by the hash of its rows, and what was held out of it.

        A release keeps this hash when it is moved, renamed or given weights.
        """
        for memory in self._read().sources.values():
            if rows in memory.kept:
                return memory, memory.kept[rows]
        return None

    def ledger_of(self, rows: str) -> str | None:
        """The ledger that was charged for a release, by the hash of its rows, if that is known."""
        found = (memory.ledgers.get(rows) for memory in self._read().sources.values())
        return next((ledger for ledger in found if ledger), None)

    def make(self, name: str) -> Path:
        """A folder of this name in the workspace; it is there when this returns."""
        with self._changing():
            folder = self.folder / name
            folder.mkdir(mode=0o700, exist_ok=True)
            return folder

    def holdout_salt(self, source: str | Path, *, seed: int | None = None) -> str:
        """The salt that picks a source's held-out rows: the remembered one, or a fresh one.

        It stays the same from release to release, so that no row is held out of one and used in
        the next. It is remembered at once, since a run that is charged and given up has used it.
        A seeded run has a salt of its own, the same everywhere.
        """
        if seed is not None:
            return f"{defaults.SPLIT_RULE}seed {seed}"
        salt = self._known_salt(source) or secrets.token_hex(16)
        # Where nothing can be remembered, the salt is in no later release either.
        with suppress(WorkspaceError), self._changing():
            salt = self._known_salt(source) or salt
            memories, name = self._read(), identify(source)
            known = memories.sources.get(name) or Memory(source=name)
            # Persons stay where an earlier version put them: of their salts this start is no part.
            salt = defaults.SPLIT_RULE + salt.removeprefix(defaults.SPLIT_RULE)
            memories.sources[name] = known.model_copy(update={"holdout_salt": salt})
            self._write(memories)
        return defaults.SPLIT_RULE + salt.removeprefix(defaults.SPLIT_RULE)

    def remember(
        self,
        source: str | Path,
        *,
        schema: Schema | LinkedSchema | None = None,
        label: str | None = None,
        sep: str | None = None,
        holdout: float = 0.0,
        holdout_salt: str = "",
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        release: str | Path | None = None,
        rows: str = "",
        ledger: str | Path | None = None,
    ) -> Memory:
        """Remember what a release was made from, as the last one.

        Args:
            source: as it was given; see :func:`identify`.
            schema: kept as a copy, which :meth:`read_last` names as ``schema_file``.
            label: the label column that was asked for.
            sep: the separator of a CSV source, if it was given.
            holdout: the share of rows that was held out.
            holdout_salt: what picked them; without one, an earlier one is kept.
            neighbours: the relation of the release, which also decides how rows are held out.
            release: the release folder.
            rows: the hash of its rows, by which its held-out rows are found again.
            ledger: the file that was charged for it.
        """
        name = identify(source)
        with self._changing():
            schema_file = None
            if schema is not None:
                folder = self.folder / "schemas"
                folder.mkdir(exist_ok=True)
                schema_file = folder / f"{slug(name, name, 8)}.json"
                write_bytes(schema_file, schema.to_json().encode())
            known = self.recall(source) or Memory(source=name)
            salt = holdout_salt or known.holdout_salt
            own = Kept(holdout=holdout, holdout_salt=salt, neighbours=neighbours)
            kept, ledgers = dict(known.kept), dict(known.ledgers)
            if rows:
                kept[rows] = own
            if rows and ledger is not None:
                ledgers[rows] = str(Path(ledger).resolve())
            memory = Memory(
                source=name,
                schema_file=str(schema_file) if schema_file else None,
                label=label,
                sep=sep,
                release=str(Path(release).resolve()) if release is not None else None,
                kept=kept,
                ledgers=ledgers,
                **own.model_dump(),
            )
            memories = self._read()
            memories.sources[name] = memory
            memories.last = name
            self._write(memories)
        return memory

    def _known_salt(self, source: str | Path) -> str:
        known = self.recall(source)
        return known.holdout_salt if known else ""

    def _write(self, memories: _Memories) -> None:
        write_bytes(self._file, memories.model_dump_json(indent=2).encode() + b"\n")

    @property
    def _file(self) -> Path:
        return self.folder / "workspace.json"

    def _read(self) -> _Memories:
        try:
            memories = _Memories.model_validate_json(self._file.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return _Memories()
        except (ValidationError, UnicodeDecodeError, OSError):
            raise UsageError(
                f"workspace ({self._file}) must be readable as marginalsyn wrote it; delete that "
                "file and name the source with --data (ledgers are elsewhere, and stay)"
            ) from None
        if memories.last not in memories.sources:
            memories.last = None
        return memories

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Make the folder if need be, and keep other processes out meanwhile."""
        if any((place / "privacy.json").exists() for place in self.folder.parents):
            raise WorkspaceError(
                f"workspace ({self.folder}) must not be in a release, which is published: it is "
                "not private. Work in another folder"
            )
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            ignore = self.folder / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
            with FileLock(self.folder / "lock"):
                yield
        except OSError as error:
            raise WorkspaceError(
                f"workspace ({self.folder}) must be writable: {error.strerror or error}; run in a "
                "folder of your own, or name the ledger with --ledger"
            ) from error


def slug(name: str, whole: str, digits: int) -> str:
    """A readable, unique file name of a source: of its name, and of a hash of all that it is."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", name.rstrip("/").rsplit("/", 1)[-1]).strip("-")
    return f"{stem[:40] or 'source'}-{hashlib.sha256(whole.encode()).hexdigest()[:digits]}"
