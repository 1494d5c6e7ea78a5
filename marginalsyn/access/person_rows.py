"""Linked private tables as one table of persons, each with one row, by the query that counts.

A person's row holds the root's columns, the numbers of children and the columns of the first row of
each table below the root: a function of that person's rows alone. One person more or less
is one row more or less, so whatever is promised of rows is promised of persons here.
"""

from __future__ import annotations

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


class PersonsTable(PrivateTable):
    """The persons of linked tables, behind the same door as a single table."""

    def __init__(self, owner: PrivateForest) -> None:
        self._owner = owner
        # The queries of the tables hold persons out: none is here to be held out again.
        everybody = Holdout(0.0, "", Neighbours.ADD_REMOVE)
        schema = persons_schema(owner.tree)
        super().__init__(_Persons(owner, tuple(schema.names)), schema, owner.ledger, everybody)

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

    def __init__(self, owner: PrivateForest, names: tuple[str, ...]) -> None:
        self._owner, self.name = owner, owner.source
        self.columns = (*names, str(owner.tree.root.key))
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
            return Connection(known.backend, person_rows(self._owner.forest), known.embedded)


def person_rows(forest: Forest) -> ibis.Table:
    """One row for each person who is seen: the columns of :func:`person_columns`, and the key."""
    import ibis

    tree = forest.tree
    every = person_columns(tree)
    rows = forest.root_rows()
    own = [column for column in every if column.table == tree.root.name and column.part != "count"]
    known = {column.name: _value(forest, rows, column) for column in own}
    found = rows.select(**{KEY: rows[KEY]}, **known).view()
    for child in tree.children(tree.root.name):
        counts = forest.numbers(child)
        joined = found.left_join(counts, found[KEY] == counts["of"]).view()
        number = ibis.coalesce(joined["number"], 0)
        found = joined.mutate(**{count_name(child.name): number}).drop("of", "number").view()
        rows = forest.ranked(forest.tables[child.name], str(child.link), child)
        rows = forest.first_rows(rows, child)
        first = {t.name: _value(forest, rows, t) for t in every if t.table == child.name}
        rows = rows.select(**{"of": rows[LINK]}, **first).view()
        found = found.left_join(rows, found[KEY] == rows["of"]).drop("of").view()
    columns = {column.name: found[column.name] for column in every}
    return found.select(**columns, **{str(tree.root.key): found[KEY]}).view()


def _value(forest: Forest, rows: ibis.Table, column: ViewColumn) -> ir.Value:
    """A column of a table as it lies, or an attribute of one of its keys."""
    return forest.attribute(rows, column) if column.part == "attribute" else rows[column.source]
