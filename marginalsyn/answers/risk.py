"""The expected excess risk: how much worse a model fitted to a release is on real rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.answers.estimation import Estimates, Problem
from marginalsyn.answers.regression import Fit, Regression

if TYPE_CHECKING:
    from marginalsyn.answers.evidence import Evidence

_DRAWS = 4000


@dataclass(frozen=True)
class Risk(Regression):
    """The excess risk of a regression: its mean log loss (half squared error) above the least."""

    @property
    def title(self) -> str:
        return f"excess risk of {super().title}"

    @property
    def term(self) -> str:
        """What the number is."""
        return f"excess {'log loss' if self.logistic else 'half squared error'}"


def excess(problem: Problem, replay: Evidence) -> float:
    """The excess risk, under the model, of what is fitted to a replay of its release."""
    fit = problem.statistic
    assert isinstance(fit, Fit)
    other = fit.value(problem.atoms.weights(replay))
    return max(0.0, fit.risk(problem.weights, other) - fit.risk(problem.weights, problem.fitted))


def linear_excess(problem: Problem, drawn: Evidence) -> float:
    """The excess risk of coefficients moved by a replay's answers, where nothing is fitted."""
    fit = problem.statistic
    assert isinstance(fit, Fit)
    other = problem.stepped(drawn, problem.fitted, problem.weights)
    return max(0.0, fit.risk(problem.weights, other) - fit.risk(problem.weights, problem.fitted))


def conclude(problem: Problem, confidence: float, replayed: Sequence[float]) -> Estimates:
    """The expected excess risk, and between what it lies, from replays or in the linear form.

    In the linear form the coefficients err by a normal vector of the step's covariance, and the
    excess is half its square in the metric of the loss's curvature.
    """
    fit = problem.statistic
    assert isinstance(fit, Fit)
    curvature = fit.curvature(problem.weights, problem.fitted)
    covariances = problem.covariances()
    parts = [0.5 * float(np.sum(curvature * part)) for part in covariances]
    if replayed:
        drawn = np.array(replayed)
    else:
        rng = np.random.default_rng(0)
        values, vectors = np.linalg.eigh(sum(covariances))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        errors = rng.normal(size=(_DRAWS, len(values))) @ root.T
        drawn = 0.5 * np.einsum("ij,jk,ik->i", errors, curvature, errors)
    tail = (1 - confidence) / 2
    question = problem.question
    assert isinstance(question, Risk)
    if not problem.answered.all():
        drawn = np.array([np.nan])
    return Estimates(
        names=[question.term],
        value=np.array([drawn.mean()]),
        low=np.array([np.quantile(drawn, tail)]),
        high=np.array([np.quantile(drawn, 1 - tail)]),
        fitted=np.array([0.0]),
        sampling=np.array([parts[0]]),
        noise=np.array([parts[1]]),
        rows=np.array([parts[2]]),
        measured_share=np.array([float(problem.measured_share.min())]),
    )
