"""A value in somebody's file with its path, so that every complaint says where it is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from marginalsyn.errors import MissingExtraError, SchemaError
from marginalsyn.validation import shown


@dataclass(frozen=True)
class Node:
    """A value and where it stands.

    Example:
        >>> Node({"fields": [{"name": 3}]}).at("fields").items()[0].text("name")
        Traceback (most recent call last):
        marginalsyn.errors.SchemaError: fields[0].name (3) must be a text
    """

    value: Any
    path: str = ""

    def at(self, key: str, default: Any = None) -> Node:
        """The value under a key; the default where there is none."""
        found = self.mapping().get(key, default)
        return Node(default if found is None else found, f"{self.path}.{key}".lstrip("."))

    def __contains__(self, key: str) -> bool:
        return self.mapping().get(key) is not None

    def mapping(self) -> dict[str, Any]:
        if not isinstance(self.value, Mapping):
            raise self.wrong("an object")
        return dict(self.value)

    def pairs(self) -> Iterator[tuple[str, Node]]:
        """The entries of an object, in order."""
        for key, value in self.mapping().items():
            if not isinstance(key, str):
                raise SchemaError(f"{self.path or 'file'} ({shown(key)}) must have texts as keys")
            yield key, Node(value, f"{self.path}.{key}".lstrip("."))

    def items(self) -> list[Node]:
        """The items of a list."""
        if not isinstance(self.value, list | tuple):
            raise self.wrong("a list")
        return [Node(item, f"{self.path}[{place}]") for place, item in enumerate(self.value)]

    def text(self, key: str, default: str | None = None) -> str:
        found = self.at(key, default)
        if not isinstance(found.value, str):
            raise found.wrong("a text")
        return found.value

    def flag(self, key: str, default: bool) -> bool:
        found = self.at(key, default)
        if not isinstance(found.value, bool):
            raise found.wrong("true or false")
        return found.value

    def number(self, key: str) -> int | float | None:
        """A number, also where it is written as a text; None where there is none."""
        if key not in self:
            return None
        found = self.at(key)
        try:
            if isinstance(found.value, bool):
                raise ValueError
            number = float(found.value)
            if not math.isfinite(number):
                raise ValueError
        except (TypeError, ValueError):
            raise found.wrong("a number") from None
        return int(number) if number.is_integer() and abs(number) < 2**53 else number

    def scalars(self, key: str) -> list[Any]:
        """A list of texts, numbers or booleans."""
        for item in self.at(key).items():
            if not isinstance(item.value, str | int | float | bool):
                raise item.wrong("a text, a number, true or false")
        return list(self.at(key).value)

    def one_of(self, key: str, name: str, chosen: str | None) -> Node:
        """One of the things that are listed under a key: the only one, or the one chosen."""
        listed = self.at(key)
        if isinstance(listed.value, list):
            named = {one.text(name, f"#{n}"): one for n, one in enumerate(listed.items())}
        else:
            named = dict(listed.pairs())
        if chosen is None and len(named) == 1:
            chosen = next(iter(named))
        if chosen not in named:
            raise SchemaError(f"{listed.path} must be chosen: --table is one of {', '.join(named)}")
        return named[chosen]

    def wrong(self, what: str) -> SchemaError:
        return SchemaError(f"{self.path or 'file'} ({shown(self.value)}) must be {what}")


def read_json(text: str) -> Node:
    """A JSON document."""
    try:
        return Node(json.loads(text))
    except json.JSONDecodeError as error:
        raise SchemaError(
            f"file must be JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise SchemaError("file must be JSON of a few levels: it is nested deeper") from None


def read_yaml(text: str) -> Node:
    """A YAML document of plain values."""
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("reading YAML", "yaml") from None
    try:
        return Node(yaml.safe_load(text))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        where, what = None, str(error)
        if isinstance(error, yaml.MarkedYAMLError):
            where, what = error.problem_mark, error.problem
        place = f" at line {where.line + 1}, column {where.column + 1}" if where else ""
        raise SchemaError(f"file must be YAML{place}: {what}") from None


def write_yaml(value: Any, indent: int = 0) -> str:
    """Plain values as YAML: blocks of objects and lists, and scalars as JSON writes them.

    Example:
        >>> print(write_yaml({"a": {"b": [1, "x: y"]}}), end="")
        "a":
          "b":
            - 1
            - "x: y"
    """
    pad = "  " * indent
    lines = []
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            lines.append(f"{pad}{json.dumps(key, ensure_ascii=False)}:{_tail(item, indent)}")
    elif isinstance(value, list | tuple) and value:
        for item in value:
            body = _tail(item, indent)
            lines.append(f"{pad}-{body}")
    return "".join(lines)


def _tail(item: Any, indent: int) -> str:
    if isinstance(item, Mapping | list | tuple) and item:
        return "\n" + write_yaml(item, indent + 1)
    text = json.dumps(item, ensure_ascii=False)
    if isinstance(item, float) and "e" in text and "." not in text:
        # YAML 1.1 takes 1e-09 for a text.
        text = text.replace("e", ".0e")
    return f" {text}\n"
