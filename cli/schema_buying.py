"""``marginalsyn schema buy-bounds``, ``buy-bins`` and more: bought with privacy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn.cli import group, options, resuming, screen
from marginalsyn.cli.bundles import bundle, together
from marginalsyn.operations.files import check_new
from marginalsyn.operations.origins import Named, shown_name, with_unit

if TYPE_CHECKING:
    from marginalsyn.purchases.purchase import Purchase
    from marginalsyn.table.schema import Schema

data_argument = click.argument(
    "data", help="The table: a file, a glob in quotes, or a database URL."
)
schema_argument = click.argument("schema", type=options.PATH, help="The schema file.")
arguments = together(click.option_panel("Arguments"), data_argument, schema_argument)
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
# Whether a promise is for rows or for persons.
unit_options = bundle(options.Source, "named", only=("unit", "max_rows", "order"))
unit_options_to_buy = bundle(options.Source, "named", only=("unit", "order"))
run_options = together(
    bundle(options.Source, only=("sep", "ledger", "void_earlier_promises")),
    bundle(options.Spending),
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
@arguments
@columns_option
@unit_options
@click.option(
    "--tail",
    type=float,
    default=0.005,
    metavar="SHARE",
    help="The share of rows that each bound may cut off.",
)
@cells_option
@run_options
def buy_bounds(named: Named, **given: Any) -> None:
    """Narrow the bounds of numeric columns by private quantiles, charged to the ledger.

    The search starts from the schema's own bounds, which must be public, and spends --eps on all
    columns together. With a unit of privacy these are quantiles of persons, whose rows weigh one
    together. The new schema records the charge, and the statement of every release made
    with it includes that charge.
    """
    from marginalsyn.purchases.bounds import Bounds

    _buy("schema buy-bounds", Bounds, lambda read: with_unit(read, named), **given)


@group.command(
    name="buy-bins",
    examples="""
    # ten bins of about equal weight
    marginalsyn schema buy-bins people.csv people.schema.json --bins 10 --eps 0.2 --out new.json
    """,
)
@arguments
@columns_option
@unit_options
@click.option(
    "--bins",
    type=click.IntRange(min=2),
    default=10,
    metavar="K",
    help="The number of bins.",
)
@cells_option
@run_options
def buy_bins(named: Named, **given: Any) -> None:
    """Cut numeric columns into bins of about equal weight by private quantiles.

    Every cut costs privacy: K bins take K - 1 selections, and --eps pays for all columns together.
    The charge is recorded in the ledger and in the new schema, as with buy-bounds.
    """
    from marginalsyn.purchases.bounds import Bins

    _buy("schema buy-bins", Bins, lambda read: with_unit(read, named), **given)


@group.command(
    name="buy-max-rows",
    examples="""
    # how many visits of a patient to count, so that 95% of the patients have no more
    marginalsyn schema buy-max-rows visits.csv v.json --unit patient_id --eps 0.1 --out new.json
    """,
)
@arguments
@unit_options_to_buy
@click.option(
    "--cap",
    type=click.IntRange(min=2),
    default=200,
    metavar="N",
    help="No more rows of a person are read. A public number.",
)
@click.option(
    "--tail",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    metavar="SHARE",
    help="The share of persons who may have more rows than are counted.",
)
@run_options
def buy_max_rows(named: Named, **given: Any) -> None:
    """Find with privacy how many rows of a person to count, charged to the ledger.

    The number is a quantile of persons' numbers of rows, rounded up to 1 to 15, 20, 27 and so on.
    The new schema has the unit and the charge, which every release made with it includes.
    """
    from marginalsyn.purchases.max_rows import MaxRows

    person: dict[str, Any] = {"unit": named.unit, "order": named.order}
    _buy("schema buy-max-rows", MaxRows, lambda read: read, **person, **given)


@group.command(
    name="buy-categories",
    examples="""
    # the columns that say "categories": "private"
    marginalsyn schema buy-categories people.csv people.schema.json --eps 0.2 --out new.json
    """,
)
@arguments
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME",
    help='A column. May be repeated. [default=those with "categories": "private"]',
)
@unit_options
@run_options
def buy_categories(columns: Sequence[str], named: Named, **given: Any) -> None:
    """List the categories of open columns by private partition selection.

    A value is listed if its noisy count reaches a threshold that one row passes by itself with a
    chance below the delta. The charge is recorded in the ledger and in the new schema, as with
    buy-bounds. `generate` buys them by itself, from its own budget, where they are left open.
    """
    from marginalsyn.purchases.categories import Categories, open_up

    def opened(read: Schema) -> Schema:
        return open_up(with_unit(read, named), columns)

    _buy("schema buy-categories", Categories, opened, **given)


def _buy(
    run: str,
    kind: type[Purchase],
    asked_of: Callable[[Schema], Schema],
    *,
    data: str,
    schema: Path,
    source: options.Source,
    spending: options.Spending,
    output: options.Output,
    resume: bool,
    **fields: Any,
) -> None:
    """Charge the ledger, buy, write the new schema.

    ``asked_of`` turns what the schema's file says into what is to be completed; ``fields`` are
    those of the purchase.
    """
    check_new(output.out, output.force)
    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.operations.opening import accounted, describe_total
    from marginalsyn.operations.origins import open_ledger
    from marginalsyn.privacy.noise import make_noise
    from marginalsyn.purchases.purchase import buy
    from marginalsyn.records.workspace import Workspace
    from marginalsyn.table.schema import Schema

    notes, budget = screen.Notes(output.quiet), spending.budget()
    purchase = kind(schema=asked_of(Schema.read(schema)), budget=budget, **fields)
    book = open_ledger(data, source)
    keeper = resuming.keep(data, Workspace.here(), notes)
    with accounted(book, keeper), keeper, notes.progress() as progress:
        progress.report("measure", text=shown_name(data))
        table = PrivateTable.open(
            data, purchase.counted, ledger=book, neighbours=budget.neighbours, sep=source.sep
        )
        bought = buy(table, purchase, noise=make_noise(), run=run, keeper=keeper)
        screen.put(bought.to_json(), output.out)
        keeper.finish()
    for line in purchase.notes(bought):
        notes.say(line)
    for line in describe_total(book):
        notes.say(line)


COMMANDS = (buy_bounds, buy_bins, buy_categories, buy_max_rows)
