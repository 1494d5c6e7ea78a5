"""Membership inference: attacks that must succeed where rows are copied, and not elsewhere."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Budget, PrivateTable, evaluate, make_noise
from marginalsyn.contract import make_config, make_weights
from marginalsyn.errors import UsageError
from marginalsyn.evaluation.scores import clopper_pearson
from marginalsyn.host import generate, weigh
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.plugins.reports.membership_report import (
    FALSE_RATE,
    cast_shadows,
    likelihood_ratios,
    most_hits,
    nearness,
    success,
)
from marginalsyn.release.folder import Release
from marginalsyn.table.design import CodedRows
from marginalsyn.weights.columns import publish

SCHEMA = example_schema()
TRAIN, TEST = example_frame(300, 1), example_frame(300, 2)


def make_release(path: Path, eps: float = 1.0, *, weighted: bool = False) -> Release:
    table = PrivateTable.open(TRAIN, SCHEMA)
    config = make_config("independent", {"rows": 200})
    synthesis, statement = generate(table, config, Budget(eps=eps), noise=make_noise(1))
    release = Release.write(synthesis, SCHEMA, statement, path / "release")
    if not weighted:
        return release
    budget = Budget(eps=1)
    found = weigh(release, make_weights("beta-noised"), budget, table, noise=make_noise(2))
    return publish(release, found, noise=make_noise(2))


@pytest.fixture(scope="module")
def weighted(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return make_release(tmp_path_factory.mktemp("weighted"), weighted=True)


def test_guessing_and_knowing() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(2000) < 1000
    guess = success(rng.random(2000), truth)
    assert abs(guess["auc"] - 0.5) < 5 * guess["se"]
    assert guess["hits"]["low"] < FALSE_RATE < guess["hits"]["high"]
    sure = success(truth + 0.0, truth)
    assert (sure["auc"], sure["hits"]["rate"]) == (1.0, 1.0)
    # Equal marks name nobody: the rate of false alarms is kept.
    assert success(np.zeros(2000), truth)["hits"]["rate"] == 0.0
    with pytest.raises(ValueError, match="members and others"):
        success(np.zeros(3), np.ones(3, dtype=bool))


def test_intervals_and_the_promise() -> None:
    assert clopper_pearson(5, 5, 0.025) == (pytest.approx(0.025 ** (1 / 5)), 1.0)
    assert clopper_pearson(0, 5, 0.025) == (0.0, pytest.approx(1 - 0.025 ** (1 / 5)))
    assert most_hits(0.0, 0.0) == pytest.approx(FALSE_RATE)
    assert most_hits(1.0, 0.001) == pytest.approx(math.e * FALSE_RATE + 0.001)
    assert most_hits(6.0, 0.0) == pytest.approx(1 - math.exp(-6) * (1 - FALSE_RATE))
    assert most_hits(1000.0, 0.0) == 1.0


def test_copies_are_found_and_strangers_are_not() -> None:
    train, test = CodedRows.of(TRAIN, SCHEMA), CodedRows.of(TEST, SCHEMA)
    both = CodedRows.of(pd.concat([TRAIN, TEST], ignore_index=True), SCHEMA)
    truth = np.arange(600) < 300
    for mark in nearness(both, train).values():
        assert success(mark, truth)["auc"] > 0.8
    other = CodedRows.of(example_frame(300, 3), SCHEMA)
    for mark in nearness(both, other).values():
        found = success(mark, truth)
        assert abs(found["auc"] - 0.5) < 5 * found["se"]
    # Weights on the copies of some rows expose these.
    weights = np.where(np.arange(300) < 30, 50.0, 0.0)
    density = nearness(train, train.weigh(weights))["density"]
    assert success(density, np.arange(300) < 30)["auc"] > 0.9
    assert len(test) == 300


def test_likelihood_ratios_are_those_of_normal_marks() -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(0, 5, 400)  # rows differ far more than membership moves them
    inside = rng.random((40, 400)) < 0.5
    shadows = centres + 1.5 * inside + rng.standard_normal((40, 400))
    truth = rng.random(400) < 0.5
    marks = centres + 1.5 * truth + rng.standard_normal(400)
    blunt, sharp = success(marks, truth), success(likelihood_ratios(marks, shadows, inside), truth)
    assert abs(blunt["auc"] - 0.5) < 0.2
    # Phi(1.5 / sqrt 2)
    assert sharp["auc"] == pytest.approx(0.855, abs=0.06)


def test_shadows_are_made_like_the_release(weighted: Release) -> None:
    release = weighted
    rows = CodedRows.of(pd.concat([TRAIN, TEST], ignore_index=True), SCHEMA)
    before = {path.name: path.read_bytes() for path in release.path.iterdir()}
    found = list(cast_shadows(release, rows, 2, seed=3))
    assert {path.name: path.read_bytes() for path in release.path.iterdir()} == before
    for inside, shadow in found:
        assert len(shadow.synthetic) == 200
        assert set(shadow.weights) == {"beta-noised"}
        assert 230 < inside.sum() < 370
    assert not np.array_equal(found[0][1].synthetic.codes, found[1][1].synthetic.codes)
    again = list(cast_shadows(release, rows, 2, seed=3))
    assert np.array_equal(again[1][1].synthetic.codes, found[1][1].synthetic.codes)


def test_the_report_with_shadows(weighted: Release) -> None:
    release = weighted
    found = evaluate(release, TEST, train=TRAIN, reports=["membership"], shadow=4)
    block = found.reports["membership"]["release"]
    assert [(a["attack"], a["weights"]) for a in block["attacks"]] == [
        ("closest", None),
        ("density", None),
        ("density", "beta-noised"),
    ]
    assert block["eps"] == release.statement.eps
    assert block["most_hits"] > FALSE_RATE
    assert len(block["shadow"]["attacks"]) == 3
    for attack in block["shadow"]["attacks"]:
        among = attack["shadows"]
        # Two statistics of independent columns do not give single rows of 300 away.
        assert abs(among["auc"] - 0.5) < 6 * among["se"] + 0.02
    frame = found.to_frame()
    assert set(frame["metric"]) == {"auc", "hits"}
    page = found.to_html()
    for words in ("Membership inference", "no attack of any kind", "Among shadows"):
        assert words in page


def test_a_copying_tool_is_exposed() -> None:
    found = evaluate(TRAIN, TEST, SCHEMA, train=TRAIN, reports=["membership"])
    block = found.reports["membership"]["synthetic"]
    assert block["attacks"][0]["auc"] > 0.8
    assert block["eps"] is None
    assert block["shadow"] is None
    assert "no attack of any kind" not in found.to_html()


def test_what_it_needs_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="rows that it did not"):
        evaluate(TRAIN, TEST, SCHEMA, reports=["membership"])
    with pytest.raises(UsageError, match="from 4 to 1000"):
        evaluate(TRAIN, TEST, SCHEMA, train=TRAIN, reports=["membership"], shadow=2)
    release = make_release(tmp_path)
    foreign = release.statement.model_copy(update={"generator": "another tool"})
    strange = Release(release.path, foreign, release.schema)
    with pytest.raises(UsageError, match="cannot be run here"):
        evaluate(strange, TEST, train=TRAIN, reports=["membership"], shadow=4)
