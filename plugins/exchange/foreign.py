"""Rows that any tool wrote, held against a schema: nothing is changed without a word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from marginalsyn.drafting.check import ColumnCheck, check_data
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema

MOST_LINES = 12


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a schema changes in rows that were made elsewhere.

    Attributes:
        rows: how many rows there are.
        checks: the columns in which something changes.
        left_out: columns of the table that the schema does not know.
    """

    rows: int
    checks: tuple[ColumnCheck, ...] = ()
    left_out: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """One line for each kind of change, worst columns first; empty where nothing changes."""
        found = [
            (_changed(check), f"column {check.name}, of {self.rows:,} values: {note}")
            for check in self.checks
            for note in check.notes()
        ]
        lines = [line for _, line in sorted(found, key=lambda one: -one[0])]
        if len(lines) > MOST_LINES:
            more = len(lines) - MOST_LINES
            lines = [*lines[:MOST_LINES], f"and {more} more changes, all listed in the statement"]
        if self.left_out:
            lines.append(f"columns not in the schema were left out: {', '.join(self.left_out)}")
        return lines

    def facts(self) -> dict[str, Any]:
        """The same as JSON values."""
        kinds = ("missing", "unparsable", "low", "high", "fractional", "unseen")
        changed = {
            check.name: {
                **{kind: n for kind in kinds if (n := getattr(check, kind))},
                "becomes": check.notes(),
            }
            for check in self.checks
        }
        return {"rows": self.rows, "columns": changed, "left_out": list(self.left_out)}


def take_rows(frame: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, Findings]:
    """Another tool's rows as rows of a schema, and what that changed.

    Args:
        frame: as it was read; texts may stand for numbers.
        schema: what is publicly known of the columns.

    Raises:
        SchemaError: a column is missing.

    Example:
        >>> from marginalsyn.table.schema import Schema
        >>> frame = pd.DataFrame({"a": ["0", "1.5", "weekly"]})
        >>> rows, found = take_rows(frame, Schema.from_domain({"a": 3}))
        >>> found.lines()[0]
        "column a, of 3 values: 1 not numbers ('weekly'): become '0'"
    """
    rows = Codec(schema).conform(frame)
    checks = check_data(frame, schema)
    known = {*schema.names, *schema.drop}
    return rows, Findings(
        rows=len(frame),
        checks=tuple(check for check in checks if check.notes()),
        left_out=tuple(str(name) for name in frame.columns if str(name) not in known),
    )


def _changed(check: ColumnCheck) -> int:
    return check.unparsable + check.unseen + check.low + check.high + check.fractional
