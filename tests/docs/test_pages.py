"""The documentation does what it says: marked blocks run, links lead somewhere, plugins pass."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from types import SimpleNamespace as Namespace
from typing import Any

import clinic_tables
import numpy as np
import pytest
import warm

from marginalsyn.errors import PluginError
from marginalsyn.plugins.audit.canaries import weight_cases
from marginalsyn.plugins.audit.testkit.generators import GENERATOR_CHECKS
from marginalsyn.plugins.audit.testkit.weights import WEIGHT_CHECKS, check_weight_audit
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.table.schema import Schema

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


@pytest.mark.tensorflow  # the defaults of networks are read as well
def test_every_default_that_is_a_number_has_a_line() -> None:
    check = [sys.executable, str(ROOT / "docs" / "generate_defaults.py"), "--check"]
    found = subprocess.run(check, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def part_of_the_guide(title: str) -> list[Path]:
    """The pages of one part, in the order of the navigation."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    found = re.search(rf"^  - {title}:\n((?:      - .*\n)+)", navigation, re.MULTILINE)
    assert found, title
    return [ROOT / "docs" / name for name in re.findall(r": (\S+\.md)$", found[1], re.MULTILINE)]


# Whoever follows the README and the tutorials does so in one folder, after the install line.
TOUR = [ROOT / "README.md", *part_of_the_guide("Tutorials")]


@pytest.fixture(scope="module")
def warm_commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Puts a ``marginalsyn`` on the path that need not import everything again."""
    python = Path(sys.executable).parent
    with warm.commands(tmp_path_factory.mktemp("bin")) as folder, pytest.MonkeyPatch.context() as m:
        m.setenv("PATH", os.pathsep.join((str(folder), str(python), os.environ["PATH"])))
        yield


def run_text(language: str, text: str, folder: Path, python: tuple[str, ...]) -> None:
    command = {"sh": ["bash", "-euo", "pipefail", "-c"], "python": python}
    done = subprocess.run(
        [*command[language], text],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


COLD = (sys.executable, "-c")


def run_blocks(page: Path, folder: Path, python: tuple[str, ...] = COLD) -> None:
    for language, text in blocks(page, "run"):
        run_text(language, text, folder, python)


@pytest.mark.usefixtures("warm_commands")
@pytest.mark.timeout(900)  # some forty processes; slow only where cores are shared
def test_the_tour_and_the_tutorials_run_word_for_word_after_the_install_line(
    tmp_path: Path,
) -> None:
    install = FENCE.findall(TOUR[0].read_text(encoding="utf-8"))[0].splitlines()[-2]
    run_text("sh", install.rpartition(" && ")[2], tmp_path, COLD)
    assert (tmp_path / "release").is_dir()
    for page in TOUR:
        run_blocks(page, tmp_path)


@pytest.mark.usefixtures("warm_commands")
@pytest.mark.timeout(900)  # a page is a dozen processes; slow only where cores are shared
@pytest.mark.parametrize(
    "page", [page for page in RUNNABLE if page not in TOUR], ids=lambda page: page.name
)
def test_the_blocks_of_a_page_run_one_after_the_other(page: Path, tmp_path: Path) -> None:
    run_blocks(page, tmp_path, (warm.SCRIPT,))


# Blocks that no mark lets run by themselves, and what each page's stand on.
BARE = re.compile(r"^(<!-- \w+ -->\n)?```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
Stage = Callable[[pytest.MonkeyPatch, Callable[..., Any]], dict[str, Any]]


def bare_blocks(page: Path) -> list[str]:
    """The Python blocks of a page that no mark names."""
    return [text for mark, text in BARE.findall(page.read_text(encoding="utf-8")) if not mark]


def with_weighted_release(patch: pytest.MonkeyPatch, run: Callable[..., Any]) -> dict[str, Any]:
    run("generate", "--dataset", "adult", "--method", "independent", "--eps", 2)
    run("weight", "--method", "none", "--eps", 0.1)
    return {}


def with_clinic(patch: pytest.MonkeyPatch, run: Callable[..., Any]) -> dict[str, Any]:
    clinic_tables.write(Path(), clinic_tables.clinic(200), clinic_tables.TREE)
    return {}


def with_package(patch: pytest.MonkeyPatch, run: Callable[..., Any]) -> dict[str, Any]:
    kind = plugin_of("docs/plugins.md", "generator", "LaplaceConfig", Path(), patch)
    for name in ("my_package", "my_package.laplace"):
        patch.setitem(sys.modules, name, sys.modules[kind.__module__])
    return {}


def with_objects_of_mbi(patch: pytest.MonkeyPatch, run: Callable[..., Any]) -> dict[str, Any]:
    """What the other tools build on mbi has these parts; the tools are not installed together."""
    pytest.importorskip("mbi")
    from marginalsyn.plugins.exchange.mbi import load
    from marginalsyn.plugins.exchange.parcel import Parcel, Part

    columns, shape = ("col0", "col1"), (2, 3)
    part = Part(columns=columns, values=np.full(shape, 9.0), sigma=1.0)
    rows = np.zeros((5, 2), dtype=np.int32)
    potential = Part(columns=columns, values=np.zeros(shape))
    domain = dict(zip(columns, shape, strict=True))
    parcel = Parcel(
        domain=domain, tool="x 1", measurements=(part,), potentials=(potential,), rows=rows
    )
    found = load(parcel.write("made"))
    inner = Namespace(
        mappings=None,
        measurements=found.measurements,
        model=found.model,
        synthetic_data=found.data,
    )
    return {
        "measurements": found.measurements,
        "model": found.model,
        "synthesizer": Namespace(synthesizer=found.model, epsilon=1.0, delta=1e-9),
        "table": Namespace(
            keys={"col0": [0, 1], "col1": [0, 1, 2]},
            marginals=Namespace(flatten=lambda: found.measurements),
            model=found.model,
        ),
        "result": Namespace(
            discrete_mechanism_result=inner, codec=Namespace(mbi_domain=found.domain)
        ),
    }


def with_spark(patch: pytest.MonkeyPatch, run: Callable[..., Any]) -> dict[str, Any]:
    sql = pytest.importorskip("pyspark.sql", reason="the extra 'spark' is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    settings = {
        "ui.enabled": "false",
        "driver.host": "127.0.0.1",
        "driver.bindAddress": "127.0.0.1",
    }
    builder = sql.SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(f"spark.{name}", value)
    session = builder.getOrCreate()
    session.sql("CREATE DATABASE IF NOT EXISTS clinic")
    for name in ("people", "clinic.people"):
        session.range(500).selectExpr("id % 3 AS a").write.saveAsTable(name, mode="overwrite")
    Schema.from_domain({"a": 3}).write("people.schema.json")
    return {"spark": session}


STAGES: dict[str, Stage] = {
    "adopt.md": with_objects_of_mbi,
    "audits.md": with_package,
    "datasets.md": lambda patch, run: {},
    "people.md": with_clinic,
    "plugins.md": with_package,
    "spark.md": with_spark,
    "steering.md": with_weighted_release,
    "weights.md": with_weighted_release,
}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[pytest.mark.slow] * (page.stem == "spark"))
        for page in PAGES
        if bare_blocks(page)
    ],
)
def test_every_other_python_block_runs_where_its_page_says(
    page: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {"__name__": f"block_of_{page.stem}"}
    monkeypatch.setitem(sys.modules, names["__name__"], ModuleType(names["__name__"]))
    names |= STAGES[page.name](monkeypatch, run)
    for text in bare_blocks(page):
        # Not on a cluster, and shorter.
        here = re.sub('"(/Volumes/main/default|/tmp)/', '"', text).replace("runs=300", "runs=20")
        exec(compile(here, page.name, "exec"), names)
    for test in [names[name] for name in names if name.startswith("test_")]:
        test()
    if "spark" in names:
        names["spark"].stop()
    if "Widest" in names:
        run("generate", "--dataset", "heart", "--method", "independent", "--eps", 1)
        assert len(names["Widest"](most=3).run().value) == 3


def test_the_pages_that_must_run_do() -> None:
    must = {"README.md", "index.md", "python.md", "weights-tutorial.md", "small-tables.md"}
    assert must <= {page.name for page in RUNNABLE}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        if not target.startswith(("http://", "https://", "#", "mailto:")):
            assert (page.parent / target.partition("#")[0]).exists(), target


def test_the_commands_of_the_pages_exist() -> None:
    from marginalsyn import registry
    from marginalsyn.cli.main import COMMANDS

    known = {*COMMANDS, *(plugin.name for plugin in registry.plugins(registry.COMMANDS))}
    for page in PAGES:
        for name in re.findall(r"`marginalsyn ([a-z][a-z-]*)", page.read_text(encoding="utf-8")):
            assert name in known, f"{page.name}: marginalsyn {name}"


@pytest.mark.parametrize("check", GENERATOR_CHECKS, ids=lambda check: check.__name__)
def test_the_generator_of_a_page_keeps_the_contract(
    check: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(plugin_of("CONTRIBUTING.md", "generator", "ChainConfig", tmp_path, monkeypatch))


@pytest.mark.parametrize("check", WEIGHT_CHECKS, ids=lambda check: check.__name__)
def test_the_estimator_of_a_page_keeps_the_contract(
    check: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(plugin_of("docs/plugins.md", "estimator", "LabelOddsConfig", tmp_path, monkeypatch))


def test_the_estimator_of_a_page_is_audited_with_a_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim holds; where it charges a quarter of what it spends it does not."""
    kind = plugin_of("docs/plugins.md", "estimator", "LabelOddsConfig", tmp_path, monkeypatch)
    assert {case.schema.label for case in weight_cases(kind)} == {"d"}
    check_weight_audit(kind, {"prior_rows": 1.0}, runs=10)
    calibrated = sys.modules[kind.__module__].LabelOdds  # type: ignore[attr-defined]
    cost = calibrated.cost.fget
    half = property(
        lambda self: [c.model_copy(update={"cost": ZCDP(rho=c.cost.rho / 4)}) for c in cost(self)]
    )
    monkeypatch.setattr(calibrated, "cost", half)
    with pytest.raises((AssertionError, PluginError)):
        check_weight_audit(kind, {"prior_rows": 1.0}, runs=10)


def plugin_of(
    page: str, mark: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> type:
    """The class of a page's file, as if it were installed."""
    ((language, text),) = blocks(ROOT / page, mark)
    assert language == "python"
    file = tmp_path / f"{name.lower()}.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, file.stem, module)
    spec.loader.exec_module(module)
    found: type = getattr(module, name)
    return found


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_constraints_pin_what_the_package_needs(python: str) -> None:
    import tomllib

    from packaging.requirements import Requirement

    def there(wanted: Requirement) -> bool:
        return wanted.marker is None or wanted.marker.evaluate({"python_version": python})

    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    names = [pin.name for pin in pins if there(pin)]
    assert len(set(names)) == len(names)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = itertools.chain.from_iterable(project["optional-dependencies"].values())
    for requirement in map(Requirement, itertools.chain(project["dependencies"], extras)):
        name = requirement.name.lower().replace("_", "-")
        if there(requirement):
            assert name == "marginalsyn" or name in names, name
