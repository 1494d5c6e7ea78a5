"""``marginalsyn start``: one guided command from a file to a release and its evaluation."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

import rich_click as click

from marginalsyn import defaults
from marginalsyn.cli import group
from marginalsyn.errors import DataError, StoppedError, UsageError
from marginalsyn.operations.drafting import Drafting
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
from marginalsyn.operations.origins import shown_name, with_unit

if TYPE_CHECKING:
    from marginalsyn.cli.screen import Notes
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
            # All of it or nothing, readable by its owner.
            part = path.with_name(path.name + ".part")
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            try:
                with open(os.open(part, flags, 0o600), "wb") as target:
                    shutil.copyfileobj(found, target)
                if found.length:  # what was announced and did not come
                    short = f"came cut short by {found.length:,} bytes"
                    raise DataError(f"data ({path}) {short}: try again")
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
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
        from marginalsyn.cli import start_asking, start_forecast
        from marginalsyn.cli.screen import Notes
        from marginalsyn.contract import make_config
        from marginalsyn.drafting.linked_draft import holds_several, table_of
        from marginalsyn.people.tree import LinkedSchema
        from marginalsyn.privacy.budget import Budget
        from marginalsyn.privacy.zcdp import DEFAULT_DELTA
        from marginalsyn.records.ledger import Ledger
        from marginalsyn.records.workspace import identify
        from marginalsyn.release.folder import preflight
        from marginalsyn.table.schema import Schema

        if not self.yes and not _at_terminal():
            raise UsageError(
                "start asks questions on a terminal; add --yes to take what it proposes"
            )
        assert isinstance(session, Notes)
        preflight(Path(self.out), self.force)
        # What is said wrong needs no rows to see.
        with_unit(Schema.from_domain({"_": 2}), self)
        method = self.method or default_method(Generate)
        make_config(method)
        Budget(eps=self.eps)
        vouched: Any = _vouched_for(
            self.public, self.data, [*self.kinds, *self.keep, *self.missing]
        )
        data = brought(self.data, session)
        several = isinstance(vouched, LinkedSchema) or (vouched is None and holds_several(data))
        data = data if several else table_of(data)
        stem = start_forecast.stem(data)
        found = {**vars(self), "data": data, "method": method, "several": several}
        choices, schema = (start_asking.prepared_linked if several else start_asking.prepared)(
            Choices(**found), vouched, session
        )
        if not self.yes:
            # What interrupted runs of the same source have spent already.
            runs = group.warn_of_interrupted(identify(data), session)
            if runs and runs[-1].card.ledger:
                spent = Ledger(runs[-1].card.ledger).read().describe(DEFAULT_DELTA)
                session.warn(f"spent so far on this source: {spent}")
            spend = click.confirm("Spend this budget now?", default=not choices.doubted, err=True)
        if not spend:
            return Result(None, notes=["Nothing was spent."])
        if self.public is not None and schema == vouched:
            path = Path(self.public)
        else:
            schema.write(path := Path(f"{stem}.schema.json"))
        commands = start_forecast.commands(choices, path)
        script = Path(f"{stem}.sh")
        script.write_text(start_forecast.script(commands, choices), encoding="utf-8")
        with start_forecast.password_of(data):
            for name, arguments in commands:
                words = [*arguments, *(["--quiet"] if session.quiet else [])]
                try:
                    start_forecast.run(name, words)
                except StoppedError as stopped:
                    session.warn(str(stopped).partition(" Mend the schema")[0])
                    rest = "Spend the rest of it all the same?"
                    if not click.confirm(rest, default=False, err=True):
                        note = (
                            f"What is paid is kept. Drop or mend these columns in {path} or by "
                            "--kind NAME=drop, and begin again"
                        )
                        return Result(None, notes=[note])
                    start_forecast.run(name, [*words, "--go-on"])
        page = Path(defaults.EVALUATION) / "report.html"
        session.say(f"schema: {path}   the same again: sh {script}   page: {page}")
        if not self.yes:
            _open(page)
        return Result(None)


@dataclass(frozen=True, kw_only=True)
class Choices(Start):
    """The options, with the method that is taken and what was found out on the way.

    Attributes:
        several: whether there are linked tables.
        links, most: what was said of their links, and how many rows of a parent count, by table.
        drafted: whether the schema was drafted from the rows.
        bought: columns whose bounds are bought.
        open: whether categories are bought.
        doubted: whether bounds that are bought would mostly be noise.
    """

    method: str
    several: bool = False
    links: Mapping[str, str] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)
    drafted: bool = True
    bought: Sequence[str] = ()
    open: bool = False
    doubted: bool = False


def _open(page: Path) -> None:
    """Show the page, where there are a screen and a browser to show it."""
    screens = {"DISPLAY", "WAYLAND_DISPLAY"} & {*os.environ}
    if sys.platform in ("win32", "darwin") or (screens and shutil.which("xdg-open")):
        click.launch(str(page))


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
