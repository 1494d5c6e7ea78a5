"""Rows drawn from a model given codes of some columns, which differ from row to row.

What is known of a row enters as evidence: the tables that hold a column to be drawn are sliced at
the row's own codes, and the columns to be drawn are eliminated by their own tree. Rows that agree
in the evidence that matters share the work, and their draws are spread evenly over the
distribution, so that counts vary less than those of single draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap

import numpy as np

from marginalsyn.graphical.factors import Factor, aligned
from marginalsyn.graphical.junction_tree import triangulate
from marginalsyn.graphical.model import Fitted
from marginalsyn.graphical.targets import Layout

# Cells worked on at a time.
_CHUNK = 1 << 21
# The least logarithm: what a model rules out is drawn only where it rules out all else.
_FLOOR = -1e4


@dataclass(frozen=True)
class _Part:
    """Columns to be drawn that hang together, in the order of their elimination."""

    order: tuple[int, ...]
    separators: Mapping[int, tuple[int, ...]]
    known: tuple[int, ...]
    tables: tuple[Factor, ...]
    cells: int = field(default=1)


class ConditionalDraws:
    """Draws of some columns of a model given all others that matter.

    Args:
        fitted: the model.
        own: the columns to draw.
        extra: further tables of log factors, by columns, such as what must be equal to what.
        more: sizes of columns of such tables that the model does not have; they are known.

    Example:
        >>> from marginalsyn.contract import Measurement
        >>> from marginalsyn.graphical.model import fit
        >>> pair = Measurement(("a", "b"), np.array([[4.0, 0.1], [0.1, 4.0]]), 0.1)
        >>> draws = ConditionalDraws(fit({"a": 2, "b": 2}, [pair]), ["b"])
        >>> known = {"a": np.array([0, 1] * 50)}
        >>> drawn = draws.draw(known, 100, np.random.default_rng(0))["b"]
        >>> bool((drawn == known["a"]).mean() > 0.9)
        True
    """

    def __init__(
        self,
        fitted: Fitted,
        own: Sequence[str],
        extra: Iterable[tuple[Sequence[str], np.ndarray]] = (),
        more: Mapping[str, int] | None = None,
    ) -> None:
        self._layout = Layout({**fitted.domain, **(more or {})})
        self._sizes = self._layout.sizes
        network = fitted.contraction
        tables = list(starmap(Factor, zip(network.scopes, network.logs, strict=True)))
        for columns, logs in extra:
            scope = self._layout.positions(columns)
            tables.append(Factor(scope, np.asarray(logs, dtype=float)))
        drawn = set(self._layout.positions(tuple(own)))
        tables = [
            Factor(t.scope, np.maximum(t.array, _FLOOR)) for t in tables if drawn & {*t.scope}
        ]
        self._parts = [self._part(group, tables) for group in _components(drawn, tables)]

    def draw(
        self, known: Mapping[str, np.ndarray], rows: int, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Codes of the own columns, int32; ``known`` holds those of all others that matter."""
        found = {}
        for part in self._parts:
            lacking = [self._layout.names[v] for v in part.known]
            codes = [np.asarray(known[name]) for name in lacking]
            key = np.zeros(rows, dtype=np.int64)
            for v, values in zip(part.known, codes, strict=True):
                if key.size and int(key.max(initial=0)) >= (1 << 62) // self._sizes[v]:
                    key = np.unique(key, return_inverse=True)[1].astype(np.int64)
                key = key * self._sizes[v] + values
            _, first, pattern = np.unique(key, return_index=True, return_inverse=True)
            out = {v: np.zeros(rows, dtype=np.int32) for v in part.order}
            order = np.argsort(pattern, kind="stable")
            ends = np.searchsorted(pattern[order], np.arange(len(first) + 1))
            step = max(1, _CHUNK // part.cells)
            for low in range(0, len(first), step):
                some = first[low : low + step]
                ids = order[ends[low] : ends[low + len(some)]]
                given = {v: c[some] for v, c in zip(part.known, codes, strict=True)}
                self._draw(part, given, pattern[ids] - low, ids, out, rng)
            found.update({self._layout.names[v]: values for v, values in out.items()})
        return found

    def _part(self, group: frozenset[int], tables: Sequence[Factor]) -> _Part:
        """Plan one component: its elimination order and the evidence that it needs."""
        own = [t for t in tables if group & {*t.scope}]
        place = {v: i for i, v in enumerate(sorted(group))}
        cliques = [tuple(place[v] for v in t.scope if v in group) for t in own]
        tree = triangulate([self._sizes[v] for v in sorted(group)], cliques)
        back = {i: v for v, i in place.items()}
        separators = {back[i]: tuple(back[j] for j in tree.separators[i]) for i in tree.order}
        cells = max(math.prod(self._sizes[u] for u in (v, *separators[v])) for v in separators)
        known = sorted({v for t in own for v in t.scope} - group)
        return _Part(
            tuple(back[i] for i in tree.order), separators, tuple(known), tuple(own), cells
        )

    def _draw(
        self,
        part: _Part,
        given: Mapping[int, np.ndarray],
        pattern: np.ndarray,
        ids: np.ndarray,
        out: Mapping[int, np.ndarray],
        rng: np.random.Generator,
    ) -> None:
        """Fill the columns of one part for the rows ``ids``, whose evidence is ``pattern``."""
        row = -1  # the axis of the evidence
        waiting = [_sliced(t, given, row) for t in part.tables]
        buckets = []
        for v in part.order:
            scope = (row, v, *part.separators[v])
            mine = [t for t in waiting if v in t.scope]
            waiting = [t for t in waiting if v not in t.scope]
            total = np.zeros((1,) * len(scope))
            for table in mine:
                total = total + aligned(table, scope)
            full = (total.shape[0], *(self._sizes[u] for u in scope[1:]))
            total = np.broadcast_to(total, full)
            peak = total.max(axis=1, keepdims=True)
            weights = np.exp(total - peak)
            buckets.append((v, part.separators[v], weights))
            if part.separators[v]:
                message = np.log(weights.sum(axis=1)) + peak[:, 0]
                waiting.append(Factor((row, *part.separators[v]), message))
        for v, separator, weights in reversed(buckets):
            place = pattern if weights.shape[0] > 1 else np.zeros_like(pattern)
            group = place.astype(np.int64)
            for u in separator:
                group = group * self._sizes[u] + out[u][ids]
            by_group = np.moveaxis(weights, 1, -1).reshape(-1, self._sizes[v])
            out[v][ids] = draw_evenly(by_group, group, rng)


def draw_evenly(weights: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A code for every row by the weights of its group; a group's draws are spread evenly."""
    present, place, counts = np.unique(group, return_inverse=True, return_counts=True)
    order = np.argsort(place + rng.random(len(group)))
    start = np.cumsum(counts) - counts
    number = np.empty(len(group))
    number[order] = np.arange(len(group)) - np.repeat(start, counts)
    # One uniform number in each of as many strips as the group has rows, shuffled.
    draw = (number + rng.random(len(group))) / counts[place]
    reach = np.cumsum(weights[present], axis=1)
    size = reach.shape[1]
    last = np.where(reach[:, -1:] > 0, reach[:, -1:], 1.0)
    line = (np.minimum(reach / last, 1.0) + np.arange(len(present))[:, None]).ravel()
    found = np.searchsorted(line, place + draw, side="right") - place * size
    return np.clip(found, 0, size - 1).astype(np.int32)


def _sliced(table: Factor, given: Mapping[int, np.ndarray], row: int) -> Factor:
    """A table at each row's evidence; with one row where it holds none of it."""
    known = [v for v in table.scope if v in given]
    free = tuple(v for v in table.scope if v not in given)
    array = np.moveaxis(table.array, [table.scope.index(v) for v in known], range(len(known)))
    if not known:
        return Factor((row, *free), array[None])
    return Factor((row, *free), array[tuple(given[v] for v in known)])


def _components(drawn: set[int], tables: Sequence[Factor]) -> list[frozenset[int]]:
    """The columns to draw, grouped by the tables that tie them together."""
    groups = [{v} for v in sorted(drawn)]
    for table in tables:
        tied = [g for g in groups if g & {*table.scope}]
        if len(tied) > 1:
            groups = [g for g in groups if not g & {*table.scope}]
            groups.append(set().union(*tied))
    return [frozenset(g) for g in groups]
