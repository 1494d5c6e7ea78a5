"""The papers' tables by one command: verdicts, what is kept, and a place for every figure."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    """The checkout's root and its benchmarks can be imported."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def _module(name):
    return importlib.import_module(f"benchmarks.papers.{name}")


@pytest.fixture
def folder(tmp_path):
    """A coded table of the name of a paper's, and empty files under the other names."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (200, 3))
    frame = pd.DataFrame({"sex": x[:, 0], "exng": x[:, 1], "cp": x[:, 2], "output": x[:, 0]})
    frame.to_csv(tmp_path / "paper_heart.csv", index=False)
    (tmp_path / "paper_heart_domain.json").write_text(json.dumps(dict.fromkeys(frame, 2)))
    return tmp_path


@pytest.mark.parametrize("paper", ["000", "001", "002", "003"])
def test_every_printed_figure_has_its_place(paper, tmp_path):
    for name in ("adult", "churn", "compas", "dutch", "heart", "law"):
        (tmp_path / f"{name}.csv").touch()
        (tmp_path / f"{name}_domain.json").touch()
    for name in ("data_banknote_authentication.txt", "boston.csv", "spambase.csv"):
        (tmp_path / name).touch()
    (tmp_path / "california.csv").touch()
    for name in _module("mnist").FILES:
        (tmp_path / name).touch()
    module = _module(f"paper_{paper}")
    ask, bare = _module("exhibits").Ask(data=tmp_path), _module("exhibits").Ask()
    places = {(job.exhibit, job.place) for one in (ask, bare) for job in module.jobs(one)}
    assert len(places) > 10
    assert {key[:2] for key in module.PUBLISHED} <= places
    assert not [line for line in module.missing(ask) if line.startswith("not at hand")]
    # A table that a run asks for is used where it is there.
    if paper in ("000", "001"):
        asked = {name for name in module.NAMES if name in _module("tables").FILES}
        assert asked <= {place.split(",")[0] for _, place in places}


def test_the_command_prints_ours_beside_the_papers(folder):
    command = [sys.executable, "-m", "benchmarks.papers", "003", "--data", str(folder), "--quick"]
    command += ["--exhibits", "Table 2", "--places", "eps 2, published", "--runs", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("| heart, eps 2, pub")]
    assert len(lines) == 6
    assert all("one release" in line for line in lines)
    assert "| auc | 0.853 |" in done.stdout
    assert "not at hand: adult, churn, compas, dutch, law" in done.stdout
