"""A first draft of the schema of linked tables, read off a folder: not private, and marked so."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from marginalsyn.drafting.draft import Draft, draft_schema
from marginalsyn.drafting.person_columns import repeating
from marginalsyn.errors import DataError, UsageError
from marginalsyn.people.tree import LinkedSchema, LinkedTable
from marginalsyn.sources.source import SUFFIXES, find_encoding, open_source
from marginalsyn.table.moments import DateColumn, DatetimeColumn
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import persons_columns
from marginalsyn.validation import like

Wanted = TypeVar("Wanted")
Links = Mapping[str, list[tuple[str, str]]]
# Where a frame that was read from a file keeps how.
READING = "marginalsyn reading"
# How many rows of a parent are counted: as many as one has, rounded up, but for the last.
MOST_CHILDREN = (1, 2, 3, 5, 10, 20)
# The share of a link's values that must be keys of the parent.
KNOWN = 0.9
# So many persons must share a value of a column that looks like an identifier and is kept.
MANY = 10
# What a change of links may say in place of a parent.
ROOT, DROP = "root", "drop"


@dataclass(frozen=True)
class LinkedDraft:
    """A drafted schema of linked tables. Not private.

    Attributes:
        tree: the schema.
        remarks: what was left out of it, in words.
        drafts: by table, the draft of its own columns; None where it has none.
    """

    tree: LinkedSchema
    remarks: tuple[str, ...]
    drafts: Mapping[str, Draft | None] = field(default_factory=dict)


def draft_linked(
    data: str | Path | Mapping[str, pd.DataFrame],
    *,
    sep: str | None = None,
    label: str | None = None,
    kinds: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
    missing: Mapping[str, Sequence[float]] | None = None,
    links: Mapping[str, str] | None = None,
    most: Mapping[str, int] | None = None,
    rename_duplicates: bool = False,
) -> LinkedDraft:
    """Draft the schema of the tables in a folder from their rows. **Not private.**

    A column whose values are all there and all different, and whose name looks like that of a key,
    is one. A column of the same name (or named after the table) that holds such values in another
    table is a link. Of several the deepest is kept, so that the tables are a tree. Its root is the
    table to which most others belong.

    Args:
        data: the folder, or its tables by name; see :func:`read_tables`.
        sep, rename_duplicates, label, keep: as for one table; the label is in the root.
        kinds, missing: by ``TABLE.COLUMN``.
        links: by table ``PARENT.COLUMN`` (it belongs to PARENT by its own COLUMN), ``root`` or
            ``drop``; by ``TABLE.key`` the column that is its key.
        most: by table, how many rows of one row of its parent are counted; if nothing is said, as
            many as one has, rounded up, and at most 20.

    Raises:
        DataError: fewer than two tables, or none that belongs to another.

    Example:
        >>> draft = draft_linked("clinic")
        >>> draft.tree.family.text
        "one person (column 'patient_id' of patients) with at most 3 rows of visits counted"
    """
    frames = data if isinstance(data, Mapping) else read_tables(data, sep, rename_duplicates)
    said = {name: text for name, text in (links or {}).items() if not name.endswith(".key")}
    for name in {*said} - {*frames}:
        raise UsageError(f"table ({name}) must be one of {', '.join(frames)}{like(name, frames)}")
    frames = {name: frame for name, frame in frames.items() if said.get(name) != DROP}
    keys, parents, found = _linked(frames, dict(links or {}), said)
    roots = [name for name in frames if parents[name] is None and keys[name]]
    below = {root: _below(root, parents) for root in roots}
    meant = next((name for name, text in said.items() if text == ROOT), None)
    root = meant or max(roots, key=lambda name: len(below[name]), default="")
    if not below.get(root):
        raise DataError(
            f"data ({', '.join(frames)}) must hold tables that refer to each other: a column of "
            "one must hold the key of another, under the same name. Name a single table by its "
            "file, or describe keys and links in a schema of linked tables"
        )
    kept = [root, *below[root]]
    remarks = [
        f"table {name} is left out: it belongs to no other. Public ones: lookups in the schema"
        for name in frames
        if name not in kept
    ]
    frames = {name: frames[name] for name in kept}
    wanted = _by_table(dict(kinds or {}) | dict.fromkeys(keep, ""), frames)
    absent = _by_table(missing or {}, frames)
    # The rows of the root are persons: a value that many of them share identifies nobody.
    frame = frames[root]
    sizes = {c: (frame[c].count(), frame[c].nunique()) for c in map(str, frame)}
    suspects = {column for column, _ in found[root]} | {one.name for one in repeating(sizes)}
    shared = sorted(c for c in suspects if sizes[c][0] >= MANY * sizes[c][1])
    wanted[root] = dict.fromkeys(shared, "categorical") | wanted[root]
    remarks += [f"table {root}: {c} is kept, since many rows share each value" for c in shared]
    tables, drafts = [], {}
    for name in kept:
        own, parent = parents[name] or (None, None)
        key = keys[name] if any(link and link[1] == name for link in parents.values()) else None
        others = {column for column, _ in found[name]} - {key, own, *wanted[name]}
        given = (wanted[name], absent[name], label if name == root else None)
        schema, drafts[name], about = _schema(frames[name], {key, own}, others, *given)
        remarks += [f"table {name}: {remark}" for remark in about]
        columns = schema.columns if schema else ()
        dates = [c.name for c in columns if isinstance(c, DateColumn | DatetimeColumn)]
        tables.append(
            LinkedTable(
                name,
                schema,
                key=key,
                parent=parent,
                link=own,
                max_children=(most or {}).get(name) or _most(frames[name], own),
                order=dates[0] if own and len(dates) == 1 else None,
            )
        )
    return LinkedDraft(LinkedSchema(tuple(tables)), tuple(remarks), drafts)


def files_in(data: str | Path) -> list[Path]:
    """The files of a folder that may hold tables; none where it is no folder."""
    if "://" in str(data) or not Path(data).is_dir():
        return []
    return [path for path in sorted(Path(data).iterdir()) if _suffix(path) is not None]


def table_of(data: str) -> str:
    """What a folder that does not hold several tables stands for: its one file, or its parts."""
    files = files_in(data)
    if "://" in data or not Path(data).is_dir():
        return data
    if not files:
        others = ", ".join(sorted(path.name for path in Path(data).iterdir())[:5]) or "nothing"
        raise DataError(
            f"data ({data}) must be a folder with a table in it, a file that ends in "
            f"{', '.join(SUFFIXES)}: it holds {others}"
        )
    if len(files) == 1:
        return str(files[0])
    endings = {_suffix(path) for path in files}
    return data if len(endings) > 1 else str(Path(data) / f"*{endings.pop()}")


def holds_several(data: str | Path) -> bool:
    """Whether a folder holds several tables, not the parts of one."""
    found = [
        open_source(path, encoding=find_encoding(path), rename_duplicates=True)
        for path in files_in(data)
    ]
    return len({frozenset(one.columns) for one in found}) > 1


def read_tables(
    folder: str | Path, sep: str | None = None, rename_duplicates: bool = False
) -> dict[str, pd.DataFrame]:
    """The tables of a folder by name, all values as texts, with how their files are read."""
    found = {}
    for path in files_in(folder):
        how: Any = {"encoding": find_encoding(path), "rename_duplicates": rename_duplicates}
        backend = open_source(path, sep=sep, **how).connect()
        name = path.name[: -len(str(_suffix(path)))]
        found[name] = backend.backend.to_pyarrow(backend.table).to_pandas()
        found[name].attrs[READING] = how
    if len(found) < 2:
        raise DataError(f"data ({folder}) must be a folder with a file for each table")
    return found


def _suffix(path: Path) -> str | None:
    return next((s for s in reversed(SUFFIXES) if path.name.lower().endswith(s)), None)


def _linked(
    frames: Mapping[str, pd.DataFrame], links: Mapping[str, str], said: Mapping[str, str]
) -> tuple[dict[str, str | None], dict[str, tuple[str, str] | None], Links]:
    """The key and the parent of every table, and all links that were found; what is said counts."""

    def column(table: str, name: str, what: str) -> str:
        if table not in frames:
            raise UsageError(
                f"table ({table}) must be one of {', '.join(frames)}{like(table, frames)}"
            )
        names = [str(each) for each in frames[table]]
        if name not in names:
            raise UsageError(
                f"{what} ({name}) must be a column of {table}: one of {', '.join(names)}"
                f"{like(name, names)}"
            )
        return name

    keys = {name: _key(name, frame) for name, frame in frames.items()}
    for name, text in links.items():
        if name.endswith(".key"):
            table = name.removesuffix(".key")
            keys[table] = column(table, text, "key")
    found = {name: _links(name, frames, keys) for name in frames}

    def depth(name: str, seen: frozenset[str] = frozenset()) -> int:
        others = [other for _, other in found[name] if other not in seen]
        return 1 + max((depth(other, seen | {name}) for other in others), default=0)

    # Of several links the one to the deepest table.
    parents = {
        name: max(each, key=lambda link: depth(link[1]), default=None)
        for name, each in found.items()
    }
    for name, text in said.items():
        if text == DROP:
            continue
        parent, point, link = text.partition(".")
        column(name, link if point else str(next(iter(frames.get(name, [""])))), "link")
        if text == ROOT:
            parents[name] = None
            continue
        if not point or parent == name:
            raise UsageError(
                f"link ({name}={text}) must be TABLE=PARENT.COLUMN, with the column of TABLE that "
                "holds the key of PARENT, or TABLE=root, or TABLE=drop"
            )
        # A key of another name than the link's is one that was found, or is said.
        column(parent, keys.get(parent) or link, f"key of {parent}")
        keys[parent] = keys[parent] or link
        parents[name] = link, parent
    return keys, parents, found


def _by_table(
    wanted: Mapping[str, Wanted], frames: Mapping[str, pd.DataFrame]
) -> dict[str, dict[str, Wanted]]:
    """What is wanted of columns, by table; a column of one table alone needs no table's name."""
    found: dict[str, dict[str, Wanted]] = {name: {} for name in frames}
    every = [(name, str(column)) for name, frame in frames.items() for column in frame]
    for text, kind in wanted.items():
        places = [place for place in every if text in (".".join(place), place[1])]
        if len(places) != 1:
            known = [".".join(place) for place in every]
            raise UsageError(
                f"column ({text}) must be TABLE.COLUMN, one of {', '.join(known)}"
                f"{like(text, known)}"
            )
        ((table, column),) = places
        found[table][column] = kind
    return found


def _key(name: str, frame: pd.DataFrame) -> str | None:
    """The column that looks like a table's key."""
    stem = name.lower().rstrip("s")
    named = {f"{stem}_id", f"{stem}id", f"id_{stem}", "id", stem}
    named |= {*map(str.lower, persons_columns(map(str, frame)))}
    good = [
        column
        for column in map(str, frame)
        if frame[column].notna().all() and frame[column].is_unique and len(frame) > 1
    ]
    ends = ("id", "_no", "_key", "_code", "num")
    likely = [column for column in good if column.lower() in named]
    likely += [column for column in good if column.lower().endswith(ends)]
    return likely[0] if likely else None


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
            if not same or column == keys[name]:
                continue
            texts = frames[name][column].dropna().astype(str)
            if column.lower() == key.lower() == "id" and texts.is_unique:
                continue  # a number of its own
            if len(texts) and texts.isin(set(frames[other][key].astype(str))).mean() >= KNOWN:
                found.append((column, other))
    return found


def _most(frame: pd.DataFrame, link: str | None) -> int:
    """How many rows of one row of the parent are counted."""
    if link is None:
        return 0
    largest = frame[link].value_counts().max()
    return next((most for most in MOST_CHILDREN if largest <= most), MOST_CHILDREN[-1])


def _below(root: str, parents: Mapping[str, tuple[str, str] | None]) -> list[str]:
    """The tables that belong to one, directly or through others."""
    found = [root]
    for name in found:  # more of them while it lasts
        found += [t for t, link in parents.items() if link and link[1] == name and t not in found]
    return found[1:]


def _schema(
    frame: pd.DataFrame,
    keys: Collection[str | None],
    others: Collection[str],
    wanted: Mapping[str, str],
    missing: Mapping[str, Sequence[float]],
    label: str | None,
) -> tuple[Schema | None, Draft | None, list[str]]:
    """A table's own columns; further links and columns of too many values are dropped."""
    rest = frame.drop(columns=[c for c in {*keys, *others} if c in frame])
    remarks = [f"{c} refers to a second table: it is dropped" for c in sorted(others)]
    if not len(rest.columns):
        return None, None, remarks
    try:
        how = frame.attrs.get(READING, {})
        draft = draft_schema(rest, label, kinds=wanted, missing=missing, **how)
    except DataError:
        gone = f"{', '.join(map(str, rest))} are dropped: nothing in them can be described"
        return None, None, [*remarks, gone]
    drafted = draft.schema
    many = drafted.open
    left = [name for name in drafted.names if name not in many]
    remarks += [f"{c} is dropped: it has many values; list its categories to keep it" for c in many]
    if not left:
        return None, draft, remarks
    kept = drafted.select(left)
    return kept.changed(drop=(*kept.drop, *sorted(others))), draft, remarks
