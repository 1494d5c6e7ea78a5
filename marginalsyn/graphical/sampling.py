"""Drawing rows from a calibrated model: the whole population, column by column down the tree.

Rows that agree on a column's separator form a group, whose expected counts are rounded at random
without bias. Which row of the group takes which value is random too, spread evenly over the columns
drawn before: columns that the model holds conditionally independent come out so, with less noise
than a plain shuffle would leave.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from marginalsyn.graphical.contraction import Contraction
from marginalsyn.graphical.factors import Factor

# Cells of conditional distributions worked on at a time.
_CHUNK = 1 << 21
# Rows of a fit that draws: few rows are noisy, and more than the most say no more.
FEWEST, MOST = 20_000, 50_000
# How firmly counts of such rows are kept near their expectations: their variance falls by this
# number plus one.
FIRM = 4.0


def draw_rows(contraction: Contraction, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Codes of ``rows`` rows (int32, one column per column of the model), in random order."""
    tree = contraction.tree
    codes = np.zeros((len(tree.sizes), rows), dtype=np.int32)
    if rows:
        for i, column in enumerate(reversed(tree.order)):
            drawn = tree.order[len(tree.order) - i :]
            _draw_column(contraction, column, drawn, codes, rng)
    return codes.T[rng.permutation(rows)]


def draw_independent(contraction: Contraction, rows: int, rng: np.random.Generator) -> np.ndarray:
    """As :func:`draw_rows`, but every row on its own: a sample, with a sample's variation."""
    tree = contraction.tree
    codes = np.zeros((len(tree.sizes), rows), dtype=np.int32)
    for column in reversed(tree.order):
        size, separator = tree.sizes[column], tree.separators[column]
        tables = contraction.conditional(column)
        present, group = np.unique(
            _group_keys(codes, separator, tree.sizes), return_inverse=True, return_index=True
        )[1:]
        step = max(1, _CHUNK // size)
        draw = rng.random(rows)
        by_group = np.argsort(group, kind="stable")
        ends = np.searchsorted(group[by_group], np.arange(len(present) + 1))
        for low in range(0, len(present), step):
            first = present[low : low + step]
            given = {v: codes[v, first] for v in separator}
            weights = _evaluate(tables, column, given, len(first), size)
            reach = np.cumsum(weights, axis=1)
            ids = by_group[ends[low] : ends[low + len(first)]]
            codes[column, ids] = _invert(reach, group[ids] - low, draw[ids])
    return codes.T


def _invert(reach: np.ndarray, group: np.ndarray, draw: np.ndarray) -> np.ndarray:
    """The value at which each row's own cumulative weights pass its draw."""
    groups, size = reach.shape
    last = np.where(reach[:, -1:] > 0, reach[:, -1:], 1.0)
    # One increasing line of all groups: the group's number plus the share reached in it.
    line = (np.minimum(reach / last, 1.0) + np.arange(groups)[:, None]).ravel()
    place = np.searchsorted(line, group + draw, side="right") - group * size
    return np.clip(place, 0, size - 1)


def _draw_column(
    contraction: Contraction,
    column: int,
    drawn: tuple[int, ...],
    codes: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Fill one column given the columns of its separator."""
    tree = contraction.tree
    rows, size = codes.shape[1], tree.sizes[column]
    separator = tree.separators[column]
    others = [v for v in rng.permutation(np.array(drawn, dtype=int)) if v not in separator]
    order = np.argsort(_group_keys(codes, others, tree.sizes), kind="stable")
    keys = _group_keys(codes, separator, tree.sizes)[order]
    by_group = np.argsort(keys, kind="stable")
    order, keys = order[by_group], keys[by_group]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    counts = np.diff(np.append(starts, rows))
    tables = contraction.conditional(column)
    step = max(1, _CHUNK // size)
    for low in range(0, len(starts), step):
        chunk = slice(low, low + step)
        first = order[starts[chunk]]  # one row of each group tells its separator's values
        given = {v: codes[v, first] for v in separator}
        weights = _evaluate(tables, column, given, len(first), size)
        rounded = round_groups(weights, counts[chunk], rng)
        begin = starts[low]
        values = spread_values(rounded, counts[chunk], rng)
        codes[column, order[begin : begin + len(values)]] = values


def _group_keys(codes: np.ndarray, columns: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    """One integer per row for its combination of ``columns``; sorting it sorts by these columns."""
    keys = np.zeros(codes.shape[1], dtype=np.int64)
    largest = 1
    for v in columns:
        if largest * sizes[v] >= 1 << 62:
            present, keys = np.unique(keys, return_inverse=True)
            largest = len(present)
        keys = keys * sizes[v] + codes[v]
        largest *= sizes[v]
    # numpy sorts 16-bit integers by radix
    return keys.astype(np.uint16) if largest <= 1 << 16 else keys


def _evaluate(
    tables: list[Factor], column: int, given: dict[int, np.ndarray], groups: int, size: int
) -> np.ndarray:
    """The tables' product at each group's separator values, as (groups, values of ``column``)."""
    weights = np.ones((groups, size))
    for table in tables:
        axis = table.scope.index(column)
        index = tuple(given[v] for v in table.scope if v != column)
        weights *= np.moveaxis(table.array, axis, -1)[index]
    return weights


def round_groups(weights: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random integers whose rows sum to ``counts``, in expectation proportional to ``weights``.

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


def spread_values(rounded: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Arrange the values of every group's rows: at random, but with a value's copies spread out.

    ``rounded`` holds each group's number of copies of each value. Every row of a group is as likely
    as any other to take a value.
    """
    groups, size = rounded.shape
    copies = rounded.ravel()
    values = np.repeat(np.tile(np.arange(size, dtype=np.int32), groups), copies)
    number = np.arange(len(values)) - np.repeat(np.cumsum(copies) - copies, copies)
    place = (number + rng.random(len(values))) / np.repeat(copies, copies)
    group = np.repeat(np.arange(groups), counts)
    values = values[np.argsort(group + place)]
    # turned by a random number of places, a group has no first row
    start = np.repeat(np.cumsum(counts) - counts, counts)
    turn = np.repeat(rng.integers(0, np.maximum(counts, 1)), counts)
    return values[start + (np.arange(len(values)) - start + turn) % np.repeat(counts, counts)]
