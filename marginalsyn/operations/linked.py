"""Linked private tables that are named and not opened, as a command or a caller means them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.access.linked_tables import PrivateForest
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.errors import DataError, UsageError
from marginalsyn.operations.origins import (
    Input,
    Named,
    PrivateInput,
    find_origin,
    open_ledger,
    unit_asked,
)
from marginalsyn.people.tree import LinkedSchema, Lookup, linked_file
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.records.ledger import Ledger
from marginalsyn.records.workspace import Kept, Workspace
from marginalsyn.release.linked import LinkedRelease, PersonsRelease, TableRelease, column_names
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import ROW, Unit


@dataclass(frozen=True, kw_only=True)
class LinkedInput(Input):
    """Linked private tables that are named but not opened."""

    schema: LinkedSchema

    def ledger(self) -> Ledger:
        """The source's ledger, and that of each of its tables: the one given, else the user's."""
        tables = [t.file or t.name for t in self.schema.tables if t.rows_of is None]
        return open_ledger(self.key, self.named, tables)

    def open(
        self, ledger: Ledger | None = None, neighbours: Neighbours | None = None
    ) -> PrivateForest:
        """Open the tables through the door that charges the ledger; reads no row.

        Persons are held out in the same way whatever the ``neighbours``.
        """
        forest = PrivateForest.open(
            self.key,
            self.schema,
            ledger=ledger,
            holdout=self.kept.holdout,
            holdout_salt=self.kept.holdout_salt,
            sep=self.named.sep,
        )
        forest.check_layout()
        return forest


def find_linked(
    source: Named, *, sequence: bool = False, constants: Sequence[str] = ()
) -> LinkedInput | None:
    """The linked tables, or the sequences of one table, that options name; None if one table is.

    Of a ``sequence`` ``constants`` are columns that are the same in all rows of a person.
    """
    path = Path(source.schema) if source.schema is not None else None
    if path is None and source.data is not None:
        memory = Workspace.here().recall(source.data)
        path = Path(memory.schema_file) if memory is not None and memory.schema_file else None
    linked = path is not None and linked_file(path)
    if not linked and not sequence:
        if constants:
            raise UsageError("--constant names columns of persons whose rows are a --sequence")
        return None
    if source.data is None or path is None:
        raise UsageError("linked tables need --data FOLDER and --schema FILE, which describes them")
    if linked and (sequence or source.unit is not None or source.order or source.max_rows):
        raise UsageError(
            "--unit, --max-rows, --order and --sequence are for one table: a schema of linked "
            "tables says what it protects, how many rows are counted and in what order"
        )
    tree = LinkedSchema.read(path) if linked else _sequence(source, path, constants)
    return LinkedInput(
        key=source.data,
        schema=resolved(tree, Path(source.data), path.parent),
        kept=Kept(holdout=source.holdout),
        named=source,
    )


def find_linked_origin(release: LinkedRelease, source: Named) -> LinkedInput | None:
    """The tables named, else those that a release was made from; None if unknown."""
    return find_origin(release.tree, release, source, LinkedInput)


@dataclass(frozen=True, kw_only=True)
class PersonsInput(PrivateInput):
    """The persons of linked private tables, as one table that is named but not opened."""

    tables: LinkedInput
    # What the schema calls columns of persons, if not by their own names.
    names: Mapping[str, str] | None = None

    def open(self, ledger: Ledger | None, neighbours: Neighbours) -> PrivateTable:
        """Open the tables as one of persons, through the door that charges the ledger."""
        table = self.tables.open(ledger).persons_table(self.schema, self.names)
        table.check_layout()
        return table


def find_persons(release: PersonsRelease, source: Named) -> PersonsInput | None:
    """The persons that a release was made from, in the tables named or known; None if unknown."""
    tables, tree = find_linked_origin(release.linked, source), release.linked.tree
    if tables is None:
        return None
    own = isinstance(release, TableRelease)
    return PersonsInput(
        **{**vars(tables), "schema": release.schema},
        tables=tables,
        names=column_names(tree, tree.root.name) if own else None,
    )


def resolved(tree: LinkedSchema, *folders: Path) -> LinkedSchema:
    """The schema with the public tables that it refers to written into it."""

    def read(lookup: Lookup) -> Lookup:
        if lookup.values:
            return lookup
        places = [folder / lookup.file for folder in folders]
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            raise DataError(f"public table ({lookup.file}) must be a file next to the data")
        if found.suffix == ".parquet":
            frame = pd.read_parquet(found)
        else:
            how: Any = {"sep": None, "engine": "python", "dtype": str, "keep_default_na": False}
            frame = pd.read_csv(found, **how).replace("", np.nan)
        names = [lookup.key, *(column.name for column in lookup.columns)]
        lacking = [name for name in names if name not in frame]
        if lacking:
            raise DataError(f"public table ({lookup.file}) must have column {lacking[0]!r}")
        # Of rows with the same key the first counts: the table is public, and so is its order.
        frame = frame[names].drop_duplicates(lookup.key)
        values = frame.astype(object).where(frame.notna(), None).to_numpy()
        pairs = tuple(
            (str(row[0]), tuple(None if v is None else str(v) for v in row[1:]))
            for row in values
            if row[0] is not None
        )
        return replace(lookup, values=pairs)

    tables = tuple(
        replace(table, lookups=tuple(read(lookup) for lookup in table.lookups))
        for table in tree.tables
    )
    return replace(tree, tables=tables)


def _sequence(source: Named, path: Path, constants: Sequence[str]) -> LinkedSchema:
    """The tree of one table whose rows of a person are a sequence."""
    schema = Schema.read(path)
    known = {**(schema.unit.model_dump() if schema.unit is not None else {}), **unit_asked(source)}
    lacking = [name for name in ("column", "max_rows", "order") if not known.get(name)]
    if lacking or known["column"] == ROW:
        raise UsageError(
            "--sequence needs --unit COLUMN --max-rows N --order COLUMN: whose rows they are, how "
            "many are counted at most, and in what order"
        )
    for name in constants:
        schema.column(name)
    name = Path(str(source.data)).name.partition(".")[0]
    plain = "".join(sign if sign.isalnum() or sign in "_-" else "_" for sign in name)
    return LinkedSchema.of_sequence(schema.with_unit(Unit(**known)), plain or "rows", constants)
