"""Exact counts over the codes of rows: in memory if they fit, otherwise in the engine.

Only :mod:`marginalsyn.access` uses this; what it returns is private.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import ibis
import numpy as np

from marginalsyn.sources.count_blocks import Columns, Maps, Task, Weighing, flat_index, tally, zeros
from marginalsyn.sources.holdout import hashed
from marginalsyn.sources.spark import SparkCodes
from marginalsyn.table.engine import Connection, batches_of, drop, store

# Codes up to this size are kept in memory; larger tables stay in an engine that can spill.
MEMORY_BYTES = 256 * 2**20
BATCH_ROWS = 2**17
# Exact counts that were asked of an engine elsewhere are kept up to this size.
KEPT_BYTES = 256 * 2**20
# How many sets one SELECT may have, by Ibis's name of the engine; what is more is joined by
# UNION ALL in the same statement. Engines that are not named are asked marginal by marginal.
SETS = {"postgres": 1000, "bigquery": 100, "snowflake": 100}
# The name of the counts; keys are c0, c1 and so on, so no column can be taken for it.
COUNT = "n"


class Codes(Protocol):
    """The encoded rows of one table."""

    def count(
        self, marginals: Sequence[Columns], sizes: Mapping[str, int], maps: Maps
    ) -> list[np.ndarray]:
        """One int64 array per marginal, shaped by ``sizes``, the number of codes after ``maps``."""

    def batches(self, columns: Columns, size: int) -> Iterator[np.ndarray]:
        """Arrays of at most ``size`` rows by ``columns``, int32."""

    def close(self) -> None:
        """Free the memory, or the table."""


class ArrayCodes:
    """Codes in memory: one compact array per column."""

    def __init__(self, arrays: Mapping[str, np.ndarray], weighing: Weighing | None = None) -> None:
        self._arrays, self._weighing = dict(arrays), weighing
        self._rows = len(next(iter(self._arrays.values())))

    def count(
        self, marginals: Sequence[Columns], sizes: Mapping[str, int], maps: Maps
    ) -> list[np.ndarray]:
        task = Task(marginals, sizes, maps, self._weighing)
        totals = zeros(task)
        tally(totals, self._arrays, self._rows, task)
        return task.shaped(totals)

    def batches(self, columns: Columns, size: int) -> Iterator[np.ndarray]:
        for start in range(0, self._rows, size):
            yield np.column_stack(
                [self._arrays[name][start : start + size].astype(np.int32) for name in columns]
            )

    def close(self) -> None:
        self._arrays.clear()


class TableCodes:
    """Codes that stay in an engine, which counts them group by group.

    A ``temporary`` table is one of :func:`store`, to drop at the end.
    """

    def __init__(
        self,
        backend: Any,
        encoded: Callable[[Columns], ibis.Table],
        temporary: ibis.Table | None = None,
        weighing: Weighing | None = None,
    ) -> None:
        self._backend, self._encoded, self._temporary = backend, encoded, temporary
        self._weighing = weighing

    def count(
        self, marginals: Sequence[Columns], sizes: Mapping[str, int], maps: Maps
    ) -> list[np.ndarray]:
        task = Task(marginals, sizes, maps, self._weighing)
        return task.shaped(
            [
                self._total(columns, codes, counts, task)
                for columns, (codes, counts) in zip(marginals, self._groups(task), strict=True)
            ]
        )

    def batches(self, columns: Columns, size: int) -> Iterator[np.ndarray]:
        return stream(self._backend, self._encoded(columns), size, np.dtype(np.int32))

    def close(self) -> None:
        if self._temporary is not None:
            drop(self._backend, self._temporary)
            self._temporary = None

    def _groups(self, task: Task) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
        """The groups of every marginal, with their weights' column last, and their counts."""
        weighed = () if self._weighing is None else (self._weighing.column,)
        # A count of rows alone takes any column.
        names = task.used or [next(iter(task.sizes))]
        # Our own names, so that no column can be taken for the count.
        keys = {name: f"c{position}" for position, name in enumerate(names)}
        sets = [tuple(keys[name] for name in (*columns, *weighed)) for columns in task.marginals]
        table = self._encoded(tuple(names))
        table = table.select(**{key: table[name] for name, key in keys.items()})
        if self._backend.name in SETS:
            yield from _count_sets(self._backend, table, sets)
            return
        for columns in sets:
            groups = table.group_by(columns) if columns else table
            found = self._backend.to_pyarrow(groups.aggregate(rows=table.count()))
            codes = [found.column(key).to_numpy() for key in columns]
            yield codes, found.column("rows").to_numpy()

    def _total(
        self, columns: Columns, codes: list[np.ndarray], counts: np.ndarray, task: Task
    ) -> np.ndarray:
        codes = [values.astype(np.intp) for values in codes]
        if self._weighing:
            counts = counts * self._weighing.weights[codes.pop()]
        if not columns:
            return np.asarray([counts.sum()], dtype=np.int64)
        for position, name in enumerate(columns):
            if name in task.maps:
                codes[position] = np.asarray(task.maps[name], dtype=np.intp)[codes[position]]
        shape = [task.sizes[name] for name in columns]
        total = np.zeros(math.prod(shape), dtype=np.int64)
        np.add.at(total, flat_index(codes, shape), counts)
        return total


class KeptCounts:
    """Codes whose counts are dear: many are counted together, and kept until they are asked for.

    What is kept is as private as the codes; it goes when they are closed.
    """

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._kept: OrderedDict[tuple[Any, ...], np.ndarray] = OrderedDict()

    def count(
        self, marginals: Sequence[Columns], sizes: Mapping[str, int], maps: Maps
    ) -> list[np.ndarray]:
        keys = [_key(columns, maps) for columns in marginals]
        known = zip(keys, marginals, strict=True)
        if lacking := {key: columns for key, columns in known if key not in self._kept}:
            counts = self._codes.count([*lacking.values()], sizes, maps)
            for key, values in zip(lacking, counts, strict=True):
                self._kept[key] = values.astype(np.min_scalar_type(int(values.max(initial=0))))
        answers = []
        for key in keys:
            self._kept.move_to_end(key)
            answers.append(self._kept[key].astype(np.int64))
        while sum(values.nbytes for values in self._kept.values()) > KEPT_BYTES:
            self._kept.popitem(last=False)
        return answers

    def prepare(self, marginals: Sequence[Columns], sizes: Mapping[str, int], maps: Maps) -> None:
        """Count together what will be asked for one by one, as far as it can be kept."""
        wanted, size = [], 0
        for columns in marginals:
            size += 8 * math.prod(sizes[name] for name in columns)
            if size > KEPT_BYTES:
                break
            wanted.append(columns)
        if wanted:
            self.count(wanted, sizes, maps)

    def batches(self, columns: Columns, size: int) -> Iterator[np.ndarray]:
        return self._codes.batches(columns, size)

    def close(self) -> None:
        self._kept.clear()
        self._codes.close()


def _key(columns: Columns, maps: Maps) -> tuple[Any, ...]:
    """What a count depends on, other than the rows."""
    return (columns, *[np.asarray(maps.get(name, ()), np.int64).tobytes() for name in columns])


def load(
    connection: Connection,
    encoded: Callable[[Columns], ibis.Table],
    sizes: Mapping[str, int],
    weighing: Weighing | None = None,
    query: str | None = None,
) -> Codes:
    """Encode the rows once: into memory, or for larger tables into a table that can spill.

    Engines elsewhere keep their rows and are asked for counts. ``query`` is the text of all codes'
    query, where it is known.
    """
    if not connection.embedded:
        if connection.backend.name == "pyspark":
            return KeptCounts(SparkCodes(connection.backend, encoded, sizes, weighing))
        return KeptCounts(TableCodes(connection.backend, encoded, weighing=weighing))
    kinds = {name: np.min_scalar_type(max(size - 1, 0)) for name, size in sizes.items()}
    width = sum(kind.itemsize for kind in kinds.values())
    chunks: dict[str, list[np.ndarray]] = {name: [] for name in sizes}
    rows = 0
    with batches_of(connection.backend, query or encoded(tuple(sizes)), BATCH_ROWS) as batches:
        for batch in batches:
            rows += batch.num_rows
            if rows * width > MEMORY_BYTES:
                break
            for name, values in zip(sizes, batch.columns, strict=True):
                chunks[name].append(values.to_numpy(zero_copy_only=False).astype(kinds[name]))
    if rows * width > MEMORY_BYTES:
        chunks.clear()
        table = encoded(tuple(sizes)).cast({name: str(kind) for name, kind in kinds.items()})
        kept = store(connection.backend, table)
        return TableCodes(connection.backend, lambda names: kept.select(*names), kept, weighing)
    # One column at a time, so that no more than one is in memory twice.
    return ArrayCodes(
        {
            name: np.concatenate([np.empty(0, kind), *chunks.pop(name)])
            for name, kind in kinds.items()
        },
        weighing,
    )


def texts(
    backend: Any, table: ibis.Table, key: Callable[[Any], Any], name: str, weighing: Weighing | None
) -> dict[str, int]:
    """How often every text occurs that ``key`` makes of a column, null left out, by its weight.

    Texts are compared by a digest: a column's collation may take several for the same, of which
    an engine would name any one, though a single row had it.
    Those with a zero byte are left out: no schema can list them.
    """
    columns = {"text": key(table[name])}
    if weighing:
        columns["share"] = table[weighing.column].cast("int64")
    found = table.select(**columns).view()
    found = found.filter(found["text"].notnull())
    found = found.mutate(digest=hashed(found["text"], str(backend.name))).view()
    parts = found.group_by(["digest", *(n for n in columns if n != "text")])
    rows = backend.to_pyarrow(
        parts.aggregate(rows=lambda part: part.count(), text=lambda part: part["text"].max())
    )
    counts = rows.column("rows").to_numpy()
    if weighing:
        counts = counts * weighing.weights[rows.column("share").to_numpy()]
    totals: dict[str, int] = {}
    for text, count in zip(rows.column("text").to_pylist(), counts.tolist(), strict=True):
        if "\0" not in text:
            totals[text] = totals.get(text, 0) + count
    return totals


def stream(backend: Any, table: ibis.Table, size: int, kind: np.dtype) -> Iterator[np.ndarray]:
    """Arrays of at most ``size`` rows of a table whose columns are all numbers."""
    with batches_of(backend, table, size) as batches:
        for batch in batches:
            for start in range(0, batch.num_rows, size):
                part = batch.slice(start, size)
                rows = np.empty((part.num_rows, part.num_columns), dtype=kind)
                for position, values in enumerate(part.columns):
                    rows[:, position] = values.to_numpy(zero_copy_only=False)
                yield rows


def grouping_sets(backend: Any, table: ibis.Table, sets: Sequence[Sequence[str]]) -> str:
    """SQL that counts the rows of ``table`` in the groups of every set of its columns.

    A set's rows are null in the other columns, as codes never are.
    """
    import sqlglot.expressions as sge

    def quoted(name: str) -> str:
        return str(sge.to_identifier(name, quoted=True).sql(backend.dialect))

    most, source = SETS[backend.name], quoted("codes")
    parts = []
    for start in range(0, len(sets), most):
        some = sets[start : start + most]
        groups = ", ".join(f"({', '.join(map(quoted, names))})" for names in some)
        there = {name for names in some for name in names}
        keys = ", ".join(
            quoted(name) if name in there else f"CAST(NULL AS INT) AS {quoted(name)}"
            for name in table.columns
        )
        parts.append(
            f"SELECT {keys}, COUNT(*) AS {quoted(COUNT)} FROM {source} "
            f"GROUP BY GROUPING SETS ({groups})"
        )
    return f"WITH {source} AS ({backend.compile(table)}) " + " UNION ALL ".join(parts)


def _count_sets(
    backend: Any, table: ibis.Table, sets: Sequence[Columns]
) -> list[tuple[list[np.ndarray], np.ndarray]]:
    """For every set of columns its groups, as one array of codes a column, and their counts."""
    wanted = list(dict.fromkeys(tuple(sorted(names)) for names in sets))
    schema = ibis.schema({**dict.fromkeys(table.columns, "int32"), COUNT: "int64"})
    query = backend.sql(grouping_sets(backend, table, wanted), schema=schema)
    found = backend.to_pyarrow(query)
    counts = found.column(COUNT).to_numpy()
    columns = list(table.columns)
    codes = {name: found.column(name).fill_null(-1).to_numpy() for name in columns}
    there = np.stack([codes[name] >= 0 for name in columns], axis=1)
    patterns, of_row = np.unique(np.packbits(there, axis=1), axis=0, return_inverse=True)
    place = {pattern.tobytes(): at for at, pattern in enumerate(patterns)}
    order = np.argsort(of_row.ravel(), kind="stable")
    starts = np.searchsorted(of_row.ravel()[order], np.arange(len(patterns) + 1))
    answers = []
    for names in sets:
        own = np.packbits(np.array([[name in names for name in columns]]), axis=1)
        at = place.get(own[0].tobytes())
        rows = order[starts[at] : starts[at + 1]] if at is not None else order[:0]
        answers.append(([codes[name][rows] for name in names], counts[rows]))
    return answers
