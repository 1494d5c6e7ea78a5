"""Bundles of options: a dataclass whose fields are options, handed to a command as one object.

Its ``panel`` is the heading of all of them in a command's help.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any

import rich_click as click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def option(*flags: str, **about: Any) -> Any:
    """A field of a bundle, and the option that sets it."""
    default = about.get("default", False if about.get("is_flag") else None)
    return dataclasses.field(default=default, metadata={"flags": flags, "about": about})


def bundle(
    kind: type,
    name: str | None = None,
    *,
    only: Collection[str] = (),
    without: Collection[str] = (),
    **changes: Mapping[str, Any],
) -> Decorator:
    """Give a command the options of a dataclass, and hand them over as one object.

    Args:
        kind: a dataclass whose fields are made with :func:`option`.
        name: the command's parameter; by default the class's name in lower case.
        only: the fields whose options the command has; by default all.
        without: fields whose options it does not have.
        changes: by field, what is different about the option of this command.
    """
    names = [f.name for f in dataclasses.fields(kind) if f.metadata.get("shell", True)]
    fields = [field for field in names if field in (only or names) and field not in without]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            taken = kind(**{field: given.pop(field) for field in fields})
            parameter = name or kind.__name__.lower()
            return function(*args, **{parameter: taken}, **given)

        options = [one(kind, field, **changes.get(field, {})) for field in fields]
        return together(*options)(call)

    return decorate


def together(*decorators: Decorator) -> Decorator:
    """One decorator out of several, in the order in which the help shows them."""

    def apply(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorate in reversed(decorators):
            function = decorate(function)
        return function

    return apply


def one(kind: type, field: str, **changes: Any) -> Decorator:
    """One option of a bundle, for a command that needs no more of it."""
    from marginalsyn.cli.command import STUBS, parameter

    known = kind.__dataclass_fields__[field]  # type: ignore[attr-defined]
    if "flags" in known.metadata and "about" in known.metadata:
        about = {"panel": getattr(kind, "panel", None), **known.metadata["about"], **changes}
        return click.option(*known.metadata["flags"], field, **about)  # type: ignore[no-any-return]
    hint = typing.get_type_hints(kind, localns=STUBS)[field]

    def decorate(function: Any) -> Any:
        params = function.__dict__.setdefault("__click_params__", [])
        params.append(parameter(known, hint, **changes))
        return function

    return decorate
