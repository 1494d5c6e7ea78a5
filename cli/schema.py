"""``marginalsyn schema``: draft a table's public schema, check it, buy bounds for it."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import rich_click as click

from marginalsyn.cli import exchange, linked, options, schema_buying, screen, whom
from marginalsyn.cli.group import Group
from marginalsyn.errors import UsageError
from marginalsyn.operations.files import check_new
from marginalsyn.operations.origins import PASSWORD, hides_password, shown_name, with_unit

if TYPE_CHECKING:
    from marginalsyn.drafting.draft import Draft

kind_option = click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="NAME=KIND",
    help="Take a column for this kind: categorical, private-categories, ordinal, integer, "
    "continuous, boolean, date, datetime, time, identifier, constant, or drop. May be repeated.",
)
keep_option = click.option(
    "--keep",
    multiple=True,
    metavar="NAME",
    help="Keep a column that would be dropped or made anew. May be repeated.",
)
encoding_option = click.option(
    "--encoding",
    type=click.Choice(["utf-8", "latin-1", "cp1252", "utf-16"]),
    help="The encoding of a text file. [default=the one that its bytes show]",
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
    # linked tables: a folder with a file for each
    marginalsyn schema infer clinic --out clinic.schema.json
    # several rows for a person: the promise will be for persons
    marginalsyn schema infer visits.csv --unit patient_id --max-rows 20 --out visits.schema.json
    """
)
@schema_buying.data_argument
@options.model_label
@kind_option
@keep_option
@whom.file_options
@encoding_option
@options.schema_output
def infer(
    data: str,
    label: str | None,
    kinds: Sequence[str],
    named: options.Source,
    output: options.Output,
    **how: Any,
) -> None:
    """Draft a schema by looking at the rows. The draft is NOT private.

    Its bounds and categories come from the data. Replace them by public knowledge, then set
    "drafted_from_data" to false; until then `generate` refuses the schema. Every column is listed
    with what it is taken for and why; `--kind` and `--keep` change that. A column that tells
    persons apart and repeats is pointed out: say `--unit`.
    """
    from marginalsyn.operations.linked_draft import holds_several

    out, quiet = output.out, output.quiet
    check_new(out, output.force)
    if holds_several(data):
        linked.infer(data, out, named.sep, quiet)
        return
    from marginalsyn.drafting.draft import draft_schema
    from marginalsyn.table.schema import Schema

    # What is said wrong needs no rows to see.
    with_unit(Schema.from_domain({"_": 2}), named)
    notes = screen.Notes(quiet)
    with notes.progress() as progress:
        progress.report("read", text=shown_name(data))
        draft = draft_schema(data, label, sep=named.sep, kinds=kinds_of(kinds), **how)
    schema = whom.apply(named, draft.schema, draft)
    screen.put(schema.to_json(), out)
    if not quiet:
        show_verdicts(draft, sys.stderr)
    notes.warn(draft.schema.warning or "")
    if named.unit is None:
        whom.warn_of_repeats(draft.repeats, notes)
    if out is not None:
        notes.say("another kind for a column: --kind NAME=KIND, or --keep NAME")
        shown = shown_name(data)
        notes.say(f"next: edit {out}, then: marginalsyn schema check {shown} {out}")
        if hides_password(data):
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
    from marginalsyn.drafting.guess import OPEN

    screen.write_table(
        ("column", "kind", "codes", "fits", "made-up value", "why"),
        [
            (
                verdict.name,
                OPEN if verdict.open else verdict.kind,
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
@schema_buying.data_argument
@schema_buying.schema_argument
@whom.file_options
@options.as_json
@click.pass_context
def check(
    ctx: click.Context, data: str, schema: Path, named: options.Source, as_json: bool
) -> None:
    """Count the values that a schema would clip, map to OTHER or treat as missing.

    With a unit of privacy it counts persons and the rows that are left out; without one it points
    out columns that seem to tell persons apart and repeat. Of linked tables it counts rows without
    a parent and keys that several rows share. The counts are exact and so not private: they are for
    the curator alone. The exit code is 1 if the columns do not fit.
    """
    from marginalsyn.drafting.check import check_data, layout_problems
    from marginalsyn.drafting.person_columns import check_unit, find_person_columns
    from marginalsyn.operations.linked import find_linked
    from marginalsyn.sources.source import open_source
    from marginalsyn.table.schema import Schema

    notes, sep = screen.Notes(), named.sep
    tables = find_linked(replace(named, data=data, schema_path=schema))
    if tables is not None:
        linked.check(tables, as_json)
        return
    found = with_unit(Schema.read(schema), named)
    problems = layout_problems(open_source(data, sep=sep).columns, found)
    checks = [] if problems else check_data(data, found, sep=sep)
    persons = check_unit(data, found, sep=sep) if found.unit and not problems else None
    repeats = []
    if found.unit is None and named.unit is None and not problems:
        repeats = find_person_columns(data, sep=sep, encoding=found.encoding)
    if as_json:
        counts = ("missing", "unparsable", "unseen", "low", "high", "fractional")
        screen.write_json(
            {
                "stamp": "not private: for the curator",
                "problems": problems,
                "rows": checks[0].rows if checks else None,
                "unit": asdict(persons) if persons else None,
                "repeats": [asdict(one) for one in repeats],
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
            if persons is not None and found.unit is not None:
                screen.write(
                    f"{found.unit.text}: {persons.persons:,} persons with {persons.rows:,} rows, "
                    f"of which {persons.beyond:,} are beyond the bound and not counted; "
                    f"{persons.nobody:,} rows belong to nobody and are left out"
                )
            notes.warn(f"exact counts of {checks[0].rows:,} rows: not private, for the curator")
            whom.warn_of_repeats(repeats, notes)
    if problems:
        ctx.exit(1)


for command in (exchange.import_, exchange.export, *schema_buying.COMMANDS):
    schema.add_command(command)
