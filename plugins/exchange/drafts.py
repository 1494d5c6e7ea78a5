"""A schema as a format of others has it: columns may lack what the format cannot say."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from marginalsyn.errors import MissingExtraError, SchemaError
from marginalsyn.table.schema import Schema
from marginalsyn.validation import first_of, shorten, shown


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


LISTED = ("categorical", "ordinal")
NUMERIC = ("integer", "continuous")
TIMES = ("date", "datetime", "time")
# Facts that only columns of some kinds have; a description and missing values all may have.
_ONLY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("lower", "upper"), (*NUMERIC, *TIMES)),
    **dict.fromkeys(("bins", "decimals"), NUMERIC),
    **dict.fromkeys(("categories", "other", "other_label"), LISTED),
    **dict.fromkeys(("true_label", "false_label"), ("boolean",)),
    "format": TIMES,
}


@dataclass
class Draft:
    """Columns as a schema's JSON has them, with what is missing and what was left out.

    Attributes:
        columns: by name, in order; ``lower`` and ``upper`` or ``categories`` may be missing.
        fields: of the schema itself.
        places: where in the file each column is described.
        notes: what the file says and a schema cannot, and what was taken for granted.
    """

    columns: dict[str, dict[str, Any]] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(
        self,
        name: str,
        kind: str | None,
        place: str,
        *,
        values: Sequence[Any] | None = None,
        why: str = "",
        **facts: Any,
    ) -> None:
        """One column, with those of the facts that its kind can have and that are not None.

        Args:
            name: of the column.
            kind: of the column; None for one that a schema cannot describe, which is dropped.
            place: where in the file it is described.
            values: all that it may be, where the file lists them: then it is categorical, or
                boolean.
            why: the reason, for a column that is dropped.
            facts: fields of the column in a schema's JSON.
        """
        if values is not None:
            kind = kind if kind in LISTED else "categorical"
            facts = {"other": False, **facts, "categories": list(values)}
            if len(values) == 2 and set(map(type, values)) == {bool}:
                kind = "boolean"
        if kind is None:
            self.leave_out(name, why)
            return
        if name in self.columns:
            raise SchemaError(f"{place} ({name!r}) must be named once: it is there twice")
        own = {
            key: value
            for key, value in facts.items()
            if value is not None and kind in _ONLY.get(key, (kind,))
        }
        self.columns[name] = {"kind": kind, "name": name, **own}
        self.places[name] = place

    def read_title(self, doc: Node) -> None:
        """Take over the title of the file, if it has one."""
        if "title" in doc:
            self.fields["title"] = doc.text("title")

    def leave_out(self, name: str, why: str) -> None:
        """A column that a schema cannot describe: it is dropped, and that is said."""
        self.fields["drop"] = (*self.fields.get("drop", ()), name)
        self.notes.append(f"column {name!r} is dropped: {why}")

    def finish(
        self,
        *,
        bounds: Mapping[str, Sequence[Any]],
        values: Mapping[str, Sequence[Any]],
        drop: Iterable[str],
        label: str | None,
    ) -> Schema:
        """The schema, once the curator has said what the format could not."""
        for name in drop:
            self._known(name, "drop")
            del self.columns[name]
            self.fields["drop"] = (*self.fields.get("drop", ()), name)
        for name, ends in bounds.items():
            column = self._known(name, "bounds")
            if column["kind"] not in (*NUMERIC, *TIMES) or len(ends) != 2:
                raise SchemaError(
                    f"bounds of {name!r} must be two numbers or dates for a column that has them, "
                    f"not for a {column['kind']} one"
                )
            column.update(lower=ends[0], upper=ends[1])
        for name, listed in values.items():
            column = self._known(name, "values")
            if column["kind"] not in LISTED:
                column.clear()
                column.update(kind="categorical", name=name)
            column["categories"] = list(listed)
        lacking = [line for name in self.columns for line in self._lacks(name)]
        if lacking:
            raise SchemaError(
                "the file does not say all that a schema needs. Give public knowledge, or leave "
                "columns out with --drop NAME:\n" + shorten(lacking)
            )
        if label is not None:
            self.fields["label"] = label
        return Schema(**{**self.fields, "columns": list(self.columns.values())})

    def _known(self, name: str, what: str) -> dict[str, Any]:
        if name not in self.columns:
            raise SchemaError(f"{what} ({name!r}) must name one of {', '.join(self.columns)}")
        return self.columns[name]

    def _lacks(self, name: str) -> list[str]:
        column, place = self.columns[name], self.places[name]
        if column["kind"] in LISTED and not column.get("categories"):
            return [f"{place}: --values {name}=A,B,C must list the public values"]
        ends = [end for end in ("lower", "upper") if column.get(end) is None]
        if column["kind"] in (*NUMERIC, *TIMES) and ends:
            like = "2020-01-01:2020-12-31" if column["kind"] in TIMES[:2] else "0:100"
            return [
                f"{place}: --bounds {name}={like} must give public bounds ({' and '.join(ends)})"
            ]
        return []


class SchemaFormat:
    """A format of others: how its documents are recognised, read and written.

    Attributes:
        about: what it is, for a list of formats.
        yaml: whether its files are YAML; a comment then carries what it has no words for.
        extension: the field that carries this in JSON, if the format allows one.
        says: features that it has words for, see :func:`list_lost`; None where ``losses`` alone
            knows.
    """

    about = ""
    yaml = False
    extension = ""
    says: Collection[str] | None = ()

    def recognise(self, value: Mapping[str, Any]) -> bool:
        """Whether a document is of this format."""
        raise NotImplementedError

    def read(self, doc: Node, table: str | None) -> Draft:
        """The columns of a document; ``table`` is that of several."""
        raise NotImplementedError

    def of_object(self, source: Any) -> Node:
        """A live object in the shape of its document."""
        raise NotImplementedError

    def write(self, schema: Schema) -> Any:
        """A document of plain values."""
        raise NotImplementedError

    def losses(self, schema: Schema) -> list[str]:
        """What the document lacks besides the features that ``says`` leaves out."""
        del schema
        return []


def only_type(values: Iterable[Any]) -> type:
    """The type of all values; text where they differ."""
    kinds = set(map(type, values))
    return kinds.pop() if len(kinds) == 1 else str


def list_lost(schema: Schema, says: Collection[str]) -> list[str]:
    """What a schema has beyond the features that a format has words for, one line each.

    Args:
        schema: what is written.
        says: of ``bounds values bins order other nullable description label positive title drop
            missing_tokens decimals times true-false``; the others are never said elsewhere.
    """
    found: dict[str, list[str]] = {}
    for column in schema.columns:
        data = column.model_dump(mode="json", exclude_unset=False)
        kind = data["kind"]
        for feature, has in (
            ("bounds", kind in NUMERIC),
            ("times", kind in TIMES),
            ("values", kind in LISTED),
            (
                "true-false",
                kind == "boolean" and (data["true_label"], data["false_label"]) != (True, False),
            ),
            ("bins", data.get("bins", "auto") != "auto"),
            ("order", kind == "ordinal"),
            ("other", bool(data.get("other"))),
            ("nullable", data["nullable"]),
            ("description", bool(data["description"])),
            ("decimals", data.get("decimals") is not None),
            ("spellings", bool(data.get("synonyms") or data.get("ignore_case"))),
            ("own missing tokens", bool(data.get("missing_tokens"))),
            ("numbers' format", kind in NUMERIC and data.get("format") is not None),
            ("limits", data.get("below") is not None or data.get("above") is not None),
        ):
            if has and feature not in says:
                found.setdefault(feature, []).append(column.name)
    lines = [f"{feature} of {first_of(names, 6)}" for feature, names in found.items()]
    plain = Schema(columns=schema.columns)
    for feature, names in (
        ("title", ["title"]),
        ("label", ["label"]),
        ("positive", ["positive"]),
        ("drop", ["drop", "drop_reasons"]),
        ("missing_tokens", ["missing_tokens"]),
        ("impossible", ["impossible"]),
        ("made columns", ["made"]),
        ("charges", ["charges"]),
        ("encoding", ["encoding"]),
        ("drafted_from_data", ["drafted_from_data"]),
    ):
        differs = any(getattr(schema, name) != getattr(plain, name) for name in names)
        if differs and feature not in says:
            lines.append(feature)
    return lines
