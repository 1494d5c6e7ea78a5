"""SDV's metadata: JSON with a semantic type a column, and neither values nor bounds."""

from __future__ import annotations

import re
from typing import Any

from marginalsyn.plugins.exchange.drafts import LISTED, NUMERIC, Draft
from marginalsyn.plugins.exchange.nodes import Node
from marginalsyn.table.schema import Schema

SAYS = ("times", "title", "made columns")
# SDV reads the keys that it knows of the whole file.
EXTENSION = "x-marginalsyn"
VERSIONS = ("V1", "SINGLE_TABLE_V1", "MULTI_TABLE_V1")
_RANGES = {"Int8": (-128, 127), "UInt8": (0, 255)}
_CLOCK = re.compile("%[HIMSfpXTcs]")


def recognise(doc: Node) -> bool:
    return isinstance(doc.value, dict) and "METADATA_SPEC_VERSION" in doc.value


def read(doc: Node, table: str | None) -> Draft:
    """The columns of one table; identifiers and personal data are dropped."""
    version = doc.text("METADATA_SPEC_VERSION")
    if version not in VERSIONS:
        raise doc.at("METADATA_SPEC_VERSION").wrong(f"one of {', '.join(VERSIONS)}")
    found = Draft()
    if "tables" in doc:
        one = doc.one_of("tables", "", table)
        found.fields["title"] = one.path.partition(".")[2]
    else:
        one = doc
    for name, about in one.at("columns").pairs():
        kind = about.text("sdtype")
        if kind == "categorical":
            found.add(name, "categorical", about.path)
        elif kind == "boolean":
            found.add(name, "boolean", about.path)
        elif kind == "numerical":
            stored = about.text("computer_representation", "Float")
            low, high = _RANGES.get(stored, (None, None))
            whole = "Int" in stored
            kind = "integer" if whole else "continuous"
            found.add(name, kind, about.path, lower=low, upper=high)
        elif kind == "datetime":
            form = about.text("datetime_format", "%Y-%m-%d")
            kind = "datetime" if _CLOCK.search(form) else "date"
            found.add(name, kind, about.path, format=form)
        else:
            found.leave_out(name, f"sdtype {kind!r} stands for identifiers or personal data")
    return found


def write(schema: Schema) -> Any:
    """One table, whose columns have a semantic type each."""
    columns: dict[str, Any] = {}
    for column in schema.columns:
        columns[column.name] = _column(column)
    for made in schema.made:
        columns[made.name] = {"sdtype": "id" if made.kind == "identifier" else "unknown"}
    table: dict[str, Any] = {"columns": columns, "column_relationships": []}
    return {
        "METADATA_SPEC_VERSION": "V1",
        "tables": {schema.title or "table": table},
        "relationships": [],
    }


def _column(column: Any) -> dict[str, Any]:
    if column.kind in LISTED:
        return {"sdtype": "categorical"}
    if column.kind in NUMERIC:
        stored = "Int64" if column.kind == "integer" else "Float"
        return {"sdtype": "numerical", "computer_representation": stored}
    if column.kind == "boolean":
        return {"sdtype": "boolean" if set(map(type, column.values)) == {bool} else "categorical"}
    return {"sdtype": "datetime", "datetime_format": column.format}


def losses(schema: Schema) -> list[str]:
    del schema
    return []
