"""The options that several commands share, spelled and explained in one place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import rich_click as click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

DEFAULT_RELEASE = "release"
PATH = click.Path(path_type=Path)


def together(*decorators: Decorator) -> Decorator:
    """One decorator out of several, in the order in which the help shows them."""

    def apply(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorate in reversed(decorators):
            function = decorate(function)
        return function

    return apply


source = together(
    click.option(
        "--data",
        metavar="PATH|URL",
        panel="Source",
        help="The private table: a CSV or Parquet file, a glob in quotes, or a URL of a database "
        "(`postgres://user@host/db?table=t`, `duckdb:///file.duckdb?table=t`, `spark://table`).",
    ),
    click.option(
        "--schema",
        "schema_path",
        type=PATH,
        metavar="FILE",
        panel="Source",
        help="The table's public schema (JSON); see `marginalsyn schema infer`.",
    ),
    click.option(
        "--dataset",
        metavar="NAME",
        panel="Source",
        help="A bundled table instead of --data; see `marginalsyn datasets list`.",
    ),
)

separator = click.option(
    "--sep",
    metavar="CHAR",
    panel="Source",
    help="The character between the fields of a CSV file. [default=a comma, or a tab for .tsv]",
)

ledger = together(
    click.option(
        "--ledger",
        "ledger_path",
        type=PATH,
        metavar="FILE",
        panel="Source",
        help="The ledger file to charge, if it is not the one in your data folder (see "
        "`marginalsyn ledger list`).",
    ),
    click.option(
        "--void-earlier-promises",
        is_flag=True,
        panel="Source",
        help="Allow a charge under another neighbouring relation than the ledger's. A run under "
        "one relation may publish what the other keeps private, such as the number of rows, "
        "so the ledger records that its add-remove promises are void.",
    ),
)

budget = together(
    click.option(
        "--eps",
        type=float,
        required=True,
        panel="Budget",
        metavar="EPS",
        help="The privacy budget of this run: the eps of (eps, delta)-differential privacy. "
        "Smaller is more private: 0.1 to 1 is strong, 1 to 4 is usual, above 10 promises "
        "little.",
    ),
    click.option(
        "--delta",
        type=float,
        default=1e-9,
        show_default=True,
        metavar="DELTA",
        panel="Budget",
        help="The delta of (eps, delta): a public constant, far smaller than 1 / (number of rows).",
    ),
    click.option(
        "--allow-large-delta",
        is_flag=True,
        panel="Budget",
        help="Accept a delta of 1e-6 or more.",
    ),
    click.option(
        "--neighbours",
        type=click.Choice(["add-remove", "replace"]),
        default="add-remove",
        show_default=True,
        panel="Budget",
        help="Which tables must be hard to tell apart: those that differ by one row added or "
        "removed, or by one row replaced (the number of rows is then public).",
    ),
)

seed = click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="For research: draw all noise from this seed. The result is reproducible and NOT private.",
)

quiet = click.option("-q", "--quiet", is_flag=True, help="Print no messages and no progress.")

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

force = click.option("--force", is_flag=True, help="Overwrite what exists.")

release = click.argument(
    "release",
    type=PATH,
    required=False,
    help="The release folder. [default=the last one made here, else ./release]",
)
