"""What releases of other kinds tell: tables of soft rows are asked, all else says why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from click.testing import Result

from marginalsyn import Release
from marginalsyn.answers.evidence import Evidence
from marginalsyn.graphical.soft_rows import SoftTable

Run = Callable[..., Result]


def test_a_table_of_soft_rows_is_asked(run: Run, people: Path) -> None:
    method = ("--method", "all-marginals", "--fit", "rows", "--soft-rows", 60, "--steps", 200)
    told = (*method, "--eps", 8, "--seed", 1, "-q")
    run("generate", "--data", people, "--schema", "people.json", *told)
    evidence = Evidence.of(Release.read("release"))
    assert isinstance(evidence.fitted, SoftTable)
    asked = ("--model", "ill ~ age", "--share", "ill", "--replicates", 40, "--seed", 0, "--json")
    found = json.loads(run("estimate", "release", *asked).stdout)
    shares = [a for a in found["answers"] if a["question"] == "share ill"]
    frame = Release.read("release").frame()
    for answer in shares:
        value = answer["term"].split(" = ")[1]
        share = (frame["ill"].astype(str).replace({"True": "yes", "False": "no"}) == value).mean()
        assert abs(answer["estimate"] - share) < 0.2
        assert answer["low"] < answer["high"]
    rows = evidence.fitted.sample(20_000, np.random.default_rng(0))
    counts = np.bincount(rows[:, 0], minlength=evidence.domain[next(iter(evidence.domain))])
    expected = evidence.fitted.marginal((next(iter(evidence.domain)),)) / evidence.fitted.total
    assert np.allclose(counts / len(rows), expected, atol=0.02)


def test_what_cannot_be_asked_says_why(run: Run, people: Path) -> None:
    for method, options, why in (
        ("support-points-herding", ("--points", 5, "--rows", 20), "gives out points"),
    ):
        told = ("--method", method, *options, "--eps", 4, "--seed", 1, "-q", "--out", method)
        run("generate", "--data", people, "--schema", "people.json", *told)
        assert why in " ".join(run("estimate", method, "--mean", "age", code=2).output.split())
