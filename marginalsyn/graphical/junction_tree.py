"""Triangulation by greedy elimination: which cliques a model needs, and how large it becomes.

Columns are integers here and sets of columns are bit masks, so that a candidate's hypothetical
model size costs a fraction of a millisecond. Ties are broken by column position: nothing depends
on the hash seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class EliminationTree:
    """An elimination order and what it implies.

    ``separators[v]`` are the columns that v meets when it is eliminated, in the order of their own
    elimination (the first is v's parent); {v} and its separator are the bucket of v. The buckets
    form a junction tree; those contained in a child's bucket are not maximal.
    """

    sizes: tuple[int, ...]
    order: tuple[int, ...]
    separators: tuple[tuple[int, ...], ...]

    def bucket(self, column: int) -> tuple[int, ...]:
        """The column and its separator."""
        return (column, *self.separators[column])

    def hosts(self) -> dict[int, int]:
        """For every bucket the maximal bucket that contains it (itself, if it is maximal)."""
        found: dict[int, int] = {}
        for column in self.order:  # children come before parents
            found.setdefault(column, column)
            separator = self.separators[column]
            if separator and len(separator) == len(self.separators[separator[0]]) + 1:
                found.setdefault(separator[0], found[column])
        return found

    def cliques(self) -> list[tuple[int, ...]]:
        """The maximal cliques, columns in domain order, sorted."""
        hosts = self.hosts()
        return sorted(tuple(sorted(self.bucket(v))) for v in self.order if hosts[v] == v)


def triangulate(
    sizes: Sequence[int], cliques: Iterable[Sequence[int]], order: Sequence[int] | None = None
) -> EliminationTree:
    """Find a small junction tree over ``cliques``, or the one that a given order implies."""
    adjacency = _adjacency(len(sizes), cliques)
    if order is None:
        pairs = list(_best_elimination(tuple(sizes), adjacency)[1])
    else:
        pairs = _eliminate(list(adjacency), order)
    position = {v: i for i, (v, _) in enumerate(pairs)}
    separators: list[tuple[int, ...]] = [()] * len(sizes)
    for v, mask in pairs:
        separators[v] = tuple(sorted(_bits(mask), key=position.__getitem__))
    return EliminationTree(tuple(sizes), tuple(v for v, _ in pairs), tuple(separators))


def count_cells(sizes: Sequence[int], cliques: Iterable[Sequence[int]]) -> int:
    """How many cells the junction tree's maximal cliques have, without building the tree."""
    return _best_elimination(tuple(sizes), _adjacency(len(sizes), cliques))[0]


def _adjacency(columns: int, cliques: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """One mask of neighbours per column."""
    adjacency = [0] * columns
    for clique in cliques:
        mask = 0
        for v in clique:
            mask |= 1 << v
        for v in clique:
            adjacency[v] |= mask
    return tuple(mask & ~(1 << v) for v, mask in enumerate(adjacency))


@lru_cache(maxsize=8192)
def _best_elimination(
    sizes: tuple[int, ...], adjacency: tuple[int, ...]
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The smaller result of two greedy orders: by smallest bucket and by least weighted fill."""
    best = None
    for by_fill in (False, True):
        pairs, chordal = _greedy(sizes, list(adjacency), by_fill)
        cells = _cells(sizes, pairs)
        if best is None or cells < best[0]:
            best = cells, tuple(pairs)
        if chordal:
            break  # nothing was filled in: no order does better
    assert best is not None
    return best


def _cells(sizes: tuple[int, ...], pairs: Sequence[tuple[int, int]]) -> int:
    """Cells of the maximal buckets: a bucket that equals some separator is not maximal."""
    separators = {mask for _, mask in pairs}
    total = 0
    for v, mask in pairs:
        bucket = mask | 1 << v
        if bucket not in separators:
            total += _weight(sizes, bucket)
    return total


def _greedy(
    sizes: tuple[int, ...], adjacency: list[int], by_fill: bool
) -> tuple[list[tuple[int, int]], bool]:
    """Eliminate a simplicial column if there is one, else the cheapest; say if it is chordal."""
    left = list(range(len(sizes)))
    pairs = []
    chordal = True
    scores = {}
    while left:
        stale = [v for v in left if v not in scores]
        for v in stale:
            scores[v] = _score(sizes, adjacency, v, by_fill)
        # a simplicial column (score -1) is always safe; min keeps the first of equals
        chosen = min(left, key=scores.__getitem__)
        chordal &= scores[chosen] < 0
        neighbours = adjacency[chosen]
        pairs.append((chosen, neighbours))
        left.remove(chosen)
        del scores[chosen]
        touched = neighbours
        for u in _bits(neighbours):
            before = adjacency[u]
            adjacency[u] = (before | neighbours) & ~(1 << u) & ~(1 << chosen)
            if by_fill or adjacency[u] & ~before:
                touched |= before  # an edge was filled in: its neighbours' scores may fall
        for u in _bits(touched):
            scores.pop(u, None)
    return pairs, chordal


def _score(sizes: tuple[int, ...], adjacency: list[int], v: int, by_fill: bool) -> int:
    """-1 for a simplicial column, else the bucket's cells or the weight of the edges filled in."""
    neighbours = adjacency[v]
    fill = 0
    for u in _bits(neighbours):
        missing = neighbours & ~adjacency[u] & ~(1 << u)
        if missing:
            if not by_fill:
                return _weight(sizes, neighbours | 1 << v)
            fill += sizes[u] * sum(sizes[w] for w in _bits(missing))
    return fill or -1


def _eliminate(adjacency: list[int], order: Sequence[int]) -> list[tuple[int, int]]:
    """Buckets of a given order."""
    pairs = []
    for v in order:
        neighbours = adjacency[v]
        pairs.append((v, neighbours))
        for u in _bits(neighbours):
            adjacency[u] = (adjacency[u] | neighbours) & ~(1 << u) & ~(1 << v)
    return pairs


@lru_cache(maxsize=65536)
def _weight(sizes: tuple[int, ...], mask: int) -> int:
    """Cells of a set of columns."""
    return math.prod(sizes[v] for v in _bits(mask))


@lru_cache(maxsize=65536)
def _bits(mask: int) -> tuple[int, ...]:
    """The columns of a mask, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)
