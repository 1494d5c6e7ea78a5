"""``marginalsyn schema buy-bounds``, ``buy-bins`` and more: bought with privacy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn.cli import group, options, resuming, screen, whom
from marginalsyn.cli.bundles import bundle, together
from marginalsyn.operations.files import check_new
from marginalsyn.operations.origins import Named, shown_name, with_unit

if TYPE_CHECKING:
    from marginalsyn.table.schema import Schema

    _Prepared = tuple[Schema, Schema, Callable[..., Schema], Sequence[str]]

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
    metavar="N",
    help="The number of cells in the search between the schema's own bounds.",
)


purchase = together(
    bundle(options.Source, only=("sep", "ledger_path", "void_earlier_promises")),
    bundle(options.Spending, without=("share",)),
    options.schema_output,
    options.resume,
)


@group.command(
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


@group.command(
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


@group.command(
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
    metavar="N",
    help="No more rows of a person are looked at. A public number.",
)
@click.option(
    "--tail",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    metavar="SHARE",
    help="The share of persons who may have more rows than are counted.",
)
@purchase
def buy_max_rows(named: Named, cap: int, tail: float, **given: Any) -> None:
    """Find with privacy how many rows of a person to count, charged to the ledger.

    The number is a quantile of persons' numbers of rows, rounded up to 1 to 15, 20, 27 and so on.
    The new schema has the unit and the charge, which every release made with it includes.
    """
    from marginalsyn.purchases.max_rows import buy_max_rows, capped_schema

    def prepare(read: Schema) -> _Prepared:
        capped = capped_schema(read, unit=named.unit, order=named.order, cap=cap)
        return read, capped, partial(buy_max_rows, tail=tail), ()

    _buy("schema buy-max-rows", prepare, **given)


@group.command(
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
def buy_categories(columns: Sequence[str], named: Named, **given: Any) -> None:
    """List the categories of open columns by private partition selection.

    A value is listed if its noisy count reaches a threshold that one row passes by itself with a
    chance below the delta. The charge is recorded in the ledger and in the new schema, as with
    buy-bounds. `generate` buys them by itself, from its own budget, where they are left open.
    """
    from marginalsyn.purchases.categories import buy_categories, open_up

    def prepare(read: Schema) -> _Prepared:
        asked = open_up(with_unit(read, named), columns)
        return asked, asked, buy_categories, asked.open

    _buy("schema buy-categories", prepare, **given)


def _buy_columns(
    *,
    columns: Sequence[str],
    tail: float,
    bins: int | None,
    cells: int,
    named: Named,
    **given: Any,
) -> None:
    """Bounds or bins for some columns."""
    from marginalsyn.purchases.bounds import buy, grid_schema

    def prepare(read: Schema) -> _Prepared:
        public = with_unit(read, named)
        grid = grid_schema(public, columns, cells)
        names = [name for name in grid.names if name not in grid.derived]
        return public, grid, partial(buy, bins=bins, tail=tail), names

    _buy("schema buy-bounds" if bins is None else "schema buy-bins", prepare, **given)


def _buy(
    run: str,
    prepare: Callable[[Schema], _Prepared],
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
    with, what buys from the table, and the columns to show.
    """
    check_new(output.out, output.force)
    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.cli.accounting import accounted, show_total
    from marginalsyn.operations.origins import open_ledger
    from marginalsyn.privacy.noise import make_noise
    from marginalsyn.records.workspace import Workspace
    from marginalsyn.table.schema import Schema

    notes, budget = screen.Notes(output.quiet), spending.budget()
    public, grid, bought_by, names = prepare(Schema.read(schema))
    book = open_ledger(data, source)
    keeper = resuming.keep(data, Workspace.here(), notes)
    with accounted(book, keeper), keeper, notes.progress() as progress:
        progress.report("measure", text=shown_name(data))
        table = PrivateTable.open(
            data, grid, ledger=book, neighbours=budget.neighbours, sep=source.sep
        )
        bought = bought_by(table, public, budget, noise=make_noise(), run=run, keeper=keeper)
        screen.put(bought.to_json(), output.out)
        keeper.finish()
    for name in names:
        notes.say(f"{name}: {', '.join(bought.column(name).labels()[:12])}")
    if bought.unit is not None and not names:
        notes.say(f"unit: {bought.unit.text}")
    show_total(book, notes)


COMMANDS = (buy_bounds, buy_bins, buy_categories, buy_max_rows)
