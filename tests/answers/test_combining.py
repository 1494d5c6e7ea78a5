"""Tables for any code: each of its own model, combined by the right rule, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

from marginalsyn import MarginalsynError, Release, combine, impute
from marginalsyn.answers.imputations import FITTED, INDEX, Index
from marginalsyn.errors import UsageError

Run = Callable[..., Result]


def folder_of(path: Path, count: int = 20, **told: object) -> list[str]:
    """A folder's index, without the tables."""
    names = [FITTED, *(f"imputation-{i:02d}.csv" for i in range(1, count + 1))]
    index = {
        "target": "population",
        "rows": 5000,
        "private_rows": 1000,
        "tables": [{"file": name, "model": name} for name in names],
        **told,
    }
    path.mkdir(exist_ok=True)
    (path / INDEX).write_text(json.dumps(index))
    return names


def test_the_rule_covers_what_it_says_where_the_bias_comes_twice(tmp_path: Path) -> None:
    names, rng, held = folder_of(tmp_path), np.random.default_rng(0), []
    for _ in range(300):
        # An estimate of 3 with deviation 1 and a bias of 2, which a replay has on top of its own.
        fitted = 3 + 2 + rng.normal()
        tables = fitted + 2 + rng.normal(size=20) + rng.normal(0, 0.4, size=20)
        results = pd.DataFrame(
            {
                "table": names,
                "estimate": [fitted, *tables],
                "variance": 0.16,
            }
        )
        found = combine(results, tmp_path).iloc[0]
        held.append(found["low"] <= 3 <= found["high"])
    # What the bias is counts as an error of its own.
    assert np.mean(held) > 0.97


def test_the_rule_is_that_of_the_paper_and_wider(tmp_path: Path) -> None:
    names = folder_of(tmp_path, count=5)
    estimates = [10.0, 9.0, 11.0, 13.0, 12.0, 10.0]
    results = pd.DataFrame({"Table": names, "estimate": estimates, "se": 0.5, "term": "x"})
    found = combine(results, tmp_path).iloc[0]
    between = 1.2 * np.var(estimates[1:], ddof=1)
    # Half of the bias is taken away, all of it counts as an error, and tables vary a little more.
    assert found["estimate"] == pytest.approx(10 + (10 - 11) / 2)
    assert found["se"] ** 2 == pytest.approx(1.44 * (between - 0.25) + 1)
    assert found["df"] == pytest.approx(4 * (1 - 0.25 / between) ** 2)
    small = combine(results.assign(se=2.0), tmp_path).iloc[0]
    assert small["se"] > 0
    assert "draw more" in small["note"]


def test_what_tables_cannot_vary_in_was_not_measured(tmp_path: Path) -> None:
    names, rng, kinds = folder_of(tmp_path), np.random.default_rng(0), []
    # Sampling alone gives an estimate a variance of 5 times that of a table: 5 times the rows.
    for spread in (0.0, np.sqrt(5 * 0.16)):
        withheld = 0
        for _ in range(200):
            models = 3 + spread * rng.normal(size=21)
            estimates = models + rng.normal(0, 0.4, size=21)
            results = pd.DataFrame({"table": names, "estimate": estimates, "variance": 0.16})
            found = combine(results, tmp_path).iloc[0]
            withheld += int(np.isnan(found["low"]))
            said = "not measured" if np.isnan(found["low"]) else "cannot know"
            assert said in found["note"]
        kinds.append(withheld)
    # By the law of chi-square: .98 and .001 of them.
    assert kinds[0] > 180
    assert kinds[1] < 10


def test_a_release_says_what_it_measured_of_a_term(run: Run, people: Path) -> None:
    Path("pairs.json").write_text('[["age", "ill"], ["ward", "ill"]]')
    made = ("--method", "fixed-marginals", "--marginals", "pairs.json", "--eps", 50, "--seed", 1)
    data = ("--data", people, "--schema", "people.json")
    run("generate", *data, *made, "-q")
    run("sample", "release", "--imputations", 6, "--out", "tables", "--seed", 0)
    rng = np.random.default_rng(0)
    lines = [
        {"table": name, "term": str(about), "estimate": rng.normal(), "se": 0.01, "about": about}
        for name in Index.read(Path("tables")).models
        for about in ("ill ~ age", "age, ward", None)
    ]
    pd.DataFrame(lines).to_csv("results.csv", index=False)
    asked = ("combine", "results.csv", "--tables", "tables", "--json")
    measured, unmeasured, unknown = json.loads(run(*asked, "--release", "release").stdout)
    assert measured["low"] < measured["high"]
    assert "cannot know" not in measured["note"]
    assert "values of age were measured as one" in measured["note"]
    assert unmeasured["low"] is unmeasured["estimate"] is None
    assert "share age x ward is not measured" in unmeasured["note"]
    assert "cannot know" in unknown["note"]
    assert "not measured" in run(*asked[:-1], "--release", "release").stdout
    run("generate", *data, *made[:-1], 2, "--out", "other", "-q")
    assert "their models differ" in run(*asked, "--release", "other", code=2).output


def test_tables_of_one_model_are_refused(tmp_path: Path) -> None:
    names = folder_of(tmp_path / "good", count=5)
    results = pd.DataFrame({"table": names, "estimate": 1.0, "se": 1.0})
    with pytest.raises(UsageError, match="drawn from one model"):
        combine(results, tmp_path)
    same = [{"file": name, "model": "one"} for name in names]
    folder_of(tmp_path / "same", count=5, **{"tables": same})
    with pytest.raises(UsageError, match="two share one"):
        combine(results, tmp_path / "same")
    for wrong, said in (
        (results.iloc[:-1], "one row for each table"),
        (results.replace({FITTED: "other.csv"}), "must be among the tables"),
        (results.drop(columns="se"), "must have the columns"),
        (results.assign(estimate="x"), "finite numbers"),
    ):
        with pytest.raises(UsageError, match=said):
            combine(wrong, tmp_path / "good")


def test_from_a_release_to_an_interval(run: Run, people: Path) -> None:
    run("generate", "--data", people, "--schema", "people.json", "--eps", 5, "--seed", 1, "-q")
    run("sample", "release", "--imputations", 6, "--out", "tables", "--seed", 0)
    index = Index.read(Path("tables"))
    assert len(index.imputations) == 6
    assert index.rows == 5 * index.private_rows
    frames = {name: pd.read_csv(Path("tables") / name) for name in index.models}
    assert all(len(frame) == index.rows for frame in frames.values())
    lines = [
        {"table": name, "estimate": f["age"].mean(), "se": f["age"].std() / len(f) ** 0.5}
        for name, f in frames.items()
    ]
    pd.DataFrame(lines).to_csv("tables/results.csv", index=False)
    found = json.loads(run("combine", "tables/results.csv", "--json").stdout)
    assert found[0]["low"] < found[0]["estimate"] < found[0]["high"]
    assert "df" in run("combine", "tables/results.csv").stdout
    own = Release.read("release").estimate(mean="age").iloc[0]
    assert found[0]["high"] > own["low"]
    assert found[0]["low"] < own["high"]
    assert "must be a folder" in run("sample", "--imputations", 6, code=2).output
    assert "is there already" in run("sample", "--imputations", 6, "--out", "tables", code=2).output
    with pytest.raises(MarginalsynError, match="5 to 1,000"):
        impute(Release.read("release"), "more", tables=2)
    assert not Path("more").exists()
