"""The release folder of linked tables: a file for each table, their schema, models, statement."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, Self

import pandas as pd

from marginalsyn.contract import Measurement, Model
from marginalsyn.errors import MarginalsynError, ReleaseError
from marginalsyn.people import LinkedSchema, LinkedTable, views_of
from marginalsyn.release import folder as single
from marginalsyn.release import packing as contents
from marginalsyn.release import staging as folders
from marginalsyn.release.arrays import load_arrays
from marginalsyn.release.statement import Statement
from marginalsyn.table import frames

FORMATS = ("csv", "parquet")


class LinkedRelease:
    """A release of linked tables. Nothing in it is trusted: every file is checked by its hash.

    Attributes:
        path: the folder.
        statement: what ``privacy.json`` says.
        tree: the public schema of the tables.

    Example:
        >>> release = LinkedRelease.read("clinic-release")
        >>> list(release.frames()["visits"])
        ['patient_id', 'ward']
    """

    def __init__(self, path: Path, statement: Statement, tree: LinkedSchema) -> None:
        self.path, self.statement, self.tree = path, statement, tree
        self._files = single.Files(path, statement.files)

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

    def file_of(self, table: str) -> str:
        """The name of a table's file."""
        for kind in FORMATS:
            if f"{table}.{kind}" in self.statement.files:
                return f"{table}.{kind}"
        raise ReleaseError(f"release ({self.path}) must hold a file of table {table}")

    def frames(self) -> dict[str, pd.DataFrame]:
        """The synthetic tables, typed by their schemas; keys are whole numbers."""
        return {table.name: self._frame(table) for table in self.tree.tables}

    def _frame(self, table: LinkedTable) -> pd.DataFrame:
        name = self.file_of(table.name)
        read = frames.read_csv if name.endswith(".csv") else frames.read_parquet
        return read(self._files.path(name, limit=single.MAX_TABLE), table.schema, table.keys)

    def weights(self) -> pd.DataFrame | None:
        """One column of weights per estimator, by the persons' keys; None where there is none.

        All rows of a person have the person's weight: see :meth:`weights_of`.
        """
        if single.WEIGHTS not in self.statement.files:
            return None
        root = self.tree.root
        found = single.read_weights(self._files.path(single.WEIGHTS, limit=single.MAX_TABLE))
        keys = self._frame(root)[str(root.key)]
        if len(found) != len(keys):
            raise ReleaseError(
                f"{single.WEIGHTS} ({len(found)} rows) must have a row for each of {len(keys)} "
                "persons"
            )
        kept = found[[name for name in found if not str(name).endswith(single.LOG)]]
        return kept.set_axis(pd.Index(keys, name=root.key))

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
        arrays = load_arrays(self._files.path("measurements.npz"))
        every = contents.unpack_measurements(self._json("measurements.json"), arrays)
        found: dict[str, list[Measurement]] = {view.name: [] for view in views_of(self.tree)}
        for measurement in every:
            view, _, purpose = measurement.purpose.partition(": ")
            if view not in found:
                raise ReleaseError(f"measurement (of {view!r}) must be of a view")
            found[view].append(replace(measurement, purpose=purpose))
        return found

    def model(self) -> Model:
        """What more persons can be drawn from."""
        arrays = load_arrays(self._files.path("model.npz"))
        return contents.unpack_model(self._json("model.json"), arrays)

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
            statement: what was spent; the hashes of the files are filled in.
            path: the folder's name.
            format: of the tables.
            force: replace the release that has this name.
        """
        if format not in FORMATS:
            raise ReleaseError(f"format ({format}) must be one of {', '.join(FORMATS)}")
        folder = single.target(path, force)
        write_frame = frames.write_csv if format == "csv" else frames.write_parquet
        every = [
            replace(m, purpose=f"{view}: {m.purpose}")
            for view, ms in measurements.items()
            for m in ms
        ]
        with folders.staged(folder, replace=force) as stage:
            for table in tree.tables:
                write = partial(write_frame, tables[table.name])
                folders.write_file(stage / f"{table.name}.{format}", write)
            folders.write_bytes(stage / single.SCHEMA, tree.to_json().encode())
            single.write_pair(stage, "measurements", contents.pack(every))
            single.write_pair(stage, "model", contents.pack_model(model))
            sealed = single.seal(stage, statement)
        return cls(folder, sealed, tree)

    def problems(self) -> list[str]:
        """What is wrong with the contents; hashes and statement are checked before."""
        try:
            tables, measured = self.frames(), self.measurements()
            weights = self.weights()
            self.model()
        except MarginalsynError as error:
            return [str(error)]
        found = tree_problems(self.tree, tables)
        if weights is not None and single.wrong_weights(weights):
            found.append(f"{single.WEIGHTS} must hold finite numbers, zero or more")
        for view in views_of(self.tree):
            found += [
                f"{view.name}: {problem}"
                for problem in contents.measurement_problems(measured[view.name], view.schema)
            ]
        if self.tree.family != self.statement.family:
            found.append(f"{single.PRIVACY} must be about the persons of the schema's tables")
        if self.tree.drafted_from_data and not self.statement.schema_drafted:
            found.append(f"{single.PRIVACY} must say that the schema was drafted from data")
        return found

    def _json(self, name: str) -> object:
        try:
            return json.loads(self._files.text(name))
        except (ValueError, RecursionError) as error:
            raise ReleaseError(f"file ({self.path / name}) must be JSON: {error}") from None


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
    return found


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
