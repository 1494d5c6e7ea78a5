"""Chains of rows: models of more marginals than a junction tree can hold.

A model's log probability is a sum of tables over few columns each. No tree is needed to draw from
it: given all other columns of a row, the chances of one column follow from the tables that hold it.
A *sweep* draws every column of every row again (Gibbs), so that rows which follow the model go on
following it, and others come nearer to it.

The fit is that of :mod:`marginalsyn.graphical.shrunken_fit`, whose optimum has marginals
``mu_q = y_q - k_q sigma_q^2 theta_q``. It starts from a model of the marginals that a tree can hold
and from its rows. After every sweep the rows' marginals stand for mu, and every potential moves a
damped step towards the optimum; rows follow the potentials while these move slowly (stochastic
maximum likelihood, Younes 1988; Tieleman 2008). What rows add by chance is averaged out over the
last sweeps. All of it follows from noisy answers, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from marginalsyn.graphical.factors import Scope
from marginalsyn.graphical.sampling import FIRM
from marginalsyn.graphical.shrunken_fit import (
    COLUMN_STRENGTH,
    column_counts,
    find_strengths,
    independent,
    take_off_means,
)
from marginalsyn.graphical.targets import FitTarget
from marginalsyn.progress import Progress

# The log of what cannot be. Sums of many stay finite, and their exponentials are exactly zero.
IMPOSSIBLE = -1e9
# So many sweeps are compared with those before; the last ones are averaged.
_BLOCK, _LAST = 10, 20
# A block that gains less than this share of the rows' own sampling error is the last.
_GAIN = 0.02
# Sweeps of rows that are drawn together.
_SETTLING = 3
# Rows whose chances are worked out together; where they settle, at most one in so many.
_TOGETHER, _PARTS = 256, 200
# Factors of all strengths that are weighed, and the steps that find the count that each gives.
_FACTORS, _NEWTON = np.geomspace(0.25, 16.0, 13), 30
# Steps of potentials, of single columns' and while averaging; the most that a log moves in one.
_COLUMN_STEP, _LAST_STEP, _FARTHEST = 0.5, 0.5, 1.0
_NONE = np.empty(0)


class RowChain:
    """Log potentials over sets of columns, and sweeps of rows under them.

    Args:
        sizes: of all columns.
        scopes: of the tables, each in increasing order. Two tables may have one scope.

    Attributes:
        flat: all potentials; ``tables`` are views of it, in the order of ``scopes``.
    """

    def __init__(self, sizes: Sequence[int], scopes: Sequence[Scope]) -> None:
        self.sizes, self.scopes = tuple(sizes), tuple(scopes)
        self._shapes = [tuple(self.sizes[v] for v in scope) for scope in self.scopes]
        lengths = [math.prod(shape) for shape in self._shapes]
        self._starts = np.cumsum([0, *lengths])
        self.flat = np.zeros(int(self._starts[-1]))
        self.tables = self.views(self.flat)
        self._plan()

    def views(self, flat: np.ndarray) -> list[np.ndarray]:
        """The tables of an array that is laid out as ``flat``."""
        parts = zip(self._starts, self._starts[1:], self._shapes, strict=False)
        return [flat[low:high].reshape(shape) for low, high, shape in parts]

    def sweep(
        self,
        rows: np.ndarray,
        rng: np.random.Generator,
        known: Mapping[int, np.ndarray] | None = None,
    ) -> None:
        """Draw every column of every row again, in place, given the others.

        Args:
            rows: codes, int32 of shape (rows, columns).
            rng: the only source of randomness.
            known: by column the logs of how likely what is known is under each of its codes.
        """
        logs = self.flat.copy() if known else self.flat
        for column, likely in (known or {}).items():
            start = self._starts[self._tables_of[column][0]]
            logs[start : start + self.sizes[column]] += np.maximum(likely, IMPOSSIBLE)
        for column in rng.permutation(len(self.sizes)):
            draws = rng.random(len(rows))
            _draw_column(rows, draws, column, _NONE, _NONE, *self._chances(logs, column))

    def settle(self, rows: np.ndarray, expected: np.ndarray, rng: np.random.Generator) -> None:
        """One sweep of rows that are drawn together, in place: their counts go to what is expected.

        Rows that are drawn one by one have the variation of a sample. Here the law of the whole set
        is that of the chain times ``exp(-h (n - m)^2 / 2)`` for each cell's count n and its
        expectation m, with h = FIRM / m. In a cell of less than a row h is FIRM m, since it would
        keep rows away there. Rows of a small block are drawn at once, all others are counted.
        ``expected`` are the shares of rows in all cells, laid out as ``flat``.
        """
        counts, aims = self.counts(rows).astype(float), expected * len(rows)
        firmness = FIRM * np.minimum(aims, 1.0 / np.maximum(aims, 1.0))
        rng.shuffle(rows)  # neighbours are drawn at once
        for column in rng.permutation(len(self.sizes)):
            logs = self.flat + firmness * (aims - counts - 0.5)
            draws = rng.random(len(rows))
            firm, new = self._along(firmness, column), self._along(counts, column)
            _draw_column(rows, draws, column, firm, new, *self._chances(logs, column))
            self._along(counts, column, new)

    def _chances(self, logs: np.ndarray, column: int) -> tuple[np.ndarray, ...]:
        """The way through a column's tables, their logs, and each code's chances by one alone."""
        found = self._along(logs, column).reshape(-1, self.sizes[column])
        most = found.max(axis=1, keepdims=True)
        found -= np.where(most < IMPOSSIBLE / 2, 0.0, most)
        return *self._ways[column], found.ravel(), np.exp(found)

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """The rows' counts over all tables, laid out as ``flat``."""
        return np.concatenate([count(rows, scope, self.sizes).ravel() for scope in self.scopes])

    def _along(self, flat: np.ndarray, column: int, new: np.ndarray = _NONE) -> np.ndarray:
        """A column's tables of an array, its own codes last; ``new`` takes their place there."""
        views, homes = self.views(flat), self._tables_of[column]
        tables = [np.moveaxis(views[i], self.scopes[i].index(column), -1) for i in homes]
        for table, start in zip(tables, self._ways[column][0], strict=True) if new.size else ():
            table[...] = new[start : start + table.size].reshape(table.shape)
        return np.concatenate([table.ravel() for table in tables])

    def _plan(self) -> None:
        """List every table once for each of its columns.

        Of a column's tables that of this column alone comes first: what is known of a column is
        added there, and to no other table.
        """
        self._tables_of, self._ways = list[list[int]](), list[tuple[np.ndarray, ...]]()
        for column, size in enumerate(self.sizes):
            homes = [i for i, scope in enumerate(self.scopes) if column in scope]
            homes.sort(key=lambda i: len(self.scopes[i]))
            if not homes or len(self.scopes[homes[0]]) > 1:
                raise ValueError(f"column {column} ({size} codes) must have a table of its own")
            self._tables_of.append(homes)
            starts, ends, others, steps = [0], [0], list[int](), list[int]()
            for i in homes:
                rest = [v for v in self.scopes[i] if v != column]
                others += rest
                lengths = [size, *(self.sizes[v] for v in reversed(rest))]
                steps += reversed(np.cumprod(lengths)[:-1])
                starts.append(starts[-1] + math.prod(lengths))
                ends.append(len(others))
            # Numba types an empty list otherwise.
            way = (np.array(each or [0], np.int64) for each in (starts[:-1], ends, others, steps))
            self._ways.append(tuple(way))


def count(rows: np.ndarray, scope: Scope, sizes: Sequence[int]) -> np.ndarray:
    """The counts of rows over some columns, one axis each in that order.

    Example:
        >>> count(np.array([[0, 1], [1, 1]]), (1,), (2, 2))
        array([0, 2])
    """
    shape = np.array([sizes[v] for v in scope], dtype=np.int64)
    counts = np.zeros(shape.prod(), dtype=np.int64)
    _count(rows, np.array(scope, dtype=np.int64), shape, counts)
    return counts.reshape(shape)


class ChainFit(NamedTuple):
    """A fitted chain, and how far it had converged.

    Attributes:
        chain: with potentials averaged over the last sweeps.
        rows: the rows that it was fitted with, settled near its expected counts.
        expected: these counts as shares of the rows, laid out as the chain's potentials.
        strengths: of the shrinkage, for every marginal of two and more columns.
        convergence: how many sweeps it took; the mean distance (total variation) between its
            marginals and what they are fitted to, of the model that it starts from and of the
            chain; and the distance that as many rows drawn from one model have by chance.
    """

    chain: RowChain
    rows: np.ndarray
    expected: np.ndarray
    strengths: dict[Scope, float]
    convergence: dict[str, float]


def rescale(
    strengths: Mapping[Scope, float],
    targets: Mapping[Scope, FitTarget],
    columns: Sequence[FitTarget],
    total: float,
) -> dict[Scope, float]:
    """The strengths times the factor that leaves the least squared error, over the noise's.

    The likelihood of strengths follows the largest interactions, and most are far smaller. A cell
    with noise s, by itself, gets the count mu with ``mu + k s^2 log(mu / m) = y``; of its squared
    error ``(mu - y)^2 - s^2 + 2 s^2 dmu/dy`` is an unbiased estimate (Stein 1981). The sum over all
    cells decides. Trees keep their strengths: their marginals stand in for those that they lack.
    """
    risks = np.zeros(_FACTORS.size)
    for scope, strength in strengths.items():
        m, (values, weight) = independent(scope, columns, total), targets[scope]
        free = math.prod(1.0 - 1.0 / size for size in m.shape)
        if free == 0:
            continue  # a column of one code: no interaction
        y, noise = m + take_off_means(values - m), free / weight
        pull = np.multiply.outer(strength * _FACTORS, noise)
        # Newton's steps in log(mu / m) come from above, where they cannot miss.
        log = np.where(y > m, np.log(np.maximum(y, m) / m), (y - m) / (pull + m))
        for _ in range(_NEWTON):
            mu = m * np.exp(log)
            log -= (mu + pull * log - y) / (mu + pull)
        risk = np.square(mu - y) / noise + 2.0 * mu / (mu + pull)
        risks += risk.reshape(len(risks), -1).sum(axis=1)
    factor = float(_FACTORS[np.argmin(risks)])
    return {scope: factor * strength for scope, strength in strengths.items()}


class _Optimum:
    """Where the potentials are to go: every table's answers, with what shrinks them."""

    def __init__(
        self, chain: RowChain, targets: Mapping[Scope, FitTarget], total: float, scale: float
    ) -> None:
        self.chain, self.scale, self.total = chain, scale, total
        columns = column_counts(chain.sizes, targets, total)
        known = targets, columns, total
        self.strengths = rescale(find_strengths(*known), *known)
        answers = [*columns, *(targets[scope] for scope in self.strengths)]
        strengths = [*(COLUMN_STRENGTH for _ in columns), *self.strengths.values()]
        degrees = np.bincount([v for scope in self.strengths for v in scope])
        pairs = zip(answers, strengths, strict=True)
        self.cells = sum(t.values.size for t in answers)
        self._answers = np.concatenate([t.values.ravel() for t in answers])
        self._pull = np.concatenate([k / t.weight.ravel() for t, k in pairs])
        # Tables that share columns move the same marginals: each takes its part of the way.
        steps = [*(_COLUMN_STEP for _ in columns)]
        steps += [1.0 / max(1.0, float(np.mean(degrees[[*scope]]))) for scope in self.strengths]
        sizes = [t.values.size for t in answers]
        self._steps = np.repeat(steps, sizes)
        self._single = sum(chain.sizes)
        self._base = np.zeros(self.cells)
        self._base[: self._single] = np.log(self._answers[: self._single] / total)
        self._least = np.maximum(0.5 * self._answers, 0.5) + self._pull + 1.0

    def missed(self, marginals: np.ndarray) -> np.ndarray:
        """What the chain's marginals still lack of the optimum's under its present potentials."""
        gap = np.zeros(self.chain.flat.size)
        np.subtract(self._answers, marginals[: self.cells], out=gap[: self.cells])
        for table in self.chain.views(gap)[len(self.chain.sizes) :]:
            table[...] = take_off_means(table)
        found = gap[: self.cells]
        found -= self._pull * (self.chain.flat[: self.cells] - self._base)
        return found

    def step(self, marginals: np.ndarray, rate: float) -> None:
        """Move every potential by a damped step."""
        curvature = np.maximum(marginals[: self.cells] + self._pull + 1.0, self._least)
        steps = rate * self._steps * self.missed(marginals) / curvature
        self.chain.flat[: self.cells] += np.clip(steps, -_FARTHEST, _FARTHEST)

    def distance(self, marginals: np.ndarray) -> float:
        """The mean total variation between marginals of interactions and where they should be."""
        return self._mean(np.abs(self.missed(marginals)[self._single :]))

    def chance(self, marginals: np.ndarray) -> float:
        """The same between a model and as many rows drawn from it."""
        counts = marginals[self._single : self.cells] / self.scale
        return self._mean(self.scale * np.sqrt(2.0 / math.pi * counts))

    def _mean(self, gaps: np.ndarray) -> float:
        return float(gaps.sum()) / (2.0 * self.total * max(len(self.strengths), 1))


def fit_chain(
    sizes: Sequence[int],
    targets: Mapping[Scope, FitTarget],
    fixed: Mapping[Scope, np.ndarray],
    total: float,
    *,
    start: Mapping[Scope, np.ndarray],
    rows: np.ndarray,
    sweeps: int,
    rng: np.random.Generator,
    progress: Progress,
) -> ChainFit:
    """Fit a chain to all targets.

    Args:
        sizes: of all columns.
        targets: noisy marginals.
        fixed: masks of impossible cells.
        total: the number of rows that marginals sum to.
        start: log potentials of a model of some of the targets.
        rows: drawn from that model, none of them impossible; they are changed.
        sweeps: at most so many.
        rng: draws the sweeps.
        progress: reports how far it is.
    """
    scopes = [*((v,) for v in range(len(sizes))), *(s for s in targets if len(s) > 1)]
    chain = RowChain(sizes, [*scopes, *fixed])
    for scope, table in zip(scopes, chain.tables, strict=False):
        if scope in start and np.isfinite(start[scope]).all():
            table[...] = start[scope]
    for mask, table in zip(fixed.values(), chain.tables[len(scopes) :], strict=True):
        table[mask] = IMPOSSIBLE
    done, scale = 0, total / len(rows)
    optimum = _Optimum(chain, targets, total, scale)

    def walk(count: int, rate: float) -> tuple[np.ndarray, np.ndarray]:
        """Some sweeps with steps; the means of marginals and potentials over them."""
        nonlocal done
        marginals, potentials = np.zeros((2, chain.flat.size))
        for _ in range(count):
            chain.sweep(rows, rng)
            now = chain.counts(rows) * scale
            optimum.step(now, rate)
            marginals += now / count
            potentials += chain.flat / count
        done += count
        return marginals, potentials

    first = optimum.distance(chain.counts(rows) * scale)
    gap = math.inf
    while done + _BLOCK + _LAST <= max(sweeps, _BLOCK + _LAST):
        marginals, _ = walk(_BLOCK, 1.0)
        before, gap = gap, optimum.distance(marginals)
        progress.report("estimate", text=f"{done} sweeps, distance {gap:.4f} (was {first:.4f})")
        if before - gap < _GAIN * optimum.chance(marginals):
            break
    marginals, potentials = walk(_LAST, _LAST_STEP)
    chain.flat[...] = potentials
    last, chance = optimum.distance(marginals), optimum.chance(marginals)
    figures = {"sweeps": done, "start": first, "distance": last, "chance": chance}
    convergence = {name: round(figure, 6) for name, figure in figures.items()}
    aims = marginals.copy()
    aims[: optimum.cells] += optimum.missed(marginals)
    expected = np.maximum(aims, 0.0) / total
    rows = rows[: max(round(total), 1)]  # as many as are released, where they are fewer
    for _ in range(_SETTLING):
        chain.settle(rows, expected, rng)
    return ChainFit(chain, rows, expected, optimum.strengths, convergence)


@njit(cache=True)
def _count(rows, scope, shape, counts):  # type: ignore[no-untyped-def]
    """Add rows to the flat counts of the cells that they lie in."""
    for i in range(rows.shape[0]):
        cell = 0
        for v in range(len(scope)):
            cell = cell * shape[v] + rows[i, scope[v]]
        counts[cell] += 1


@njit(cache=True)
def _draw_code(logs, draw, old):  # type: ignore[no-untyped-def]
    """One code by the logs of all codes' chances; the old one where none is possible."""
    most = logs.max()
    if most < -5e8:
        return old
    reach = np.cumsum(np.exp(logs - most))
    return np.searchsorted(reach[:-1], draw * reach[-1], side="right")


@njit(cache=True)
def _place(row, start, others, steps):  # type: ignore[no-untyped-def]
    """Where in a table a row's chances begin."""
    for o in range(len(others)):
        start += row[others[o]] * steps[o]
    return start


@njit(cache=True)
def _draw_column(  # type: ignore[no-untyped-def]
    rows, draws, column, firmness, counts, starts, ends, others, steps, logs, chances_of
):
    """Draw one column of all rows from its chances given the others, a block of rows at a time.

    Where cells are firm the rows of a block are drawn given the counts of all that are not in it.
    """
    size, factors, own = chances_of.shape[1], chances_of.ravel(), np.exp(firmness)
    together = min(_TOGETHER, len(rows) // _PARTS + 1) if len(own) else _TOGETHER
    reach, places = np.empty((together, size)), np.empty(together, np.int64)
    for first in range(0, len(rows), together):
        block = rows[first : first + together]
        old = block[:, column].copy()
        reach[:] = 1.0
        for t in range(len(starts)):
            places[:] = starts[t]
            for o in range(ends[t], ends[t + 1]):
                for i in range(len(block)):
                    places[i] += block[i, others[o]] * steps[o]
            for i in range(len(block)):
                chances, table = reach[i], factors[places[i] : places[i] + size]
                for c in range(size):  # slices, so that the loop is vectorised
                    chances[c] *= table[c]
            if len(own):
                for i in range(len(block)):
                    reach[i, old[i]] *= own[places[i] + old[i]]
        for i in range(len(block)):
            chances, draw = reach[i], draws[first + i]
            for c in range(1, size):
                chances[c] += chances[c - 1]
            found, aim = 0, draw * chances[-1]
            for c in range(size - 1):
                found += chances[c] <= aim
            if not chances[-1] > 1e-200:
                # Products are too small where tables disagree: sums of logs are not.
                chances[:] = 0.0
                for t in range(len(starts)):
                    way = slice(ends[t], ends[t + 1])
                    place = _place(block[i], starts[t], others[way], steps[way])
                    chances += logs[place : place + size]
                found = _draw_code(chances, draw, old[i])
            block[i, column] = found
        for i in range(len(block) if len(own) else 0):
            for t in range(len(starts) if block[i, column] != old[i] else 0):
                way = slice(ends[t], ends[t + 1])
                place = _place(block[i], starts[t], others[way], steps[way])
                for cell, more in ((place + old[i], -1.0), (place + block[i, column], 1.0)):
                    counts[cell] += more
                    logs[cell] -= more * firmness[cell]
                    factors[cell] = np.exp(logs[cell])
