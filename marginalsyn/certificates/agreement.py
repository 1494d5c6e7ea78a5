"""Whether a table and a budget suit a release, and whether published numbers agree."""

from __future__ import annotations

import math
from typing import Any

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.errors import UsageError
from marginalsyn.privacy.budget import Budget
from marginalsyn.release.folder import Release
from marginalsyn.sources.holdout import check_split


def check_origin(table: PrivateTable, release: Release, budget: Budget) -> None:
    """Refuse a table that the release cannot be of, and a budget for other neighbours."""
    schema, statement = release.schema, release.statement
    # With at most one row each, persons have no column of their own that would tell.
    if (table.schema.columns, table.schema.unit) != (schema.columns, schema.unit):
        raise UsageError("schema of the table must be that of the release, with its unit")
    check_split(table, statement)
    if budget.neighbours is not statement.neighbours:
        raise UsageError(
            f"neighbours ({budget.neighbours}) must be those of the release, {statement.neighbours}"
        )


def agree(one: Any, two: Any) -> bool:
    """Equality up to the rounding that differs between machines."""
    if isinstance(one, dict) and isinstance(two, dict):
        return set(one) == set(two) and all(agree(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(agree, one, two))
    numbers = isinstance(one, int | float) and isinstance(two, int | float)
    if numbers and not isinstance(one, bool) and not isinstance(two, bool):
        return math.isclose(one, two, rel_tol=1e-6, abs_tol=1e-9)
    return bool(one == two)
