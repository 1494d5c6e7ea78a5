"""Rows that another tool made: what a schema changes in them, and releases of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from marginalsyn.contract import Synthesis, Target
from marginalsyn.drafting.check import ColumnCheck, check_data
from marginalsyn.errors import UsageError
from marginalsyn.operations.files import TABLES, read_table
from marginalsyn.operations.origins import labelled
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.zcdp import DEFAULT_DELTA
from marginalsyn.records.ledger import Ledger
from marginalsyn.release.derivation import ADOPTED, AS_WRITTEN
from marginalsyn.release.folder import Release
from marginalsyn.release.linked import PersonsRelease, is_linked_release
from marginalsyn.release.statement import ANOTHER_TOOL, state, today
from marginalsyn.table.codec import Codec
from marginalsyn.table.keeping import broken_rules
from marginalsyn.table.schema import Schema

FOREIGN = (
    "The rows were made by another tool. What they cost in privacy is unknown here: the total is "
    "that of what is spent from now on."
)
STATED = ("eps", "delta", "rho", "neighbours", "guarantee", "unit", "by")
"""What may be stated of adopted rows."""


def check_stated(stated: Mapping[str, Any]) -> dict[str, Any]:
    """What is claimed of adopted rows, as a statement may quote it.

    Raises:
        UsageError: an unknown entry, or a number that cannot be one of a guarantee.
    """
    found = {}
    for name in STATED:
        value = stated.get(name)
        if value is None:
            continue
        if name in ("eps", "delta", "rho"):
            most = 1.0 if name == "delta" else float("inf")
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UsageError(f"stated {name} ({value}) must be a number")
            if not 0 <= value < most:
                raise UsageError(f"stated {name} ({value}) must be at least 0 and below {most:g}")
        elif not isinstance(value, str) or len(value) > 500:
            raise UsageError(f"stated {name} ({value}) must be a text of up to 500 characters")
        found[name] = value
    unknown = sorted({*stated} - {*STATED})
    if unknown:
        raise UsageError(f"stated ({', '.join(unknown)}) must be one of: {', '.join(STATED)}")
    return found


def adopt_rows(
    frame: pd.DataFrame,
    schema: Schema,
    path: str | Path,
    *,
    tool: str = ANOTHER_TOOL,
    stated: Mapping[str, Any] | None = None,
    findings: Findings | None = None,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    format: Literal["csv", "parquet"] = "csv",
    force: bool = False,
) -> Release:
    """Make a release of rows that another tool made.

    Args:
        frame: typed by the schema; ``Codec(schema).conform`` does that.
        schema, path, format, force: as in :meth:`Release.write`.
        tool: what made the rows.
        stated: what is claimed of their privacy, with ``by``, whose claim it is.
        findings: what the schema changed in the rows.
        neighbours: the relation of what is bought for them here.

    Example:
        >>> rows = Codec(schema).conform(frame)
        >>> made = adopt_rows(rows, schema, "taken", stated={"eps": 1.0, "by": "the office"})
        >>> made.statement.eps, made.statement.notes["adopted"]["stated"]["eps"]
        (0.0, 1.0)
    """
    facts = adoption_facts(tool, AS_WRITTEN, stated, findings)
    made = Synthesis(frame=frame)
    return write_adopted(made, schema, path, facts, findings, format, force, neighbours)


def adoption_facts(
    tool: str, rows: str, stated: Mapping[str, Any] | None, findings: Findings | None, **more: Any
) -> dict[str, Any]:
    """The statement's entry about the adoption."""
    facts = {"tool": tool, "rows": rows, "stated": check_stated(stated or {}), **more}
    return {**facts, **({"changed": findings.facts()} if findings else {})}


def write_adopted(
    synthesis: Synthesis,
    schema: Schema,
    path: str | Path,
    facts: Mapping[str, Any],
    findings: Findings | None,
    format: Literal["csv", "parquet"],
    force: bool,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> Release:
    warnings = [
        FOREIGN,
        *synthesis.warnings,
        *(findings.lines() if findings else ()),
        *(
            f"rule ({text}): {count:,} of the other tool's rows break it, and stay as they are"
            for text, count in broken_rules(synthesis.frame, schema).items()
        ),
    ]
    statement = state(
        generator=ANOTHER_TOOL,
        parameters={"tool": facts["tool"]},
        bought=schema.charges,
        charges=(),
        payments=(),
        neighbours=neighbours,
        target_delta=DEFAULT_DELTA,
        schema_drafted=schema.drafted_from_data,
        warnings=warnings,
        notes={**synthesis.notes, ADOPTED: facts},
        created=today(),
    )
    return Release.write(synthesis, schema, statement, path, format=format, force=force)


MOST_LINES = 12
# What a schema may change in a column's values.
CHANGES = ("unparsable", "low", "high", "fractional", "unseen")


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
        lines = [
            f"column {check.name}, of {self.rows:,} values: {note}"
            for check in sorted(
                self.checks, key=lambda check: -sum(getattr(check, kind) for kind in CHANGES)
            )
            for note in check.notes()
        ]
        if len(lines) > MOST_LINES:
            more = len(lines) - MOST_LINES
            lines = [*lines[:MOST_LINES], f"and {more} more changes, all listed in the statement"]
        if self.left_out:
            lines.append(f"columns not in the schema were left out: {', '.join(self.left_out)}")
        return lines

    def facts(self) -> dict[str, Any]:
        """The same as JSON values."""
        changed = {
            check.name: {
                **{kind: n for kind in ("missing", *CHANGES) if (n := getattr(check, kind))},
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


def read_target(
    path: Path, schema: str | Path | None, label: str | None
) -> tuple[Target, Findings | None]:
    """The rows to be weighted, and what the schema changed in those of another tool's file."""
    if path.suffix not in TABLES or path.is_dir():
        # Of linked tables persons are weighted: all rows that belong to one have its weight.
        reader = PersonsRelease if is_linked_release(path) else Release
        return Target.of(reader.read(path)), None
    if schema is None:
        raise UsageError(f"rows ({path}) that another tool made need a schema: add --schema FILE")
    known = labelled(Schema.read(schema), label)
    frame, findings = take_rows(read_table(path), known)
    return Target(frame=frame, schema=known, rows=float(max(len(frame), 1))), findings


@contextmanager
def adopted(
    target: Target,
    findings: Findings | None,
    folder: Path | None,
    neighbours: Neighbours,
    force: bool,
    ledger: Ledger | None,
) -> Iterator[Release]:
    """The release of the rows; made of them, in ``folder``, where they are another tool's.

    Without a folder it is gone afterwards. So is one in a new folder if the run fails before it is
    charged.
    """
    if target.release is not None:
        yield target.release
        return
    adopt = partial(
        adopt_rows, target.frame, target.schema, findings=findings, neighbours=neighbours
    )
    if folder is None:
        with tempfile.TemporaryDirectory() as place:
            yield adopt(Path(place) / "rows")
    else:
        new = not folder.exists()
        made = adopt(folder, force=force)
        try:
            yield made
        except BaseException:
            if new and not (ledger is not None and ledger.made()):
                shutil.rmtree(made.path, ignore_errors=True)
            raise
