"""``marginalsyn schema buy-bounds``, ``buy-bins`` and more: bought with privacy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn.cli import options, resuming, screen, whom
from marginalsyn.cli.bundles import bundle, together
from marginalsyn.cli.group import Command
from marginalsyn.curator import check_new, replace_file, shown_name, with_unit

if TYPE_CHECKING:
    from marginalsyn.table import Schema

data_argument = click.argument(
    "data", help="The table: a file, a glob in quotes, or a database URL."
)
schema_argument = click.argument("schema", type=options.PATH, help="The schema file.")
columns_option = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME",
    help="A numeric column. May be repeated. [default=all numeric columns]",
)
cells_option = click.option(
    "--cells",
    type=int,
    default=4096,
    show_default=True,
    metavar="N",
    help="The number of cells in the search between the schema's own bounds.",
)


purchase = together(
    bundle(options.Source, only=("sep", "ledger_path", "void_earlier_promises")),
    bundle(options.Spending, without=("share",)),
    bundle(
        options.Output,
        without=("table_format", "as_json"),
        out={"metavar": "FILE", "help": "The new schema file. [default=stdout]"},
    ),
    options.resume,
)


@click.command(
    cls=Command,
    name="buy-bounds",
    examples="""
    # income: somewhere between the schema's 0 and 10,000,000
    marginalsyn schema buy-bounds people.csv people.schema.json --column income --eps 0.1
    """,
)
@click.option_panel("Arguments")
@data_argument
@schema_argument
@columns_option
@whom.unit_options
@click.option(
    "--tail",
    type=float,
    default=0.005,
    show_default=True,
    metavar="SHARE",
    help="The share of rows that each bound may cut off.",
)
@cells_option
@purchase
def buy_bounds(tail: float, **given: Any) -> None:
    """Narrow the bounds of numeric columns by private quantiles, charged to the ledger.

    The search starts from the schema's own bounds, which must be public, and spends --eps on all
    columns together. With a unit of privacy these are quantiles of persons, whose rows weigh one
    together. The new schema records the charge, and the statement of every release made
    with it includes that charge.
    """
    _buy_columns(tail=tail, bins=None, **given)


@click.command(
    cls=Command,
    name="buy-bins",
    examples="""
    # ten bins of about equal weight
    marginalsyn schema buy-bins people.csv people.schema.json --bins 10 --eps 0.2 --out new.json
    """,
)
@click.option_panel("Arguments")
@data_argument
@schema_argument
@columns_option
@whom.unit_options
@click.option(
    "--bins",
    type=click.IntRange(min=2),
    default=10,
    show_default=True,
    metavar="K",
    help="The number of bins.",
)
@cells_option
@purchase
def buy_bins(bins: int, **given: Any) -> None:
    """Cut numeric columns into bins of about equal weight by private quantiles.

    Every cut costs privacy: K bins take K - 1 selections, and --eps pays for all columns together.
    The charge is recorded in the ledger and in the new schema, as with buy-bounds.
    """
    _buy_columns(tail=0.0, bins=bins, **given)


@click.command(
    cls=Command,
    name="buy-max-rows",
    examples="""
    # how many visits of a patient to count, so that 95% of the patients have no more
    marginalsyn schema buy-max-rows visits.csv v.json --unit patient_id --eps 0.1 --out new.json
    """,
)
@click.option_panel("Arguments")
@data_argument
@schema_argument
@whom.unit_options_to_buy
@click.option(
    "--cap",
    type=click.IntRange(min=2),
    default=200,
    show_default=True,
    metavar="N",
    help="No more rows of a person are looked at. A public number.",
)
@click.option(
    "--tail",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    metavar="SHARE",
    help="The share of persons who may have more rows than are counted.",
)
@purchase
def buy_max_rows(unit: str | None, order: str | None, cap: int, tail: float, **given: Any) -> None:
    """Find with privacy how many rows of a person to count, charged to the ledger.

    The number is a quantile of persons' numbers of rows, rounded up to 1 to 15, 20, 27 and so on.
    The new schema has the unit and the charge, which every release made with it includes.
    """
    from marginalsyn.private import buy_max_rows, capped_schema

    def prepare(read: Schema) -> tuple[Schema, Schema, Callable[..., Schema]]:
        capped = capped_schema(read, unit=unit, order=order, cap=cap)
        return read, capped, partial(buy_max_rows, tail=tail)

    _buy(
        "schema buy-max-rows",
        prepare,
        lambda bought: [("unit", bought.unit.text if bought.unit else "")],
        **given,
    )


@click.command(
    cls=Command,
    name="buy-categories",
    examples="""
    # the columns that say "categories": "private"
    marginalsyn schema buy-categories people.csv people.schema.json --eps 0.2 --out new.json
    """,
)
@click.option_panel("Arguments")
@data_argument
@schema_argument
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME",
    help='A column. May be repeated. [default=those with "categories": "private"]',
)
@whom.unit_options
@purchase
def buy_categories(
    columns: Sequence[str],
    unit: str | None,
    max_rows: int | None,
    order: str | None,
    **given: Any,
) -> None:
    """List the categories of open columns by private partition selection.

    A value is listed if its noisy count reaches a threshold that one row passes by itself with a
    chance below the delta. The charge is recorded in the ledger and in the new schema, as with
    buy-bounds. `generate` buys them by itself, from its own budget, where they are left open.
    """
    from marginalsyn.private import buy_categories, open_up

    named, names = whom.told(unit, max_rows, order), list[str]()

    def prepare(read: Schema) -> tuple[Schema, Schema, Callable[..., Schema]]:
        asked = open_up(with_unit(read, named), columns)
        names.extend(asked.open)
        return asked, asked, buy_categories

    def show(bought: Schema) -> list[tuple[str, str]]:
        return [(name, ", ".join(bought.column(name).labels()[:12])) for name in names]

    _buy("schema buy-categories", prepare, show, **given)


def _buy_columns(
    *,
    columns: Sequence[str],
    tail: float,
    bins: int | None,
    cells: int,
    unit: str | None,
    max_rows: int | None,
    order: str | None,
    **given: Any,
) -> None:
    """Bounds or bins for some columns."""
    from marginalsyn.private import buy, grid_schema

    named = whom.told(unit, max_rows, order)

    names: list[str] = []

    def prepare(read: Schema) -> tuple[Schema, Schema, Callable[..., Schema]]:
        public = with_unit(read, named)
        grid = grid_schema(public, columns, cells)
        names.extend(name for name in grid.names if name not in grid.derived)
        return public, grid, partial(buy, bins=bins, tail=tail)

    def show(bought: Schema) -> list[tuple[str, str]]:
        return [(name, ", ".join(bought.column(name).labels()[:12])) for name in names]

    _buy("schema buy-bounds" if bins is None else "schema buy-bins", prepare, show, **given)


def _buy(
    run: str,
    prepare: Callable[[Schema], tuple[Schema, Schema, Callable[..., Schema]]],
    show: Callable[[Schema], Sequence[tuple[str, str]]],
    *,
    data: str,
    schema: Path,
    source: options.Source,
    spending: options.Spending,
    output: options.Output,
    resume: bool,
) -> None:
    """Charge the ledger, find what is sought, write the new schema.

    ``prepare`` makes of the schema's file the schema to improve, that which the table is opened
    with, and what buys from the table.
    """
    check_new(output.out, output.force)
    from marginalsyn.cli.accounting import accounted, show_total
    from marginalsyn.curator import open_ledger
    from marginalsyn.noise import make_noise
    from marginalsyn.private import PrivateTable
    from marginalsyn.release import Workspace
    from marginalsyn.table import Schema

    notes, budget = screen.Notes(output.quiet), spending.budget()
    public, grid, bought_by = prepare(Schema.read(schema))
    workspace = Workspace.here()
    book = open_ledger(data, source, workspace)
    keeper = resuming.keep(data, workspace, notes)
    with accounted(book, keeper), keeper, notes.progress() as progress:
        progress.report("measure", text=shown_name(data))
        table = PrivateTable.open(
            data, grid, ledger=book, neighbours=budget.neighbours, sep=source.sep
        )
        bought = bought_by(table, public, budget, noise=make_noise(), run=run, keeper=keeper)
        write_schema(bought, output.out)
        keeper.finish()
    for name, found in show(bought):
        notes.say(f"{name}: {found}")
    show_total(book, notes)


def write_schema(schema: Schema, out: Path | None) -> None:
    """The schema as a file, or on stdout."""
    if out is None:
        screen.write(schema.to_json())
        return
    replace_file(out, lambda handle: handle.write(schema.to_json().encode()))
    screen.write(str(out))


COMMANDS = (buy_bounds, buy_bins, buy_categories, buy_max_rows)
