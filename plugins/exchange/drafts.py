"""What a format says of a table, before it is a schema: columns may lack what it cannot say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from marginalsyn.errors import SchemaError
from marginalsyn.table.schema import Schema
from marginalsyn.validation import shorten

LISTED = ("categorical", "ordinal")
NUMERIC = ("integer", "continuous")
TIMES = ("date", "datetime", "time")


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

    def add(self, name: str, kind: str, place: str, **about: Any) -> None:
        """One column; what is None is left out."""
        if name in self.columns:
            raise SchemaError(f"{place} ({name!r}) must be named once: it is there twice")
        known = {key: value for key, value in about.items() if value is not None}
        self.columns[name] = {"kind": kind, "name": name, **known}
        self.places[name] = place

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


def listed(values: Sequence[Any]) -> dict[str, Any]:
    """The kind of a column with listed values."""
    if len(values) == 2 and set(map(type, values)) == {bool}:
        return {"kind": "boolean"}
    return {"kind": "categorical", "categories": list(values)}


# -- what a format cannot say ----------------------------------------------------------------------


def lost(schema: Schema, says: Collection[str]) -> list[str]:
    """What a schema holds beyond the features that a format has words for, one line each.

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
    lines = [f"{feature} of {_some(names)}" for feature, names in found.items()]
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


def _some(names: Sequence[str]) -> str:
    more = len(names) - 6
    return ", ".join(names[:6]) + (f" and {more} more" if more > 0 else "")
