"""Linked private tables: one charge pays for a visit to the views of all of them.

Linked private tables as one table of persons, each with one row, by the query that counts.

A person's row holds the root's columns, the numbers of children and the columns of the first row of
each table below the root: a function of that person's rows alone. One person more or less
is one row more or less, so whatever is promised of rows is promised of persons here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from itertools import starmap
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd

from marginalsyn.access.prepaid_budget import PrepaidBudget
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.access.rows import PrivateRows
from marginalsyn.errors import DataError, SchemaError, UsageError
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.people.views import View, count_name, person_columns, persons_schema, views_of
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.records.ledger import Ledger
from marginalsyn.sources import counting
from marginalsyn.sources.counting import Codes, Columns
from marginalsyn.sources.databases import open_urls, shown_url
from marginalsyn.sources.holdout import Holdout
from marginalsyn.sources.linked_views import KEY, LINK, Forest
from marginalsyn.sources.persons import AMOUNT, WHOLE, keyed
from marginalsyn.sources.source import Source, TableSource, open_source, place_of_table, trace_of
from marginalsyn.table.codec import Codec
from marginalsyn.table.encoding import spelt
from marginalsyn.table.engine import Connection, engine_errors, store
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import Unit
from marginalsyn.validation import like, shorten


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

    @property
    def trace(self) -> str | None:
        return trace_of(self._owner._sources)

    def check_format(self) -> None:
        self._owner._check_format()

    @cached_property
    def _connection(self) -> Connection:
        with engine_errors(self.name):
            rows = person_rows(self._owner.forest, self._names)
            return Connection(self._owner.connection.backend, rows)


def person_rows(forest: Forest, names: Mapping[str, str]) -> ibis.Table:
    """One row for each person who is seen: columns of :func:`person_columns`, renamed, and the key.

    Tables of which no column is wanted are not joined.
    """
    tree = forest.tree
    every = [column for column in person_columns(tree) if column.name in names]
    rows = forest.root_rows()
    own = [column for column in every if column.table == tree.root.name and column.part != "count"]
    known = {column.name: forest.value(rows, column) for column in own}
    found = rows.select(**{KEY: rows[KEY]}, **known).view()
    for child in tree.children(tree.root.name):
        if count_name(child.name) in names:
            found = forest.with_number(found, child, count_name(child.name))
        firsts = [column for column in every if column.table == child.name]
        if not firsts:
            continue
        rows = forest.ranked(forest.tables[child.name], str(child.link), child)
        rows = forest.first_rows(rows, child)
        first = {t.name: forest.value(rows, t) for t in firsts}
        rows = rows.select(of=rows[LINK], **first).view()
        found = found.left_join(rows, found[KEY] == rows["of"]).drop("of").view()
    columns = {names[column.name]: found[column.name] for column in every}
    return found.select(**columns, **{str(tree.root.key): found[KEY]}).view()


class PrivateForest(PrivateTable):
    """Linked private tables: one charge pays for the views of all of them.

    Make one with :meth:`open`. A visit that :meth:`charge` returns is to the persons; its
    :meth:`~marginalsyn.access.visit.Visit.view` goes to each of the views.

    Attributes:
        tree: their public description.
        ledger: where charges are written.

    Example:
        >>> from marginalsyn.people.tree import LinkedSchema
        >>> forest = PrivateForest.open("clinic", LinkedSchema.read("clinic.schema.json"))
        >>> forest.source
        'clinic'
    """

    schema: LinkedSchema  # type: ignore[assignment]

    def __init__(
        self,
        name: str,
        sources: Mapping[str, Source],
        tree: LinkedSchema,
        ledger: Ledger,
        holdout: Holdout,
    ) -> None:
        self.schema = self.tree = tree
        self.ledger, self._name, self._holdout = ledger, name, holdout
        self._tables = dict(sources)
        # The root decides who is held out; it may be made from the rows of another table.
        self._source = sources[tree.root.rows_of or tree.root.name]
        self._sources = [*sources.values()]
        self._views = {view.name: ViewRows(self, view) for view in self.views}
        self._rows = self._plain = self._views[tree.root.name]
        self._format_checked = False

    @classmethod
    def open(  # type: ignore[override]
        cls,
        data: str | Path | Mapping[str, Any],
        tree: LinkedSchema,
        *,
        ledger: Ledger | None = None,
        holdout: float = 0.0,
        holdout_salt: str = "",
        sep: str | None = None,
    ) -> PrivateForest:
        """Open linked tables without reading a row: only names and types of their columns.

        Args:
            data: a folder with a file for each table, a database address, or frames, paths or
                Ibis tables by the tables' names.
            tree: the public description of the tables.
            ledger: where charges are written; by default a new one in memory.
            holdout: the share of persons that no visit ever sees, for a later evaluation.
            holdout_salt: decides who they are.
            sep: the separator of CSV files.

        Raises:
            UsageError: an argument that cannot be taken as given.
            DataError: a table that is not there, or is none.
        """
        split = Holdout(holdout, holdout_salt, Neighbours.ADD_REMOVE)
        wanted = [table for table in tree.tables if table.rows_of is None]
        if isinstance(data, Mapping):
            name = "tables in memory"
            lacking = [table.name for table in wanted if table.name not in data]
            if lacking:
                raise UsageError(f"data must hold table {lacking[0]!r}{like(lacking[0], data)}")
            found: list[Source] = [_open(data[t.name], t.schema, sep) for t in wanted]
        elif "://" in str(data):
            name = shown_url(str(data))
            opened = open_urls(str(data), [t.file or t.name for t in wanted])
            found = list(starmap(TableSource, opened))
        else:
            name = str(data)
            places = [_place(data, t.file or t.name, len(wanted)) for t in wanted]
            found = [_open(p, t.schema, sep) for p, t in zip(places, wanted, strict=True)]
        sources = {table.name: source for table, source in zip(wanted, found, strict=True)}
        ledger = ledger or Ledger(None, source=name)
        ledger.check_asked()
        return cls(name, sources, tree, ledger, split)

    @property
    def source(self) -> str:
        """A readable name of where the tables lie."""
        return self._name

    def persons_table(
        self, schema: Schema | None = None, names: Mapping[str, str] | None = None
    ) -> PersonsTable:
        """The persons as one table, a row each, behind the same door and ledger.

        It has all columns of persons, or those of a schema that calls them by other ``names``.
        """
        return PersonsTable(self, schema, names)

    @cached_property
    def views(self) -> list[View]:
        """The views that are counted."""
        return views_of(self.tree)

    def check_layout(self) -> None:
        """Raise SchemaError unless sources and schema have the same columns. Reads no row."""
        problems = []
        for table in self.tree.tables:
            source = self._tables[table.rows_of or table.name]
            present, known = source.columns, [column.name for column in table.columns]
            others = {*table.left_out}
            for other in self.tree.tables:
                if table.name in (other.rows_of, other.name) or other.name == table.rows_of:
                    others |= {*other.left_out, *(column.name for column in other.columns)}
            for name in [*known, *table.keys]:
                if name not in present:
                    problems.append(
                        f"column ({name!r}) of table {table.name} must be in the source"
                        f"{like(name, present)}"
                    )
                elif name in source.nested:
                    problems.append(f"column ({name!r}) of table {table.name} must be plain values")
            problems += [
                f"column ({name!r}) of table {table.name} must be in its schema or in the schema's "
                f"drop list{like(name, known)}"
                for name in present
                if name not in known and name not in others and table.rows_of is None
            ]
        if problems:
            raise SchemaError(shorten(problems))

    def _check_charges(self, prepaid: PrepaidBudget, persons: bool) -> None:
        if prepaid.neighbours is not Neighbours.ADD_REMOVE:
            raise UsageError(
                "neighbours (replace) must be add-remove for linked tables: how many persons have "
                "rows in a table is private"
            )

    def unprotected(self, reason: str) -> UnprotectedForest:  # type: ignore[override]
        """Return a view without any protection, for the curator alone."""
        super().unprotected(reason)
        return UnprotectedForest(self, reason)

    @property
    def connection(self) -> Connection:
        """The engine that holds the rows of all tables."""
        return self._sources[0].connect()

    @cached_property
    def forest(self) -> Forest:
        """The views as queries."""
        backend = self.connection.backend
        with engine_errors(self.source):
            tables = {
                name: source.attach(backend, f"source_of_{name}")
                for name, source in self._tables.items()
            }
        keep = partial(store, backend) if self.connection.embedded else None
        return Forest(self.tree, tables, self._holdout, str(backend.name), keep)


class ViewRows(PrivateRows):
    """The rows of one view, each weighed by its share of a person's unit."""

    def __init__(self, owner: PrivateForest, view: View) -> None:
        self._owner, self._view, self.codec = owner, view, Codec(view.schema)
        # What it counts is persons: rows are not seen one by one.
        self.unit = Unit(column=str(owner.tree.root.key), max_rows=1)
        self._source = owner._source

    @property
    def whole(self) -> int:
        return WHOLE

    @cached_property
    def _connection(self) -> Connection:
        return self._owner.connection

    @property
    def _weighing(self) -> counting.Weighing:
        # A weight is its own code.
        return counting.Weighing(AMOUNT, np.arange(WHOLE + 1))

    @cached_property
    def _codes(self) -> Codes:
        sizes = {**self.codec.schema.domain, AMOUNT: WHOLE + 1}
        table = self._owner.forest.coded(self._view)

        def encoded(columns: Columns) -> ibis.Table:
            return table.select(*columns)

        return counting.load(self._connection, encoded, sizes, self._weighing)


class UnprotectedForest:
    """Exact rows of linked tables without any protection. They must never reach a release."""

    stamp = "not private: for the curator"

    def __init__(self, owner: PrivateForest, reason: str) -> None:
        self.reason, self._owner = reason, owner

    def rows(self, table: str) -> ibis.Table:
        """The rows of a table as they lie, orphans among them."""
        return self._owner.forest.tables[self._owner.tree.table(table).rows_of or table]

    def keys(self) -> dict[str, dict[str, int]]:
        """By table, how many ``rows`` it has, and what is odd about their keys.

        ``unlinked`` are rows without the key of a parent (of the root: without a key), ``orphans``
        rows whose parent is not there, ``beyond`` those that are more than their parent's
        max_children. Of the keys that other tables refer to, ``keyless`` rows have none, ``double``
        values stand in several rows, and ``shared`` ones under several parents: what stands under
        these belongs to all of them. Rows of the root that share a key are one person.
        """
        forest, found = self._owner.forest, {}
        above: dict[str, ibis.Table] = {}
        for table in self._owner.tree.tables:
            rows = self.rows(table.name)
            names = {LINK: str(table.link or table.key), KEY: str(table.key or table.link)}
            keys = {name: keyed(rows[own], forest.engine) for name, own in names.items()}
            linked = rows.select(**keys).filter(lambda t: t[LINK].notnull()).view()
            placed = linked
            if table.parent:
                placed = linked.semi_join(above[table.parent], LINK).view()
            named = placed.filter(placed[KEY].notnull()).view()
            above[table.name] = named.select(**{LINK: named[KEY]}).distinct().view()
            steps = {"rows": rows, "linked": linked, "placed": placed, "named": named}
            sums = {what: some.count() for what, some in steps.items()}
            if table.parent:
                each = placed.group_by(LINK).aggregate(rows=placed.count()).view()
                sums["beyond"] = (each["rows"] - table.max_children).clip(lower=0).sum()
            if table.key:
                several = {"double": named, "shared": named.distinct().view()}
                for name, some in several.items() if table.parent else [("double", named)]:
                    times = some.group_by(KEY).aggregate(times=some.count()).view()
                    sums[name] = times.filter(times["times"] > 1).count()
            with engine_errors(self._owner.source):
                execute = self._owner.connection.backend.execute
                counts = {what: int(execute(one) or 0) for what, one in sums.items()}
            every, some, rest, last = (counts.pop(step) for step in steps)
            odd = {"rows": every, "unlinked": every - some, "orphans": some - rest, **counts}
            found[table.name] = odd | ({"keyless": rest - last} if table.key else {})
        return found

    def frames(self, *, held_out: bool = False) -> dict[str, pd.DataFrame]:
        """The tables as a release would hold them, keys as texts, of one part's persons."""
        found = {}
        for table in self._owner.tree.tables:
            with engine_errors(self._owner.source):
                rows = self._owner.forest.real(table.name, held_out=held_out)
                keys = {f"marginalsyn_{n}": spelt(rows[n]) for n in table.keys}
                codec = Codec(table.schema) if table.schema is not None else None
                rows = rows.mutate(**keys)
                rows = codec.conformed(rows, tuple(keys)) if codec else rows.select(*keys)
                frame = self._owner.connection.backend.to_pyarrow(rows)
            made = frame.select(list(keys)).to_pandas().set_axis(list(table.keys), axis=1)
            if codec is not None:
                made = made.join(codec.restored(frame))
            made.attrs["marginalsyn"] = self.stamp
            found[table.name] = made
        return found


def _open(data: Any, schema: Schema | None, sep: str | None) -> Source:
    return open_source(data, sep=sep, **(schema.reading if schema is not None else {}))


def _place(folder: str | Path, name: str, tables: int) -> Path:
    """The file of a table: of its name, in the folder; a single table may be named itself."""
    path = Path(folder).expanduser()
    if path.is_file() and tables == 1:
        return path
    if not path.is_dir():
        raise DataError(f"data ({folder}) must be a folder with a file for each table")
    found = place_of_table(path, name)
    if found is None:
        raise DataError(
            f"data ({folder}) must hold one file for table {name}: {name}.csv, .tsv or .parquet, "
            'or what its "file" in the schema says'
        )
    return found
