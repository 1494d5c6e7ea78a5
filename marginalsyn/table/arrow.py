"""Converts pandas frames to Arrow tables, each value by its own type alone.

What a value becomes is decided by the value and its column's dtype alone, never by its neighbours:
a type that were inferred for a whole column would let one row re-encode all others.
"""

from __future__ import annotations

import datetime
import enum
import math
import numbers
import uuid
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from marginalsyn.errors import SchemaError, UsageError

# The four plain types. A column that needs more than one is a struct of those it needs, in which
# every row has at most one field; ``encoding`` codes each field as it does a column of that type.
PLAIN = {
    "truth": pa.bool_(),
    "whole": pa.int64(),
    "real": pa.float64(),
    "text": pa.string(),
}
# Names that pandas has for columns of one class.
ALIKE = {"boolean": "truth", "integer": "whole", "floating": "real", "string": "text"}
# What lists, records and objects of other classes become: their own texts may hold addresses.
OBJECT = "<object>"
MOST_WHOLE = 2**63
BLOCK = 2**17


# Whole numbers and truth values keep their kind where some are missing.
NULLABLE = {
    pa.bool_(): pd.BooleanDtype(),
    **{
        getattr(pa, name.lower())(): getattr(pd, f"{name}Dtype")()
        for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
    },
}


@runtime_checkable
class ArrowStream(Protocol):
    """A table of any library that hands itself over as Arrow, such as polars, DuckDB or pyarrow."""

    def __arrow_c_stream__(self) -> object: ...


def in_pandas(given: Any) -> Any:
    """Another library's table as a pandas frame; all else, and a table in a database, as it is."""
    ours = isinstance(given, pd.DataFrame) or type(given).__module__.startswith("ibis.")
    if ours or not isinstance(given, ArrowStream):
        return given
    try:
        table = pa.table(given)
    except pa.ArrowInvalid:
        raise UsageError(
            f"data ({type(given).__name__}) must be a table, not one column: put it into a frame"
        ) from None
    return table.to_pandas(types_mapper=_in_frame)


def _in_frame(kind: Any) -> Any:
    """The dtype of an Arrow type; None where pandas has one that holds every value of it."""
    of = pa.types
    own = (of.is_nested, of.is_date, of.is_time, of.is_dictionary)
    return pd.ArrowDtype(kind) if any(test(kind) for test in own) else NULLABLE.get(kind)


def arrow_table(frame: pd.DataFrame, names: Sequence[str]) -> pa.Table:
    """Return the named columns as booleans, numbers, text or structs of these; NaN is null."""
    twice = [name for name in names if list(frame.columns).count(name) > 1]
    if twice:
        raise SchemaError(f"columns ({', '.join(twice)}) must be in the table once: rename them")
    return pa.table({name: _column(frame[name]) for name in names})


def objects_of(series: pd.Series) -> Iterator[Any]:
    """The values of a column; what has no Python value is its text."""
    if not isinstance(series.dtype, pd.ArrowDtype):
        yield from series
        return
    for scalar in pa.array(series):
        try:
            yield scalar.as_py()
        except Exception:
            # A time of more digits than Python's, or beyond them, which PyArrow asserts not to be.
            yield scalar.cast(pa.string()).as_py() if pa.types.is_time(scalar.type) else OBJECT


def _column(series: pd.Series) -> Any:
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        codes = series.cat.codes.to_numpy()
        listed = series.cat.categories
        categories = _column(pd.Series(listed, dtype=listed.dtype))
        return categories.take(pa.array(codes, pa.int64(), mask=codes < 0))
    if isinstance(dtype, pd.SparseDtype):
        return _column(pd.Series(np.asarray(series)))
    if isinstance(dtype, pd.DatetimeTZDtype):
        return _times(series.dt.tz_convert(None).to_numpy(), "+00")
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return _times(series.to_numpy())
    if pd.api.types.is_object_dtype(dtype):
        return _alike(series)
    return _typed(series)


def _alike(series: pd.Series) -> Any:
    """Objects, faster where all are of one class: the outcome is the same."""
    field = ALIKE.get(pd.api.types.infer_dtype(series))
    if field is not None:
        try:
            return pa.array(series, PLAIN[field], from_pandas=True)
        except (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError):
            pass  # a number beyond 64 bits, or half of a character
    return _objects(series)


def _typed(series: pd.Series) -> Any:
    """A column whose dtype gives each value its type."""
    if isinstance(series.dtype, pd.PeriodDtype | pd.IntervalDtype):
        return _objects(series)
    try:
        array = pa.array(series, from_pandas=True)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, UnicodeEncodeError):
        return _objects(series)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind, of = array.type, pa.types
    if of.is_dictionary(kind):
        listed = pd.arrays.ArrowExtensionArray(array.dictionary)
        return _typed(pd.Series(listed)).take(array.indices)
    if of.is_null(kind):
        return array.cast(pa.string())
    if of.is_float16(kind):
        return array.cast(pa.float32())
    if of.is_uint64(kind) and (pc.max(array).as_py() or 0) >= MOST_WHOLE:
        return _objects(array.to_pylist())
    if of.is_timestamp(kind):
        zone = "+00" if kind.tz else ""
        return _times(array.cast(pa.timestamp(kind.unit)).to_numpy(zero_copy_only=False), zone)
    plain = (of.is_boolean, of.is_integer, of.is_floating, of.is_string, of.is_large_string)
    return array if any(test(kind) for test in plain) else _objects(objects_of(series))


def _objects(values: Iterable[Any]) -> Any:
    """One array, or a struct of several, for values of any classes."""
    fields: dict[str, list[Any]] = {}
    count = 0
    for count, value in enumerate(values, 1):
        if found := _plain(value):
            # Filled up with nulls when it is needed: most columns use one field.
            field = fields.setdefault(found[0], [])
            field.extend([None] * (count - 1 - len(field)))
            field.append(found[1])
    fields = fields or {"text": []}
    arrays = {
        name: pa.array(fields[name] + [None] * (count - len(fields[name])), kind)
        for name, kind in PLAIN.items()
        if name in fields
    }
    columns = [*arrays.values()]
    return columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, [*arrays])


def _plain(value: Any) -> tuple[str, Any] | None:
    """The field that a value goes to and what it is there, None where it is missing.

    A datum that pandas would hold in a typed column becomes the same as it does there.
    """
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, str):
        return "text", _unicode(str.__str__(value))  # an enumeration of texts says its value
    # NumPy counts its durations among the integers.
    duration = isinstance(value, np.timedelta64)
    if isinstance(value, bool | np.bool_):
        return "truth", bool(value)
    if isinstance(value, int | np.integer) and not duration:
        whole = int(value)
        return ("whole", whole) if -MOST_WHOLE <= whole < MOST_WHOLE else _real(whole)
    if isinstance(value, Decimal) and value.is_nan():
        return None
    if isinstance(value, float | np.floating | Decimal | numbers.Rational) and not duration:
        return _real(value)
    text = _text(value)
    return None if text is None else ("text", _unicode(text))


def _unicode(text: str) -> str:
    """A text with U+FFFD for what is no character, such as half of one in UTF-16."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _real(value: Any) -> tuple[str, float] | None:
    try:
        real = float(value)
    except OverflowError:
        real = math.inf if value > 0 else -math.inf
    return None if math.isnan(real) else ("real", real)


def _text(value: Any) -> str | None:
    """The text of a value that is neither text nor number."""
    if isinstance(value, datetime.datetime | np.datetime64):
        return _time(value)
    if isinstance(value, datetime.timedelta | np.timedelta64):
        try:
            value = pd.Timedelta(value)
        except (ValueError, OverflowError, AssertionError):
            return str(value)
        return None if value is pd.NaT else str(value)
    if isinstance(value, bytes):
        return repr(bytes(value))
    if isinstance(value, complex | np.complexfloating):
        return str(complex(value))
    known = (
        datetime.date | datetime.time | enum.Enum | pd.Interval | pd.Period | PurePath | uuid.UUID
    )
    return str(value) if isinstance(value, known) else OBJECT


def _time(value: datetime.datetime | np.datetime64) -> str | None:
    zone = ""
    try:
        if isinstance(value, datetime.datetime) and value.utcoffset() is not None:
            value, zone = value.astimezone(datetime.UTC).replace(tzinfo=None), "+00"
        if isinstance(value, pd.Timestamp):
            value = value.to_datetime64()
        return _times(np.array([value], np.datetime64), zone)[0].as_py()
    except (ValueError, OverflowError):
        return str(value)


def _times(values: np.ndarray, zone: str = "") -> Any:
    """Times as text, as DuckDB writes them: a fraction only where there is one, zones as UTC."""
    unit = np.datetime_data(values.dtype)[0]
    if unit in ("Y", "M", "W", "D", "h", "m"):
        values, unit = values.astype("datetime64[s]"), "s"
    blocks = []
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        texts = pa.array(np.datetime_as_string(block), pa.string(), mask=np.isnat(block))
        texts = pc.replace_substring(texts, "T", " ")
        texts = texts if unit == "s" else pc.replace_substring_regex(texts, r"\.?0*$", "")
        blocks.append(pc.binary_join_element_wise(texts, zone, "") if zone else texts)
    return pa.concat_arrays(blocks) if blocks else pa.array([], pa.string())
