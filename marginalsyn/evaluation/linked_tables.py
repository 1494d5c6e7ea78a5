"""Linked tables as codes: what their rows hold, whose they are, and what follows what."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from marginalsyn.people.tree import LinkedSchema
from marginalsyn.people.views import count_name, own_columns
from marginalsyn.table.codec import Codec

# Transitions of columns with more values than this make a square are not compared.
MOST_CELLS = 150


@dataclass(frozen=True)
class LinkedCodes:
    """Linked tables, real or synthetic, as codes.

    Attributes:
        tree: their public schema.
        codes: by table, the codes of its columns by name, numbers of children among them.
        parents: by child table, the place of each row's parent in its table.
        amounts: by table with an order, what orders its rows.
    """

    tree: LinkedSchema
    codes: Mapping[str, Mapping[str, np.ndarray]]
    parents: Mapping[str, np.ndarray]
    amounts: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, tables: Mapping[str, pd.DataFrame], tree: LinkedSchema) -> LinkedCodes:
        """Encode tables; rows without a parent are left out, and of equal keys the first counts."""
        tables = connected(tables, tree)
        codes: dict[str, dict[str, np.ndarray]] = {}
        parents: dict[str, np.ndarray] = {}
        amounts: dict[str, np.ndarray] = {}
        places: dict[str, pd.Series] = {}
        for table in tree.tables:
            frame = tables[table.name]
            if table.parent is not None:
                found = frame[str(table.link)].map(places[table.parent])
                parents[table.name] = found.to_numpy(dtype=np.int64)
            if table.key:
                keys = frame[table.key].drop_duplicates()
                places[table.name] = pd.Series(keys.index, index=keys.to_numpy())
            own: dict[str, np.ndarray] = {}
            if table.schema is not None:
                codec = Codec(table.schema)
                matrix = codec.encode(frame[[column.name for column in table.columns]])
                own = {f"{table.name}.{c.name}": matrix[:, j] for j, c in enumerate(table.columns)}
                if table.order:
                    numeric = table.schema.column(table.order).numeric
                    order = codec.numbers(frame, table.order) if numeric else None
                    amounts[table.name] = (
                        own[f"{table.name}.{table.order}"] if order is None else order
                    )
            codes[table.name] = own
        for child in tree.tables[1:]:
            number = np.bincount(parents[child.name], minlength=len(tables[str(child.parent)]))
            codes[str(child.parent)][count_name(child.name)] = np.minimum(
                number, child.max_children
            )
        return cls(tree, codes, parents, amounts)

    def relinked(self, rng: np.random.Generator) -> LinkedCodes:
        """The same rows, each child given to the parent of another: no more says who had what."""
        parents = {name: rng.permutation(found) for name, found in self.parents.items()}
        return replace(self, parents=parents)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The number of codes of every column."""
        found = {}
        for table in self.tree.tables:
            for column in own_columns(self.tree, table.name):
                if column.part == "value":
                    found[column.name] = column.column.size
                elif column.part == "count":
                    found[column.name] = self.tree.table(column.source).max_children + 1
        return found

    def joined(self, name: str) -> dict[str, np.ndarray]:
        """The codes of a table's rows with those of their ancestors."""
        found, place = dict(self.codes[name]), None
        for table in reversed(self.tree.path(name)[:-1]):
            child = next(t for t in self.tree.path(name) if t.parent == table.name)
            own = self.parents[child.name]
            place = own if place is None else own[place]
            found.update({key: codes[place] for key, codes in self.codes[table.name].items()})
        return found

    def marginals(self, name: str) -> list[tuple[str, ...]]:
        """The one- and two-way marginals of a table's rows that hold one of its own columns."""
        own, every = self.codes[name], [*self.joined(name)]
        pairs = itertools.combinations(every, 2)
        return [*((key,) for key in own), *(pair for pair in pairs if {*own} & {*pair})]

    def owners(self, name: str) -> np.ndarray:
        """The place of each row's person among the persons."""
        path, found = self.tree.path(name), None
        for table in reversed(path[1:]):
            own = self.parents[table.name]
            found = own if found is None else own[found]
        return np.arange(self.persons) if found is None else found

    @property
    def persons(self) -> int:
        """The number of persons."""
        return len(next(iter(self.codes[self.tree.root.name].values())))

    def transitions(self, name: str) -> dict[str, tuple[np.ndarray, float]]:
        """Of a table in order: each column's shares of (before, now), and of the same as before."""
        parent, amount = self.parents[name], self.amounts[name]
        order = np.lexsort((np.where(np.isnan(amount), np.inf, amount), parent))
        follows = parent[order][1:] == parent[order][:-1]
        found = {}
        for key, codes in self.codes[name].items():
            before, now = codes[order][:-1][follows], codes[order][1:][follows]
            size = self.sizes[key]
            index = before.astype(np.int64) * size + now
            share = np.bincount(index, minlength=size * size) / max(len(index), 1)
            same = float((before == now).mean()) if len(index) else 0.0
            found[key] = share, same
        return found


def connected(tables: Mapping[str, pd.DataFrame], tree: LinkedSchema) -> dict[str, pd.DataFrame]:
    """The rows that belong to a person, of equal keys of the root the first; keys as texts."""
    found: dict[str, pd.DataFrame] = {}
    for table in tree.tables:
        frame = tables[table.name]
        frame = frame.assign(**{key: frame[key].astype("string") for key in table.keys})
        if table.parent is None:
            frame = frame.drop_duplicates(str(table.key))
        else:
            parent = tree.table(table.parent)
            frame = frame[frame[str(table.link)].isin(found[parent.name][str(parent.key)].dropna())]
        found[table.name] = frame.reset_index(drop=True)
    return found


def far(one: np.ndarray, other: np.ndarray) -> float:
    """The total variation distance of two shares."""
    return float(np.abs(one - other).sum() / 2)


def links_of(tree: LinkedSchema, names: tuple[str, ...]) -> int:
    """How many links lie between the tables of two columns; 0 within one."""
    where = {}
    for table in tree.tables:
        for column in own_columns(tree, table.name):
            where[column.name] = len(tree.path(table.name))
    depths = [where[name] for name in names]
    return max(depths) - min(depths)
