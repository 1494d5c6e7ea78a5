"""What the command-line tests share: a folder of one's own and a way to run commands in it."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

PEOPLE_SCHEMA: dict[str, Any] = {
    "title": "people",
    "label": "ill",
    "positive": "yes",
    "drop": ["id"],
    "columns": [
        {"kind": "integer", "name": "age", "lower": 0, "upper": 99, "bins": 10},
        {"kind": "continuous", "name": "income", "lower": 0, "upper": 1000, "bins": 5},
        {"kind": "categorical", "name": "ward", "categories": ["A", "B"], "nullable": True},
        {"kind": "boolean", "name": "ill", "true_label": "yes", "false_label": "no"},
    ],
}


# A folder in memory, and the room that the tests need there.
MEMORY = Path("/dev/shm")
ROOM = 2**32


def pytest_configure(config: pytest.Config) -> None:
    """Search for garbage less often: a query makes and drops trees of many small objects.

    Keep files of quick tests in memory: a ledger waits for the disk at every charge. And where
    several processes share the cores let each use one.
    """
    gc.set_threshold(20_000, 20, 50)
    if config.getoption("numprocesses", None):
        for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
            os.environ.setdefault(name, "1")
    if "TMPDIR" in os.environ or config.getoption("markexpr") != "not slow":
        return
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def pytest_collection_finish() -> None:
    """Leave out of these searches what was imported, which stays to the end."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs TensorFlow where it is not installed."""
    if importlib.util.find_spec("tensorflow_privacy") is None:
        for item in items:
            if item.get_closest_marker("tensorflow"):
                item.add_marker(pytest.mark.skip(reason="needs the extra tensorflow"))


@pytest.fixture(scope="session")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the ledgers of all tests lie: never in a real home."""
    return tmp_path_factory.mktemp("ledgers")


@pytest.fixture(autouse=True)
def _own_ledgers(ledgers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has ledgers of its own."""
    monkeypatch.setenv("MARGINALSYN_LEDGERS", str(ledgers / uuid.uuid4().hex))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder; the user's ledgers lie in its workspace, where tests find them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARGINALSYN_LEDGERS", str(tmp_path / ".marginalsyn" / "ledgers"))
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Callable[..., Result]:
    """Runs a command line in the empty folder; ``code`` is the exit code to expect."""
    from marginalsyn.cli.main import cli

    def call(*args: object, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, [str(arg) for arg in args])
        assert result.exit_code == code, f"{args}\n{result.output}\n{result.exception!r}"
        assert "Traceback" not in result.output
        return result

    return call


@pytest.fixture
def people(folder: Path) -> Path:
    """A small CSV file with every kind of trouble that is none, and its schema beside it."""
    lines = ["id,age,income,ward,ill"]
    for number in range(200):
        ward = ("A", "B", "", "C")[number % 4]
        ill = ("no", "yes")[number % 3 == 0]
        lines.append(f"{number},{number % 90},{number * 5.5},{ward},{ill}")
    path = folder / "people.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "people.json").write_text(json.dumps(PEOPLE_SCHEMA), encoding="utf-8")
    return path
