"""Categories of columns whose values are not public, bought by private partition selection.

Every text of a column is counted with noise. Listed are those whose noisy count reaches a threshold
that a text of one person alone passes with a probability of delta at most. With prefixes the starts
of all texts are counted as well, each length at a price of its own; a text that is not listed falls
back to its longest start that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from marginalsyn.access.visit import Visit
from marginalsyn.errors import SchemaError, UsageError
from marginalsyn.privacy.charges import Approximate, Charge
from marginalsyn.privacy.selection import union_delta, union_threshold
from marginalsyn.privacy.zcdp import gaussian_rho, gaussian_sigma
from marginalsyn.purchases.purchase import Purchase, with_fields
from marginalsyn.sources.persons import WHOLE
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.schema import Schema

# Of a budget's delta: what the categories may take.
DELTA_SHARE = 0.2
# The most categories of one column, or starts of one length; the largest are kept.
MOST = 1000


@dataclass(frozen=True, kw_only=True)
class Categories(Purchase):
    """The categories of a schema's open columns.

    Example:
        >>> from marginalsyn.privacy.budget import Budget
        >>> schema = Schema(
        ...     columns=({"kind": "categorical", "name": "code", "categories": "private"},)
        ... )
        >>> Categories(schema=schema, budget=Budget(eps=1).part(0.2)).threshold
        79
    """

    what = "categories"
    share = 0.2
    most_share = 0.4

    @classmethod
    def open_in(cls, schema: Schema) -> Sequence[str]:
        return schema.open

    @cached_property
    def lengths(self) -> Mapping[str, tuple[int | None, ...]]:
        """By column, what is counted: whole texts (None), and starts of them."""
        found = {}
        for name in self.names:
            column = self.schema.column(name)
            assert isinstance(column, CategoricalColumn)
            whole = () if column.shorten else (None,)
            found[name] = (*whole, *sorted(column.prefixes, reverse=True))
        return found

    @cached_property
    def sigma(self) -> float:
        """The noise on every count."""
        amount = self.budget.gaussian_within(self.budget.delta * (1 - DELTA_SHARE))
        return gaussian_sigma(min(amount, self.budget.gaussian) / self._counts, self.neighbours.l2)

    @cached_property
    def threshold(self) -> int:
        """What a noisy count must reach, in parts of one person."""
        delta = self.budget.delta * DELTA_SHARE / self._counts
        return union_threshold(self.sigma, delta, *self._rows_and_parts, self._rounded)

    @cached_property
    def delta(self) -> float:
        """The chance, for every count, that a text of one person is listed."""
        return union_delta(self.sigma, self.threshold, *self._rows_and_parts, self._rounded)

    @property
    def _rounded(self) -> bool:
        """Whether the noise is rounded Gaussian."""
        return self.budget.mu is not None

    @property
    def least(self) -> float:
        """About how many persons, or rows, a category must have."""
        return self.threshold / self._rows_and_parts[1]

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"categories": f"those of at least {self.least:.0f} noisy {self.individuals}"}

    def prices(self) -> Iterator[tuple[Charge, int]]:
        """Two charges a column: one for the noise, and the delta that goes with it."""
        for name, lengths in self.lengths.items():
            draws = len(lengths)
            noise = self.budget.cost_of(draws * gaussian_rho(self.sigma, self.neighbours.l2))
            for cost in (noise, Approximate(eps=0, delta=draws * self.delta)):
                details = {
                    "column": name,
                    "prefixes": [length for length in lengths if length is not None],
                    "sigma": self.sigma,
                    "threshold": self.least,
                }
                purpose = f"categories of {name}"
                charge = self.budget.charge("set union", purpose, cost, details)
                yield charge, draws if cost is noise else 0

    def complete(self, schema: Schema, visit: Visit) -> Schema:
        found = {}
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
            found[name] = {"categories": keep_largest(counts, self.least), "origin": "bought"}
        return with_fields(schema, found)

    @property
    def _counts(self) -> int:
        """How often all texts are counted."""
        return sum(map(len, self.lengths.values()))

    @property
    def _rows_and_parts(self) -> tuple[int, int]:
        """The most rows of a person, and the parts of one; where a row is a person it is one."""
        unit = self.schema.unit
        return (1, 1) if unit is None or unit.max_rows == 1 else (unit.max_rows, WHOLE)


def keep_largest(counts: Sequence[Mapping[str, float]], least: float) -> tuple[str, ...]:
    """The categories: whole texts, and those starts that enough other texts fall back to.

    Args:
        counts: the noisy counts of whole texts, then of their starts, the longest first.
        least: how much must fall back to a start for it to be kept.

    Example:
        >>> keep_largest([{"E11": 90.0}, {"E": 200.0, "J": 95.0}], 80)
        ('E', 'E11', 'J')
        >>> keep_largest([{"E11": 90.0}, {"E": 100.0, "J": 95.0}], 80)
        ('E11', 'J')
    """
    kept = set()
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
    """The schema with the categories of some columns to be bought, and of all that it leaves open.

    Raises:
        SchemaError: a column is unknown or not categorical, or none is open.
    """
    for name in columns:
        if schema.column(name).kind != "categorical":
            raise SchemaError(f"column ({name!r}) must be categorical to have private categories")
    found = with_fields(schema, {name: {"categories": "private"} for name in columns})
    if not found.open:
        raise UsageError(
            'schema must have a column with "categories": "private": write that in place of a list '
            "of categories, or name a column"
        )
    return found
