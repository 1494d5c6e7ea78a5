"""Pydantic's errors in this project's form, ``name (value) must be ...``, on one screen."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    from pydantic import ValidationError

MOST_LINES = 12


def explain(
    error: ValidationError,
    place: Callable[[tuple[Any, ...]], tuple[str, str]] | None = None,
    fields: Callable[[tuple[Any, ...]], Iterable[str]] | None = None,
) -> str:
    """Return one line per problem, without pydantic's type codes and addresses.

    ``place`` turns a location into (prefix, name); by default the dotted location is the name.
    ``fields`` gives the names that a field at a location could have.
    """
    lines = []
    for problem in error.errors(include_url=False):
        prefix, name = (place or _dotted)(problem["loc"])
        text = prefix + _sentence(name, problem)
        if problem["type"] == "extra_forbidden" and fields is not None:
            text += like(str(problem["loc"][-1]), fields(problem["loc"]))
        if text not in lines:
            lines.append(text)
    return shorten(lines)


def shorten(lines: Iterable[str], most: int = MOST_LINES) -> str:
    """Join lines, and say how many did not fit."""
    kept = list(lines)
    if len(kept) > most:
        kept = [*kept[:most], f"... and {len(kept) - most} more"]
    return "\n".join(kept)


def first_of(names: Sequence[str], most: int) -> str:
    """The first few names on one line, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def shown(value: Any, most: int = 60) -> str:
    """``repr`` cut to a readable length."""
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def check_address(url: str) -> None:
    """Refuse an address whose password ends too early: what is left of it would be shown.

    Example:
        >>> check_address("postgres://me:a%2Fb@host/db?table=t")
        >>> check_address("postgres://me:a/b@host/db?table=t")
        Traceback (most recent call last):
        ...
        marginalsyn.errors.UsageError: data (postgres://***) must have a password that is encoded...
    """
    parts = urlsplit(url)
    if parts.scheme.lower() in ("duckdb", "spark", "sc", "file"):
        return
    beyond = parts.path + parts.fragment + ("" if "@" in parts.netloc else parts.query)
    if "@" in beyond:
        raise UsageError(
            f"data ({parts.scheme.lower()}://***) must have a password that is encoded for "
            "addresses: write %2F for /, %23 for #, %3F for ? and %40 for @, or leave it out"
        )


def like(name: str, others: Iterable[str]) -> str:
    """The end of an error message: "did you mean ...?", if a similar name exists.

    Example:
        >>> like("agee", ["age", "sex"])
        "; did you mean 'age'?"
    """
    folded = {other.casefold(): other for other in others}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1)
    return f"; did you mean {folded[close[0]]!r}?" if close else ""


def _dotted(loc: tuple[Any, ...]) -> tuple[str, str]:
    return "", ".".join(str(part) for part in loc) or "value"


def _sentence(name: str, problem: Any) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    value = shown(problem["input"])
    if kind == "value_error":
        text = str(context.get("error", problem["msg"]))
        return text if "must" in text else f"{name} ({value}) must be valid: {text}"
    if kind == "missing":
        return f"{name} must be given: it is missing"
    if kind == "extra_forbidden":
        return f"{name} ({value}) must be a known field: remove it or correct its spelling"
    if kind == "union_tag_invalid":
        tag, tags = context["tag"], context["expected_tags"]
        near = like(str(tag), re.findall(r"'([^']*)'", tags))
        return f"{_field(context)} ({tag!r}) must be one of {tags}{near}"
    if kind == "union_tag_not_found":
        wanted, given = _field(context), problem["input"]
        keys = given if isinstance(given, dict) else ()
        close = difflib.get_close_matches(wanted, [str(key) for key in keys], n=1)
        hint = f"; {close[0]!r} is no field" if close else ""
        return f"{wanted} must be given: it is missing{hint}"
    words = re.sub(r"^[\w ]*? should\b", "must", problem["msg"])
    return f"{name} ({value}) {words if words.startswith('must') else 'must be valid: ' + words}"


def _field(context: dict[str, Any]) -> str:
    return str(context["discriminator"]).strip("'")
