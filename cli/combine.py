"""``marginalsyn combine``: one interval from what any code computed on many tables."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from marginalsyn.cli import group, options, screen
from marginalsyn.cli.inputs import read_release
from marginalsyn.operations.tables import read_table


@group.command(
    examples="""
    marginalsyn sample release --imputations 20 --out tables
    # results.csv: table,term,estimate,se; a row for each file of ./tables and each term
    marginalsyn combine results.csv --tables tables
    # with a column `about` in the results, such as "y ~ a * b": was that measured?
    marginalsyn combine results.csv --tables tables --release release
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
    "--release",
    type=options.PATH,
    metavar="FOLDER",
    help="The release that the tables are from: whether it measured what each term is about.",
)
@options.confidence
@options.as_json
def combine(
    results: Path, tables: Path | None, release: Path | None, confidence: float, as_json: bool
) -> None:
    """Combine results of many tables into estimates with honest intervals.

    RESULTS has the columns `table` (a file of `sample --imputations`), `estimate`, `se` (or
    `variance`) as your own code printed them, and `term` where there is more than one. Tables that
    were drawn from one model are refused: they do not show how sure it is. A column `about` (a
    formula or columns) with --release says what a term rests on: what was not measured has no
    interval.
    """
    from marginalsyn.answers.combining import combine as apply

    opened = read_release(release) if release else None
    found = apply(
        read_table(results), tables or results.parent, release=opened, confidence=confidence
    )
    if as_json:
        from marginalsyn.contract import plain

        screen.write_json(plain(found.to_dict("records")))
        return
    head = tuple(str(name) for name in found.columns if name != "note")
    shown = found[list(head)].astype(object).fillna("not measured")
    screen.write_table(head, shown.to_numpy(object).tolist(), right=head[1:])
    notes = screen.Notes()
    for note, own in found[found["note"] != ""].groupby("note", sort=False):
        notes.warn(f"{', '.join(own['term'])}: {note}")
