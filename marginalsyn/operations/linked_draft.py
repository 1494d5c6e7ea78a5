"""A first draft of the schema of linked tables, read off a folder: not private, and marked so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from marginalsyn.drafting.draft import draft_schema
from marginalsyn.errors import DataError
from marginalsyn.people.tree import LinkedSchema, LinkedTable
from marginalsyn.sources.source import open_source
from marginalsyn.table.moments import DateColumn, DatetimeColumn
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import persons_columns

SUFFIXES = (".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")
# Public numbers to begin with: how many rows of a parent there are is private, and is not read off.
MOST_CHILDREN = 20
# The share of a link's values that must be keys of the parent.
KNOWN = 0.9


@dataclass(frozen=True)
class LinkedDraft:
    """A drafted schema, and what was left out of it, in words."""

    tree: LinkedSchema
    remarks: tuple[str, ...]


def draft_linked(folder: str | Path, *, sep: str | None = None) -> LinkedDraft:
    """Draft the schema of the tables in a folder from their rows. **Not private.**

    A column whose values are all there and all different, and whose name looks like that of a key,
    is one. A column of the same name (or named after the table) that holds such values in another
    table is a link. Of several the deepest is kept, so that the tables are a tree. Its root is the
    table to which most others belong.

    Raises:
        DataError: fewer than two tables, or none that belongs to another.

    Example:
        >>> draft = draft_linked("clinic")
        >>> draft.tree.family.text
        "one person (column 'patient_id' of patients) with at most 20 rows of visits counted"
    """
    frames = _frames(Path(folder), sep)
    keys = {name: _key(name, frame) for name, frame in frames.items()}
    links = {name: _links(name, frames, keys) for name in frames}
    parents = {name: _deepest(found, links) for name, found in links.items()}
    roots = [name for name in frames if parents[name] is None and keys[name]]
    below = {root: _below(root, parents) for root in roots}
    root = max(roots, key=lambda name: len(below[name]), default="")
    if not root or not below[root]:
        raise DataError(
            f"data ({folder}) must hold tables that refer to each other: a column of one must hold "
            "the key of another, under the same name"
        )
    kept = [root, *below[root]]
    remarks = [
        f"table {name} is left out: it belongs to no other. If it is public, name it in lookups"
        for name in frames
        if name not in kept
    ]
    tables = []
    for name in kept:
        link = parents[name]
        others = {column for column, _ in links[name]} - {link[0] if link else ""}
        dropped = [keys[name] if _used(name, parents) else None, link[0] if link else None]
        schema, about = _schema(frames[name], [c for c in dropped if c], others)
        remarks += [f"table {name}: {remark}" for remark in about]
        dates = [
            column.name
            for column in (schema.columns if schema is not None else ())
            if isinstance(column, DateColumn | DatetimeColumn)
        ]
        tables.append(
            LinkedTable(
                name,
                schema,
                key=keys[name] if _used(name, parents) or name == root else None,
                parent=link[1] if link else None,
                link=link[0] if link else None,
                max_children=MOST_CHILDREN if link else 0,
                order=dates[0] if link and len(dates) == 1 else None,
            )
        )
    return LinkedDraft(LinkedSchema(tuple(tables)), tuple(remarks))


def holds_several(data: str | Path) -> bool:
    """Whether a folder holds several tables, not the parts of one."""
    if "://" in str(data) or not Path(data).is_dir():
        return False
    files = [path for path in Path(data).iterdir() if path.name.lower().endswith(SUFFIXES)]
    return len({frozenset(open_source(path).columns) for path in files}) > 1


def _frames(folder: Path, sep: str | None) -> dict[str, pd.DataFrame]:
    """The tables of a folder by name, all values as texts."""
    if not folder.is_dir():
        raise DataError(f"data ({folder}) must be a folder with a file for each table")
    found: dict[str, pd.DataFrame] = {}
    for path in sorted(folder.iterdir()):
        suffix = next((s for s in SUFFIXES if path.name.lower().endswith(s)), None)
        if suffix is None:
            continue
        backend = open_source(path, sep=sep).connect()
        found[path.name[: -len(suffix)]] = backend.backend.to_pyarrow(backend.table).to_pandas()
    if len(found) < 2:
        raise DataError(
            f"data ({folder}) must be a folder with a CSV or Parquet file for each table"
        )
    return found


def _key(name: str, frame: pd.DataFrame) -> str | None:
    """The column that looks like a table's key."""
    stem = name.lower().rstrip("s")
    named = {
        f"{stem}_id",
        f"{stem}id",
        f"id_{stem}",
        "id",
        stem,
        *map(str.lower, persons_columns(map(str, frame))),
    }
    good = [
        column
        for column in map(str, frame)
        if frame[column].notna().all() and frame[column].is_unique and len(frame) > 1
    ]
    for column in good:
        if column.lower() in named:
            return str(column)
    ends = [c for c in good if c.lower().endswith(("id", "_no", "_key", "_code", "num"))]
    return str(ends[0]) if ends else None


def _links(
    name: str, frames: Mapping[str, pd.DataFrame], keys: Mapping[str, str | None]
) -> list[tuple[str, str]]:
    """The columns of a table that hold keys of others, and whose."""
    found = []
    for other, key in keys.items():
        if other == name or key is None:
            continue
        stem = other.lower().rstrip("s")
        for column in map(str, frames[name]):
            same = column.lower() in {key.lower(), f"{stem}_{key.lower()}", f"{stem}_id", stem}
            if not same or (column.lower() == "id" and key.lower() == "id") or column == keys[name]:
                continue
            texts = frames[name][column].dropna().astype(str)
            if len(texts) and texts.isin(set(frames[other][key].astype(str))).mean() >= KNOWN:
                found.append((str(column), other))
    return found


def _deepest(
    found: list[tuple[str, str]], links: Mapping[str, list[tuple[str, str]]]
) -> tuple[str, str] | None:
    """Of several links the one to the deepest table."""

    def depth(name: str, seen: frozenset[str] = frozenset()) -> int:
        others = [other for _, other in links[name] if other not in seen]
        return 1 + max((depth(other, seen | {name}) for other in others), default=0)

    return max(found, key=lambda link: depth(link[1]), default=None)


def _below(root: str, parents: Mapping[str, tuple[str, str] | None]) -> list[str]:
    """The tables that belong to one, directly or through others."""
    found: list[str] = []
    waiting = [root]
    while waiting:
        name = waiting.pop(0)
        more = [t for t, link in parents.items() if link is not None and link[1] == name]
        new = [t for t in more if t not in found and t != root]
        found += new
        waiting += new
    return found


def _used(name: str, parents: Mapping[str, tuple[str, str] | None]) -> bool:
    """Whether other tables refer to this one."""
    return any(link is not None and link[1] == name for link in parents.values())


def _schema(
    frame: pd.DataFrame, keys: list[str], others: set[str]
) -> tuple[Schema | None, list[str]]:
    """A table's own columns; further links and columns of too many values are dropped."""
    rest = frame.drop(columns=[c for c in {*keys, *others} if c in frame])
    remarks = [f"{c} refers to a second table: it is dropped" for c in sorted(others)]
    if not len(rest.columns):
        return None, remarks
    try:
        drafted = draft_schema(rest).schema
    except DataError:
        return None, [
            *remarks,
            f"{', '.join(map(str, rest))} are dropped: nothing in them can be described",
        ]
    many = drafted.open
    remarks += [f"{c} is dropped: it has many values; list its categories to keep it" for c in many]
    if len(many) == len(drafted.columns):
        return None, remarks
    kept = drafted.select([name for name in drafted.names if name not in many])
    return Schema(**{**kept.model_dump(), "drop": (*kept.drop, *sorted(others))}), remarks
