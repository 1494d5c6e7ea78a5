"""Categories of columns whose values are not public, bought by private partition selection.

Every text of a column is counted with noise, and told are those whose noisy count reaches a
threshold that a text of one person alone passes with a probability of delta at most. With prefixes
the starts of all texts are counted as well, each length at a price of its own; a text that is not
told falls back to its longest start that is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marginalsyn.errors import SchemaError, UsageError
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import ZCDP, Approximate, Charge, Neighbours
from marginalsyn.privacy.laws import samplers, used_of
from marginalsyn.privacy.set_union import union_delta, union_threshold
from marginalsyn.privacy.zcdp import gaussian_rho, gaussian_sigma, rho_of
from marginalsyn.sources.persons import WHOLE
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.schema import Schema

if TYPE_CHECKING:
    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.access.visit import Visit
    from marginalsyn.privacy.noise import Noise
    from marginalsyn.records.run_recorder import RunRecorder

SET_UNION = "set union"
# Of a budget's delta: what the categories may take.
DELTA_SHARE = 0.2
# The most categories of one column, or starts of one length; the largest are kept.
MOST = 1000


@dataclass(frozen=True)
class CategoryPlan:
    """What the categories of a schema's open columns cost, and how large a value must be.

    Attributes:
        schema: with the open columns.
        neighbours: the relation of the charges.
        lengths: by open column, what is counted: whole texts (None), and starts of them.
        sigma: of the noise on every count.
        threshold: what a noisy count must reach, in parts of one person.
        delta: of each count.
    """

    schema: Schema
    neighbours: Neighbours
    lengths: Mapping[str, tuple[int | None, ...]]
    sigma: float
    threshold: int
    delta: float

    @classmethod
    def of(cls, schema: Schema, budget: Budget, rho: float) -> CategoryPlan:
        """The plan that spends ``rho``, and its share of the budget's delta.

        Example:
            >>> schema = Schema(
            ...     columns=({"kind": "categorical", "name": "code", "categories": "private"},)
            ... )
            >>> CategoryPlan.of(schema, Budget(eps=1), rho=0.003).threshold
            83
        """
        lengths: dict[str, tuple[int | None, ...]] = {}
        for name in schema.open:
            column = schema.column(name)
            assert isinstance(column, CategoricalColumn)
            lengths[name] = (None, *sorted(column.prefixes, reverse=True))
        counts = sum(map(len, lengths.values()))
        sigma = gaussian_sigma(rho / counts, budget.neighbours.l2)
        wanted = budget.delta * DELTA_SHARE / counts
        most, whole = _rows_of(schema)
        threshold = union_threshold(sigma, wanted, most, whole)
        delta = union_delta(sigma, threshold, most, whole)
        return cls(schema, budget.neighbours, lengths, sigma, threshold, delta)

    @property
    def least(self) -> float:
        """About how many persons, or rows, a category must have."""
        return self.threshold / _rows_of(self.schema)[1]

    def charges(self, noise: Noise | None = None) -> list[Charge]:
        """Two a column: in zCDP for the noise, and the delta beside it.

        With a ``noise`` they name the law that it draws, for the statements of later releases.
        """
        found = []
        for name, lengths in self.lengths.items():
            details: dict[str, Any] = {
                "column": name,
                "prefixes": [length for length in lengths if length is not None],
                "sigma": self.sigma,
                "threshold": self.least,
            }
            bare = dict(details)
            if noise is not None:
                drawn = samplers({"discrete Gaussian": len(lengths)}, used_of(noise).origin)
                details["samplers"] = [line.model_dump(mode="json") for line in drawn]
            rho = len(lengths) * gaussian_rho(self.sigma, self.neighbours.l2)
            for cost in (ZCDP(rho=rho), Approximate(eps=0, delta=len(lengths) * self.delta)):
                charge = Charge(
                    mechanism=SET_UNION,
                    purpose=f"categories of {name}",
                    neighbours=self.neighbours,
                    cost=cost,
                    details=details if isinstance(cost, ZCDP) else bare,
                )
                found.append(charge)
        return found

    def buy(self, visit: Visit, noise: Noise | None) -> Schema:
        """Measure, and return the schema with what was told, and with the charges for ``noise``."""
        told: dict[str, tuple[str, ...]] = {}
        for name, lengths in self.lengths.items():
            counts = [
                visit.texts(
                    name,
                    self.sigma,
                    self.threshold,
                    delta=self.delta,
                    length=length,
                    purpose=f"categories of {name}",
                )
                for length in lengths
            ]
            told[name] = keep_apart(counts, self.least)
        data = self.schema.model_dump()
        data["columns"] = [
            {**c, "categories": told[c["name"]], "origin": "bought"} if c["name"] in told else c
            for c in data["columns"]
        ]
        data["charges"] = [*self.schema.charges, *self.charges(noise)]
        return Schema(**data)


def keep_apart(counts: Sequence[Mapping[str, float]], least: float) -> tuple[str, ...]:
    """The categories: whole texts, and those starts that enough other texts fall back to.

    Args:
        counts: the noisy counts of whole texts, then of their starts, the longest first.
        least: how much must fall back to a start for it to be kept.

    Example:
        >>> keep_apart([{"E11": 90.0}, {"E": 200.0, "J": 95.0}], 80)
        ('E', 'E11', 'J')
        >>> keep_apart([{"E11": 90.0}, {"E": 100.0, "J": 95.0}], 80)
        ('E11', 'J')
    """
    kept: set[str] = set()
    # What is covered by a kept text that no other kept one is a start of.
    covered: dict[str, float] = {}
    for level in counts:
        largest = sorted(level, key=lambda text: (-level[text], text))[:MOST]
        for text in largest:
            inside = [c for c in covered if c.startswith(text) and c != text]
            if level[text] - sum(covered[c] for c in inside) >= least:
                for one in inside:
                    del covered[one]
                kept.add(text)
                covered[text] = level[text]
    return tuple(sorted(kept))


def open_up(schema: Schema, columns: Sequence[str]) -> Schema:
    """The schema with the categories of some columns to be bought; of those that say so by default.

    Raises:
        SchemaError: a column is unknown or not categorical, or none is open.
    """
    data = schema.model_dump()
    for name in columns:
        if schema.column(name).kind != "categorical":
            raise SchemaError(f"column ({name!r}) must be categorical to have private categories")
    for column in data["columns"]:
        if column["name"] in columns:
            column["categories"] = "private"
    found = Schema(**data)
    if not found.open:
        raise UsageError(
            'schema must have a column with "categories": "private": write that in place of a list '
            "of categories, or name a column"
        )
    return found


def buy_categories(
    table: PrivateTable,
    schema: Schema,
    budget: Budget,
    *,
    noise: Noise,
    run: str = "",
    keeper: RunRecorder | None = None,
) -> Schema:
    """Buy the categories of a table's open columns, apart from any release.

    Args:
        table: opened with the schema; its ledger is charged.
        schema: with open columns.
        budget: for all columns together.
        noise: ``make_noise()``.
        run: a public name for the ledger's entry.
        keeper: keeps what was paid for until the caller calls ``finish()``, once the schema is
            written.

    Returns:
        The schema with the categories that were told, and with the charges in it.

    Raises:
        BudgetError: the ledger's cap does not allow it; nothing was read.
    """
    plan = CategoryPlan.of(schema, budget, rho_of(budget.eps, budget.delta * (1 - DELTA_SHARE)))
    if keeper is not None:
        known = hashlib.sha256(schema.to_json().encode()).hexdigest()
        keeper.describe(schema=known, eps=budget.eps, delta=budget.delta)
    with table.paid_visit(
        plan.charges(noise), noise=noise, delta=budget.delta, run=run, keeper=keeper, persons=True
    ) as visit:
        return plan.buy(visit, noise)


def _rows_of(schema: Schema) -> tuple[int, int]:
    """The most rows of a person, and the parts of one; a row is one part."""
    return (1, 1) if schema.unit is None else (schema.unit.max_rows, WHOLE)
