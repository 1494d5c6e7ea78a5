"""``marginalsyn schema import`` and ``export``: schemas in the formats of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from marginalsyn.cli import group, options, screen
from marginalsyn.errors import UsageError
from marginalsyn.operations.files import check_new

READ = ("mbi", "dpsynth", "sdv", "frictionless", "csvw", "pandera", "pydantic", "arrow", "sql")
WRITTEN = READ[:6]


@group.command(
    name="import",
    examples="""
    # the format is found out; what it cannot say is asked for
    marginalsyn schema import metadata.json --bounds age=0:120 --values ward=A,B,C --out s.json
    # the types of a Parquet file, of a CREATE TABLE, of a pydantic model (which runs its code)
    marginalsyn schema import people.parquet --bounds age=0:120 --drop name --out s.json
    marginalsyn schema import tables.sql --table people --out s.json
    marginalsyn schema import models:Patient --out s.json
    """,
)
@click.argument(
    "source",
    help="A file, or module:object for a pandera or pydantic schema, whose code then runs.",
)
@click.option(
    "--from",
    "form",
    type=click.Choice(READ),
    help="The format. [default=found out from the file]",
)
@click.option("--table", metavar="NAME", help="The table, where the file describes several.")
@click.option(
    "--bounds",
    multiple=True,
    metavar="NAME=LOW:HIGH",
    help="Public bounds of a number or date, where the format has none. May be repeated.",
)
@click.option(
    "--values",
    multiple=True,
    metavar="NAME=A,B",
    help="The public values of a column, where the format lists none. May be repeated.",
)
@click.option("--drop", multiple=True, metavar="NAME", help="A column to leave out.")
@options.model_label
@options.schema_output
def import_(
    source: str,
    form: str | None,
    bounds: tuple[str, ...],
    values: tuple[str, ...],
    output: options.Output,
    **how: Any,
) -> None:
    """Make a schema of one that you have elsewhere: mbi, dpsynth, SDV, Frictionless, CSVW, ...

    No row is read. What the format cannot say (SDV knows neither bounds nor categories) must be
    given as public knowledge; the command lists what is missing. A schema that `schema export`
    wrote comes back exactly, unless the file was changed.
    """
    check_new(output.out, output.force)
    from marginalsyn.plugins.exchange.schemas import import_schema

    found = import_schema(
        source,
        format=form,
        bounds=dict(_ends(text) for text in bounds),
        values=dict(_listed(text) for text in values),
        **how,
    )
    screen.put(found.schema.to_json(), output.out)
    notes = screen.Notes(output.quiet)
    notes.warn_all(found.notes)
    notes.say(f"read as {found.format}, {len(found.schema.names)} columns; no row was read")


@group.command(
    name="export",
    examples="""
    marginalsyn schema export people.schema.json --to frictionless --out people.table.json
    marginalsyn schema export release/schema.json --to mbi
    """,
)
@click.argument("schema", type=options.PATH, help="The schema file.")
@click.option("--to", type=click.Choice(WRITTEN), required=True, help="The format.")
@options.out(help="The new file. [default=stdout]")
@options.force
@options.quiet
def export(schema: Path, to: str, out: Path | None, force: bool, quiet: bool) -> None:
    """Write a schema in another tool's format, and list what that has no words for.

    All formats but mbi's carry the whole schema in an extension field or a comment besides, so that
    `schema import` gives it back exactly.
    """
    check_new(out, force)
    from marginalsyn.plugins.exchange.schemas import export_schema
    from marginalsyn.table.schema import Schema

    made = export_schema(Schema.read(schema), to)
    screen.put(made.text, out)
    notes = screen.Notes(quiet)
    where = "only in the extension of ours" if made.carried else "lost"
    for line in made.lost:
        notes.warn(f"{to} cannot say: {line} ({where})")


def _ends(text: str) -> tuple[str, list[Any]]:
    """A column and its bounds."""
    name, sign, ends = text.partition("=")
    low, colon, high = ends.partition(":")
    if ends.count(":") > 1 and ends.count(":") % 2:
        # Times of day have colons of their own: the middle one stands between them.
        parts = ends.split(":")
        low, high = ":".join(parts[: len(parts) // 2]), ":".join(parts[len(parts) // 2 :])
    if not (sign and name and colon and low and high):
        raise UsageError(f"--bounds ({text}) must look like age=0:120")
    return name, [_number(low), _number(high)]


def _listed(text: str) -> tuple[str, list[str]]:
    name, sign, values = text.partition("=")
    found = [value.strip() for value in values.split(",") if value.strip()]
    if not (sign and name and found):
        raise UsageError(f"--values ({text}) must look like ward=A,B,C")
    return name, found


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
