"""From codes back to values: labels restored, numbers drawn inside their bin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from marginalsyn.table.columns import ListedColumn
from marginalsyn.table.moments import MomentColumn, codes_of, part_columns, part_name, steer
from marginalsyn.table.numeric import IntegerColumn, NumberColumn, Shape
from marginalsyn.table.schema import AnyColumn

if TYPE_CHECKING:
    from marginalsyn.table.codec import Codec


def drawn(
    columns: Sequence[AnyColumn], codes: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Numbers for the codes of numeric columns, and all codes, those of dates' parts made true."""
    places = {column.name: place for place, column in enumerate(columns)}
    numbers = {}
    true = {}
    for column in columns:
        if not isinstance(column, NumberColumn):
            continue
        own = np.ascontiguousarray(codes[:, places[column.name]])
        numbers[column.name] = draw_numbers(column, own, rng)
        if isinstance(column, MomentColumn) and column.parts:
            wanted: dict[str, np.ndarray] = {
                part: codes[:, places[part_name(column, part)]] for part in column.parts
            }
            absent = own >= column.levels
            edges, bins = column.edges.astype(np.int64), np.where(absent, 0, own)
            steered = steer(column, numbers[column.name], edges[bins], edges[bins + 1], wanted)
            numbers[column.name] = steered
            for part, one in zip(column.parts, part_columns(column), strict=True):
                found = np.where(absent, one.absent_code, codes_of(part, steered, column.unit))
                true[places[one.name]] = found
    if true:
        codes = np.array(codes)
        for place, found in true.items():
            codes[:, place] = found
    return codes, numbers


def series(
    columns: Sequence[AnyColumn], codes: np.ndarray, numbers: Mapping[str, np.ndarray]
) -> Iterator[pd.Series]:
    """Codes and numbers as a release's columns."""
    for place, column in enumerate(columns):
        own = np.ascontiguousarray(codes[:, place])
        if isinstance(column, NumberColumn):
            absent = own >= column.levels
            known = np.where(absent, column.lower, numbers[column.name])
            yield finish(column, known, absent)
        else:
            yield listed(column, own)


def with_true_parts(frame: pd.DataFrame, codec: Codec) -> pd.DataFrame:
    """Rows whose parts of dates are those of their dates."""
    for column in codec.schema.columns:
        if isinstance(column, MomentColumn) and column.parts:
            numbers = codec.numbers(frame, column.name)
            absent = np.isnan(numbers)
            known = np.where(absent, column.lower, numbers).astype(np.int64)
            for part, one in zip(column.parts, part_columns(column), strict=True):
                true = codes_of(part, known, column.unit)
                frame[one.name] = listed(one, np.where(absent, one.absent_code, true))
    return frame


def decode(column: AnyColumn, codes: np.ndarray, rng: np.random.Generator) -> pd.Series:
    """Return one value per code: a listed value, or a draw inside the bin, by its shape or even."""
    if isinstance(column, ListedColumn):
        return listed(column, codes)
    return finish(column, draw_numbers(column, codes, rng), codes >= column.levels)


def draw_numbers(column: NumberColumn, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A number inside the bin of every code; of missing ones, inside the first."""
    bins = np.where(codes >= column.levels, 0, codes)
    if isinstance(column.shape, Shape) and len(bins):
        return _shaped(column, column.shape, bins, rng)
    if isinstance(column, IntegerColumn):
        edges = column.edges.astype(np.int64)
        return rng.integers(edges[bins], edges[bins + 1])
    if column.decimals is not None:
        first, last = column.grid()
        steps = rng.integers(first[bins], last[bins] + 1)
        return steps / 10.0**column.decimals
    edges = column.edges
    low, high = edges[bins], edges[bins + 1]
    numbers = low + rng.random(len(bins)) * (high - low)
    # Rounding may reach the upper edge, which belongs to the next bin.
    below = np.where(bins + 1 < column.levels, np.nextafter(high, low), high)
    return np.clip(numbers, low, below)


def _shaped(
    column: NumberColumn,
    shape: Shape,
    bins: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """A draw inside each bin: a piece by its weight, then evenly among the piece's values."""
    edges = column.edges
    low, high = shape.pieces(edges, bins, rng)
    drawn = low + rng.random(len(bins)) * (high - low)
    if isinstance(column, IntegerColumn):
        return np.clip(np.floor(drawn), edges[bins], edges[bins + 1] - 1).astype(np.int64)
    if column.decimals is not None:
        # The steps of the decimal grid that a piece holds.
        first, last = column.grid()
        scale = 10.0**column.decimals
        steps = np.ceil(low * scale - 1e-6)
        count = np.maximum(1, np.ceil(high * scale - 1e-6) - steps)
        steps += np.floor(rng.random(len(bins)) * count)
        return np.clip(steps, first[bins], last[bins]) / scale
    below = np.where(bins + 1 < column.levels, np.nextafter(edges[bins + 1], low), edges[bins + 1])
    return np.clip(drawn, edges[bins], below)


def finish(column: NumberColumn, values: np.ndarray, absent: np.ndarray) -> pd.Series:
    """Return numbers with the column's dtype, or as the texts that a column of such holds.

    ``absent`` rows are missing if it is nullable.
    """
    if column.worded:
        texts: list[str | None] = list(column.write(np.asarray(values)))
        if column.nullable:
            texts = [None if gone else text for text, gone in zip(texts, absent, strict=True)]
        return pd.Series(texts, name=column.name, dtype="str")
    if isinstance(column, IntegerColumn):
        whole = values.astype(np.int64)
        if column.nullable:
            return pd.Series(pd.arrays.IntegerArray(whole, absent.astype(bool)), name=column.name)
        return pd.Series(whole, name=column.name)
    numbers = np.asarray(values, dtype=np.float64)
    if column.nullable:
        numbers = np.where(absent, np.nan, numbers)
    return pd.Series(numbers, name=column.name)


def settle(column: NumberColumn, values: np.ndarray) -> np.ndarray:
    """Return numbers within the bounds as the column writes them: whole, or with its decimals."""
    if isinstance(column, IntegerColumn):
        return np.clip(np.floor(values), column.lower, column.upper)
    if column.decimals is not None:
        scale = 10.0**column.decimals
        first, last = column.grid()
        return np.clip(np.rint(values * scale), first[0], last[-1]) / scale
    return np.clip(values, column.lower, column.upper)


def numbers_of(column: AnyColumn, units: np.ndarray) -> np.ndarray:
    """The numbers, whole ones where the column's are, that unit coordinates stand for."""
    low, high = column.lower, column.upper  # type: ignore[union-attr]
    numbers = low + np.clip(units, 0, 1) * (high - low)
    return np.rint(numbers) if column.whole else numbers  # type: ignore[union-attr]


def listed(column: ListedColumn, codes: np.ndarray) -> pd.Series:
    """Return the category, label, OTHER or missing of every code."""
    return pd.Series(_lookup(column).take(codes), name=column.name)


def _lookup(column: ListedColumn) -> Any:
    """One value per code, in an array whose dtype depends on the schema alone."""
    values: list[Any] = list(column.writable)
    kinds = {type(value) for value in values}
    if column.nullable:
        values.append(None)
    if kinds == {str}:
        return pd.Series(values).array
    if kinds == {float}:
        return pd.array(np.array(values, dtype=np.float64), dtype="float64")
    if kinds == {int} and all(abs(value) < 2**63 for value in values if value is not None):
        return pd.array(values, dtype="Int64" if column.nullable else "int64")
    if kinds == {bool}:
        return pd.array(values, dtype="boolean" if column.nullable else "bool")
    return pd.array(values, dtype=object)
