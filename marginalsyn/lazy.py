"""The public names of the package, each imported when it is first used: importing stays light."""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def faces(package: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package, named by its ``__name__``.

    It shows what its ``if TYPE_CHECKING:`` block imports from modules of its own: the list that
    type checkers and people read is the only one.
    """

    @cache
    def homes() -> dict[str, str]:
        tree = ast.parse(pkgutil.get_data(package, "__init__.py") or b"")
        blocks = [block for block in tree.body if isinstance(block, ast.If)]
        lines = [line for block in blocks for line in block.body]
        return {
            shown.name: line.module
            for line in lines
            if isinstance(line, ast.ImportFrom) and (line.module or "").startswith(f"{package}.")
            for shown in line.names
            if line.module
        }

    def find(name: str) -> Any:
        if name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes()[name]), name)

    return find
