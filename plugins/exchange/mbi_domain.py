"""mbi's domain: a JSON object of column names and numbers of codes."""

from __future__ import annotations

from typing import Any

from marginalsyn.plugins.exchange.drafts import Draft
from marginalsyn.plugins.exchange.nodes import Node
from marginalsyn.table.schema import Schema

SAYS = ("bounds",)
EXTENSION = ""


def recognise(doc: Node) -> bool:
    value = doc.value
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(n, int) and not isinstance(n, bool) for n in value.values())
    )


def read(doc: Node, table: str | None) -> Draft:
    """Every column is a whole number from 0, one bin a code."""
    del table
    found = Draft()
    for name, size in doc.pairs():
        if not isinstance(size.value, int) or isinstance(size.value, bool) or size.value < 1:
            raise size.wrong("a number of codes, at least 1")
        count = size.value
        found.add(name, "integer", size.path, lower=0, upper=count - 1, bins=count)
    return found


def write(schema: Schema) -> Any:
    """The numbers of codes; what codes mean is not said."""
    return schema.domain


def losses(schema: Schema) -> list[str]:
    """What the codes stand for, wherever it is not the number itself."""
    plain = Schema.from_domain(schema.domain)
    changed = [c.name for c, d in zip(schema.columns, plain.columns, strict=True) if c != d]
    return [f"what the codes stand for, of {', '.join(changed)}"] if changed else []
