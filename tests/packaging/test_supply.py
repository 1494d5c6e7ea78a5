"""What is installed: few packages, none of a version with a known fault, each with its hash."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import runpy
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
BASE = {
    *("numpy", "pandas", "scipy", "scikit-learn", "numba", "POT", "arviz-stats"),
    *("dp-accounting", "opendp"),
    *("ibis-framework", "duckdb", "pyarrow", "pydantic", "filelock"),
    *("jinja2", "rich", "rich-click"),
}


@pytest.fixture(scope="module")
def supply() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("supply", str(ROOT / ".ci" / "supply"))
    spec = importlib.util.spec_from_loader("supply", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_no_pin_and_no_lower_bound_is_known_to_be_bad(supply: ModuleType) -> None:
    assert supply.check_pins() == []


def test_each_python_has_one_set_of_pins(supply: ModuleType) -> None:
    old, new = supply.read_pins("3.11"), supply.read_pins("3.13")
    assert old["numpy"].startswith("1.26.")
    assert new["numpy"].startswith("2.")
    assert "tensorflow" in old
    assert "tensorflow" not in new
    assert supply.read_pins("3.12") == supply.read_pins("3.14") == new


def test_the_base_install_is_what_it_was() -> None:
    """Every further package is a further party to trust: add it here on purpose."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {Requirement(line).name for line in project["dependencies"]} == BASE


BARE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
from click.testing import CliRunner
from marginalsyn.cli.main import cli
for line in sys.argv[1:]:
    result = CliRunner().invoke(cli, line.split())
    assert result.exit_code == 0, result.output
"""
# Extras, and what tests and documentation need.
EXTRAS = {
    *("tensorflow", "tensorflow_privacy", "tensorflow_probability", "keras", "blackjax"),
    *("mbi", "jax", "jaxlib", "optax", "chex"),
    *(
        "formulaic",
        "pyspark",
        "psycopg",
        "matplotlib",
        "hypothesis",
        "pytest",
        "mkdocs",
        "requests",
        "yaml",
    ),
}


def test_the_base_works_without_the_extras(tmp_path: Path) -> None:
    commands = (
        "generate --dataset heart --method independent --eps 1 --quiet",
        "weight --method beta-noised --eps 1 --quiet",
        "verify",
        "estimate --mean age --quiet",
    )
    code = BARE.replace("{missing}", repr(EXTRAS))
    done = subprocess.run(
        [sys.executable, "-c", code, *commands],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_an_editable_install_has_stubs_that_its_record_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Type checkers see nothing of what an editable install finds by a hook."""
    setuptools = pytest.importorskip("setuptools")
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    made = runpy.run_path("setup.py")
    about = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    known = {"packages": about["packages"], "package_dir": about["package-dir"]}
    distribution = setuptools.Distribution(known)
    stubs = dict(made["TypedEditableWheel"](distribution).stubs())
    rooms = ("marginalsyn", "cli", "plugins", "datasets")
    assert len(stubs) == sum(1 for room in rooms for _ in Path(room).rglob("*.py"))
    assert stubs["marginalsyn-stubs/__init__.pyi"] == Path("marginalsyn/__init__.py").read_bytes()
    wheel, record = tmp_path / "x.editable-py3-none-any.whl", "x.dist-info/RECORD"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("x.pth", "hook")
        archive.writestr(record, "x.pth,,\n")
    made["add_files"](wheel, stubs)
    with zipfile.ZipFile(wheel) as archive:
        lines = dict(line.split(",", 1) for line in archive.read(record).decode().splitlines())
        assert {*archive.namelist()} == {*stubs, "x.pth", record}
        assert {*lines} == {*stubs, "x.pth"}
        assert archive.read("marginalsyn-stubs/cli/main.pyi") == Path("cli/main.py").read_bytes()
