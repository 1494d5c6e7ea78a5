"""``marginalsyn start``: one guided command from a file to a release and its evaluation."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import rich_click as click

from marginalsyn import defaults
from marginalsyn.cli import options, screen, whom
from marginalsyn.cli.group import Command
from marginalsyn.cli.schema import keep_option, kind_option, kinds_of, show_verdicts
from marginalsyn.curator import PASSWORD, Named, hides_password, shown_name, with_unit
from marginalsyn.errors import MarginalsynError, StoppedError, UsageError

if TYPE_CHECKING:
    from marginalsyn.private import Draft
    from marginalsyn.table import Schema

EPS = 1.0
HOLDOUT = 0.2
# From this share on a column is said to be nearly all missing.
MOSTLY = 0.8
MISFIT = 0.05
# Where counts are off by more than this share of the rows, it is said what more would buy, up to
# the largest usual budget.
COARSE = 0.01
MOST_EPS = 8.0
# Fewer bins than a schema's own "auto": what suits a table of some thousand rows at eps 1.
MOST_BINS = 16
PASSWORD_VARIABLE = "PGPASSWORD"


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the user decided, and what the commands afterwards are told."""

    data: str
    label: str | None
    kinds: dict[str, str]
    keep: tuple[str, ...]
    sep: str | None
    eps: float
    method: str
    holdout: float
    public: bool
    out: Path
    schema_path: Path
    evaluation: Path
    unit: str | None = None
    max_rows: int | None = None
    order: str | None = None

    @property
    def whom(self) -> Named:
        """Whom the promise is for."""
        return whom.told(self.unit, self.max_rows, self.order)


@click.command(
    cls=Command,
    examples="""
    # asks what it has to know; Enter takes what it proposes
    marginalsyn start hospital.csv
    # asks nothing
    marginalsyn start hospital.csv --label readmitted --eps 1 --yes
    # what it took for something else
    marginalsyn start hospital.csv --kind zip=categorical --kind notes=drop
    # several rows for a person: protect persons
    marginalsyn start visits.csv --unit patient_id --max-rows 20
    """,
)
@click.argument("data", help="The table: a file, a glob in quotes, or a database URL.")
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
    notes, stem = screen.Notes(quiet), _stem(data)
    preflight(out, force)
    choices = Choices(
        data=data,
        label=label,
        kinds=kinds_of(kinds),
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
    # What is said wrong needs no rows to see.
    with_unit(Schema.from_domain({"_": 2}), choices.whom)
    make_config(choices.method, {})
    Budget(eps=eps)

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
    settled = _settled(draft.schema, public=choices.public)
    schema = whom.apply(choices.whom, settled, draft)
    _tell(choices, draft, schema, seconds, notes)
    if not yes and not click.confirm("Spend this budget now?", default=True, err=True):
        notes.say("Nothing was spent.")
        return
    schema.write(choices.schema_path)
    # Who asks nothing was told before of columns that are nearly all missing.
    commands = _commands(choices, force, go_on=yes)
    script = Path(f"{stem}.sh")
    script.write_text(_script(commands, choices), encoding="utf-8")
    for name, arguments in commands:
        words = [*arguments, *(["--quiet"] if quiet else [])]
        try:
            with _password_of(data):
                _run(name, words)
        except StoppedError as stopped:
            notes.warn(str(stopped).partition(" Mend the schema")[0])
            if not click.confirm("Spend the rest of it all the same?", default=False, err=True):
                notes.say(
                    f"What is paid is kept. Drop or mend these columns in {choices.schema_path} or "
                    "by --kind NAME=drop, and begin anew"
                )
                return
            with _password_of(data):
                _run(name, [*words, "--go-on"])
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


def _settled(schema: Schema, *, public: bool) -> Schema:
    """The draft in coarser bins, and as public knowledge where the user vouches for it.

    How coarse they are depends on no row: the number of rows is private.
    """
    from marginalsyn.table import MomentColumn, Schema

    bins: dict[str, int | str] = {}
    for column in schema.columns:
        if isinstance(column, MomentColumn):
            coarser = [schema.with_bins(**{column.name: period}) for period in _periods(column)]
            sizes = {one.column(column.name).levels: one for one in coarser}
            fitting = [size for size in sizes if size <= MOST_BINS]
            if column.levels > MOST_BINS:
                bins[column.name] = (
                    sizes[max(fitting)].column(column.name).bins if fitting else MOST_BINS  # type: ignore[union-attr, assignment]
                )
        elif column.numeric and column.levels > MOST_BINS:
            bins[column.name] = MOST_BINS
    coarse = schema.with_bins(**bins)
    return Schema(**{**coarse.model_dump(), "drafted_from_data": False}) if public else coarse


def _periods(column: Any) -> list[str]:
    """The periods of a calendar that suit a column."""
    return ["hour"] if column.kind == "time" else ["month", "quarter", "year"]


def _tell(
    choices: Choices, draft: Draft, schema: Schema, seconds: float, notes: screen.Notes
) -> None:
    """What the budget will buy and what would come out missing or useless, before it is spent."""
    from marginalsyn.budget import Budget
    from marginalsyn.contract import make_config
    from marginalsyn.curator import foresee

    whole = draft.rows if schema.unit is None else draft.distinct[schema.unit.column]
    many = "rows" if schema.unit is None else "persons"
    seen = max(1, round(whole * (1 - choices.holdout)))
    config = make_config(choices.method, {})
    told = foresee(schema, config, Budget(eps=choices.eps), seen)
    for verdict in draft.verdicts:
        if verdict.missing > MOSTLY:
            notes.warn(
                f"{verdict.name} is {verdict.missing:.0%} missing: little is worth its budget; "
                f"--kind {verdict.name}=drop leaves it out"
            )
        if verdict.fits is not None and verdict.fits < 1 - MISFIT:
            notes.warn(
                f"{verdict.name}: {1 - verdict.fits:.0%} of its values do not fit the kind "
                f"{verdict.kind}; --kind {verdict.name}=KIND takes it for another"
            )
    for name in told.useless:
        notes.warn(
            f"{name} would mostly show noise: it has {schema.column(name).size} codes for "
            f"{seen:,} {many}; give it fewer bins, drop it, or raise --eps"
        )
    worst = max(told.errors, key=lambda name: told.errors[name])
    notes.say(
        f"method {choices.method}, eps {choices.eps:g}, {choices.holdout:.0%} of the {many} held "
        "out for the evaluation"
    )
    notes.say(
        f"to expect: counts of one column off by about {told.sigma:.0f} of {seen:,} {many}; "
        f"shares of {worst} wrong by {told.errors[worst]:.1%}, the most of all columns"
    )
    if told.sigma > COARSE * seen:
        # What more would buy; the table's owner decides, and nothing here picks it from the rows.
        richer = [eps for eps in (2 * choices.eps, 4 * choices.eps) if eps <= MOST_EPS]
        bought = [foresee(schema, config, Budget(eps=eps), seen).sigma for eps in richer]
        off = [f"eps {eps:g} by {sigma:.0f}" for eps, sigma in zip(richer, bought, strict=True)]
        if off:
            notes.say(f"with more: at {', at '.join(off)}")
    if schema.unit is not None:
        notes.say(f"protected: {schema.unit.text}")
    notes.say(f"time: about {_minutes(seconds, len(schema.names), choices.method)}")
    if not choices.public:
        notes.warn(
            "the schema was read off the rows, which no budget pays for, and the privacy statement "
            "will say so; --public if it is public knowledge"
        )
    if choices.label is None:
        notes.say("no label: --label COLUMN adds how well models learn from the release")


def _minutes(read: float, columns: int, method: str) -> str:
    """A rough time: reading the table some times, and what a model of so many columns takes."""
    seconds = 6 * read + 5 + columns * (0.3 if method == "independent" else 4)
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"


def _commands(choices: Choices, force: bool, *, go_on: bool = False) -> list[tuple[str, list[str]]]:
    """The plain commands that do what was decided."""
    from marginalsyn.table import ROW

    made = ["--data", choices.data, "--schema", str(choices.schema_path)]
    made += ["--method", choices.method, "--eps", f"{choices.eps:g}", "--out", str(choices.out)]
    if choices.sep:
        made += ["--sep", choices.sep]
    if choices.holdout:
        made += ["--holdout", f"{choices.holdout:g}"]
    if choices.unit == ROW:
        made += ["--unit", ROW]
    if not choices.public:
        made.append("--accept-nonprivate-schema")
    if go_on:
        made.append("--go-on")
    if force:
        made.append("--force")
    judged = [str(choices.out), "--out", str(choices.evaluation), "--force"]
    if not choices.holdout:
        judged.append("--in-sample")
    return [("generate", made), ("evaluate", judged)]


def _script(commands: Sequence[tuple[str, Sequence[str]]], choices: Choices) -> str:
    """The commands as a file for a shell; a database's password is left out."""
    shown = shown_name(choices.data)
    lines = ["#!/bin/sh", "# Spends the budget again, for a release in another folder.", "set -e"]
    lines.append(f'out="${{1:-{choices.out}-again}}"')
    if hides_password(choices.data):
        lines.append(f"# The password is not kept here: {PASSWORD}.")
    for name, arguments in commands:
        words = [shlex.quote(shown if word == choices.data else word) for word in arguments]
        own = {shlex.quote(str(choices.out)): '"$out"'}
        lines.append(" ".join(["marginalsyn", name, *(own.get(word, word) for word in words)]))
    return "\n".join(lines) + "\n"


def _stem(data: str) -> str:
    """A short name for what lies beside the release."""
    if "://" in data:
        parts = urlsplit(data)
        name = parts.query.partition("table=")[2].partition("&")[0] or parts.path or parts.netloc
        return Path(name.replace(".", "-")).name or "table"
    name = Path(data).name.partition(".")[0]
    return "".join(sign for sign in name if sign.isalnum() or sign in "-_") or "table"


def _default_method() -> str:
    from marginalsyn.cli.generate import generate

    return generate.default_method()


@contextlib.contextmanager
def _password_of(data: str) -> Iterator[None]:
    """Hand the password of an address to those who read the table again; it is stored nowhere."""
    parts = urlsplit(data) if "://" in data else None
    told = parts is not None and parts.scheme in ("postgres", "postgresql") and parts.password
    if not told or PASSWORD_VARIABLE in os.environ:
        yield
        return
    os.environ[PASSWORD_VARIABLE] = unquote(str(told))
    try:
        yield
    finally:
        del os.environ[PASSWORD_VARIABLE]


def _run(name: str, arguments: list[str]) -> None:
    """Another command of ours, as if it had been typed."""
    from marginalsyn.cli.main import cli

    with click.Context(cli, info_name="marginalsyn") as parent:
        command = cli.get_command(parent, name)
        assert command is not None
        with command.make_context(name, list(arguments), parent=parent) as ctx:
            command.invoke(ctx)
