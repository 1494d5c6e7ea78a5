"""``generate --estimator mbi``: the model is mbi's, and the statement says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

Run = Callable[..., Result]


@pytest.mark.parametrize("method", ["mst", "fixed-marginals"])
def test_mbi_fits_and_the_statement_says_so(run: Run, folder: Path, method: str) -> None:
    pytest.importorskip("mbi")
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, 600)
    frame = pd.DataFrame({"sex": sex, "ill": (sex + (rng.random(600) < 0.1)) % 2})
    frame.to_csv("people.csv", index=False)
    columns = [{"kind": "categorical", "name": n, "categories": ["0", "1"]} for n in frame]
    Path("schema.json").write_text(json.dumps({"label": "ill", "columns": columns}))
    source = ("--data", "people.csv", "--schema", "schema.json")
    run("generate", *source, "--eps", 3, "--method", method, "--estimator", "mbi")
    told = json.loads(Path("release/privacy.json").read_text())
    assert told["parameters"]["estimator"] == "mbi"
    assert told["libraries"]["mbi"] == "fits the model and answers for its marginals"
    assert "mbi" in told["versions"]
    run("verify")
    rows = pd.read_csv("release/synthetic.csv", dtype=str)
    assert (rows["sex"] == rows["ill"]).mean() == pytest.approx(0.9, abs=0.05)
    run("sample", "--rows", 10, "--out", "more.csv")
    run("generate", *source, "--eps", 1, "--method", method, "--force")
    assert "mbi" not in json.loads(Path("release/privacy.json").read_text())["versions"]
