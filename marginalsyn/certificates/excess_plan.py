"""What a measured certificate asks of the private rows, with how much noise, and what that bounds.

The excess V = J(w_s) - min J of a given model w_s is a single number, and psi(V) of
:class:`Measure` moves by at most 1 with one person, whatever the number of columns. So it is
measured itself: psi(V) in steps of 1/1024, rounded up, plus discrete Gaussian noise, and from that
an upper and a lower bound of V. Proofs: docs/privacy.md, "The measured certificate".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.certificates.certifying import CONFIDENCE, VACUOUS
from marginalsyn.certificates.least_loss import Chunk, Least, Objective, least_loss
from marginalsyn.certificates.linear_models import Measure, Problem
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.progress import Progress
from marginalsyn.table.design import ABSENT, CodedRows

PURPOSE = "measured certificate"
# psi is released in whole steps of 1/1024.
STEP = 1024
# How far what is computed of psi may be off: half for the fit, half for rounding.
SLACK = 1e-3
# Of rho, for the number of rows where it is private; of the misses, likewise.
ROWS_SHARE, ROWS_MISSES = 0.01, 0.1
# Half a square of 1: what the middle of a number's range costs at most.
_MIDDLE = 0.5
_TOP = 2**52
_BATCH = 2**14


@dataclass(frozen=True)
class Model:
    """A given model and what it is compared with; public.

    Attributes:
        problem: features, label and loss.
        coefficients: of the features over their norm, the constant's last.
        rows: the public number of rows that the strength of the ridge is meant for.
        ridge: for one row, of ``rows``.
        within: how far, at most, the predictions of the models that it is compared with are from
            its own on any row; None for all models.
        free: whether the constant is not penalised.
    """

    problem: Problem
    coefficients: np.ndarray
    rows: int
    ridge: float
    within: float | None
    free: bool

    @property
    def strength(self) -> float:
        """L: the ridge's strength on the sum over the table."""
        return self.ridge * self.rows

    @property
    def penalties(self) -> np.ndarray:
        """L for every coefficient, or for every one but the constant's."""
        found = np.full(self.problem.width, self.strength)
        found[-1] *= not self.free
        return found

    @property
    def measure(self) -> Measure:
        """The scale on which its excess is measured."""
        residual = self.problem.residual(self.coefficients) if self.problem.squared else None
        return Measure(self.strength, self.within, residual, self.free)

    @property
    def unit(self) -> float:
        """What a loss of 1 is in published units: squared errors, or log losses."""
        return 2 * self.problem.half_range**2 if self.problem.squared else 1.0

    @property
    def vacuous(self) -> float:
        """What a bound is no news from: the most that a constant prediction can lose."""
        return self.unit * (_MIDDLE if self.problem.squared else VACUOUS)


@dataclass(frozen=True)
class MeasuredPlan:
    """What is measured and with how much noise; fixed by public things."""

    model: Model
    neighbours: Neighbours
    rho: float

    @property
    def buys_rows(self) -> bool:
        """Whether the number of labelled rows is private."""
        relation, problem = self.neighbours, self.model.problem
        return relation is not Neighbours.REPLACE or not problem.every_row_counts

    @property
    def reach(self) -> int:
        """How much one person moves psi in whole steps."""
        moved = 1 if self.neighbours is Neighbours.ADD_REMOVE else 2
        return math.ceil(STEP * (moved + SLACK))

    @property
    def sigma(self) -> float:
        """The noise of psi, in steps."""
        share = 1 - ROWS_SHARE if self.buys_rows else 1.0
        return gaussian_sigma(self.rho * share, self.reach)

    @property
    def rows_sigma(self) -> float:
        """The noise of the number of labelled rows; 0 where it is public."""
        return gaussian_sigma(self.rho * ROWS_SHARE) if self.buys_rows else 0.0

    def cost(self, budget: Budget) -> Charge:
        """The charge, with all that fixes the noise."""
        details = {
            "sigma": self.sigma,
            "rows_sigma": self.rows_sigma,
            "ridge": self.model.strength,
            "within": self.model.within,
            "features": self.model.problem.width,
        }
        return budget.gaussian_charge(PURPOSE, details)

    def measure(self, visit: Visit, progress: Progress) -> tuple[int, int | None]:
        """Fit, round, add noise: the noisy psi in steps, and the noisy number of rows if bought.

        No table makes this fail: rounding that stands in the way of the fit counts as an excess
        beyond all others, on which nothing is certified.
        """
        progress.report("measure", text="the best model on the real rows")
        problem = self.model.problem
        chunks = [
            labelled(problem, rows.values)
            for rows in visit.batches(size=_BATCH, units=True, absent=ABSENT)
        ]
        steps = np.array([steps_of(excess(self.model, chunks), self.model.measure)])
        noisy = visit.draw(visit.gaussian(self.sigma), steps, l2=self.reach, purpose=PURPOSE)
        if not self.buys_rows:
            return int(noisy[0]), None
        count = np.array([sum(len(chunk.y) for chunk in chunks)])
        law, purpose = visit.gaussian(self.rows_sigma), f"{PURPOSE}: rows"
        rows = visit.draw(law, count, l2=1.0, purpose=purpose)
        return int(noisy[0]), int(rows[0])

    def bounds(self, steps: int, rows: int) -> dict[str, Any]:
        """What a noisy psi and a number of rows, noisy or public, say of the excess for one row.

        P(noise > q) <= 1 - Phi(q / sigma) for rounded Gaussian noise, which is above q from q + 1/2
        on, and for discrete noise: beyond q the sum of its masses is below the integral, and all of
        them are more than sigma sqrt(2 pi).
        """
        misses = 1 - CONFIDENCE
        few = math.ceil(_upper(misses * ROWS_MISSES) * self.rows_sigma) if self.buys_rows else 0
        share = 1 - ROWS_MISSES if self.buys_rows else 1.0
        far = math.ceil(_upper(misses * share) * self.sigma)
        measure, unit = self.model.measure, self.model.unit
        most = measure.inverse(max((steps + far) / STEP + SLACK, 0.0))
        least = measure.inverse(max((steps - far - 1) / STEP - SLACK, 0.0))
        everywhere = math.inf if self.model.free else measure.everywhere(most)

        def share_of(v: float) -> float | None:
            bound = unit * v / (rows - few) if rows > few else math.inf
            return bound if bound < self.model.vacuous else None

        upper, lower = share_of(most), None
        if upper is not None:
            lower = min(unit * least / (rows + few), upper)
        return {
            "rows_least": max(rows - few, 0),
            "upper": upper,
            "lower": lower,
            "upper_over_all": upper if self.model.within is None else share_of(everywhere),
        }

    def expected(self, excess: float) -> dict[str, Any]:
        """The bounds in the median, on a table of the size that the ridge is meant for."""
        v = excess / self.model.unit * self.model.rows
        steps = math.ceil(STEP * self.model.measure.psi(v))
        return self.bounds(steps, self.model.rows)


def excess(model: Model, chunks: list[Chunk]) -> Least:
    """What the least loss on rows is, less that of the model: -V, with a proven gap."""
    objective = Objective(model.problem, chunks, model.coefficients, model.penalties)
    return least_loss(objective, model.measure, SLACK / 2)


def true_excess(model: Model, table: CodedRows) -> float:
    """The exact excess on known rows, for one row and in published units: not private."""
    chunks = [labelled(model.problem, table.units)]
    rows = max(len(chunks[0].y), 1)
    return model.unit * max(-excess(model, chunks).value, 0.0) / rows


def steps_of_rows(model: Model, units: np.ndarray) -> int:
    """The exact answer, before noise, on rows of unit coordinates."""
    return steps_of(excess(model, [labelled(model.problem, units)]), model.measure)


def steps_of(found: Least, measure: Measure) -> int:
    """psi of an excess in whole steps, rounded up."""
    v = max(-found.value, 0.0)
    if not math.isfinite(found.gap) or not math.isfinite(v):
        return _TOP
    return min(math.ceil(STEP * measure.psi(v)), _TOP)


def labelled(problem: Problem, units: np.ndarray) -> Chunk:
    """The rows that have a label."""
    y, has = problem.labels(units)
    return Chunk(problem.integers(units[has]), y[has].astype(float))


def _upper(beta: float) -> float:
    """What a standard normal number exceeds with the chance beta."""
    from scipy.special import ndtri

    return float(-ndtri(beta))
