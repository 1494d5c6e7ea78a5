"""Private bounds and bins for numeric columns, for which no code book gives public ones.

The search starts from the schema's own bounds, which are public. The exponential mechanism on a
fine public grid finds narrower bounds or quantile bins. The charges go into the new schema, so that
every release made with it counts them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.drafting.drafted import wide_ends
from marginalsyn.errors import SchemaError, UsageError
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge
from marginalsyn.privacy.laws import samplers, used_of
from marginalsyn.privacy.zcdp import exponential_eps
from marginalsyn.purchases.quantiles import quantile_bins, quantile_bounds, quantile_charge
from marginalsyn.sources.persons import WHOLE
from marginalsyn.table.moments import MomentColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.schema import Schema

if TYPE_CHECKING:
    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.access.visit import Visit
    from marginalsyn.privacy.noise import Noise
    from marginalsyn.records.run_recorder import RunRecorder

CELLS = 4096
MOST_CELLS = 2**20
# Bounds that span more say nothing of a number's size: it is searched on round numbers.
BOUNDLESS = 1e9
DAY = 86_400
ROUND = (1, 2, 5)


def grid_schema(schema: Schema, columns: Sequence[str], cells: int = CELLS) -> Schema:
    """The schema whose codes the search counts: some numeric columns, on a fine public grid.

    Args:
        schema: the public schema; its bounds are where the search starts.
        columns: the columns to buy for; all numeric ones when empty.
        cells: of the grid; a whole-number column has at most one per value.

    Raises:
        SchemaError: a column is unknown or not numeric.
        UsageError: no numeric column, or a number of cells that cannot be.

    Example:
        >>> schema = Schema(columns=(IntegerColumn(name="age", lower=0, upper=149, bins=5),))
        >>> grid_schema(schema, []).domain
        {'age': 150}
    """
    if not 2 <= cells <= MOST_CELLS:
        raise UsageError(f"cells ({cells}) must be from 2 to {MOST_CELLS}")
    names = list(dict.fromkeys(columns)) or [
        c.name for c in schema.columns if c.numeric and c.name not in schema.derived
    ]
    if not names:
        raise UsageError("schema must have a numeric column: only those have bounds and bins")
    grid: dict[str, Any] = {}
    for name in names:
        column = schema.column(name)
        if name in schema.derived:
            raise SchemaError(
                f"column ({name!r}) must not be the number of a person's rows: buy-max-rows buys it"
            )
        if not isinstance(column, IntegerColumn | ContinuousColumn):
            raise SchemaError(f"column ({name!r}) must be integer or continuous to have bounds")
        if isinstance(column, MomentColumn):
            if not column.style.dated:
                raise SchemaError(f"column ({name!r}) must have dates to have bounds: a day is one")
            grid[name] = "day" if column.count * column.unit <= cells * DAY else "year"
        elif column.upper - column.lower > BOUNDLESS:
            grid[name] = round_edges(column)
        else:
            grid[name] = min(cells, _most_cells(column))
    return schema.select([*names, *schema.counted]).with_bins(**grid)


def widest(column: Any, bins: int) -> Any:
    """The column with bounds that no row decides: as wide as its kind, for a search to narrow."""
    data = column.model_dump()
    if isinstance(column, MomentColumn):
        return type(column)(**{**data, **wide_ends(column.kind, data), "bins": bins})
    lower, upper = (-1e12 if column.below is None else min(0.0, 2 * column.below)), 1e12
    if column.above is not None:
        upper = max(0.0, 2 * column.above)
    if column.whole:
        lower, upper = int(lower), int(upper)
    return type(column)(**{**data, "lower": lower, "upper": upper, "bins": bins})


def round_edges(column: IntegerColumn | ContinuousColumn) -> tuple[float, ...]:
    """Round numbers of every size between a column's bounds, of both signs.

    Example:
        >>> wide = IntegerColumn(name="age", lower=-(10**12), upper=10**12, bins=1)
        >>> [edge for edge in round_edges(wide) if 6 < edge < 300]
        [10, 20, 50, 100, 200]
    """
    decimals = 0 if isinstance(column, IntegerColumn) else column.decimals
    digits = 3 if decimals is None else decimals
    most = max(abs(column.lower), abs(column.upper))
    sizes = {
        round(part * 10.0**power, digits)
        for power in range(-digits, math.ceil(math.log10(most)) + 1)
        for part in ROUND
    }
    kind = int if isinstance(column, IntegerColumn) else float
    ends = {kind(sign * size) for size in {*sizes, 0.0} for sign in (-1, 1)}
    return tuple(sorted(end for end in ends if column.lower < end < column.upper))


def bound_charges(grid: Schema, budget: Budget, *, bins: int | None = None) -> list[Charge]:
    """The charges of the purchase: one per column, with equal shares of the budget.

    Args:
        grid: from :func:`grid_schema`.
        budget: for all columns together.
        bins: of quantile bins; None buys bounds.
    """
    if bins is not None and bins < 2:
        raise UsageError(f"bins ({bins}) must be 2 or more")
    each = _eps_each(grid, budget, bins)
    return [
        quantile_charge(name, _selections(bins), each, budget.neighbours, grid.unit)
        for name in _sought(grid)
    ]


def buy(
    table: PrivateTable,
    schema: Schema,
    budget: Budget,
    *,
    noise: Noise,
    bins: int | None = None,
    tail: float = 0.005,
    run: str = "",
    keeper: RunRecorder | None = None,
) -> Schema:
    """Buy narrower bounds, or quantile bins, for the columns of a table on a grid.

    Args:
        table: opened with :func:`grid_schema`; its ledger is charged.
        schema: the schema to improve.
        budget: for all columns together.
        noise: ``make_noise()``.
        bins: how many quantile bins; None buys bounds.
        tail: the share of rows that each bound may cut off.
        run: a public name for the ledger's entry.
        keeper: keeps what was paid for until the caller calls ``finish()``, once the schema is
            written.

    Returns:
        The schema with the new bounds or bins, and the charges in it.

    Raises:
        BudgetError: the ledger's cap does not allow it; nothing was read.

    Example:
        >>> from marginalsyn.access.private_table import PrivateTable
        >>> grid = grid_schema(schema, ["age"])
        >>> table = PrivateTable.open(frame, grid)
        >>> found = buy(table, schema, Budget(eps=1), noise=make_noise())
    """
    if not 0 <= tail < 0.5:
        raise UsageError(f"tail ({tail}) must be at least 0 and below 0.5")
    grid = table.schema
    selections = _selections(bins)
    charges = [told(c, noise, selections) for c in bound_charges(grid, budget, bins=bins)]
    each = _eps_each(grid, budget, bins)
    found: dict[str, dict[str, Any]] = {}
    if keeper is not None:
        text = (schema.to_json() + grid.to_json()).encode()
        known = hashlib.sha256(text).hexdigest()
        keeper.describe(schema=known, eps=budget.eps, delta=budget.delta, bins=bins, tail=tail)
    with table.paid_visit(
        charges,
        noise=noise,
        delta=budget.delta,
        run=run,
        keeper=keeper,
        # Ranks are sums of counts, so one person moves them as one row does.
        persons=True,
    ) as visit:
        visit.prepare([(name,) for name in _sought(grid)])
        for name in _sought(grid):
            column = schema.column(name)
            assert isinstance(column, IntegerColumn | ContinuousColumn)
            edges = grid.column(name).edges  # type: ignore[union-attr]
            counts = whole_counts(visit, name)[: len(edges) - 1]
            select = paid(visit, name)
            relation = visit.neighbours
            if bins is None:
                low, high = quantile_bounds(counts, edges, select, each, tail, relation)
                found[name] = _bounded(column, *_around(column, low, high, edges))
            else:
                cuts = quantile_bins(counts, edges, bins, select, each, relation)
                found[name] = {"bins": _inner(column, cuts[1:-1])}
    return _replaced(schema, found, charges)


def told(charge: Charge, noise: Noise, selections: int) -> Charge:
    """The charge with the law of its selections, for the statements of releases that include it."""
    drawn = samplers({"exponential mechanism": selections}, used_of(noise).origin)
    lines = [line.model_dump(mode="json") for line in drawn]
    return charge.model_copy(update={"details": {**charge.details, "samplers": lines}})


def _selections(bins: int | None) -> int:
    return 2 if bins is None else bins - 1


def _eps_each(grid: Schema, budget: Budget, bins: int | None) -> float:
    """The eps of one selection: all of them together cost the budget's rho."""
    return exponential_eps(budget.rho / (len(_sought(grid)) * _selections(bins)))


def _sought(grid: Schema) -> list[str]:
    """The columns that the search is for."""
    return [name for name in grid.names if name not in grid.derived]


def _most_cells(column: IntegerColumn | ContinuousColumn) -> int:
    """How many cells a grid can have without one that holds no value."""
    if isinstance(column, IntegerColumn):
        return column.count
    if column.decimals is None:
        return MOST_CELLS
    return max(1, int((column.upper - column.lower) * 10**column.decimals))


def whole_counts(visit: Visit, name: str) -> np.ndarray:
    """The marginal of one column in whole numbers: rows, or parts of persons (see :func:`paid`)."""
    counts = visit.counts([name])
    # Multiples of a power of two, so nothing is rounded.
    return (counts * WHOLE).astype(np.int64) if visit.persons else counts


def paid(visit: Visit, name: str) -> Callable[..., int]:
    """The exponential mechanism on scores of whole counts, paid for as a quantile of a column."""

    def select(scores: np.ndarray, *, eps: float, sensitivity: float) -> int:
        purpose = f"quantile of {name}"
        if visit.persons:
            scores = scores / WHOLE
        return visit.select(scores, eps=eps, sensitivity=sensitivity, purpose=purpose)

    return select


def _around(
    column: IntegerColumn | ContinuousColumn, low: float, high: float, edges: np.ndarray
) -> tuple[float, float]:
    """The bounds moved outward, where they leave no room for the public limits of detection."""
    if column.below is not None:
        low = min(low, float(edges[edges < column.below][-1]))
        high = max(high, float(edges[edges > column.below][0]))
    if column.above is not None:
        # The end of an integer grid is the first number beyond the last cell.
        beyond = column.above + column.whole
        low = min(low, float(edges[edges <= column.above][-1]))
        high = max(high, float([*edges[edges > beyond], edges[-1]][0]))
    return low, high


def _bounded(column: IntegerColumn | ContinuousColumn, low: float, high: float) -> dict[str, Any]:
    """The new bounds, with the bins that still lie inside them."""
    if isinstance(column, IntegerColumn):
        # The upper end of an integer grid is the first integer beyond its last cell.
        lower: float = int(low)
        upper: float = max(int(high) - 1, int(low))
        most = int(upper) - int(lower) + 1
    else:
        lower, upper = _outward(low, column.decimals, -1), _outward(high, column.decimals, 1)
        most = _most_cells(column.model_copy(update={"lower": lower, "upper": upper}))
    bins: Any = column.bins
    if isinstance(bins, tuple):
        bins = tuple(edge for edge in bins if lower < edge < upper) or 1
    elif isinstance(bins, int):
        bins = min(bins, most)
    if isinstance(bins, tuple):
        bins = tuple(column.bound(edge) for edge in bins)
    return {"lower": column.bound(lower), "upper": column.bound(upper), "bins": bins}


def _inner(column: IntegerColumn | ContinuousColumn, cuts: np.ndarray) -> Any:
    """Cuts as a schema writes them; one bin where all quantiles fell together."""
    if isinstance(column, IntegerColumn):
        return tuple(column.bound(int(cut)) for cut in cuts) or 1
    rounded = {_outward(float(cut), column.decimals, 1) for cut in cuts}
    return tuple(sorted(cut for cut in rounded if column.lower < cut < column.upper)) or 1


def _outward(value: float, decimals: int | None, sign: int) -> float:
    """The number with so many decimals, rounded up (sign 1) or down (-1)."""
    if decimals is None:
        return value
    scale = 10**decimals
    return (math.ceil(value * scale) if sign > 0 else math.floor(value * scale)) / scale


def _replaced(
    schema: Schema, found: dict[str, dict[str, Any]], charges: Sequence[Charge]
) -> Schema:
    data = schema.model_dump()
    data["columns"] = [{**c, **found.get(c["name"], {})} for c in data["columns"]]
    data["charges"] = [*schema.charges, *charges]
    return Schema(**data)
