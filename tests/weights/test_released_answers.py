"""Weighted rows against the release's own noisy answers: by hand, and on the screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

from marginalsyn.audit.testkit.generators import example_frame, example_schema
from marginalsyn.budget.budget import Budget
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.noise.noise import make_noise
from marginalsyn.private.door import PrivateTable
from marginalsyn.release.folder import Release
from marginalsyn.table import CodedRows
from marginalsyn.weights import agreement

SCHEMA = example_schema()


def make(folder: Path, eps: float) -> Release:
    table = PrivateTable.open(example_frame(2000), SCHEMA)
    made, statement = generate(
        table, make_config("independent"), Budget(eps=eps), noise=make_noise(1)
    )
    return Release.write(made, SCHEMA, statement, folder / "release")


def test_against_sums_by_hand(tmp_path: Path) -> None:
    release = make(tmp_path, 20)
    assert agreement(release, "w") is None
    rows = len(release.frame())
    frame = pd.DataFrame({"w": np.random.default_rng(0).gamma(2.0, 1.0, rows), "one": 1.0})
    release = release.amend({"weights.csv": frame.to_csv(index=False).encode()})
    told, plain = agreement(release, "w"), agreement(release, "one")
    assert told is not None
    assert plain is not None
    assert plain["weighted"] == pytest.approx(plain["unweighted"])
    codes = CodedRows.of(release.frame(), SCHEMA).codes
    errors = []
    for one in release.measurements():
        (name,) = one.columns
        column = codes[:, SCHEMA.names.index(name)]
        shares = [frame.w[column == k].sum() / frame.w.sum() for k in range(one.values.size)]
        errors.append(np.abs(shares - one.values / rows).sum())
    assert told["answers"] == len(errors) == len(SCHEMA.names)
    assert told["weighted"] == pytest.approx(np.mean(errors))
    # Independent columns were drawn to their answers: what is off is noise and rounding.
    assert told["unweighted"] < told["weighted"]


def test_answers_that_are_noise_say_nothing(tmp_path: Path) -> None:
    release = make(tmp_path, 0.01)
    frame = pd.DataFrame({"w": np.ones(len(release.frame()))})
    release = release.amend({"weights.csv": frame.to_csv(index=False).encode()})
    assert agreement(release, "w") is None


def test_the_summary_begins_with_it(run: Callable[..., Result], folder: Path) -> None:
    run("generate", "--dataset", "heart", "--method", "independent", "--eps", 20, "-q")
    shown = run("weight", "--method", "rake", "--eps", 20).stderr
    lines = [line for line in shown.splitlines() if line.startswith(("l1 error", "column"))]
    assert lines[0].startswith("l1 error")
    assert "marginalsyn evaluate" in shown
