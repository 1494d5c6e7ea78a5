"""The benchmark of many methods: what it measures, goes on with and draws."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the benchmark by its name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield lambda name: importlib.import_module(f"tables.{name}")
    for name in [name for name in sys.modules if name.partition(".")[0] == "tables"]:
        del sys.modules[name]


def test_real_rows_are_judged_to_be_right_and_others_by_hand(parts: Any) -> None:
    case = parts("cases").bundled("heart", 1)
    judging = parts("judging")
    assert len(case.train) == len(parts("cases").bundled("heart", 0).train)
    for ways in (1, 2, 3):
        assert judging.variation(case, case.codes, ways) == 0
    moved = case.codes.copy()
    moved[:, 0] = case.codes[0, 0]
    share = np.mean(case.codes[:, 0] == case.codes[0, 0])
    expected = (1 - share) / case.codes.shape[1]
    assert judging.variation(case, moved, 1) == pytest.approx(expected)
    own = [judging.loss(case, rows, "linear") for rows in case.real]
    assert own[1] < own[0] < 0.7


def test_runs_that_are_there_are_known_and_drawn(
    parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, report = tmp_path / "tables.jsonl", parts("report")
    rng = np.random.default_rng(1)
    facts: list[dict[str, Any]] = [
        {"table": "t", "method": method, "eps": eps, "run": run}
        | {name: float(rng.random()) for name in report.MEASURES}
        for method in ("a", "b")
        for eps in (0.5, 1.0)
        for run in range(3)
    ]
    facts.append({"table": "t", "method": "c", "eps": 1.0, "run": 0, "failed": "over 300 s"})
    file.write_text("".join(parts("making").line(one) for one in facts))
    assert ("t", "c", 1.0, 0) in parts("__main__").read(file)
    assert len(parts("__main__").read(file)) == len(facts)
    monkeypatch.setattr(report, "PICTURE", tmp_path / "tables.svg")
    report.write(file)
    text = file.with_suffix(".md").read_text()
    values = np.array([f["tv2"] for f in facts if f["method"] == "a" and f.get("eps") == 0.5])
    assert f"{np.median(values):.4f} +- {values.std(ddof=1):.4f}" in text
    assert "0 (1 failed: over 300 s)" in text
    drawn = ElementTree.parse(tmp_path / "tables.svg")
    assert len(drawn.findall(".//{*}polyline")) >= 4
    assert json.loads(file.read_text().splitlines()[0])["method"] == "a"
