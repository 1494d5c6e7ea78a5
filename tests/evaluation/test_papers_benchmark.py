"""The papers' tables, made again by one command."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    """A coded table of the name of a paper's, and empty files under the other names."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (200, 3))
    frame = pd.DataFrame({"sex": x[:, 0], "exng": x[:, 1], "cp": x[:, 2], "output": x[:, 0]})
    frame.to_csv(tmp_path / "paper_heart.csv", index=False)
    (tmp_path / "paper_heart_domain.json").write_text(json.dumps(dict.fromkeys(frame, 2)))
    return tmp_path


def test_the_command_prints_ours_beside_the_papers(folder):
    command = [sys.executable, "-m", "benchmarks.papers", "003", "--data", str(folder), "--quick"]
    command += ["--exhibits", "Table 2", "--places", "eps 2, published", "--runs", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("| heart, eps 2, pub")]
    assert len(lines) == 6
    assert all("one release" in line for line in lines)
    assert "| auc | 0.853 |" in done.stdout
    assert "not at hand: adult, churn, compas, dutch, law" in done.stdout
