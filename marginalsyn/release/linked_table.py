"""One table of a release of linked tables, as a release of one table.

Its columns have their own names, and a column for each table below it has the number of rows there.
The root's rows are the persons, each with one unit of weight in the root's view: its noisy
marginals and its model are those of any table in which a person has one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

import pandas as pd

from marginalsyn.contract import Measurement, Model
from marginalsyn.errors import ReleaseError
from marginalsyn.people.drawing import values_of
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.people.views import View, own_columns, renamed, views_of
from marginalsyn.release import folder as single
from marginalsyn.release.linked import LinkedRelease, PersonsRelease
from marginalsyn.release.statement import Statement
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import Unit


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
    found: dict[str, Any] = {}
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
