"""The command of an operation: its fields are the options, and its result is printed."""

from __future__ import annotations

import json
import sys
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import rich_click as click

from marginalsyn.cli import group, screen
from marginalsyn.cli.group import Command, recall, value_of
from marginalsyn.errors import UsageError
from marginalsyn.operations.operation import (
    Columns,
    Csv,
    Facts,
    Operation,
    Result,
    Sentence,
    default_method,
    methods,
    shown,
    summary,
)
from marginalsyn.registry import plugins
from marginalsyn.validation import like

if TYPE_CHECKING:
    from marginalsyn.operations.origins import FoundTable
    from marginalsyn.records.resume import RunRecorder

METHOD = "marginalsyn.cli.method"


class MethodCommand(Command):
    """A command that takes ``--method NAME`` and then the options of that method.

    The method's module is imported only when it is named, or when an option is given that is not
    the command's own; so the plain ``--help`` stays fast.
    """

    def __init__(self, *args: Any, kind: str, preferred: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind = kind
        self.preferred = preferred

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        recorded = recall(ctx, args)
        named = value_of("--method", args) or recorded.get("method")
        own = {flag for param in self.params for flag in (*param.opts, *param.secondary_opts)}
        flags = [arg.split("=")[0] for arg in args if arg.startswith("-")]
        if named or recorded or any(flag not in own | {"--help"} for flag in flags):
            ctx.meta[METHOD] = named or default_method(self)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(self._explain(error, ctx.meta[METHOD], own), ctx) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        method = ctx.meta.get(METHOD)
        params = super().get_params(ctx)
        if method is None:
            return params
        mine = {param.name for param in self.params}
        added = [o for o in options_of(self.config(method), method) if o.name not in mine]
        return [*params[:-1], *added, *params[-1:]]

    def format_help_text(self, ctx: click.RichContext, formatter: click.RichHelpFormatter) -> None:  # type: ignore[override]
        super().format_help_text(ctx, formatter)
        method = ctx.meta.get(METHOD)
        if method is None:
            return
        from marginalsyn.contract import Duties

        if summary := Duties(self.config(method)).summary:
            formatter.write(formatter.rich_text(f"{method}: {summary}"))
            formatter.write()

    def config(self, method: str) -> type:
        """The method's config; also where an extra is missing that only running it needs."""
        for plugin in plugins(self.kind):
            if plugin.name == method:
                return plugin.load()
        known = methods(self.kind)
        near = like(method, known)
        raise UsageError(f"method ({method}) must be one of: {', '.join(known)}{near}")

    def _explain(self, error: click.NoSuchOption, method: str, own: Iterable[str]) -> str:
        """Say whose option it is, and what the method's own options are."""
        flag = error.option_name
        lines = [f"{flag} is not an option of method {method}."]
        owners = []
        for plugin in plugins(self.kind):
            if plugin.name != method and plugin.status == "ok":
                flags = {f for o in options_of(plugin.load(), plugin.name) for f in o.opts}
                owners += [plugin.name] if flag in flags else []
        if owners:
            lines.append(f"It is one of: {', '.join(owners)}.")
        elif error.possibilities:
            lines.append(f"Did you mean {' or '.join(sorted(error.possibilities))}?")
        options = [o.opts[0] for o in options_of(self.config(method), method)]
        options = [option for option in options if option not in own]
        lines.append(f"Options of {method}: {', '.join(options) or 'none'}.")
        return "\n".join(lines)


def options_of(config: type, method: str) -> list[click.Parameter]:
    """The options that stand for a config's fields; those not given keep the config's default."""
    hints, panel = typing.get_type_hints(config), f"Method {method}"
    found = []
    for field in fields(config):
        if not field.init or not field.metadata.get("flag", True):
            continue
        hint, help_text = hints[field.name], field.metadata.get("help", "")
        if field.default not in (MISSING, None, ()):
            values = field.default if isinstance(field.default, tuple) else (field.default,)
            help_text = f"{help_text} [default={','.join(map(shown, values))}]"
        several = typing.get_origin(bare(hint)) is tuple
        if several:
            help_text += " Commas between items."
        if nested(hint):
            help_text += " Semicolons between lists, or the option several times."
        about = {"metavar": "LIST", "multiple": True} if several else {}
        changes = {"help": help_text, "panel": panel, "default": None, **about}
        found.append(parameter(field, hint, **changes))
    return found


def values_of(config: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The config's fields among the values of the command line; what was not given is left out."""
    hints = typing.get_type_hints(config)
    found = {f.name: given.get(f.name) for f in fields(config) if f.init}
    return {
        name: _parse(value, hints[name]) for name, value in found.items() if value not in (None, ())
    }


def _parse(value: Any, hint: Any) -> Any:
    """A value of the field's type: tuples are written with commas, or by repeating the option."""
    if typing.get_origin(bare(hint)) is not tuple or not isinstance(value, tuple):
        return value
    texts = [one for text in value for one in (text.split(";") if nested(hint) else [text])]
    parts = [[part.strip() for part in text.split(",") if part.strip()] for text in texts]
    return parts if nested(hint) else [item for part in parts for item in part]


def nested(hint: Any) -> bool:
    """Whether a type is a tuple of tuples."""
    inner = typing.get_args(bare(hint))
    return bool(inner) and typing.get_origin(inner[0]) is tuple


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


def command(kind: Any, name: str) -> Command:
    """The command of an operation."""
    own = {field.name: field for field in fields(kind)}

    def call(**given: Any) -> None:
        session, as_json = Shell(given.pop("quiet", False)), given.pop("as_json", False)
        dry_run = given.pop("dry_run", False)
        asked = {name: value for name, value in given.items() if name in own}
        for field, value in asked.items():
            if "parse" in own[field].metadata and value is not None:
                asked[field] = own[field].metadata["parse"](value)
        if kind.kind:
            # The options of the method that was named; none where none is.
            ctx = _context()
            assert isinstance(ctx.command, MethodCommand)
            knobs = {name: value for name, value in given.items() if name not in own}
            method = asked["method"] or ctx.meta.get(METHOD)
            asked["options"] = values_of(ctx.command.config(method), knobs) if method else {}
        operation = kind(**asked)
        result = operation.plan(session) if dry_run else operation.run(session)
        if as_json:
            data = result.json
            if not isinstance(data, str):
                data = json.dumps(data, indent=2, default=str, ensure_ascii=False)
            screen.write(data)
        if not as_json or not (dry_run or kind.json_alone):
            show(result, session, blocks=not as_json)
        if result.code:
            raise SystemExit(result.code)

    about: dict[str, Any] = {"callback": call, "params": parameters(kind), "help": summary(kind)}
    about |= {"examples": kind.examples, "everyday": kind.everyday}
    if kind.kind:
        return MethodCommand(name, kind=kind.kind, preferred=kind.preferred, **about)
    return Command(name, **about)


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
    # The values of a Literal, also of an optional one.
    literals = [one for one in (hint, *typing.get_args(hint)) if typing.get_origin(one) is Literal]
    choices = about.get("choices") or [v for one in literals[:1] for v in typing.get_args(one)]
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
    if typing.get_origin(hint) is Literal:
        return type(typing.get_args(hint)[0])
    return hint


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


class Shell(screen.Notes):
    """An operation that runs as a command: it is seen, and resumed by ``--resume``."""

    shown = True

    def resumes(self, run: str) -> bool:
        """Whether the interrupted run that goes on is named like this."""
        card = _context().meta.get(group.CARD)
        return card is not None and card.run.startswith(run)

    def keep(
        self, table: FoundTable, act: str, *, resume: bool, go_on: bool = False, **_: Any
    ) -> RunRecorder | None:
        """What keeps the answers of the run, or has those of the run that goes on.

        A new run says first which runs of the source were interrupted: what they paid need not be
        paid again.
        """
        from marginalsyn.records.resume import RunRecorder
        from marginalsyn.records.workspace import Workspace, identify

        del act
        ctx, key = _context(), identify(table.name)
        command, options = group.command_of(ctx), group.recordable(ctx.params, key)
        # A command's second run is new, though its first one was resumed.
        card = ctx.meta.get(group.CARD) if resume else None
        if card is None and not go_on:
            group.warn_of_interrupted(key, self)
        return RunRecorder(
            Workspace.here().folder,
            command=command,
            source=key,
            resume=card is not None,
            go_on=go_on,
            id=card.id if card is not None else "",
            salt=card.salt if card is not None else "",
            options=options,
            warn=self.warn,
        )


def _context() -> click.Context:
    """That of the command that runs."""
    ctx = click.get_current_context()
    assert ctx is not None
    return ctx
