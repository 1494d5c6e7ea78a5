"""Adoption: what another tool made becomes a release that says whose words its guarantee is.

The numbers of its statement count what is spent here from now on, never what the other tool spent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from marginalsyn.contract import Model, Synthesis
from marginalsyn.errors import DataError, UsageError
from marginalsyn.generators.marginals import store_model, whole_rows
from marginalsyn.graphical.one_way import draw_frame
from marginalsyn.plugins.exchange.foreign import Findings
from marginalsyn.plugins.exchange.parcel import Parcel
from marginalsyn.plugins.exchange.redrawing import (
    Refit,
    refit,
    schema_of,
    spare_codes,
    whole_marginals,
)
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.zcdp import DEFAULT_DELTA
from marginalsyn.progress import Progress, Silent
from marginalsyn.release.derivation import ADOPTED, AS_WRITTEN, REDRAWN
from marginalsyn.release.folder import Release
from marginalsyn.release.statement import ANOTHER_TOOL, state, today
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema
from marginalsyn.weights.support import find_support

FOREIGN = (
    "The rows were made by another tool. What they cost in privacy is unknown here: the total is "
    "that of what is spent from now on."
)
STATED = ("eps", "delta", "rho", "neighbours", "guarantee", "unit", "by")
"""What may be stated of adopted rows."""
KIND = "fixed-marginals"
"""The generator whose ``sample`` reads the models that are fitted here."""


def check_stated(stated: Mapping[str, Any]) -> dict[str, Any]:
    """What is claimed of adopted rows, as a statement may quote it.

    Raises:
        UsageError: an unknown entry, or a number that cannot be one of a guarantee.
    """
    found: dict[str, Any] = {}
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
        schema: what is publicly known of the columns.
        path: the release folder.
        tool: what made the rows.
        stated: what is claimed of their privacy, with ``by``, whose claim it is.
        findings: what the schema changed in the rows.
        neighbours: the relation of what is bought for them here.
        format: of the rows.
        force: replace a release of this name.

    Example:
        >>> rows = Codec(schema).conform(frame)
        >>> made = adopt_rows(rows, schema, "taken", stated={"eps": 1.0, "by": "the office"})
        >>> made.statement.eps, made.statement.notes["adopted"]["stated"]["eps"]
        (0.0, 1.0)
    """
    told = _told(tool, AS_WRITTEN, stated, findings)
    made = Synthesis(frame=frame)
    return _write(made, schema, path, told, findings, format, force, neighbours)


def adopt_parcel(
    parcel: Parcel,
    path: str | Path,
    *,
    schema: Schema | None = None,
    redraw: bool | None = None,
    rows: int | None = None,
    stated: Mapping[str, Any] | None = None,
    rng: np.random.Generator | None = None,
    format: Literal["csv", "parquet"] = "csv",
    force: bool = False,
    progress: Progress | None = None,
) -> Release:
    """Make a release of what another tool measured, modelled or drew.

    From measurements, or else from the tool's model, rows are drawn anew: post-processing, which
    costs no privacy.

    Args:
        parcel: what the other tool gave.
        path: the release folder.
        schema: what is publicly known of the columns; by default the parcel's labels or codes.
        redraw: draw rows anew. By default so where there are measurements or a model.
        rows: how many; by default the estimated number of private rows.
        stated: what is claimed of its privacy; by default what the parcel says.
        rng: draws the rows; it may be seeded, for it protects nothing.
        format: of the rows.
        force: replace a release of this name.
        progress: told what happens; silent by default.
    """
    progress, rng = progress or Silent(), rng or np.random.default_rng(None)
    schema = schema or schema_of(parcel)
    fits = bool(parcel.measurements or parcel.potentials)
    redraw = fits if redraw is None else redraw
    if not redraw and parcel.rows is None:
        raise UsageError("source holds no rows: they must be drawn from what it measured")
    if redraw and not fits:
        raise UsageError("source must hold measurements or a model to draw rows from")
    told = _told(
        parcel.tool,
        REDRAWN if redraw else AS_WRITTEN,
        parcel.stated if stated is None else stated,
        None,
        measurements=len(parcel.measurements),
        model="refitted" if parcel.measurements else "the tool's" if fits else "none",
    )
    progress.report("estimate", text=f"{len(parcel.measurements)} measurements")
    try:
        found = refit(parcel, schema, progress=progress) if fits else None
    except DataError:
        # Too large a model, say: the rows can be taken without one.
        if redraw:
            raise
        found = None
    if found is None or not redraw:
        return _adopt_as_written(parcel, schema, found, told, path, rng, format, force)
    estimated = whole_rows(found.fitted.total)
    progress.report("generate", text="rows")
    synthesis = Synthesis(
        frame=draw_frame(found.fitted, found.compression, schema, rows or estimated, rng),
        measurements=found.measurements,
        model=_model(found),
        notes={"estimated_rows": estimated},
    )
    return _write(synthesis, schema, path, told, None, format, force)


def _adopt_as_written(
    parcel: Parcel,
    schema: Schema,
    found: Refit | None,
    told: Mapping[str, Any],
    path: str | Path,
    rng: np.random.Generator,
    format: Literal["csv", "parquet"],
    force: bool,
) -> Release:
    """The parcel's own rows, with what tells whether they are worth anything."""
    frame = _decoded(parcel, schema, rng)
    held = found.measurements if found is not None else whole_marginals(parcel, schema)
    fitted = (found.fitted, found.compression) if found is not None else None
    support = find_support(frame, schema, held, fitted)
    told = {**told, **({"support": support.facts()} if support else {})}
    synthesis = Synthesis(
        frame=frame,
        measurements=held,
        warnings=[support.line()] if support and support.lacking else [],
        model=_model(found) if found is not None else None,
    )
    return _write(synthesis, schema, path, told, None, format, force)


def _model(found: Refit) -> Model:
    """What more rows can be sampled from."""
    rows = whole_rows(found.fitted.total)
    return store_model(found.fitted, found.compression, kind=KIND, rows=rows)


def _decoded(parcel: Parcel, schema: Schema, rng: np.random.Generator) -> pd.DataFrame:
    """The parcel's own rows as values."""
    assert parcel.rows is not None
    spare_codes(parcel, schema)
    order = [list(parcel.domain).index(name) for name in schema.names]
    return Codec(schema).decode(parcel.rows[:, order], rng)


def _told(
    tool: str,
    rows: str,
    stated: Mapping[str, Any] | None,
    findings: Findings | None,
    **facts: Any,
) -> dict[str, Any]:
    """What the statement says of the adoption."""
    told = {"tool": tool, "rows": rows, "stated": check_stated(stated or {}), **facts}
    return {**told, **({"changed": findings.facts()} if findings else {})}


def _write(
    synthesis: Synthesis,
    schema: Schema,
    path: str | Path,
    told: Mapping[str, Any],
    findings: Findings | None,
    format: Literal["csv", "parquet"],
    force: bool,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> Release:
    warnings: Sequence[str] = [
        FOREIGN,
        *synthesis.warnings,
        *(findings.lines() if findings else ()),
    ]
    statement = state(
        generator=ANOTHER_TOOL,
        parameters={"tool": told["tool"]},
        bought=schema.charges,
        charges=(),
        payments=(),
        neighbours=neighbours,
        target_delta=DEFAULT_DELTA,
        schema_drafted=schema.drafted_from_data,
        warnings=warnings,
        notes={**synthesis.notes, ADOPTED: told},
        created=today(),
    )
    return Release.write(synthesis, schema, statement, path, format=format, force=force)
