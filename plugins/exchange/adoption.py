"""Adoption: what another tool made becomes a release that says whose words its guarantee is.

The numbers of its statement count what is spent here from now on, never what the other tool spent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from marginalsyn.contract import Model, Synthesis
from marginalsyn.errors import DataError, UsageError
from marginalsyn.generators.marginals import store_model, whole_rows
from marginalsyn.graphical.one_way import draw_frame
from marginalsyn.operations.other_rows import adoption_facts, write_adopted
from marginalsyn.plugins.exchange.parcel import Parcel
from marginalsyn.plugins.exchange.redrawing import (
    Refit,
    refit,
    schema_of,
    spare_codes,
    whole_marginals,
)
from marginalsyn.progress import Progress, Silent
from marginalsyn.release.derivation import AS_WRITTEN, REDRAWN
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema
from marginalsyn.weights.support import find_support

KIND = "fixed-marginals"
"""The generator whose ``sample`` reads the models that are fitted here."""


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

    From measurements, or else from the tool's model, rows are drawn again: post-processing, which
    costs no privacy.

    Args:
        parcel: what the other tool gave.
        path: the release folder.
        schema: what is publicly known of the columns; by default the parcel's labels or codes.
        redraw: draw new rows. By default so where there are measurements or a model.
        rows: how many; by default the estimated number of private rows.
        stated: what is claimed of its privacy; by default what the parcel says.
        rng: draws the rows; it may be seeded, for it protects nothing.
        format: of the rows.
        force: replace a release of this name.
        progress: reports what happens; silent by default.
    """
    progress, rng = progress or Silent(), rng or np.random.default_rng(None)
    schema = schema or schema_of(parcel)
    fits = bool(parcel.measurements or parcel.potentials)
    redraw = fits if redraw is None else redraw
    if not redraw and parcel.rows is None:
        raise UsageError("source holds no rows: they must be drawn from what it measured")
    if redraw and not fits:
        raise UsageError("source must hold measurements or a model to draw rows from")
    facts = adoption_facts(
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
        return _adopt_as_written(parcel, schema, found, facts, path, rng, format, force)
    estimated = whole_rows(found.fitted.total)
    progress.report("generate", text="rows")
    synthesis = Synthesis(
        frame=draw_frame(found.fitted, found.compression, schema, rows or estimated, rng),
        measurements=found.measurements,
        model=_model(found),
        notes={"estimated_rows": estimated},
    )
    return write_adopted(synthesis, schema, path, facts, None, format, force)


def _adopt_as_written(
    parcel: Parcel,
    schema: Schema,
    found: Refit | None,
    facts: Mapping[str, Any],
    path: str | Path,
    rng: np.random.Generator,
    format: Literal["csv", "parquet"],
    force: bool,
) -> Release:
    """The parcel's own rows, and whether the weights could be worth anything with them."""
    frame = _decoded(parcel, schema, rng)
    measured = found.measurements if found is not None else whole_marginals(parcel, schema)
    fitted = (found.fitted, found.compression) if found is not None else None
    support = find_support(frame, schema, measured, fitted)
    facts = {**facts, **({"support": support.facts()} if support else {})}
    synthesis = Synthesis(
        frame=frame,
        measurements=measured,
        warnings=[support.line()] if support and support.lacking else [],
        model=_model(found) if found is not None else None,
    )
    return write_adopted(synthesis, schema, path, facts, None, format, force)


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
