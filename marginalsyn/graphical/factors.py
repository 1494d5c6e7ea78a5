"""Tables over columns and their contraction: the product of tables with columns summed out.

A table is an array with one column (an integer) per axis. Summing a column out of a product of two
tables is a matrix product, so the product itself is never laid out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

Scope = tuple[int, ...]
Step = Callable[[], object]

# Matrices whose product takes fewer multiplications than this do not need BLAS.
_SMALL = 64


class Factor(NamedTuple):
    """An array and the column of each of its axes."""

    scope: Scope
    array: np.ndarray


def aligned(table: Factor, scope: Scope) -> np.ndarray:
    """A view with the axes of ``scope``; one that the table does not have gets length one."""
    view = table.array.transpose([table.scope.index(v) for v in scope if v in table.scope])
    index = tuple(slice(None) if v in table.scope else None for v in scope)
    return view[index]


def summed(table: Factor, keep: Collection[int]) -> Factor:
    """Sum out all columns except ``keep``."""
    axes = tuple(i for i, v in enumerate(table.scope) if v not in keep)
    scope = tuple(v for v in table.scope if v in keep)
    return Factor(scope, np.asarray(table.array.sum(axis=axes))) if axes else table


def contract(left: Factor, right: Factor, keep: Collection[int]) -> Factor:
    """The product of two tables, summed down to the columns in ``keep``."""
    steps, out = plan_contraction(left, right, keep)
    for step in steps:
        step()
    return out


def contract_all(tables: Iterable[Factor], keep: Collection[int], sizes: Sequence[int]) -> Factor:
    """The product of all tables, summed down to ``keep``, the cheapest column first."""
    pool = list(tables)
    while True:
        loose = sorted({v for t in pool for v in t.scope if v not in keep})
        if not loose:
            break
        column = min(loose, key=lambda v: _cells(_sharing(pool, v), sizes))
        bucket = [t for t in pool if column in t.scope]
        pool = [t for t in pool if column not in t.scope]
        pool.append(_multiply(bucket, column, sizes))
    return _multiply(pool, None, sizes) if pool else Factor((), np.ones(()))


def contract_logs(tables: Sequence[Factor], keep: Collection[int]) -> Factor:
    """:func:`contract_all` on logarithms: lays the product out, survives any range of values."""
    scope = tuple(dict.fromkeys(v for t in tables for v in t.scope))
    total = sum((aligned(t, scope) for t in tables), start=np.zeros(()))
    axes = tuple(i for i, v in enumerate(scope) if v not in keep)
    peak = total.max(axis=axes, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        array = np.log(np.exp(total - peak).sum(axis=axes)) + peak.squeeze(axis=axes)
    return Factor(tuple(v for v in scope if v in keep), np.asarray(array))


def cheapest_pair(scopes: Sequence[Scope], sizes: Sequence[int]) -> tuple[int, int]:
    """Positions of the two tables whose product is smallest (the first of equals)."""
    if len(scopes) == 2:
        return 0, 1
    pairs = ((i, j) for i in range(len(scopes)) for j in range(i + 1, len(scopes)))
    return min(pairs, key=lambda p: _cells({*scopes[p[0]], *scopes[p[1]]}, sizes))


def plan_contraction(
    left: Factor, right: Factor, keep: Collection[int], rank: Sequence[int] = ()
) -> tuple[list[Step], Factor]:
    """The steps of :func:`contract` on these very arrays, and the table that they fill.

    ``rank`` orders columns: the table's axes follow it as far as that is free.
    """
    steps: list[Step] = []
    left, right = (
        plan_sum(table, {*keep, *other.scope}, steps)
        for table, other in ((left, right), (right, left))
    )
    size = dict(zip(left.scope + right.scope, left.array.shape + right.array.shape, strict=True))
    drop = [v for v in left.scope if v in right.scope and v not in keep]
    batch = [v for v in left.scope if v in right.scope and v in keep]
    rows = [v for v in left.scope if v not in right.scope]
    columns = [v for v in right.scope if v not in left.scope]
    if rank:
        for group in (drop, batch, rows, columns):
            group.sort(key=rank.__getitem__)
    scope = (*batch, *rows, *columns)
    if rank and not drop:
        scope = tuple(sorted(scope, key=rank.__getitem__))
    array = np.empty([size[v] for v in scope])
    if not drop:
        steps.append(partial(np.multiply, aligned(left, scope), aligned(right, scope), array))
        return steps, Factor(scope, array)
    m, n, k = (math.prod(size[v] for v in group) for group in (rows, columns, drop))
    lead = [size[v] for v in batch]
    if batch and m == n == 1:
        label = {v: i for i, v in enumerate(size)}  # einsum has a few dozen labels only
        of_left, of_right, of_out = (
            [label[v] for v in group] for group in (left.scope, right.scope, scope)
        )
        factors = left.array, of_left, right.array, of_right
        steps.append(partial(np.einsum, *factors, of_out, out=array))
        return steps, Factor(scope, array)
    small = m * n * k <= _SMALL
    a = _matrices(left, (*batch, *rows, *drop), [*lead, m, k], steps, small)
    b = _matrices(right, (*batch, *drop, *columns), [*lead, k, n], steps, small)
    steps.append(partial(np.matmul, a, b, array.reshape([*lead, m, n])))
    return steps, Factor(scope, array)


def plan_sum(table: Factor, keep: Collection[int], steps: list[Step]) -> Factor:
    """The table with all columns but ``keep`` summed out (by an added step, if there are any)."""
    axes = tuple(i for i, v in enumerate(table.scope) if v not in keep)
    if not axes:
        return table
    array = np.empty([n for i, n in enumerate(table.array.shape) if i not in axes])
    steps.append(partial(np.add.reduce, table.array, axes, None, array))
    return Factor(tuple(v for v in table.scope if v in keep), array)


def _matrices(
    table: Factor, scope: Scope, shape: list[int], steps: list[Step], small: bool
) -> np.ndarray:
    """The table as a stack of matrices: a view where BLAS takes it, or a copy made by a step."""
    view = table.array.transpose([table.scope.index(v) for v in scope])
    matrices = view.reshape(shape)
    if np.may_share_memory(matrices, view) and (
        small or view.itemsize in matrices.strides[-2:] or 1 in matrices.shape[-2:]
    ):
        return matrices
    buffer = np.empty(view.shape)
    steps.append(partial(np.copyto, buffer, view))
    return buffer.reshape(shape)


def _multiply(tables: Sequence[Factor], drop: int | None, sizes: Sequence[int]) -> Factor:
    """The product of all tables, smallest pair first, with ``drop`` summed out at the end."""
    pool = list(tables)
    while len(pool) > 1:
        a, b = cheapest_pair([t.scope for t in pool], sizes)
        right, left = pool.pop(b), pool.pop(a)
        keep = {*left.scope, *right.scope}
        pool.append(contract(left, right, keep if pool else keep - {drop}))
    return pool[0] if drop is None else summed(pool[0], set(pool[0].scope) - {drop})


def _sharing(tables: Iterable[Factor], column: int) -> set[int]:
    """All columns that share a table with ``column``, and itself."""
    return {v for t in tables if column in t.scope for v in t.scope}


def _cells(scope: Iterable[int], sizes: Sequence[int]) -> int:
    return math.prod(sizes[v] for v in scope)
