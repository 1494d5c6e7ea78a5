"""Releases of linked tables, as their persons, which weights are made for, and as single tables.

In a :class:`TableRelease` columns have their own names, and a column for each table below it has
the number of rows there. The root's rows are the persons, each with one unit of weight in the
root's view: its noisy marginals and its model are those of any table in which a person has one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import pandas as pd

from marginalsyn.contract import Measurement, Model
from marginalsyn.errors import ReleaseError
from marginalsyn.people.tree import LinkedSchema, LinkedTable
from marginalsyn.people.views import (
    View,
    joined_schema,
    own_columns,
    persons_frame,
    persons_schema,
    renamed,
    values_of,
    views_of,
)
from marginalsyn.release import folder as single
from marginalsyn.release.staging import measurement_problems, unpack_measurements, unpack_model
from marginalsyn.release.statement import Statement
from marginalsyn.table import frames
from marginalsyn.table.codec import Codec
from marginalsyn.table.keeping import broken_rules
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import Unit


class LinkedRelease(single.ReleaseFolder):
    """A release folder of linked tables.

    Attributes:
        tree: the public schema of the tables.

    Example:
        >>> release = LinkedRelease.read("clinic-release")
        >>> list(release.frames()["visits"])
        ['patient_id', 'ward']
    """

    def __init__(self, path: Path, statement: Statement, tree: LinkedSchema) -> None:
        super().__init__(path, statement)
        self.schema = self.tree = tree

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Open a release folder.

        Raises:
            ReleaseError: it is not a release of linked tables, or its statement is invalid.
        """
        folder, statement = single.open_folder(path)
        if statement.family is None:
            raise ReleaseError(f"release ({path}) must hold linked tables: it holds one table")
        tree = LinkedSchema.from_json(single.Files(folder, statement.files).text(single.SCHEMA))
        return cls(folder, statement, tree)

    @property
    def frame_file(self) -> str:
        """The name of the file that holds the persons."""
        return self.file_of(self.tree.root.name)

    def frames(self) -> dict[str, pd.DataFrame]:
        """The synthetic tables, typed by their schemas; keys are whole numbers."""
        return {table.name: self._frame(table) for table in self.tree.tables}

    def _frame(self, table: LinkedTable) -> pd.DataFrame:
        return self._rows_of(self.file_of(table.name), table.schema, table.keys)

    def weights(self) -> pd.DataFrame | None:
        """One column of weights per estimator, by the persons' keys; None where there is none.

        All rows of a person have the person's weight: see :meth:`weights_of`.
        """
        found = super().weights()
        if found is None:
            return None
        root = self.tree.root
        keys = self._frame(root)[str(root.key)]
        if len(found) != len(keys):
            raise ReleaseError(
                f"{single.WEIGHTS} ({len(found)} rows) must have a row for each of {len(keys)} "
                "persons"
            )
        return found.set_axis(pd.Index(keys, name=root.key))

    def weights_of(self, table: str) -> pd.DataFrame | None:
        """The weights of a table's rows: each has the weight of its person."""
        weights, tables = self.weights(), self.frames()
        if weights is None:
            return None
        root, *path = self.tree.path(table)
        persons = tables[root.name][str(root.key)].set_axis(tables[root.name][str(root.key)])
        for step in path:
            rows = tables[step.name]
            persons = rows[str(step.link)].map(persons)
            if step is not path[-1]:
                persons = persons.set_axis(rows[str(step.key)])
        return weights.reindex(persons.to_numpy()).reset_index(drop=True)

    def measurements(self) -> dict[str, list[Measurement]]:
        """The noisy marginals of every view."""
        found: dict[str, list[Measurement]] = {view.name: [] for view in views_of(self.tree)}
        for measurement in unpack_measurements(*self.attached("measurements")):
            view, _, purpose = measurement.purpose.partition(": ")
            if view not in found:
                raise ReleaseError(f"measurement (of {view!r}) must be of a view")
            found[view].append(replace(measurement, purpose=purpose))
        return found

    def model(self) -> Model:
        """What more persons can be drawn from."""
        return unpack_model(*self.attached("model"))

    @classmethod
    def write(
        cls,
        tables: Mapping[str, pd.DataFrame],
        measurements: Mapping[str, Sequence[Measurement]],
        model: Model,
        tree: LinkedSchema,
        statement: Statement,
        path: str | Path,
        *,
        format: Literal["csv", "parquet"] = "csv",
        force: bool = False,
    ) -> Self:
        """Write a release folder, whole or not at all.

        Args:
            tables: the rows of every table, with keys.
            measurements: by view.
            model: of all views.
            tree: the public schema.
            statement, path, format, force: as in :meth:`Release.write`.
        """
        every = [
            replace(one, purpose=f"{view}: {one.purpose}")
            for view, found in measurements.items()
            for one in found
        ]
        folder, sealed = single.write_folder(
            {table.name: tables[table.name] for table in tree.tables},
            tree.to_json(),
            every,
            model,
            statement,
            path,
            format=format,
            force=force,
        )
        return cls(folder, sealed, tree)

    def problems(self) -> list[str]:
        """What is wrong with the contents, of which the hashes were checked before."""
        measured = self.measurements()
        found = tree_problems(self.tree, self.frames())
        for view in views_of(self.tree):
            found += [
                f"{view.name}: {problem}"
                for problem in measurement_problems(measured[view.name], view.schema)
            ]
        if self.tree.family != self.statement.family:
            found.append(f"{single.PRIVACY} must be about the persons of the schema's tables")
        self.model()
        return found + self._common_problems(self.schema, self.weights())


class PersonsRelease(single.Release):
    """The persons of linked tables, one row each, in the order of the root's file.

    What is added to it, such as weights, is added to the release of linked tables.

    Example:
        >>> persons = PersonsRelease.read("clinic-release")
        >>> len(persons.frame()) == len(LinkedRelease.read("clinic-release").frames()["patients"])
        True
    """

    def __init__(self, path: Path, statement: Statement, linked: LinkedRelease) -> None:
        super().__init__(path, statement, persons_schema(linked.tree))
        self.linked = linked

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Open a release of linked tables.

        Raises:
            ReleaseError: it is none, or a table's file has the name that weights have.
        """
        linked = LinkedRelease.read(path)
        for table in linked.tree.tables:
            if linked.file_of(table.name).startswith(("weights.", "weights-")):
                raise ReleaseError(
                    f"table ({table.name}) must have another name: weights are written to "
                    f"{single.WEIGHTS} and {single.weights_file('NAME')}"
                )
        return cls(linked.path, linked.statement, linked)

    def reopen(self) -> Self:
        """The release that lies there now."""
        return self.read(self.path)

    @property
    def frame_file(self) -> str:
        """The name of the file that holds the persons."""
        return self.linked.frame_file

    def frame(self) -> pd.DataFrame:
        """The persons, typed by the schema."""
        return persons_frame(self.linked.tree, self.linked.frames())

    def measurements(self) -> list[Measurement]:
        """The noisy marginals of the root's view, which counts persons once."""
        return self.linked.measurements()[self.linked.tree.root.name]

    def model(self) -> Model | None:
        """None: more persons are drawn from all views."""
        return None

    def amend(self, files: Mapping[str, bytes], **costs: Any) -> single.Release:
        """Add files and charges to the release of linked tables."""
        taken = {self.linked.file_of(table.name) for table in self.linked.tree.tables}
        if both := taken & {*files}:
            raise ReleaseError(f"file name ({min(both)!r}) must not be a table's")
        super().amend(files, **costs)
        return self.read(self.path)


def tree_problems(tree: LinkedSchema, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """How synthetic tables depart from their schema: columns, keys, children without a parent."""
    found = []
    for table in tree.tables:
        frame, where = tables[table.name], f"table {table.name}"
        if table.schema is not None:
            bare = frame[[name for name in frame if name in table.schema.names]]
            found += [f"{where}: {p}" for p in frames.frame_problems(bare, table.schema)]
        if table.key and not frame[table.key].is_unique:
            found.append(f"{where}: key {table.key} must be distinct")
        if table.parent is not None:
            parent = tree.table(table.parent)
            known = tables[parent.name][str(parent.key)]
            counts = frame[str(table.link)].value_counts()
            orphans = int((~frame[str(table.link)].isin(known)).sum())
            if orphans:
                found.append(f"{where}: {orphans} rows must have a parent in {parent.name}")
            if len(counts) and int(counts.max()) > table.max_children:
                found.append(f"{where}: a parent must have at most {table.max_children} rows")
        if not found:
            found += [
                f"{where}: rule ({text}) must hold: {count} rows break it"
                for text, count in broken_in(tree, table, tables).items()
            ]
    return found


def broken_in(
    tree: LinkedSchema, table: LinkedTable, tables: Mapping[str, pd.DataFrame]
) -> dict[str, int]:
    """By rule of a table, or between it and those above it, how many of its rows break it."""
    joined = joined_schema(tree, table.name)
    if joined is None:
        return {}
    return broken_rules(_with_parents(tree, table, tables)[joined.names], joined)


def _with_parents(
    tree: LinkedSchema, table: LinkedTable, tables: Mapping[str, pd.DataFrame]
) -> pd.DataFrame:
    """The rows of a table next to those above them, columns named by table and column."""
    frame = tables[table.name].add_prefix(f"{table.name}.")
    while table.parent is not None:
        parent = tree.table(table.parent)
        above = tables[parent.name].add_prefix(f"{parent.name}.")
        frame = frame.merge(
            above,
            how="left",
            left_on=f"{table.name}.{table.link}",
            right_on=f"{parent.name}.{parent.key}",
        )
        table = parent
    return frame


def open_release(path: str | Path) -> LinkedRelease | single.Release:
    """Open a release folder, whether it holds one table or several."""
    reader = LinkedRelease if is_linked_release(path) else single.Release
    return reader.read(path)


def is_linked_release(path: str | Path) -> bool:
    """Whether a folder holds a release of linked tables; False where it holds none."""
    try:
        return single.open_folder(path)[1].family is not None
    except ReleaseError:
        return False


class TableRelease(PersonsRelease):
    """One table of a release of linked tables; by default the root, whose rows are persons.

    Example:
        >>> persons = TableRelease.of(LinkedRelease.read("clinic-release"))
        >>> list(persons.frame())
        ['age', 'ill', 'number of visits']
    """

    def __init__(
        self, path: Any, statement: Statement, linked: LinkedRelease, table: str = ""
    ) -> None:
        self.table = table or linked.tree.root.name
        single.Release.__init__(self, path, statement, table_schema(linked.tree, self.table))
        self.linked = linked

    @classmethod
    def of(cls, linked: LinkedRelease, table: str = "") -> Self:
        """A table of an opened release."""
        return cls(linked.path, linked.statement, linked, table)

    @property
    def root(self) -> bool:
        """Whether its rows are the persons."""
        return self.table == self.linked.tree.root.name

    @property
    def frame_file(self) -> str:
        """The name of the file that holds its rows."""
        return self.linked.file_of(self.table)

    def frame(self) -> pd.DataFrame:
        """Its rows, typed by its schema, in the order of its file."""
        return table_frame(self.linked.tree, self.linked.frames(), self.table)

    def weights(self) -> pd.DataFrame | None:
        """One column of weights per estimator: those of the persons whose rows they are."""
        return self.linked.weights_of(self.table)

    def log_weights(self) -> pd.DataFrame | None:
        """The raw log-weights, which the persons alone have."""
        return super().log_weights() if self.root else None

    def measurements(self) -> list[Measurement]:
        """The noisy marginals of the persons; rows of other tables were measured with these."""
        return self.named(super().measurements()) if self.root else []

    def named(self, measured: Iterable[Measurement]) -> list[Measurement]:
        """The noisy marginals of its columns alone, by the names that these have here."""
        names = column_names(self.linked.tree, self.table)
        return [
            replace(one, columns=tuple(names[name] for name in one.columns))
            for one in measured
            if {*one.columns} <= {*names}
        ]

    def model(self) -> Model | None:
        """The model of the persons; rows of other tables are drawn from several."""
        if not self.root:
            return None
        whole = self.linked.model()
        for entry in whole.meta.get("views", ()):
            if entry["view"] == self.table:
                start = f"{entry['prefix']}:"
                arrays = {
                    k[len(start) :]: v for k, v in whole.arrays.items() if k.startswith(start)
                }
                meta = _renamed(entry["meta"], column_names(self.linked.tree, self.table))
                return Model(kind=entry["kind"], arrays=arrays, meta=meta)
        raise ReleaseError(f"model must have view {self.table!r}")


def column_names(tree: LinkedSchema, table: str) -> dict[str, str]:
    """The names that columns of a view have in their table, by those that they have in the view."""
    columns = own_columns(tree, table)
    plain = [column.name.removeprefix(f"{table}.") for column in columns]
    return {
        column.name: name if plain.count(name) == 1 else column.name
        for column, name in zip(columns, plain, strict=True)
    }


def table_schema(tree: LinkedSchema, table: str) -> Schema:
    """The public schema of one of linked tables, numbers of rows below among its columns.

    Example:
        >>> table_schema(LinkedSchema.read("clinic.schema.json"), "patients").names
        ['age', 'ill', 'number of visits']
    """
    names, own = column_names(tree, table), tree.table(table).schema
    root = table == tree.root.name
    view = (
        views_of(tree)[0] if root else View(table, "root", table, (), own_columns(tree, table))
    ).schema
    return Schema(
        title=f"{table} of {tree.title}" if tree.title else table,
        columns=tuple(renamed(column, names[column.name]) for column in view.columns),
        missing_tokens=view.missing_tokens,
        impossible=tuple(_renamed(dict(rule), names) for rule in view.impossible),
        label=own.label if own is not None else None,
        positive=own.positive if own is not None else None,
        drafted_from_data=tree.drafted_from_data,
        unit=Unit(column=str(tree.root.key), max_rows=1) if root else None,
    )


def table_frame(tree: LinkedSchema, tables: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
    """The rows of one of linked tables by :func:`table_schema`, real or synthetic."""
    table, names = tree.table(name), column_names(tree, name)
    rows = tables[name].reset_index(drop=True)
    found = {}
    for column in own_columns(tree, name):
        if column.part == "count":
            child = tree.table(column.source)
            counts = tables[child.name][str(child.link)].value_counts()
            number = rows[str(table.key)].map(counts).fillna(0).clip(upper=child.max_children)
            found[names[column.name]] = number.astype("int64").to_numpy()
        else:
            found[names[column.name]] = values_of(rows, column, table).to_numpy()
    return Codec(table_schema(tree, name)).conform(pd.DataFrame(found, index=rows.index))


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """JSON values in which columns have other names."""
    if isinstance(value, Mapping):
        return {names.get(key, key): _renamed(one, names) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value
