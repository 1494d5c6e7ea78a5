"""A model's tables contracted along an elimination tree, planned once and run many times.

Forwards the network is contracted to its total mass. Backwards the same steps give the derivative
of the mass with respect to every table, which times the table is its marginal (Darwiche 2003).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import starmap
from typing import NamedTuple

import numpy as np

from marginalsyn.graphical.factors import (
    Factor,
    Scope,
    Step,
    aligned,
    cheapest_pair,
    contract_logs,
    plan_contraction,
    plan_sum,
)
from marginalsyn.graphical.junction_tree import EliminationTree

# All tables are at most one. If the mass is above the first bound, whatever underflowed on the way
# was below 1e-50 of it; sums stay finite without rescaling when the domain is below the second.
_TINY, _LARGEST_UNSCALED = 1e-250, 1e30
_RARE = 1e-12
# So many tables are multiplied before a product is rescaled, where products are.
_UNSCALED = 12
# Of more tables than this the cheapest two are not looked for while two are over the same columns.
_MANY = 8
_ONE = Factor((), np.ones(()))


def _equals(scopes: Sequence[Scope]) -> tuple[int, int] | None:
    """Two tables over the same columns, if there are many tables: their product costs least."""
    seen: dict[frozenset[int], int] = {}
    for i, scope in enumerate(scopes if len(scopes) > _MANY else ()):
        first = seen.setdefault(frozenset(scope), i)
        if first != i:
            return first, i
    return None


class _Node(NamedTuple):
    """A leaf (no children) or the sum of one table, or of the product of two, down to a scope."""

    scope: Scope
    left: int = -1
    right: int = -1


class Contraction:
    """The tables of a model, their marginals, and all intermediate tables.

    Fill ``logs`` (one array per scope, all views of ``flat``), call :meth:`propagate`, then read
    ``marginals`` (each sums to one; views of ``flat_marginals``), ``log_mass``, :meth:`joint` and
    :meth:`conditional`. Every column of the tree must be in some scope.
    """

    def __init__(self, tree: EliminationTree, scopes: Sequence[Scope]) -> None:
        self.tree, self.scopes = tree, tuple(scopes)
        shapes = [tuple(tree.sizes[v] for v in scope) for scope in scopes]
        self._shapes = shapes
        self._lengths = np.array([math.prod(shape) for shape in shapes])
        self._starts = np.cumsum(self._lengths) - self._lengths
        self.flat, self.flat_marginals, self._flat_values = np.zeros((3, self._lengths.sum()))
        self.logs, self.marginals = self._views(self.flat), self._views(self.flat_marginals)
        self._values = self._views(self._flat_values)
        self._nodes: list[_Node] = [_Node(scope) for scope in scopes]
        self._inputs: list[list[int]] = [[] for _ in tree.sizes]  # of each column's bucket
        self._outputs: list[int] = [-1] * len(tree.sizes)
        self._plan()
        self._roots = [self._outputs[v] for v in tree.order if not tree.separators[v]]
        # Of hundreds of columns the product is no float: it is compared as the whole number it is.
        self._scaled = math.prod(int(size) for size in tree.sizes) > _LARGEST_UNSCALED
        self._shift, self._lost = 0.0, False
        self.log_mass, self.in_logs = 0.0, False
        self._linear = self._tables, self._adjoints = self._compile()

    def propagate(self) -> bool:
        """Compute mass and marginals from ``logs``; return False if no cell has any mass."""
        peaks = np.maximum.reduceat(self.flat, self._starts)
        if not np.isfinite(peaks).all():
            return False
        spread = np.repeat(peaks, self._lengths)
        np.subtract(self.flat, spread, out=self._flat_values)
        np.exp(self._flat_values, out=self._flat_values)
        self._shift, self._lost, self.in_logs = 0.0, False, False
        self._tables, self._adjoints = self._linear
        for step in self._steps:
            step()
        masses = [float(self._tables[r].array) for r in self._roots]
        if min(masses) > _TINY and not self._lost:
            scale = np.add.reduceat(self.flat_marginals, self._starts)
            if scale.min() > _TINY:
                self.flat_marginals /= np.repeat(scale, self._lengths)
                self.log_mass = float(np.log(masses).sum() + peaks.sum()) + self._shift
                return True
        return self._propagate_logs()

    def balance(self) -> np.ndarray:
        """Rewrite the logs, for the same model, so that their peaks are where the mass is.

        What one column alone explains moves to that column's own table, and cells without mass are
        lowered to a ceiling, which is returned. Where measurements contradict each other,
        potentials drift for ever along such directions, and would leave the range of floating
        point. Call :meth:`propagate` first.
        """
        ceiling = np.full(self.flat.size, np.inf)
        own = {t[0]: logs for t, logs in zip(self.scopes, self.logs, strict=True) if len(t) == 1}
        ceilings = self._views(ceiling)
        for scope, logs, marginal in zip(self.scopes, self.logs, self.marginals, strict=True):
            if not np.isfinite(logs).all():
                continue
            mass = marginal + _RARE / marginal.size
            for axis, column in enumerate(scope if len(scope) > 1 else ()):
                others = tuple(i for i in range(len(scope)) if i != axis)
                mean = (mass * logs).sum(axis=others) / mass.sum(axis=others)
                own[column] += mean
                logs -= aligned(Factor((column,), mean), scope)
        for logs, marginal, top in zip(self.logs, self.marginals, ceilings, strict=True):
            rare = marginal < _RARE
            top[rare] = logs[~rare].max()
        np.minimum(self.flat, ceiling, out=self.flat)
        return ceiling

    def joint(self, column: int) -> list[Factor]:
        """Tables whose product is proportional to the bucket's joint distribution."""
        output = self._outputs[column]
        if not self.in_logs:
            return [*(self._tables[i] for i in self._inputs[column]), self._adjoints[output]]
        return [self._exponential(column, [self._adjoints[output]], axis=None)]

    def conditional(self, column: int) -> list[Factor]:
        """Tables whose product is proportional to P(column | separator) in ``column``."""
        if not self.in_logs:
            return [self._tables[i] for i in self._inputs[column]]
        return [self._exponential(column, [], axis=0)]

    def _exponential(self, column: int, more: list[Factor], axis: int | None) -> Factor:
        """The bucket's tables multiplied in log space, scaled to a peak of one (along an axis)."""
        scope = self.tree.bucket(column)
        tables = [*(self._tables[i] for i in self._inputs[column]), *more]
        total = np.zeros([self.tree.sizes[v] for v in scope])
        for table in tables:
            total += aligned(table, scope)
        peak = total.max(axis=axis, keepdims=True)
        return Factor(scope, np.exp(total - np.where(np.isfinite(peak), peak, 0.0)))

    def _views(self, flat: np.ndarray) -> list[np.ndarray]:
        """One array per table, each a view of a part of ``flat``."""
        parts = zip(self._starts, self._lengths, self._shapes, strict=True)
        return [flat[start : start + length].reshape(shape) for start, length, shape in parts]

    def _plan(self) -> None:
        """Decide which two tables meet next, bucket by bucket."""
        sizes = self.tree.sizes
        waiting = list(range(len(self._nodes)))
        for column in self.tree.order:
            bucket = [i for i in waiting if column in self._nodes[i].scope]
            waiting = [i for i in waiting if column not in self._nodes[i].scope]
            self._inputs[column] = list(bucket)
            keep = self.tree.separators[column]
            while True:
                scopes = [self._nodes[i].scope for i in bucket]
                if len(bucket) == 1:
                    node = _Node(tuple(v for v in scopes[0] if v != column), bucket.pop())
                else:
                    a, b = _equals(scopes) or cheapest_pair(scopes, sizes)
                    right, left = bucket.pop(b), bucket.pop(a)
                    union = dict.fromkeys(scopes[a] + scopes[b])
                    last = not bucket
                    scope = tuple(v for v in union if v in keep or not last)
                    node = _Node(scope, left, right)
                self._nodes.append(node)
                if column not in node.scope:
                    break
                bucket.append(len(self._nodes) - 1)
            self._outputs[column] = len(self._nodes) - 1
            if keep:
                waiting.append(self._outputs[column])

    def _compile(self) -> tuple[list[Factor], list[Factor]]:
        """Allocate all arrays and bind every step to them; return the tables and their adjoints."""
        steps: list[Step] = []
        rescaled = self._rescaled() if self._scaled else set()
        leaves = len(self.scopes)
        # the column to be summed out next comes last in memory
        rank = [0] * len(self.tree.order)
        for i, v in enumerate(reversed(self.tree.order)):
            rank[v] = i
        tables = list(starmap(Factor, zip(self.scopes, self._values, strict=True)))
        for i, node in enumerate(self._nodes[leaves:], start=leaves):
            if node.right < 0:
                table = plan_sum(tables[node.left], node.scope, steps)
            else:
                added, table = plan_contraction(
                    tables[node.left], tables[node.right], node.scope, rank
                )
                steps += added
            if i in rescaled:
                steps.append(partial(self._rescale, table.array, count=True))
            tables.append(table)
        adjoints = [_ONE] * len(tables)
        for i, node in reversed(list(enumerate(self._nodes))):
            if node.left < 0:
                continue
            if node.right < 0:
                adjoints[node.left] = adjoints[i]  # constant along the column summed out
                continue
            if i in rescaled and adjoints[i].scope:
                steps.append(partial(self._rescale, adjoints[i].array, count=False))
            for child, other in ((node.left, node.right), (node.right, node.left)):
                keep = tables[child].scope
                if adjoints[i].scope or self._scaled:
                    added, adjoints[child] = plan_contraction(
                        adjoints[i], tables[other], keep, rank
                    )
                    steps += added
                else:
                    adjoints[child] = plan_sum(tables[other], keep, steps)
        for leaf, scope in enumerate(self.scopes):
            factors = self._values[leaf], aligned(adjoints[leaf], scope)
            steps.append(partial(np.multiply, *factors, self.marginals[leaf]))
        self._steps = steps
        return tables, adjoints

    def _rescaled(self) -> set[int]:
        """The outputs to rescale: so many tables at most are multiplied between two of them."""
        found, below = set(), [1] * len(self.scopes)
        outputs = {*self._outputs}
        for i, node in enumerate(self._nodes[len(self.scopes) :], start=len(self.scopes)):
            below.append(below[node.left] + (below[node.right] if node.right >= 0 else 0))
            if i in outputs and below[i] >= _UNSCALED:
                found.add(i)
                below[i] = 1
        return found

    def _rescale(self, array: np.ndarray, *, count: bool) -> None:
        """Divide by the peak, so that long products neither overflow nor underflow."""
        peak = float(array.max())
        if peak < _TINY:
            self._lost = True
            return
        array /= peak
        if count:
            self._shift += float(np.log(peak))

    def _propagate_logs(self) -> bool:
        """As :meth:`propagate`, on logarithms: slower, but no range of values is too large."""
        self.in_logs = True
        tables = list(starmap(Factor, zip(self.scopes, self.logs, strict=True)))
        for node in self._nodes[len(tables) :]:
            children = [tables[i] for i in (node.left, node.right) if i >= 0]
            tables.append(contract_logs(children, node.scope))
        adjoints = [Factor((), np.zeros(()))] * len(tables)
        for i, node in reversed(list(enumerate(self._nodes))):
            for child, other in ((node.left, node.right), (node.right, node.left)):
                if child >= 0:
                    factors = [adjoints[i], *([tables[other]] if other >= 0 else [])]
                    adjoints[child] = contract_logs(factors, tables[child].scope)
        self._tables, self._adjoints = tables, adjoints
        self.log_mass = float(sum(tables[r].array for r in self._roots))
        if not np.isfinite(self.log_mass):
            return False
        for leaf, scope in enumerate(self.scopes):
            joint = self.logs[leaf] + aligned(adjoints[leaf], scope)
            values = np.exp(joint - joint.max())
            np.divide(values, values.sum(), out=self.marginals[leaf])
        return True
