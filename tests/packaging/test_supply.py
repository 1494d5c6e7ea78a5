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
