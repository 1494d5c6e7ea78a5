"""Linked private tables as one table of persons, each with one row, by the query that counts.

A person's row holds the root's columns, the numbers of children and the columns of the first row of
each table below the root: a function of that person's rows alone. One person more or less
is one row more or less, so whatever is promised of rows is promised of persons here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.access.rows import Holdout
from marginalsyn.people.persons_table import person_columns, persons_schema
from marginalsyn.people.views import count_name
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.sources.linked_views import KEY, LINK, Forest
from marginalsyn.sources.source import Source, trace_of
from marginalsyn.table.engine import Connection, engine_errors

if TYPE_CHECKING:
    import ibis
    import ibis.expr.types as ir

    from marginalsyn.access.linked_tables import PrivateForest
    from marginalsyn.people.views import ViewColumn
    from marginalsyn.table.schema import Schema


class PersonsTable(PrivateTable):
    """The persons of linked tables, behind the same door as a single table.

    Args:
        owner: the linked tables.
        schema: of some of the persons' columns; of all of them if it is not given.
        names: what the schema calls these columns, by their names in :func:`person_rows`.
    """

    def __init__(
        self,
        owner: PrivateForest,
        schema: Schema | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self._owner = owner
        # The queries of the tables hold persons out: none is here to be held out again.
        everybody = Holdout(0.0, "", Neighbours.ADD_REMOVE)
        schema = schema or persons_schema(owner.tree)
        names = names or {name: name for name in schema.names}
        super().__init__(_Persons(owner, names), schema, owner.ledger, everybody)

    @property
    def holdout(self) -> float:
        """The share of persons that no visit sees."""
        return self._owner.holdout

    @property
    def split(self) -> str:
        """Which persons no visit sees, as ledgers name it."""
        return self._owner.split

    def check_layout(self) -> None:
        """Raise SchemaError unless the tables have the columns of their schemas. Reads no row."""
        self._owner.check_layout()
        super().check_layout()


class _Persons(Source):
    """The rows of all tables as a source of persons."""

    def __init__(self, owner: PrivateForest, names: Mapping[str, str]) -> None:
        self._owner, self.name, self._names = owner, owner.source, names
        self.columns = (*names.values(), str(owner.tree.root.key))
        self.embedded = owner.embedded

    @property
    def trace(self) -> str | None:
        return trace_of(self._owner._sources)

    def check_format(self) -> None:
        self._owner._check_format()

    @cached_property
    def _connection(self) -> Connection:
        known = self._owner.connection
        with engine_errors(self.name):
            return Connection(
                known.backend, person_rows(self._owner.forest, self._names), known.embedded
            )


def person_rows(forest: Forest, names: Mapping[str, str]) -> ibis.Table:
    """One row for each person who is seen: columns of :func:`person_columns`, renamed, and the key.

    Tables of which no column is wanted are not joined.
    """
    import ibis

    tree = forest.tree
    every = [column for column in person_columns(tree) if column.name in names]
    rows = forest.root_rows()
    own = [column for column in every if column.table == tree.root.name and column.part != "count"]
    known = {column.name: _value(forest, rows, column) for column in own}
    found = rows.select(**{KEY: rows[KEY]}, **known).view()
    for child in tree.children(tree.root.name):
        if count_name(child.name) in names:
            counts = forest.numbers(child)
            joined = found.left_join(counts, found[KEY] == counts["of"]).view()
            number = ibis.coalesce(joined["number"], 0)
            found = joined.mutate(**{count_name(child.name): number}).drop("of", "number").view()
        firsts = [column for column in every if column.table == child.name]
        if not firsts:
            continue
        rows = forest.ranked(forest.tables[child.name], str(child.link), child)
        rows = forest.first_rows(rows, child)
        first = {t.name: _value(forest, rows, t) for t in firsts}
        rows = rows.select(**{"of": rows[LINK]}, **first).view()
        found = found.left_join(rows, found[KEY] == rows["of"]).drop("of").view()
    columns = {names[column.name]: found[column.name] for column in every}
    return found.select(**columns, **{str(tree.root.key): found[KEY]}).view()


def _value(forest: Forest, rows: ibis.Table, column: ViewColumn) -> ir.Value:
    """A column of a table as it lies, or an attribute of one of its keys."""
    return forest.attribute(rows, column) if column.part == "attribute" else rows[column.source]
