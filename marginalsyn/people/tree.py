"""Linked tables as public knowledge: tables, keys and links, a tree whose root is the person."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from marginalsyn.errors import SchemaError
from marginalsyn.privacy.charges import Charge
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.moments import MomentColumn
from marginalsyn.table.rules import rename
from marginalsyn.table.schema import AnyColumn, Schema
from marginalsyn.table.unit import MOST_ROWS
from marginalsyn.validation import like, shorten


class PersonUnit(BaseModel):
    """A person as the unit where tables are linked: a row of the root and all rows linked to it.

    Args:
        root: the table whose rows are persons.
        column: its key. It is never released.
        tables: at most so many rows of each other table are counted for a row of its parent.

    Example:
        >>> PersonUnit(root="patients", column="id", tables={"visits": 20}).text
        "one person (column 'id' of patients) with at most 20 rows of visits counted"
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    root: str = Field(min_length=1)
    column: str = Field(min_length=1)
    tables: dict[str, int]

    @property
    def noun(self) -> str:
        """The unit as ledgers name it."""
        return f"persons by column {self.column!r}"

    @property
    def text(self) -> str:
        """The unit as statements name it."""
        most = [f"at most {rows} rows of {table}" for table, rows in self.tables.items()]
        counted = " and ".join(most) or "no other rows"
        return f"one person (column {self.column!r} of {self.root}) with {counted} counted"


@dataclass(frozen=True)
class Lookup:
    """A key to a public table, whose columns are joined while a release is made.

    Attributes:
        column: of the linked table, a category of its schema.
        file: the public table.
        key: its key column.
        columns: those of its columns that are joined: categories, or true and false.
        values: by key, the values of these columns: the public table itself.
    """

    column: str
    file: str
    key: str
    columns: tuple[AnyColumn, ...]
    values: tuple[tuple[str, tuple[str | None, ...]], ...] = ()


@dataclass(frozen=True)
class LinkedTable:
    """One table of several.

    Attributes:
        name: of the table.
        schema: of its columns, without keys; None where it has no others.
        key: the column that its rows are referred to by, if any table does.
        parent: the table that its rows are linked to; None for the root.
        link: the column that holds the parent's key.
        max_children: at most so many rows of one row of the parent are counted.
        order: the column by which rows of one row of the parent are a sequence.
        max_gap: larger distances in the order count as this one, in days for dates.
        file: where its rows lie, if not in a file or table of its name.
        rows_of: the table that the root's rows are made from, where the root has none of its own.
        lookups: keys to public tables.
    """

    name: str
    schema: Schema | None = None
    key: str | None = None
    parent: str | None = None
    link: str | None = None
    max_children: int = 0
    order: str | None = None
    max_gap: float | None = None
    file: str | None = None
    rows_of: str | None = None
    lookups: tuple[Lookup, ...] = ()

    @property
    def columns(self) -> tuple[AnyColumn, ...]:
        """The columns of the release's table, without keys."""
        return self.schema.columns if self.schema is not None else ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns to which a release gives new values: the table's key, and its parent's."""
        return tuple(name for name in (self.key, self.link) if name is not None)

    def attribute(self, source: str) -> tuple[str, dict[str, str | None]]:
        """The key that an attribute of a public table goes with, and its value by the key's."""
        for lookup in self.lookups:
            for place, column in enumerate(lookup.columns):
                if f"{lookup.column}.{column.name}" == source:
                    return lookup.column, {key: values[place] for key, values in lookup.values}
        raise ValueError(source)

    @property
    def left_out(self) -> set[str]:
        """Columns of the source that no code comes from."""
        return {*self.keys, *(self.schema.left_out if self.schema is not None else ())}


@dataclass(frozen=True)
class LinkedSchema:
    """The public description of linked tables: each table's schema, keys and links.

    ``rules`` are between columns of a table and those of the tables above it, each named by table
    and column, as in ``"patients.born <= visits.admitted"``.

    Example:
        >>> tree = LinkedSchema.read("clinic.schema.json")
        >>> [table.name for table in tree.tables], tree.family.tables
        (['patients', 'visits'], {'visits': 20})
    """

    tables: tuple[LinkedTable, ...]
    title: str = ""
    rules: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems = list(_problems(self.tables))
        if problems:
            raise SchemaError(shorten(problems))
        # Parents come before their children.
        ordered, names = [], [table.name for table in self.tables]
        waiting = [next(t for t in self.tables if t.parent is None)]
        while waiting:
            table = waiting.pop(0)
            ordered.append(table)
            waiting += [t for t in self.tables if t.parent == table.name]
        lost = [name for name in names if name not in {t.name for t in ordered}]
        if lost:
            raise SchemaError(
                f"tables ({', '.join(lost)}) must be linked to the root, not in a circle"
            )
        object.__setattr__(self, "tables", tuple(ordered))
        if self.rules or any(schema.rules for schema in self.schemas):
            from marginalsyn.people.views import check_rules

            check_rules(self)

    @property
    def root(self) -> LinkedTable:
        """The table whose rows are persons."""
        return self.tables[0]

    @cached_property
    def family(self) -> PersonUnit:
        """The persons that a release protects."""
        return PersonUnit(
            root=self.root.name,
            column=str(self.root.key),
            tables={t.name: t.max_children for t in self.tables[1:]},
        )

    @property
    def unit(self) -> PersonUnit:
        """What is protected: the persons."""
        return self.family

    @property
    def schemas(self) -> list[Schema]:
        """The schemas of those tables that have columns of their own."""
        return [table.schema for table in self.tables if table.schema is not None]

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What was spent on the schemas themselves."""
        return tuple(charge for schema in self.schemas for charge in schema.charges)

    @property
    def drafted_from_data(self) -> bool:
        """Whether a part of it was drafted by looking at private rows."""
        return any(schema.drafted_from_data for schema in self.schemas)

    def table(self, name: str) -> LinkedTable:
        """The table of this name."""
        for table in self.tables:
            if table.name == name:
                return table
        names = [t.name for t in self.tables]
        raise SchemaError(f"table ({name!r}) must be one of {', '.join(names)}{like(name, names)}")

    def children(self, name: str) -> list[LinkedTable]:
        """The tables whose rows are linked to rows of this one."""
        return [table for table in self.tables if table.parent == name]

    def path(self, name: str) -> list[LinkedTable]:
        """The tables from the root to this one."""
        found = [self.table(name)]
        while found[0].parent is not None:
            found.insert(0, self.table(found[0].parent))
        return found

    @classmethod
    def of_sequence(
        cls, schema: Schema, name: str = "rows", constants: Sequence[str] = ()
    ) -> LinkedSchema:
        """The rows of persons in one table, in their order, as a tree.

        Args:
            schema: of the table, with a unit that names the order.
            name: of the table.
            constants: columns that are the same in all rows of a person.
        """
        unit = schema.unit
        if unit is None or unit.order is None:
            raise SchemaError("unit must name a column and an order, by which rows are a sequence")
        bare = schema.with_unit(None)
        rest = [column for column in bare.names if column not in constants]
        root = LinkedTable(
            "persons", bare.select(constants) if constants else None, key=unit.column, rows_of=name
        )
        rows = LinkedTable(
            name,
            bare.select(rest),
            parent="persons",
            link=unit.column,
            max_children=unit.max_rows,
            order=unit.order,
        )
        owner = {column: "persons" if column in constants else name for column in bare.names}
        across = [
            rename(rule.text, {column: f"{table}.{column}" for column, table in owner.items()})
            for rule in bare.kept_rules
            if len({owner[column] for column in rule.names}) > 1
        ]
        return cls((root, rows), schema.title, tuple(across))

    # -- files ------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The schema file's text; ``from_json`` reads it back equal."""
        tables = [_entry(table) for table in self.tables]
        rules = {"rules": [*self.rules]} if self.rules else {}
        found = {"version": 1, "title": self.title, "tables": tables, **rules}
        return json.dumps(found, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> LinkedSchema:
        """Read the schema of linked tables from JSON text."""
        try:
            data = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise SchemaError(f"schema must be JSON: {error}") from None
        if not is_linked(data):
            raise SchemaError('schema must be a JSON object with a list of "tables"')
        strange = sorted(set(data) - {"version", "title", "tables", "rules"})
        if strange:
            raise SchemaError(
                f"schema ({strange[0]!r}) must hold version, title, tables and rules only"
            )
        rules = data.get("rules", [])
        if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
            raise SchemaError(f"rules ({rules!r}) must be a list of texts")
        tables = tuple(_table(entry) for entry in data["tables"])
        return cls(tables, str(data.get("title", "")), tuple(rules))

    @classmethod
    def read(cls, path: str | Path) -> LinkedSchema:
        """Read a schema file; every mistake in it is a SchemaError that names the file."""
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            raise SchemaError(f"schema ({path}) must be a readable file: {error}") from None
        except SchemaError as error:
            raise SchemaError(f"{path}:\n{error}") from None

    def write(self, path: str | Path) -> None:
        """Write the schema as JSON."""
        try:
            Path(path).write_text(self.to_json(), encoding="utf-8")
        except OSError as error:
            raise SchemaError(f"schema ({path}) must be writable: {error.strerror}") from None


def _problems(tables: Sequence[LinkedTable]) -> list[str]:
    """What contradicts what among linked tables."""
    names = [table.name for table in tables]
    problems = [f"table name ({n!r}) must be a plain word" for n in names if not _plain(n)]
    folded = [name.casefold() for name in names]
    problems += [
        f"table names must be distinct: {n!r}" for n in names if folded.count(n.casefold()) > 1
    ]
    roots = [table.name for table in tables if table.parent is None]
    if len(roots) != 1:
        problems.append(
            f"tables without parent ({', '.join(roots) or 'none'}) must be one, the root: its rows "
            "are the persons"
        )
    for table in tables:
        problems += _own_problems(table, {t.name: t for t in tables})
    return problems


def _own_problems(table: LinkedTable, tables: Mapping[str, LinkedTable]) -> list[str]:
    where = f"table {table.name}"
    problems = []
    if table.parent is None:
        if table.key is None:
            problems.append(f"{where}: key must name the column that says whose row it is")
        if table.link or table.max_children or table.order:
            problems.append(f"{where}: link, max_children and order must be those of a child table")
    else:
        parent = tables.get(table.parent)
        if parent is None:
            problems.append(
                f"{where}: parent ({table.parent!r}) must be a table{like(table.parent, tables)}"
            )
        elif parent.key is None:
            problems.append(f"{where}: table {parent.name} must have a key to be a parent")
        if table.link is None:
            problems.append(f"{where}: link must name the column that holds the parent's key")
        if not 1 <= table.max_children <= MOST_ROWS:
            problems.append(
                f"{where}: max_children ({table.max_children}) must be from 1 to {MOST_ROWS}: how "
                "many rows of one row of the parent are counted, a public number"
            )
        if table.schema is None:
            problems.append(f"{where}: schema must describe its columns")
    if table.rows_of is not None and (table.parent is not None or table.rows_of not in tables):
        problems.append(f"{where}: from ({table.rows_of!r}) must name the root's child table")
    known = {column.name: column for column in table.columns}
    names = list(known)
    problems += [
        f"{where}: {k!r} must not be a column: keys are made up" for k in table.keys if k in names
    ]
    for column in table.columns:
        if isinstance(column, MomentColumn) and column.parts:
            problems.append(f"{where}: parts of {column.name} must be left out in linked tables")
        if column.shapeless:
            problems.append(f"{where}: shape of {column.name} must be left out in linked tables")
        if isinstance(column, CategoricalColumn) and column.open:
            problems.append(
                f"{where}: categories of {column.name} must be listed: none are bought here"
            )
    for field in ("unit", "margins", "survey_weight"):
        if getattr(table.schema, field, None):
            problems.append(
                f"{where}: schema must have no {field}: the root's rows are the persons"
            )
    if table.order is not None and table.order not in names:
        problems.append(
            f"{where}: order ({table.order!r}) must be a column{like(table.order, names)}"
        )
    if table.max_gap is not None and not (table.order and table.max_gap > 0):
        problems.append(f"{where}: max_gap ({table.max_gap:g}) must be above 0, and go with order")
    for lookup in table.lookups:
        if lookup.column not in names:
            problems.append(
                f"{where}: lookup ({lookup.column!r}) must be a column{like(lookup.column, names)}"
            )
        elif any(column.numeric for column in lookup.columns):
            problems.append(
                f"{where}: lookup ({lookup.column!r}) must join categories or truth values: list "
                "the classes of a number as categories"
            )
        elif not isinstance(known[lookup.column], CategoricalColumn):
            problems.append(f"{where}: lookup ({lookup.column!r}) must be a categorical column")
    return problems


def _plain(name: str) -> bool:
    return bool(name) and all(sign.isalnum() or sign in "_-" for sign in name)


# The fields of a table in a file, and what they are called here.
_FIELDS = {"file": "file", "from": "rows_of", "key": "key", "parent": "parent", "link": "link"}
_FIELDS |= {name: name for name in ("max_children", "order", "max_gap")}
_TABLE = ("name", *_FIELDS, "lookups")


def is_linked(data: Any) -> bool:
    """Whether the contents of a schema file describe linked tables."""
    return isinstance(data, Mapping) and isinstance(data.get("tables"), list)


def linked_file(path: str | Path) -> bool:
    """Whether a schema file describes linked tables; False where it cannot be read."""
    try:
        return is_linked(json.loads(Path(path).read_text(encoding="utf-8-sig")))
    except (OSError, ValueError, RecursionError):
        return False


def _entry(table: LinkedTable) -> dict[str, Any]:
    """One table as JSON."""
    entry: dict[str, Any] = {"name": table.name}
    for field, own in _FIELDS.items():
        if (value := getattr(table, own)) not in (None, 0):
            entry[field] = value
    if table.lookups:
        entry["lookups"] = [
            {
                "column": lookup.column,
                "file": lookup.file,
                "key": lookup.key,
                "columns": [column.model_dump(mode="json") for column in lookup.columns],
                **({"values": {k: list(v) for k, v in lookup.values}} if lookup.values else {}),
            }
            for lookup in table.lookups
        ]
    if table.schema is not None:
        entry["schema"] = json.loads(table.schema.to_json())
    return entry


def _table(entry: Any) -> LinkedTable:
    """Read one table of a schema file."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        raise SchemaError("tables must be JSON objects, each with a name")
    name = entry["name"]
    strange = [field for field in entry if field not in (*_TABLE, "schema")]
    if strange:
        raise SchemaError(
            f"table {name} ({strange[0]!r}) must be a known field: one of "
            f"{', '.join((*_TABLE, 'schema'))}{like(strange[0], _TABLE)}"
        )
    for field in ("file", "from", "key", "parent", "link", "order"):
        if not isinstance(entry.get(field, ""), str):
            raise SchemaError(f"table {name}: {field} ({entry[field]!r}) must be a text")
    try:
        schema = Schema(**entry["schema"]) if "schema" in entry else None
        lookups = tuple(
            Lookup(
                str(one["column"]),
                str(one["file"]),
                str(one["key"]),
                Schema(columns=one["columns"]).columns,
                tuple((str(k), tuple(v)) for k, v in one.get("values", {}).items()),
            )
            for one in entry.get("lookups", ())
        )
    except (KeyError, TypeError) as error:
        raise SchemaError(
            f"table {name} must have a schema and lookups as described: {error}"
        ) from None
    except SchemaError as error:
        raise SchemaError(f"table {name}: {error}") from None
    most = entry.get("max_children", 0)
    if isinstance(most, bool) or not isinstance(most, int):
        raise SchemaError(f"table {name}: max_children ({most!r}) must be a whole number")
    gap = entry.get("max_gap")
    if isinstance(gap, bool) or not isinstance(gap, int | float | None):
        raise SchemaError(f"table {name}: max_gap ({gap!r}) must be a number")
    known = {own: entry[field] for field, own in _FIELDS.items() if field in entry}
    known["max_gap"] = None if gap is None else float(gap)
    return LinkedTable(name, schema, lookups=lookups, **known)
