"""The attacks of benchmarks/attacks, each of which once broke a promise, find nothing any more."""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path

import pytest
from eager import eagerly

from marginalsyn.errors import MissingExtraError

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "benchmarks" / "attacks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))
# Those that take more than some seconds run with the slow tests.
SLOW = {"persons", "shared_keys"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in NAMES]
)
def test_the_attack_finds_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))  # attacks share a little
    spec = importlib.util.spec_from_file_location(f"attack_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        with eagerly() if name == "streams" else contextlib.nullcontext():
            found = module.attack()
    except MissingExtraError as missing:  # networks, where there is no TensorFlow
        pytest.skip(str(missing))
    assert found is None
