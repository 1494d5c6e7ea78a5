"""Methods that people call in Python: arguments are checked by their types, errors speak Python."""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from marginalsyn.errors import MarginalsynError, UsageError
from marginalsyn.validation import shown

Function = TypeVar("Function", bound=Callable[..., Any])

# Flags that take no value.
_SWITCHES = {
    "accept-nonprivate-schema",
    "allow-large-delta",
    "dry-run",
    "force",
    "go-on",
    "in-sample",
    "measured",
    "non-private",
    "resume",
    "void-earlier-promises",
}
_NAMES = {
    "set": "values",
    "target-file": "targets",
    "target": "targets",
    "json": "to_json()",
    "synthetic": "frame",
}
_FLAG = re.compile(
    r"--(?P<flag>[a-z][a-z-]*[a-z])"
    r"(?: (?P<value>[A-Z]{3,}\b|[\d.]*\d\b|[a-z-]+(?:,[a-z-]+)+))?"
)


def python_words(text: str) -> str:
    """A message that names options, as Python's callers say it; commands in quotes stay.

    Example:
        >>> python_words("name another --out, or add --force")
        'name another out, or add force=True'
        >>> python_words("give rows with --real FILE, or `marginalsyn generate --holdout 0.2`")
        'give rows with real=FILE, or `marginalsyn generate --holdout 0.2`'
    """
    parts = re.split(r"(`[^`]*`|'marginalsyn [^']*')", text)
    return "".join(
        part if number % 2 else _FLAG.sub(_keyword, part) for number, part in enumerate(parts)
    )


def _keyword(found: re.Match[str]) -> str:
    flag, value = found["flag"], found["value"]
    name = _NAMES.get(flag, flag.replace("-", "_"))
    if flag in _SWITCHES:
        return f"{name}=True {value or ''}".rstrip()
    if value and "," in value:
        value = repr(value.split(","))
    return f"{name}={value}" if value else name


@contextmanager
def speaking_python() -> Iterator[None]:
    """Let errors from inside name arguments rather than the flags of a command."""
    try:
        yield
    except MarginalsynError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (python_words(error.args[0]), *error.args[1:])
        raise


def checked(function: Function) -> Function:
    """A method whose arguments are checked by their annotations, and whose errors speak Python.

    Example:
        >>> @checked
        ... def double(rows: int) -> int:
        ...     return 2 * rows
        >>> double(rows="4")
        Traceback (most recent call last):
        marginalsyn.errors.UsageError: rows ('4') must be a whole number
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        try:
            bound = signature.bind(*args, **given)
        except TypeError as error:
            takes = ", ".join(name for name in signature.parameters if name != "self")
            raise UsageError(
                f"arguments of {function.__name__} must fit: {error}; it takes {takes}"
            ) from None
        hints = _hints(function)
        arguments = {n: _as_asked(v, hints.get(n)) for n, v in bound.arguments.items()}
        check_arguments(function, arguments)
        bound.arguments.update(arguments)
        with speaking_python():
            return function(*bound.args, **bound.kwargs)

    return call  # type: ignore[return-value]


def check_arguments(function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Refuse a value that is not of the type its parameter is annotated with."""
    hints = _hints(function)
    for name, value in arguments.items():
        if name in hints and not _fits(_plain(value), hints[name]):
            # Of what may hold rows, only the type is shown.
            scalar = value is None or isinstance(value, bool | int | float | str)
            text = shown(value) if scalar else f"a {type(value).__name__}"
            raise UsageError(f"{name} ({text}) must be {_words(hints[name])}")


@functools.cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations as types; names that the module imports for checking only are looked up."""
    import pandas as pd

    from marginalsyn.progress import Progress

    texts = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    # A schema is checked where it is used: its room is above this one.
    names = {"pd": pd, "Progress": Progress, "Schema": Any, **function.__globals__}
    return typing.get_type_hints(types.SimpleNamespace(__annotations__=texts), names)


def _as_asked(value: Any, hint: Any) -> Any:
    """Scalars of numpy as scalars, and where a pandas frame may stand, one of any Arrow table."""
    import pandas as pd

    asked = {hint, *typing.get_args(hint)}
    if pd.DataFrame not in asked or isinstance(value, pd.DataFrame):
        return _plain(value)
    from marginalsyn.table.arrow import ArrowStream, in_pandas

    return value if ArrowStream in asked else _plain(in_pandas(value))


def _plain(value: Any) -> Any:
    """Scalars of numpy are scalars."""
    import numpy as np

    scalar = isinstance(value, np.generic | np.ndarray) and value.shape == ()
    return value.item() if scalar else value


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, str | typing.TypeVar):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is typing.Literal:
        return value in inner
    if hint is None or hint is type(None):
        return value is None
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    if origin is not None and issubclass(origin, Iterable):
        listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return listed and all(_fits(item, inner[0]) for item in value)
    if getattr(hint, "_is_runtime_protocol", False):
        return isinstance(value, hint)
    if getattr(hint, "_is_protocol", False):
        asked = [name for name in vars(hint) if not name.startswith("_")]
        return all(callable(getattr(value, name, None)) for name in asked)
    return isinstance(value, hint)


def _words(hint: Any) -> str:
    """A type as people say it."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        parts = list(dict.fromkeys(_words(one) for one in inner))
        return ", ".join(parts[:-1]) + f" or {parts[-1]}" if len(parts) > 1 else parts[0]
    if origin is typing.Literal:
        return "one of " + ", ".join(map(repr, inner))
    if hint is None or hint is type(None):
        return "None"
    if origin is not None and issubclass(origin, Mapping):
        return "a dict"
    if origin is not None and issubclass(origin, Iterable):
        plurals = {str: "texts", float: "numbers", int: "whole numbers"}
        return f"a list of {plurals.get(inner[0], 'lists')}"
    known = {
        "bool": "True or False",
        "int": "a whole number",
        "float": "a number",
        "str": "a text",
        "Path": "a path",
        "DataFrame": "a DataFrame",
        "Table": "an Ibis table",
        "ArrowStream": "an Arrow table",
    }
    name = hint.__name__ if isinstance(hint, type) else str(hint)
    return known.get(name, f"a {name}")
