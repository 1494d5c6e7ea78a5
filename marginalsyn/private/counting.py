"""Exact counts over the codes of rows: in memory if they fit, otherwise in the engine.

Only :mod:`marginalsyn.private` uses this; what it returns is private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from marginalsyn.table import Connection

if TYPE_CHECKING:
    import ibis

# Codes up to this size are held in memory; larger tables stay in an engine that can spill.
MEMORY_BYTES = 256 * 2**20
# Rows counted at a time: the codes of a block stay in the processor's cache.
BLOCK_ROWS = 2**16
MOST_BLOCK_ROWS = 2**22
BATCH_ROWS = 2**17

Columns = tuple[str, ...]
# Old code to new code, for columns whose codes are merged before they are counted.
Maps = Mapping[str, np.ndarray]


class Weighing(NamedTuple):
    """How much a row counts: ``weights`` by its code in ``column``, whole numbers."""

    column: str
    weights: np.ndarray


class Codes(Protocol):
    """The encoded rows of one table."""

    def count(
        self, marginals: Sequence[Columns], sizes: Mapping[str, int], maps: Maps
    ) -> list[np.ndarray]:
        """One int64 array per marginal, shaped by ``sizes``, the number of codes after ``maps``."""

    def batches(self, columns: Columns, size: int) -> Iterator[np.ndarray]:
        """Arrays of at most ``size`` rows by ``columns``, int32."""

    def close(self) -> None:
        """Release what is held."""


class ArrayCodes:
    """Codes in memory: one compact array per column."""

    def __init__(self, arrays: Mapping[str, np.ndarray], weighing: Weighing | None = None) -> None:
        self._arrays, self._weighing = dict(arrays), weighing
        self._rows = len(next(iter(self._arrays.values())))

    def count(
        self, marginals: Sequence[Columns], sizes: Mapping[str, int], maps: Maps
    ) -> list[np.ndarray]:
        cells = [math.prod(sizes[name] for name in columns) for columns in marginals]
        totals = [np.zeros(number, dtype=np.int64) for number in cells]
        # Every block touches every cell once, so large marginals take larger blocks.
        step = min(max(BLOCK_ROWS, 2 * max(cells, default=0)), MOST_BLOCK_ROWS)
        for start in range(0, self._rows, step):
            rows = slice(start, start + step)
            block = self._block({n for c in marginals for n in c}, rows, maps)
            weights = self._weights(rows)
            for columns, total in zip(marginals, totals, strict=True):
                if columns:
                    index = flat_index([block[n] for n in columns], [sizes[n] for n in columns])
                    # Sums of whole numbers below 2^53 are exact in double precision, too.
                    found = np.bincount(index, weights, minlength=total.size)
                    total += found if weights is None else found.astype(np.int64)
                else:
                    left = min(step, self._rows - start)
                    total += left if weights is None else weights.sum()
        return _shaped(totals, marginals, sizes)

    def batches(self, columns: Columns, size: int) -> Iterator[np.ndarray]:
        for start in range(0, self._rows, size):
            yield np.column_stack(
                [self._arrays[name][start : start + size].astype(np.int32) for name in columns]
            )

    def close(self) -> None:
        self._arrays.clear()

    def _weights(self, rows: slice) -> np.ndarray | None:
        if self._weighing is None:
            return None
        return self._weighing.weights[self._arrays[self._weighing.column][rows]]

    def _block(self, names: Iterable[str], rows: slice, maps: Maps) -> dict[str, np.ndarray]:
        return {
            name: np.asarray(maps[name], dtype=np.intp)[self._arrays[name][rows]]
            if name in maps
            else self._arrays[name][rows].astype(np.intp)
            for name in names
        }


class TableCodes:
    """Codes that stay in an engine, which counts them group by group.

    Args:
        backend: the Ibis backend.
        encoded: returns the table of the codes of some columns.
        temporary: the name of a DuckDB table to drop at the end.
        weighing: how much each row counts; by default one.
    """

    def __init__(
        self,
        backend: Any,
        encoded: Callable[[Columns], ibis.Table],
        temporary: str | None = None,
        weighing: Weighing | None = None,
    ) -> None:
        self._backend, self._encoded, self._temporary = backend, encoded, temporary
        self._weighing = weighing

    def count(
        self, marginals: Sequence[Columns], sizes: Mapping[str, int], maps: Maps
    ) -> list[np.ndarray]:
        totals = [self._grouped(columns, sizes, maps) for columns in marginals]
        return _shaped(totals, marginals, sizes)

    def batches(self, columns: Columns, size: int) -> Iterator[np.ndarray]:
        return stream(self._backend, self._encoded(columns), size, np.dtype(np.int32))

    def close(self) -> None:
        if self._temporary is not None:
            # Ibis 12 writes a DROP TABLE that DuckDB does not parse beside sqlglot 30.
            self._backend.con.execute(f'DROP TABLE IF EXISTS temp.main."{self._temporary}"')
            self._temporary = None

    def _grouped(self, columns: Columns, sizes: Mapping[str, int], maps: Maps) -> np.ndarray:
        weighing = self._weighing
        grouped = (*columns, weighing.column) if weighing else columns
        if not grouped:
            some = self._encoded((next(iter(sizes)),))
            rows = self._backend.to_pyarrow(some.aggregate(rows=some.count()))
            return np.asarray(rows.column("rows").to_pylist(), dtype=np.int64)
        table = self._encoded(grouped)
        # Our own names, so that no column can be taken for the count.
        keys = [f"c{position}" for position in range(len(grouped))]
        table = table.select(**{k: table[n] for k, n in zip(keys, grouped, strict=True)})
        found = self._backend.to_pyarrow(table.group_by(keys).aggregate(rows=table.count()))
        codes = [found.column(key).to_numpy().astype(np.intp) for key in keys]
        counts = found.column("rows").to_numpy()
        if weighing:
            counts = counts * weighing.weights[codes.pop()]
        if not columns:
            return np.asarray([counts.sum()], dtype=np.int64)
        for position, name in enumerate(columns):
            if name in maps:
                codes[position] = np.asarray(maps[name], dtype=np.intp)[codes[position]]
        shape = [sizes[name] for name in columns]
        total = np.zeros(math.prod(shape), dtype=np.int64)
        np.add.at(total, flat_index(codes, shape), counts)
        return total


def load(
    connection: Connection,
    encoded: Callable[[Columns], ibis.Table],
    sizes: Mapping[str, int],
    weighing: Weighing | None = None,
) -> Codes:
    """Encode the rows once: into memory, or for larger tables into a table that can spill.

    Engines elsewhere keep their rows and are asked for counts.
    """
    if not connection.embedded:
        return TableCodes(connection.backend, encoded, weighing=weighing)
    kinds = {name: np.min_scalar_type(max(size - 1, 0)) for name, size in sizes.items()}
    table = encoded(tuple(sizes)).cast({name: str(kind) for name, kind in kinds.items()})
    width = sum(kind.itemsize for kind in kinds.values())
    chunks: dict[str, list[np.ndarray]] = {name: [] for name in sizes}
    rows = 0
    for batch in connection.backend.to_pyarrow_batches(table, chunk_size=BATCH_ROWS):
        rows += batch.num_rows
        if rows * width > MEMORY_BYTES:
            chunks.clear()
            return _spillable(connection.backend, table, weighing)
        for name, values in zip(sizes, batch.columns, strict=True):
            chunks[name].append(values.to_numpy(zero_copy_only=False))
    # One column at a time, so that no more than one is held twice.
    return ArrayCodes(
        {
            name: np.concatenate([np.empty(0, kind), *chunks.pop(name)])
            for name, kind in kinds.items()
        },
        weighing,
    )


def stream(backend: Any, table: ibis.Table, size: int, kind: np.dtype) -> Iterator[np.ndarray]:
    """Arrays of at most ``size`` rows of a table whose columns are all numbers."""
    for batch in backend.to_pyarrow_batches(table, chunk_size=size):
        for start in range(0, batch.num_rows, size):
            part = batch.slice(start, size)
            rows = np.empty((part.num_rows, part.num_columns), dtype=kind)
            for position, values in enumerate(part.columns):
                rows[:, position] = values.to_numpy(zero_copy_only=False)
            yield rows


def flat_index(codes: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
    """The position of every row's cell in the flattened marginal."""
    index = codes[0]
    for values, size in zip(codes[1:], shape[1:], strict=True):
        index = index * size
        index += values
    return index


def _spillable(backend: Any, table: ibis.Table, weighing: Weighing | None) -> TableCodes:
    from ibis import util

    name = util.gen_name("codes")
    backend.create_table(name, table, temp=True)
    kept = backend.table(name, database=("temp", "main"))
    return TableCodes(backend, lambda columns: kept.select(*columns), name, weighing)


def _shaped(
    totals: Sequence[np.ndarray], marginals: Sequence[Columns], sizes: Mapping[str, int]
) -> list[np.ndarray]:
    return [
        total.reshape([sizes[name] for name in columns])
        for total, columns in zip(totals, marginals, strict=True)
    ]
