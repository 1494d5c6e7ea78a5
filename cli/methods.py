"""Flags out of a config: every public field of the dataclass is an option of the command."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

import rich_click as click

from marginalsyn.cli.bundles import aside
from marginalsyn.cli.group import Command
from marginalsyn.cli.resuming import recall, value_of
from marginalsyn.errors import UsageError
from marginalsyn.registry import plugins
from marginalsyn.validation import like

METHOD = "marginalsyn.cli.method"


class MethodCommand(Command):
    """A command that takes ``--method NAME`` and then the options of that method.

    The method's module is imported only when it is named, or when an option is given that is not
    the command's own; so the plain ``--help`` stays fast.
    """

    def __init__(self, *args: Any, kind: str, preferred: tuple[str, ...], **kwargs: Any) -> None:
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
        summary = getattr(self._config(method), "summary", "") if method else ""
        if summary:
            formatter.write(formatter.rich_text(f"{method}: {summary}"))
            formatter.write()

    def default_method(self) -> str:
        """The first preferred method that is installed."""
        known = self.methods()
        return next((name for name in self.preferred if name in known), known[0])

    def methods(self) -> list[str]:
        """The names of the installed methods; imports none of them."""
        return list(dict.fromkeys(plugin.name for plugin in plugins(self.kind)))

    def values(self, method: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the command line that are fields of the method's config."""
        return values_of(self._config(method), given)

    def _config(self, method: str) -> type:
        """The method's config; also where an extra is missing that only running it needs."""
        for plugin in plugins(self.kind):
            if plugin.name == method:
                return plugin.load()
        known = self.methods()
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


def options_of(config: type, method: str) -> list[click.RichOption]:
    """The options that stand for a config's fields."""
    hints = typing.get_type_hints(config)
    panel = f"Method {method}"
    return [
        _option(field, hints[field.name], panel)
        for field in dataclasses.fields(config)
        if field.init and field.metadata.get("flag", True)
    ]


def values_of(config: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The config's fields among the values of the command line; what was not given is left out."""
    hints = typing.get_type_hints(config)
    found = {
        field.name: given.get(aside(field.name), given.get(field.name))
        for field in dataclasses.fields(config)
        if field.init
    }
    return {
        name: _parse(value, hints[name]) for name, value in found.items() if value not in (None, ())
    }


def _option(field: dataclasses.Field[Any], hint: Any, panel: str) -> click.RichOption:
    # A trailing underscore keeps a field off Python's own words: ``for_`` is --for.
    flag = "--" + field.name.rstrip("_").replace("_", "-")
    help_text = field.metadata.get("help", "")
    default = None if field.default is dataclasses.MISSING else field.default
    about: dict[str, Any] = {"help": help_text, "panel": panel, "default": None}
    kind = _bare(hint)
    if default is not None and default != ():
        about["help"] = f"{help_text} [default={_show(default)}]"
    if kind is bool:
        return click.RichOption([f"{flag}/--no-{flag[2:]}"], **about)
    choices = field.metadata.get("choices") or _literals(hint)
    if choices:
        about["type"] = click.Choice([str(choice) for choice in choices])
    elif kind in (int, float, str):
        about["type"] = kind
    else:
        about.update(multiple=True, metavar="LIST", help=f"{about['help']} Commas between items.")
        if typing.get_origin(typing.get_args(kind)[0]) is tuple:
            about["help"] += " Semicolons between lists, or the option several times."
    return click.RichOption([flag, field.name], **about)


def _parse(value: Any, hint: Any) -> Any:
    """A value of the field's type: tuples are written with commas, or by repeating the option."""
    kind = _bare(hint)
    if typing.get_origin(kind) is not tuple or not isinstance(value, tuple):
        return value
    nested = typing.get_origin(typing.get_args(kind)[0]) is tuple
    texts = [one for text in value for one in (text.split(";") if nested else [text])]
    parts = [[part.strip() for part in text.split(",") if part.strip()] for text in texts]
    return parts if nested else [item for part in parts for item in part]


def _bare(hint: Any) -> Any:
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


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
