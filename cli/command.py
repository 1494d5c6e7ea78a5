"""The command of an operation: its fields are the options, and its result is printed."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn.cli import group, screen
from marginalsyn.cli.group import Command
from marginalsyn.operations.operation import (
    Columns,
    Csv,
    Facts,
    Operation,
    Result,
    Sentence,
    Session,
    summary,
)

if TYPE_CHECKING:
    from marginalsyn.operations.opening import FoundTable
    from marginalsyn.progress import Progress
    from marginalsyn.records.resume import RunRecorder

# On the command line rows and releases are named by texts.
STUBS = {"pd": types.SimpleNamespace(DataFrame=str), "Progress": object}
STUBS |= dict.fromkeys(("Release", "Schema"), str)
# What of a field's metadata click takes as it is.
TAKEN = (
    *("help", "panel", "metavar", "required", "show_default", "multiple", "nargs"),
    *("is_flag", "flag_value"),
)
# Options that commands share stand last in their help, in this order.
LAST = ("dry_run", "resume", "seed", "out", "format", "force", "quiet", "as_json")


def command(kind: Any, name: str | None = None) -> Command:
    """The command of an operation."""
    own = {field.name: field for field in fields(kind)}

    def call(**given: Any) -> None:
        notes, as_json = screen.Notes(given.pop("quiet", False)), given.pop("as_json", False)
        dry_run = given.pop("dry_run", False)
        asked = {name: value for name, value in given.items() if name in own}
        for field, value in asked.items():
            if "parse" in own[field].metadata and value is not None:
                asked[field] = own[field].metadata["parse"](value)
        if kind.kind:
            knobs = {name: value for name, value in given.items() if name not in own}
            asked["options"] = options_given(asked["method"], knobs)
        asked_for, session = kind(**asked), Shell(notes)
        result = asked_for.plan(session) if dry_run else asked_for.run(session)
        if as_json:
            screen.write_json(result.json)
        if not as_json or not (dry_run or kind.json_alone):
            show(result, notes, blocks=not as_json)
        if result.code:
            raise SystemExit(result.code)

    about: dict[str, Any] = {"callback": call, "params": parameters(kind), "help": summary(kind)}
    about |= {"examples": kind.examples, "everyday": kind.everyday}
    if not kind.kind:
        return Command(name or kind.__name__.lower(), **about)
    from marginalsyn.cli.methods import MethodCommand, options_given

    return MethodCommand(
        name or kind.__name__.lower(), kind=kind.kind, preferred=kind.preferred, **about
    )


def parameters(kind: Any) -> list[click.Parameter]:
    """The options and arguments that stand for an operation's fields, and those of the shell."""
    hints = typing.get_type_hints(kind, localns=STUBS)
    found = [parameter(f, hints[f.name]) for f in fields(kind) if f.metadata["shell"]]
    if kind.plan is not Operation.plan:
        found.append(click.RichOption(["--dry-run"], is_flag=True, help=kind.plan.__doc__))
    if "quiet" in kind.shell:
        found.append(
            click.RichOption(
                ["-q", "--quiet"], is_flag=True, help="Print no messages and no progress."
            )
        )
    if "as_json" in kind.shell:
        found.append(click.RichOption(["--json", "as_json"], is_flag=True, help="Print JSON."))
    return sorted(found, key=lambda each: LAST.index(each.name) if each.name in LAST else -1)


def parameter(field: Field[Any], hint: Any, **changes: Any) -> click.Parameter:
    """The option or argument that stands for a field.

    Args:
        field: of an operation, or of a method's config.
        hint: its type.
        changes: to the field's metadata.
    """
    about = {**field.metadata, **changes}
    taken = {name: about[name] for name in TAKEN if name in about}
    default = about.get("default", None if field.default is MISSING else field.default)
    if default is not None:
        taken["default"] = default
    kind, taken["type"] = bare(hint), _type(hint, about)
    if about.get("argument"):
        del taken["panel"]
        return click.RichArgument([field.name], **{"required": False, **taken})
    # A trailing underscore keeps a field off Python's own words: ``for_`` is --for.
    flag = "--" + field.name.rstrip("_").replace("_", "-")
    flags = [*about.get("flags", [flag]), field.name]
    if kind is bool:
        del taken["type"]
        if default is False:
            taken["is_flag"] = True
        else:
            # Without a default, click takes what is not given for False.
            flags[0], taken["default"] = f"{flag}/--no-{flag[2:]}", default
    return click.RichOption(flags, **taken)


def _type(hint: Any, about: Mapping[str, Any]) -> Any:
    choices = about.get("choices") or _literals(hint)
    if choices:
        return click.Choice([str(choice) for choice in choices])
    if "type" in about:
        return about["type"]
    kind = bare(hint)
    if "range" in about:
        least, most = about["range"]
        kind = click.IntRange if kind is int else click.FloatRange
        ends = {name: about[name] for name in ("min_open", "max_open") if name in about}
        return kind(least, most, **ends)
    if Path in (hint, *typing.get_args(hint)):
        return click.Path()
    return kind if kind in (int, float) else str


def bare(hint: Any) -> Any:
    """``int`` out of ``int | None``; a literal's own type out of ``Literal``."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    if typing.get_origin(hint) is typing.Literal:
        return type(typing.get_args(hint)[0])
    return hint


def _literals(hint: Any) -> tuple[Any, ...]:
    """The values of a ``Literal``, also of an optional one."""
    parts = (hint, *typing.get_args(hint))
    found = [part for part in parts if typing.get_origin(part) is typing.Literal]
    return typing.get_args(found[0]) if found else ()


def show(result: Result[Any], notes: screen.Notes, blocks: bool) -> None:
    """Print a result: its blocks on stdout, the rest on stderr."""
    for block in result.text if blocks else ():
        if isinstance(block, Facts):
            screen.write_facts(block.pairs)
        elif isinstance(block, Columns):
            screen.write_table(block.head, block.rows, right=block.right)
        elif isinstance(block, Sentence):
            screen.write_text(block.text, indent=block.indent)
        elif isinstance(block, Csv):
            _write_rows(block, notes)
        else:
            screen.write(block)
    notes.warn_all(result.warnings)
    for line in result.notes:
        notes.say(line)


def _write_rows(block: Csv, notes: screen.Notes) -> None:
    from marginalsyn.table.frames import write_csv

    first = block.rows.head(10)
    if block.long and sys.stdout.isatty() and len(first) < len(block.rows):
        write_csv(first, sys.stdout.buffer)
        notes.say(f"Ten of {len(block.rows):,} rows. --out FILE.csv writes all, --rows N shows N.")
    else:
        write_csv(block.rows, sys.stdout.buffer)


class Shell(Session):
    """An operation that runs as a command: it is seen, and resumed by ``--resume``."""

    shown = True

    def __init__(self, notes: screen.Notes) -> None:
        self.say, self.warn = notes.say, notes.warn  # type: ignore[method-assign]
        self.notes = notes

    @contextmanager
    def progress(self, given: Progress | None) -> Iterator[Progress]:
        """A line on a terminal."""
        del given
        with self.notes.progress() as progress:
            yield progress

    def keep(
        self, table: FoundTable, act: str, *, go_on: bool = False, changes: Any = None, **how: Any
    ) -> RunRecorder | None:
        """What keeps the answers of the run with the command's options."""
        del act, how
        recorder = group.keep(table.name, self.notes, go_on=go_on)
        recorder.options.update(changes or {})
        return recorder
