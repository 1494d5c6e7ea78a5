"""The script that holds the product's figures below their ceilings: it counts, and it fails."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "ceilings"
AIM = '''"""It told nobody."""

import json, os
from sys import (
    argv,
)


def told_it(x):  # told twice
    """A held-out row, withheld; another is held."""
    return getattr(x, "a", None), getattr(x, argv), hasattr(x, "b")
'''
CLI = """@group.command("a")
def a():
    pass


@click.command()
def b():
    pass
"""


@pytest.fixture(scope="module")
def ceilings() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("ceilings", str(SCRIPT))
    spec = importlib.util.spec_from_loader("ceilings", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path, ceilings: ModuleType) -> Path:
    """A tiny product whose figures stand at their ceilings."""
    texts = {
        "marginalsyn/aim.py": AIM,
        "cli/main.py": CLI,
        "README.md": "Looks\nat rows, tells of rows; whomever.",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "tools").mkdir()
    record = {name: {"ceiling": n, "goal": 0} for name, n in ceilings.measure(tmp_path).items()}
    (tmp_path / "tools" / "ceilings.json").write_text(json.dumps(record))
    return tmp_path


def test_figures_of_a_tiny_tree(ceilings: ModuleType, tree: Path) -> None:
    found = ceilings.measure(tree)
    assert found["lines of the core"] == found["lines of the product"] == 11 + 8
    assert found["files of the product"] == 2
    assert found["lines of cli/ and operations/ a command"] == 4
    assert found["getattr and hasattr with a constant name"] == 2
    assert found["names imported by aim.py"] == 3
    assert {name: n for name, n in found.items() if name.startswith("word") and n} == {
        "word: told": 3,
        "word: tell(s) of": 1,
        "word: looks at": 1,
        "word: held": 1,
    }


def test_a_figure_that_rises_fails(
    ceilings: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ceilings.main([], tree) == 0
    (tree / "cli" / "more.py").write_text("whom = 1\n")
    assert ceilings.main([], tree) == 1
    said = capsys.readouterr().err.splitlines()
    assert "files of the product: 3 is above its ceiling 2" in said
    assert "word: whom: 1 is above its ceiling 0" in said
    # Lowering records what fell and forgives nothing that rose.
    assert ceilings.main(["--lower"], tree) == 1
    (tree / "cli" / "more.py").unlink()
    (tree / "README.md").unlink()
    assert ceilings.main(["--lower"], tree) == 0
    (tree / "README.md").write_text("Looks at rows.")
    capsys.readouterr()
    assert ceilings.main([], tree) == 1
    assert capsys.readouterr().err == "word: looks at: 1 is above its ceiling 0\n"
