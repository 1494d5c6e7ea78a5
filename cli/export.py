"""``marginalsyn export``: a release in the form that another tool or an authority reads."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from marginalsyn.cli import group, options, screen
from marginalsyn.cli.inputs import read_release
from marginalsyn.errors import UsageError
from marginalsyn.operations.files import write_exported
from marginalsyn.plugins.exchange.formats import FORMATS


@group.command(
    examples="""
    # domain, measurements and model of the last release, for mbi, in ./release-mbi
    marginalsyn export --to mbi
    # what can be exported to
    marginalsyn export --list
    """,
)
@options.release
@click.option(
    "--to",
    type=click.Choice(list(FORMATS)),
    metavar="FORMAT",
    help=f"The form: {', '.join(FORMATS)}. --list says what each is for.",
)
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="What only you can say and the form asks for; --list names it. May be repeated.",
)
@options.out(
    metavar="PATH",
    help="The file to write, or the folder for a form of several files. [default=stdout for one "
    "file, else a folder named after the release and the form]",
)
@click.option("--list", "listing", is_flag=True, help="List the forms.")
@options.force
@options.quiet
def export(
    release: Path | None,
    to: str | None,
    given: tuple[str, ...],
    out: Path | None,
    listing: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Give a release the form that another tool reads.

    Uses only what the release holds, so it spends no privacy budget and needs no private table.
    What the form cannot say is listed.
    """
    if listing:
        asked = [(name, form.summary, ", ".join(form.fields)) for name, form in FORMATS.items()]
        screen.write_table(("form", "what it is", "--set"), asked)
        return
    if to is None:
        raise UsageError(f"--to must name a form: {', '.join(FORMATS)}")
    from marginalsyn.plugins.exchange.formats import export as make

    values = dict(_pair(text) for text in given)
    notes = screen.Notes(quiet)
    source = read_release(release)
    found = make(source, to, values)
    if len(found.files) == 1 and out is None:
        (data,) = found.files.values()
        screen.write(data.decode())
    else:
        screen.write(str(write_exported(found, out or Path(f"{source.path.name}-{to}"), force)))
    for line in found.lost:
        notes.warn(f"not in the export: {line}")
    notes.say("no privacy budget was spent.")


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise UsageError(f"--set ({text}) must look like NAME=VALUE")
    return name, value
