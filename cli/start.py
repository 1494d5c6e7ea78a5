"""``marginalsyn start``: one guided command from a file to a release and its evaluation."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn import defaults
from marginalsyn.cli import downloads, options, screen, start_commands, start_forecast, whom
from marginalsyn.cli.group import Command
from marginalsyn.cli.schema import keep_option, kind_option, kinds_of, show_verdicts
from marginalsyn.cli.start_commands import Choices
from marginalsyn.curator import with_unit
from marginalsyn.errors import MarginalsynError, StoppedError, UsageError

if TYPE_CHECKING:
    from marginalsyn.private import Draft

EPS = 1.0
HOLDOUT = 0.2


@click.command(
    cls=Command,
    examples="""
    # asks what it has to know; Enter takes what it proposes
    marginalsyn start hospital.csv
    # asks nothing
    marginalsyn start hospital.csv --label readmitted --eps 1 --yes
    # what it took for something else
    marginalsyn start hospital.csv --kind zip=categorical --kind notes=drop
    # a table behind a web address is fetched into this folder first
    marginalsyn start https://host.example/hospital.csv
    # several rows for a person: protect persons
    marginalsyn start visits.csv --unit patient_id --max-rows 20
    """,
)
@click.argument(
    "data", help="The table: a file, a glob in quotes, a database URL, or a web address."
)
@click.option("--label", metavar="COLUMN", help="The column that models predict.")
@kind_option
@keep_option
@options.separator
@whom.unit_options
@click.option(
    "--eps",
    type=click.FloatRange(min=0, min_open=True),
    default=EPS,
    show_default=True,
    metavar="EPS",
    help="The privacy budget of the release.",
)
@click.option("--method", metavar="NAME", help="The generator. [default=auto if installed]")
@click.option(
    "--holdout",
    type=click.FloatRange(0, 1, max_open=True),
    default=HOLDOUT,
    show_default=True,
    metavar="SHARE",
    help="The share of rows that the release never sees, to evaluate it on.",
)
@click.option(
    "--public",
    is_flag=True,
    help="You vouch that the kinds, bounds and categories shown are public knowledge. Without it "
    "the privacy statement says that they were read off the rows.",
)
@click.option("--yes", is_flag=True, help="Ask nothing: take what is proposed.")
@click.option(
    "--out",
    type=options.PATH,
    default=defaults.RELEASE,
    show_default=True,
    metavar="FOLDER",
    help="The release folder.",
)
@options.force
@options.quiet
def start(
    data: str,
    label: str | None,
    kinds: Sequence[str],
    keep: Sequence[str],
    sep: str | None,
    unit: str | None,
    max_rows: int | None,
    order: str | None,
    eps: float,
    method: str | None,
    holdout: float,
    public: bool,
    yes: bool,
    out: Path,
    force: bool,
    quiet: bool,
) -> None:
    """Go from a file to a private release and its evaluation in one command.

    Finds the layout, shows what every column is taken for, asks what only you can know, and tells
    what the budget will buy before it is spent. Then it generates the release, evaluates it on rows
    that were held out, and writes the schema and a script of plain commands that does the same
    again.
    """
    from marginalsyn.budget import Budget
    from marginalsyn.contract import make_config
    from marginalsyn.private import draft_schema
    from marginalsyn.release import preflight
    from marginalsyn.table import Schema

    if not yes and not _at_terminal():
        raise UsageError("start asks questions on a terminal; add --yes to take what it proposes")
    notes = screen.Notes(quiet)
    preflight(out, force)
    # What is said wrong needs no rows to see.
    with_unit(Schema.from_domain({"_": 2}), whom.told(unit, max_rows, order))
    make_config(method or _default_method(), {})
    Budget(eps=eps)
    chosen = kinds_of(kinds)
    data = downloads.brought(data, notes)
    stem = start_commands.stem(data)
    choices = Choices(
        data=data,
        label=label,
        kinds=chosen,
        keep=tuple(keep),
        sep=sep,
        eps=eps,
        method=method or _default_method(),
        holdout=holdout,
        public=public,
        out=out,
        schema_path=Path(f"{stem}.schema.json"),
        evaluation=Path(defaults.EVALUATION),
        unit=unit,
        max_rows=max_rows,
        order=order,
    )

    def read(known: Choices) -> Draft:
        with notes.progress() as progress:
            progress.report("read", text=stem)
            return draft_schema(data, known.label, sep=sep, kinds=known.kinds, keep=known.keep)

    began = time.monotonic()
    draft = read(choices)
    seconds = time.monotonic() - began
    if not quiet:
        show_verdicts(draft, sys.stderr)
    if not yes:
        choices, draft = _ask(choices, draft, read)
    elif unit is None:
        whom.warn_of_repeats(draft.repeats, notes)
    settled = start_forecast.settled(draft.schema, public=choices.public)
    schema = whom.apply(choices.whom, settled, draft)
    start_forecast.tell(choices, draft, schema, seconds, notes)
    if not yes and not click.confirm("Spend this budget now?", default=True, err=True):
        notes.say("Nothing was spent.")
        return
    schema.write(choices.schema_path)
    # Who asks nothing was told before of columns that are nearly all missing.
    commands = start_commands.commands(choices, force, go_on=yes)
    script = Path(f"{stem}.sh")
    script.write_text(start_commands.script(commands, choices), encoding="utf-8")
    for name, arguments in commands:
        words = [*arguments, *(["--quiet"] if quiet else [])]
        try:
            with start_commands.password_of(data):
                start_commands.run(name, words)
        except StoppedError as stopped:
            notes.warn(str(stopped).partition(" Mend the schema")[0])
            if not click.confirm("Spend the rest of it all the same?", default=False, err=True):
                notes.say(
                    f"What is paid is kept. Drop or mend these columns in {choices.schema_path} or "
                    "by --kind NAME=drop, and begin anew"
                )
                return
            with start_commands.password_of(data):
                start_commands.run(name, [*words, "--go-on"])
    page = choices.evaluation / "report.html"
    notes.say(f"schema: {choices.schema_path}   the same again: sh {script}   page: {page}")
    if not yes:
        click.launch(str(page))


def _ask(choices: Choices, draft: Draft, read: Any) -> tuple[Choices, Draft]:
    """What only the user can know: wrong kinds, the label, whom a row is of, what is public."""
    while True:
        told = _prompt("Columns to change, as NAME=KIND or NAME=drop (Enter: none)")
        if not told:
            break
        try:
            changed = replace(choices, kinds={**choices.kinds, **kinds_of(_words(told))})
            draft = read(changed)
        except MarginalsynError as error:
            screen.Notes().warn(str(error))
            continue
        choices = changed
        show_verdicts(draft, sys.stderr)
    while choices.label is None:
        told = _prompt("The column that models predict (Enter: none)")
        if not told:
            break
        try:
            draft = read(replace(choices, label=told))
            choices = replace(choices, label=told)
        except MarginalsynError as error:
            screen.Notes().warn(str(error))
    if choices.unit is None:
        column, most = whom.ask(draft)
        choices = replace(choices, unit=column, max_rows=most)
    if not choices.public:
        public = click.confirm(
            "Are these kinds, bounds and categories public knowledge, as from a code book?",
            default=False,
            err=True,
        )
        choices = replace(choices, public=public)
    return choices, draft


def _words(told: str) -> list[str]:
    """What was typed, in words; names with spaces in quotes."""
    try:
        return shlex.split(told)
    except ValueError:
        raise UsageError(f"{told} must close its quotes, as in 'blood pressure=integer'") from None


def _at_terminal() -> bool:
    return sys.stdin.isatty()


def _prompt(text: str) -> str:
    return str(click.prompt(text, default="", show_default=False, err=True)).strip()


def _default_method() -> str:
    from marginalsyn.cli.generate import generate

    return generate.default_method()
