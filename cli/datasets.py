"""``marginalsyn datasets``: the public tables that come with the package."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from marginalsyn.cli import options, screen
from marginalsyn.cli.group import LazyGroup


@click.group(
    cls=LazyGroup,
    examples="""
    marginalsyn datasets list
    marginalsyn datasets show heart
    marginalsyn datasets export heart --out heart
    """,
)
def datasets() -> None:
    """List, describe and export the bundled public tables."""


@datasets.command(name="list", examples="marginalsyn datasets list --json")
@options.as_json
def list_tables(as_json: bool) -> None:
    """List the tables."""
    from marginalsyn import datasets as tables
    from marginalsyn.datasets import linked

    found = [tables.describe(name) for name in tables.names()]
    several = [linked.describe(name) for name in linked.names()]
    if as_json:
        screen.write_json([*found, *several])
        return
    head = ("name", "rows", "columns", "label", "source", "licence", "what it is")
    fields = ("name", "rows", "columns", "label", "source", "licence", "summary")
    screen.write_table(
        head,
        [[_shown(table[field]) for field in fields] for table in found],
        right=("rows", "columns"),
    )
    screen.write("")
    screen.write_table(
        ("linked tables", "rows of each", "unit", "source", "licence", "what they are"),
        [
            (
                one["name"],
                ", ".join(f"{told['rows']:,} {table}" for table, told in one["tables"].items()),
                one["unit"],
                one["source"],
                one["licence"],
                one["summary"],
            )
            for one in several
        ],
    )


def _shown(value: object) -> object:
    return f"{value:,}" if isinstance(value, int) else value


@datasets.command(examples="marginalsyn datasets show adult")
@click.argument("name", help="One of `marginalsyn datasets list`.")
@options.as_json
def show(name: str, as_json: bool) -> None:
    """Print a table's datasheet: source, credit, licence, what was changed, its columns."""
    from marginalsyn import datasets as tables
    from marginalsyn.datasets import linked

    found = linked if name in linked.names() else tables
    if as_json:
        screen.write_json(found.describe(name))
    else:
        screen.write(found.datasheet(name))


@datasets.command(
    examples="""
    # heart-train.csv, heart-test.csv, heart.schema.json, heart.md
    marginalsyn datasets export heart --out tables
    # linked tables: a folder with a file for each, flights.schema.json, flights.md
    marginalsyn datasets export flights --out tables
    """
)
@click.argument("name", help="One of `marginalsyn datasets list`.")
@options.out(
    default=".",
    show_default=False,
    metavar="FOLDER",
    help="The folder to write to. [default=the current folder]",
)
@options.force
@options.quiet
def export(name: str, out: Path, force: bool, quiet: bool) -> None:
    """Write a table as plain files: train and test CSV, schema and datasheet.

    Linked tables are written to a folder of their own, whole.
    """
    from marginalsyn import datasets as tables
    from marginalsyn.datasets import linked

    found = linked if name in linked.names() else tables
    with screen.Notes(quiet).progress() as progress:
        progress.report("export", text=name)
        files = found.export(name, out, force=force)
    for file in files:
        screen.write(str(file))
