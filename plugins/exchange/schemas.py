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

import pandas as pd
from pydantic import BaseModel

from marginalsyn.errors import SchemaError, UsageError
from marginalsyn.plugins.exchange import drafts
from marginalsyn.plugins.exchange.drafts import SchemaFormat
from marginalsyn.plugins.exchange.nodes import Node, read_json, read_yaml, write_yaml
from marginalsyn.plugins.exchange.synthesizers import DpsynthDomain, MbiDomain, SdvMetadata
from marginalsyn.plugins.exchange.validators import Pandera, Pydantic
from marginalsyn.plugins.exchange.web import Csvw, Frictionless
from marginalsyn.table.schema import Schema

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
        lost = [*drafts.list_lost(schema, form.says), *lost]
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
) -> tuple[str, drafts.Draft | None, Schema | None]:
    """The format of a file with what it says, or the schema of ours in it."""
    if path.suffix in (".parquet", ".arrow", ".feather") or format == "arrow":
        from marginalsyn.plugins.exchange.types import of_arrow

        return "arrow", of_arrow(path), None
    text = _text(path)
    try:
        if path.suffix == ".sql" or format == "sql":
            from marginalsyn.plugins.exchange.types import of_sql

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
    for name in _ORDER:
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


def _of_object(source: Any, format: str | None, known: Collection[str]) -> tuple[str, drafts.Draft]:
    model = isinstance(source, type) and issubclass(source, BaseModel)
    if format == "pydantic" or (format is None and model):
        return _read_object("pydantic", source)
    if isinstance(source, pd.DataFrame):
        from marginalsyn.plugins.exchange.types import of_frame

        return "pandas", of_frame(source, known)
    if format == "pandera" or hasattr(source, "to_schema") or hasattr(source, "columns"):
        return _read_object("pandera", source)
    raise UsageError(
        f"source (a {type(source).__name__}) must be a file, module:object, a pandera or pydantic "
        "schema, or a pandas frame"
    )


def _read_object(format: str, source: Any) -> tuple[str, drafts.Draft]:
    form = _FORMATS[format]
    return format, form.read(form.of_object(source), None)
