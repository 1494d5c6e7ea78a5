"""Answers that were bought with weights: used beside the release's own, the rest is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from letters import SCHEMA, SIZES

from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.regression import Regression
from marginalsyn.answers.replaying import with_measured
from marginalsyn.answers.subgroups import difference_of, table_of
from marginalsyn.contract import Measurement

Make = Callable[..., Any]
Run = Callable[..., Result]


@pytest.mark.parametrize("merged", [False, True])
def test_bought_answers_tell_what_the_release_did_not_measure(
    evidence_of: Make, merged: bool
) -> None:
    law = np.random.default_rng(5).dirichlet(np.full(24, 0.6)).reshape(4, 3, 2)
    question = difference_of("c", "b", SCHEMA)
    truth = law.sum(axis=0)[:, 1] / law.sum(axis=(0, 2))
    merges = {"a": ([0, 1, 2, 2], [1.0, 1.0, 0.4, 0.6])} if merged else None
    held, wide = 0, 0.0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(3000, law.ravel()).reshape(law.shape).astype(float)
        marginals = [(("a", "b"), 20.0), (("a", "c"), 20.0), (("a",), 20.0)]
        alone, _ = evidence_of(
            SIZES, marginals, seed=seed, counts=counts, schema=SCHEMA, merges=merges
        )
        bought = Measurement(
            columns=("a", "b", "c"), values=counts + rng.normal(0, 10.0, counts.shape), sigma=10.0
        )
        joined = with_measured(alone, [bought], [question.columns])
        first = Problem(alone, question, "population", rng)
        second = Problem(joined, question, "population", rng)
        assert first.measured_share.max() < 0.9
        assert second.measured_share.min() > 0.99
        found = second.conclude(0.9, None)
        held += int(
            ((found.low <= truth[1:] - truth[0]) & (truth[1:] - truth[0] <= found.high)).sum()
        )
        wide += float((found.high - found.low).sum())
        again = joined.replay("population", rng)
        assert again.marginals[-1].values.shape == (4, 3, 2)
        assert again.marginals[-1].values.sum() == pytest.approx(3000, abs=250)
    # 60 intervals of 90%: the binomial's deviation is 2.3.
    assert 46 <= held <= 60
    assert wide / 60 < 0.25


def test_weights_are_used_or_named(run: Run, people: Path) -> None:
    run("generate", "--data", people, "--schema", "people.json", "--eps", 3, "--seed", 1, "-q")
    run("weight", "--method", "rake", "--eps", 1, "--seed", 2, "-q")
    run("weight", "--method", "beta-noised", "--eps", 1, "--seed", 3, "-q")
    asked = ("estimate", "release", "--model", "ill ~ age", "--replicates", 0)
    found = json.loads(run(*asked, "--json").stdout)
    said = " ".join(found["warnings"])
    assert "bought for the weights rake are used" in said
    assert "weights beta-noised (beta-noised) are not used" in said
    shown = " ".join(run(*asked).output.split())
    assert "cannot be replayed" in shown


def test_of_persons_rows_count_or_each_person_once(evidence_of: Make) -> None:
    law = np.random.default_rng(1).dirichlet(np.full(24, 2.0)).reshape(4, 3, 2)
    evidence, _ = evidence_of(
        SIZES, [(("a", "b", "c"), 2.0), (("a",), 2.0)], seed=0, counts=law * 50_000, schema=SCHEMA
    )
    rows = law * (np.arange(3) + 0.0)[None, :, None]  # b is the number of a person's rows
    of_rows = replace(evidence, counted="b")
    rng = np.random.default_rng(0)
    for told, cells in ((evidence, law), (of_rows, rows / rows.sum())):
        share = Problem(told, table_of(("a", "c"), SCHEMA, "share"), "population", rng)
        assert np.allclose(share.value, cells.sum(axis=1).ravel(), atol=0.01)
        fit = Problem(told, Regression("c ~ a", SCHEMA), "population", rng)
        flat = np.stack([np.ones(8), np.repeat(np.arange(4), 2)], axis=1)
        weights, label = cells.sum(axis=1).ravel(), np.tile([0.0, 1.0], 4)
        slope = flat.T @ (weights * (label - 1 / (1 + np.exp(-flat @ fit.value))))
        assert np.abs(slope).max() < 0.004
    count = Problem(of_rows, table_of(("c",), SCHEMA, "count"), "population", rng)
    assert np.allclose(count.value * count.size, 50_000 * rows.sum(axis=(0, 1)), rtol=0.02)
    # A person's rows are taken to be alike: of as many rows one by one the error were smaller.
    alone = replace(evidence, counted=None)
    assert (
        Problem(of_rows, table_of(("c",), SCHEMA, "share"), "population", rng).sampling[0]
        > (Problem(alone, table_of(("c",), SCHEMA, "share"), "population", rng).sampling[0])
    )
