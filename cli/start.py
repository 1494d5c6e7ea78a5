"""``marginalsyn start``: one guided command from a file to a release and its evaluation."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

import rich_click as click

from marginalsyn import defaults
from marginalsyn.cli import group, screen, start_forecast
from marginalsyn.cli.command import Shell
from marginalsyn.cli.start_forecast import Choices, prompt, prompt_most
from marginalsyn.errors import DataError, MarginalsynError, StoppedError, UsageError
from marginalsyn.operations.drafting import (
    Drafting,
    asked_of,
    missing_of,
    pairs_of,
    refuse_useless,
    repeats_caution,
    verdicts,
    with_unit_asked,
    without_lost_columns,
)
from marginalsyn.operations.generate import Generate
from marginalsyn.operations.operation import (
    PYTHON,
    Operation,
    Result,
    Session,
    argument,
    default_method,
    option,
)
from marginalsyn.operations.origins import labelled, shown_name, with_unit
from marginalsyn.validation import like

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from marginalsyn.cli.screen import Notes
    from marginalsyn.drafting.draft import Draft
    from marginalsyn.people.tree import LinkedSchema
    from marginalsyn.table.schema import Schema

WEB = ("http", "https")
# Without a word from the server.
PATIENCE_SECONDS = 60
# What a name may lack, by the type that the server tells.
SUFFIXES = {"text/csv": ".csv", "text/tab-separated-values": ".tsv"}


def brought(data: str, notes: Notes) -> str:
    """The path of a file that holds what lies at a web address; all else as it is.

    The file lies in the current folder under the name of the address, for its owner alone: the
    commands that ``start`` leaves behind read it again, and the address may change.

    Raises:
        UsageError: the file is there already, or the address names none.
        DataError: it cannot be had.
    """
    parts = urlsplit(data) if "://" in data else None
    if parts is None or parts.scheme.lower() not in WEB:
        return data
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    name = Path(unquote(parts.path)).name
    if not (name and parts.netloc):
        raise UsageError(f"data ({shown}) must name a file, such as https://host/people.csv")
    _refuse_present(Path(name))
    try:
        request = Request(data, headers={"User-Agent": "marginalsyn"})
        with urlopen(request, timeout=PATIENCE_SECONDS) as found:
            kind = found.headers.get_content_type()
            if kind == "text/html":
                raise DataError(f"data ({shown}) must be a table: the server sent a web page")
            path = Path(name) if Path(name).suffix else Path(name + SUFFIXES.get(kind, ""))
            _refuse_present(path)
            _write(found, path)
    except (URLError, HTTPException, OSError, ValueError) as error:
        why = error.reason if isinstance(error, URLError) else error
        raise DataError(f"data ({shown}) must be there to be read: {why}") from None
    notes.say(f"fetched {shown} into {path} ({path.stat().st_size:,} bytes), for you alone to read")
    return str(path)


def _refuse_present(path: Path) -> None:
    if path.exists():
        raise UsageError(
            f"{path} is here already: start from it (marginalsyn start {path}), or move it away "
            "to fetch it again"
        )


def _write(found: HTTPResponse, path: Path) -> None:
    """Write all of it or nothing, readable by its owner."""
    part = path.with_name(path.name + ".part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as target:
            shutil.copyfileobj(found, target)
        if found.length:  # what was announced and did not come
            raise DataError(f"data ({path}) came cut short by {found.length:,} bytes: try again")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


EPS = 1.0
HOLDOUT = 0.2


@dataclass(frozen=True, kw_only=True)
class Start(Drafting, Operation[None]):
    """Go from a file to a private release and its evaluation in one command.

    Finds the layout, shows what every column is taken for and, in a folder of several tables, how
    they are linked, asks what only you can know, and says what the budget will buy before it is
    spent. Then it generates the release, evaluates it on rows that were held out, and writes the
    schema and a script of plain commands that does the same again.
    """

    shell = ("quiet",)
    examples = """
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
    # linked tables: a folder with a file for each
    marginalsyn start clinic
    """

    data: str = argument(
        None,
        "The table: a file, a glob in quotes, a database URL, or a web address; or a folder of "
        "linked tables.",
        required=True,
    )
    eps: float = option(
        EPS, "The privacy budget of the release.", range=(0, None), min_open=True, metavar="EPS"
    )
    method: str | None = option(None, "The generator. [default=auto if installed]", metavar="NAME")
    holdout: float = option(
        HOLDOUT,
        "The share of rows that the release never sees, to evaluate it on.",
        range=(0, 1),
        max_open=True,
        metavar="SHARE",
    )
    public: str | None = option(
        None,
        "The schema file that you wrote, or drafted and checked: you vouch that all it says is "
        "public knowledge. Without it a draft is read off the rows, and with --yes the privacy "
        "statement says so.",
        # Without a value it is refused with what to do.
        is_flag=False,
        flag_value="",
        metavar="SCHEMA",
    )
    as_input: bool = option(
        True,
        "Write the rows with the separator, the encoding and the mark that the file has; otherwise "
        "with commas in UTF-8.",
    )
    yes: bool = option(False, "Ask nothing: take what is proposed.")
    out: str | Path = option(defaults.RELEASE, "The release folder.", metavar="FOLDER")
    force: bool = option(False, "Overwrite what exists.")

    def plan(self, session: Session = PYTHON) -> Result[None]:
        """Ask nothing, say what is to be expected, and spend nothing."""
        return replace(self, yes=True).run(session, spend=False)

    def run(self, session: Session = PYTHON, spend: bool = True) -> Result[None]:
        """Draft, ask, show what is to come, then run the plain commands."""
        from marginalsyn.contract import make_config
        from marginalsyn.operations.linked_draft import holds_several, table_of
        from marginalsyn.people.tree import LinkedSchema
        from marginalsyn.privacy.budget import Budget
        from marginalsyn.release.folder import preflight
        from marginalsyn.table.schema import Schema

        if not self.yes and not _at_terminal():
            raise UsageError(
                "start asks questions on a terminal; add --yes to take what it proposes"
            )
        assert isinstance(session, Shell)
        notes, out = session.notes, Path(self.out)
        preflight(out, self.force)
        # What is said wrong needs no rows to see.
        with_unit(Schema.from_domain({"_": 2}), self)
        method = self.method or default_method(Generate)
        make_config(method)
        Budget(eps=self.eps)
        vouched = _vouched_for(self.public, self.data, [*self.kinds, *self.keep, *self.missing])
        data = brought(self.data, notes)
        several = isinstance(vouched, LinkedSchema) or (vouched is None and holds_several(data))
        data = data if several else table_of(data)
        stem = start_forecast.stem(data)
        choices = Choices(
            **{known.name: getattr(self, known.name) for known in fields(Drafting)},
            data=data,
            eps=self.eps,
            method=method,
            holdout=self.holdout,
            public=None if self.public is None else Path(self.public),
            out=out,
            schema_path=Path(f"{stem}.schema.json"),
            evaluation=Path(defaults.EVALUATION),
            as_input=self.as_input,
        )
        schema: Schema | LinkedSchema
        if several:
            from marginalsyn.cli.start_linked import prepared

            known = vouched if isinstance(vouched, LinkedSchema) else None
            choices, schema = prepared(choices, known, session, notes, asks=not self.yes)
        else:
            assert not isinstance(vouched, LinkedSchema)
            choices, schema = self._prepared(choices, vouched, notes)
        if not self.yes:
            _say_spent(data, notes)
            spend = click.confirm("Spend this budget now?", default=True, err=True)
        if not spend:
            return Result(None, notes=["Nothing was spent."])
        if choices.public is not None and schema == vouched:
            choices = replace(choices, schema_path=choices.public)
        else:
            schema.write(choices.schema_path)
        # Where nothing is asked, columns that are nearly all missing were pointed out before.
        commands = start_forecast.commands(choices, self.force, go_on=self.yes)
        script = Path(f"{stem}.sh")
        script.write_text(start_forecast.script(commands, choices), encoding="utf-8")
        with start_forecast.password_of(data):
            for name, arguments in commands:
                words = [*arguments, *(["--quiet"] if notes.quiet else [])]
                try:
                    start_forecast.run(name, words)
                except StoppedError as stopped:
                    notes.warn(str(stopped).partition(" Mend the schema")[0])
                    rest = "Spend the rest of it all the same?"
                    if not click.confirm(rest, default=False, err=True):
                        note = (
                            "What is paid is kept. Drop or mend these columns in "
                            f"{choices.schema_path} or by --kind NAME=drop, and begin again"
                        )
                        return Result(None, notes=[note])
                    start_forecast.run(name, [*words, "--go-on"])
        page = choices.evaluation / "report.html"
        notes.say(f"schema: {choices.schema_path}   the same again: sh {script}   page: {page}")
        if not self.yes:
            _open(page)
        return Result(None)

    def _prepared(
        self, choices: Choices, vouched: Schema | None, notes: screen.Notes
    ) -> tuple[Choices, Schema]:
        """The schema of one table, drafted and asked about, after what is to come was shown."""
        from marginalsyn.drafting.draft import described, draft_schema

        def read(known: Choices) -> Draft:
            with notes.progress() as progress:
                progress.report("read", text=start_forecast.stem(choices.data))
                if vouched is not None:
                    public = with_unit(labelled(vouched, known.label), known)
                    return described(choices.data, public, sep=self.sep)
                return draft_schema(choices.data, sep=self.sep, **asked_of(known))

        began = time.monotonic()
        draft = read(choices)
        seconds = time.monotonic() - began
        refuse_useless(draft, shown_name(choices.data), choices.public)
        notes.say(verdicts(draft))
        if not self.yes:
            choices, draft = _ask(choices, draft, read)
            # Persons are counted in the column that was named.
            draft = read(choices) if vouched is not None else draft
        elif self.unit is None and draft.schema.unit is None:
            notes.warn_all(repeats_caution(draft.repeats))
        schema = draft.schema
        if vouched is None:
            if self.yes:
                notes.warn_all(
                    f"{one} may mean missing: --missing {one.name}={one.value:g} takes it so"
                    for one in draft.codes
                    if not one.clear and one.name not in choices.missing
                )
            schema = _without_lost(choices, start_forecast.settled(schema), draft, notes)
            if not self.yes:
                schema, bought = start_forecast.sourced(
                    schema, start_forecast.ask_whence({"": schema})
                )
                choices = replace(choices, bought=tuple(bought))
        schema = with_unit_asked(choices, schema, draft)
        choices = replace(choices, drafted=schema.drafted_from_data, open=bool(schema.open))
        start_forecast.describe(choices, draft, schema, seconds, notes)
        return choices, schema


def _without_lost(choices: Choices, schema: Schema, draft: Draft, notes: screen.Notes) -> Schema:
    """The draft without columns that the budget cannot keep, which are named."""
    from marginalsyn.privacy.budget import Budget

    whole = with_unit_asked(choices, schema, draft)
    units = draft.rows if whole.unit is None else draft.distinct[whole.unit.column]
    found, said = without_lost_columns(
        whole,
        draft.texts,
        Budget(eps=choices.eps),
        round(units * (1 - choices.holdout)),
        (*choices.keep, *choices.kinds),
    )
    notes.warn_all(said)
    return found.with_unit(None) if schema.unit is None and found.unit is not None else found


def _say_spent(data: str, notes: screen.Notes) -> None:
    """What interrupted runs of the same source have spent already."""
    from marginalsyn.privacy.zcdp import DEFAULT_DELTA
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.records.workspace import identify

    runs = group.warn_of_interrupted(identify(data), notes)
    if runs and runs[-1].card.ledger:
        spent = Ledger(runs[-1].card.ledger).read().describe(DEFAULT_DELTA)
        notes.warn(f"spent so far on this source: {spent}")


def _open(page: Path) -> None:
    """Show the page, where there are a screen and a browser to show it."""
    screens = {"DISPLAY", "WAYLAND_DISPLAY"} & {*os.environ}
    if sys.platform in ("win32", "darwin") or (screens and shutil.which("xdg-open")):
        click.launch(str(page))


def _ask(choices: Choices, draft: Draft, read: Any) -> tuple[Choices, Draft]:
    """What only the user can know: wrong kinds, the label, who a row is about."""
    from marginalsyn.drafting.drafted import KINDS

    notes = screen.Notes()

    def changed(quiet: bool = False, **fields: Any) -> bool:
        nonlocal choices, draft
        try:
            new = replace(choices, **fields)
            draft, choices = read(new), new
        except MarginalsynError as error:
            notes.warn_all([] if quiet else [str(error)])
            return False
        return True

    columns = "Columns to change, as NAME=KIND or NAME=drop (Enter: none)"
    if choices.public is None:
        notes.say(f"kinds: {', '.join(KINDS)}, drop")
    while choices.public is None and (typed := prompt(columns)):
        before = draft
        try:
            pairs = dict(pairs_of(typed))
        except UsageError as error:
            notes.warn(str(error))
            continue
        # What is right is kept where something else is wrong.
        if not changed(kinds={**choices.kinds, **pairs}, quiet=len(pairs) > 1) and len(pairs) > 1:
            for name, kind in pairs.items():
                changed(kinds={**choices.kinds, name: kind})
        if draft is not before:
            notes.say(verdicts(draft))
    _ask_missing(choices, draft, changed)
    label = "The column that models predict (Enter: none)"
    while draft.schema.label is None and (typed := prompt(label)):
        changed(label=typed)
    if choices.unit is None and draft.schema.unit is None:
        column, most = _ask_unit(draft)
        choices = replace(choices, unit=column, max_rows=most)
    return choices, draft


def _ask_missing(choices: Choices, draft: Draft, changed: Callable[..., bool]) -> None:
    """Whether numbers that stand alone mean missing; the clear ones are proposed."""
    codes = [one for one in draft.codes if one.name not in choices.missing]
    if not codes:
        return
    screen.Notes().say(f"numbers that may mean missing: {', '.join(map(str, codes))}")
    clear = ", ".join(f"{one.name}={one.value:g}" for one in codes if one.clear) or "none"
    while typed := prompt(f"Which do, as NAME=VALUE, or none (Enter: {clear})"):
        try:
            pairs = [] if typed.lower() == "none" else pairs_of(typed)
            found = missing_of([f"{name}={value}" for name, value in pairs])
        except UsageError as error:
            screen.Notes().warn(str(error))
            continue
        none: dict[str, tuple[float, ...]] = {one.name: () for one in codes}
        if changed(missing={**choices.missing, **none, **found}):
            return


def _ask_unit(draft: Draft) -> tuple[str, int | None]:
    """Ask whether each row is a person of its own, or one of several rows of a person."""
    from marginalsyn.table.unit import ROW

    notes = screen.Notes()
    seen = draft.repeats[0].name if draft.repeats else ""
    if seen:
        notes.warn(f"{seen} looks as if it identifies persons: {draft.repeats[0]}")
    if click.confirm("Is every person in one row at most?", default=not seen, err=True):
        return ROW, None
    while True:
        hint = f"Enter: {seen}; row: rows are meant" if seen else "Enter: rows are meant"
        text = f"The column that identifies persons ({hint})"
        found = prompt(text) or seen or ROW
        if found == ROW:
            notes.warn("the promise is for one row: a person with k rows is protected k times less")
            return ROW, None
        if found in draft.distinct:
            return found, prompt_most("a person", 20)
        notes.warn(f"unit ({found}) must be a column of the table{like(found, draft.distinct)}")


def _vouched_for(
    public: str | None, data: str, changed: Sequence[str]
) -> Schema | LinkedSchema | None:
    """The schema that a person wrote or checked, where ``--public`` names one."""
    from marginalsyn.people.tree import LinkedSchema, linked_file
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
            "--kind, --keep and --missing change a draft: write into --public's file what you want"
        )
    schema = (LinkedSchema if linked_file(public) else Schema).read(public)
    if schema.drafted_from_data:
        raise UsageError(
            f"--public ({public}) must be a schema that you wrote or checked, and it says "
            "drafted_from_data: replace in it what came from the rows by what a code book says, "
            "then set drafted_from_data to false"
        )
    return schema


def _at_terminal() -> bool:
    return sys.stdin.isatty()
