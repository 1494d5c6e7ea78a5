"""The notebooks run from the first cell to the last, in an empty folder."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FIRST, ANALYSTS = "first-steps.ipynb", "analysts.ipynb"


def cells(name: str, kind: str) -> list[str]:
    found = json.loads((DOCS / name).read_text(encoding="utf-8"))
    assert found["nbformat"] == 4
    return ["".join(cell["source"]) for cell in found["cells"] if cell["cell_type"] == kind]


def run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell, and return the value of its last line where that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


@pytest.mark.usefixtures("folder")
def test_every_cell_runs_and_shows_what_it_should() -> None:
    names: dict[str, Any] = {}
    shown = [run(source, names) for source in cells(FIRST, "code")]
    cards = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    assert len(cards) >= 4
    assert any("NOT PRIVATE" in card or "not private" in card for card in cards)
    assert any("may be published" in card for card in cards)


@pytest.mark.usefixtures("folder")
def test_an_analyst_needs_the_release_alone() -> None:
    names: dict[str, Any] = {}
    shown = [run(source, names) for source in cells(ANALYSTS, "code")]
    texts = [value.summary() for value in shown if hasattr(value, "summary")]
    assert len(texts) == 5
    assert "P>|z|" in texts[0]
    assert "chi-square" in texts[2]
    assert "not measured by this release" in texts[-1]
