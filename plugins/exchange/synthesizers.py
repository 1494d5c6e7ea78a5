"""Schemas of other synthesizers: mbi's and dpsynth's domains, and SDV's metadata."""

from __future__ import annotations

import re
from typing import Any

from marginalsyn.plugins.exchange.drafts import LISTED, NUMERIC, Draft, Node, SchemaFormat
from marginalsyn.table.schema import Schema


class MbiDomain(SchemaFormat):
    """A JSON object of column names and numbers of codes."""

    about = "mbi's domain (JSON)"
    says = None

    def recognise(self, value: Any) -> bool:
        return (
            isinstance(value, dict)
            and bool(value)
            and all(isinstance(n, int) and not isinstance(n, bool) for n in value.values())
        )

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

    def recognise(self, value: Any) -> bool:
        keys = {*_ATTRIBUTES.values(), "type"}
        return (
            isinstance(value, dict)
            and bool(value)
            and all(isinstance(one, dict) and keys & set(one) for one in value.values())
        )

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

    def recognise(self, value: Any) -> bool:
        return isinstance(value, dict) and "METADATA_SPEC_VERSION" in value

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
