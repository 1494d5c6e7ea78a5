"""Linked tables as a schema file: what its JSON holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marginalsyn.errors import SchemaError
from marginalsyn.people.tree import LinkedSchema, LinkedTable, Lookup
from marginalsyn.table.schema import Schema
from marginalsyn.validation import like

_TABLE = (
    *("name", "file", "from", "key", "parent", "link"),
    *("max_children", "order", "max_gap", "lookups"),
)


def contents(tree: LinkedSchema) -> dict[str, Any]:
    """The contents of the file."""
    return {"version": 1, "title": tree.title, "tables": [_entry(table) for table in tree.tables]}


def read_tree(text: str) -> LinkedSchema:
    """Linked tables from JSON text."""
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise SchemaError(f"schema must be JSON: {error}") from None
    if not is_linked(data):
        raise SchemaError('schema must be a JSON object with a list of "tables"')
    strange = sorted(set(data) - {"version", "title", "tables"})
    if strange:
        raise SchemaError(f"schema ({strange[0]!r}) must hold version, title and tables only")
    return LinkedSchema(
        tuple(_table(entry) for entry in data["tables"]), str(data.get("title", ""))
    )


def is_linked(data: Any) -> bool:
    """Whether the contents of a schema file describe linked tables."""
    return isinstance(data, Mapping) and isinstance(data.get("tables"), list)


def linked_file(path: str | Path) -> bool:
    """Whether a schema file describes linked tables; False where it cannot be read."""
    try:
        return is_linked(json.loads(Path(path).read_text(encoding="utf-8-sig")))
    except (OSError, ValueError, RecursionError):
        return False


def _entry(table: LinkedTable) -> dict[str, Any]:
    """One table as JSON."""
    entry: dict[str, Any] = {"name": table.name}
    for field, value in (
        ("file", table.file),
        ("from", table.rows_of),
        ("key", table.key),
        ("parent", table.parent),
        ("link", table.link),
        ("max_children", table.max_children or None),
        ("order", table.order),
        ("max_gap", table.max_gap),
    ):
        if value is not None:
            entry[field] = value
    if table.lookups:
        entry["lookups"] = [
            {
                "column": lookup.column,
                "file": lookup.file,
                "key": lookup.key,
                "columns": [column.model_dump(mode="json") for column in lookup.columns],
                **({"values": {k: list(v) for k, v in lookup.values}} if lookup.values else {}),
            }
            for lookup in table.lookups
        ]
    if table.schema is not None:
        entry["schema"] = json.loads(table.schema.to_json())
    return entry


def _table(entry: Any) -> LinkedTable:
    """Read one table of a schema file."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        raise SchemaError("tables must be JSON objects, each with a name")
    name = entry["name"]
    strange = [field for field in entry if field not in (*_TABLE, "schema")]
    if strange:
        raise SchemaError(
            f"table {name} ({strange[0]!r}) must be a known field: one of "
            f"{', '.join((*_TABLE, 'schema'))}{like(strange[0], _TABLE)}"
        )
    for field in ("file", "from", "key", "parent", "link", "order"):
        if not isinstance(entry.get(field, ""), str):
            raise SchemaError(f"table {name}: {field} ({entry[field]!r}) must be a text")
    try:
        schema = Schema(**entry["schema"]) if "schema" in entry else None
        lookups = tuple(
            Lookup(
                str(one["column"]),
                str(one["file"]),
                str(one["key"]),
                Schema(columns=one["columns"]).columns,
                tuple((str(k), tuple(v)) for k, v in one.get("values", {}).items()),
            )
            for one in entry.get("lookups", ())
        )
    except (KeyError, TypeError) as error:
        raise SchemaError(
            f"table {name} must have a schema and lookups as described: {error}"
        ) from None
    except SchemaError as error:
        raise SchemaError(f"table {name}: {error}") from None
    most = entry.get("max_children", 0)
    if isinstance(most, bool) or not isinstance(most, int):
        raise SchemaError(f"table {name}: max_children ({most!r}) must be a whole number")
    gap = entry.get("max_gap")
    if isinstance(gap, bool) or not isinstance(gap, int | float | None):
        raise SchemaError(f"table {name}: max_gap ({gap!r}) must be a number")
    return LinkedTable(
        name,
        schema,
        key=entry.get("key"),
        parent=entry.get("parent"),
        link=entry.get("link"),
        max_children=most,
        order=entry.get("order"),
        max_gap=None if gap is None else float(gap),
        file=entry.get("file"),
        rows_of=entry.get("from"),
        lookups=lookups,
    )
