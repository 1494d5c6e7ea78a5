"""Rows as the private table has them, from a model in which every person weighs the same.

Persons are counted, so that each of a person's k rows weighs 1/k. A model of such counts draws a
person first and then one of the person's rows. In a table of rows each person is met k times as
often: rows are drawn with a probability in proportion to their number k, which is a column.

Linked tables as a table of persons: one row each, with a few columns.

A person's row holds the root's columns, the numbers of children, and the columns of the first row
of each child table of the root. Weights of persons are estimated on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from marginalsyn.contract import MAX_ROWS
from marginalsyn.people.tree import LinkedSchema, LinkedTable
from marginalsyn.people.views import ViewColumn, own_columns, renamed
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import text_of
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import Unit


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
    found: dict[str, pd.Series] = {}
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
    name, _, attribute = column.source.partition(".")
    lookup = next(one for one in table.lookups if one.column == name)
    place = [column.name for column in lookup.columns].index(attribute)
    known = {key: values[place] for key, values in lookup.values}
    return frame[name].map(lambda value: known.get(text_of(value)) if value is not None else None)


# Rows drawn at a time, and at least: the mean number of rows of a person is read off them.
MOST_DRAWN = 2**20
LEAST_DRAWN = 2**14


def rows_for(frame: pd.DataFrame, unit: Unit, persons: float) -> int:
    """How many rows so many persons have, by rows that were drawn person by person."""
    if unit.max_rows == 1:
        return _whole(persons)
    return _whole(persons * float(frame[unit.count].astype("float64").mean()))


def draw_rows(
    draw: Callable[[int], pd.DataFrame],
    unit: Unit,
    rows: int,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Rows of a table, from a model that draws a person and then one of the person's rows.

    Args:
        draw: gives so many rows of the model.
        unit: who a person is.
        rows: how many to return.
        rng: chooses among them; it protects nothing.
    """
    if unit.max_rows == 1:
        return draw(rows)
    kept: list[pd.DataFrame] = []
    found, share = 0, 1 / unit.max_rows
    while found < rows:
        wanted = math.ceil((rows - found) / share * 1.05)
        frame = draw(min(max(wanted, LEAST_DRAWN), MOST_DRAWN))
        chosen = _met(frame[unit.count].astype("float64").to_numpy(), unit.max_rows, rng)
        # At least one row in max_rows is met, so this ends.
        share = max(len(chosen) / len(frame), 1 / unit.max_rows / 2)
        kept.append(frame.iloc[chosen])
        found += len(chosen)
    whole = pd.concat(kept, ignore_index=True)
    first = np.sort(rng.choice(len(whole), rows, replace=False))
    return whole.iloc[first].reset_index(drop=True)


def _met(counts: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Positions, each with probability count / most, with next to no variance in their number."""
    order = rng.permutation(len(counts))
    steps = np.floor(np.cumsum(counts[order] / most) + rng.random())
    return np.sort(order[np.diff(steps, prepend=0.0) > 0])


def _whole(rows: float) -> int:
    return int(min(max(1, round(rows)), MAX_ROWS))
