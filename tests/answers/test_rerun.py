"""Whole replays: the generator runs again on drawn rows; the curator's ledger stays as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from marginalsyn import Release
from marginalsyn.answers.evidence import Evidence
from marginalsyn.answers.replaying import Rerun
from marginalsyn.errors import UsageError

Run = Callable[..., Result]


# Auto judges pairs only where enough rows rise above the noise.
@pytest.mark.parametrize(("method", "eps"), [("mst", 2), ("auto", 6)])
def test_choices_are_made_anew_with_the_release_s_budget(
    run: Run, people: Path, method: str, eps: float
) -> None:
    told = ("--method", method, "--eps", eps, "--seed", 1, "-q")
    run("generate", "--data", people, "--schema", "people.json", *told)
    release = Release.read("release")
    again = Rerun.of(release)
    assert again is not None
    assert again.budget.gaussian == pytest.approx(release.statement.charges[0].cost.rho, rel=1e-12)  # type: ignore[union-attr]
    evidence = Evidence.of(release)
    sigmas = sorted(m.sigma for m in evidence.marginals if len(m.columns) == 1)
    chosen = set()
    for seed in range(6):
        found = again(evidence, "population", np.random.default_rng(seed))
        singles = sorted(m.sigma for m in found.marginals if len(m.columns) == 1)
        assert singles[: len(sigmas)] == pytest.approx(sigmas, rel=1e-9)
        assert abs(found.rows - evidence.rows) < 0.5 * evidence.rows
        chosen.add(frozenset(m.columns for m in found.marginals))
    assert len(chosen) > 1


def test_the_command_says_what_choosing_adds(run: Run, people: Path) -> None:
    told = ("--method", "mst", "--eps", 4, "--seed", 1, "-q")
    run("generate", "--data", people, "--schema", "people.json", *told)
    before = run("ledger", "list").stdout
    asked = ("estimate", "release", "--share", "ill", "--replicates", 20, "--seed", 3, "--json")
    whole = run(*asked, "--whole").stdout
    assert json.loads(whole)["replicates"] == 20
    assert json.loads(run(*asked).stdout)["replicates"] == 0
    assert run("ledger", "list").stdout == before
    asked = ("estimate", "release", "--mean", "age", "--replicates", 0, "--whole")
    assert "must be 20 or more" in run(*asked, code=2).output


def test_what_cannot_run_again_is_told(run: Run, people: Path) -> None:
    told = ("--eps", 2, "--seed", 1, "-q")
    Path("work.json").write_text('[["age", "ill"]]')
    method = ("--method", "aim", "--workload", "work.json", "--rounds", 3)
    run("generate", "--data", people, "--schema", "people.json", *method, *told)
    with pytest.raises(UsageError, match=r"needs the file .*work\.json"):
        Rerun.of(Release.read("release"))
    method = ("--method", "independent", "--out", "plain")
    run("generate", "--data", people, "--schema", "people.json", *method, *told)
    assert Rerun.of(Release.read("plain")) is None
    found = run("estimate", "plain", "--mean", "age", "--replicates", 20, "--whole")
    assert "chose no marginals" in " ".join(found.output.split())


def test_persons_are_drawn_with_all_their_rows(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    often = rng.integers(1, 4, 300)
    lines = [f"{i},{'x' if i % 3 else 'y'}" for i, n in enumerate(often.tolist()) for _ in range(n)]
    Path("visits.csv").write_text("who,ward\n" + "\n".join(lines) + "\n")
    column = {"name": "ward", "kind": "categorical", "categories": ["x", "y"], "other": False}
    Path("visits.json").write_text(json.dumps({"columns": [column]}))
    told = ("--unit", "who", "--max-rows", 3, "--method", "mst", "--eps", 20, "--seed", 1, "-q")
    run("generate", "--data", "visits.csv", "--schema", "visits.json", *told)
    release = Release.read("release")
    again = Rerun.of(release)
    assert again is not None
    evidence = replace(Evidence.of(release), counted=None)
    found = again(evidence, "population", np.random.default_rng(1))
    assert found.rows == pytest.approx(300, abs=20)
    shares = found.shares(("rows_of_person",)), evidence.shares(("rows_of_person",))
    assert np.allclose(*shares, atol=0.15)
