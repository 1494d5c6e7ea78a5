"""Pydantic models and the JSON Schema that they write."""

from __future__ import annotations

from typing import Any

from marginalsyn.plugins.exchange.drafts import Draft, listed
from marginalsyn.plugins.exchange.nodes import Node

_TIMES = {"date": ("date", "%Y-%m-%d"), "time": ("time", "%H:%M:%S"),
          "date-time": ("datetime", "%Y-%m-%dT%H:%M:%S")}  # fmt: skip


def recognise(doc: Node) -> bool:
    return isinstance(doc.value, dict) and "properties" in doc.value


def of_object(model: Any) -> Node:
    """A pydantic model as JSON Schema."""
    return Node(model.model_json_schema())


def read(doc: Node, table: str | None) -> Draft:
    """The properties of an object as columns."""
    del table
    found = Draft()
    if "title" in doc:
        found.fields["title"] = doc.text("title")
    shared = doc.at("$defs", doc.mapping().get("definitions") or {})
    for name, about in doc.at("properties").pairs():
        _column(found, name, about, shared)
    return found


def _column(found: Draft, name: str, about: Node, shared: Node) -> None:
    kind, nullable = _resolved(about, shared)
    told = about.text("description", "") or kind.text("description", "")
    extra: dict[str, Any] = {"nullable": nullable or None, "description": told or None}
    sort, place = kind.mapping().get("type"), about.path
    if "enum" in kind or "const" in kind:
        values = kind.scalars("enum") if "enum" in kind else [kind.at("const").value]
        listing = listed(values)
        if listing["kind"] == "categorical":
            listing["other"] = False
        found.add(name, listing.pop("kind"), place, **listing, **extra)
    elif sort == "boolean":
        found.add(name, "boolean", place, **extra)
    elif sort in ("integer", "number"):
        step = 1 if sort == "integer" else 0
        low, high = kind.number("minimum"), kind.number("maximum")
        above, below = kind.number("exclusiveMinimum"), kind.number("exclusiveMaximum")
        low = low if low is not None or above is None else above + step
        high = high if high is not None or below is None else below - step
        number = "integer" if sort == "integer" else "continuous"
        found.add(name, number, place, lower=low, upper=high, **extra)
    elif sort == "string" and kind.text("format", "") in _TIMES:
        moment, form = _TIMES[kind.text("format")]
        found.add(name, moment, place, format=form, **extra)
    elif sort == "string" and kind.text("format", "") in ("uuid", "email", "uri"):
        found.leave_out(name, "an identifier")
    elif sort == "string":
        found.add(name, "categorical", place, **extra)
    else:
        found.leave_out(name, f"type {sort!r}")


def _resolved(about: Node, shared: Node) -> tuple[Node, bool]:
    """What a property is, its reference followed, and whether it may be null."""
    nullable, seen = False, 0
    while seen < 20:
        seen += 1
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
        about = Node(
            {**about.mapping(), "type": kinds[0] if len(kinds) == 1 else "several"}, about.path
        )
    return about, nullable
