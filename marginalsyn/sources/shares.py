"""Shares of a person's unit among the rows of a view, whole numbers that sum to it exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.sources.persons import WHOLE

if TYPE_CHECKING:
    import ibis
    import ibis.expr.types as ir

# Whose a row is, and its weight: a code of its own.
ROOT, AMOUNT = (f"marginalsyn_{name}" for name in ("root", "amount"))


def shared(rows: ibis.Table, depth: int) -> ibis.Table:
    """Rows with the share of their person's unit: whole numbers that sum to it exactly."""
    import ibis

    amount: ir.Value = ibis.literal(WHOLE, "int64")
    found = rows.mutate(**{AMOUNT: amount}).view()
    for level in range(1, depth + 1):
        group = [found[ROOT], *[found[f"place{j}"] for j in range(1, level)]]
        # Places have gaps where a row of the path has no rows in the view.
        rank = ibis.dense_rank().over(ibis.window(group_by=group, order_by=found[f"place{level}"]))
        found = found.mutate(rank=rank.cast("int64")).view()
        group = [found[ROOT], *[found[f"place{j}"] for j in range(1, level)]]
        most = found["rank"].max().over(ibis.window(group_by=group)) + 1
        found = found.mutate(sharers=most).view()
        spare = found[AMOUNT] % found["sharers"]
        # Divisible without rest, so that a quotient in floating point is exact.
        even = ((found[AMOUNT] - spare) / found["sharers"]).cast("int64")
        more = ibis.ifelse(found["rank"] < spare, 1, 0).cast("int64")
        found = found.mutate(**{AMOUNT: even + more}).drop("rank", "sharers").view()
    return found
