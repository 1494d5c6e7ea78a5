"""Every benchmark starts: what it imports from this project exists."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
OURS = {"marginalsyn", "cli", "plugins", "datasets"}


def imported(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            yield from ((str(node.module), name.name) for name in node.names)


@pytest.mark.skipif(find_spec("tensorflow") is None, reason="some benchmarks train networks")
@pytest.mark.parametrize("path", sorted(BENCHMARKS.rglob("*.py")), ids=lambda p: p.stem)
def test_what_a_benchmark_imports_exists(path: Path) -> None:
    for module, name in imported(path):
        found = importlib.import_module(module)
        if not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")
