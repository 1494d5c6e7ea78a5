"""Which libraries took part in a run: the code that uses one names it.

A library that is merely installed, or that an earlier run in the same process loaded, is no part
of a run and does not stand in its statement.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import metadata

ALWAYS = ("python", "marginalsyn")
BASE = {"numpy": "holds the numbers", "pandas": "holds the rows"}
"""What every release is made with."""

_USED: ContextVar[dict[str, str] | None] = ContextVar("marginalsyn_libraries", default=None)


@contextmanager
def record_libraries() -> Iterator[dict[str, str]]:
    """Collect the libraries that are named inside, each with what it did.

    Example:
        >>> with record_libraries() as found:
        ...     took_part("mbi", "fits the model")
        >>> found
        {'mbi': 'fits the model'}
    """
    found: dict[str, str] = {}
    token = _USED.set(found)
    try:
        yield found
    finally:
        _USED.reset(token)


def took_part(library: str, role: str) -> None:
    """Name a library, by its distribution, where a run uses it. Call it outside of caches."""
    found = _USED.get()
    if found is not None:
        found.setdefault(library, role)


def used_libraries() -> dict[str, str]:
    """The libraries that were named so far in the run."""
    return dict(_USED.get() or {})


@cache
def version(library: str) -> str:
    """The installed version of a library, ``unknown`` where it has none."""
    if library == "python":
        return platform.python_version()
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "unknown"
