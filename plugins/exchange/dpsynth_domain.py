"""dpsynth's domain: a YAML file of categorical and numerical attributes (google/dpsynth)."""

from __future__ import annotations

from typing import Any

from marginalsyn.plugins.exchange.drafts import LISTED, NUMERIC, Draft, listed
from marginalsyn.plugins.exchange.nodes import Node
from marginalsyn.table.schema import Schema

SAYS = ("bounds", "values", "other", "description", "true-false", "nullable")
# Every field of an attribute is an argument of its class there, so a comment carries the rest.
EXTENSION = ""
_TYPES = {
    "CategoricalAttribute": "possible_values",
    "NumericalAttribute": "min_value",
    "FreeFormTextAttribute": "max_tokens",
    "OpenSetCategoricalAttribute": "default_value",
}


def recognise(doc: Node) -> bool:
    keys = {*_TYPES.values(), "type"}
    return (
        isinstance(doc.value, dict)
        and bool(doc.value)
        and all(isinstance(one, dict) and keys & set(one) for one in doc.value.values())
    )


def read(doc: Node, table: str | None) -> Draft:
    """Attributes as columns. Unknown values go where ``out_of_domain_index`` points."""
    del table
    found = Draft()
    for name, about in doc.pairs():
        kind = about.text("type", "")
        if not kind:
            kind = next((known for known, key in _TYPES.items() if key in about), "")
        told = about.text("description", "") or None
        if kind == "CategoricalAttribute":
            _categorical(found, name, about, told)
        elif kind == "NumericalAttribute":
            whole = about.text("dtype", "float") == "int"
            found.add(
                name,
                "integer" if whole else "continuous",
                about.path,
                lower=about.number("min_value"),
                upper=about.number("max_value"),
                nullable=None if about.flag("clip_to_range", True) else True,
                description=told,
            )
        elif kind == "OpenSetCategoricalAttribute":
            known = (
                about.scalars("public_possible_values") if "public_possible_values" in about else []
            )
            label = about.text("default_value", "<OOD>")
            found.add(
                name, "categorical", about.path, categories=known or None, other_label=label,
                description=told,
            )  # fmt: skip
        elif kind == "FreeFormTextAttribute":
            found.leave_out(name, "free text")
        else:
            raise about.at("type", kind).wrong(f"one of {', '.join(_TYPES)}")
    return found


def _categorical(found: Draft, name: str, about: Node, told: str | None) -> None:
    values = about.scalars("possible_values")
    place = int(about.number("out_of_domain_index") or 0)
    if not 0 <= place < max(len(values), 1):
        raise about.at("out_of_domain_index").wrong("a place in possible_values")
    kind = listed(values)
    extra: dict[str, Any] = {} if kind["kind"] == "boolean" else {"other": False}
    if place:
        # The first category takes unknown values where there is no OTHER; any other place is one.
        kind = {"kind": "categorical", "categories": [v for v in values if v != values[place]]}
        extra = {"other": True, "other_label": values[place]}
    found.add(name, kind.pop("kind"), about.path, description=told, **kind, **extra)


def write(schema: Schema) -> Any:
    """Attributes by name, their fields in dpsynth's order."""
    return {column.name: _attribute(column) for column in schema.columns}


def _attribute(column: Any) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if column.kind in NUMERIC and column.lower < column.upper:
        about = {
            "type": "NumericalAttribute",
            "min_value": float(column.lower),
            "max_value": float(column.upper),
            "clip_to_range": not column.nullable,
            "dtype": "int" if column.kind == "integer" else "float",
        }
    elif column.kind in (*LISTED, "boolean") or column.kind in NUMERIC:
        values = list(column.values) if column.kind not in NUMERIC else [column.lower]
        index = 0
        if column.has_other:
            index = len(values)
            values.append(column.other_label)
        if len(set(map(type, values))) > 1:
            values = [str(value) for value in values]
        about = {"type": "CategoricalAttribute", "possible_values": values}
        about["out_of_domain_index"] = index
    else:
        about = {"type": "CategoricalAttribute", "possible_values": list(column.labels())}
        about["out_of_domain_index"] = 0
    if column.description:
        about["description"] = column.description
    return about


def losses(schema: Schema) -> list[str]:
    """A categorical attribute has no missing value."""
    names = [c.name for c in schema.columns if c.nullable and c.kind not in NUMERIC]
    return [f"missing values of {', '.join(names)}"] if names else []
