"""Generators from the command line: their options, plans, interruption, and hash seeds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from marginalsyn.graphical import model as pgm

Run = Callable[..., Result]
METHODS = ("auto", "aim", "clique-tree", "mst", "fixed-marginals", "all-marginals")
AIM = ("generate", "--dataset", "heart", "--method", "aim", "--eps", 1)


def test_options_reach_the_statement(run: Run, folder: Path) -> None:
    workload = [["age", "disease"], {"columns": ["sex", "disease"], "weight": 2}]
    (folder / "w.json").write_text(json.dumps(workload), encoding="utf-8")
    run(*AIM, "--workload", "w.json", "--label-weight", 3, "--max-model-mb", 5, "--rounds", 4,
        "--max-cells", 500, "--merge", 0.5)  # fmt: skip
    statement = json.loads((folder / "release" / "privacy.json").read_text(encoding="utf-8"))
    expected = {"label_weight": 3, "max_model_mb": 5, "rounds": 4, "max_cells": 500, "merge": 0.5}
    assert expected.items() <= statement["parameters"].items()
    measured = {tuple(step["columns"]) for step in statement["notes"]["rounds"]}
    assert measured <= {("age",), ("sex",), ("disease",), ("age", "disease"), ("sex", "disease")}


@pytest.mark.parametrize("method", METHODS)
def test_dry_run_tells_workload_split_and_size(run: Run, folder: Path, method: str) -> None:
    command = ("generate", "--dataset", "heart", "--method", method, "--eps", 1, "--dry-run")
    plan = json.loads(run(*command, "--json").stdout)
    assert sum(plan["split"].values()) == pytest.approx(plan["mu"] ** 2 / 2)
    assert plan["workload"]
    assert "nothing was spent" in run(*command).stderr
    if method in ("aim", "clique-tree"):
        assert plan["facts"]["candidates"] >= len(plan["workload"])
        assert plan["model_mb"] == 80
    assert list(folder.iterdir()) == []


def test_a_mistake_in_a_knob_is_told_before_anything_is_spent(run: Run, folder: Path) -> None:
    assert "degree (0) must be from 1 to 8" in run(*AIM, "--degree", 0, code=2).stderr
    assert "workload (no.json)" in run(*AIM, "--workload", "no.json", code=2).stderr
    assert not (folder / "release").exists()


def test_an_interrupted_run_says_what_was_spent(
    run: Run,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fits = []

    def interrupt(*args: object, **kwargs: object) -> object:
        fits.append(1)
        if len(fits) == 3:
            raise KeyboardInterrupt
        return fit(*args, **kwargs)

    fit = pgm.fit
    monkeypatch.setattr(pgm, "fit", interrupt)
    monkeypatch.setattr(sys, "argv", ["marginalsyn", *map(str, AIM)])
    from marginalsyn.cli.main import main

    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 130
    assert "nothing was written. The ledger was charged eps=1," in capsys.readouterr().err
    assert not (folder / "release").exists()
    shown = json.loads(run("ledger", "show", "--dataset", "heart", "--json").stdout)
    assert shown["eps"] == pytest.approx(1, rel=1e-6)


HASHED = f"""
import sys
METHODS = {METHODS}
from marginalsyn.cli.main import cli
for method in METHODS:
    options = ["--eps", "1", "--seed", "5", "--out", sys.argv[1] + "-" + method]
    command = ["generate", "--dataset", "heart", "--method", method, *options]
    cli(command, standalone_mode=False)
"""


def test_nothing_depends_on_the_hash_seed(folder: Path) -> None:
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", HASHED, seed],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        )
    first, second = (
        {(f.parent.name[2:], f.name): f.read_bytes() for f in folder.glob(f"{seed}-*/*")}
        for seed in ("1", "2")
    )
    assert first == second
    assert {name for name, file in first if file == "synthetic.csv"} == {*METHODS}
