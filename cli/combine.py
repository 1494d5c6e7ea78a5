"""``marginalsyn combine``: one interval from what any code computed on many tables."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from marginalsyn.cli import options, screen
from marginalsyn.cli.group import Command
from marginalsyn.curator import read_table


@click.command(
    cls=Command,
    examples="""
    marginalsyn sample release --imputations 20 --out tables
    # results.csv: table,term,estimate,se; a row for each file of ./tables and each term
    marginalsyn combine results.csv --tables tables
    """,
)
@click.argument("results", type=options.PATH, help="A CSV or Parquet file of results.")
@click.option(
    "--tables",
    type=options.PATH,
    metavar="FOLDER",
    help="The folder that `sample --imputations` filled. [default=that of the results]",
)
@click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    metavar="SHARE",
    help="How often an interval should hold the truth.",
)
@options.as_json
def combine(results: Path, tables: Path | None, confidence: float, as_json: bool) -> None:
    """Combine results of many tables into estimates with honest intervals.

    RESULTS has the columns `table` (a file of `sample --imputations`), `estimate`, `se` (or
    `variance`) as your own code printed them, and `term` where there is more than one. Tables that
    were drawn from one model are refused: they do not tell how sure it is.
    """
    from marginalsyn.answers import combine as apply

    found = apply(read_table(results), tables or results.parent, confidence=confidence)
    if as_json:
        screen.write_json(found.to_dict("records"))
        return
    head = tuple(str(name) for name in found.columns if name != "note")
    screen.write_table(head, found[list(head)].to_numpy(object).tolist(), right=head[1:])
    notes = screen.Notes()
    for term, note in zip(found["term"], found["note"], strict=True):
        if note:
            notes.warn(f"{term}: {note}")
