"""``marginalsyn schema``: draft a table's public schema, check it, buy bounds for it."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import rich_click as click

from marginalsyn.cli import exchange, options, resuming, screen
from marginalsyn.cli.bundles import bundle, together
from marginalsyn.cli.group import Group
from marginalsyn.curator import PASSWORD, check_new, replace_file, shown_name
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    from marginalsyn.private import Draft
    from marginalsyn.table import Schema

data_argument = click.argument(
    "data", help="The table: a file, a glob in quotes, or a database URL."
)
schema_argument = click.argument("schema", type=options.PATH, help="The schema file.")
out_option = click.option(
    "--out", type=options.PATH, metavar="FILE", help="The new schema file. [default=stdout]"
)
kind_option = click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="NAME=KIND",
    help="Take a column for this kind: categorical, ordinal, integer, continuous, boolean, date, "
    "datetime, time, identifier, constant, or drop. May be repeated.",
)
keep_option = click.option(
    "--keep",
    multiple=True,
    metavar="NAME",
    help="Keep a column that would be dropped or made anew. May be repeated.",
)
encoding_option = click.option(
    "--encoding",
    type=click.Choice(["utf-8", "latin-1", "utf-16"]),
    help="The encoding of a text file. [default=the one that its bytes show]",
)
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


@click.group(
    cls=Group,
    examples="""
    marginalsyn schema infer people.csv --out people.schema.json
    marginalsyn schema check people.csv people.schema.json
    marginalsyn schema import metadata.json --bounds age=0:120 --out people.schema.json
    marginalsyn schema buy-bounds people.csv people.schema.json --eps 0.1 --out new.json
    """,
)
def schema() -> None:
    """Draft, check and improve a table's schema.

    A schema is public: every release contains it. Take bounds and categories from a code book, or
    buy them with privacy budget; never read them off the rows.
    """


@schema.command(
    examples="""
    marginalsyn schema infer people.csv --label ill --out people.schema.json
    # what it took for something else
    marginalsyn schema infer people.csv --kind zip=categorical --keep notes --out people.schema.json
    """
)
@data_argument
@click.option("--label", metavar="COLUMN", help="The column that models predict.")
@kind_option
@keep_option
@options.separator
@encoding_option
@out_option
@options.force
@options.quiet
def infer(
    data: str,
    label: str | None,
    kinds: Sequence[str],
    keep: Sequence[str],
    sep: str | None,
    encoding: str | None,
    out: Path | None,
    force: bool,
    quiet: bool,
) -> None:
    """Draft a schema by looking at the rows. The draft is NOT private.

    Its bounds and categories come from the data. Replace them by public knowledge, then set
    "drafted_from_data" to false; until then `generate` refuses the schema. Every column is listed
    with what it is taken for and why; `--kind` and `--keep` change that.
    """
    check_new(out, force)
    from marginalsyn.private import draft_schema

    notes = screen.Notes(quiet)
    with notes.progress() as progress:
        progress.report("read", text=shown_name(data))
        draft = draft_schema(
            data, label, sep=sep, encoding=encoding, kinds=kinds_of(kinds), keep=keep
        )
    _write(draft.schema, out)
    if not quiet:
        show_verdicts(draft, sys.stderr)
    notes.warn(draft.schema.warning or "")
    if out is not None:
        notes.say("another kind for a column: --kind NAME=KIND, or --keep NAME")
        named = shown_name(data)
        notes.say(f"next: edit {out}, then: marginalsyn schema check {named} {out}")
        if named != data:
            notes.say(f"the password is left out here: {PASSWORD}")


def kinds_of(given: Sequence[str]) -> dict[str, str]:
    """What ``--kind NAME=KIND`` says, by name."""
    found = {}
    for text in given:
        name, equals, kind = text.rpartition("=")
        if not equals or not name:
            raise UsageError(f"--kind ({text}) must be NAME=KIND, as in --kind age=integer")
        found[name] = kind
    return found


def show_verdicts(draft: Draft, stream: TextIO) -> None:
    """A line for every column of the source."""
    screen.write_table(
        ("column", "kind", "codes", "fits", "made-up value", "why"),
        [
            (
                verdict.name,
                verdict.kind,
                verdict.codes or "",
                "" if verdict.fits is None else f"{math.floor(verdict.fits * 1000) / 10:g}%",
                verdict.example[:20],
                verdict.why,
            )
            for verdict in draft.verdicts
        ],
        right=("codes", "fits"),
        stream=stream,
    )


@schema.command(
    examples="""
    marginalsyn schema check people.csv people.schema.json
    """
)
@data_argument
@schema_argument
@options.separator
@options.as_json
@click.pass_context
def check(ctx: click.Context, data: str, schema: Path, sep: str | None, as_json: bool) -> None:
    """Count the values that a schema would clip, map to OTHER or treat as missing.

    The counts are exact and so not private: they are for the curator alone. The exit code is 1 if
    the columns do not fit.
    """
    from marginalsyn.private import check_data, layout_problems, open_source
    from marginalsyn.table import Schema

    notes = screen.Notes()
    found = Schema.read(schema)
    problems = layout_problems(open_source(data, sep=sep).columns, found)
    checks = [] if problems else check_data(data, found, sep=sep)
    if as_json:
        counts = ("missing", "unparsable", "unseen", "low", "high", "fractional")
        screen.write_json(
            {
                "stamp": "not private: for the curator",
                "problems": problems,
                "rows": checks[0].rows if checks else None,
                "columns": {
                    check.name: {
                        **{name: getattr(check, name) for name in counts},
                        "notes": check.notes(),
                    }
                    for check in checks
                },
            }
        )
    else:
        for problem in problems:
            screen.write(problem)
        if checks:
            screen.write_table(
                ("column", "kind", "values that do not come through as they are"),
                [
                    (
                        check.name if not number else "",
                        check.column.kind if not number else "",
                        note,
                    )
                    for check in checks
                    for number, note in enumerate(check.notes() or ["none"])
                ],
            )
            notes.warn(f"exact counts of {checks[0].rows:,} rows: not private, for the curator")
    if problems:
        ctx.exit(1)


@schema.command(
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
    columns together. The new schema records the charge, and the statement of every release made
    with it includes that charge.
    """
    _buy(tail=tail, bins=None, **given)


@schema.command(
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
    _buy(tail=0.0, bins=bins, **given)


def _buy(
    *,
    data: str,
    schema: Path,
    columns: Sequence[str],
    tail: float,
    bins: int | None,
    cells: int,
    source: options.Source,
    spending: options.Spending,
    output: options.Output,
    resume: bool,
) -> None:
    """Charge the ledger, find the quantiles, write the new schema."""
    check_new(output.out, output.force)
    from marginalsyn.cli.accounting import accounted, show_total
    from marginalsyn.curator import open_ledger
    from marginalsyn.noise import make_noise
    from marginalsyn.private import PrivateTable, buy, grid_schema
    from marginalsyn.release import Workspace
    from marginalsyn.table import Schema

    notes, budget = screen.Notes(output.quiet), spending.budget()
    public = Schema.read(schema)
    grid = grid_schema(public, columns, cells)
    workspace = Workspace.here()
    book = open_ledger(data, source, workspace)
    run = "schema buy-bounds" if bins is None else "schema buy-bins"
    keeper = resuming.keep(data, workspace, notes)
    with accounted(book, keeper), keeper, notes.progress() as progress:
        progress.report("measure", text=shown_name(data))
        table = PrivateTable.open(
            data, grid, ledger=book, neighbours=budget.neighbours, sep=source.sep
        )
        noise = make_noise()
        bought = buy(
            table, public, budget, noise=noise, bins=bins, tail=tail, run=run, keeper=keeper
        )
        _write(bought, output.out)
        keeper.finish()
    for name in grid.names:
        column = bought.column(name)
        notes.say(f"{name}: {', '.join(column.labels()[:12])}")
    show_total(book, notes)


def _write(schema: Schema, out: Path | None) -> None:
    """The schema as a file, or on stdout."""
    if out is None:
        screen.write(schema.to_json())
        return
    replace_file(out, lambda handle: handle.write(schema.to_json().encode()))
    screen.write(str(out))


for command in (exchange.import_, exchange.export):
    schema.add_command(command)
