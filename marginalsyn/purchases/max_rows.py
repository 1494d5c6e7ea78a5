"""How many rows of a person are to be counted at most.

A person counts once, in the bin of the number of the person's rows, at most a public cap. So one
person more or less moves every rank by one, whatever the number of rows is, and the exponential
mechanism finds a quantile of persons at the price of a quantile of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from marginalsyn.errors import UsageError
from marginalsyn.purchases.quantiles import QuantilePurchase
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import MOST_ROWS, Unit

if TYPE_CHECKING:
    from marginalsyn.access.visit import Visit

CAP = 200


@dataclass(frozen=True, kw_only=True)
class MaxRows(QuantilePurchase):
    """``max_rows``: a number that all but a share of the persons do not exceed.

    The number ends a bin of the number of rows: it is 1, 2, ... 15, 20, 27 and so on by a third.

    Attributes:
        unit: the column that names persons; by default the schema's own.
        order: see :class:`~marginalsyn.table.Unit`; by default the schema's own.
        cap: no more rows of a person are read. A public number.
        tail: the share of persons who may have more rows than are counted.

    Raises:
        UsageError: no unit, or a number that cannot be.

    Example:
        >>> from marginalsyn.privacy.budget import Budget
        >>> found = MaxRows(schema=schema, budget=Budget(eps=1), unit="who", cap=5)
        >>> found.counted.domain["rows_of_person"]
        5
    """

    what = "most rows"
    selections = 1

    unit: str | None = None
    order: str | None = None
    cap: int = CAP
    tail: float = 0.05

    def __post_init__(self) -> None:
        if self.schema.unit is None and self.unit in (None, "row"):
            raise UsageError("unit must be the column that identifies persons: add --unit COLUMN")
        if not 2 <= self.cap <= MOST_ROWS:
            raise UsageError(f"cap ({self.cap}) must be from 2 to {MOST_ROWS}")
        if not 0 < self.tail < 1:
            raise UsageError(f"tail ({self.tail}) must be above 0 and below 1")

    @cached_property
    def capped(self) -> Unit:
        """Persons with at most as many rows as the cap."""
        known, order = self.schema.unit, self.order
        if known is not None and self.unit in (None, known.column):
            changed = {"max_rows": self.cap, "order": order or known.order}
            return known.model_copy(update=changed)
        return Unit(column=str(self.unit), max_rows=self.cap, order=order)

    @property
    def names(self) -> Sequence[str]:
        return [self.capped.count]

    @cached_property
    def counted(self) -> Schema:
        return self.schema.with_unit(self.capped)

    def complete(self, schema: Schema, visit: Visit) -> Schema:
        grid = self.grid(visit, self.capped.count)
        most = int(grid.edges[grid.cell(1 - self.tail) + 1]) - 1
        return schema.with_unit(self.capped.model_copy(update={"max_rows": most}))

    def notes(self, bought: Schema) -> Iterator[str]:
        if bought.unit is not None:
            yield f"unit: {bought.unit.text}"
