"""Tables described for the web, as JSON: CSV on the Web (W3C), Frictionless Table Schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

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

CSVW_CONTEXT = "http://www.w3.org/ns/csvw"
# What a datatype of CSV on the Web is here.
_KINDS = {
    "boolean": "boolean",
    **dict.fromkeys(
        (
            "integer", "long", "int", "short", "byte", "nonNegativeInteger", "positiveInteger",
            "gYear", "nonPositiveInteger", "negativeInteger", "unsignedLong", "unsignedInt",
            "unsignedShort", "unsignedByte",
        ),
        "integer",
    ),
    **dict.fromkeys(("number", "decimal", "double", "float"), "continuous"),
    **dict.fromkeys(("dateTime", "datetime", "dateTimeStamp"), "datetime"),
    "date": "date",
    "time": "time",
    **dict.fromkeys(("string", "normalizedString", "token", "anyAtomicType", "any"), "categorical"),
}  # fmt: skip
_OWN_RANGES = {"byte": (-128, 127), "unsignedByte": (0, 255)}
_PATTERNS = {
    "date": "yyyy-MM-dd",
    "dateTime": "yyyy-MM-ddTHH:mm:ss",
    "datetime": "yyyy-MM-ddTHH:mm:ss",
    "dateTimeStamp": "yyyy-MM-ddTHH:mm:ssX",
    "time": "HH:mm:ss",
}
_PARTS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "X": "%z"}


class Csvw(SchemaFormat):
    """JSON metadata of a table, its columns with datatypes and limits."""

    about = "CSV on the Web (JSON)"
    says = (
        "bounds", "times", "values", "nullable", "description", "true-false", "title",
        "missing_tokens",
    )  # fmt: skip
    # Notes are annotations of any shape.
    extension = "notes"

    def recognise(self, value: Mapping[str, Any]) -> bool:
        return "tableSchema" in value or CSVW_CONTEXT in str(value.get("@context"))

    def read(self, doc: Node, table: str | None) -> Draft:
        """The columns of one table; virtual ones, which are in no file, are passed over."""
        if "tables" in doc:
            doc = doc.one_of("tables", "url", table)
        found = Draft()
        title = doc.mapping().get("dc:title")
        if isinstance(title, str):
            found.fields["title"] = title
        shape = doc.at("tableSchema")
        nulls = shape.mapping().get("null", doc.mapping().get("null"))
        if nulls is not None:
            tokens = [nulls] if isinstance(nulls, str) else nulls
            found.fields["missing_tokens"] = tuple(str(token) for token in tokens)
        for one in shape.at("columns").items():
            if not one.flag("virtual", False):
                self._read_column(found, one)
        return found

    def _read_column(self, found: Draft, one: Node) -> None:
        description = one.mapping().get("dc:description")
        datatype = one.at("datatype", "string")
        if isinstance(datatype.value, str):
            datatype = Node({"base": datatype.value}, datatype.path)
        base = datatype.text("base", "string")
        kind = _KINDS.get(base)
        low, high = _OWN_RANGES.get(base, (None, None))
        facts: dict[str, Any] = {
            "nullable": None if one.flag("required", False) else True,
            "description": description if isinstance(description, str) else None,
            "lower": _limit(datatype, ("minimum", "minInclusive"), kind, low),
            "upper": _limit(datatype, ("maximum", "maxInclusive"), kind, high),
        }
        if kind == "boolean":
            true, _, false = datatype.text("format", "true|false").partition("|")
            if (true.lower(), false.lower()) != ("true", "false"):
                facts |= {"true_label": true, "false_label": false}
        elif kind in TIMES:
            facts["format"] = _strftime(datatype, datatype.text("format", _PATTERNS[base]))
        elif kind == "categorical":
            facts["values"] = _alternatives(datatype.text("format", "")) or None
        found.add(_name_in_file(one), kind, one.path, why=f"datatype {base!r}", **facts)

    def write(self, schema: Schema) -> Any:
        doc: dict[str, Any] = {"@context": CSVW_CONTEXT, "url": "synthetic.csv"}
        if schema.title:
            doc["dc:title"] = schema.title
        doc["tableSchema"] = {
            "columns": [csvw_column(column) for column in schema.columns],
            "null": list(schema.missing_tokens),
        }
        return doc

    def losses(self, schema: Schema) -> list[str]:
        names = [c.name for c in schema.columns if c.kind in LISTED and c.has_other]
        if not names:
            return []
        return [f"the categories of {', '.join(names)}: a pattern would forbid other values"]


def _name_in_file(one: Node) -> str:
    """The title that heads the column in the file, else its name."""
    titles = one.mapping().get("titles")
    if isinstance(titles, dict):
        titles = next(iter(titles.values()), None)
    if isinstance(titles, list):
        titles = titles[0] if titles else None
    return titles if isinstance(titles, str) else unquote(one.text("name"))


def _limit(node: Node, keys: tuple[str, ...], kind: str | None, known: Any = None) -> Any:
    for key in keys:
        if key in node:
            return node.text(key) if kind in TIMES else node.number(key)
    return known


def _strftime(datatype: Node, pattern: str) -> str:
    text = re.sub("yyyy|MM|dd|HH|mm|ss|X", lambda part: _PARTS[part[0]], pattern)
    if re.search("[A-Za-z]", re.sub("%[YmdHMSz]|T", "", text)):
        raise datatype.at("format").wrong("a date pattern of yyyy, MM, dd, HH, mm and ss")
    return text


def _alternatives(pattern: str) -> list[str]:
    """The texts that a regular expression lists; none where it is anything else."""
    body = pattern.removeprefix("^").removesuffix("$")
    if body.startswith("(") and body.endswith(")"):
        body = body[1:-1].removeprefix("?:")
    parts = re.split(r"(?<!\\)\|", body)
    plain = [re.sub(r"\\(.)", r"\1", part) for part in parts]
    exact = all(part in (text, re.escape(text)) for text, part in zip(plain, parts, strict=True))
    simple = not any(re.search(r"(?<!\\)[.*+?()\[\]{}^$]", part) for part in parts)
    return plain if body and exact and simple else []


def csvw_column(column: Any) -> dict[str, Any]:
    """The metadata of one column, as files that are written here have it."""
    about: dict[str, Any] = {"titles": column.name, "name": quote(column.name, safe="")}
    if column.description:
        about["dc:description"] = column.description
    if column.kind in ("identifier", "constant"):
        whole = column.kind == "identifier" and column.pattern == "{n}"
        return {**about, "datatype": "integer" if whole else "string"}
    about["required"] = not column.nullable
    datatype: dict[str, Any]
    if column.kind in LISTED:
        if column.has_other:
            datatype = {"base": "string"}
        elif only_type(column.values) is int:
            low, high = min(column.values), max(column.values)
            datatype = {"base": "integer", "minimum": low, "maximum": high}
        else:
            texts = [re.escape(str(value)) for value in column.values]
            datatype = {"base": "string", "format": "^(" + "|".join(texts) + ")$"}
    elif column.kind == "boolean":
        datatype = {"base": "boolean", "format": f"{column.true_label}|{column.false_label}"}
    elif column.kind in NUMERIC:
        base = "integer" if column.kind == "integer" else "number"
        datatype = {"base": base, "minimum": column.lower, "maximum": column.upper}
    else:
        data = column.model_dump(mode="json")
        base = {"datetime": "dateTime"}.get(column.kind, column.kind)
        datatype = {"base": base, "minimum": data["lower"], "maximum": data["upper"]}
        pattern = column.format
        for part, directive in _PARTS.items():
            pattern = pattern.replace(directive, part)
        datatype = {"base": "string"} if "%" in pattern else {**datatype, "format": pattern}
    return {**about, "datatype": datatype}


_FORMATS = {"date": "%Y-%m-%d", "datetime": "%Y-%m-%dT%H:%M:%S", "time": "%H:%M:%S"}
_TYPES = {
    "boolean": "boolean",
    "integer": "integer",
    "year": "integer",
    "number": "continuous",
    "string": "categorical",
    **{kind: kind for kind in TIMES},
}


class Frictionless(SchemaFormat):
    """JSON with types and constraints (Data Package, versions 1 and 2)."""

    about = "Frictionless Table Schema (JSON)"
    says = (
        "bounds", "times", "values", "order", "other", "nullable", "description", "true-false",
        "title", "missing_tokens",
    )  # fmt: skip
    # Properties of software are private there, and begin with an underscore.
    extension = "_marginalsyn"

    def recognise(self, value: Mapping[str, Any]) -> bool:
        return "fields" in value or "resources" in value

    def read(self, doc: Node, table: str | None) -> Draft:
        """The fields of a Table Schema, alone or in a data resource of a package."""
        if "resources" in doc:
            doc = doc.one_of("resources", "name", table).at("schema")
        elif "schema" in doc:
            doc = doc.at("schema")
        found = Draft()
        found.read_title(doc)
        if "missingValues" in doc:
            tokens = _plain_values(doc.at("missingValues"))
            found.fields["missing_tokens"] = tuple(map(str, tokens))
        for one in doc.at("fields").items():
            self._read_field(found, one)
        return found

    def _read_field(self, found: Draft, one: Node) -> None:
        name, sort = one.text("name"), one.text("type", "any")
        kind, why = _TYPES.get(sort), f"type {sort!r}"
        limits = one.at("constraints", {})
        facts: dict[str, Any] = {
            "description": one.text("description", "") or None,
            "nullable": None if limits.flag("required", False) else True,
            "lower": _limit(limits, ("minimum",), kind),
            "upper": _limit(limits, ("maximum",), kind),
        }
        values = _plain_values(one.at("categories")) if "categories" in one else None
        if values is None and "enum" in limits:
            values = limits.scalars("enum")
        if kind == "boolean":
            for label, key, usual in (
                ("true_label", "trueValues", True),
                ("false_label", "falseValues", False),
            ):
                facts[label] = one.at(key, [usual]).items()[0].value
        elif values is not None:
            kind = "ordinal" if one.flag("categoriesOrdered", False) else "categorical"
            facts |= {"values": values, "other": "enum" not in limits}
        elif kind in TIMES:
            form = one.text("format", "default")
            facts["format"] = _FORMATS[sort] if form in ("default", "any") else form
        elif kind == "categorical":
            named = one.text("format", "default") in ("uuid", "email", "uri")
            if limits.flag("unique", False) or named:
                kind, why = None, "an identifier"
        found.add(name, kind, one.path, why=why, **facts)

    def write(self, schema: Schema) -> Any:
        """A Table Schema of version 2."""
        doc: dict[str, Any] = {"$schema": "https://datapackage.org/profiles/2.0/tableschema.json"}
        if schema.title:
            doc["title"] = schema.title
        doc["fields"] = [_written_field(column) for column in schema.columns]
        doc["missingValues"] = list(schema.missing_tokens)
        return doc

    def losses(self, schema: Schema) -> list[str]:
        listed = [c for c in schema.columns if c.kind in LISTED]
        names = [c.name for c in listed if c.other_label != "OTHER"]  # type: ignore[union-attr]
        return [f"the label of other values of {', '.join(names)}"] if names else []


def _plain_values(node: Node) -> list[Any]:
    """The items of a list; of an item with a label, its value."""
    return [
        item.at("value").value if isinstance(item.value, dict) else item.value
        for item in node.items()
    ]


def _written_field(column: Any) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if not column.nullable:
        limits["required"] = True
    about: dict[str, Any] = {"name": column.name}
    if column.kind in LISTED:
        values = list(column.values)
        kind = {int: "integer", float: "number"}.get(only_type(values), "string")
        about["type"] = kind
        if kind == "string":
            truths = only_type(values) is bool
            values = [str(v).lower() if truths else str(v) for v in values]
        # Version 2 has categories of texts and whole numbers only.
        if kind != "number":
            about["categories"] = values
            about["categoriesOrdered"] = column.kind == "ordinal"
        if not column.has_other or kind == "number":
            limits["enum"] = values
    elif column.kind == "boolean":
        about["type"] = "boolean"
        if (column.true_label, column.false_label) != (True, False):
            about["trueValues"] = [str(column.true_label)]
            about["falseValues"] = [str(column.false_label)]
    elif column.kind in NUMERIC:
        about["type"] = "integer" if column.kind == "integer" else "number"
        limits |= {"minimum": column.lower, "maximum": column.upper}
    else:
        data = column.model_dump(mode="json")
        about |= {"type": column.kind, "format": column.format}
        limits |= {"minimum": data["lower"], "maximum": data["upper"]}
    if column.description:
        about["description"] = column.description
    return {**about, "constraints": limits} if limits else about
