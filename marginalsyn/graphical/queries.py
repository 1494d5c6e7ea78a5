"""Marginals of a calibrated model for any columns, in one clique or not, and all pairs at once.

A query is answered at the lowest clique whose subtree holds all its columns; each subtree below
sends the distribution of its part given the separator. These messages and the projections of
cliques are shared by all queries of one call. Where a message would be large, its factors are sent
instead, and summed out in the order that costs least.

All pairs come by matrix products along the tree. For some source columns the joint distribution of
every source's code with a separator is carried from bucket to bucket: with X the columns known and
Y those wanted, both in one bucket, it is multiplied by the matrix P(Y | X). Columns of both are
carried along, and two columns of different trees are independent. For hundreds of columns this
takes a second where one answer after the other takes minutes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from marginalsyn.graphical.contraction import Contraction
from marginalsyn.graphical.factors import Factor, Scope, aligned, contract_all, summed

# Cliques of up to so many cells are laid out once and summed; larger ones are contracted again.
_LAID_OUT = 1 << 18
# Messages of more cells are sent as factors; tables of more cells are not remembered.
_LARGE = 1 << 22
# All that is remembered has fewer cells than this.
_CAPACITY = 1 << 25


class Answers:
    """Answers queries on one propagated model, and keeps what they share."""

    def __init__(self, contraction: Contraction) -> None:
        self._contraction, self._sizes = contraction, contraction.tree.sizes
        tree = contraction.tree
        hosts = tree.hosts()
        root = hosts[tree.order[-1]]
        self._root = root
        self._separators: dict[int, frozenset[int]] = {root: frozenset()}
        self._children: dict[int, list[int]] = {host: [] for host in hosts.values()}
        self._columns = {host: frozenset(tree.bucket(host)) for host in hosts.values()}
        for column in reversed(tree.order):  # parents come before children
            separator = tree.separators[column]
            host, above = hosts[column], hosts[separator[0]] if separator else root
            if host != above:
                self._separators[host] = frozenset(separator)
                self._children[above].append(host)
        self._below: dict[int, frozenset[int]] = {}
        self._collect(root)
        self._locals: dict[int, list[Factor]] = {host: [] for host in self._columns}
        self._messages: dict[tuple[int, frozenset[int]], Factor] = {}
        self._cells = 0

    def marginal(self, columns: tuple[int, ...]) -> np.ndarray:
        """The probability of each combination of ``columns``, axes in their order."""
        wanted = frozenset(columns)
        clique = self._root
        while True:
            lower = [
                c for c in self._children[clique] if wanted <= self._below[c] | self._separators[c]
            ]
            if not lower:
                break
            clique = lower[0]
        factors = self._factors(clique, wanted, frozenset())
        found = contract_all(factors, wanted, self._sizes)
        values = np.array(aligned(found, columns))
        return np.divide(values, values.sum(), out=values)

    def forget(self) -> None:
        """Forget all messages and large projections."""
        self._messages.clear()
        for tables in self._locals.values():
            tables[:] = [t for t in tables if t.array.size <= _LAID_OUT]
        self._cells = sum(t.array.size for tables in self._locals.values() for t in tables)

    def _collect(self, clique: int) -> None:
        """For every subtree, find the columns that are not in its separator."""
        stack, order = [clique], []
        while stack:
            order.append(stack.pop())
            stack += self._children[order[-1]]
        for host in reversed(order):
            below = set(self._columns[host]).union(*(self._below[c] for c in self._children[host]))
            self._below[host] = frozenset(below - self._separators[host])

    def _factors(self, clique: int, wanted: frozenset[int], keep: frozenset[int]) -> list[Factor]:
        """Tables whose product, summed down, is the marginal of ``wanted`` and ``keep``.

        The columns in ``wanted`` are in the clique or below it, those in ``keep`` are in it.
        """
        parts = [(c, wanted & self._below[c]) for c in self._children[clique]]
        parts = [(c, part) for c, part in parts if part]
        needed = (wanted & self._columns[clique]).union(
            keep, *(self._separators[c] for c, _ in parts)
        )
        found = [self._local(clique, needed)]
        for child, part in parts:
            found += self._message(child, part)
        return found

    def _message(self, clique: int, wanted: frozenset[int]) -> list[Factor]:
        """Tables whose product, summed down, is P(wanted | the separator above the clique)."""
        known = self._messages.get((clique, wanted))
        if known is not None:
            return [known]
        separator = self._separators[clique]
        factors = self._factors(clique, wanted, separator)
        if separator:
            factors[0] = _divided(factors[0], self._local(clique, separator))
        cells = math.prod(self._sizes[v] for v in wanted | separator)
        if cells > _LARGE:
            return factors
        message = contract_all(factors, wanted | separator, self._sizes)
        self._hold(message)
        self._messages[clique, wanted] = message
        return [message]

    def _hold(self, table: Factor) -> None:
        """Count the cells of one more table; forget the others if there is no room for it."""
        self._cells += table.array.size
        if self._cells > _CAPACITY:
            self.forget()
            self._cells += table.array.size

    def _local(self, clique: int, keep: Collection[int]) -> Factor:
        """The marginal of some columns of one clique."""
        known = self._locals[clique]
        larger = [t for t in known if {*keep} <= {*t.scope}]
        if larger:
            table = summed(min(larger, key=lambda t: t.array.size), keep)
        else:
            columns = self._columns[clique]
            whole = math.prod(self._sizes[v] for v in columns) <= _LAID_OUT
            factors = self._contraction.joint(clique)
            table = contract_all(factors, columns if whole else keep, self._sizes)
            table = Factor(table.scope, np.asarray(table.array / table.array.sum()))
            if whole:
                self._hold(table)
                known.append(table)
                table = summed(table, keep)
        if table.array.size <= _LARGE and all({*t.scope} != {*table.scope} for t in known):
            self._hold(table)
            known.append(table)
        return table


def _divided(joint: Factor, base: Factor) -> Factor:
    """The joint distribution given the columns of ``base``; zero where ``base`` is zero."""
    divisor = np.broadcast_to(aligned(base, joint.scope), joint.array.shape)
    values = np.zeros(joint.array.shape)
    return Factor(joint.scope, np.divide(joint.array, divisor, out=values, where=divisor > 0))


# Source codes that are carried at a time.
_CODES = 1024
# A matrix P(Y | X) has at most so many cells, and a bucket as many; else there is no fast way.
_MOST_CELLS = 1 << 21
# Multiplications for all pairs, at most.
_MOST_WORK = 1e11


class PairShares:
    """The two-way marginals of a propagated model, as shares.

    Args:
        contraction: propagated; it must not change while this is used.
    """

    def __init__(self, contraction: Contraction) -> None:
        tree = contraction.tree
        self._tree, self._sizes = tree, tree.sizes
        self._starts = np.concatenate([[0], np.cumsum(tree.sizes)])
        self._children: list[list[int]] = [[] for _ in tree.sizes]
        for v in reversed(tree.order):
            if tree.separators[v]:
                self._children[tree.separators[v][0]].append(v)
        self._joints: dict[int, Factor] = {}
        for v in tree.order:
            bucket = tree.bucket(v)
            found = contract_all(contraction.joint(v), bucket, tree.sizes)
            array = np.ascontiguousarray(aligned(found, bucket))
            self._joints[v] = Factor(bucket, array / array.sum())
        self._matrices: dict[tuple[int, Scope, Scope], np.ndarray] = {}
        self._order = self._depth_first()

    @staticmethod
    def feasible(contraction: Contraction) -> bool:
        """Whether the model's cliques are small enough for this way."""
        tree, work = contraction.tree, 0.0
        cells = [math.prod(tree.sizes[v] for v in separator) for separator in tree.separators]
        for v, size in enumerate(tree.sizes):
            if cells[v] * size > _MOST_CELLS or cells[v] ** 2 > _MOST_CELLS:
                return False
            # down to the column, and across the parent's bucket
            above = tree.separators[v]
            across = cells[above[0]] * tree.sizes[above[0]] if above else 1
            work += cells[v] * (size + across)
        return work * sum(tree.sizes) <= _MOST_WORK

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """For every column its position and the shares of its codes with those of all columns.

        The array has a row for each code of the column and a column for each code of each column,
        in domain order; its own codes stand on a diagonal. The array is overwritten later.
        """
        chunk: list[int] = []
        size = 0
        for column in self._order:
            if chunk and size + self._sizes[column] > _CODES:
                yield from self._carry(chunk)
                chunk, size = [], 0
            chunk.append(column)
            size += self._sizes[column]
        if chunk:
            yield from self._carry(chunk)

    def _depth_first(self) -> list[int]:
        """All columns; those below a column stand together, right before it."""
        found = []
        stack = [(v, False) for v in self._tree.order if not self._tree.separators[v]]
        while stack:
            v, done = stack.pop()
            if done:
                found.append(v)
            else:
                stack.append((v, True))
                stack += [(c, False) for c in self._children[v]]
        return found

    def _carry(self, chunk: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """The blocks of some neighbours in depth-first order."""
        tree, sizes = self._tree, self._sizes
        rows = np.concatenate([[0], np.cumsum([sizes[v] for v in chunk])])
        own = {v: slice(int(rows[i]), int(rows[i + 1])) for i, v in enumerate(chunk)}
        total = int(rows[-1])
        out = np.empty((total, int(self._starts[-1])))
        # Up: sources below a bucket, or its own column. Those of a subtree are consecutive rows.
        below: dict[int, slice] = {}
        risen: dict[int, np.ndarray] = {}
        groups = {}
        for v in tree.order:
            parts = [
                (below[c], tuple(tree.separators[c]), risen[c])
                for c in self._children[v]
                if c in below
            ]
            if v in own:
                alone = np.diag(summed(self._joints[v], (v,)).array)
                parts.append((own[v], (v,), alone))
            if not parts:
                continue
            groups[v] = parts
            reach = slice(min(p[0].start for p in parts), max(p[0].stop for p in parts))
            below[v] = reach
            above = tuple(tree.separators[v])
            upwards = np.empty((reach.stop - reach.start, self._cells(above)))
            for place, scope, array in parts:
                upwards[place.start - reach.start : place.stop - reach.start] = self._moved(
                    v, scope, above, array
                )
                out[place, self._codes(v)] = self._moved(v, scope, (v,), array)
            risen[v] = upwards
        # Down: all other sources, from the parent.
        known: dict[int, dict[Scope, np.ndarray]] = {}
        for v in reversed(tree.order):
            above = tuple(tree.separators[v])
            if above:
                whole = known[above[0]][above]
            else:
                whole = np.empty((total, 1))
                for source, place in own.items():
                    whole[place, 0] = summed(self._joints[source], (source,)).array
            inside = below.get(v, slice(0, 0))
            ends = (slice(0, inside.start), slice(inside.stop, total))
            outside = [s for s in ends if s.stop > s.start]
            wanted = {tuple(tree.separators[c]) for c in self._children[v]}
            reached = {}
            for place in outside:
                out[place, self._codes(v)] = self._moved(v, above, (v,), whole[place])
            for target in wanted:
                found = np.empty((total, self._cells(target)))
                if target == (v,):
                    found[...] = out[:, self._codes(v)]
                else:
                    for place in outside:
                        found[place] = self._moved(v, above, target, whole[place])
                    for place, scope, array in groups.get(v, ()):
                        found[place] = self._moved(v, scope, target, array)
                reached[target] = found
            known[v] = reached
        for v, place in own.items():
            yield v, out[place]

    def _codes(self, column: int) -> slice:
        """Where the codes of a column stand in a row."""
        return slice(int(self._starts[column]), int(self._starts[column + 1]))

    def _cells(self, scope: Scope) -> int:
        return math.prod(self._sizes[v] for v in scope)

    def _moved(self, bucket: int, known: Scope, wanted: Scope, array: np.ndarray) -> np.ndarray:
        """Joint shares with ``known`` turned into joint shares with ``wanted``."""
        return array if known == wanted else array @ self._matrix(bucket, known, wanted)

    def _matrix(self, bucket: int, known: Scope, wanted: Scope) -> np.ndarray:
        """P(wanted | known) in one bucket; columns of both keep their code."""
        key = (bucket, known, wanted)
        if key not in self._matrices:
            joint = self._joints[bucket]
            union = (*known, *(v for v in wanted if v not in known))
            both = aligned(summed(joint, union), union)
            base = aligned(summed(joint, known), known)
            base = base.reshape(base.shape + (1,) * (both.ndim - base.ndim))
            given = np.divide(both, base, out=np.zeros(both.shape), where=base > 0)
            shared = [v for v in wanted if v in known]
            if not shared:
                matrix = given.reshape(self._cells(known), self._cells(wanted))
            else:
                matrix = np.zeros((self._cells(known), self._cells(wanted)))
                codes = np.indices(both.shape, sparse=False).reshape(both.ndim, -1)
                at = dict(zip(union, codes, strict=True))
                row, column = (
                    np.ravel_multi_index([at[v] for v in scope], [self._sizes[v] for v in scope])
                    for scope in (known, wanted)
                )
                matrix[row, column] = given.ravel()
            self._matrices[key] = matrix
        return self._matrices[key]
