"""The contract of purchases, and the loop that plans, charges and buys any list of them.

A purchase is planned by arithmetic alone, charged, and only then measures. What it spends becomes
part of the schema, so that the statement of every release made with the schema counts it.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.access.visit import Visit
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.privacy.noise import Noise, samplers, used_of
from marginalsyn.progress import Progress
from marginalsyn.records.resume import RunRecorder
from marginalsyn.table.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Purchase(ABC):
    """Something that a schema leaves open, and what finding it costs.

    Attributes:
        schema: the public schema that the purchase completes.
        budget: what the purchase may spend: that of a run, or a part of it.
    """

    schema: Schema
    budget: Budget

    # What is bought, in the plural.
    what: ClassVar[str]
    # Of the budget of a run that buys it by itself: for one column, and at most for all of them.
    share: ClassVar[float] = 1.0
    most_share: ClassVar[float] = 1.0

    @abstractmethod
    def prices(self) -> Iterator[tuple[Charge, int]]:
        """Every charge, and how many draws of ``law`` it pays for."""

    @abstractmethod
    def complete(self, schema: Schema, visit: Visit) -> Schema:
        """Measure, and return the schema with what was found.

        Args:
            schema: with what was bought before in the same run.
            visit: counts under :attr:`counted`.
        """

    @classmethod
    def open_in(cls, schema: Schema) -> Sequence[str]:
        """The columns for which a generator's run buys it by itself; by default none."""
        return ()

    @classmethod
    def within(cls, schema: Schema, budget: Budget) -> Purchase:
        """The purchase as a part of a run with this budget."""
        share = min(cls.share * len(cls.open_in(schema)), cls.most_share)
        return cls(schema=schema, budget=budget.part(share))

    @property
    def law(self) -> str:
        """The law of the noise that finds it; Gaussian by default."""
        return self.budget.gaussian_law

    @property
    def names(self) -> Sequence[str]:
        """The columns that it is bought for."""
        return self.open_in(self.schema)

    @property
    def counted(self) -> Schema:
        """The schema under which rows are counted; by default that which is completed."""
        return self.schema

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the plan of a run says about the purchase; by default nothing."""
        return {}

    def notes(self, bought: Schema) -> Iterator[str]:
        """What a person reads when it is bought: by default some labels of every column."""
        for name in self.names:
            yield f"{name}: {', '.join(bought.column(name).labels()[:12])}"

    @property
    def neighbours(self) -> Neighbours:
        """The relation of the charges."""
        return self.budget.neighbours

    @property
    def individuals(self) -> str:
        """What is protected, in the plural."""
        return "rows" if self.schema.unit is None else "persons"

    def charges(self, noise: Noise | None = None) -> list[Charge]:
        """The charges. With a ``noise`` they name its law, for statements of later releases."""
        found = []
        for charge, draws in self.prices():
            details = dict(charge.details)
            if noise is not None and draws:
                drawn = samplers({self.law: draws}, used_of(noise).origin)
                details["samplers"] = [line.model_dump(mode="json") for line in drawn]
            found.append(charge.model_copy(update={"details": details}))
        return found


def charges_of(purchases: Sequence[Purchase], noise: Noise | None = None) -> list[Charge]:
    """The charges of all purchases, which must be paid before :func:`buy_all`."""
    return [charge for purchase in purchases for charge in purchase.charges(noise)]


def buy_all(
    purchases: Sequence[Purchase],
    schema: Schema,
    visit: Visit,
    noise: Noise | None,
    progress: Progress | None = None,
) -> Schema:
    """Buy one after another in a visit that was charged for all of them.

    Returns:
        The schema with what was found, and with the charges in it.
    """
    for purchase in purchases:
        if progress is not None:
            progress.report("measure", text=f"{purchase.what} of {', '.join(purchase.names)}")
        counted = purchase.counted
        view = visit if counted == visit.schema else visit.recoded(counted)
        charges = (*schema.charges, *purchase.charges(noise))
        schema = purchase.complete(schema, view).changed(charges=charges)
    return schema


def buy(
    table: PrivateTable,
    purchase: Purchase,
    *,
    noise: Noise,
    run: str = "",
    recorder: RunRecorder | None = None,
) -> Schema:
    """Buy by itself, in a run of its own.

    Args:
        table: opened with the purchase's ``counted`` schema; its ledger is charged.
        purchase: what to buy.
        noise: ``make_noise()``.
        run: a public name for the ledger's entry.
        recorder: keeps what was paid for until the caller calls ``finish()``, once the schema is
            written.

    Returns:
        The schema with what was found, and with the charges in it.

    Raises:
        BudgetError: the ledger's cap does not allow it; nothing was read.

    Example:
        >>> from marginalsyn.access.private_table import PrivateTable
        >>> from marginalsyn.purchases.bounds import Bounds
        >>> ages = Bounds(schema=schema, budget=Budget(eps=1), columns=["age"])
        >>> table = PrivateTable.open(frame, ages.counted)
        >>> buy(table, ages, noise=make_noise()).column("age").upper <= 99
        True
    """
    delta = purchase.budget.delta
    if recorder is not None:
        options = {one.name: getattr(purchase, one.name) for one in fields(purchase)}
        options["schema"] = hashlib.sha256(purchase.schema.to_json().encode()).hexdigest()
        options["budget"] = purchase.budget.to_json()
        recorder.describe(**options)
    with table.paid_visit(
        charges_of([purchase], noise),
        noise=noise,
        delta=delta,
        run=run,
        recorder=recorder,
        # Purchases draw on counts alone, which one person moves as one row does.
        persons=True,
    ) as visit:
        return buy_all([purchase], purchase.schema, visit, noise)


def whole_counts(visit: Visit, name: str) -> np.ndarray:
    """The marginal of one column in whole numbers, in parts of ``visit.whole``."""
    # Multiples of a power of two, so nothing is rounded.
    return (visit.counts([name]) * visit.whole).astype(np.int64)


def grid_of(schema: Schema, bins: Mapping[str, Any]) -> Schema:
    """The schema of some columns alone, cut into these bins, with what counts persons."""
    return schema.select([*bins, *schema.counted]).with_bins(**bins)


def with_fields(schema: Schema, found: Mapping[str, Mapping[str, Any]]) -> Schema:
    """The schema with some fields of its columns replaced, by name."""
    columns = [{**c.model_dump(), **found.get(c.name, {})} for c in schema.columns]
    return schema.changed(columns=columns)
