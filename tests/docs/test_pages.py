"""The documentation does what it says: marked blocks run, links lead somewhere, plugins pass."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from marginalsyn.audit.testkit.generators import GENERATOR_CHECKS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^<!-- (\w+) -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def blocks(page: Path, mark: str) -> list[tuple[str, str]]:
    """The language and the text of the blocks of a page that carry a mark."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(language, text) for name, language, text in found if name == mark]


RUNNABLE = [page for page in PAGES if blocks(page, "run")]


@pytest.mark.timeout(900)  # a page is a dozen processes; slow only where cores are shared
@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run_one_after_the_other(page: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for language, text in blocks(page, "run"):
        command = {"sh": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}
        done = subprocess.run(
            [*command[language], text],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def test_the_pages_that_must_run_do() -> None:
    assert {"README.md", "index.md", "python.md"} <= {page.name for page in RUNNABLE}


def test_the_readme_opens_with_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    fences = [fence.splitlines() for fence in FENCE.findall(text)]
    for fence in fences[:2]:
        assert fence[0] == "```sh"
        assert len(fence) == 3, "one line"
    assert fences[0][1].endswith("marginalsyn generate --eps 2")
    assert " && pytest" in fences[1][1]
    assert all("-c constraints.txt" in fence[1] for fence in fences[:2])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        if not target.startswith(("http://", "https://", "#", "mailto:")):
            assert (page.parent / target.partition("#")[0]).exists(), target


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f": {page.name}" in navigation, page.name


def test_the_commands_of_the_pages_exist() -> None:
    from marginalsyn.cli.main import COMMANDS

    for page in PAGES:
        for name in re.findall(r"`marginalsyn ([a-z][a-z-]*)", page.read_text(encoding="utf-8")):
            assert name in COMMANDS, f"{page.name}: marginalsyn {name}"


@pytest.mark.parametrize("check", GENERATOR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    ("page", "name"), [("docs/plugins.md", "LaplaceConfig"), ("CONTRIBUTING.md", "ChainConfig")]
)
def test_the_generator_of_a_page_keeps_the_contract(
    page: str,
    name: str,
    check: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ((language, text),) = blocks(ROOT / page, "generator")
    assert language == "python"
    file = tmp_path / f"{name.lower()}.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, file.stem, module)
    spec.loader.exec_module(module)
    check(getattr(module, name))


@pytest.mark.parametrize("file", ["constraints.txt", "constraints-py313.txt"])
def test_constraints_pin_what_the_package_needs(file: str) -> None:
    import tomllib

    pins = {
        line.partition("==")[0]
        for line in (ROOT / file).read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = itertools.chain.from_iterable(project["optional-dependencies"].values())
    for requirement in itertools.chain(project["dependencies"], extras):
        if "python_version < '3.12'" in requirement and file != "constraints.txt":
            continue
        name = re.split(r"[\[<>=!; ]", requirement)[0].lower().replace("_", "-")
        assert name == "marginalsyn" or name in pins, name
