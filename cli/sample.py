"""``marginalsyn sample``: more rows from a release, at no cost in privacy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import rich_click as click

from marginalsyn.cli import group, linked, options, screen
from marginalsyn.cli.inputs import read_release, release_path
from marginalsyn.errors import UsageError
from marginalsyn.operations.files import check_table, write_table


@group.command(
    examples="""
    # 50,000 rows of the last release
    marginalsyn sample --rows 50000 --out more.csv
    # twenty tables for code of your own, each from its own model
    marginalsyn sample release --imputations 20 --out tables
    # rows that agree with a condition, as the model has them: none is rejected
    marginalsyn sample release --where 'sex=female,age=40..50' --rows 500
    # of linked tables: 100 persons with all their rows, a file for each table
    marginalsyn sample clinic-release --rows 100 --out more-clinic
    # on stdout, for another program
    marginalsyn sample release --rows 10
    """,
)
@options.release
@click.option(
    "--imputations",
    type=click.IntRange(min=5, max=1000),
    metavar="M",
    help="Fill the folder --out with so many tables, each drawn from the model of a replay of the "
    "release, beside one large table of its own model; see `marginalsyn combine`.",
)
@click.option(
    "--target",
    type=click.Choice(["population", "table"]),
    help="What results combined from imputations will be for. [default=population]",
)
@options.rows(
    "The number of rows; of linked tables, of persons. "
    "[default=the release's estimate of the number of private rows]"
)
@click.option(
    "--where",
    metavar="COLUMN=VALUE,...",
    help="Only rows that agree: values, ranges such as age=40..50 (either end may be left out), "
    "`missing`, or several with | between. [default rows: the release's estimate of how many "
    "private rows agree]",
)
@options.out(help="The .csv or .parquet file to write. [default=CSV on stdout]")
@options.seed(help="Make the draw repeatable. This is safe: sampling adds no protective noise.")
@options.force
@options.quiet
def sample(
    release: Path | None,
    imputations: int | None,
    target: str | None,
    rows: int | None,
    where: str | None,
    out: Path | None,
    seed: int | None,
    force: bool,
    quiet: bool,
) -> None:
    """Draw more rows from a release.

    Uses only what the release holds, so it spends no privacy budget and needs no private table.
    """
    if imputations is not None and where is not None:
        raise UsageError(f"--where ({where}) cannot be given with --imputations")
    if imputations is not None:
        how = {"rows": rows, "seed": seed, "force": force}
        _impute(release, out, quiet, tables=imputations, target=target or "population", **how)
        return
    if target is not None:
        raise UsageError(f"--target ({target}) can only be given with --imputations")
    from marginalsyn.release.linked import LinkedRelease, is_linked_release

    path = release_path(release)
    if is_linked_release(path):
        linked.sample(LinkedRelease.read(path), rows, where, out, seed, force, quiet)
        return
    check_table(out, force)
    import numpy as np

    from marginalsyn.release.sampling import sample as draw
    from marginalsyn.table.made import complete

    notes = screen.Notes(quiet)
    with notes.progress() as progress:
        progress.report("sample")
        found = read_release(release)
        frame = complete(draw(found, rows, np.random.default_rng(seed), where=where), found.schema)
    if out is None:
        from marginalsyn.table.frames import write_csv

        write_csv(frame, sys.stdout.buffer)
        return
    write_table(frame, out)
    screen.write(str(out))
    notes.say(f"{len(frame):,} rows; no privacy budget was spent.")


def _impute(
    release: Path | None, out: Path | None, quiet: bool, *, tables: int, target: str, **how: Any
) -> None:
    """Fill a folder with tables, each of its own model."""
    from marginalsyn.answers.imputations import impute

    if out is None or out.suffix in (".csv", ".parquet"):
        raise UsageError(f"--out ({out}) must be a folder for --imputations")
    notes = screen.Notes(quiet)
    with notes.progress() as progress:
        index = impute(
            read_release(release),
            out,
            tables=tables,
            target=target,  # type: ignore[arg-type]
            progress=progress,
            **how,
        )
    screen.write(str(out))
    notes.say(
        f"{tables} tables of {index.rows:,} rows for intervals of the {target}, and one of the "
        "release's model; no privacy budget was spent."
    )
