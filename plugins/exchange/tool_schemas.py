"""Schemas of Python tools: mbi's and dpsynth's domains, SDV's metadata, pandera and pydantic."""

from __future__ import annotations

import re
from collections.abc import Mapping
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


class MbiDomain(SchemaFormat):
    """A JSON object of column names and numbers of codes."""

    about = "mbi's domain (JSON)"
    says = None

    def recognise(self, value: Mapping[str, Any]) -> bool:
        return all(isinstance(n, int) and not isinstance(n, bool) for n in value.values())

    def read(self, doc: Node, table: str | None) -> Draft:
        """Every column is a whole number from 0, one bin a code."""
        found = Draft()
        for name, size in doc.pairs():
            count = size.value
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                raise size.wrong("a number of codes, at least 1")
            found.add(name, "integer", size.path, lower=0, upper=count - 1, bins=count)
        return found

    def write(self, schema: Schema) -> Any:
        """The numbers of codes; what codes mean is not said."""
        return schema.domain

    def losses(self, schema: Schema) -> list[str]:
        """What the codes stand for, wherever it is not the number itself."""
        plain = Schema.from_domain(schema.domain)
        changed = [c.name for c, d in zip(schema.columns, plain.columns, strict=True) if c != d]
        return [f"what the codes stand for, of {', '.join(changed)}"] if changed else []


# Each class of attribute, with a key that only it has.
_ATTRIBUTES = {
    "CategoricalAttribute": "possible_values",
    "NumericalAttribute": "min_value",
    "FreeFormTextAttribute": "max_tokens",
    "OpenSetCategoricalAttribute": "default_value",
}


class DpsynthDomain(SchemaFormat):
    """A YAML file of categorical and numerical attributes (google/dpsynth).

    Every field of an attribute is an argument of its class there, so a comment carries the rest.
    """

    about = "dpsynth's domain (YAML)"
    yaml = True
    says = ("bounds", "values", "other", "description", "true-false", "nullable")

    def recognise(self, value: Mapping[str, Any]) -> bool:
        keys = {*_ATTRIBUTES.values(), "type"}
        return all(isinstance(one, dict) and keys & set(one) for one in value.values())

    def read(self, doc: Node, table: str | None) -> Draft:
        """Attributes as columns. Unknown values go where ``out_of_domain_index`` points."""
        found = Draft()
        for name, about in doc.pairs():
            kind = about.text("type", "")
            if not kind:
                kind = next((known for known, key in _ATTRIBUTES.items() if key in about), "")
            facts: dict[str, Any] = {"description": about.text("description", "") or None}
            sort: str | None = "categorical"
            if kind == "CategoricalAttribute":
                facts |= _possible_values(about)
            elif kind == "NumericalAttribute":
                sort = "integer" if about.text("dtype", "float") == "int" else "continuous"
                facts["lower"] = about.number("min_value")
                facts["upper"] = about.number("max_value")
                facts["nullable"] = None if about.flag("clip_to_range", True) else True
            elif kind == "OpenSetCategoricalAttribute":
                if "public_possible_values" in about:
                    facts["categories"] = about.scalars("public_possible_values") or None
                facts["other_label"] = about.text("default_value", "<OOD>")
            elif kind == "FreeFormTextAttribute":
                sort = None
            else:
                raise about.at("type", kind).wrong(f"one of {', '.join(_ATTRIBUTES)}")
            found.add(name, sort, about.path, why="free text", **facts)
        return found

    def write(self, schema: Schema) -> Any:
        """Attributes by name, their fields in dpsynth's order."""
        return {column.name: _attribute(column) for column in schema.columns}

    def losses(self, schema: Schema) -> list[str]:
        """A categorical attribute has no missing value."""
        names = [c.name for c in schema.columns if c.nullable and c.kind not in NUMERIC]
        return [f"missing values of {', '.join(names)}"] if names else []


def _possible_values(about: Node) -> dict[str, Any]:
    values = about.scalars("possible_values")
    place = int(about.number("out_of_domain_index") or 0)
    if not 0 <= place < max(len(values), 1):
        raise about.at("out_of_domain_index").wrong("a place in possible_values")
    if not place:
        return {"values": values}
    # The first category takes unknown values where there is no OTHER; any other place is one.
    other = values[place]
    return {"categories": [v for v in values if v != other], "other": True, "other_label": other}


def _attribute(column: Any) -> dict[str, Any]:
    about: dict[str, Any]
    if column.kind in NUMERIC and column.lower < column.upper:
        about = {
            "type": "NumericalAttribute",
            "min_value": float(column.lower),
            "max_value": float(column.upper),
            "clip_to_range": not column.nullable,
            "dtype": "int" if column.kind == "integer" else "float",
        }
    else:
        index = 0
        if column.kind in NUMERIC:
            values = [column.lower]
        elif column.kind in (*LISTED, "boolean"):
            values = list(column.values)
            if column.has_other:
                index = len(values)
                values.append(column.other_label)
            if len(set(map(type, values))) > 1:
                values = [str(value) for value in values]
        else:
            values = list(column.labels())
        about = {"type": "CategoricalAttribute", "possible_values": values}
        about["out_of_domain_index"] = index
    if column.description:
        about["description"] = column.description
    return about


_VERSIONS = ("V1", "SINGLE_TABLE_V1", "MULTI_TABLE_V1")
_RANGES = {"Int8": (-128, 127), "UInt8": (0, 255)}
_CLOCK = re.compile("%[HIMSfpXTcs]")


class SdvMetadata(SchemaFormat):
    """JSON with a semantic type a column, and neither values nor bounds."""

    about = "SDV's metadata (JSON)"
    says = ("times", "title", "made columns")
    # SDV reads the keys that it knows of the whole file.
    extension = "x-marginalsyn"

    def recognise(self, value: Mapping[str, Any]) -> bool:
        return "METADATA_SPEC_VERSION" in value

    def read(self, doc: Node, table: str | None) -> Draft:
        """The columns of one table; identifiers and personal data are dropped."""
        version = doc.text("METADATA_SPEC_VERSION")
        if version not in _VERSIONS:
            raise doc.at("METADATA_SPEC_VERSION").wrong(f"one of {', '.join(_VERSIONS)}")
        found = Draft()
        if "tables" in doc:
            doc = doc.one_of("tables", "", table)
            found.fields["title"] = doc.path.partition(".")[2]
        for name, about in doc.at("columns").pairs():
            sdtype = about.text("sdtype")
            kind = sdtype if sdtype in ("categorical", "boolean") else None
            facts: dict[str, Any] = {}
            if sdtype == "numerical":
                stored = about.text("computer_representation", "Float")
                kind = "integer" if "Int" in stored else "continuous"
                facts["lower"], facts["upper"] = _RANGES.get(stored, (None, None))
            elif sdtype == "datetime":
                facts["format"] = about.text("datetime_format", "%Y-%m-%d")
                kind = "datetime" if _CLOCK.search(facts["format"]) else "date"
            why = f"sdtype {sdtype!r} stands for identifiers or personal data"
            found.add(name, kind, about.path, why=why, **facts)
        return found

    def write(self, schema: Schema) -> Any:
        """One table, whose columns have a semantic type each."""
        columns = {column.name: _sdtype(column) for column in schema.columns}
        for made in schema.made:
            columns[made.name] = {"sdtype": "id" if made.kind == "identifier" else "unknown"}
        return {
            "METADATA_SPEC_VERSION": "V1",
            "tables": {schema.title or "table": {"columns": columns, "column_relationships": []}},
            "relationships": [],
        }


def _sdtype(column: Any) -> dict[str, Any]:
    if column.kind in NUMERIC:
        stored = "Int64" if column.kind == "integer" else "Float"
        return {"sdtype": "numerical", "computer_representation": stored}
    if column.kind == "boolean" and set(map(type, column.values)) == {bool}:
        return {"sdtype": "boolean"}
    if column.kind in (*LISTED, "boolean"):
        return {"sdtype": "categorical"}
    return {"sdtype": "datetime", "datetime_format": column.format}


class Pandera(SchemaFormat):
    """The YAML or JSON that pandera writes, and its live objects."""

    about = "pandera's schema (YAML, JSON, or module:object)"
    yaml = True
    says = ("bounds", "times", "values", "nullable", "description", "title", "true-false")

    def recognise(self, value: Mapping[str, Any]) -> bool:
        return value.get("schema_type") == "dataframe"

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
        ends = {}
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
    checks = {}
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

    def recognise(self, value: Mapping[str, Any]) -> bool:
        return "properties" in value

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
