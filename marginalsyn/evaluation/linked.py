"""Evaluation of linked tables: each as a single one is, and persons with all their rows.

Linked tables are compared as codes: what their rows hold, whose they are, and what follows what.
Everything here is computed from real rows without protection. It is for the curator.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.errors import UsageError
from marginalsyn.evaluation.evaluation import Evaluation, choose_reports, run_reports
from marginalsyn.evaluation.inputs import make_case, make_ground
from marginalsyn.evaluation.reports import Options, Report, by_column
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.people.views import count_name, own_columns
from marginalsyn.progress import Progress
from marginalsyn.release.linked import LinkedRelease, TableRelease, table_frame, table_schema
from marginalsyn.table.codec import Codec
from marginalsyn.table.numeric import ContinuousColumn
from marginalsyn.table.schema import AnyColumn, Schema

# What persons with all their rows are called, next to the names of tables.
TOTAL = "all tables"
# Of a column of rows below a person, the shares of so many values are features of the person.
MOST_SHARES = 12

# The sides of a comparison, in words.
WORDS = {"made": "synthetic", "real": "real", "train": "training"}
# Transitions of columns with more values than this make a square are not compared.
MOST_CELLS = 150

Tables = Mapping[str, pd.DataFrame]


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
        """Encode tables that :func:`connected` gave."""
        codes = {}
        parents = {}
        amounts = {}
        places: dict[str, pd.Series] = {}
        for table in tree.tables:
            frame = tables[table.name]
            if table.parent is not None:
                found = frame[str(table.link)].map(places[table.parent])
                parents[table.name] = found.to_numpy(dtype=np.int64)
            if table.key:
                keys = frame[table.key].drop_duplicates()
                places[table.name] = pd.Series(keys.index, index=keys.to_numpy())
            own = {}
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


def evaluate_linked(
    synthetic: LinkedRelease | Tables,
    rows: tuple[Tables, Tables | None],
    tree: LinkedSchema,
    options: Options,
    *,
    label: str | None,
    in_sample: bool,
    reports: Sequence[str] | None,
    title: str,
    progress: Progress,
) -> Evaluation:
    """Compare linked synthetic tables with real ones; see :func:`marginalsyn.evaluate`."""
    release = synthetic if isinstance(synthetic, LinkedRelease) else None
    sides = dict(zip(("real", "train"), rows, strict=True))
    sides["made"] = synthetic.frames() if isinstance(synthetic, LinkedRelease) else synthetic
    tables = {side: connected(frames, tree) for side, frames in sides.items() if frames}
    codes = {side: LinkedCodes.of(frames, tree) for side, frames in tables.items()}
    known = codes.get("train", codes["real"])
    root = tree.root
    label = label or (root.schema.label if root.schema is not None else None)
    if label is not None and label not in [column.name for column in root.columns]:
        raise UsageError(
            f"label ({label!r}) must be a column of {root.name}, whose rows are persons"
        )
    if options.shadow:
        raise UsageError(
            f"--shadow ({options.shadow}) must not be given for linked tables: shadow releases are "
            "made of one table"
        )
    chosen = choose_reports(reports, has_label=bool(label))
    found = {}
    warnings = []

    def compare(name: str, schema: Schema, frames: Tables, run: Mapping[str, Report]) -> Evaluation:
        own: list[str] = []
        whole, top = name == TOTAL, name in (TOTAL, root.name)
        ground = make_ground(
            schema,
            schema.label,
            frames["real"],
            frames.get("train"),
            options,
            in_sample=in_sample,
            warnings=own,
            persons=known.owners(root.name if top else name),
        )
        part = TableRelease.of(release, root.name if top else name) if release is not None else None
        weights = part.weights() if part is not None else None
        case = make_case(name, frames["made"], schema, weights, own, released=part is not None)
        if part is not None and top:
            case = replace(case, release=part, log_weights=by_column(part.log_weights()))
        if whole:
            ground, case = replace(ground, linked=known), replace(case, linked=codes["made"])
        return run_reports(
            [case], ground, run, options, title=title, warnings=own, progress=progress
        )

    for table in tree.tables:
        schema = table_schema(tree, table.name)
        frames = {side: table_frame(tree, found, table.name) for side, found in tables.items()}
        empty = [side for side, frame in frames.items() if not len(frame)]
        if table is root:
            schema = Schema(**{**schema.model_dump(), "label": label}) if label else schema
        if empty or not schema.columns:
            warnings += [f"{table.name} is not compared: it has no {WORDS[empty[0]]} rows"] * bool(
                empty
            )
            continue
        scopes = {"table", "release"} if table is root else {"table", "persons"}
        run = {
            name: report
            for name, report in chosen.items()
            if report.scope in scopes and (schema.label or not report.needs_test)
        }
        found[table.name] = compare(table.name, schema, frames, run)
    if root.name not in found:
        raise UsageError(f"table {root.name} must have rows and columns to be compared")
    below = {side: _below(linked) for side, linked in codes.items()}
    added: list[AnyColumn] = [
        ContinuousColumn(name=name, lower=0.0, upper=max(most, 1.0), bins=8)
        for name, (_, most) in below["train" if "train" in below else "real"].items()
    ]
    schema = table_schema(tree, root.name)
    more = {"label": label, "columns": (*schema.columns, *added)}
    schema = Schema(**{**schema.model_dump(), **more})
    frames = {
        side: table_frame(tree, tables[side], root.name).join(
            pd.DataFrame({name: values for name, (values, _) in features.items()})
        )
        for side, features in below.items()
    }
    persons = {name: report for name, report in chosen.items() if report.scope == "persons"}
    whole = compare(TOTAL, schema, frames, persons)
    facts = dict(whole.cases[TOTAL])
    facts["figures"] = {
        **facts["figures"],
        **{
            f"rows of {name}": f"{len(frame):,} ({len(tables['real'][name]):,} real)"
            for name, frame in tables["made"].items()
        },
    }
    warnings += [f"{name}: {line}" for name, one in found.items() for line in one.warnings]
    update = {"linked": found, "warnings": [*whole.warnings, *warnings], "cases": {TOTAL: facts}}
    return whole.model_copy(update=update)


def _below(linked: LinkedCodes) -> dict[str, tuple[np.ndarray, float]]:
    """Features of every person, by name, each with the largest value that it may have.

    They are means and shares of the columns of all rows that belong to the person.
    """
    found = {}
    for table in linked.tree.tables[1:]:
        owner, path = linked.owners(table.name), linked.tree.path(table.name)[1:]
        rows = np.bincount(owner, minlength=linked.persons)

        def mean(values: Any, owner: np.ndarray = owner, rows: np.ndarray = rows) -> np.ndarray:
            return np.bincount(owner, values, linked.persons) / np.maximum(rows, 1)

        if len(path) > 1:
            most = float(np.prod([step.max_children for step in path]))
            found[f"rows of {table.name}"] = np.minimum(rows, most).astype(float), most
        for key, codes in linked.codes[table.name].items():
            size = linked.sizes[key]
            found[f"mean of {key}"] = mean(codes), size - 1.0
            for value in range(min(size, MOST_SHARES)):
                found[f"share of {key}, code {value}"] = mean(codes == value), 1.0
    return found
