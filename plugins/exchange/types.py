"""Arrow, SQL and pandas types: through Ibis, whose types are those of all its engines."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import ibis
import pandas as pd

from marginalsyn.errors import SchemaError
from marginalsyn.plugins.exchange.drafts import Draft

_RANGES = {"int8": (-128, 127), "uint8": (0, 255)}


def of_arrow(path: Path) -> Draft:
    """The types in the footer of a Parquet, Arrow or Feather file; no row and no statistic."""
    import ibis
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix == ".parquet":
            found = pq.read_schema(path)
        else:
            with pa.memory_map(str(path)) as source:
                found = pa.ipc.open_file(source).schema
        # The values of a dictionary are rows' values; its type is what they are.
        plain = [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in found
        ]
        return _draft(ibis.Schema.from_pyarrow(pa.schema(plain)), {}, "column ")
    except (OSError, pa.ArrowException, NotImplementedError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SchemaError(f"file ({path}) must hold Arrow types: {reason}") from None


def of_sql(text: str, table: str | None) -> Draft:
    """The columns of a ``CREATE TABLE``: types, NOT NULL, and CHECKs of ranges and lists."""
    import ibis
    import sqlglot
    from ibis.backends.sql.datatypes import SqlglotType
    from sqlglot import exp

    try:
        made = [one for one in sqlglot.parse(text) if isinstance(one, exp.Create)]
    except sqlglot.errors.SqlglotError as error:
        raise SchemaError(f"file must be SQL: {str(error).splitlines()[0]}") from None
    named = {one.find(exp.Table).name: one for one in made if one.find(exp.Table) is not None}  # type: ignore[union-attr]
    if table is None and len(named) == 1:
        table = next(iter(named))
    if table not in named:
        listed = ", ".join(named) or "none"
        raise SchemaError(f"CREATE TABLE must be chosen: --table is one of {listed}")
    types, limits = {}, {}
    for column in named[table].find_all(exp.ColumnDef):
        kinds = [constraint.kind for constraint in column.find_all(exp.ColumnConstraint)]
        required = any(
            isinstance(k, exp.NotNullColumnConstraint | exp.PrimaryKeyColumnConstraint)
            for k in kinds
        )
        kind = column.args.get("kind")
        if kind is None:
            raise SchemaError(f"{table}.{column.name} must have a type")
        try:
            types[column.name] = SqlglotType.to_ibis(kind, nullable=not required)
        except (NotImplementedError, KeyError, ValueError):
            types[column.name] = ibis.expr.datatypes.unknown
        about: dict[str, Any] = {}
        if any(isinstance(k, exp.PrimaryKeyColumnConstraint) for k in kinds):
            about["identifier"] = True
        for check in column.find_all(exp.CheckColumnConstraint):
            about |= _check(check.this)
        limits[column.name] = about
    for check in named[table].find_all(exp.CheckColumnConstraint):
        if check.find_ancestor(exp.ColumnDef) is None:
            for part in check.find_all(exp.In, exp.Between):
                limits.get(part.this.name, {}).update(_check(part))
    return _draft(ibis.schema(types), limits, f"{table}.")


def _check(check: Any) -> dict[str, Any]:
    """What a CHECK says: a list of values or a range; nothing where it says anything else."""
    from sqlglot import exp

    if isinstance(check, exp.Paren):
        return _check(check.this)
    if isinstance(check, exp.And):
        return _check(check.left) | _check(check.right)
    found: dict[str, Any] = {}
    if isinstance(check, exp.In) and all(isinstance(one, exp.Literal) for one in check.expressions):
        found["categories"] = [_value(one) for one in check.expressions]
    elif isinstance(check, exp.Between):
        found = {"lower": _value(check.args["low"]), "upper": _value(check.args["high"])}
    elif isinstance(check, exp.GTE):
        found["lower"] = _value(check.expression)
    elif isinstance(check, exp.LTE):
        found["upper"] = _value(check.expression)
    return {key: value for key, value in found.items() if value is not None}


def _value(one: Any) -> Any:
    from sqlglot import exp

    if isinstance(one, exp.Neg):
        return -_value(one.this)
    if not isinstance(one, exp.Literal):
        return None
    if one.is_string:
        return one.this
    return float(one.this) if "." in one.this else int(one.this)


def of_frame(frame: pd.DataFrame, known: Collection[str]) -> Draft:
    """A pandas frame's dtypes, with the categories of its categoricals; no row is read.

    Args:
        frame: whose dtypes are read.
        known: columns whose categories the caller lists, or leaves out.
    """
    import ibis
    import numpy as np
    import pandas as pd

    limits: dict[str, dict[str, Any]] = {}
    types = {}
    for place, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        if not isinstance(name, str):
            raise SchemaError(f"columns[{place}] ({name!r}) must be a text")
        if isinstance(dtype, pd.CategoricalDtype):
            values = [v.item() if isinstance(v, np.generic) else v for v in dtype.categories]
            limits[name] = {"categories": values, "ordered": bool(dtype.ordered)}
            types[name] = ibis.dtype("string")
        else:
            try:
                types[name] = ibis.Schema.from_pandas([(name, dtype)])[name]
            except Exception:
                types[name] = ibis.dtype("string")
    found = _draft(ibis.schema(types), limits, "column ")
    if {*limits} - {*known}:
        found.fields["drafted_from_data"] = True
        found.notes.append(
            "categories of a frame may have been found in its rows: the schema is marked as "
            "drafted, unless values lists them"
        )
    return found


def _draft(types: ibis.Schema, limits: dict[str, dict[str, Any]], prefix: str) -> Draft:
    found = Draft()
    for name, type_ in types.items():
        facts: dict[str, Any] = {"nullable": True if type_.nullable else None}
        facts |= limits.get(name, {})
        kind = _kind(type_)
        if facts.pop("identifier", False):
            found.leave_out(name, "the primary key")
            continue
        if "categories" in facts:
            kind, facts["other"] = "categorical", False
            if facts.pop("ordered", False):
                kind = "ordinal"
        elif kind == "integer":
            low, high = _RANGES.get(str(type_).lstrip("!"), (None, None))
            facts = {"lower": low, "upper": high, **facts}
        elif kind == "continuous" and type_.is_decimal():
            facts["decimals"] = type_.scale or None
        found.add(name, kind, f"{prefix}{name}", why=f"type {type_}", **facts)
    return found


def _kind(type_: ibis.DataType) -> str | None:
    """The kind of a column of such a type; None where a schema has none."""
    for kind, fits in (
        ("boolean", type_.is_boolean()),
        ("integer", type_.is_integer()),
        ("continuous", type_.is_numeric()),
        ("datetime", type_.is_timestamp()),
        ("date", type_.is_date()),
        ("time", type_.is_time()),
        ("categorical", type_.is_string()),
    ):
        if fits:
            return kind
    return None
