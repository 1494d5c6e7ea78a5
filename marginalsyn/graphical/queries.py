"""Marginals of a calibrated model for any columns, in one clique or not.

A query is answered at the lowest clique whose subtree holds all its columns; each subtree below
sends the distribution of its part given the separator. These messages and the projections of
cliques are shared by all queries of one call. Where a message would be large, its factors are sent
instead, and summed out in the order that costs least.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from marginalsyn.graphical.contraction import Contraction
from marginalsyn.graphical.factors import Factor, aligned, contract_all, summed

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
