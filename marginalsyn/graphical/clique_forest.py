"""The forest of a model's cliques: its parts, the way between two columns, what joining them costs.

Adding one column to every clique on the way to another keeps a junction forest one, so the cells
that this adds bound from above how much a model grows by a pair.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np

from marginalsyn.graphical.junction_tree import triangulate


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
