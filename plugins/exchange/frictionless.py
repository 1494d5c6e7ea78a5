"""Frictionless Table Schema (Data Package, versions 1 and 2): JSON with types and constraints."""

from __future__ import annotations

from typing import Any

from marginalsyn.plugins.exchange.drafts import LISTED, NUMERIC, Draft, listed
from marginalsyn.plugins.exchange.nodes import Node
from marginalsyn.table.schema import Schema

SAYS = (
    "bounds", "times", "values", "order", "other", "nullable", "description", "true-false", "title",
    "missing_tokens",
)  # fmt: skip
# Properties of software are private there, and begin with an underscore.
EXTENSION = "_marginalsyn"
_FORMATS = {"date": "%Y-%m-%d", "datetime": "%Y-%m-%dT%H:%M:%S", "time": "%H:%M:%S"}


def recognise(doc: Node) -> bool:
    return isinstance(doc.value, dict) and ("fields" in doc.value or "resources" in doc.value)


def read(doc: Node, table: str | None) -> Draft:
    """The fields of a Table Schema, alone or in a data resource of a package."""
    if "resources" in doc:
        doc = doc.one_of("resources", "name", table).at("schema")
    elif "schema" in doc:
        doc = doc.at("schema")
    found = Draft()
    if "title" in doc:
        found.fields["title"] = doc.text("title")
    if "missingValues" in doc:
        found.fields["missing_tokens"] = tuple(
            str(one.at("value").value) if isinstance(one.value, dict) else str(one.value)
            for one in doc.at("missingValues").items()
        )
    for one in doc.at("fields").items():
        _field(found, one)
    return found


def _field(found: Draft, one: Node) -> None:
    name, kind = one.text("name"), one.text("type", "any")
    limits = one.at("constraints", {})
    about: dict[str, Any] = {
        "description": one.text("description", "") or None,
        "nullable": None if limits.flag("required", False) else True,
    }
    ends = {"lower": _end(limits, "minimum", kind), "upper": _end(limits, "maximum", kind)}
    values = _values(one, limits)
    place = one.path
    if kind == "boolean":
        true, false = one.at("trueValues", [True]), one.at("falseValues", [False])
        first = {"true_label": true.items()[0].value, "false_label": false.items()[0].value}
        found.add(name, "boolean", place, **first, **about)
    elif values is not None:
        ordered = one.flag("categoriesOrdered", False)
        told = listed(values)
        closed = "enum" in limits
        if told["kind"] == "categorical":
            told["other"] = not closed
            told["kind"] = "ordinal" if ordered else "categorical"
        found.add(name, told.pop("kind"), place, **told, **about)
    elif kind in ("integer", "year"):
        found.add(name, "integer", place, **ends, **about)
    elif kind == "number":
        found.add(name, "continuous", place, **ends, **about)
    elif kind in _FORMATS:
        form = one.text("format", "default")
        form = _FORMATS[kind] if form in ("default", "any") else form
        found.add(name, kind, place, format=form, **ends, **about)
    elif kind == "string":
        if limits.flag("unique", False) or one.text("format", "default") in (
            "uuid",
            "email",
            "uri",
        ):
            found.leave_out(name, "an identifier")
        else:
            found.add(name, "categorical", place, **about)
    else:
        found.leave_out(name, f"type {kind!r}")


def _end(limits: Node, key: str, kind: str) -> Any:
    if key not in limits:
        return None
    return limits.text(key) if kind in _FORMATS else limits.number(key)


def _values(one: Node, limits: Node) -> list[Any] | None:
    if "categories" in one:
        items = one.at("categories").items()
        return [
            item.at("value").value if isinstance(item.value, dict) else item.value for item in items
        ]
    return limits.scalars("enum") if "enum" in limits else None


def write(schema: Schema) -> Any:
    """A Table Schema of version 2."""
    doc: dict[str, Any] = {"$schema": "https://datapackage.org/profiles/2.0/tableschema.json"}
    if schema.title:
        doc["title"] = schema.title
    doc["fields"] = [_written(column) for column in schema.columns]
    doc["missingValues"] = list(schema.missing_tokens)
    return doc


def _written(column: Any) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if not column.nullable:
        limits["required"] = True
    about: dict[str, Any] = {"name": column.name}
    data = column.model_dump(mode="json")
    if column.kind in LISTED:
        whole = {int: "integer", bool: "boolean", float: "number"}
        kinds = set(map(type, column.values))
        kind = whole.get(next(iter(kinds)), "string") if len(kinds) == 1 else "string"
        values = [str(v) for v in column.values] if kind == "string" else list(column.values)
        about["type"] = "string" if kind == "boolean" else kind
        # Version 2 has categories of texts and whole numbers only.
        if about["type"] in ("string", "integer"):
            about["categories"] = values if kind != "boolean" else [str(v).lower() for v in values]
            about["categoriesOrdered"] = column.kind == "ordinal"
        if not column.has_other or about["type"] == "number":
            limits["enum"] = about.get("categories", values)
    elif column.kind == "boolean":
        about["type"] = "boolean"
        if (column.true_label, column.false_label) != (True, False):
            about["trueValues"] = [str(column.true_label)]
            about["falseValues"] = [str(column.false_label)]
    elif column.kind in NUMERIC:
        about["type"] = "integer" if column.kind == "integer" else "number"
        limits |= {"minimum": column.lower, "maximum": column.upper}
    else:
        about |= {"type": column.kind, "format": column.format}
        limits |= {"minimum": data["lower"], "maximum": data["upper"]}
    if column.description:
        about["description"] = column.description
    return {**about, "constraints": limits} if limits else about


def losses(schema: Schema) -> list[str]:
    names = [c.name for c in schema.columns if getattr(c, "other_label", "OTHER") != "OTHER"]
    return [f"the label of other values of {', '.join(names)}"] if names else []
