"""Extreme values of every type that a source has, next to ordinary rows, for benchmarks/fuzz.py.

A target takes bytes. The first chooses the types of a table's columns, one for each kind of schema
column; all of them choose extreme values of these types. The table has 400 ordinary rows, or those
and 150 rows of extreme values. Whatever a run does with the one table it must do with the other:
the same steps end, and no ordinary row has another code or moves to the other side of the split.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parent))
import extreme_databases as databases
import extreme_files as files
import extreme_frames as frames
from extreme_files import NAMES, Kind

ROWS = 400
# Rows of extreme values of an input: more than any type has in its list.
ODD = 150
# Of a run, each of which an input tries one.
PARTS = 4
ELSEWHERE = ("postgres", "spark")
# By source: how a table is made of types and columns of values, and the types.
SOURCES: dict[str, tuple[Callable[..., Any], Callable[[], list[Kind]]]] = {
    "csv": (files.csv_file, files.csv_kinds),
    "frame": (frames.frame, frames.frame_kinds),
    "parquet": (files.parquet_file, files.parquet_kinds),
    "duckdb": (databases.duckdb_table, databases.duckdb_kinds),
    "postgres": (databases.postgres_table, databases.postgres_kinds),
    "spark": (databases.spark_table, databases.spark_kinds),
}


@cache
def schemas() -> tuple[Any, Any]:
    """A column of each kind, in the order of ``NAMES``; and some of them, with persons."""
    from marginalsyn.table.columns import BooleanColumn, CategoricalColumn
    from marginalsyn.table.moments import DateColumn, DatetimeColumn, TimeColumn
    from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
    from marginalsyn.table.schema import Schema
    from marginalsyn.table.unit import Unit

    spelt: Any = {"decimal": ",", "thousands": ".", "prefix": "$ "}
    columns = (
        IntegerColumn(name="whole", lower=0, upper=99, bins=10, nullable=True),
        IntegerColumn(name="unit", lower=-3, upper=3, missing_tokens=(-99, "x")),
        ContinuousColumn(name="real", lower=-5, upper=5, bins=7, nullable=True),
        ContinuousColumn(name="spelt", lower=0, upper=50, below=0.3, above=40, format=spelt),
        CategoricalColumn(name="word", categories=("a", "1", "2020-01-02", 2.5), nullable=True),
        CategoricalColumn(name="number", categories=(1, 2, 3)),
        CategoricalColumn(name="folded", categories=("b", "ab"), ignore_case=True, prefixes=(1, 2)),
        BooleanColumn(name="truth", nullable=True),
        DateColumn(
            name="day", lower="2020-01-01", upper="2020-12-31", bins="month", parts=("weekday",)
        ),
        DateColumn(name="short", lower="2020-01-01", upper="2020-12-31", format="%j/%y"),
        DatetimeColumn(
            name="moment",
            lower="2020-01-01",
            upper="2020-12-31",
            format="%b %d %Y %I:%M %p %z",
            bins="month",
        ),
        TimeColumn(name="clock", lower="00:00", upper="23:59", format="%H:%M"),
    )
    rows = Schema(columns=columns, drop=("left", "who"))
    few = tuple(columns[place] for place in (0, 4, 8))
    drop = (*(column.name for column in columns if column not in few), "left")
    unit = Unit(column="who", max_rows=3, order="real")
    return rows, Schema(columns=few, drop=drop, unit=unit)


def outcomes(data: Any, layout: Layout) -> dict[str, Any]:
    """What one part of a run gives: a visit, the curator's view, a split, or persons."""
    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.drafting.check import check_data
    from marginalsyn.drafting.draft import infer_schema
    from marginalsyn.privacy.charges import ZCDP, Charge
    from marginalsyn.privacy.noise import make_noise

    rows, persons = schemas()
    charges = [Charge(mechanism="test", cost=ZCDP(rho=1.0))]
    table = PrivateTable.open(data, rows)
    found: dict[str, Any] = {}
    part = layout.round % PARTS
    if part == 0:
        with table.charge(charges, noise=make_noise(1)) as visit:
            found["counts"] = visit.counts_many([(name,) for name in rows.names])
            list(visit._rows.unit_batches(None, 2**10))
            visit._rows.texts("word"), visit._rows.texts("folded", 2)
    elif part == 1:
        view = table.unprotected("fuzz")
        found["codes"], found["trace"] = view.codes(), table._source.trace is None
        assert len(view.frame()) == len(found["codes"])
        view.persons("who")
        if layout.number % 3 == 0 and layout.source not in ELSEWHERE:
            infer_schema(data)
    elif part == 2:
        parts = PrivateTable.open(data, rows, holdout=0.5).unprotected("fuzz")
        found["kept"], found["held out"] = parts.codes(), len(parts.holdout_frame())
    else:
        several = PrivateTable.open(data, persons, holdout=0.5)
        with several.charge(charges, noise=make_noise(1), persons=True) as visit:
            visit._rows.by_person()
        check_data(data, persons)
    return found


def compare(before: Mapping[str, Any], after: Mapping[str, Any], odd: int, ordered: bool) -> None:
    """Raise AssertionError unless one table goes as the other, but for its last rows."""
    for name, counts in before.get("counts", {}).items():
        moved = after["counts"][name] - counts
        assert moved.min() >= 0, f"counts of {name} move by {moved}"
        assert moved.sum() == odd, f"counts of {name} move by {moved}"
    for step in {"codes", "kept"} & {*before}:
        short, long = before[step], after[step]
        if ordered:
            assert np.array_equal(long[: len(short)], short), f"{step}: another row changes"
        rest = Counter(map(tuple, long.tolist()))
        rest.subtract(map(tuple, short.tolist()))
        assert min(rest.values()) >= 0, f"{step}: another row changes"
        here, there = (len(one[step]) + one.get("held out", 0) for one in (before, after))
        assert there == here + odd, "a row must be on one side, and once"


@dataclass(frozen=True)
class Layout:
    """A table's types: one for each column. The number decides which."""

    source: str
    number: int

    @cached_property
    def kinds(self) -> list[Kind]:
        """By the place of the column; those that no schema describes are in the dropped one."""
        described, others = _described(self.source)
        # Every type comes up once in a round, each time in another kind of column.
        first = self.number * len(NAMES)
        found = [described[(first + place) % len(described)] for place in range(len(NAMES))]
        shift = 5 * self.round % len(NAMES)
        found = found[shift:] + found[:shift]
        if others and self.number % 2:
            found[NAMES.index("left")] = others[self.number // 2 % len(others)]
        return found

    @property
    def round(self) -> int:
        """How often every type came up before."""
        return self.number // tables_of(self.source)

    def ordinary(self) -> list[list[Any]]:
        """By column, its values in the ordinary rows."""
        return [
            [kind.ordinary[row % len(kind.ordinary)] for row in range(ROWS)] for kind in self.kinds
        ]


def attempt(source: str, data: bytes) -> None:
    """One input: types of columns and their extreme values, chosen by bytes."""
    rng = random.Random(data)
    layout = Layout(source, data[0] if data else 0)
    try:
        _base(layout)
    except Exception as error:
        # Even the ordinary rows: a type that should have been refused before a charge.
        types = ", ".join(dict.fromkeys(kind.name for kind in layout.kinds))
        raise AssertionError(f"{types}: {type(error).__name__}: {error}") from error
    odd = []
    for kind in layout.kinds:
        column = list(kind.extreme)
        rng.shuffle(column)
        while kind.draw and len(column) < ODD:
            column.append(kind.draw(rng))
        odd.append([column[row % len(column)] for row in range(ODD)])
    check(layout, odd)


def tables_of(source: str) -> int:
    """How many tables it takes to hold every type of a source."""
    return -(-len(_described(source)[0]) // len(NAMES))


def seeds(source: str) -> list[bytes]:
    """Inputs in which every type meets every part of a run; none where the source is not here."""
    try:
        return [bytes([number]) for number in range(PARTS * tables_of(source))]
    except LookupError as error:
        print(f"{source} was not tried: {error}", file=sys.stderr)
        return []


def check(layout: Layout, odd: Sequence[Sequence[Any]]) -> None:
    """Compare the table without the odd rows to that with them, and name a value that breaks it."""
    problem = problem_of(layout, odd)
    if problem is None:
        return
    # Rows, then columns, are made ordinary as long as something is left of the problem.
    rows = list(range(len(odd[0])))
    while len(rows) > 1:
        half = rows[: len(rows) // 2]
        if problem_of(layout, [[column[row] for row in half] for column in odd]) is None:
            half = rows[len(rows) // 2 :]
        if problem_of(layout, [[column[row] for row in half] for column in odd]) is None:
            break
        rows = half
    left = [[column[row] for row in rows] for column in odd]
    for place, kind in enumerate(layout.kinds):
        fewer = [*left]
        fewer[place] = [kind.ordinary[0]] * len(rows)
        if problem_of(layout, fewer) is not None:
            left = fewer
    odd_ones = [
        f"{name} ({kind.name}): {column!r:.200}"
        for name, kind, column in zip(NAMES, layout.kinds, left, strict=True)
        if column != [kind.ordinary[0]] * len(rows)
    ]
    raise AssertionError(f"{'; '.join(odd_ones)}: {problem_of(layout, left) or problem}")


def problem_of(layout: Layout, odd: Sequence[Sequence[Any]]) -> str | None:
    """What the odd rows change, None where nothing."""
    before = _base(layout)
    columns = [[*few, *more] for few, more in zip(layout.ordinary(), odd, strict=True)]
    with SOURCES[layout.source][0](layout.kinds, columns) as data:
        try:
            after = outcomes(data, layout)
            compare(before, after, len(odd[0]), layout.source not in ELSEWHERE)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return None


@lru_cache(maxsize=2)
def _base(layout: Layout) -> dict[str, Any]:
    with SOURCES[layout.source][0](layout.kinds, layout.ordinary()) as data:
        return outcomes(data, layout)


@cache
def _described(source: str) -> tuple[list[Kind], list[Kind]]:
    """The types that a schema can describe, and those that are refused before a charge."""
    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.errors import DataError, SchemaError

    found: tuple[list[Kind], list[Kind]] = ([], [])
    names = NAMES
    for kind in SOURCES[source][1]():
        with SOURCES[source][0]([kind] * len(names), [kind.ordinary[:1]] * len(names)) as data:
            try:
                PrivateTable.open(data, schemas()[0]).check_layout()
            except SchemaError:
                found[1].append(kind)
            except DataError:
                continue  # not even in a dropped column
            else:
                found[0].append(kind)
    return found
