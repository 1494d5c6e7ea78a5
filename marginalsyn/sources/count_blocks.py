"""Counts in blocks of coded rows, by numpy alone.

This process counts with it, and so do Spark's workers, which get this file's functions by value:
it imports nothing that they may lack.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

# Rows counted at a time: the codes of a block stay in the processor's cache.
BLOCK_ROWS = 2**16
MOST_BLOCK_ROWS = 2**22
# Codes travel as parts of whole numbers of so many bytes.
WORD_BYTES = 8

Columns = tuple[str, ...]
# Old code to new code, for columns whose codes are merged before they are counted.
Maps = Mapping[str, np.ndarray]


class Weighing(NamedTuple):
    """How much a row counts: ``weights`` by its code in ``column``, whole numbers."""

    column: str
    weights: np.ndarray


class Task(NamedTuple):
    """What is to be counted: marginals of columns with so many codes, after ``maps``."""

    marginals: Sequence[Columns]
    sizes: Mapping[str, int]
    maps: Maps
    weighing: Weighing | None

    @property
    def cells(self) -> list[int]:
        """The number of cells of every marginal."""
        return [math.prod(self.sizes[name] for name in columns) for columns in self.marginals]

    @property
    def used(self) -> list[str]:
        """The columns that are needed."""
        weighed = () if self.weighing is None else (self.weighing.column,)
        return list(dict.fromkeys([n for c in self.marginals for n in c] + list(weighed)))

    def shaped(self, totals: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Flat totals as arrays with one axis a column."""
        return [
            total.reshape([self.sizes[name] for name in columns])
            for total, columns in zip(totals, self.marginals, strict=True)
        ]


def zeros(task: Task) -> list[np.ndarray]:
    """Totals before any row was counted."""
    return [np.zeros(number, dtype=np.int64) for number in task.cells]


def tally(
    totals: Sequence[np.ndarray], arrays: Mapping[str, np.ndarray], rows: int, task: Task
) -> None:
    """Add to the totals the counts of so many rows, given as one array of codes a column."""
    # Every block touches every cell once, so large marginals take larger blocks.
    step = min(max(BLOCK_ROWS, 2 * max(map(len, totals), default=0)), MOST_BLOCK_ROWS)
    for start in range(0, rows, step):
        part = slice(start, start + step)
        block = {
            name: np.asarray(task.maps[name], dtype=np.intp)[arrays[name][part]]
            if name in task.maps
            else arrays[name][part].astype(np.intp)
            for name in {n for columns in task.marginals for n in columns}
        }
        weights = None
        if task.weighing is not None:
            weights = task.weighing.weights[arrays[task.weighing.column][part]]
        for columns, total in zip(task.marginals, totals, strict=True):
            if columns:
                index = flat_index([block[n] for n in columns], [task.sizes[n] for n in columns])
                # Sums of whole numbers below 2^53 are exact in double precision, too.
                found = np.bincount(index, weights, minlength=total.size)
                total += found if weights is None else found.astype(np.int64)
            else:
                total += min(step, rows - start) if weights is None else weights.sum()


def flat_index(codes: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
    """The position of every row's cell in the flattened marginal."""
    index = codes[0]
    for values, size in zip(codes[1:], shape[1:], strict=True):
        index = index * size
        index += values
    return index


def kinds_of(sizes: Mapping[str, int]) -> dict[str, str]:
    """The smallest unsigned kind of number that holds the codes of every column."""
    return {name: np.min_scalar_type(max(size - 1, 0)).name for name, size in sizes.items()}


def places_of(kinds: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Where codes travel in words of eight bytes: a word's number, and the first byte in it.

    The widest come first, so that none is cut in two.
    """
    widths = {name: np.dtype(kind).itemsize for name, kind in kinds.items()}
    ordered = sorted(kinds, key=lambda name: -widths[name])
    found, used = {}, 0
    for name in ordered:
        found[name] = divmod(used, WORD_BYTES)
        used += widths[name]
    return found


def pack(
    batches: Iterable[Any], kinds: Mapping[str, str], most_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """Arrow batches of words as a few blocks of bytes: their rows, and one column after another."""
    width = sum(np.dtype(kind).itemsize for kind in kinds.values())
    most = max(1, most_bytes // width)
    places = places_of(kinds)
    held: list[dict[str, np.ndarray]] = []
    rows = 0
    for batch in batches:
        for start in range(0, batch.num_rows, most):
            part = batch.slice(start, most)
            if rows and rows + part.num_rows > most:
                yield rows, _joined(held, kinds)
                held, rows = [], 0
            words = [
                values.to_numpy(zero_copy_only=False).astype("<i8", copy=False)
                for values in part.columns
            ]
            found = {}
            for name, kind in kinds.items():
                word, byte = places[name]
                small = np.dtype(kind).newbyteorder("<")
                fields = words[word].view(small).reshape(-1, WORD_BYTES // small.itemsize)
                found[name] = fields[:, byte // small.itemsize].astype(kind)
            held.append(found)
            rows += part.num_rows
    if rows:
        yield rows, _joined(held, kinds)


def unpack(
    block: Any, rows: int, kinds: Mapping[str, str], names: Iterable[str]
) -> dict[str, np.ndarray]:
    """Some columns of a block that :func:`pack` made; nothing is copied."""
    wanted, found, offset = set(names), {}, 0
    for name, kind in kinds.items():
        if name in wanted:
            found[name] = np.frombuffer(block, kind, rows, offset)
        offset += rows * np.dtype(kind).itemsize
    return found


def gather(
    blocks: Sequence[tuple[int, Any]], kinds: Mapping[str, str], names: Sequence[str]
) -> tuple[dict[str, np.ndarray], int]:
    """Some columns of several blocks, and how many rows they have: few at a time are slow."""
    parts = [unpack(block, rows, kinds, names) for rows, block in blocks]
    none = {name: np.empty(0, kinds[name]) for name in names}
    joined = {name: np.concatenate([part[name] for part in (none, *parts)]) for name in names}
    return joined, sum(rows for rows, _ in blocks)


def _joined(held: Sequence[Mapping[str, np.ndarray]], kinds: Mapping[str, str]) -> bytes:
    return b"".join(part[name].tobytes() for name in kinds for part in held)
