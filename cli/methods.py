"""Flags out of a config: every public field of the dataclass is an option of the command."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import rich_click as click

from marginalsyn.cli.command import bare, parameter
from marginalsyn.cli.group import Command, recall, value_of
from marginalsyn.errors import UsageError
from marginalsyn.operations.operation import default_method, methods
from marginalsyn.registry import plugins
from marginalsyn.validation import like

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
        flags = [arg.split("=")[0] for arg in args if arg.startswith("--")]
        if named or recorded or any(flag not in own | {"--help"} for flag in flags):
            ctx.meta[METHOD] = named or self.default_method()
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
        added = [o for o in options_of(self._config(method), method) if o.name not in mine]
        return [*params[:-1], *added, *params[-1:]]

    def format_help_text(self, ctx: click.RichContext, formatter: click.RichHelpFormatter) -> None:  # type: ignore[override]
        super().format_help_text(ctx, formatter)
        method = ctx.meta.get(METHOD)
        if method is None:
            return
        from marginalsyn.contract import Duties

        if summary := Duties(self._config(method)).summary:
            formatter.write(formatter.rich_text(f"{method}: {summary}"))
            formatter.write()

    def default_method(self) -> str:
        """The first preferred method that is installed."""
        return default_method(self)

    def values(self, method: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the command line that are fields of the method's config."""
        return values_of(self._config(method), given)

    def _config(self, method: str) -> type:
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
        options = [o.opts[0] for o in options_of(self._config(method), method)]
        options = [option for option in options if option not in own]
        lines.append(f"Options of {method}: {', '.join(options) or 'none'}.")
        return "\n".join(lines)


def options_given(method: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the method that the current command was given; none where none is named."""
    ctx = click.get_current_context()
    assert ctx is not None
    assert isinstance(ctx.command, MethodCommand)
    method = method or ctx.meta.get(METHOD)
    return ctx.command.values(method, given) if method else {}


def options_of(config: type, method: str) -> list[click.Parameter]:
    """The options that stand for a config's fields; those not given keep the config's default."""
    hints, panel = typing.get_type_hints(config), f"Method {method}"
    found = []
    for field in dataclasses.fields(config):
        if not field.init or not field.metadata.get("flag", True):
            continue
        hint, help_text = hints[field.name], field.metadata.get("help", "")
        if field.default not in (dataclasses.MISSING, None, ()):
            help_text = f"{help_text} [default={_show(field.default)}]"
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
    found = {f.name: given.get(f.name) for f in dataclasses.fields(config) if f.init}
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


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
