"""Columns of Parquet files, by the files' footers, and how their values are read.

Values are read as a file has them, as bytes and whole numbers, and become texts, dates and times in
a query that no value can stop: a reader of texts or times ends at the first that is not one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from marginalsyn.errors import DataError

# Times of these units since 1970, or of fewer, have a text in DuckDB.
FARTHEST = {"_ms": 92 * 10**14, "": 92 * 10**17, "_ns": 9223286400 * 10**9}
# Ways to say that a whole number is one.
UNSAID = {"None", "Int(bitWidth=32, isSigned=true)", "Int(bitWidth=64, isSigned=true)"}


def read_parquet_schema(path: Path) -> Any:
    """Return the schema in a Parquet file's footer."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        found = parquet.read_metadata(path).schema
        found.to_arrow_schema()
    except (pa.ArrowException, OSError):
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
    import pyarrow as pa

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
    import pyarrow as pa
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
    import pyarrow as pa

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
    import pyarrow as pa

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
