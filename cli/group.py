"""A group that imports a command when it is needed, and help that ends with examples."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn.errors import UsageError
from marginalsyn.registry import COMMANDS, Plugin, plugins
from marginalsyn.validation import like

if TYPE_CHECKING:
    from marginalsyn.cli.screen import Notes
    from marginalsyn.records.runs import UnfinishedRun

CARD = "marginalsyn.cli.card"
# Options that are given again each time.
_NOT_KEPT = {"resume", "go_on", "dry_run", "quiet", "as_json", "listing"}


def recall(ctx: click.Context, args: Sequence[str]) -> dict[str, Any]:
    """The options that the interrupted run was begun with, as defaults; none without --resume."""
    if "--resume" not in args or "--help" in args:
        return {}
    if CARD in ctx.meta:
        return ctx.meta[CARD].options  # type: ignore[no-any-return]
    from marginalsyn.operations.origins import DATASET
    from marginalsyn.records.runs import interrupted
    from marginalsyn.records.workspace import Workspace, identify

    dataset = value_of("--dataset", args)
    data = value_of("--data", args) or (DATASET + dataset if dataset else None)
    command, folder = command_of(ctx), Workspace.here().folder
    runs = interrupted(folder, command=command, source=identify(data) if data else None)
    if not runs:
        raise UsageError(
            f"--resume must have a run of '{command}' that was charged and interrupted: there is "
            f"none {'of this source ' if data else ''}in {folder}"
        )
    card = runs[-1].card
    ctx.meta[CARD] = card
    ctx.default_map = {**(ctx.default_map or {}), **card.options}
    return dict(card.options)


def warn_of_interrupted(source: str, notes: Notes) -> list[UnfinishedRun]:
    """Say which paid runs of a source were interrupted and can go on; these runs."""
    from marginalsyn.records.runs import interrupted
    from marginalsyn.records.workspace import Workspace

    found = [run for run in interrupted(Workspace.here().folder, source=source) if not run.lost]
    for run in found:
        free = "and pays the rest" if run.card.stopped else "at no further charge"
        notes.warn(
            f"an interrupted run is paid for: {run}. '{run.again}' goes on with it {free}. To "
            f"give it up: 'marginalsyn ledger forget {run.card.id[:8]}'"
        )
    return found


def command_of(ctx: click.Context) -> str:
    """The command's name, with that of its group."""
    names = []
    while ctx.parent is not None:
        names.append(str(ctx.info_name))
        ctx = ctx.parent
    return " ".join(reversed(names))


def recordable(params: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The options as JSON, without a password."""
    found = {}
    for name, value in params.items():
        if name in _NOT_KEPT or value is None or value == ():
            continue
        if name == "data":
            value = source
        elif isinstance(value, Path):
            value = str(value)
        found[name] = list(value) if isinstance(value, tuple) else value
    return found


def value_of(flag: str, args: Sequence[str]) -> str | None:
    """The value of an option before the arguments are parsed."""
    for position, arg in enumerate(args):
        if arg == flag and position + 1 < len(args):
            return args[position + 1]
        if arg.startswith(f"{flag}="):
            return arg.partition("=")[2]
    return None


# A default is shown unless its option says otherwise.
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}


def reveal(command: click.Command) -> None:
    """Let the help of a command show all its options."""
    for param in command.params:
        param.hidden = False  # type: ignore[attr-defined]


def _show_all(ctx: click.Context, param: click.Parameter, given: bool) -> None:
    """Print the help with every option, and end."""
    del param
    if given and not ctx.resilient_parsing:
        reveal(ctx.command)
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class Command(click.RichCommand):
    """A command whose help ends with examples, printed as they are typed.

    A line of ``examples`` is a command line or, starting with ``#``, what the next one is for.
    Where options of every day are named, ``--help-all`` shows the others.
    """

    def __init__(
        self, *args: Any, examples: str = "", everyday: Collection[str] = (), **kwargs: Any
    ) -> None:
        kwargs["context_settings"] = {**HELP, **(kwargs.get("context_settings") or {})}
        super().__init__(*args, **kwargs)
        self.examples = [line.strip() for line in examples.strip().splitlines()]
        if everyday:
            for param in self.params:
                hidden = param.name not in everyday and isinstance(param, click.Option)
                param.hidden = hidden  # type: ignore[attr-defined]
            about: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False}
            shown = "Show all options and exit."
            self.params.append(
                click.RichOption(["--help-all"], callback=_show_all, help=shown, **about)
            )

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        flags = {flag for param in self.params for flag in param.opts}
        args = [_respelt(arg, flags) for arg in args]
        return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if any(param.name == "resume" for param in self.params):
            recall(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name == "--data" and any(param.name == "data" for param in self.params):
                hint = f"{error.message} The table is named without it: {ctx.command_path} FILE"
                raise click.UsageError(hint, ctx) from None
            raise
        except click.UsageError as error:
            flags = {flag for param in self.params for flag in param.opts}
            if "extra argument" in error.message and "--data" in flags:
                hint = f"{error.message}; a table is named with --data FILE"
                raise click.UsageError(hint, ctx) from None
            raise

    def format_help_text(self, ctx: click.RichContext, formatter: click.RichHelpFormatter) -> None:  # type: ignore[override]
        for paragraph in inspect.cleandoc(self.help or "").split("\n\n"):
            formatter.write(formatter.rich_text(" ".join(paragraph.split())))
            formatter.write()

    def format_epilog(self, ctx: click.RichContext, formatter: click.RichHelpFormatter) -> None:  # type: ignore[override]
        from rich.text import Text

        if not self.examples:
            return
        formatter.write(Text("Examples:", style="bold"))
        for line in self.examples:
            style = "dim" if line.startswith("#") else ""
            formatter.write(Text(f"  {line}", style=style), soft_wrap=True)
        formatter.write()


# What people type, and how it is spelt here.
SYNONYMS = {"--epsilon": "--eps", "--output": "--out", "--overwrite": "--force"}


def _respelt(arg: str, flags: Collection[str]) -> str:
    """An option by its own name, where it has another that is none of the command's."""
    flag, equals, value = arg.partition("=")
    meant = SYNONYMS.get(flag, "")
    return meant + equals + value if meant in flags and flag not in flags else arg


class LazyGroup(Command, click.RichGroup):  # type: ignore[misc]
    """A group that knows commands by ``module:attribute`` and imports one when it is asked for.

    They stand in its help as they were given. The attribute is a command, or the operation that one
    is made of. Plugins bring commands by entry points, too: ``adopt``, or ``schema.import`` for one
    of the group ``schema``.

    >>> LazyGroup("tool", lazy={"make": "tool.make:command"}).list_commands(None)
    ['make']
    """

    command_class = Command
    # The group's name in entry points; the root has none.
    place: str | None = None

    def __init__(self, *args: Any, lazy: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = {n: EntryPoint(n, value, COMMANDS) for n, value in (lazy or {}).items()}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            known = self.list_commands(ctx)
            near = like(name, known) or f"; there are {', '.join(known)}"
            raise click.UsageError(f"No such command: {name!r}{near}", ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        sound = [name for name, found in self._plugins().items() if found.status != "broken"]
        return list(dict.fromkeys([*self.lazy, *self.commands, *sound]))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.commands:
            return super().get_command(ctx, cmd_name)
        known = self.lazy.get(cmd_name) or self._plugins().get(cmd_name)
        if known is None:
            return None
        found = known.load()
        if not isinstance(found, click.Command):
            from marginalsyn.cli.command import command

            found = command(found, cmd_name)
        return found  # type: ignore[no-any-return]

    def _plugins(self) -> dict[str, Plugin]:
        """The commands that plugins bring to this group, by name."""
        place = self.name if self.place is None else self.place
        parts = {plugin.name.rpartition("."): plugin for plugin in plugins(COMMANDS)}
        return {name: plugin for (group, _, name), plugin in parts.items() if group == place}
