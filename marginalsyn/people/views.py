"""The views by which linked tables are counted and modelled: flat tables with public columns.

Every view has one unit of weight for each person:

* the root's rows with the numbers of their children;
* for each link the first child of every row of the parent, with the columns of all ancestors;
* for each link with more than one child every later child, with the ancestors' columns and those
  of the child before it.

A view's columns are given (those of ancestors and of the child before) or its own. Rows are drawn
from the root down: the root's from its view, all others' own columns given the others. First
children have a view of their own, where each counts for its parent alike: among rows that share a
person's unit, those of persons with few rows would count more.

Weights of persons are estimated on a table of persons: a row each, with the root's columns, the
numbers of children, and the columns of the first row of each child table of the root.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import pandas as pd

from marginalsyn.errors import SchemaError
from marginalsyn.people.tree import LinkedSchema, LinkedTable, Lookup
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn, ListedColumn, text_of
from marginalsyn.table.moments import MomentColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn, NumberColumn
from marginalsyn.table.rules import read_rules, rename
from marginalsyn.table.schema import AnyColumn, Schema
from marginalsyn.table.unit import Unit

# A column with more codes than this has a share of its own of rows that repeat it.
FEW_CODES = 8
# Whole gaps up to a fortnight have bins of their own; larger ones bins that grow by this factor.
ALONE, GROWTH = 14, 1.3

Part = Literal["value", "count", "attribute", "before", "same", "gap"]
Kind = Literal["root", "first", "next"]


@dataclass(frozen=True)
class ViewColumn:
    """One column of a view.

    Attributes:
        column: as the view's schema has it.
        table: whose rows it describes.
        part: what it holds: a value, a number of children, an attribute of a public table, the
            value of the row before, whether that is the same, the gap to it.
        source: the column's name there; of a count, the child table's.
        tokens: texts that mean missing in this table.
    """

    column: AnyColumn
    table: str
    part: Part
    source: str
    tokens: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The column's name in the view."""
        return self.column.name


@dataclass(frozen=True)
class View:
    """A flat table of linked rows, each person with one unit of weight.

    Attributes:
        name: of the view.
        kind: the root's rows, first children, or children after the first.
        table: whose rows it models.
        given: the columns that are known when its rows are drawn.
        own: the columns that are drawn.
        zeros: structural zeros among its own columns.
        rules: of its table, and between it and the tables above, by the names in the view.
    """

    name: str
    kind: Kind
    table: str
    given: tuple[ViewColumn, ...]
    own: tuple[ViewColumn, ...]
    zeros: tuple[dict[str, Any], ...] = ()
    rules: Sequence[tuple[str, frozenset[str]]] = ()

    @property
    def columns(self) -> tuple[ViewColumn, ...]:
        """All columns, in the order of the schema."""
        return (*self.given, *self.own)

    @cached_property
    def schema(self) -> Schema:
        """The view as a table's public schema."""
        # A number of rows is never missing, and its table may have no columns of its own.
        read = [column for column in self.columns if column.part != "count"] or self.columns
        first = read[0].tokens
        common = {*first}.intersection(*(column.tokens for column in read))
        columns = [_with_tokens(c, common) for c in self.columns]
        names = {c.name for c in self.columns}
        return Schema(
            title=self.name,
            columns=tuple(columns),
            missing_tokens=tuple(token for token in first if token in common),
            impossible=self.zeros,
            rules=tuple(text for text, known in self.rules if known <= names),
        )


def views_of(tree: LinkedSchema) -> list[View]:
    """The views of linked tables, parents before children.

    Example:
        >>> [view.name for view in views_of(LinkedSchema.read("clinic.schema.json"))]
        ['patients', 'visits first', 'visits next']
    """
    root = tree.root.name
    rules = _rules(tree)
    found = [View(root, "root", root, (), own_columns(tree, root), _zeros(tree.root), rules[root])]
    for table in tree.tables[1:]:
        path = tree.path(table.name)[:-1]
        above = tuple(column for t in path for column in own_columns(tree, t.name))
        own, zeros = own_columns(tree, table.name), _zeros(table)
        named = rules[table.name]
        found.append(View(f"{table.name} first", "first", table.name, above, own, zeros, named))
        if table.max_children > 1:
            before = tuple(_before(column) for column in own)
            found.append(
                View(
                    f"{table.name} next",
                    "next",
                    table.name,
                    (*above, *before),
                    _later(table, own),
                    zeros,
                    named,
                )
            )
    return found


def count_column(child: LinkedTable) -> IntegerColumn:
    """The number of rows of a child table that a row of its parent has, from none on."""
    counted = Unit(column="id", max_rows=max(child.max_children, 2)).counted()
    assert counted is not None
    if child.max_children == 1:
        return IntegerColumn(name=count_name(child.name), lower=0, upper=1)
    bins: Any = "auto"
    if isinstance(counted.bins, tuple):
        # Whoever has more has the last number, which needs a bin of its own.
        most = child.max_children
        bins = tuple(sorted({0, *counted.bins, most, most + 1}))
    return IntegerColumn(name=count_name(child.name), lower=0, upper=child.max_children, bins=bins)


def count_name(child: str) -> str:
    """The name of the column that holds the number of children."""
    return f"number of {child}"


def own_columns(tree: LinkedSchema, name: str) -> tuple[ViewColumn, ...]:
    """The columns of one table in a view: its own, attributes of keys, numbers of children."""
    table = tree.table(name)
    tokens = table.schema.missing_tokens if table.schema is not None else ()
    found = [
        ViewColumn(renamed(c, f"{name}.{c.name}"), name, "value", c.name, tokens)
        for c in table.columns
    ]
    for lookup in table.lookups:
        for column in lookup.columns:
            # A key that the public table lacks has no attributes.
            named = f"{name}.{lookup.column}.{column.name}"
            data = {**column.model_dump(), "name": named, "nullable": True}
            found.append(
                ViewColumn(
                    type(column)(**data),
                    name,
                    "attribute",
                    f"{lookup.column}.{column.name}",
                    tokens,
                )
            )
    found += [
        ViewColumn(count_column(child), name, "count", child.name, tokens)
        for child in tree.children(name)
    ]
    return tuple(found)


def _before(column: ViewColumn) -> ViewColumn:
    """The same of the row before."""
    earlier = renamed(column.column, f"{column.name} before")
    return ViewColumn(earlier, column.table, "before", column.source, column.tokens)


def _later(table: LinkedTable, own: Sequence[ViewColumn]) -> tuple[ViewColumn, ...]:
    """What is drawn of a later row: gaps in place of the order, and what is the same as before."""
    found = []
    for column in own:
        if column.part == "value" and column.source == table.order and column.column.numeric:
            gap = gap_column(column.column, table.max_gap)
            found.append(ViewColumn(gap, table.name, "gap", column.source, column.tokens))
            continue
        found.append(column)
        if column.part == "value" and column.column.size > FEW_CODES:
            same = BooleanColumn(name=f"{column.name} as before")
            found.append(ViewColumn(same, table.name, "same", column.source, column.tokens))
    return tuple(found)


def gap_column(order: AnyColumn, most: float | None = None) -> AnyColumn:
    """The distance of a row's place in the order to that of the row before, from nought on."""
    assert isinstance(order, NumberColumn)
    name, span = f"{order.name} since before", order.upper - order.lower
    if most is not None:
        # The largest gap is given in days, whatever the moments' unit.
        days = 86400 // order.unit if isinstance(order, MomentColumn) else 1
        span = min(span, most * days)
    if isinstance(order, IntegerColumn):
        span = max(math.floor(span), 1)
        edges = [0]
        while edges[-1] < span:
            grown = round(edges[-1] * GROWTH) if edges[-1] > ALONE else 0
            edges.append(max(edges[-1] + 1, grown))
        inner = tuple(edge for edge in edges if edge <= span)
        return IntegerColumn(name=name, lower=0, upper=span, bins=inner, nullable=order.nullable)
    parts = [span / GROWTH**power for power in range(32, 0, -1)]
    return ContinuousColumn(
        name=name, lower=0.0, upper=span, bins=tuple(parts), nullable=order.nullable
    )


def joined_schema(tree: LinkedSchema, name: str, above: bool = False) -> Schema | None:
    """The columns of a table and of those above it with the rules of the table; None without any.

    Columns are named by table and column. The rules ``above`` it hold for its rows, too.
    """
    rules, path = _rules(tree), tree.path(name)
    texts = [text for table in path if above or table.name == name for text, _ in rules[table.name]]
    return Schema(columns=_values(tree, path), rules=tuple(texts)) if rules[name] else None


def ruled_schemas(schema: Schema | LinkedSchema) -> list[Schema]:
    """A schema that has rules; of linked ones :func:`joined_schema` with the rules above it."""
    if isinstance(schema, Schema):
        return [schema] if schema.rules else []
    return [one for table in schema.tables if (one := joined_schema(schema, table.name, True))]


def check_rules(tree: LinkedSchema) -> None:
    """Refuse rules of linked tables that are none, that clash, or that need a mapping."""
    for joined in ruled_schemas(tree):
        for rule in joined.kept_rules:
            if rule.dependency is not None and rule.dependency.mapping is None:
                raise SchemaError(
                    f"rule ({rule.text}) must list its mapping where tables are linked: add "
                    "`by {value -> value, ...}`"
                )


def _values(tree: LinkedSchema, tables: Sequence[LinkedTable]) -> list[AnyColumn]:
    return [renamed(c, f"{table.name}.{c.name}") for table in tables for c in table.columns]


def _rules(tree: LinkedSchema) -> dict[str, list[tuple[str, frozenset[str]]]]:
    """By table, its rules with the columns that each names: those of the deepest table in them."""
    found = {}
    for table in tree.tables:
        names = {column.name: f"{table.name}.{column.name}" for column in table.columns}
        own = table.schema.kept_rules if table.schema is not None else ()
        found[table.name] = [
            (rename(rule.text, names), frozenset(names[name] for name in rule.names))
            for rule in own
        ]
    try:
        across = read_rules(tree.rules, tuple(_values(tree, tree.tables))) if tree.rules else ()
    except ValueError as error:
        raise SchemaError(str(error)) from None
    for rule in across:
        owners = {name.partition(".")[0] for name in rule.names}
        last = next(table.name for table in reversed(tree.tables) if table.name in owners)
        if not owners <= {table.name for table in tree.path(last)}:
            raise SchemaError(
                f"rule ({rule.text}) must be between a table and those above it, not between "
                f"{', '.join(sorted(owners))}"
            )
        found[last].append((rule.text, frozenset(rule.names)))
    return found


def _zeros(table: LinkedTable) -> tuple[dict[str, Any], ...]:
    """A table's own structural zeros, by the names in the view."""
    rules = table.schema.impossible if table.schema is not None else ()
    named = [{f"{table.name}.{name}": what for name, what in rule.items()} for rule in rules]
    return (*named, *(rule for lookup in table.lookups for rule in _lookup_zeros(table, lookup)))


def _lookup_zeros(table: LinkedTable, lookup: Lookup) -> Iterator[dict[str, Any]]:
    """What a key rules out: attributes that are not its own."""
    assert table.schema is not None
    key = table.schema.column(lookup.column)
    assert isinstance(key, CategoricalColumn)
    attributes = dict(lookup.values)
    named = f"{table.name}.{lookup.column}"
    for place, column in enumerate(lookup.columns):
        assert isinstance(column, ListedColumn)
        whole: list[Any] = [*column.values, None]
        if isinstance(column, CategoricalColumn) and column.other:
            whole.append(column.other_label)
        groups: dict[Any, list[Any]] = {}
        for value in key.values:
            known = attributes.get(text_of(value))
            groups.setdefault(_attribute(column, known[place] if known else None), []).append(value)
        rest = [key.other_label] if key.has_other else []
        groups.setdefault(None, []).extend([*rest, *([None] if key.nullable else [])])
        for own, keys in groups.items():
            others = [value for value in whole if value != own]
            if keys and others:
                yield {named: keys, f"{named}.{column.name}": others}


def _attribute(column: ListedColumn, value: str | None) -> Any:
    """The listed value that an attribute is; None where the public table has none."""
    same = [v for v in column.values if value is not None and text_of(v) == text_of(value)]
    if same or value is None:
        return same[0] if same else None
    return column.other_label if isinstance(column, CategoricalColumn) and column.other else None


def renamed(column: AnyColumn, name: str, **changed: Any) -> AnyColumn:
    """A column of another name, built afresh: a copy would keep what was computed of it."""
    return type(column)(**{**_fields(column), "name": name, **changed})


def _with_tokens(column: ViewColumn, common: set[str]) -> AnyColumn:
    """The view's column with the tokens of its table that others do not share."""
    extra = tuple(token for token in column.tokens if token not in common)
    if not extra:
        return column.column
    known = column.column.missing_tokens
    return type(column.column)(**{**_fields(column.column), "missing_tokens": (*known, *extra)})


def _fields(column: AnyColumn) -> dict[str, Any]:
    """A column's fields as JSON has them: bounds of moments in ISO format."""
    if isinstance(column, MomentColumn):
        return column.model_dump(mode="json")
    return {name: getattr(column, name) for name in type(column).model_fields}


def person_columns(tree: LinkedSchema) -> tuple[ViewColumn, ...]:
    """The columns of a table of persons; those of first children may be missing.

    Example:
        >>> tree = LinkedSchema.read("clinic.schema.json")
        >>> "number of visits" in [column.name for column in person_columns(tree)]
        True
    """
    found = list(own_columns(tree, tree.root.name))
    for child in tree.children(tree.root.name):
        for own in own_columns(tree, child.name):
            if own.part != "count":
                column = renamed(own.column, f"first {own.name}", nullable=True)
                found.append(replace(own, column=column))
    return tuple(found)


def persons_schema(tree: LinkedSchema) -> Schema:
    """The public schema of a table of persons: each has one row."""
    columns = person_columns(tree)
    tokens = dict.fromkeys(token for column in columns for token in column.tokens)
    root = tree.root.schema
    label = root.label if root is not None and root.label else None
    return Schema(
        title=tree.title,
        columns=tuple(column.column for column in columns),
        missing_tokens=tuple(tokens),
        label=f"{tree.root.name}.{label}" if label else None,
        positive=root.positive if root is not None and label else None,
        drafted_from_data=tree.drafted_from_data,
        unit=Unit(column=str(tree.root.key), max_rows=1),
    )


def persons_frame(tree: LinkedSchema, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The persons of a release, in the order of its root."""
    root = tree.root
    rows = tables[root.name].reset_index(drop=True)
    keys = rows[str(root.key)]
    firsts = {
        child.name: tables[child.name].drop_duplicates(str(child.link)).set_index(str(child.link))
        for child in tree.children(root.name)
    }
    found = {}
    for column in person_columns(tree):
        if column.part == "count":
            child = tree.table(column.source)
            counts = tables[child.name][str(child.link)].value_counts()
            found[column.name] = keys.map(counts).fillna(0).astype("int64")
        elif column.table == root.name:
            found[column.name] = values_of(rows, column, root)
        else:
            frame = firsts[column.table]
            found[column.name] = values_of(frame, column, tree.table(column.table)).reindex(keys)
    plain = pd.DataFrame({name: column.to_numpy() for name, column in found.items()})
    return Codec(persons_schema(tree)).conform(plain)


def values_of(frame: pd.DataFrame, column: ViewColumn, table: LinkedTable) -> pd.Series:
    """A column of a table, or an attribute of one of its keys."""
    if column.part == "value":
        return frame[column.source].astype("object")
    name, known = table.attribute(column.source)
    return frame[name].map(lambda value: known.get(text_of(value)) if value is not None else None)
