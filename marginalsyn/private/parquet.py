"""What the footer of a Parquet file says of its columns."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

from marginalsyn.errors import DataError

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

    Not the Arrow types that a writer may have noted beside them: engines do not read those.
    """
    schema = read_parquet_schema(path)
    leaves = map(schema.column, range(len(schema.names)))
    return {
        field.name: "; ".join(map(_leaf_type, itertools.islice(leaves, _leaves(field.type))))
        for field in schema.to_arrow_schema()
    }


def _leaves(kind: Any) -> int:
    """How many plain columns a Parquet file holds for one of this Arrow type."""
    kind = getattr(kind, "storage_type", kind)
    return sum(_leaves(kind.field(i).type) for i in range(kind.num_fields)) or 1


def _leaf_type(leaf: Any) -> str:
    logical = re.sub(r",? ?(is_from|force_set)_converted_type=\w+", "", str(leaf.logical_type))
    kind = leaf.physical_type
    if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
        kind += f" of {leaf.length}"
    if logical not in UNSAID:
        kind += f" {logical}"
    return f"{leaf.path}: {kind}" if leaf.max_repetition_level or "." in leaf.path else kind
