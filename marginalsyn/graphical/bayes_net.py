"""Bayesian networks over codes: one conditional table per column, rows drawn parents first.

A parent's codes may be grouped; the table has a row for each combination of groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marginalsyn.errors import ReleaseError
from marginalsyn.graphical.sampling import round_groups, spread_values


@dataclass(frozen=True)
class Parent:
    """A column and the group of each of its codes, numbered from 0."""

    column: int
    groups: np.ndarray

    @property
    def size(self) -> int:
        """The number of groups."""
        return int(self.groups.max(initial=-1)) + 1


@dataclass(frozen=True)
class Node:
    """P(column | parents): one row, of sum 1, per combination of parents' groups (C order)."""

    column: int
    parents: tuple[Parent, ...]
    table: np.ndarray

    def keys(self, codes: np.ndarray) -> np.ndarray:
        """The table's row for each row of data; ``codes`` has one row per column of the data."""
        keys = np.zeros(codes.shape[1], dtype=np.intp)
        for parent in self.parents:
            keys = keys * parent.size + parent.groups[codes[parent.column]]
        return keys


@dataclass(frozen=True)
class BayesNet:
    """A network: every column once, after its parents.

    Example:
        >>> root = Node(0, (), np.array([[0.5, 0.5]]))
        >>> copy = Node(1, (Parent(0, np.array([0, 1])),), np.eye(2))
        >>> codes = BayesNet((root, copy)).rows(10, np.random.default_rng(0))
        >>> bool((codes[:, 0] == codes[:, 1]).all())
        True
    """

    nodes: tuple[Node, ...]

    def rows(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw ``n`` rows of codes (int32), in random order.

        Every row follows the network's law. Among rows that agree on a column's parents, the counts
        of its codes are rounded without bias, so they vary less than independent draws would.
        """
        codes = np.zeros((len(self.nodes), n), dtype=np.int32)
        for node in self.nodes:
            keys = node.keys(codes)
            order = rng.permutation(n)
            order = order[np.argsort(keys[order], kind="stable")]
            present, counts = np.unique(keys, return_counts=True)
            rounded = round_groups(node.table[present], counts, rng)
            codes[node.column, order] = spread_values(rounded, counts, rng)
        return codes.T[rng.permutation(n)]

    def arrays(self) -> dict[str, np.ndarray]:
        """What to store: each node's table and its parents' groups."""
        out = {}
        for node in self.nodes:
            out[f"table{node.column}"] = node.table
            for parent in node.parents:
                out[f"groups{node.column}_{parent.column}"] = parent.groups.astype(np.int32)
        return out

    def index(self) -> list[dict[str, Any]]:
        """The columns in their order with their parents, as JSON."""
        return [{"column": n.column, "parents": [p.column for p in n.parents]} for n in self.nodes]

    @classmethod
    def read(cls, index: Any, arrays: Mapping[str, np.ndarray], sizes: Sequence[int]) -> BayesNet:
        """Undo :meth:`arrays` and :meth:`index`; both may come from an untrusted file."""
        nodes = tuple(_node(entry, arrays) for entry in index)
        known: set[int] = set()
        for node in nodes:
            if not _fits(node, known, sizes):
                raise ReleaseError(f"model (column {node.column}) must hold a conditional table")
            known.add(node.column)
        if known != set(range(len(sizes))):
            raise ReleaseError(f"model must hold a network of {len(sizes)} columns")
        return cls(nodes)


def _node(entry: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Node:
    column = int(entry["column"])
    parents = tuple(
        Parent(int(p), np.asarray(arrays[f"groups{column}_{int(p)}"])) for p in entry["parents"]
    )
    return Node(column, parents, np.asarray(arrays[f"table{column}"]))


def _fits(node: Node, known: set[int], sizes: Sequence[int]) -> bool:
    """Whether a node fits the columns before it and its table holds distributions."""
    if not 0 <= node.column < len(sizes) or node.column in known:
        return False
    cells = 1
    for parent in node.parents:
        groups = parent.groups
        if parent.column not in known or groups.shape != (sizes[parent.column],):
            return False
        if groups.dtype.kind != "i" or not ((groups >= 0) & (groups < groups.size)).all():
            return False
        cells *= parent.size
    table = node.table
    if table.dtype.kind != "f" or table.shape != (cells, sizes[node.column]):
        return False
    return bool((table >= 0).all() and np.allclose(table.sum(axis=1), 1.0))
