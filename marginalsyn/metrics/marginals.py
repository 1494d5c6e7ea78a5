"""How far two tables' marginals lie apart: normalised l1 errors over codes, weighted or not.

A normalised l1 error lies in [0, 2]; half of it is the total variation distance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

# Up to this many cells a dense count beats sorting the occupied ones.
DENSE_CELLS = 1_000_000


def marginal_errors(
    first: np.ndarray,
    second: np.ndarray,
    domain: Mapping[str, int],
    *,
    degree: int = 2,
    workload: Iterable[Sequence[str]] | None = None,
    first_weights: np.ndarray | None = None,
    second_weights: np.ndarray | None = None,
) -> dict[tuple[str, ...], float]:
    """The normalised l1 error of every marginal of 1 to ``degree`` columns, or of a workload.

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
    if workload is None:
        orders = range(1, min(degree, len(names)) + 1)
        wanted: Iterable[tuple[int, ...]] = itertools.chain.from_iterable(
            itertools.combinations(range(len(names)), k) for k in orders
        )
    else:
        wanted = [tuple(position[c] for c in q) for q in workload]
    sizes = list(domain.values())
    weights = np.concatenate([_shares(first, first_weights), -_shares(second, second_weights)])
    codes = np.concatenate([first, second]).astype(np.int64, copy=False)
    return {
        tuple(names[j] for j in q): _distance(index, cells, weights)
        for q, index, cells in _indices(codes, sizes, wanted)
    }


def _shares(codes: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Weights that add up to one (nothing at all for an empty table)."""
    if weights is None:
        return np.full(len(codes), 1.0 / max(len(codes), 1))
    total = float(np.sum(weights))
    return np.asarray(weights, dtype=float) / (total if total > 0 else 1.0)


def _indices(
    codes: np.ndarray, sizes: Sequence[int], wanted: Iterable[tuple[int, ...]]
) -> Iterator[tuple[tuple[int, ...], np.ndarray, int]]:
    """The flat cell of every row, marginal by marginal; neighbours share their prefix."""
    columns = np.ascontiguousarray(codes.T)
    stack: list[tuple[int, np.ndarray]] = []
    for q in wanted:
        depth = 0
        while depth < min(len(stack), len(q)) and stack[depth][0] == q[depth]:
            depth += 1
        del stack[depth:]
        for j in q[depth:]:
            index = columns[j] if not stack else stack[-1][1] * sizes[j] + columns[j]
            stack.append((j, index))
        yield q, stack[-1][1], math.prod(sizes[j] for j in q)


def _distance(index: np.ndarray, cells: int, signed: np.ndarray) -> float:
    """The l1 norm of the signed weights summed by cell."""
    if cells > DENSE_CELLS:
        _, index = np.unique(index, return_inverse=True)
        cells = int(index.max(initial=-1)) + 1
    return float(np.abs(np.bincount(index, weights=signed, minlength=cells)).sum())
