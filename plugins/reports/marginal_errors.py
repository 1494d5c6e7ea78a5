"""The distance of two tables' marginals: normalised l1 errors over codes, weighted or not.

A normalised l1 error lies in [0, 2]; half of it is the total variation distance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numba import njit

from marginalsyn.table.design import CodedRows

Columns = tuple[str, ...]

# Cells that a scratch array may hold; larger marginals are counted over their occupied cells.
DENSE_CELLS = 2**22
# Below this many rows a quarter of them says nothing about sampling.
FEWEST_SAMPLED = 16
# A group is rare with at most this share of the rows; small tables have none but by count.
RARE_SHARE, RARE_ROWS = 0.01, 30
# Fewer rows than that say nothing of the people behind the table.
FEWEST_ROWS = 10
# Marginals of more cells hold hardly any group that large.
MOST_CELLS = 2**20
# So many groups are named.
NAMED = 3


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


def sampling_errors(
    codes: np.ndarray,
    domain: Mapping[str, int],
    *,
    rng: np.random.Generator,
    rows: int | None = None,
    degree: int = 2,
    workload: Iterable[Sequence[str]] | None = None,
    draws: int = 8,
    groups: np.ndarray | None = None,
) -> dict[Columns, float]:
    """The l1 errors that a fresh sample of ``rows`` real rows would have against these rows.

    Disjoint halves of the table are two fresh samples of half its size, and disjoint quarters of
    a quarter. The error between them falls with a power of the size that depends on the marginal:
    -1/2 where every cell is well filled, 0 where every row has a cell to itself. The power seen
    between quarters and halves carries the error on to the size wanted, which overstates it
    slightly, since the power falls as cells fill. (A bootstrap would understate it: it never draws
    a combination that the table lacks.)

    Args:
        codes: the real rows.
        domain: sizes of the columns.
        rng: splits the rows.
        rows: of the fresh sample; as many as there are when not given.
        degree: largest order, where no ``workload`` is given.
        workload: the marginals wanted.
        draws: how many random splits are averaged.
        groups: of each row, the person that it belongs to: a person's rows stay together.

    Returns:
        One error per marginal; empty where the table has too few rows to be split.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> errors = sampling_errors(rng.integers(0, 2, (1000, 1)), {"a": 2}, rng=rng, draws=20)
        >>> 0.02 < errors["a",] < 0.06
        True
    """
    count = len(codes)
    if count < FEWEST_SAMPLED:
        return {}
    chosen = [tuple(q) for q in workload] if workload is not None else None
    fresh = count if rows is None else max(1, rows)
    size = 2 * count * fresh / (count + fresh)
    halves: dict[Columns, float] = {}
    quarters: dict[Columns, float] = {}
    for _ in range(draws):
        if groups is None:
            order = rng.permutation(count)
        else:
            order = np.argsort(rng.permutation(groups.max(initial=0) + 1)[groups], kind="stable")
        q = np.array_split(codes[order], 4)
        pairs = (
            (np.concatenate(q[:2]), np.concatenate(q[2:]), halves),
            (q[0], q[1], quarters),
            (q[2], q[3], quarters),
        )
        for first, second, sums in pairs:
            found = marginal_errors(first, second, domain, degree=degree, workload=chosen)
            for columns, error in found.items():
                sums[columns] = sums.get(columns, 0.0) + error
    errors = {}
    # The power is seen with noise: cut at -1/2, where the truth often is, it would be biased.
    for columns, total in halves.items():
        half, quarter = total / draws, quarters[columns] / (2 * draws)
        power = np.clip(np.log2(half / quarter), -1.0, 0.0) if half and quarter else -0.5
        errors[columns] = float(min(2.0, half * (size / (count / 2)) ** power))
    return errors


def rare_groups(
    reference: CodedRows, variants: Sequence[tuple[str | None, CodedRows]]
) -> dict[str, Any] | None:
    """How far the sizes of rare groups are off, in parts of their size; None without such groups.

    A group holds the rows with one value, or one pair of values: at least ten of them, and at most
    a hundredth of the table (or 30 rows). The error is the sum of all groups' errors over the sum
    of their sizes. Its yardsticks are what a fresh sample of real rows would show, to first order
    in its noise, and what columns would show that know nothing of each other.

    Args:
        reference: the real rows.
        variants: synthetic rows, without weights and with them.

    Example:
        >>> from marginalsyn.table.design import CodedRows
        >>> from marginalsyn.table.schema import Schema
        >>> codes = np.repeat([[0], [1]], [980, 20], axis=0)
        >>> rows = CodedRows(Schema.from_domain({"a": 2}), codes, codes / 1.0)
        >>> found = rare_groups(rows, [(None, rows)])
        >>> found["groups"], found["variants"][0]["error"], found["worst"][0]["group"]
        (1, 0.0, 'a 1')
    """
    rows = len(reference)
    least, most = FEWEST_ROWS / rows, max(RARE_SHARE, RARE_ROWS / rows)
    sizes = list(reference.schema.domain.values())
    alone = [_shares(reference, (j,), sizes) for j in range(len(sizes))]
    real = []
    blind = []
    made: list[list[np.ndarray]] = [[] for _ in variants]
    places = []
    for q in _pairs_of(sizes):
        shares = _shares(reference, q, sizes)
        cells = np.flatnonzero((shares >= least) & (shares <= most))
        if not len(cells):
            continue
        places.append((q, cells))
        real.append(shares[cells])
        product = alone[q[0]] if len(q) == 1 else np.outer(alone[q[0]], alone[q[1]]).ravel()
        blind.append(product[cells])
        for found, (_, table) in zip(made, variants, strict=True):
            found.append(_shares(table, q, sizes)[cells])
    if not real:
        return None
    truth = np.concatenate(real)
    count = len(variants[0][1])
    noise = np.sqrt(2 / np.pi * truth * (1 / rows + 1 / max(count, 1)))
    measured = []
    for (weights, _), found in zip(variants, made, strict=True):
        shares = np.concatenate(found)
        measured.append(
            {
                "weights": weights,
                "error": float(np.abs(shares - truth).sum() / truth.sum()),
                "lost": float(np.mean(shares == 0)),
            }
        )
    return {
        "groups": len(truth),
        "rows": [FEWEST_ROWS, math.floor(most * rows)],
        "variants": measured,
        "fresh": float(noise.sum() / truth.sum()),
        "shuffled": float(np.abs(np.concatenate(blind) - truth).sum() / truth.sum()),
        "worst": _worst(reference, places, truth, np.concatenate(made[0])),
    }


def _pairs_of(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for j in range(len(sizes)):
        yield (j,)
    for a, b in itertools.combinations(range(len(sizes)), 2):
        if sizes[a] * sizes[b] <= MOST_CELLS:
            yield (a, b)


def _shares(table: CodedRows, q: tuple[int, ...], sizes: Sequence[int]) -> np.ndarray:
    return share_table(table.codes[:, q], [sizes[j] for j in q], table.weights).ravel()


def _worst(
    reference: CodedRows,
    places: Sequence[tuple[tuple[int, ...], np.ndarray]],
    truth: np.ndarray,
    found: np.ndarray,
) -> list[Mapping[str, Any]]:
    """The groups that are off by most standard errors, by name."""
    columns = reference.schema.columns
    names = [column.labels() for column in columns]
    owner = np.repeat(np.arange(len(places)), [len(cells) for _, cells in places])
    every = np.concatenate([cells for _, cells in places])
    worst: list[Mapping[str, Any]] = []
    for k in np.argsort(-np.abs(found - truth) / np.sqrt(truth), kind="stable")[:NAMED]:
        q, _ = places[owner[k]]
        codes = np.unravel_index(every[k], [len(names[j]) for j in q])
        parts = [f"{columns[j].name} {names[j][c]}" for j, c in zip(q, codes, strict=True)]
        worst.append(
            {"group": " and ".join(parts), "real": float(truth[k]), "synthetic": float(found[k])}
        )
    return worst
