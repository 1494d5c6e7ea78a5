"""CSV on the Web (W3C): JSON metadata of a table, its columns with datatypes and limits."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote

from marginalsyn.plugins.exchange.drafts import LISTED, NUMERIC, Draft
from marginalsyn.plugins.exchange.nodes import Node
from marginalsyn.table.schema import Schema

SAYS = (
    "bounds", "times", "values", "nullable", "description", "true-false", "title", "missing_tokens",
)  # fmt: skip
# Notes are annotations of any shape.
EXTENSION = "notes"
MADE = ("identifier", "constant")
CONTEXT = "http://www.w3.org/ns/csvw"
_WHOLE = {
    "integer", "long", "int", "short", "byte", "nonNegativeInteger", "positiveInteger", "gYear",
    "nonPositiveInteger", "negativeInteger", "unsignedLong", "unsignedInt", "unsignedShort",
    "unsignedByte",
}  # fmt: skip
_REAL = {"number", "decimal", "double", "float"}
_OWN = {"byte": (-128, 127), "unsignedByte": (0, 255)}
_TIMES = {
    "date": "yyyy-MM-dd",
    "dateTime": "yyyy-MM-ddTHH:mm:ss",
    "datetime": "yyyy-MM-ddTHH:mm:ss",
    "dateTimeStamp": "yyyy-MM-ddTHH:mm:ssX",
    "time": "HH:mm:ss",
}
_PARTS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "X": "%z"}


def recognise(doc: Node) -> bool:
    value = doc.value
    return isinstance(value, dict) and (
        "tableSchema" in value or CONTEXT in str(value.get("@context"))
    )


def read(doc: Node, table: str | None) -> Draft:
    """The columns of one table; those that no file holds are passed over."""
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
            _column(found, one)
    return found


def _column(found: Draft, one: Node) -> None:
    name, place = _name(one), one.path
    told = one.mapping().get("dc:description")
    about: dict[str, Any] = {
        "nullable": None if one.flag("required", False) else True,
        "description": told if isinstance(told, str) else None,
    }
    kind = one.at("datatype", "string")
    if isinstance(kind.value, str):
        kind = Node({"base": kind.value}, kind.path)
    base = kind.text("base", "string")
    low, high = _OWN.get(base, (None, None))
    low = _end(kind, ("minimum", "minInclusive"), base, low)
    high = _end(kind, ("maximum", "maxInclusive"), base, high)
    if base == "boolean":
        true, _, false = kind.text("format", "true|false").partition("|")
        labels: dict[str, Any] = {"true_label": true, "false_label": false}
        if (true.lower(), false.lower()) == ("true", "false"):
            labels = {}
        found.add(name, "boolean", place, **labels, **about)
    elif base in _WHOLE:
        found.add(name, "integer", place, lower=low, upper=high, **about)
    elif base in _REAL:
        found.add(name, "continuous", place, lower=low, upper=high, **about)
    elif base in _TIMES:
        form = _strftime(kind, kind.text("format", _TIMES[base]))
        sort = {"date": "date", "time": "time"}.get(base, "datetime")
        found.add(name, sort, place, format=form, lower=low, upper=high, **about)
    elif base in ("string", "normalizedString", "token", "anyAtomicType", "any"):
        values = _alternatives(kind.text("format", ""))
        extra = {"categories": values, "other": False} if values else {}
        found.add(name, "categorical", place, **extra, **about)
    else:
        found.leave_out(name, f"datatype {base!r}")


def _name(one: Node) -> str:
    """The title that heads the column in the file, else its name."""
    titles = one.mapping().get("titles")
    if isinstance(titles, dict):
        titles = next(iter(titles.values()), None)
    if isinstance(titles, list):
        titles = titles[0] if titles else None
    return titles if isinstance(titles, str) else unquote(one.text("name"))


def _end(kind: Node, keys: tuple[str, str], base: str, known: Any) -> Any:
    for key in keys:
        if key in kind:
            return kind.text(key) if base in _TIMES else kind.number(key)
    return known


def _strftime(kind: Node, pattern: str) -> str:
    text = re.sub("yyyy|MM|dd|HH|mm|ss|X", lambda part: _PARTS[part[0]], pattern)
    if re.search("[A-Za-z]", re.sub("%[YmdHMSz]|T", "", text)):
        raise kind.at("format").wrong("a date pattern of yyyy, MM, dd, HH, mm and ss")
    return text


def _alternatives(pattern: str) -> list[str]:
    """The texts that a regular expression lists; none where it is anything else."""
    body = pattern.removeprefix("^").removesuffix("$")
    if body.startswith("(") and body.endswith(")"):
        body = body[1:-1].removeprefix("?:")
    parts = re.split(r"(?<!\\)\|", body)
    plain = [re.sub(r"\\(.)", r"\1", part) for part in parts]
    exact = all(
        re.escape(text) == part or text == part for text, part in zip(plain, parts, strict=True)
    )
    simple = not any(re.search(r"(?<!\\)[.*+?()\[\]{}^$]", part) for part in parts)
    return plain if body and exact and simple else []


def write(schema: Schema, url: str = "synthetic.csv") -> Any:
    """Metadata of one table."""
    doc: dict[str, Any] = {"@context": CONTEXT, "url": url}
    if schema.title:
        doc["dc:title"] = schema.title
    doc["tableSchema"] = {
        "columns": [csvw_column(column) for column in schema.columns],
        "null": list(schema.missing_tokens),
    }
    return doc


def csvw_context() -> str:
    """The context of CSV on the Web."""
    return CONTEXT


def csvw_column(column: Any) -> dict[str, Any]:
    """One column, as a file of ours has it."""
    about: dict[str, Any] = {"titles": column.name, "name": quote(column.name, safe="")}
    if column.description:
        about["dc:description"] = column.description
    if column.kind in MADE:
        whole = column.kind == "identifier" and column.pattern == "{n}"
        return {**about, "datatype": "integer" if whole else "string"}
    about["required"] = not column.nullable
    data = column.model_dump(mode="json")
    if column.kind in LISTED:
        kinds = set(map(type, column.values))
        if kinds == {int} and not column.has_other:
            kind: Any = {
                "base": "integer",
                "minimum": min(column.values),
                "maximum": max(column.values),
            }
        elif column.has_other:
            kind = {"base": "string"}
        else:
            texts = [re.escape(str(value)) for value in column.values]
            kind = {"base": "string", "format": "^(" + "|".join(texts) + ")$"}
    elif column.kind == "boolean":
        kind = {
            "base": "boolean",
            "format": f"{_text(column.true_label)}|{_text(column.false_label)}",
        }
    elif column.kind in NUMERIC:
        base = "integer" if column.kind == "integer" else "number"
        kind = {"base": base, "minimum": column.lower, "maximum": column.upper}
    else:
        base = {"datetime": "dateTime"}.get(column.kind, column.kind)
        kind = {"base": base, "minimum": data["lower"], "maximum": data["upper"]}
        pattern = column.format
        for part, directive in _PARTS.items():
            pattern = pattern.replace(directive, part)
        if "%" in pattern:
            kind = {"base": "string"}
        else:
            kind["format"] = pattern
    return {**about, "datatype": kind}


def _text(label: Any) -> str:
    return str(label)


def losses(schema: Schema) -> list[str]:
    found = []
    names = [c.name for c in schema.columns if c.kind in LISTED and c.has_other]
    if names:
        found.append(f"the categories of {', '.join(names)}: a pattern would forbid other values")
    return found
