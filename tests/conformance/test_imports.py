"""What is imported when: the fast commands stay fast because they import little."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = (
    "jax",
    "jaxlib",
    "tensorflow",
    "sklearn",
    "scipy",
    "numpy",
    "pandas",
    "ibis",
    "duckdb",
    "opendp",
    "mbi",
    "numba",
    "pydantic",
    "dp_accounting",
)

PROBE = """
import json, sys
from marginalsyn.cli.main import cli
try:
    cli.main(json.loads(sys.argv[1]), prog_name="marginalsyn")
except SystemExit as leaving:
    assert leaving.code == 0, leaving.code
print(json.dumps(sorted(set(json.loads(sys.argv[2])) & set(sys.modules))), file=sys.stderr)
"""


def heavy_modules(*args: str) -> list[str]:
    """The heavy packages that a command imports, found in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(args), json.dumps(HEAVY)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stderr.splitlines()[-1])


@pytest.mark.parametrize(
    "args",
    [
        ("--help",),
        ("--version",),
        ("generate", "--help"),
        ("schema", "infer", "-h"),
        ("ledger", "show", "--help"),
        ("show", "--help"),
    ],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(args: tuple[str, ...]) -> None:
    assert heavy_modules(*args) == []


def test_the_probe_sees_heavy_modules() -> None:
    assert "numpy" in heavy_modules("generate", "--method", "independent", "--help")


@pytest.mark.parametrize(
    ("module", "absent"),
    [("marginalsyn", HEAVY), ("marginalsyn.host", ("numba", "sklearn", "mbi"))],
    ids=["package", "host"],
)
def test_an_import_leaves_what_is_heavy(module: str, absent: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print(sorted(set({absent}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_method_s_options_do_not_import_the_engines() -> None:
    found = heavy_modules("generate", "--method", "independent", "--help")
    assert not {"jax", "tensorflow", "sklearn", "mbi", "numba"} & set(found)
