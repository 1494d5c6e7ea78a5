"""Columns that seem to identify persons, with how often their values repeat. Not private.

What is counted here is exact: it is for the curator's eyes, never for a schema or a release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from marginalsyn.drafting.drafted import IDENTIFIER
from marginalsyn.drafting.guess import MOST_CATEGORIES
from marginalsyn.drafting.survey import numbers_of
from marginalsyn.sources.persons import written
from marginalsyn.sources.source import open_source
from marginalsyn.table.engine import engine_errors
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import persons_columns

# An identifier that is not called like a person's must repeat so often to be one.
OFTEN = 1.2


@dataclass(frozen=True, kw_only=True)
class PersonColumns:
    """A column that seems to identify persons who have several rows. Not private.

    Attributes:
        name: of the column.
        values: how many different ones there are.
        rows: how many rows have one.
    """

    name: str
    values: int
    rows: int

    def __str__(self) -> str:
        each = self.rows / self.values
        return f"{self.values:,} values in {self.rows:,} rows, {each:.1f} rows for each"


@dataclass(frozen=True, kw_only=True)
class UnitCheck:
    """What a schema's unit makes of a table. Not private.

    Attributes:
        persons: how many there are.
        rows: how many rows they have.
        nobody: rows that name no person, and are left out.
        beyond: rows of persons that are more than ``max_rows``, and are left out.
    """

    persons: int
    rows: int
    nobody: int
    beyond: int


def repeating(counted: Mapping[str, tuple[int, int]]) -> list[PersonColumns]:
    """Which columns look like persons' identifiers that repeat, those named so first.

    Args:
        counted: by column, how many rows have a value and how many values differ.

    Example:
        >>> [found.name for found in repeating({"age": (90, 40), "patient_id": (90, 12)})]
        ['patient_id']
    """
    named = persons_columns(counted)
    found = []
    for name, (rows, values) in counted.items():
        often = IDENTIFIER.search(name) and values > MOST_CATEGORIES and rows >= OFTEN * values
        if 0 < values < rows and (name in named or often):
            found.append(PersonColumns(name=name, values=values, rows=rows))
    return sorted(found, key=lambda one: one.name not in named)


def find_person_columns(
    data: Any, names: Iterable[str] | None = None, **how: Any
) -> list[PersonColumns]:
    """Look through the columns that are called like identifiers. Not private.

    Args:
        data: a DataFrame, a path, a database address or an Ibis table.
        names: of the columns to search; by default all.
        how: how files are opened, see :func:`~marginalsyn.sources.source.open_source`.

    Example:
        >>> import pandas as pd
        >>> str(find_person_columns(pd.DataFrame({"person_id": [1, 1, 2]}))[0])
        '2 values in 3 rows, 1.5 rows for each'
    """
    source = open_source(data, **how)
    wanted = [n for n in (source.columns if names is None else names) if n not in source.nested]
    likely = [n for n in wanted if IDENTIFIER.search(n) or persons_columns([n])]
    if not likely:
        return []
    connection = source.connect()
    with engine_errors(source.name):
        texts = {name: _key(connection.table, name) for name in likely}
        counts = {name: {"rows": t.count(), "values": t.nunique()} for name, t in texts.items()}
        found = numbers_of(connection.backend, connection.table, counts)
    return repeating({n: (int(one["rows"]), int(one["values"])) for n, one in found.items()})


def check_unit(data: Any, schema: Schema) -> UnitCheck:
    """Count persons, their rows, and the rows that their bound leaves out. Not private.

    Example:
        >>> import pandas as pd
        >>> from marginalsyn.table.schema import Schema
        >>> from marginalsyn.table.unit import Unit
        >>> frame = pd.DataFrame({"who": ["a", "a", "a", None], "x": [0, 1, 1, 0]})
        >>> unit = Unit(column="who", max_rows=2)
        >>> check_unit(frame, Schema.from_domain({"x": 2}).with_unit(unit)).beyond
        1
    """
    unit, source = schema.unit, open_source(data, **schema.reading)
    assert unit is not None
    connection = source.connect()
    with engine_errors(source.name):
        table = connection.table
        named = table.select(person=_key(table, unit.column)).view()
        whole = named.filter(named["person"].notnull())
        each = whole.group_by("person").aggregate(rows=whole.count()).view()
        over = (each["rows"] - unit.max_rows).clip(lower=0)
        wanted = {"persons": each.count(), "rows": each["rows"].sum(), "beyond": over.sum()}
        row = numbers_of(connection.backend, each, {None: wanted})[None]
        every = numbers_of(connection.backend, named, {None: {"rows": named.count()}})[None]
    found = {what: int(value or 0) for what, value in row.items()}
    return UnitCheck(**found, nobody=int(every["rows"]) - found["rows"])


def _key(table: Any, name: str) -> Any:
    """The text that identifies a person; null where it names nobody."""
    return written(table[name]).nullif("")
