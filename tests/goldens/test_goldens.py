"""Seeded runs, help and messages are what they were, byte for byte."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "goldens"


@pytest.fixture(scope="module")
def goldens() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("goldens", str(SCRIPT))
    spec = importlib.util.spec_from_loader("goldens", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def compare(*arguments: str) -> None:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, f"{done.stdout[-20_000:]}{done.stderr[-2000:]}"


def test_nothing_quick_has_changed() -> None:
    compare("--quick")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_nothing_has_changed() -> None:
    compare()


def test_every_method_has_goldens(goldens: ModuleType) -> None:
    from marginalsyn.registry import GENERATORS, WEIGHTS, plugins

    weights = {name.removeprefix("weight/") for name in goldens.CASES if name.startswith("weight/")}
    ours = {
        kind: {each.name for each in plugins(kind) if each.distribution == "marginalsyn"}
        for kind in (GENERATORS, WEIGHTS)
    }
    assert ours == {GENERATORS: {*goldens.GENERATORS}, WEIGHTS: weights}
