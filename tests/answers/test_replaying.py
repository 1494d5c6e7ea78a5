"""Replays: the linear form takes over where it agrees with fits, and says what they would say."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from letters import PAIRS, SCHEMA, SIZES

from marginalsyn.answers import replaying
from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.regression import Regression, Risk
from marginalsyn.answers.replaying import replay

Make = Callable[..., Any]


def problems_of(evidence_of: Make, spread: float = 3.0, rows: int = 4000) -> tuple[Any, list[Any]]:
    counts = np.random.default_rng(2).dirichlet(np.full(24, spread)) * rows
    evidence, _ = evidence_of(
        SIZES, PAIRS, seed=1, counts=np.rint(counts).reshape(4, 3, 2), schema=SCHEMA
    )
    rng = np.random.default_rng(3)
    questions = [Regression("c ~ a + b", SCHEMA), Risk("c ~ a + b", SCHEMA)]
    return evidence, [Problem(evidence, q, "population", rng) for q in questions]


def test_the_linear_form_takes_over_and_says_what_the_full_bootstrap_says(
    evidence_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence, problems = problems_of(evidence_of)
    fits: list[bool] = []
    monkeypatch.setattr(
        type(evidence),
        "refitted",
        _counted(type(evidence).refitted, fits),
    )
    full = replay(
        evidence, problems, "population", 80, np.random.default_rng(4), refit=True, jobs=1
    )
    assert fits == [False] * 80
    fits.clear()
    quick = replay(evidence, problems, "population", 150, np.random.default_rng(5))
    assert fits in [[True] * number for number, _ in replaying.PILOTS]
    coefficients, risk = zip(full, quick, strict=True)
    # 80 draws: a mean is known to .11 of a standard deviation, and that to 8%.
    assert np.all(np.abs(coefficients[0].mean(axis=0) - coefficients[1].mean(axis=0)) < 0.4)
    assert np.all(np.abs(coefficients[0].std(axis=0) / coefficients[1].std(axis=0) - 1) < 0.25)
    assert risk[0].mean() == pytest.approx(risk[1].mean(), rel=0.35)


def _counted(original: Callable[..., Any], fits: list[bool]) -> Callable[..., Any]:
    def refitted(self: Any, *, warm: bool = False) -> Any:
        fits.append(warm)
        return original(self, warm=warm)

    return refitted


def test_every_replay_is_fitted_where_the_linear_form_differs(
    evidence_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence, (problem, _) = problems_of(evidence_of, spread=0.2, rows=60)
    fits: list[bool] = []
    monkeypatch.setattr(type(evidence), "refitted", _counted(type(evidence).refitted, fits))
    (found,) = replay(evidence, [problem], "population", 40, np.random.default_rng(6))
    assert found is not None
    assert len(found) == len(fits) == 40


def test_what_is_asked_at_the_same_time_changes_no_interval(
    evidence_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question whose replays differ from the linear form kept all others from it."""
    evidence, (problem, risk) = problems_of(evidence_of)
    (alone,) = replay(evidence, [problem], "population", 40, np.random.default_rng(7))
    original = replaying._agree
    number = len(problem.value)
    monkeypatch.setattr(
        replaying,
        "_agree",
        lambda low, high, most: low.shape[1] == number and original(low, high, most),
    )
    asked = replay(evidence, [problem, risk], "population", 40, np.random.default_rng(7))
    assert alone is not None
    assert np.array_equal(alone, asked[0])


def test_few_replays_say_how_little_they_know(evidence_of: Make) -> None:
    """By the normal law 20 replays would hold .93."""
    _, (problem, _) = problems_of(evidence_of)
    rng, held = np.random.default_rng(8), []
    for _ in range(2000):
        drawn = rng.normal(size=(20, len(problem.value)))
        found = problem.conclude(0.95, drawn)
        error = rng.normal(size=len(problem.value)) * problem.error
        held.append((found.low <= problem.value - error) & (problem.value - error <= found.high))
    assert 0.94 < np.mean(held) < 0.96


def test_a_model_survives_the_way_to_another_process(evidence_of: Make) -> None:
    evidence, _ = problems_of(evidence_of)
    there = pickle.loads(pickle.dumps(evidence))
    assert np.allclose(there.shares(("a", "c")), evidence.shares(("a", "c")), atol=1e-12)
    assert there.fitted.shrinkage == evidence.fitted.shrinkage


@pytest.mark.slow
def test_processes_change_nothing(evidence_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    evidence, problems = problems_of(evidence_of)
    here = replay(evidence, problems, "population", 30, np.random.default_rng(7))
    monkeypatch.setattr(replaying, "_PATIENCE", 0.0)
    there = replay(evidence, problems, "population", 30, np.random.default_rng(7), jobs=2)
    for mine, theirs in zip(here, there, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-6)
