"""The command audit: tables, JSON, exit codes, others' plugins, worker processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from marginalsyn.registry import GENERATORS

Run = Callable[..., Result]
QUIET_KEYS = {
    "confidence",
    "broken",
    "failed",
    "checks_failed",
    "not_audited",
    "measured",
    "checks",
    "summary",
}
SOURCE = (Path(__file__).parents[1] / "plugins" / "audit" / "test_auditing.py").read_text(
    encoding="utf-8"
)
PLANTED = SOURCE.partition('PLANTED = """')[2].partition('"""')[0]


@pytest.fixture
def install(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    """Put a distribution with one generator on the path."""
    site = tmp_path_factory.mktemp("site")
    monkeypatch.syspath_prepend(str(site))

    def add(name: str, text: str) -> None:
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            f"[{GENERATORS}]\n{name} = {name}_code:PlantedConfig\n"
        )
        (site / f"{name}_code.py").write_text(text)

    return add


def test_a_planted_leak_of_a_third_party_is_caught(run: Run, folder: Path, install) -> None:
    install("leaky", PLANTED.format(name="leaky", factor=1.0, leak=True))
    command = ("audit", "leaky", "--runs", 40, "--jobs", 1, "--seed", 1)
    result = run(*command, "--out", "audit.json", code=1)
    line = next(line for line in result.stdout.splitlines() if "BROKEN" in line)
    assert line.startswith("leaky")
    assert "1 claims are broken" in result.stderr
    told = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    assert told["broken"] == ["leaky"]
    worst = max(told["cases"], key=lambda case: case["bound"])
    assert worst["event"].startswith("notes.rows")
    assert worst["bound"] > worst["eps"] == 1.0


def test_a_sound_plugin_passes_in_worker_processes(run: Run, install) -> None:
    install("sound", PLANTED.format(name="sound", factor=1.0, leak=False))
    result = run("audit", "sound", "--runs", 8, "--jobs", 2, "--neighbours", "both", "--json")
    found = json.loads(result.stdout)
    assert found.keys() >= QUIET_KEYS
    assert [row["status"] for row in found["summary"]] == ["holds", "holds"]
    assert {row["neighbours"] for row in found["summary"]} == {"add-remove", "replace"}
    assert all(case["runs"] == 8 for case in found["cases"])
    assert all(check["holds"] for check in found["checks"])


def test_too_few_runs_are_no_pass(run: Run) -> None:
    how = ("--runs", 2, "--jobs", 1, "--neighbours", "add-remove")
    result = run("audit", "rake", *how)
    assert "too few runs" in result.stdout
    assert "nothing can be said of rake" in result.stderr


def test_a_broken_plugin_is_named_and_stops_nobody(run: Run, install) -> None:
    install("useless", "raise RuntimeError('boom')")
    assert "boom" in run("audit", "useless", code=1).stderr


def test_mistakes_are_refused(run: Run) -> None:
    assert "must be one of" in run("audit", "no-such", code=2).stderr
    assert "eps (-1.0) must be" in run("audit", "mst", "--eps", -1, code=2).stderr
    run("audit", "mst", "--minutes", 0, code=2)
