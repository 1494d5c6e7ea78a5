"""Sources of private rows: a frame, files or a database table, opened as an Ibis table.

Opening a source reads its layout only: names and types of columns, a CSV file's header line.
Rows are read by the table that :meth:`Source.connect` returns, which :mod:`marginalsyn.access`
asks for after the ledger holds the charge. No message repeats anything that a row holds.
"""

from __future__ import annotations

import codecs
import csv
import glob
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
from pandas.util import hash_array

from marginalsyn.errors import DataError, UsageError
from marginalsyn.sources.databases import in_plain_types, open_urls
from marginalsyn.sources.formats import (
    ARROW,
    FORMATS,
    LISTED,
    PACKED,
    copy_arrow,
    copy_texts,
    described,
    open_unpacked,
    parquet_types,
    read_parquet_schema,
    read_rows,
    split_sheet,
    whole,
)
from marginalsyn.table.arrow import arrow_table, in_pandas, objects_of
from marginalsyn.table.engine import (
    Connection,
    engine_errors,
    first_line,
    not_utf8,
    private_engine,
    private_folder,
)
from marginalsyn.table.frames import PLAIN_TEXT, TextForm
from marginalsyn.validation import like

TEXT_SUFFIXES = {".csv": ",", ".tsv": "\t"}
# Of the files in a folder that are tables: JSON may be a schema.
SUFFIXES = (
    *(".csv", ".parquet", ".csv.gz", ".csv.bz2", ".csv.zip"),
    *(".tsv", ".tsv.gz", ".tsv.bz2", ".tsv.zip"),
    *(kind for kind in FORMATS if kind not in LISTED),
)
# Python's names of the encodings that the engine reads without an extension, by its own.
ENCODINGS = {"utf-8": "utf-8-sig", "latin-1": "latin-1", "utf-16": "utf-16", "cp1252": "cp1252"}
# What spreadsheets write in Western Europe: the engine cannot read it, and is given a copy.
COPIED = "cp1252"


class Source:
    """A table of private rows whose layout is known and whose rows are not read yet."""

    name: str
    columns: tuple[str, ...]
    # Columns of lists, records, bytes or shapes, which no schema can describe: no row has them.
    nested: tuple[str, ...] = ()
    # Of a text file's bytes; None where columns have types.
    encoding: str | None = None
    # That hold the rows; none where no file does.
    _paths: Sequence[Path] = ()

    @property
    def form(self) -> TextForm:
        """How the text file is written that holds the rows; a usual one where none does."""
        return PLAIN_TEXT

    @property
    def trace(self) -> str | None:
        """What shows the curator that the rows have changed; None where nothing does.

        Of files their sizes and times, of a frame a hash of its rows: no part of a release.
        """
        return trace_of_files(self._paths) if self._paths else None

    def check_format(self) -> None:
        """Raise DataError where the source is not a table at all, such as a ragged text file."""

    def connect(self) -> Connection:
        """Open the rows. Only :mod:`marginalsyn.access` calls this."""
        with engine_errors(self.name):
            return self._connection

    def attach(self, backend: Any, name: str) -> ibis.Table:
        """The rows as a table of an engine that holds others, too; ``name`` is free in it."""
        raise TypeError(f"{type(self).__name__} must say how to attach")

    @cached_property
    def _connection(self) -> Connection:
        backend = private_engine()
        return Connection(backend, self.attach(backend, "rows_of_source"))


class FrameSource(Source):
    """A pandas frame, whose dtypes are its layout; objects are taken one by one."""

    def __init__(self, frame: pd.DataFrame, rename: bool = False) -> None:
        self.name = "DataFrame"
        self.columns = named_columns(map(str, frame.columns), self.name, rename)
        self._frame = frame

    @property
    def trace(self) -> str | None:
        return trace_of_frame(self._frame)

    def attach(self, backend: Any, name: str) -> ibis.Table:
        frame = self._frame.set_axis(list(self.columns), axis=1)
        backend.con.register(name, arrow_table(frame, self.columns))
        return backend.table(name)


class TextSource(Source):
    """One or more CSV files with the same header; every field is read as text.

    Types are never guessed: what a column is taken for must not depend on private rows.
    """

    encoding: str

    def __init__(
        self, name: str, paths: list[Path], sep: str, encoding: str = "utf-8", rename: bool = False
    ) -> None:
        self.name, self._paths, self._sep, self.encoding = name, paths, sep, encoding
        header = read_header(paths[0], sep, encoding)
        self.columns = named_columns(header, str(paths[0]), rename)
        for path in paths[1:]:
            if read_header(path, sep, encoding) != header:
                raise DataError(f"header of {path} must equal that of {paths[0]}")

    @property
    def form(self) -> TextForm:
        marked = next(_chunks(self._paths[0]), b"").startswith(codecs.BOM_UTF8)
        marked = self.encoding == "utf-16" or (self.encoding == "utf-8" and marked)
        sep = self._sep if self._sep.isascii() else PLAIN_TEXT.sep
        return TextForm(sep=sep, encoding=self.encoding, mark=marked)

    def check_format(self) -> None:
        # In a regular file quotes come in pairs; and a packed one must be whole.
        odd = [p for p in self._paths if sum(c.count(b'"') for c in _chunks(p)) % 2]
        with engine_errors(self.name, text=True):
            table = self._connection.table
            # Counting every column makes the reader split and decode every field.
            self._connection.backend.con.execute(
                f'SELECT count(COLUMNS(*)) FROM "{table.get_name()}"'
            ).fetchall()
        for path in odd:
            _check_last_quote(path, self._sep, self.encoding)

    def attach(self, backend: Any, name: str) -> ibis.Table:
        paths = [_readable(path, self.encoding) for path in self._paths]
        packed = {path.suffix.lower() == ".gz" for path in paths}
        return backend.read_csv(
            [glob.escape(str(path)) for path in paths],
            table_name=name,
            columns=dict.fromkeys(self.columns, "VARCHAR"),
            auto_detect=False,
            header=True,
            delim=self._sep,
            quote='"',
            escape='"',
            nullstr="",
            strict_mode=True,
            # Several readers each guess whether their part begins inside a quoted field.
            parallel=False,
            compression="auto" if len(packed) > 1 else "gzip" if True in packed else "none",
            encoding="utf-8" if self.encoding == COPIED else self.encoding,
        )


def _chunks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked, in parts that fit into memory."""
    with whole(path), open_unpacked(path, "rb") as handle:
        while chunk := handle.read(2**20):
            yield chunk


def _readable(path: Path, encoding: str) -> Path:
    """The file, or a copy that the engine can read, for its owner alone, until the process ends."""
    # Of cp1252 every byte is one character; the five that mean nothing become U+FFFD.
    if encoding != COPIED and path.suffix.lower() not in (".bz2", ".zip"):
        return path
    copy = private_folder() / "rows"
    with copy.open("wb") as written:
        for chunk in _chunks(path):
            written.write(chunk.decode(COPIED, "replace").encode() if encoding == COPIED else chunk)
    return copy


def _check_last_quote(path: Path, sep: str, encoding: str) -> None:
    """Refuse a file whose last quoted field never ends: a single reader takes it as it stands."""
    line = 0
    with open_unpacked(
        path, "rt", encoding=ENCODINGS[encoding], errors="replace", newline=""
    ) as text:
        fields = csv.reader(text, delimiter=sep, strict=True)
        usual = csv.field_size_limit(2**31 - 1)
        try:
            for _ in fields:
                line = fields.line_num
        except csv.Error as error:
            if "unexpected end of data" in str(error):
                raise DataError(
                    f"data ({path}, line {line + 1}) must close every quoted field; write a quote "
                    'inside one as ""'
                ) from None
        finally:
            csv.field_size_limit(usual)


class ParquetSource(Source):
    """One or more Parquet files whose columns have the same names and types, in any order.

    Files of other types are refused: an engine would bring a column to one type for all of them,
    and with it one file's rows would change how another's are read.
    """

    def __init__(self, name: str, paths: list[Path]) -> None:
        self.name, self._paths = name, paths
        names = read_parquet_schema(paths[0]).to_arrow_schema().names
        self.columns = named_columns(names, str(paths[0]))
        types = parquet_types(paths[0])
        self._readings = described(paths[0])
        self.nested = tuple(name for name in self.columns if name not in self._readings)
        for path in paths[1:]:
            others = parquet_types(path)
            if sorted(others) != sorted(types):
                raise DataError(f"columns of {path} must be those of {paths[0]}")
            for column, kind in others.items():
                if kind != types[column]:
                    raise DataError(
                        f"column {column!r} of {path} ({kind}) must have the type that it has in "
                        f"{paths[0]} ({types[column]}): write all files with one schema"
                    )

    def attach(self, backend: Any, name: str) -> ibis.Table:
        read_rows(backend, name, self._paths, self._readings)
        return backend.table(name)


class ConvertedSource(Source):
    """A file of another program, read through a copy that is made when its rows are asked for."""

    def __init__(self, path: Path, sheet: str | None, rename: bool = False) -> None:
        self.name, self._paths, self._sheet, self._rename = str(path), [path], sheet, rename
        self._kind = file_kind(path)
        self.columns = named_columns(FORMATS[self._kind](path, sheet)[0], self.name, rename)
        if self._kind not in ARROW:
            self.encoding = "utf-8"

    @cached_property
    def _copy(self) -> Source:
        copy, path = private_folder() / "rows", self._paths[0]
        if self._kind in ARROW:
            copy_arrow(path, copy)
            return ParquetSource(self.name, [copy])
        copy_texts(FORMATS[self._kind](path, self._sheet), copy)
        return TextSource(self.name, [copy], ",", rename=self._rename)

    @property
    def form(self) -> TextForm:
        # Where text has no mark, a spreadsheet takes it for what its own country wrote once.
        return TextForm(mark=self._paths[0].suffix.lower() in (".xlsx", ".xlsm"))

    @property
    def nested(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._copy.nested

    def check_format(self) -> None:
        self._copy.check_format()

    def attach(self, backend: Any, name: str) -> ibis.Table:
        return self._copy.attach(backend, name)


class TableSource(Source):
    """A table of an Ibis backend; all but DuckDB count where they are."""

    def __init__(self, name: str, table: ibis.Table) -> None:
        self.name = name
        schema = table.schema()
        self.columns = named_columns(schema.names, name)
        self.nested = tuple(
            n for n, t in schema.items() if t.is_nested() or t.is_binary() or t.is_geospatial()
        )
        try:
            self._backend = table.get_backend()
        except Exception as error:
            raise UsageError(
                f"data (Ibis table) must be bound to one backend: {first_line(error)}"
            ) from None
        self._table = table.drop(*self.nested) if set(self.columns) > set(self.nested) else table
        if self._backend.name == "postgres":
            self._table, refused = in_plain_types(self._backend, self._table, name)
            self.nested += refused

    def attach(self, backend: Any, name: str) -> ibis.Table:
        """The table where it lies: another engine cannot hold it."""
        del backend, name
        return self._table

    @cached_property
    def _connection(self) -> Connection:
        return Connection(self._backend, self._table)


def open_source(
    data: Any,
    *,
    table: str | None = None,
    sep: str | None = None,
    encoding: str | None = None,
    rename_duplicates: bool = False,
) -> Source:
    """Open a frame, a path, a glob, a database address or an Ibis table. No row is read.

    A frame of polars, pyarrow or another library that speaks Arrow serves as one of pandas does.

    Args:
        data: what holds the rows; a source that is open already stays as it is.
        table: the table of a database address, in place of its ``?table=``.
        sep: the separator of a CSV file; by default a comma, a tab for ``.tsv``, or what else the
            header line shows.
        encoding: of a text file: "utf-8" (the default), "latin-1", "cp1252" or "utf-16".
        rename_duplicates: whether the second column ``a`` of a frame or file becomes ``a_2``.

    Raises:
        UsageError: where ``data`` cannot be taken as given.
        DataError: where it is not there or not a table.

    Example:
        >>> import pandas as pd
        >>> open_source(pd.DataFrame({"age": [31, 27]})).columns
        ('age',)
    """
    if isinstance(data, Source):
        return data
    if sep is not None and (not isinstance(sep, str) or len(sep) != 1 or sep in '"\r\n'):
        raise UsageError(f"sep ({sep!r}) must be one character, such as ',' or ';'")
    if encoding is not None and encoding not in ENCODINGS:
        raise UsageError(f"encoding ({encoding!r}) must be one of {', '.join(ENCODINGS)}")
    if isinstance(frame := in_pandas(data), pd.DataFrame):
        return FrameSource(frame, rename_duplicates)
    if isinstance(data, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", data):
        return TableSource(*open_urls(data, [table])[0])
    if isinstance(data, str | Path):
        return open_files(str(data), sep, encoding or "utf-8", rename_duplicates)
    if isinstance(data, ibis.Table):
        return TableSource("Ibis table", data)
    raise UsageError(
        f"data ({type(data).__name__}) must be a DataFrame, a path, a database address "
        "or an Ibis table"
    )


def open_files(
    name: str, sep: str | None = None, encoding: str = "utf-8", rename: bool = False
) -> Source:
    """Open CSV or Parquet files by a path, a folder of Parquet files, or a glob; or another file.

    A sheet of a workbook is named as ``book.xlsx?table=Patients``.
    """
    paths = expand(name)
    kinds = {file_kind(path) for path in paths}
    if len(kinds) > 1 or (kinds & {*FORMATS} and len(paths) > 1):
        raise DataError(f"files of {name} must be all CSV or all Parquet")
    for path in paths:
        try:
            size = path.stat().st_size
            path.open("rb").close()
        except OSError as error:
            raise DataError(f"data ({path}) must be a readable file: {error.strerror}") from None
        if size == 0:
            raise DataError(f"data ({path}) must not be empty: it has no header and no rows")
    kind = kinds.pop()
    if kind in FORMATS:
        return ConvertedSource(paths[0], split_sheet(name)[1], rename)
    if kind == ".parquet":
        return ParquetSource(name, paths)
    sep = sep or find_separator(paths[0], TEXT_SUFFIXES[kind], encoding)
    return TextSource(name, paths, sep, encoding, rename)


def find_separator(path: Path, usual: str, encoding: str = "utf-8") -> str:
    """The separator that a file's header line shows: the usual one where that splits it.

    Names of columns are public, and no other line is read.
    """
    best, most = usual, 0
    for sign in dict.fromkeys((usual, *";\t|,")):
        if most > 1:
            break
        with suppress(csv.Error):  # a quoted field ends where this sign says it cannot
            names = _names(path, sign, encoding)
            if len(names) > most:
                best, most = sign, len(names)
    return best


def find_encoding(data: Any) -> str:
    """The encoding that the bytes of a text file have. Reads rows, so it is for drafts alone."""
    if not isinstance(data, str | Path) or "://" in str(data):
        return "utf-8"
    paths = expand(str(data))
    if file_kind(paths[0]) not in TEXT_SUFFIXES:
        return "utf-8"
    decoder = codecs.getincrementaldecoder("utf-8")()
    with suppress(OSError):
        try:
            for path in paths:
                for number, chunk in enumerate(_chunks(path)):
                    if not number and chunk[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                        return "utf-16"
                    decoder.decode(chunk)
                decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            # Latin-1 has control characters where Windows has the sign of the euro and quotes.
            every = (chunk for path in paths for chunk in _chunks(path))
            windows = any(re.search(rb"[\x80-\x9f]", chunk) for chunk in every)
            return COPIED if windows else "latin-1"
    return "utf-8"


def expand(name: str) -> list[Path]:
    """Return the files that a path, a folder or a glob stands for, sorted."""
    path = Path(name).expanduser()
    if not path.exists():
        path = Path(split_sheet(name)[0]).expanduser()
    if path.is_dir():
        found = sorted(path.glob("*.parquet"))
        if not found:
            raise DataError(f"data ({name}) must be a file, or a folder that holds *.parquet files")
        return found
    if path.exists():
        return [path]
    if any(sign in name for sign in "*?["):
        matches = map(Path, glob.glob(str(path), recursive=True))
        found = sorted(filter(Path.is_file, matches))
        if not found:
            raise DataError(f"data ({name}) must match at least one file: it matches none")
        return found
    files = sorted(near.name for near in path.parent.glob("*") if near.is_file())
    raise DataError(
        f"data ({name}) must be an existing file: there is none of this name"
        f"{like(path.name, files)}"
    )


def place_of_table(folder: Path, name: str) -> Path | None:
    """The file of a linked table in a folder: of its name, with or without a suffix."""
    if (folder / name).is_file():
        return folder / name
    found = [place for kind in SUFFIXES if (place := folder / f"{name}{kind}").is_file()]
    return found[0] if len(found) == 1 else None


def file_kind(path: Path) -> str:
    """Return ``.csv``, ``.tsv``, ``.parquet``, or a suffix of another program's files."""
    other = next((kind for kind in FORMATS if path.name.lower().endswith(kind)), None)
    if other is not None:
        return other
    packed = path.suffix.lower() in PACKED
    suffix = Path(path.stem if packed else path).suffix.lower()
    if suffix in TEXT_SUFFIXES or (suffix == ".parquet" and not packed):
        return suffix
    raise UsageError(
        f"data ({path.name}) must end in one of: {', '.join((*SUFFIXES, *LISTED))}. Rename .txt, "
        "unpack .zip"
    )


def read_header(path: Path, sep: str, encoding: str = "utf-8") -> list[str]:
    """Return the names in a CSV file's header line."""
    try:
        names = _names(path, sep, encoding)
    except csv.Error as error:
        raise DataError(f"header of {path} must be one line of names: {error}") from None
    if not "".join(names).strip():
        raise DataError(f"data ({path}) must begin with a header line that names the columns")
    other = next((sign for sign in ";\t|," if sign != sep and sign in names[0]), None)
    if len(names) == 1 and other is not None:
        raise DataError(
            f"header of {path} must be separated by {sep!r}: it seems to use {other!r}; "
            "give that as sep"
        )
    return names


def _names(path: Path, sep: str, encoding: str) -> list[str]:
    read = {"encoding": ENCODINGS[encoding], "errors": "surrogateescape", "newline": ""}
    try:
        # Bytes that are no UTF-8 are let through, since the rows' first ones are decoded as well.
        with whole(path), open_unpacked(path, "rt", **read) as handle:
            names = next(csv.reader(handle, delimiter=sep, strict=True), [])
        "".join(names).encode()
    except UnicodeEncodeError:
        raise DataError(not_utf8(f"{path}, header")) from None
    except OSError as error:
        raise DataError(f"header of {path} must be one line of names: {error}") from None
    return names


def named_columns(names: Iterable[str], where: str, rename: bool = False) -> tuple[str, ...]:
    """The columns, each with a name of its own: with ``rename`` the second ``a`` becomes ``a_2``.

    Engines rename duplicates without a word, and DuckDB holds ``Age`` and ``age`` for the same.
    """
    given = list(names)
    taken = {*map(str.casefold, given)}
    seen: dict[str, str] = {}
    for position, name in enumerate(given, 1):
        if not name.strip():
            raise DataError(
                f"column {position} of {where} must have a name: name it in the first line, delete "
                "it if it is empty, delete titles above the line of names, or write the file "
                "without its row index"
            )
        before = seen.setdefault(name.casefold(), name)
        if len(seen) == position:
            continue
        others = (f"{name}_{number}" for number in range(2, len(given) + 3))
        other = next(one for one in others if one.casefold() not in taken)
        if not rename:
            same = f"{name!r} occurs twice" if before == name else f"{before!r} and {name!r}"
            raise DataError(
                f"column names of {where} must differ by more than case: {same}. Rename one; or "
                f"draft a schema with --rename-duplicates, which calls column {position} {other!r}"
            )
        seen[other.casefold()] = other
        taken.add(other.casefold())
    if not seen:
        raise DataError(f"data ({where}) must have at least one column")
    return tuple(seen.values())


def trace_of(sources: Iterable[Source]) -> str | None:
    """What shows that one of some sources has changed; None where one of them shows nothing."""
    traces = [source.trace for source in sources]
    if len(traces) == 1:
        return traces[0]
    if None in traces:
        return None
    return hashlib.sha256(json.dumps(traces).encode()).hexdigest()


def trace_of_files(paths: Iterable[Path]) -> str:
    """A hash of the files' names, sizes and times."""
    parts = []
    for path in paths:
        try:
            about = path.stat()
        except OSError as error:
            raise DataError(f"data ({path}) must be a readable file: {error.strerror}") from None
        parts.append([str(path.resolve()), about.st_size, about.st_mtime_ns])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _shown(value: Any) -> str:
    """A text of a value of any class; Python writes no whole number of thousands of digits."""
    return hex(value) if isinstance(value, int) else repr(value)


def trace_of_frame(frame: pd.DataFrame) -> str:
    """A hash of a frame's names and values, in the order of its rows."""
    found = hashlib.sha256(json.dumps([str(name) for name in frame.columns]).encode())
    for position in range(frame.shape[1]):
        column = frame.iloc[:, position]
        try:
            numbers = hash_array(column.array)
        except Exception:
            # Mixed values, half of a character, or huge numbers cannot be hashed as they are.
            numbers = hash_array(np.array([*map(_shown, objects_of(column))], dtype=object))
        found.update(numbers.tobytes())
    return found.hexdigest()
