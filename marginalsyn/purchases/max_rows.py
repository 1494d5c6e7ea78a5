"""How many rows of a person are to be counted at most, found with privacy.

A person counts once, in the bin of the number of the person's rows, at most a public cap. So one
person more or less moves every rank by one, whatever the number of rows is, and the exponential
mechanism finds a quantile of persons at the price of a quantile of rows.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from marginalsyn.errors import UsageError
from marginalsyn.privacy.zcdp import exponential_eps
from marginalsyn.purchases.bounds import paid, told, whole_counts
from marginalsyn.purchases.quantiles import cell_scores, quantile_charge, rank_sensitivity
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import MOST_ROWS, Unit

if TYPE_CHECKING:
    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.privacy.charges import Charge
    from marginalsyn.privacy.noise import Noise
    from marginalsyn.records.run_recorder import RunRecorder

CAP = 200
TAIL = 0.05


def capped_schema(
    schema: Schema, *, unit: str | None = None, order: str | None = None, cap: int = CAP
) -> Schema:
    """The schema whose counts the search reads: persons with at most so many rows.

    Args:
        schema: the public schema.
        unit: the column that tells persons apart; by default the schema's own.
        order: see :class:`Unit`; by default the schema's own.
        cap: no more rows of a person are looked at. A public number.

    Raises:
        UsageError: no unit, or a cap that cannot be.

    Example:
        >>> schema = capped_schema(Schema.from_domain({"a": 2}), unit="who", cap=5)
        >>> schema.domain["rows_of_person"]
        5
    """
    known = schema.unit
    if known is None and (unit is None or unit == "row"):
        raise UsageError("unit must be the column that tells persons apart: add --unit COLUMN")
    if not 2 <= cap <= MOST_ROWS:
        raise UsageError(f"cap ({cap}) must be from 2 to {MOST_ROWS}")
    if known is not None and unit in (None, known.column):
        changed = {"max_rows": cap, "order": order or known.order}
        return schema.with_unit(known.model_copy(update=changed))
    assert unit is not None
    return schema.with_unit(Unit(column=unit, max_rows=cap, order=order))


def max_rows_charge(capped: Schema, budget: Budget) -> Charge:
    """The charge of the purchase: one selection for the whole budget."""
    assert capped.unit is not None
    each = exponential_eps(budget.rho)
    return quantile_charge(capped.unit.count, 1, each, budget.neighbours, capped.unit)


def buy_max_rows(
    table: PrivateTable,
    schema: Schema,
    budget: Budget,
    *,
    noise: Noise,
    tail: float = TAIL,
    run: str = "",
    keeper: RunRecorder | None = None,
) -> Schema:
    """Buy ``max_rows``: a number that all but a share of the persons do not exceed.

    Args:
        table: opened with :func:`capped_schema`; its ledger is charged.
        schema: the schema to improve.
        budget: for the purchase.
        noise: ``make_noise()``.
        tail: the share of persons who may have more rows than are counted.
        run: a public name for the ledger's entry.
        keeper: keeps what was paid for until the caller calls ``finish()``, once the schema is
            written.

    Returns:
        The schema with the unit that was found, and the charge in it. The number is one of those
        that end a bin of the number of rows: 1, 2, ... 15, 20, 27 and so on by a third.

    Raises:
        BudgetError: the ledger's cap does not allow it; nothing was read.

    Example:
        >>> import pandas as pd
        >>> from marginalsyn.access.private_table import PrivateTable
        >>> schema = Schema.from_domain({"a": 2})
        >>> visits = pd.DataFrame({"who": [1, 1, 1, 2, 2, 3] * 2, "a": 0})
        >>> table = PrivateTable.open(visits, capped_schema(schema, unit="who", cap=8))
        >>> found = buy_max_rows(table, schema, Budget(eps=1), noise=make_noise())
        >>> 1 <= found.unit.max_rows <= 8
        True
    """
    if not 0 < tail < 1:
        raise UsageError(f"tail ({tail}) must be above 0 and below 1")
    capped = table.schema
    unit = capped.unit
    assert unit is not None
    charge = told(max_rows_charge(capped, budget), noise, 1)
    if keeper is not None:
        known = hashlib.sha256((schema.to_json() + capped.to_json()).encode()).hexdigest()
        keeper.describe(schema=known, eps=budget.eps, delta=budget.delta, tail=tail)
    with table.paid_visit(
        [charge], noise=noise, delta=budget.delta, run=run, keeper=keeper, persons=True
    ) as visit:
        column = capped.column(unit.count)
        persons = whole_counts(visit, unit.count)[: column.levels]
        q = 1 - tail
        chosen = paid(visit, unit.count)(
            cell_scores(persons, q),
            eps=exponential_eps(budget.rho),
            sensitivity=rank_sensitivity(q, visit.neighbours),
        )
    most = int(column.edges[chosen + 1]) - 1  # type: ignore[union-attr]
    found = schema.with_unit(unit.model_copy(update={"max_rows": most}))
    return Schema(**{**found.model_dump(), "charges": [*schema.charges, charge]})
