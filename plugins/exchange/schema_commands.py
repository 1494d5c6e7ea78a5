"""``schema import`` and ``schema export``: schemas in the formats of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from marginalsyn.errors import UsageError
from marginalsyn.operations.groups import Writing
from marginalsyn.operations.operation import PYTHON, Operation, Result, Session, argument, option

READ = ("mbi", "dpsynth", "sdv", "frictionless", "csvw", "pandera", "pydantic", "arrow", "sql")
WRITTEN = READ[:6]


def _bounds(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Bounds by column, out of texts such as ``age=0:120``."""
    found = {}
    for text in texts:
        name, sign, ends = text.partition("=")
        parts = ends.split(":")
        # Times of day have colons of their own: the middle one stands between them.
        half = len(parts) // 2 if len(parts) % 2 == 0 else 1
        low, high = ":".join(parts[:half]), ":".join(parts[half:])
        if not (sign and name and low and high):
            raise UsageError(f"--bounds ({text}) must look like age=0:120")
        found[name] = [_number(low), _number(high)]
    return found


def _values(texts: Sequence[str]) -> dict[str, list[str]]:
    """Values by column, out of texts such as ``ward=A,B,C``."""
    found = {}
    for text in texts:
        name, sign, values = text.partition("=")
        listed = [value.strip() for value in values.split(",") if value.strip()]
        if not (sign and name and listed):
            raise UsageError(f"--values ({text}) must look like ward=A,B,C")
        found[name] = listed
    return found


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


_repeated = partial(option, (), multiple=True)


@dataclass(frozen=True, kw_only=True)
class ImportSchema(Writing, Operation[Any]):
    """Make a schema of one that you have elsewhere: mbi, dpsynth, SDV, Frictionless, CSVW, ...

    No row is read. What the format cannot say (SDV knows neither bounds nor categories) must be
    given as public knowledge; the command lists what is missing. A schema that `schema export`
    wrote comes back exactly, unless the file was changed.
    """

    shell = ("quiet",)
    examples = """
    # the format is found out; what it cannot say is asked for
    marginalsyn schema import metadata.json --bounds age=0:120 --values ward=A,B,C --out s.json
    # the types of a Parquet file, of a CREATE TABLE, of a pydantic model (which runs its code)
    marginalsyn schema import people.parquet --bounds age=0:120 --drop name --out s.json
    marginalsyn schema import tables.sql --table people --out s.json
    marginalsyn schema import models:Patient --out s.json
    """

    source: str = argument(
        None,
        "A file, or module:object for a pandera or pydantic schema, whose code then runs.",
        required=True,
    )
    from_: str | None = option(None, "The format. [default=found out from the file]", choices=READ)
    table: str | None = option(None, "The table, where the file describes several.", metavar="NAME")
    bounds: Mapping[str, Sequence[Any]] = _repeated(
        "Public bounds of a number or date, where the format has none. May be repeated.",
        metavar="NAME=LOW:HIGH",
        parse=_bounds,
    )
    values: Mapping[str, Sequence[str]] = _repeated(
        "The public values of a column, where the format lists none. May be repeated.",
        metavar="NAME=A,B",
        parse=_values,
    )
    drop: Sequence[str] = _repeated("A column to leave out.", metavar="NAME")
    label: str | None = option(None, "The column that models predict.", metavar="COLUMN")

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Read the file, and write the schema."""
        from marginalsyn.plugins.exchange.schemas import import_schema

        self.check_new()
        found = import_schema(
            self.source,
            format=self.from_,
            table=self.table,
            bounds=dict(self.bounds),
            values=dict(self.values),
            drop=self.drop,
            label=self.label,
        )
        note = f"read as {found.format}, {len(found.schema.names)} columns; no row was read"
        return Result(found, None, [self.put(found.schema.to_json())], found.notes, [note])


@dataclass(frozen=True, kw_only=True)
class ExportSchema(Writing, Operation[Any]):
    """Write a schema in another tool's format, and list what that has no words for.

    All formats but mbi's carry the whole schema in an extension field or a comment besides, so that
    `schema import` gives it back exactly.
    """

    shell = ("quiet",)
    examples = """
    marginalsyn schema export people.schema.json --to frictionless --out people.table.json
    marginalsyn schema export release/schema.json --to mbi
    """

    schema: str | Path = argument(None, "The schema file.", required=True)
    to: str = option(None, "The format.", choices=WRITTEN, required=True)
    out: str | Path | None = option(None, "The new file. [default=stdout]", metavar="FILE")

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Read the schema, and write it in the other format."""
        from marginalsyn.plugins.exchange.schemas import export_schema
        from marginalsyn.table.schema import Schema

        self.check_new()
        made = export_schema(Schema.read(self.schema), self.to)
        where = "only in the extension of ours" if made.carried else "lost"
        warnings = [f"{self.to} cannot say: {line} ({where})" for line in made.lost]
        return Result(made, None, [self.put(made.text)], warnings)
