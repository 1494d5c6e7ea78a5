"""Rows drawn again from what another tool measured, or from its model: free post-processing.

A sampler can lose what a model knows: mbi 1.1's default one makes columns that the model holds
independent come out sorted alike. Weights cannot bring back rows that are missing; a redraw can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from marginalsyn.contract import Measurement, Model, Synthesis
from marginalsyn.errors import DataError, SchemaError, UsageError
from marginalsyn.generators.marginals import store_model, whole_rows
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.compression import Compression, Merge, with_shares
from marginalsyn.graphical.estimation import estimate_total
from marginalsyn.graphical.model import Fitted
from marginalsyn.graphical.one_way import draw_frame
from marginalsyn.operations.other_rows import adoption_facts, write_adopted
from marginalsyn.plugins.exchange.parcel import Parcel, Part
from marginalsyn.progress import Progress, Silent
from marginalsyn.release.derivation import AS_WRITTEN, REDRAWN
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.schema import Schema
from marginalsyn.weights.support import find_support

MAX_MB = 500.0
Zeros = list[tuple[tuple[str, ...], np.ndarray]]


@dataclass(frozen=True, kw_only=True)
class Refit:
    """A model of a parcel over a schema's codes.

    Attributes:
        fitted: over merged codes, where the parcel's measurements merge some.
        compression: how codes were merged.
        measurements: the parcel's, over the schema's codes.
    """

    fitted: Fitted
    compression: Compression
    measurements: tuple[Measurement, ...]


def schema_of(parcel: Parcel) -> Schema:
    """A schema that says no more than the parcel: its labels as categories, else whole numbers."""
    plain = Schema.from_domain(parcel.domain)
    columns = [
        CategoricalColumn(name=name, categories=tuple(parcel.labels[name]), other=False)
        if name in parcel.labels
        else plain.column(name)
        for name in parcel.domain
    ]
    return Schema(columns=columns)  # type: ignore[arg-type]


def spare_codes(parcel: Parcel, schema: Schema) -> dict[str, int]:
    """How many of the schema's last codes (OTHER, missing) the parcel does not know, by column.

    Raises:
        SchemaError: the parcel's codes cannot be the schema's.
    """
    strange = sorted({*parcel.domain} ^ {*schema.names})
    if strange:
        raise SchemaError(
            f"columns ({', '.join(strange)}) must be in the schema and in the source alike"
        )
    spare = {}
    for column in schema.columns:
        size, given = parcel.domain[column.name], parcel.labels.get(column.name)
        if not column.levels <= size <= column.size:
            raise SchemaError(
                f"column ({column.name}) has {size} codes in the source and {column.size} in the "
                "schema; they must be the same codes in the same order (the schema's last ones, "
                "OTHER and missing, may be unknown to the source)"
            )
        labels = column.labels()
        if given is not None and column.kind in ("categorical", "boolean"):
            differing = [
                f"{code}: {one!r}, in the schema {labels[code]!r}"
                for code, one in enumerate(given)
                if str(one) != labels[code]
            ]
            if differing and set(map(str, given[: column.levels])) == set(labels[: column.levels]):
                raise SchemaError(
                    f"column ({column.name}) must have its values in one order: code "
                    f"{differing[0]}; give the schema the source's order"
                )
            if differing:
                raise SchemaError(f"column ({column.name}) has other values: code {differing[0]}")
        spare[column.name] = column.size - size
    return spare


def refit(parcel: Parcel, schema: Schema, *, progress: Progress | None = None) -> Refit:
    """Fit our model to the parcel's measurements; without any, take its own model over.

    Raises:
        SchemaError: the codes are not the schema's.
        DataError: the parcel holds neither, or its model would be too large.
    """
    spare = spare_codes(parcel, schema)
    if not parcel.measurements and not parcel.potentials:
        raise DataError("source must hold measurements or a model to draw rows from")
    compression = Compression(_merges(parcel, schema, spare))
    merged = {name for name, merge in compression.merges.items() if not merge.trivial}
    zeros: Zeros = [
        ((name,), np.arange(size) >= size - (1 if name in merged else spare[name]))
        for name, size in compression.domain.items()
        if spare[name]
    ]
    zeros += [zero for zero in schema.structural_zeros() if not merged & {*zero[0]}]
    if not parcel.measurements:
        tables = _potentials(parcel, spare)
        _check_size(schema.domain, list(tables))
        total = max(1.0, parcel.total or 1.0)
        fitted = Fitted.of_potentials(schema.domain, tables, total, zeros)
        return Refit(fitted=fitted, compression=compression, measurements=())
    released, observed = [_released(part, parcel.tool, spare) for part in parcel.measurements], []
    for part, found in zip(parcel.measurements, released, strict=True):
        # What was measured over merged codes needs no merging; the other columns do.
        kept = {
            name: Merge(np.arange(size, dtype=np.int32), np.ones(size))
            if name in part.groups
            else compression.merges[name]
            for name, size in zip(part.columns, found.values.shape, strict=True)
        }
        observed.append(Compression(kept).compress(found))
    total = max(1.0, parcel.total or estimate_total(parcel.measurements)[0])
    _check_size(compression.domain, [part.columns for part in parcel.measurements])
    fitted = pgm.fit(compression.domain, observed, total=total, zeros=zeros, progress=progress)
    return Refit(fitted=fitted, compression=compression, measurements=tuple(released))


def _potentials(parcel: Parcel, spare: Mapping[str, int]) -> dict[tuple[str, ...], np.ndarray]:
    """The potentials of the parcel's own model, with cells for codes that it does not know."""
    tables: dict[tuple[str, ...], np.ndarray] = {}
    for part in parcel.potentials:
        values = part.over_codes()
        for axis, name in enumerate(part.columns):
            values = _padded(values, axis, spare[name])
        tables[part.columns] = tables.get(part.columns, 0.0) + values
    if any(np.isnan(table).any() or np.isposinf(table).any() for table in tables.values()):
        raise DataError("the model's potentials must be numbers below infinity")
    return tables


def _released(part: Part, tool: str, spare: Mapping[str, int]) -> Measurement:
    """A measurement with cells for codes that its maker did not know."""
    values = np.asarray(part.values, dtype=float)
    for axis, name in enumerate(part.columns):
        more = min(spare[name], 1) if name in part.groups else spare[name]
        values = _padded(values, axis, more)
    return Measurement(columns=part.columns, values=values, sigma=part.sigma, purpose=f"by {tool}")


def _merges(parcel: Parcel, schema: Schema, spare: Mapping[str, int]) -> dict[str, Merge]:
    """How the measurements merge each column's codes; unknown codes have a group of their own."""
    merges = {}
    for name, size in schema.domain.items():
        given = [part.groups[name] for part in parcel.measurements if name in part.groups]
        if any(not np.array_equal(given[0], other) for other in given):
            raise DataError(
                f"column ({name}) must be merged in one way by all measurements; rows can still be "
                "adopted as they are with --no-redraw"
            )
        if not given:
            merges[name] = Merge(np.arange(size, dtype=np.int32), np.ones(size))
            continue
        groups = np.concatenate([given[0], np.full(spare[name], given[0].max() + 1)])
        members = np.bincount(groups)[groups]
        merge = Merge(groups.astype(np.int32), 1.0 / members)
        for part in parcel.measurements:
            if part.columns == (name,) and not part.groups:
                counts = _padded(np.asarray(part.values, float), 0, spare[name])
                merge = with_shares(merge, counts, part.sigma)
        merges[name] = merge
    return merges


def _padded(values: np.ndarray, axis: int, more: int) -> np.ndarray:
    """The table with cells for codes that its maker did not know: no row has them."""
    if not more:
        return values
    width = [(0, more if a == axis else 0) for a in range(values.ndim)]
    return np.pad(values, width)


def _check_size(domain: Mapping[str, int], cliques: list[tuple[str, ...]]) -> None:
    size = pgm.model_mb(domain, cliques)
    if size > MAX_MB:
        raise DataError(
            f"model ({size:,.0f} MB) must have at most {MAX_MB:,.0f} MB; the source's tables hold "
            "too many columns together. Adopt its rows as they are with --no-redraw"
        )


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
    if found is not None and redraw:
        estimated = whole_rows(found.fitted.total)
        progress.report("generate", text="rows")
        synthesis = Synthesis(
            frame=draw_frame(found.fitted, found.compression, schema, rows or estimated, rng),
            measurements=found.measurements,
            model=_model(found),
            notes={"estimated_rows": estimated},
        )
        return write_adopted(synthesis, schema, path, facts, None, format, force)
    # The parcel's own rows, and whether the weights could be worth anything with them.
    assert parcel.rows is not None
    spare = spare_codes(parcel, schema)
    order = [list(parcel.domain).index(name) for name in schema.names]
    frame = Codec(schema).decode(parcel.rows[:, order], rng)
    # Without those of merged codes.
    whole = [part for part in parcel.measurements if not part.groups]
    measured = tuple(_released(part, parcel.tool, spare) for part in whole)
    if found is not None:
        measured = found.measurements
    fitted = (found.fitted, found.compression) if found is not None else None
    support = find_support(frame, schema, measured, fitted)
    synthesis = Synthesis(
        frame=frame,
        measurements=measured,
        warnings=[support.line()] if support and support.lacking else [],
        model=_model(found) if found is not None else None,
    )
    facts = {**facts, **({"support": support.facts()} if support else {})}
    return write_adopted(synthesis, schema, path, facts, None, format, force)


def _model(found: Refit) -> Model:
    """What more rows can be sampled from."""
    rows = whole_rows(found.fitted.total)
    return store_model(found.fitted, found.compression, kind=KIND, rows=rows)
