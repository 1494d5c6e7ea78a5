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
from marginalsyn.cli import (
    downloads,
    group,
    options,
    screen,
    start_commands,
    start_forecast,
    whom,
)
from marginalsyn.cli.schema import keep_option, kind_option, kinds_of, show_verdicts
from marginalsyn.cli.start_commands import Choices
from marginalsyn.errors import MarginalsynError, StoppedError, UsageError
from marginalsyn.operations.origins import shown_name, with_unit

if TYPE_CHECKING:
    from marginalsyn.drafting.draft import Draft
    from marginalsyn.table.schema import Schema

EPS = 1.0
HOLDOUT = 0.2


@group.command(
    examples="""
    # asks what it has to know; Enter takes what it proposes
    marginalsyn start hospital.csv
    # asks nothing
    marginalsyn start hospital.csv --label readmitted --eps 1 --yes
    # with a schema that you wrote or checked
    marginalsyn start hospital.csv --public hospital.schema.json --yes
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
@options.model_label
@kind_option
@keep_option
@whom.file_options
@click.option(
    "--eps",
    type=click.FloatRange(min=0, min_open=True),
    default=EPS,
    metavar="EPS",
    help="The privacy budget of the release.",
)
@click.option("--method", metavar="NAME", help="The generator. [default=auto if installed]")
@click.option(
    "--holdout",
    type=click.FloatRange(0, 1, max_open=True),
    default=HOLDOUT,
    metavar="SHARE",
    help="The share of rows that the release never sees, to evaluate it on.",
)
@click.option(
    "--public",
    metavar="SCHEMA",
    # Without a value it is refused with what to do.
    is_flag=False,
    flag_value="",
    help="The schema file that you wrote, or drafted and checked: you vouch that all it says is "
    "public knowledge. Without it a draft is read off the rows, and with --yes the privacy "
    "statement says so.",
)
@click.option("--yes", is_flag=True, help="Ask nothing: take what is proposed.")
@options.out(
    default=defaults.RELEASE,
    metavar="FOLDER",
    help="The release folder.",
)
@options.force
@options.quiet
def start(
    data: str,
    kinds: Sequence[str],
    keep: Sequence[str],
    named: options.Source,
    eps: float,
    method: str | None,
    public: str | None,
    yes: bool,
    out: Path,
    force: bool,
    quiet: bool,
    **decided: Any,
) -> None:
    """Go from a file to a private release and its evaluation in one command.

    Finds the layout, shows what every column is taken for, asks what only you can know, and tells
    what the budget will buy before it is spent. Then it generates the release, evaluates it on rows
    that were held out, and writes the schema and a script of plain commands that does the same
    again.
    """
    from marginalsyn.contract import make_config
    from marginalsyn.drafting.draft import described, draft_schema
    from marginalsyn.operations.origins import labelled
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.release.folder import preflight
    from marginalsyn.table.schema import Schema

    if not yes and not _at_terminal():
        raise UsageError("start asks questions on a terminal; add --yes to take what it proposes")
    notes = screen.Notes(quiet)
    preflight(out, force)
    # What is said wrong needs no rows to see.
    with_unit(Schema.from_domain({"_": 2}), named)
    method = method or _default_method()
    make_config(method, {})
    Budget(eps=eps)
    chosen = kinds_of(kinds)
    vouched = _vouched_for(public, data, [*kinds, *keep])
    data = downloads.brought(data, notes)
    stem = start_commands.stem(data)
    choices = Choices(
        data=data,
        kinds=chosen,
        keep=tuple(keep),
        eps=eps,
        method=method,
        public=None if public is None else Path(public),
        out=out,
        schema_path=Path(f"{stem}.schema.json"),
        evaluation=Path(defaults.EVALUATION),
        whom=named,
        **decided,
    )

    def read(known: Choices) -> Draft:
        with notes.progress() as progress:
            progress.report("read", text=stem)
            if vouched is not None:
                asked = with_unit(labelled(vouched, known.label), known.whom)
                return described(data, asked, sep=named.sep)
            return draft_schema(
                data, known.label, sep=named.sep, kinds=known.kinds, keep=known.keep
            )

    began = time.monotonic()
    draft = read(choices)
    seconds = time.monotonic() - began
    if not quiet:
        show_verdicts(draft, sys.stderr)
    if not yes:
        choices, draft = _ask(choices, draft, read)
        # Persons are counted in the column that was named.
        draft = read(choices) if vouched is not None else draft
    elif named.unit is None and draft.schema.unit is None:
        whom.warn_of_repeats(draft.repeats, notes)
    schema = draft.schema
    if vouched is None:
        schema = start_forecast.settled(schema)
        if not yes:
            schema, bought = start_forecast.sourced(schema, start_forecast.ask_whence(schema))
            choices = replace(choices, bought=tuple(bought))
    schema = whom.apply(choices.whom, schema, draft)
    choices = replace(choices, drafted=schema.drafted_from_data, open=bool(schema.open))
    start_forecast.tell(choices, draft, schema, seconds, notes)
    if not yes and not click.confirm("Spend this budget now?", default=True, err=True):
        notes.say("Nothing was spent.")
        return
    if choices.public is not None and schema == vouched:
        choices = replace(choices, schema_path=choices.public)
    else:
        schema.write(choices.schema_path)
    # Who asks nothing was told before of columns that are nearly all missing.
    commands = start_commands.commands(choices, force, go_on=yes)
    script = Path(f"{stem}.sh")
    script.write_text(start_commands.script(commands, choices), encoding="utf-8")
    with start_commands.password_of(data):
        for name, arguments in commands:
            words = [*arguments, *(["--quiet"] if quiet else [])]
            try:
                start_commands.run(name, words)
            except StoppedError as stopped:
                notes.warn(str(stopped).partition(" Mend the schema")[0])
                if not click.confirm("Spend the rest of it all the same?", default=False, err=True):
                    notes.say(
                        "What is paid is kept. Drop or mend these columns in "
                        f"{choices.schema_path} or by --kind NAME=drop, and begin again"
                    )
                    return
                start_commands.run(name, [*words, "--go-on"])
    page = choices.evaluation / "report.html"
    notes.say(f"schema: {choices.schema_path}   the same again: sh {script}   page: {page}")
    if not yes:
        click.launch(str(page))


def _ask(choices: Choices, draft: Draft, read: Any) -> tuple[Choices, Draft]:
    """What only the user can know: wrong kinds, the label, who a row is about."""
    columns = "Columns to change, as NAME=KIND or NAME=drop (Enter: none)"
    while choices.public is None and (typed := _prompt(columns)):
        try:
            changed = replace(choices, kinds={**choices.kinds, **kinds_of(_words(typed))})
            draft, choices = read(changed), changed
        except MarginalsynError as error:
            screen.Notes().warn(str(error))
        else:
            show_verdicts(draft, sys.stderr)
    label = "The column that models predict (Enter: none)"
    while draft.schema.label is None and (typed := _prompt(label)):
        try:
            changed = replace(choices, label=typed)
            draft, choices = read(changed), changed
        except MarginalsynError as error:
            screen.Notes().warn(str(error))
    if choices.whom.unit is None and draft.schema.unit is None:
        column, most = whom.ask(draft)
        choices = replace(choices, whom=replace(choices.whom, unit=column, max_rows=most))
    return choices, draft


def _vouched_for(public: str | None, data: str, changed: Sequence[str]) -> Schema | None:
    """The schema that a person wrote or checked, where ``--public`` names one."""
    from marginalsyn.table.schema import Schema

    if public is None:
        return None
    if not public:
        raise UsageError(
            "--public must name the schema file that you wrote or checked, as in --public "
            "people.schema.json: nobody can vouch for what nobody has seen. To get one, run "
            f"`marginalsyn schema infer {shown_name(data)} --out people.schema.json`, replace in "
            "it what came from the rows by what a code book says, then set drafted_from_data to "
            "false"
        )
    if changed:
        raise UsageError(
            "--kind and --keep change a draft: write into --public's file what you want"
        )
    schema = Schema.read(public)
    if schema.drafted_from_data:
        raise UsageError(
            f"--public ({public}) must be a schema that you wrote or checked, and it says "
            "drafted_from_data: replace in it what came from the rows by what a code book says, "
            "then set drafted_from_data to false"
        )
    return schema


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
