"""Schemas read from the formats of others, and written to them.

What a format has no words for is carried in an extension field or a comment where it allows one, so
that a schema comes back exactly. A file that was changed meanwhile is read as it stands.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ibis
import pandas as pd
from pydantic import BaseModel

from marginalsyn.errors import SchemaError, UsageError
from marginalsyn.plugins.exchange.drafts import (
    Draft,
    Node,
    SchemaFormat,
    list_lost,
    read_json,
    read_yaml,
    write_yaml,
)
from marginalsyn.plugins.exchange.tool_schemas import (
    DpsynthDomain,
    MbiDomain,
    Pandera,
    Pydantic,
    SdvMetadata,
)
from marginalsyn.plugins.exchange.web import Csvw, Frictionless
from marginalsyn.table.schema import Schema

_RANGES = {"int8": (-128, 127), "uint8": (0, 255)}


def of_arrow(path: Path) -> Draft:
    """The types in the footer of a Parquet, Arrow or Feather file; no row and no statistic."""
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
        about = {}
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
    found = {}
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
    import numpy as np

    limits = {}
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
    fits = {
        "boolean": type_.is_boolean(),
        "integer": type_.is_integer(),
        "continuous": type_.is_numeric(),
        "datetime": type_.is_timestamp(),
        "date": type_.is_date(),
        "time": type_.is_time(),
        "categorical": type_.is_string(),
    }
    return next((kind for kind, fit in fits.items() if fit), None)


# By the name of --to and --from.
WRITTEN: dict[str, SchemaFormat] = {
    "mbi": MbiDomain(),
    "dpsynth": DpsynthDomain(),
    "sdv": SdvMetadata(),
    "frictionless": Frictionless(),
    "csvw": Csvw(),
    "pandera": Pandera(),
}
_FORMATS: dict[str, SchemaFormat] = {**WRITTEN, "pydantic": Pydantic()}
READ = {
    **{name: form.about for name, form in _FORMATS.items()},
    "arrow": "the types of a Parquet, Arrow or Feather file",
    "sql": "a CREATE TABLE",
}
# What is recognised first: the more particular formats.
_ORDER = ("sdv", "csvw", "pandera", "pydantic", "frictionless", "dpsynth", "mbi")
_COMMENT = "# marginalsyn: "
MOST_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Imported:
    """A schema from elsewhere.

    Attributes:
        schema: ready for use.
        format: what it was read from.
        notes: what the source says and a schema cannot, and what was taken for granted.
        exact: whether it is a schema of ours that comes back.
    """

    schema: Schema
    format: str
    notes: list[str] = field(default_factory=list)
    exact: bool = False


@dataclass(frozen=True)
class Written:
    """A schema in another format.

    Attributes:
        text: of the file.
        lost: what the format has no words for.
        carried: whether an extension or a comment holds it, for the way back.
    """

    text: str
    lost: list[str]
    carried: bool


def import_schema(
    source: Any,
    *,
    format: str | None = None,
    table: str | None = None,
    bounds: Mapping[str, Sequence[Any]] | None = None,
    values: Mapping[str, Sequence[Any]] | None = None,
    drop: Iterable[str] = (),
    label: str | None = None,
) -> Imported:
    """Read a schema from a format of others. No row is read.

    Args:
        source: a file; ``"module:object"``, whose code then runs; a live pandera or pydantic
            schema; or a pandas frame, of which the dtypes count.
        format: one of ``READ``; found out by default.
        table: of several in the file.
        bounds: of numbers and dates, by column, where the format has none: public knowledge.
        values: the public values of columns, likewise. A frame's own categories may have been found
            in its rows: where they are not listed here, the schema is marked as drafted.
        drop: columns to leave out.
        label: the column that models predict.

    Raises:
        SchemaError: what is wrong, with its path in the file, or all that is missing.

    Example:
        >>> import pydantic
        >>> class Patient(pydantic.BaseModel):
        ...     ill: bool
        ...     age: int
        >>> import_schema(Patient, bounds={"age": (0, 99)}).schema.names
        ['ill', 'age']
    """
    if format is not None and format not in READ:
        raise UsageError(f"format ({format}) must be one of {', '.join(READ)}")
    drop, values = tuple(drop), values or {}
    known = {"bounds": bounds or {}, "values": values, "drop": drop, "label": label}
    if isinstance(source, str) and _is_object(source):
        source = _load(source)
    if isinstance(source, str | Path):
        format, draft, exact = _read_file(Path(source), format, table)
        if exact is not None:
            if any(known.values()):
                raise UsageError(
                    "the file holds a whole schema: it takes no --bounds, --values, --drop and "
                    "--label; edit the schema that comes out"
                )
            return Imported(exact, format, exact=True)
    else:
        format, draft = _of_object(source, format, {*values, *drop})
    assert draft is not None
    return Imported(draft.finish(**known), format, draft.notes)  # type: ignore[arg-type]


def export_schema(schema: Schema, format: str) -> Written:
    """Write a schema in a format of others.

    Example:
        >>> export_schema(schema, "mbi").lost
        ['what the codes stand for, of age, ill']
    """
    if format not in WRITTEN:
        raise UsageError(f"format ({format}) must be one of {', '.join(WRITTEN)}")
    form = WRITTEN[format]
    if schema.drafted_from_data and not (form.yaml or form.extension):
        raise SchemaError(
            f"schema (drafted_from_data) must hold public knowledge to be written as {format}, "
            "which has no words for a draft: replace what came from the rows by what a code book "
            "says, then set drafted_from_data to false"
        )
    doc, lost = form.write(schema), form.losses(schema)
    if form.says is not None:
        lost = [*list_lost(schema, form.says), *lost]
    whole = json.loads(schema.to_json())
    if form.yaml:
        text = f"{_COMMENT}{json.dumps(whole, ensure_ascii=True)}\n{write_yaml(doc)}"
        return Written(text, lost, carried=True)
    if form.extension:
        note: Any = {"marginalsyn": whole}
        doc[form.extension] = [note] if form.extension == "notes" else note
    text = json.dumps(doc, indent=2, ensure_ascii=False) + "\n"
    return Written(text, lost, carried=bool(form.extension))


# -- files -----------------------------------------------------------------------------------------


def _read_file(
    path: Path, format: str | None, table: str | None
) -> tuple[str, Draft | None, Schema | None]:
    """The format of a file with what it says, or the schema of ours in it."""
    if path.suffix in (".parquet", ".arrow", ".feather") or format == "arrow":
        return "arrow", of_arrow(path), None
    text = _text(path)
    try:
        if path.suffix == ".sql" or format == "sql":
            return "sql", of_sql(text, table), None
        yaml = path.suffix in (".yaml", ".yml") or text.startswith(_COMMENT)
        doc = read_yaml(text) if yaml else read_json(text)
        found = format or _recognised(doc)
        whole, same = _carried(found, doc, text)
        if same:
            return found, None, whole
        draft = _FORMATS[found].read(doc, table)
        if whole is not None and whole.drafted_from_data:
            draft.fields["drafted_from_data"] = True
            draft.notes.append("it was exported from a draft, and is marked as one")
        return found, draft, None
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SchemaError(f"file ({path}) must be at most {MOST_BYTES // 2**20} MB")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SchemaError(f"file ({path}) must be UTF-8 text: byte {error.start} is not") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SchemaError(f"file ({path}) must be readable: {reason}") from None


def _recognised(doc: Node) -> str:
    for name in _ORDER if doc.value and isinstance(doc.value, dict) else ():
        if _FORMATS[name].recognise(doc.value):
            return name
    raise SchemaError(
        f"file must be in one of these formats: {', '.join(READ)}; name it with --from"
    )


def _carried(format: str, doc: Node, text: str) -> tuple[Schema | None, bool]:
    """The schema in an exported file's extension, and whether the rest of the file still agrees."""
    if format not in WRITTEN:
        return None, False
    form = WRITTEN[format]
    try:
        if form.yaml:
            first = text.split("\n", 1)[0]
            if not first.startswith(_COMMENT):
                return None, False
            whole = json.loads(first.removeprefix(_COMMENT))
        else:
            note: Any = doc.mapping().get(form.extension)
            whole = (note[0] if isinstance(note, list) else note)["marginalsyn"]
        schema = Schema.from_json(json.dumps(whole))
    except (SchemaError, ValueError, KeyError, TypeError, IndexError):
        return None, False
    again = export_schema(schema, format).text
    same = read_yaml(again) if form.yaml else read_json(again)
    return schema, same.value == doc.value


# -- objects ---------------------------------------------------------------------------------------


def _is_object(source: str) -> bool:
    """Whether a text names an object of a module rather than a file."""
    module, sign, name = source.partition(":")
    parts = [*module.split("."), *name.split(".")]
    return bool(sign) and all(part.isidentifier() for part in parts) and not Path(source).exists()


def _load(source: str) -> Any:
    """An object by the name of its module: the caller has named code to run."""
    module, _, name = source.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"source ({source}) must name an object that can be imported: {error}"
        ) from None
    except Exception as error:
        raise UsageError(
            f"source ({source}) must be importable: {module} stopped with {type(error).__name__}"
        ) from error
    return found


def _of_object(source: Any, format: str | None, known: Collection[str]) -> tuple[str, Draft]:
    model = isinstance(source, type) and issubclass(source, BaseModel)
    if format == "pydantic" or (format is None and model):
        found = "pydantic"
    elif isinstance(source, pd.DataFrame):
        return "pandas", of_frame(source, known)
    elif format == "pandera" or hasattr(source, "to_schema") or hasattr(source, "columns"):
        found = "pandera"
    else:
        raise UsageError(
            f"source (a {type(source).__name__}) must be a file, module:object, a pandera or "
            "pydantic schema, or a pandas frame"
        )
    return found, _FORMATS[found].read(_FORMATS[found].of_object(source), None)
