"""Files of other programs, copied once to a file that the engine reads.

Workbooks, lines of JSON and the files of statistics programs become texts, as in a CSV file, each
value by itself; Arrow files become Parquet. Only names of columns are read beforehand. The copy is
for its owner alone and goes when the process ends.

Columns of Parquet files, by the files' footers, and how their values are read.

Values are read as a file has them, as bytes and whole numbers, and become texts, dates and times in
a query that no value can stop: a reader of texts or times ends at the first that is not one.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import itertools
import json
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from marginalsyn.errors import DataError, UsageError

# Times of these units since 1970, or of fewer, have a text in DuckDB.
FARTHEST = {"_ms": 92 * 10**14, "": 92 * 10**17, "_ns": 9223286400 * 10**9}
# Ways to say that a whole number is one.
UNSAID = {"None", "Int(bitWidth=32, isSigned=true)", "Int(bitWidth=64, isSigned=true)"}


def read_parquet_schema(path: Path) -> Any:
    """Return the schema in a Parquet file's footer."""
    from pyarrow import parquet

    try:
        found = parquet.read_metadata(path).schema
        found.to_arrow_schema()
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise DataError(
            f"data ({path}) must be a Parquet file: its footer cannot be read"
        ) from None
    return found


def parquet_types(path: Path) -> dict[str, str]:
    """Return the type of every column as the file itself has it, whoever wrote it.

    Not the Arrow types that a writer may have added: engines do not read those.
    """
    schema = read_parquet_schema(path)
    leaves = map(schema.column, range(len(schema.names)))
    return {
        field.name: "; ".join(map(_leaf_type, itertools.islice(leaves, _leaves(field.type))))
        for field in schema.to_arrow_schema()
    }


def described(path: Path) -> dict[str, tuple[Any, str]]:
    """The columns that a schema can describe, which hold one plain value a row.

    By name, the Arrow type that values are stored as, and SQL that reads one of them.
    """
    schema = read_parquet_schema(path)
    leaves = {leaf.path: leaf for leaf in map(schema.column, range(len(schema.names)))}
    found = {}
    for field in schema.to_arrow_schema():
        leaf = leaves.get(field.name)
        if leaf is None or leaf.max_repetition_level:
            continue
        coded = pa.types.is_dictionary(field.type)
        kind = _storage(field.type.value_type if coded else field.type)
        reading = _reading(pa.timestamp("us") if leaf.physical_type == "INT96" else kind)
        if leaf.logical_type.type == "UUID":
            reading = pa.binary(16), "CAST(hex({}) AS UUID)"
        # Bytes of any length that are to be a number may be too many.
        loose = leaf.physical_type == "BYTE_ARRAY" and pa.types.is_decimal(kind)
        if reading is not None and not loose:
            found[field.name] = reading
    return found


def read_rows(
    backend: Any, name: str, paths: Sequence[Path], readings: Mapping[str, tuple[Any, str]]
) -> None:
    """Make Parquet files a view of DuckDB's, of the columns that ``described`` names."""
    from pyarrow import dataset

    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    # A folder called a=1 is no column: rows are what the files hold.
    rows = dataset.dataset(
        [str(path) for path in paths],
        schema=pa.schema([(column, stored) for column, (stored, _) in readings.items()]),
        format=dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us"),
    )
    chosen = [f"{sql.format(quoted(c))} AS {quoted(c)}" for c, (_, sql) in readings.items()]
    stored = f"{name}_stored"
    backend.con.register(stored, rows)
    backend.con.execute(
        f"CREATE TEMP VIEW {quoted(name)} AS SELECT {', '.join(chosen)} FROM {quoted(stored)}"
    )


def _reading(kind: Any) -> tuple[Any, str] | None:
    """The Arrow type that a type's values are stored as, and SQL that reads one of them.

    None of types that hold bytes, or several values. What is no text, date or time is null, or a
    text with its bytes as ``\\xFF``.
    """
    of = pa.types
    if of.is_string(kind) or of.is_large_string(kind) or of.is_string_view(kind):
        # No batch of texts is too long for it.
        return pa.large_binary(), "coalesce(TRY(decode({0})), CAST({0} AS VARCHAR))"
    timed = of.is_timestamp(kind) or of.is_time(kind)
    unit = {"us": "", "ns": "_ns"}.get(kind.unit if timed else "", "_ms")
    second = {"": 10**6, "_ns": 10**9, "_ms": 10**3}[unit]
    made = f"make_timestamp{unit}({{0}})"
    if of.is_timestamp(kind):
        most = FARTHEST[unit]
        made = f"CAST({made} AS TIMESTAMPTZ)" if kind.tz else made
        return pa.int64(), f"CASE WHEN {{0}} BETWEEN {-most} AND {most} THEN {made} END"
    if of.is_time(kind):
        stored = pa.int32() if of.is_time32(kind) else pa.int64()
        made = f"CAST({made} AS {'TIME_NS' if unit == '_ns' else 'TIME'})"
        return stored, f"CASE WHEN {{0}} BETWEEN 0 AND {86400 * second - 1} THEN {made} END"
    if of.is_date(kind):
        return pa.int32(), "TRY(DATE '1970-01-01' + {})"
    for test, stored in (
        (of.is_duration, pa.int64()),
        (of.is_null, pa.int32()),
        (of.is_float16, pa.float32()),
        (of.is_decimal256, pa.float64()),
        *((one, kind) for one in (of.is_decimal, of.is_boolean, of.is_integer, of.is_floating)),
    ):
        if test(kind):
            return stored, "{}"
    return None


def _storage(kind: Any) -> Any:
    """The type that values of an extension type are stored as; all others as they are."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _leaves(kind: Any) -> int:
    """How many plain columns a Parquet file holds for one of this Arrow type."""
    kind = _storage(kind)
    return sum(_leaves(kind.field(i).type) for i in range(kind.num_fields)) or 1


def _leaf_type(leaf: Any) -> str:
    logical = re.sub(r",? ?(is_from|force_set)_converted_type=\w+", "", str(leaf.logical_type))
    kind = leaf.physical_type
    if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
        kind += f" of {leaf.length}"
    if logical not in UNSAID:
        kind += f" {logical}"
    return f"{leaf.path}: {kind}" if leaf.max_repetition_level or "." in leaf.path else kind


# The sheet of a workbook, written as the table of a database is.
_SHEET = re.compile(r"(.+\.xls[xm])\?table=(.+)", re.IGNORECASE | re.DOTALL)
EXTRA = "pip install 'marginalsyn[files]' adds what reads such files"

# The columns of a file, and of its sheet if one is named, and the rows: they follow when they are
# asked for, as texts, or in batches with types.
Contents = tuple[list[str], Iterator[Any]]


def split_sheet(name: str) -> tuple[str, str | None]:
    """The file and the sheet of ``book.xlsx?table=Patients``."""
    found = _SHEET.fullmatch(name)
    return (found[1], found[2]) if found else (name, None)


def text_of_cell(value: Any) -> str:
    """A value as a CSV file has it; nothing for a missing one."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # Other programs show whole numbers without a point, and 15 digits of the others.
        whole = value.is_integer() and abs(value) < 2**53
        return str(int(value)) if whole else f"{value:.15g}"
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    return str(value)


def copy_texts(contents: Contents, target: Path) -> None:
    """Write rows of texts as a CSV file."""
    names, rows = contents
    # JSON may escape half a character, which no text has.
    with target.open("w", encoding="utf-8", errors="replace", newline="") as handle:
        write = csv.writer(handle, lineterminator="\n", quoting=csv.QUOTE_ALL)
        write.writerow(names)
        with warnings.catch_warnings(action="ignore"):  # they quote values
            write.writerows(rows)


@contextmanager
def _as_named(path: Path, what: str) -> Iterator[None]:
    """Refuse a file that its reader fails on; what that says may quote a value."""
    try:
        yield
    except Exception:
        raise DataError(f"data ({path}) must be {what}, as its name says") from None


# Workbooks


def _sheet(path: Path, sheet: str | None) -> Any:
    """The rows of cells of the sheet named, or of the only one."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise UsageError(f"data ({path}) is a workbook: {EXTRA}") from None
    with _as_named(path, "a workbook"):
        book = load_workbook(path, read_only=True, data_only=True)
    sheets = {found.title: found for found in book.worksheets}
    if sheet is None and len(sheets) > 1:
        raise UsageError(
            f"data ({path}) must name one of its sheets, such as '{path}?table="
            f"{next(iter(sheets))}': it has {', '.join(sheets)}"
        )
    sheet = sheet or next(iter(sheets))
    if sheet not in sheets:
        raise UsageError(f"sheet ({sheet}) of {path} must be one of: {', '.join(sheets)}")
    found = sheets[sheet]
    # Some programs write a wrong size of the sheet.
    found.reset_dimensions()
    return found


def _in_sheet(path: Path, sheet: str | None) -> Contents:
    found = _sheet(path, sheet)

    def read(**part: Any) -> Iterator[Any]:
        with _as_named(path, "a workbook"):
            yield from found.iter_rows(**part)

    names = [text_of_cell(value) for value in next(read(max_row=1, values_only=True), ())]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise DataError(f"data ({path}) must begin with a row that names the columns")

    def rows() -> Iterator[list[str]]:
        for cells in read(min_row=2):
            texts = [_text_in_sheet(cell) for cell in cells]
            if any(texts[len(names) :]):
                number = next(cell.row for cell in cells[len(names) :] if cell.value is not None)
                where = f"data ({path}, row {number})"
                raise DataError(f"{where} must end with the last named column: delete titles above")
            if any(texts):
                yield [*texts, *[""] * len(names)][: len(names)]

    return names, rows()


def _text_in_sheet(cell: Any) -> str:
    """A day's cell has a day, whether or not the workbook stores midnight with it."""
    value = cell.value
    if isinstance(value, datetime) and not re.search("[hH]", cell.number_format or ""):
        value = value.date()
    return text_of_cell(value)


PACKED = {".gz": "gzip", ".bz2": "bzip2", ".zip": "unencrypted zip"}


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """Refuse a packed file that is broken or cut short: an engine reads what there is of it."""
    try:
        yield
    except (EOFError, OSError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
        # What is wrong with the file itself has no number.
        kind = PACKED.get(path.suffix.lower())
        if kind is None or (isinstance(error, OSError) and error.errno):
            raise
        raise DataError(f"data ({path}) must be a whole {kind} file, as its name says") from None


def open_unpacked(path: Path, mode: str, **how: Any) -> Any:
    """A file, or the one file that is packed in it, opened to be read."""
    kind = path.suffix.lower()
    if kind != ".zip":
        opened: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(kind, open)
        return opened(path, mode, **how)
    with zipfile.ZipFile(path) as packed:
        # Apple's programs add files of their own; folders are listed, too.
        names = [n for n in packed.namelist() if "__MACOSX" not in n and not n.endswith("/")]
        if len(names) != 1:
            raise DataError(f"data ({path}) must hold one file: unpack it, and name one of them")
        found = packed.open(names[0])
    return found if mode == "rb" else io.TextIOWrapper(found, **how)


# JSON: an object a line, or a list of objects


def _objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file, each with its place."""
    listed = path.name.lower().endswith(LISTED)
    what, number = "object" if listed else "line", 0
    # Numbers keep their spelling.
    decode = partial(json.loads, parse_float=str, parse_int=str, parse_constant=str)
    try:
        with whole(path), open_unpacked(path, "rt", encoding="utf-8-sig") as handle:
            rows = decode(handle.read()) if listed else handle
            if listed and not isinstance(rows, list):
                raise ValueError("no list")
            for number, row in enumerate(rows, 1):
                if listed or row.strip():
                    found = row if listed else decode(row)
                    if not isinstance(found, dict):
                        raise ValueError("no object")
                    yield f"{what} {number}", found
    except (ValueError, RecursionError):
        shape, place = "a list of JSON objects, or in .jsonl one a line", ""
        if number:
            shape, place = "one JSON object", f", {what} {number}"
        raise DataError(f"data ({path}{place}) must hold {shape}, in UTF-8") from None


def _in_json(path: Path, _: str | None) -> Contents:
    names = list(next(_objects(path), (0, {}))[1])
    if not names:
        raise DataError(f"data ({path}) must hold at least one JSON object")

    def rows() -> Iterator[list[str]]:
        for place, row in _objects(path):
            if not row.keys() <= {*names}:
                raise DataError(
                    f"data ({path}, {place}) must have the names of the first {place.split()[0]}, "
                    "which are the columns: it has another; name every column there"
                )
            if any(isinstance(value, dict | list) for value in row.values()):
                raise DataError(f"data ({path}, {place}) must hold plain values, no lists")
            yield [text_of_cell(row.get(name)) for name in names]

    return names, rows()


# Arrow and Feather


def _arrow(path: Path) -> Any:
    with _as_named(path, "an Arrow file"):
        try:
            return pa.ipc.open_file(pa.memory_map(str(path)))
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(pa.memory_map(str(path)))


def _in_arrow(path: Path, _: str | None) -> Contents:
    found = _arrow(path)
    if isinstance(found, pa.RecordBatchFileReader):
        return found.schema.names, map(found.get_batch, range(found.num_record_batches))
    return found.schema.names, found


def copy_arrow(path: Path, target: Path) -> None:
    """Write the rows of an Arrow file as Parquet, with their types."""
    from pyarrow import parquet

    named = _as_named(path, "a whole Arrow file of plain columns")
    with named, parquet.ParquetWriter(target, _arrow(path).schema) as writer:
        for batch in _in_arrow(path, None)[1]:
            writer.write_batch(batch)


# Statistics programs


def _survey(path: Path, **how: Any) -> tuple[Any, Any]:
    try:
        import pyreadstat
    except ImportError:
        raise UsageError(f"data ({path}) is of a statistics program: {EXTRA}") from None
    suffix = path.suffix.lower()
    # read_sav, also of .zsav, read_dta, read_sas7bdat
    read = getattr(pyreadstat, f"read_{suffix.lstrip('.z')}")
    # SAS keeps the words for its codes in another file.
    words = {} if suffix == ".sas7bdat" else {"apply_value_formats": True}
    with _as_named(path, f"a {suffix} file"):
        return read(str(path), **words, formats_as_category=False, **how)


def _in_survey(path: Path, _: str | None) -> Contents:
    """Values that have words in the file become these words."""
    names = _survey(path, metadataonly=True)[1].column_names

    def rows() -> Iterator[tuple[str, ...]]:
        frame = _survey(path)[0].astype(object)
        yield from zip(*(map(text_of_cell, frame[name]) for name in names), strict=True)

    return names, rows()


LISTED = (".json", ".json.gz")
ARROW = (".feather", ".arrow")
FORMATS = {
    **dict.fromkeys((".xlsx", ".xlsm"), _in_sheet),
    **dict.fromkeys((".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz", *LISTED), _in_json),
    **dict.fromkeys(ARROW, _in_arrow),
    **dict.fromkeys((".sav", ".zsav", ".dta", ".sas7bdat"), _in_survey),
}
