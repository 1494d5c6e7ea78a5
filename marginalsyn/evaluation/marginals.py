"""How far two tables' marginals lie apart: normalised l1 errors over codes, weighted or not.

A normalised l1 error lies in [0, 2]; half of it is the total variation distance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numba import njit

Columns = tuple[str, ...]

# Cells that a scratch array may hold; larger marginals are counted over their occupied cells.
DENSE_CELLS = 2**22


def marginal_errors(
    first: np.ndarray,
    second: np.ndarray,
    domain: Mapping[str, int],
    *,
    degree: int = 2,
    workload: Iterable[Sequence[str]] | None = None,
    first_weights: np.ndarray | None = None,
    second_weights: np.ndarray | None = None,
) -> dict[Columns, float]:
    """The normalised l1 error of every marginal of 1 to ``degree`` columns, or of a workload.

    Only occupied cells are visited, so the time is that of reading the rows once per marginal,
    and memory stays within a few columns' worth, however many cells there are. Tables that hold
    the same rows in the same proportions have an error of exactly 0 where the weights are whole
    numbers.

    Args:
        first: Codes of one table, rows by columns in the order of ``domain``.
        second: Codes of the other.
        domain: Sizes of the columns.
        degree: Largest order, where no ``workload`` is given.
        workload: The marginals wanted, as column names.
        first_weights: Non-negative weights of the rows of ``first``; None weighs all alike.
        second_weights: The same for ``second``.

    Example:
        >>> marginal_errors(np.array([[0], [1]]), np.array([[0], [0]]), {"a": 2}, degree=1)
        {('a',): 1.0}
    """
    names = list(domain)
    position = {name: j for j, name in enumerate(names)}
    wanted: Iterable[tuple[int, ...]]
    if workload is None:
        wanted = itertools.chain.from_iterable(
            itertools.combinations(range(len(names)), k)
            for k in range(1, min(degree, len(names)) + 1)
        )
    else:
        wanted = [tuple(position[c] for c in q) for q in workload]
    masses, scale = _signed(first, first_weights, second, second_weights)
    columns = np.ascontiguousarray(np.concatenate([first, second]).T, dtype=np.int32)
    scratch = np.zeros(0)
    errors = {}
    for q, index, cells in _indices(columns, list(domain.values()), wanted):
        if scratch.size < cells:
            scratch = np.zeros(cells)
        errors[tuple(names[j] for j in q)] = _distance(index, masses, scratch) * scale
    return errors


def share_table(
    codes: np.ndarray, sizes: Sequence[int], weights: np.ndarray | None = None
) -> np.ndarray:
    """The weighted shares of the cells of one marginal, shaped by ``sizes``.

    Example:
        >>> share_table(np.array([[0], [1], [1]]), [2], np.array([2.0, 1.0, 1.0])).tolist()
        [0.5, 0.5]
    """
    index = np.zeros(len(codes), dtype=np.int64)
    for column, size in zip(codes.T, sizes, strict=True):
        index = index * size + column
    counts = np.bincount(index, weights=weights, minlength=math.prod(sizes)).astype(float)
    total = counts.sum()
    return (counts / (total if total > 0 else 1.0)).reshape(sizes)


def _signed(
    first: np.ndarray,
    first_weights: np.ndarray | None,
    second: np.ndarray,
    second_weights: np.ndarray | None,
) -> tuple[np.ndarray, float]:
    """One table's weights and minus the other's, each times the other's total, and a scale.

    Cross-multiplied rather than divided, whole numbers stay whole numbers: no rounding.
    """
    one, two = _weights(first, first_weights), _weights(second, second_weights)
    total_one, total_two = float(one.sum()) or 1.0, float(two.sum()) or 1.0
    masses = np.concatenate([one * total_two, two * -total_one])
    return masses, 1.0 / (total_one * total_two)


def _weights(codes: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Weights whose total is at most the number of rows or so, scaled by a power of two."""
    if weights is None:
        return np.ones(len(codes))
    weights = np.asarray(weights, dtype=float)
    if len(weights) != len(codes):
        raise ValueError(f"weights ({len(weights)}) must be one per row ({len(codes)})")
    top = float(weights.max(initial=0.0))
    return np.ldexp(weights, -math.frexp(top)[1]) if top > 0 else weights


def _indices(
    columns: np.ndarray, sizes: Sequence[int], wanted: Iterable[tuple[int, ...]]
) -> Iterator[tuple[tuple[int, ...], np.ndarray, int]]:
    """Every row's cell and the number of cells, by marginal; neighbours share their prefix."""
    stack: list[tuple[int, np.ndarray, int]] = []
    for q in wanted:
        depth = 0
        while depth < min(len(stack), len(q)) and stack[depth][0] == q[depth]:
            depth += 1
        del stack[depth:]
        for j in q[depth:]:
            if stack:
                _, index, cells = stack[-1]
                if cells * sizes[j] > DENSE_CELLS:
                    index, cells = _occupied(index)
                    stack[-1] = (stack[-1][0], index, cells)
                index, cells = index * np.int32(sizes[j]) + columns[j], cells * sizes[j]
            else:
                index, cells = columns[j], sizes[j]
            if cells > DENSE_CELLS:
                index, cells = _occupied(index)
            stack.append((j, index, cells))
        yield q, stack[-1][1], stack[-1][2]


def _occupied(index: np.ndarray) -> tuple[np.ndarray, int]:
    """The same cells numbered without gaps."""
    found, inverse = np.unique(index, return_inverse=True)
    return inverse.astype(np.int32), len(found)


@njit(cache=True)
def _distance(index: Any, masses: Any, scratch: Any) -> float:
    """The l1 norm of the masses summed by cell; ``scratch`` is zero before and after."""
    total = 0.0
    for i in range(index.size):
        scratch[index[i]] += masses[i]
    for i in range(index.size):
        total += abs(scratch[index[i]])
        scratch[index[i]] = 0.0
    return total
