"""Rows of a calibrated network: the whole population, column by column down the tree.

Rows that agree on a column's separator form a group, whose expected counts are rounded at random
without bias. Which row of the group takes which value is random too: columns that the model holds
conditionally independent stay so.
"""

from __future__ import annotations

import numpy as np

from marginalsyn.factors import Table
from marginalsyn.network import Network

# Cells of conditional distributions worked on at a time.
_CHUNK = 1 << 21


def draw_rows(network: Network, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Codes of ``rows`` rows (int32, one column per column of the network)."""
    tree = network.tree
    codes = np.zeros((len(tree.sizes), rows), dtype=np.int32)
    if rows:
        for column in reversed(tree.order):
            _draw_column(network, column, codes, rng)
    return np.ascontiguousarray(codes.T)


def _draw_column(
    network: Network, column: int, codes: np.ndarray, rng: np.random.Generator
) -> None:
    """Fill one column given the columns of its separator."""
    tree = network.tree
    rows = codes.shape[1]
    shuffled = rng.permutation(rows)
    separator = tree.separators[column]
    if separator:
        keys = _group_keys(codes, separator, tree.sizes)[shuffled]
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        shuffled = shuffled[order]  # by group, in random order inside every group
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    else:
        starts = np.zeros(1, dtype=np.intp)
    counts = np.diff(np.append(starts, rows))
    size = tree.sizes[column]
    tables = network.conditional(column)
    step = max(1, _CHUNK // size)
    values = np.arange(size, dtype=np.int32)
    for low in range(0, len(starts), step):
        chunk = slice(low, low + step)
        first = shuffled[starts[chunk]]  # one row of each group tells its separator's values
        given = {v: codes[v, first] for v in separator}
        weights = _evaluate(tables, column, given, len(first), size)
        rounded = round_groups(weights, counts[chunk], rng)
        begin = starts[low]
        drawn = np.repeat(np.tile(values, len(first)), rounded.ravel())
        codes[column, shuffled[begin : begin + len(drawn)]] = drawn


def _group_keys(codes: np.ndarray, columns: tuple[int, ...], sizes: tuple[int, ...]) -> np.ndarray:
    """One integer per row that tells its combination of ``columns``."""
    keys = codes[columns[0]].astype(np.int64)
    largest = sizes[columns[0]]
    for v in columns[1:]:
        if largest * sizes[v] >= 1 << 62:
            keys = np.unique(keys, return_inverse=True)[1].astype(np.int64)
            largest = int(keys[-1:].max(initial=0)) if not len(keys) else int(keys.max()) + 1
        keys = keys * sizes[v] + codes[v]
        largest *= sizes[v]
    return keys.astype(np.uint16) if largest <= 1 << 16 else keys


def _evaluate(
    tables: list[Table], column: int, given: dict[int, np.ndarray], groups: int, size: int
) -> np.ndarray:
    """The tables' product at each group's separator values: groups by values of ``column``."""
    weights = np.ones((groups, size))
    for table in tables:
        axis = table.scope.index(column)
        index = tuple(given[v] for v in table.scope if v != column)
        weights *= np.moveaxis(table.array, axis, -1)[index]
    return weights


def round_groups(weights: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Integers with each row's sum ``counts`` and expectation proportional to ``weights``.

    Expected counts are rounded down, and the fractions by systematic sampling: every cell gets
    either neighbouring integer, and a cell without weight gets none.
    """
    totals = weights.sum(axis=1, keepdims=True)
    empty = totals[:, 0] <= 0
    if empty.any():
        weights = np.where(empty[:, None], 1.0, weights)
        totals = weights.sum(axis=1, keepdims=True)
    expected = weights * (counts[:, None] / totals)
    whole = np.floor(expected)
    np.subtract(expected, whole, out=expected)
    reach = np.cumsum(expected, axis=1, out=expected)
    left = counts - whole.sum(axis=1)
    # floating point: the last cell with a fraction ends exactly at the number left
    last = reach[:, -1:]
    reach *= np.divide(left[:, None], last, out=np.ones_like(last), where=last > 0)
    reach -= rng.random((len(counts), 1))
    hits = np.maximum(np.ceil(reach), 0.0)
    whole[:, 0] += hits[:, 0]
    whole[:, 1:] += np.diff(hits, axis=1)
    return whole.astype(np.int64)
