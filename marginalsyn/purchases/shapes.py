"""Shapes of numeric columns: where their values lie, from a few noisy counts.

The public bounds are cut into a few dozen cells, which are counted with noise. Cells that clearly
hold rows are cut again, down to single values. At every level the cells are disjoint and those that
are counted follow from answers alone, so a level costs what one marginal costs. From the answers,
at no further cost: values that many rows share, the mass between them, and bins of like mass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.errors import SchemaError
from marginalsyn.privacy.charges import Charge
from marginalsyn.privacy.zcdp import gaussian_rho, gaussian_sigma
from marginalsyn.purchases.purchase import Purchase, grid_of, whole_counts, with_fields
from marginalsyn.table.numeric import PRIVATE, IntegerColumn, NumberColumn, Shape
from marginalsyn.table.schema import Schema

# Cells of a grid on which a value has no cell of its own.
CELLS = 8192
# About so many parts of a cell are counted at a time.
PARTS = 64
# Whole numbers have a cell each up to so many of them.
MOST_UNIT_CELLS = 2**19
# A cell is cut where its count exceeds so many standard deviations, and a value is one that many
# rows share: among the cells that are counted, that happens by chance less than once in 30,000.
CLEAR = 4.0
# Parts of a cut cell that stand out by so many keep their counts; the rest shares what is left.
SEEN = 3.0
# Of a column's price: the last level, which finds single values.
LAST_SHARE = 0.6
# The most bins of a column, and of single values among them.
BINS = 32
SPIKES = 12
# Equal steps cannot be expected to fit a range of more values than this.
MANY_VALUES = 1000


# Noisy counts of cells, with noise of the given deviation.
Ask = Callable[[np.ndarray, float], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Shapes(Purchase):
    """The shapes of a schema's open numeric columns, and bins where they have none.

    Example:
        >>> from marginalsyn.privacy.budget import Budget
        >>> gain = IntegerColumn(name="gain", lower=0, upper=99_999, shape="private")
        >>> plan = Shapes.within(Schema(columns=(gain,)), Budget(eps=1))
        >>> plan.levels, [round(sigma, 1) for sigma in plan.sigmas["gain"]]
        ({'gain': (47, 47, 46)}, [55.0, 55.0, 31.7])
    """

    what = "shapes"
    share = 0.05
    most_share = 0.15

    @classmethod
    def open_in(cls, schema: Schema) -> Sequence[str]:
        return schema.shapeless

    @cached_property
    def counted(self) -> Schema:
        """The columns on their grids."""
        columns: dict[str, Any] = {name: self.schema.column(name) for name in self.names}
        return grid_of(self.schema, {name: _cells(column) for name, column in columns.items()})

    @cached_property
    def levels(self) -> Mapping[str, tuple[int, ...]]:
        """By column, how many parts every cell is cut into, level by level."""
        return {name: cuts(self.counted.column(name).levels) for name in self.names}

    @cached_property
    def sigmas(self) -> Mapping[str, tuple[float, ...]]:
        """By column, the noise on the counts of every level; all columns cost the same."""
        amount, found = self.budget.gaussian / len(self.names), {}
        for name, parts in self.levels.items():
            early = (1 - LAST_SHARE) / (len(parts) - 1) if len(parts) > 1 else 0.0
            shares = [early] * (len(parts) - 1) + [1 - early * (len(parts) - 1)]
            found[name] = tuple(gaussian_sigma(amount * s, self.neighbours.l2) for s in shares)
        return found

    @property
    def facts(self) -> Mapping[str, Any]:
        least = max(sigmas[-1] for sigmas in self.sigmas.values()) * CLEAR
        return {"single values": f"those that about {least:.0f} {self.individuals} share"}

    def prices(self) -> Iterator[tuple[Charge, int]]:
        unit = self.schema.unit
        for name, levels in self.levels.items():
            sigmas = self.sigmas[name]
            amount = math.fsum(gaussian_rho(s, self.neighbours.l2) for s in sigmas)
            details = {"column": name, "levels": list(levels), "sigma": list(sigmas)}
            if unit is not None:
                details["unit"] = unit.noun
            cost = self.budget.cost_of(amount)
            charge = self.budget.charge("numeric shape", f"shape of {name}", cost, details)
            yield charge, len(levels)

    def complete(self, schema: Schema, visit: Visit) -> Schema:
        visit.prepare([(name,) for name in self.names])
        found = {}
        for name, levels in self.levels.items():
            edges, sigmas = visit.schema.column(name).edges, self.sigmas[name]  # type: ignore[union-attr]
            # A missing value is in no cell.
            exact = whole_counts(visit, name)[: len(edges) - 1]
            pieces = search(exact, levels, sigmas, paid_counts(visit, name))
            found[name] = described(schema.column(name), edges, pieces, sigmas[-1])
        return with_fields(schema, found)


def paid_counts(visit: Visit, name: str) -> Ask:
    """Adds noise to counts of disjoint cells of a column, and pays for them."""
    whole, purpose = visit.whole, f"shape of {name}"

    def ask(cells: np.ndarray, sigma: float) -> np.ndarray:
        l2 = visit.neighbours.l2 * whole
        return visit.draw(visit.gaussian(sigma * whole), cells, l2=l2, purpose=purpose) / whole

    return ask


@dataclass(frozen=True)
class Pieces:
    """A cut of the grid: the first cell of each piece and the end, and estimates of their rows."""

    ends: np.ndarray
    weights: np.ndarray


def with_shapes(schema: Schema, columns: Sequence[str] | None = None) -> Schema:
    """The schema with the shapes of some columns to be bought by a run.

    Args:
        schema: the public schema.
        columns: the columns. By default those that have no bins of their own ("auto") and over a
            thousand values between their bounds, or a continuum: equal steps would not fit them.

    Raises:
        SchemaError: a column is unknown, or not of whole or continuous numbers.

    Example:
        >>> age = IntegerColumn(name="age", lower=0, upper=120)
        >>> pay = IntegerColumn(name="pay", lower=0, upper=200_000)
        >>> with_shapes(Schema(columns=(age, pay))).shapeless
        ['pay']
    """
    if columns is None:
        public = {name for margin in schema.public_margins for name in margin.columns}
        columns = [c.name for c in schema.columns if _wide(c) and c.name not in public]
    for name in columns:
        if schema.column(name).kind not in ("integer", "continuous"):
            raise SchemaError(f"column ({name!r}) must be integer or continuous to have a shape")
    return (
        with_fields(schema, {name: {"shape": PRIVATE} for name in columns}) if columns else schema
    )


def cuts(cells: int) -> tuple[int, ...]:
    """How many parts every cell is cut into, so that all levels together reach the cells.

    Example:
        >>> cuts(4357), cuts(50)
        ((67, 66), (50,))
    """
    levels = max(1, round(math.log(cells) / math.log(PARTS)))
    found = []
    for left in range(levels, 0, -1):
        parts = math.ceil(cells ** (1 / left) - 1e-9)
        found.append(parts)
        cells = math.ceil(cells / parts)
    return tuple(found)


def search(exact: np.ndarray, levels: Sequence[int], sigmas: Sequence[float], ask: Ask) -> Pieces:
    """Count cells with noise, and cut those that clearly hold rows, level by level.

    The private counts of the grid's cells, ``exact``, are seen by ``ask`` alone, which adds noise
    and pays for it. ``levels`` has how many parts each cell of a level is cut into.
    """
    upto = np.concatenate([[0], np.cumsum(exact)])
    # Pieces so far: ends, estimates with their deviation, and which of them are to be cut.
    ends, weights, sigma = np.array([0, len(exact)]), np.array([0.0]), math.inf
    cut = np.array([True])
    for number, noise in zip(levels, sigmas, strict=True):
        inner = [_split(*pair, number) for pair in pairwise(ends)]
        asked = [np.diff(upto[cells]) for cells, one in zip(inner, cut, strict=True) if one]
        if not asked:
            break  # which follows from answers alone
        noisy = ask(np.concatenate(asked), noise)
        answers = iter(np.split(noisy, np.cumsum([len(one) for one in asked])[:-1]))
        new = []
        for place, cells in enumerate(inner):
            if cut[place]:
                sizes = np.diff(cells)
                parts = _estimated(next(answers), sizes, weights[place], sigma, noise)
                new.append((cells[1:], parts, (parts >= CLEAR * noise) & (sizes > 1)))
            else:
                same = slice(place, place + 1)
                new.append((ends[1:][same], weights[same], cut[same]))
        ends = np.concatenate([[0], *(one[0] for one in new)])
        weights, cut = (np.concatenate([one[i] for one in new]) for i in (1, 2))
        sigma = noise
    return Pieces(ends, weights)


def described(column: Any, edges: np.ndarray, pieces: Pieces, sigma: float) -> dict[str, Any]:
    """The column's fields that the pieces give: its shape, and its bins where it has none.

    Where no cell stands out from the noise nothing is known: the column stays as it was.
    """
    ends, weights = _joined(pieces)
    if len(weights) < 2:
        return {"shape": None}
    places = [column.bound(float(edges[end])) for end in ends]
    shape = Shape(edges=tuple(places), weights=tuple(round(float(w), 3) for w in weights))
    found: dict[str, Any] = {"shape": shape.model_dump()}
    if column.bins == "auto":
        inner = _bins(ends, weights, sigma)
        cut = [column.bound(float(edges[end])) for end in inner]
        found["bins"] = tuple(dict.fromkeys(cut)) or 1
    return found


def _split(start: int, end: int, parts: int) -> np.ndarray:
    """The ends of about so many parts of like size."""
    return np.unique(np.linspace(start, end, parts + 1).round().astype(np.int64))


def _estimated(
    noisy: np.ndarray, sizes: np.ndarray, whole: float, before: float, sigma: float
) -> np.ndarray:
    """Estimates of a cut cell's parts: those that stand out, and even shares of the rest."""
    seen = noisy >= SEEN * sigma
    # Two answers for the same rows, by their variance: the cell's own, and the sum of its parts.
    own, sum_ = before**-2.0, 1 / (len(noisy) * sigma**2)
    total = max((whole * own + float(noisy.sum()) * sum_) / (own + sum_), 0.0)
    kept, rest = np.where(seen, noisy, 0.0), np.where(seen, 0, sizes)
    if kept.sum() and (kept.sum() >= total or not rest.sum()):
        return kept * (total / kept.sum())
    if not rest.sum():
        return kept
    return kept + (total - kept.sum()) * rest / rest.sum()


def _joined(pieces: Pieces) -> tuple[np.ndarray, np.ndarray]:
    """The pieces with neighbours of the same density made one."""
    ends, weights = pieces.ends, pieces.weights
    density = weights / np.diff(ends)
    alike = np.isclose(density[1:], density[:-1], rtol=1e-6, atol=1e-9)
    starts = np.concatenate([[0], np.flatnonzero(~alike) + 1])
    return np.append(ends[starts], ends[-1]), np.add.reduceat(weights, starts)


def _bins(ends: np.ndarray, weights: np.ndarray, sigma: float) -> list[int]:
    """Inner edges of bins, as cells: around values that many rows share, and of like mass."""
    sizes = np.diff(ends)
    large = np.flatnonzero((sizes == 1) & (weights >= CLEAR * sigma))
    large = large[np.argsort(-weights[large], kind="stable")][:SPIKES]
    inner = {int(end) for place in large for end in ends[place : place + 2]}
    inner -= {int(ends[0]), int(ends[-1])}
    upto = np.concatenate([[0.0], np.cumsum(weights)])
    floor = max(CLEAR * sigma, 1e-9)
    while len(inner) < BINS - 1:
        cut = [int(ends[0]), *sorted(inner), int(ends[-1])]
        mass = np.diff(np.interp(cut, ends, upto))
        mass[np.diff(cut) < 2] = 0
        heavy = int(np.argmax(mass))
        if mass[heavy] < 2 * floor:
            break
        low, high = cut[heavy], cut[heavy + 1]
        half = np.interp(low, ends, upto) + mass[heavy] / 2
        middle = round(float(np.interp(half, upto, ends)))
        inner.add(min(max(middle, low + 1), high - 1))
    return sorted(inner)


def _wide(column: Any) -> bool:
    """Whether a column has no bins of its own and many values, by public facts alone."""
    if column.kind not in ("integer", "continuous") or column.worded or column.bins != "auto":
        return False
    values = _values(column)
    return column.shape is None and (values is None or values > MANY_VALUES)


def _values(column: NumberColumn) -> int | None:
    """How many values the bounds hold; None for a continuum."""
    if isinstance(column, IntegerColumn):
        return column.count
    return None if column.steps is None else column.steps + 1


def _cells(column: NumberColumn) -> int:
    """The cells of a column's grid: one a value, as far as a schema may have them.

    The last cell of decimal numbers holds the upper bound as well.
    """
    if isinstance(column, IntegerColumn):
        return column.count if column.count <= MOST_UNIT_CELLS else CELLS
    return CELLS if column.steps is None else min(column.steps, CELLS)
