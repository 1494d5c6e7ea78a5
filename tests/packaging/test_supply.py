"""What is installed: few packages, none of a version with a known fault, each with its hash."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
import tomllib
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


def test_a_bad_pin_would_be_found(supply: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pins = {**supply.read_pins(), "opendp": "0.14.1", "pyarrow": "25.0"}
    newer = {**supply.read_pins("3.13"), "opendp": "0.14.1", "duckdb": "2.0"}
    monkeypatch.setattr(supply, "read_pins", lambda python: {"3.11": pins}.get(python, newer))
    found = "\n".join(supply.check_pins())
    assert "opendp 0.14.1 must not be <0.14.2" in found
    assert "pyarrow 25.0 must not be >=24" in found
    assert "requirements-ci.txt: opendp must be 0.14.1" in found
    assert "constraints.txt (Python 3.13): duckdb 2.0 must not be >=2" in found
    assert "requirements-ci.txt: duckdb must be 2.0 with its hash" in found


def test_each_python_has_one_set_of_pins(supply: ModuleType) -> None:
    old, new = supply.read_pins("3.11"), supply.read_pins("3.13")
    assert old["numpy"].startswith("1.26.")
    assert new["numpy"].startswith("2.")
    assert "tensorflow" in old
    assert "tensorflow" not in new
    assert supply.read_pins("3.12") == supply.read_pins("3.14") == new


def test_a_changed_file_would_be_found(
    supply: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from importlib import metadata

    folder = tmp_path / "toolz-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: toolz\nVersion: 1\n")
    (tmp_path / "toolz.py").write_text("evil = True\n")
    wrong = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
    (folder / "RECORD").write_text(f"toolz.py,{wrong},0\ngone.py,{wrong},0\n")
    monkeypatch.setattr(supply, "installed", lambda: {"toolz": metadata.Distribution.at(folder)})
    assert supply.check_files() == [
        "toolz: toolz.py is not the file that was installed",
        "toolz: gone.py is missing",
    ]
    assert supply.check_versions() == [f"toolz must be {supply.read_pins()['toolz']}, not 1"]


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
