"""pandera's schemas: the YAML or JSON that it writes, and its live objects."""

from __future__ import annotations

from typing import Any

from marginalsyn.plugins.exchange.drafts import LISTED, NUMERIC, Draft, listed
from marginalsyn.plugins.exchange.nodes import Node
from marginalsyn.table.schema import Schema

SAYS = ("bounds", "times", "values", "nullable", "description", "title", "true-false")
EXTENSION = ""


def recognise(doc: Node) -> bool:
    value = doc.value
    return isinstance(value, dict) and value.get("schema_type") == "dataframe"


def of_object(schema: Any) -> Node:
    """A live ``DataFrameSchema`` or ``DataFrameModel`` in the shape of its YAML."""
    schema = schema.to_schema() if hasattr(schema, "to_schema") else schema
    columns = {}
    for name, column in schema.columns.items():
        checks = {check.name: dict(check.statistics or {}) for check in column.checks or []}
        columns[str(name)] = {
            "dtype": str(column.dtype) if column.dtype is not None else None,
            "nullable": bool(column.nullable),
            "unique": bool(getattr(column, "unique", False)),
            "description": getattr(column, "description", None),
            "categories": list(getattr(column.dtype, "categories", None) or []) or None,
            "checks": checks,
        }
    title = getattr(schema, "title", None)
    return Node({"schema_type": "dataframe", "title": title, "columns": columns})


def read(doc: Node, table: str | None) -> Draft:
    """Columns by their dtypes, with the bounds and values of their checks."""
    del table
    found = Draft()
    if "title" in doc:
        found.fields["title"] = doc.text("title")
    for name, about in doc.at("columns").pairs():
        _column(found, name, about)
    if "checks" in doc and doc.at("checks").value:
        found.notes.append("checks of the whole frame are not read")
    return found


def _column(found: Draft, name: str, about: Node) -> None:
    checks = _checks(about.at("checks", {}))
    dtype = about.text("dtype", "object")
    low = dtype.lower()
    nullable = about.flag("nullable", False) or None
    extra: dict[str, Any] = {
        "nullable": nullable,
        "description": about.text("description", "") or None,
    }
    values = about.scalars("categories") if "categories" in about else None
    if "isin" in checks:
        values = _first(checks["isin"], "allowed_values").items()
        values = [item.value for item in values]
    ends: dict[str, Any] = {}
    for check, node in checks.items():
        if check in ("greater_than_or_equal_to", "ge"):
            ends["lower"] = _first(node, "min_value").value
        elif check in ("less_than_or_equal_to", "le"):
            ends["upper"] = _first(node, "max_value").value
        elif check in ("in_range", "between"):
            ends |= {"lower": node.at("min_value").value, "upper": node.at("max_value").value}
        elif check in ("greater_than", "less_than") and "int" in low:
            up = check == "greater_than"
            value = _first(node, "min_value" if up else "max_value").value
            ends["lower" if up else "upper"] = value + 1 if up else value - 1
        elif check != "isin":
            found.notes.append(f"check {check!r} of column {name!r} is not read")
    place = about.path
    if values is not None:
        told = listed(values)
        if told["kind"] == "categorical":
            told["other"] = False
        found.add(name, told.pop("kind"), place, **told, **extra)
    elif low in ("bool", "boolean"):
        found.add(name, "boolean", place, **extra)
    elif "int" in low and "interval" not in low:
        found.add(name, "integer", place, **ends, **extra)
    elif low.startswith(("float", "double", "decimal", "number")):
        found.add(name, "continuous", place, **ends, **extra)
    elif low.startswith("datetime") or low.startswith("date"):
        kind = "date" if low in ("date", "date32") else "datetime"
        stamps = {key: str(value)[:19].replace("T", " ") for key, value in ends.items()}
        found.add(name, kind, place, **stamps, **extra)
    elif about.flag("unique", False):
        found.leave_out(name, "an identifier")
    else:
        found.add(name, "categorical", place, **extra)


def _checks(node: Node) -> dict[str, Node]:
    """Checks by name: an object of them, or the list of newer versions."""
    if isinstance(node.value, list):
        found = {}
        for one in node.items():
            options = one.at("options", {})
            found[options.text("check_name")] = one
        return found
    return dict(node.pairs())


def _first(node: Node, key: str) -> Node:
    """A check's one value: it stands alone, or under its own name or ``value``."""
    if isinstance(node.value, dict):
        return node.at(key) if key in node else node.at("value")
    return node


def write(schema: Schema) -> Any:
    """A frame's schema as pandera reads it with ``from_yaml``."""
    return {
        "schema_type": "dataframe",
        "version": "0.20.0",
        "columns": {column.name: _written(column) for column in schema.columns},
        "checks": None,
        "index": None,
        "dtype": None,
        "coerce": True,
        "strict": False,
        "name": None,
        "ordered": False,
        "unique": None,
        "title": schema.title or None,
        "description": None,
    }


def _written(column: Any) -> dict[str, Any]:
    checks: dict[str, Any] = {}
    if column.kind in LISTED:
        kinds = set(map(type, column.values))
        dtype = "int64" if kinds == {int} else "float64" if kinds == {float} else "str"
        if column.nullable and dtype == "int64":
            dtype = "Int64"
        if not column.has_other:
            checks["isin"] = (
                list(column.values) if dtype != "str" else [str(v) for v in column.values]
            )
    elif column.kind == "boolean":
        plain = set(map(type, column.values)) == {bool}
        dtype = ("boolean" if column.nullable else "bool") if plain else "str"
        if not plain:
            checks["isin"] = [str(value) for value in column.values]
    elif column.kind in NUMERIC:
        whole = "Int64" if column.nullable else "int64"
        dtype = whole if column.kind == "integer" else "float64"
        checks = {"greater_than_or_equal_to": column.lower, "less_than_or_equal_to": column.upper}
    else:
        # Rows hold times as texts, in the column's own format.
        dtype = "str"
    return {
        "title": None,
        "description": column.description or None,
        "dtype": dtype,
        "nullable": column.nullable,
        "checks": checks or None,
        "unique": False,
        "coerce": True,
        "required": True,
        "regex": False,
    }


def losses(schema: Schema) -> list[str]:
    found = []
    names = [c.name for c in schema.columns if c.kind in LISTED and c.has_other]
    if names:
        found.append(f"the categories of {', '.join(names)}: a check would forbid other values")
    times = [c.name for c in schema.columns if c.kind in ("date", "datetime", "time")]
    if times:
        found.append(f"formats and bounds of {', '.join(times)}")
    return found
