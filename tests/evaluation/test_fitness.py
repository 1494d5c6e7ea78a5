"""The words of the verdict follow their rules, and no column of weights is picked by its risk."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Budget, PrivateTable, Schema, evaluate, make_noise
from marginalsyn.contract import make_config
from marginalsyn.evaluation.headline import words
from marginalsyn.evaluation.verdict import (
    CARE,
    FIT,
    FRESH,
    LINEAR,
    RARE,
    SHUFFLED,
    TABLES,
    TREES,
    UNFIT,
    UNJUDGED,
    judge_errors,
    judge_learners,
    judge_tables,
    word_of,
)
from marginalsyn.host import generate
from marginalsyn.plugins.reports.marginal_errors import rare_groups
from marginalsyn.release.folder import Release
from marginalsyn.table.design import CodedRows


@pytest.mark.parametrize(
    ("value", "fresh", "shuffled", "word"),
    [
        (0.05, 0.01, 0.4, FIT),
        (0.14, 0.1, 0.4, FIT),  # as good as a fresh sample
        (0.16, 0.1, 0.4, CARE),
        (0.16, 0.1, 0.155, UNFIT),  # no better than shuffled columns
        (0.12, 0.1, 0.11, FIT),  # nothing to be lost by shuffling
        (0.31, 0.1, 0.4, UNFIT),
        (0.35, 0.3, 0.8, CARE),  # as good as a fresh sample, which is useless
        (0.2, None, None, CARE),
    ],
)
def test_the_rule(value: float, fresh: float | None, shuffled: float | None, word: str) -> None:
    assert word_of(value, fit=0.1, unfit=0.3, fresh=fresh, shuffled=shuffled) == word


def block(risks: dict[str, float], guess: float = 0.7, se: float = 0.001) -> dict[str, Any]:
    """A block of models: excess risks over a real model of risk 0.3, by column of weights."""
    scores = {"risk": {"mean": 0.3}, "log_loss": {"mean": 0.3}, "accuracy": {"mean": 0.8}}
    common = {"model": "logistic", "title": "Logistic regression", "scores": scores}
    results = [{**common, "trained_on": "real", "weights": None, "excess": {}}]
    for name, risk in risks.items():
        excess = {"risk": {"mean": risk, "se": se}}
        kind = "weighted" if name else "synthetic"
        results.append({**common, "trained_on": kind, "weights": name or None, "excess": excess})
    return {"protocol": "held-out", "results": results, "guess": {"logistic": guess}}


def test_models_are_judged_by_what_they_keep_of_the_gain() -> None:
    found = judge_learners(block({"": 0.03, "a": 0.1, "b": 0.3}))
    told = {use.weights: use.word for use in found if use.use == LINEAR}
    assert told == {None: FIT, "a": CARE, "b": UNFIT}
    assert [use.word for use in found if use.use == TREES] == [UNJUDGED]
    (unsure,) = [u for u in judge_learners(block({"": 0.035}, se=0.01)) if u.use == LINEAR]
    assert (unsure.word, unsure.note) == (CARE, "too few test rows to be sure")
    (useless,) = [u for u in judge_learners(block({"": 0.0}, guess=0.2)) if u.use == LINEAR]
    assert useless.word == UNJUDGED


def test_rare_groups_against_brute_force() -> None:
    rng = np.random.default_rng(3)
    schema = Schema.from_domain({"a": 6, "b": 7})
    chances = [0.5, 0.3, 0.1, 0.06, 0.03, 0.01]
    real = pd.DataFrame({"a": rng.choice(6, 900, p=chances), "b": rng.integers(0, 7, 900)})
    made = pd.DataFrame({"a": rng.choice(6, 500, p=chances), "b": rng.integers(0, 7, 500)})
    found = rare_groups(CodedRows.of(real, schema), [(None, CodedRows.of(made, schema))])
    assert found is not None
    total = off = 0.0
    groups = 0
    for q in (["a"], ["b"], ["a", "b"]):
        for values in itertools.product(*(range(schema.domain[name]) for name in q)):
            ours = (real[q] == values).all(axis=1)
            if 10 <= ours.sum() <= 30:
                groups += 1
                total += ours.mean()
                off += abs((made[q] == values).all(axis=1).mean() - ours.mean())
    assert found["groups"] == groups > 5
    assert found["variants"][0]["error"] == pytest.approx(off / total)
    assert 0 < found["fresh"] < 1


def test_shuffled_columns_are_not_fit_for_tables_and_a_fresh_sample_is() -> None:
    rng = np.random.default_rng(5)
    a = rng.integers(0, 4, 6000)
    frame = pd.DataFrame({"a": a, "b": (a + (rng.random(6000) < 0.2)) % 4, "c": a // 2})
    schema = Schema.from_domain({"a": 4, "b": 4, "c": 2})
    train, fresh = frame[:3000], frame[3000:]
    shuffled = fresh.apply(lambda column: rng.permutation(column))
    tables = {"fresh": fresh, "shuffled": shuffled}
    found = evaluate(tables, None, schema, train=train, reports=["marginals"])
    uses = {name: judge_tables(b) for name, b in found.reports["marginals"].items()}
    assert [use.word for use in uses["fresh"] if use.use == TABLES] == [FIT]
    assert [use.word for use in uses["shuffled"] if use.use == TABLES] == [UNFIT]
    told, rows = words(found.fitness())  # type: ignore[misc]
    assert told == ["", TABLES, RARE]
    assert [row[:2] for row in rows] == [["fresh", FIT], ["shuffled", UNFIT]]


def test_no_release_is_fit_for_tables_where_shuffled_columns_do_better() -> None:
    """Columns that are hardly related: errors are small, and those of shuffled columns smaller."""
    rng = np.random.default_rng(6)
    a = rng.integers(0, 4, 9000)
    b = np.where(rng.random(9000) < 0.05, a, rng.integers(0, 4, 9000))
    frame = pd.DataFrame({"a": a, "b": b})
    schema = Schema.from_domain({"a": 4, "b": 4})
    tilted = frame[:4000].assign(a=np.where(rng.random(4000) < 0.03, 0, frame["a"][:4000]))
    tables = {"fresh": frame[4000:8000], "tilted": tilted.assign(b=rng.permutation(tilted["b"]))}
    found = evaluate(tables, None, schema, train=frame[1000:], reports=["marginals"])
    uses = {name: judge_tables(b)[0] for name, b in found.reports["marginals"].items()}
    assert uses["tilted"].value < 0.1
    assert uses["tilted"].value > uses["tilted"].yardsticks[SHUFFLED]
    assert uses["tilted"].word == CARE
    assert "no better than shuffled columns" in uses["tilted"].words()
    assert uses["fresh"].word == FIT
    assert "no better" not in uses["fresh"].words()


@pytest.mark.parametrize(
    ("error", "fresh", "shuffled", "word", "note"),
    [
        (0.05, 0.02, 0.04, CARE, "no better than shuffled columns"),
        (0.05, 0.02, 0.06, FIT, ""),
        (0.05, 0.06, 0.04, FIT, ""),  # other real rows do no better
        (0.16, 0.1, 0.155, UNFIT, "no better than shuffled columns"),
        (0.05, None, None, FIT, ""),
    ],
)
def test_what_shuffled_columns_do_as_well_is_not_fit(
    error: float, fresh: float | None, shuffled: float | None, word: str, note: str
) -> None:
    known = {name: v for name, v in ((FRESH, fresh), (SHUFFLED, shuffled)) if v is not None}
    (use,) = judge_errors(TABLES, {None: error}, "l1", known, (0.1, 0.3))
    assert (use.word, use.note) == (word, note)


def test_columns_that_wasted_the_budget_are_said_first(tmp_path: Path) -> None:
    schema = Schema.model_validate(
        {
            "columns": [
                {"kind": "categorical", "name": "ward", "categories": ["A"], "nullable": True},
                {"kind": "categorical", "name": "sex", "categories": ["f", "m"]},
            ]
        }
    )
    frame = pd.DataFrame({"ward": [None] * 290 + ["A"] * 10, "sex": ["f", "m"] * 150})
    made, statement = generate(
        PrivateTable.open(frame, schema),
        make_config("independent"),
        Budget(eps=20),
        noise=make_noise(1),
    )
    release = Release.write(made, schema, statement, tmp_path / "release")
    found = evaluate(release, None, schema, train=frame, reports=["marginals"])
    worst = found.worst["release"]
    assert next(iter(worst)) == "value for the budget"
    assert "column ward came out 97% missing" in worst["value for the budget"][0]
    assert "column ward came out 97% missing" in found.to_html()
