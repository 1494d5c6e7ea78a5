"""Schemas of libraries that validate: pandera's, and pydantic's models with their JSON Schema."""

from __future__ import annotations

from typing import Any

from marginalsyn.plugins.exchange.drafts import (
    LISTED,
    NUMERIC,
    TIMES,
    Draft,
    Node,
    SchemaFormat,
    only_type,
)
from marginalsyn.table.schema import Schema


class Pandera(SchemaFormat):
    """The YAML or JSON that pandera writes, and its live objects."""

    about = "pandera's schema (YAML, JSON, or module:object)"
    yaml = True
    says = ("bounds", "times", "values", "nullable", "description", "title", "true-false")

    def recognise(self, value: Any) -> bool:
        return isinstance(value, dict) and value.get("schema_type") == "dataframe"

    def of_object(self, source: Any) -> Node:
        """A live ``DataFrameSchema`` or ``DataFrameModel`` in the shape of its YAML."""
        is_model = isinstance(source, type)
        schema = source.to_schema() if is_model else source
        columns = {}
        for name, column in schema.columns.items():
            columns[str(name)] = {
                "dtype": str(column.dtype) if column.dtype is not None else None,
                "nullable": bool(column.nullable),
                "unique": bool(column.unique),
                "description": column.description,
                "categories": list(getattr(column.dtype, "categories", None) or []) or None,
                "checks": {c.name: dict(c.statistics or {}) for c in column.checks or []},
            }
        return Node({"schema_type": "dataframe", "title": schema.title, "columns": columns})

    def read(self, doc: Node, table: str | None) -> Draft:
        """Columns by their dtypes, with the bounds and values of their checks."""
        found = Draft()
        found.read_title(doc)
        for name, about in doc.at("columns").pairs():
            self._read_column(found, name, about)
        if "checks" in doc and doc.at("checks").value:
            found.notes.append("checks of the whole frame are not read")
        return found

    def _read_column(self, found: Draft, name: str, about: Node) -> None:
        node = about.at("checks", {})
        # An object of checks, or the list of newer versions.
        if isinstance(node.value, list):
            checks = {one.at("options", {}).text("check_name"): one for one in node.items()}
        else:
            checks = dict(node.pairs())
        dtype = about.text("dtype", "object").lower()
        facts: dict[str, Any] = {
            "nullable": about.flag("nullable", False) or None,
            "description": about.text("description", "") or None,
        }
        values = about.scalars("categories") if "categories" in about else None
        if "isin" in checks:
            values = [item.value for item in _only(checks["isin"], "allowed_values").items()]
        ends: dict[str, Any] = {}
        for check, node in checks.items():
            if check in ("greater_than_or_equal_to", "ge"):
                ends["lower"] = _only(node, "min_value").value
            elif check in ("less_than_or_equal_to", "le"):
                ends["upper"] = _only(node, "max_value").value
            elif check in ("in_range", "between"):
                ends |= {"lower": node.at("min_value").value, "upper": node.at("max_value").value}
            elif check == "greater_than" and "int" in dtype:
                ends["lower"] = _only(node, "min_value").value + 1
            elif check == "less_than" and "int" in dtype:
                ends["upper"] = _only(node, "max_value").value - 1
            elif check != "isin":
                found.notes.append(f"check {check!r} of column {name!r} is not read")
        kind: str | None = "categorical"
        if values is not None:
            pass
        elif dtype in ("bool", "boolean"):
            kind = "boolean"
        elif "int" in dtype and "interval" not in dtype:
            kind = "integer"
        elif dtype.startswith(("float", "double", "decimal", "number")):
            kind = "continuous"
        elif dtype.startswith("date"):
            kind = "date" if dtype in ("date", "date32") else "datetime"
            ends = {key: str(value)[:19].replace("T", " ") for key, value in ends.items()}
        elif about.flag("unique", False):
            kind = None
        found.add(name, kind, about.path, values=values, why="an identifier", **ends, **facts)

    def write(self, schema: Schema) -> Any:
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

    def losses(self, schema: Schema) -> list[str]:
        found = []
        names = [c.name for c in schema.columns if c.kind in LISTED and c.has_other]
        if names:
            found.append(f"the categories of {', '.join(names)}: a check would forbid other values")
        times = [c.name for c in schema.columns if c.kind in TIMES]
        if times:
            found.append(f"formats and bounds of {', '.join(times)}")
        return found


def _only(node: Node, key: str) -> Node:
    """A check's one value: it stands alone, or under its own name or ``value``."""
    if isinstance(node.value, dict):
        return node.at(key) if key in node else node.at("value")
    return node


def _written(column: Any) -> dict[str, Any]:
    checks: dict[str, Any] = {}
    # Rows have times as texts, in the column's own format.
    dtype = "str"
    if column.kind in LISTED:
        plain = {int: "int64", float: "float64"}.get(only_type(column.values))
        values = list(column.values) if plain else [str(value) for value in column.values]
        dtype = plain or "str"
        if not column.has_other:
            checks["isin"] = values
    elif column.kind == "boolean" and only_type(column.values) is bool:
        dtype = "bool"
    elif column.kind == "boolean":
        checks["isin"] = [str(value) for value in column.values]
    elif column.kind in NUMERIC:
        dtype = "int64" if column.kind == "integer" else "float64"
        checks = {"greater_than_or_equal_to": column.lower, "less_than_or_equal_to": column.upper}
    if column.nullable:
        dtype = {"int64": "Int64", "bool": "boolean"}.get(dtype, dtype)
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


_KINDS = {"boolean": "boolean", "integer": "integer", "number": "continuous"}
_TIMES = {
    "date": ("date", "%Y-%m-%d"),
    "time": ("time", "%H:%M:%S"),
    "date-time": ("datetime", "%Y-%m-%dT%H:%M:%S"),
}


class Pydantic(SchemaFormat):
    """Pydantic models and the JSON Schema that they write; they are read, not written."""

    about = "a pydantic model (module:object), or its JSON Schema"

    def recognise(self, value: Any) -> bool:
        return isinstance(value, dict) and "properties" in value

    def of_object(self, source: Any) -> Node:
        """A pydantic model as JSON Schema."""
        return Node(source.model_json_schema())

    def read(self, doc: Node, table: str | None) -> Draft:
        """The properties of an object as columns."""
        found = Draft()
        found.read_title(doc)
        shared = doc.at("$defs", doc.mapping().get("definitions") or {})
        for name, about in doc.at("properties").pairs():
            self._read_property(found, name, about, shared)
        return found

    def _read_property(self, found: Draft, name: str, about: Node, shared: Node) -> None:
        node, nullable = _resolved(about, shared)
        sort = node.mapping().get("type")
        kind, why = _KINDS.get(sort) if isinstance(sort, str) else None, f"type {sort!r}"
        description = about.text("description", "") or node.text("description", "")
        facts: dict[str, Any] = {"nullable": nullable or None, "description": description or None}
        if "enum" in node or "const" in node:
            kind = "categorical"
            facts["values"] = node.scalars("enum") if "enum" in node else [node.at("const").value]
        elif kind in NUMERIC:
            step = 1 if kind == "integer" else 0
            for end, closed, open_, inward in (
                ("lower", "minimum", "exclusiveMinimum", step),
                ("upper", "maximum", "exclusiveMaximum", -step),
            ):
                value, beyond = node.number(closed), node.number(open_)
                facts[end] = value if value is not None or beyond is None else beyond + inward
        elif sort == "string":
            form = node.text("format", "")
            kind, facts["format"] = _TIMES.get(form, ("categorical", None))
            if form in ("uuid", "email", "uri"):
                kind, why = None, "an identifier"
        found.add(name, kind, about.path, why=why, **facts)


def _resolved(about: Node, shared: Node) -> tuple[Node, bool]:
    """What a property is, its reference followed, and whether it may be null."""
    nullable = False
    for _ in range(20):
        if "$ref" in about:
            about = shared.at(about.text("$ref").rpartition("/")[2])
            if about.value is None:
                raise about.wrong("a definition of the file")
        elif "anyOf" in about or "oneOf" in about:
            options = about.at("anyOf" if "anyOf" in about else "oneOf").items()
            kept = [one for one in options if one.mapping().get("type") != "null"]
            nullable = nullable or len(kept) < len(options)
            if len(kept) != 1:
                return Node({"type": "several"}, about.path), nullable
            about = kept[0]
        elif "allOf" in about and len(about.at("allOf").items()) == 1:
            about = about.at("allOf").items()[0]
        else:
            break
    sort = about.mapping().get("type")
    if isinstance(sort, list):
        kinds = [one for one in sort if one != "null"]
        nullable = nullable or len(kinds) < len(sort)
        sort = kinds[0] if len(kinds) == 1 else "several"
        about = Node({**about.mapping(), "type": sort}, about.path)
    return about, nullable
