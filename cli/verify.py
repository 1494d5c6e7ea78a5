"""``marginalsyn verify``: does a release folder hold what its statement says?"""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from marginalsyn.cli import group, options, screen
from marginalsyn.cli.inputs import release_path


@group.command(
    examples="""
    # the last release made here
    marginalsyn verify
    marginalsyn verify release --json
    """,
)
@options.release
@options.quiet
@options.as_json
@click.pass_context
def verify(ctx: click.Context, release: Path | None, quiet: bool, as_json: bool) -> None:
    """Check a release: its files, its charges, its rows against the schema.

    Compares the files with their recorded hashes, adds up the charges again, and derives the
    guarantee, the noise and the versions again from the laws and libraries that the statement
    records. Needs neither the private table nor its ledger. The exit code is 1 if anything is
    wrong. Seeded noise, or a schema drafted from the data, is shown as a warning.
    """
    from marginalsyn.certificates.verification import verify as problems_of
    from marginalsyn.release.linked import open_release

    path = release_path(release)
    problems = problems_of(path)
    warnings: list[str] = []
    if not problems:
        statement = open_release(path).statement
        warnings = list(statement.warnings)
    if as_json:
        screen.write_json({"release": str(path), "problems": problems, "warnings": warnings})
    else:
        for problem in problems:
            screen.write(f"{path}: {problem}")
        screen.Notes(quiet).warn_all(warnings)
        if not problems:
            screen.write(f"{path}: {len(statement.files)} files verified; {statement.total()}")
    if problems:
        ctx.exit(1)
