"""Pandas frames as Arrow tables of plain types, whatever their columns hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from marginalsyn.columns import text_of
from marginalsyn.errors import DataError, SchemaError


def arrow_table(frame: pd.DataFrame, names: Sequence[str]) -> pa.Table:
    """Return the named columns as booleans, numbers, times or text; NaN and None become null."""
    twice = [name for name in names if list(frame.columns).count(name) > 1]
    if twice:
        raise SchemaError(f"columns ({', '.join(twice)}) must be in the table once: rename them")
    columns = {}
    for name in names:
        try:
            columns[name] = _arrow_column(frame[name])
        except UnicodeEncodeError:
            raise DataError(f"texts of column {name!r} must be valid Unicode") from None
    return pa.table(columns)


def _arrow_column(series: pd.Series) -> Any:
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(object)
    try:
        array = pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # Objects of several types: each is spelt as text.
        array = pa.array([_text(value) for value in series], pa.string())
    kind = array.type
    if pa.types.is_null(kind) or pa.types.is_dictionary(kind):
        return array.cast(pa.string())
    if pa.types.is_float16(kind):
        return array.cast(pa.float32())
    plain = (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )
    return array if plain else pa.array([_text(value) for value in series], pa.string())


def _text(value: Any) -> str | None:
    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return None
    return text_of(value) if isinstance(value, bool | int | float) else str(value)
