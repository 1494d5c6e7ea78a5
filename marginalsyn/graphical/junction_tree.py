"""Triangulation by greedy elimination: which cliques a model needs, and how large it becomes.

Columns are integers here and sets of columns are bit masks, so that a candidate's hypothetical
model size costs a fraction of a millisecond. Ties are broken by column position: nothing depends
on the hash seed.

A model's cliques make a forest, in which adding one column to every clique on the way to another
keeps a junction forest one: the cells that this adds bound from above how much a pair costs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np


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


class CliqueForest:
    """A junction forest over some cliques.

    Args:
        sizes: of all columns.
        cliques: sets of column positions.
    """

    def __init__(self, sizes: Sequence[int], cliques: Sequence[Sequence[int]]) -> None:
        tree = triangulate(sizes, cliques)
        hosts = tree.hosts()
        number = {host: i for i, host in enumerate(dict.fromkeys(hosts.values()))}
        self._sizes = sizes
        self._cliques = [tree.bucket(host) for host in number]
        self._near: list[list[int]] = [[] for _ in number]
        self._homes: list[list[int]] = [[] for _ in sizes]
        for i, clique in enumerate(self._cliques):
            for v in clique:
                self._homes[v].append(i)
        self.parts = np.arange(len(sizes))
        for v in reversed(tree.order):  # parents come before children
            above = tree.separators[v]
            if not above:
                continue
            self.parts[v] = self.parts[above[0]]
            here, there = number[hosts[v]], number[hosts[above[0]]]
            if here != there:
                self._near[here].append(there)
                self._near[there].append(here)
        self._cells = [math.prod(sizes[v] for v in clique) for clique in self._cliques]

    @property
    def cells(self) -> int:
        """Cells of all cliques."""
        return sum(self._cells)

    @cached_property
    def growth(self) -> np.ndarray:
        """The cells that holding two columns of one part together adds at most; 0 in a clique."""
        found = np.full((len(self._sizes), len(self._sizes)), np.inf)
        for v in range(len(self._sizes)):
            added, _ = self._reach(v, self._sizes[v] - 1.0)
            for clique, cells in added.items():
                for u in self._cliques[clique]:
                    found[v, u] = min(found[v, u], cells)
        return np.minimum(found, found.T)

    def added(self, columns: Sequence[int]) -> float:
        """The cells that holding some columns together adds at most."""
        own = set(columns)
        if any(own <= {*clique} for clique in self._cliques):
            return 0.0
        total = float(math.prod(self._sizes[v] for v in columns))
        # A pair widens the cliques on its way by one of its columns, more columns by all of them.
        times = self._sizes[columns[0]] - 1.0 if len(columns) == 2 else total
        first: dict[int, dict[int, float]] = {}
        for v in columns:
            part = int(self.parts[v])
            if part in first:
                total += min(first[part][c] for c in self._homes[v])
            else:
                first[part], _ = self._reach(v, times)
        return total

    def way(self, a: int, b: int) -> list[int]:
        """The cliques on the way between two columns of one part, both ends included."""
        added, back = self._reach(a, self._sizes[a] - 1.0)
        at = min((c for c in self._homes[b] if c in added), key=added.__getitem__)
        found = [at]
        while found[-1] in back:
            found.append(back[found[-1]])
        return found

    def regions(self, without: Collection[int]) -> np.ndarray:
        """For every column a number of what stays connected without some cliques; -1 in those."""
        label = {}
        for start in range(len(self._cliques)):
            if start in without or start in label:
                continue
            label[start], queue = start, deque([start])
            while queue:
                for other in self._near[queue.popleft()]:
                    if other not in label and other not in without:
                        label[other] = start
                        queue.append(other)
        return np.array(
            [-1 if any(c in without for c in homes) else label[homes[0]] for homes in self._homes]
        )

    def _reach(self, column: int, times: float) -> tuple[dict[int, float], dict[int, int]]:
        """``times`` the cells of the cliques on the way to each other one, and the way back."""
        added = dict.fromkeys(self._homes[column], 0.0)
        back = {}
        queue = deque(added)
        while queue:
            here = queue.popleft()
            for other in self._near[here]:
                if other not in added:
                    added[other] = added[here] + self._cells[other] * times
                    back[other] = here
                    queue.append(other)
        return added, back
