"""The least loss that a linear model can have, from below by no more than a proven gap.

All is computed as a function of the step d = w - w_s from the given model: f(d) = J(w_s + d) -
J(w_s), of which V is minus the minimum. Differences of single rows' losses keep their relative
precision, so that rounding moves psi(V) by some 1e-16 times the number of rows at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from marginalsyn.certificates.linear_models import Measure, Problem

# A theorem bounds the steps (see :func:`minimise`); this is only there so that no loop is endless.
_MOST_STEPS = 5_000
_ARMIJO, _HALVINGS = 0.1, 60
_ROUNDING, _REFINEMENTS = 1e-12, 3


class Chunk(NamedTuple):
    """Labelled rows: features in steps of 1/1024, labels, and weights, if they have any."""

    integers: np.ndarray
    y: np.ndarray
    masses: np.ndarray | None = None


class Slope(NamedTuple):
    """The value, gradient and Hessian of f."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray


@dataclass(frozen=True)
class Least:
    """The smallest f that was found, how much less there may be at most, and where."""

    value: float
    gap: float
    step: np.ndarray


class Objective:
    """f on a table, for one given model."""

    def __init__(
        self, problem: Problem, chunks: Sequence[Chunk], start: np.ndarray, penalties: np.ndarray
    ) -> None:
        self.problem, self.start, self.penalties = problem, start, penalties
        self._chunks = chunks
        # Margins y x.w_s of logistic losses; residuals y - x.w_s of squared ones.
        self._base = []
        for chunk in chunks:
            at = problem.scale(chunk.integers) @ start
            self._base.append(chunk.y - at if problem.squared else chunk.y * at)

    def value(self, step: np.ndarray) -> float:
        """f, summed without rounding."""
        parts = [self._penalty(step)]
        for chunk, base in zip(self._chunks, self._base, strict=True):
            moved = self.problem.scale(chunk.integers) @ step
            parts.append(math.fsum(self._weighted(chunk, self._losses(chunk, base, moved))))
        return math.fsum(parts)

    def slope(self, step: np.ndarray) -> Slope:
        """f with its first two derivatives."""
        from scipy.special import expit

        parts = [self._penalty(step)]
        gradient = self.penalties * (self.start + step)
        hessian = np.diag(self.penalties)
        for chunk, base in zip(self._chunks, self._base, strict=True):
            x = self.problem.scale(chunk.integers)
            moved = x @ step
            parts.append(math.fsum(self._weighted(chunk, self._losses(chunk, base, moved))))
            if self.problem.squared:
                push, bend = base - moved, np.ones(len(x))
            else:
                chance = expit(-(base + chunk.y * moved))
                push, bend = chunk.y * chance, chance * (1 - chance)
            gradient -= x.T @ self._weighted(chunk, push)
            hessian += (x * self._weighted(chunk, bend)[:, None]).T @ x
        return Slope(math.fsum(parts), gradient, hessian)

    def _penalty(self, step: np.ndarray) -> float:
        return math.fsum(self.penalties * step * (self.start + step / 2))

    def _losses(self, chunk: Chunk, base: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """What each row's loss changes by, to a relative precision of some 1e-16."""
        if self.problem.squared:
            return moved * (moved / 2 - base)
        from scipy.special import expit

        d = chunk.y * moved
        near = np.log1p(expit(-base) * np.expm1(-np.clip(d, -1.0, 1.0)))
        far = np.logaddexp(0.0, -(base + d)) - np.logaddexp(0.0, -base)
        return np.where(np.abs(d) < 1.0, near, far)

    @staticmethod
    def _weighted(chunk: Chunk, values: np.ndarray) -> np.ndarray:
        return values if chunk.masses is None else values * chunk.masses


def least_loss(objective: Objective, measure: Measure, slack: float) -> Least:
    """The least f over the models within the measure's distance, or over all.

    With V the excess and v what was found of it, psi(V) - ``slack`` <= psi(v) <= psi(V). A gap of
    infinity means that rounding stood in the way.
    """
    if not measure.free:
        found = minimise(objective, measure, slack)
        within = measure.within
        if within is None or objective.problem.farthest(found.step) <= within:
            return found
    return _minimise_within(objective, measure, slack)


def minimise(objective: Objective, measure: Measure, slack: float) -> Least:
    """The least f over all models, by Newton's method.

    f exceeds its minimum by at most ||f'||^2 / (2 L). A step of length d is never shortened below
    log(1 + d) / d of it: then f falls by at least 0.38 L for every step longer than 1, and
    converges quadratically afterwards (Sun and Tran-Dinh 2019, for losses with |l'''| <= l'' and
    rows no longer than 1). So the number of steps is bounded on every table.
    """
    step = np.zeros(objective.problem.width)
    here = objective.slope(step)
    least = float(objective.penalties.min())
    for _ in range(_MOST_STEPS):
        gap = float(here.gradient @ here.gradient) / (2 * least)
        if _close(here.value, gap, measure, slack):
            return Least(here.value, gap, step)
        direction = _solve(here.hessian, here.gradient)
        length = float(np.linalg.norm(direction))
        shortest = 1.0 if objective.problem.squared else math.log1p(length) / length
        fall = _ARMIJO * float(here.gradient @ direction)
        t = 1.0
        while t > shortest and objective.value(step + t * direction) > here.value + t * fall:
            t = max(t / 2, shortest)
        step = step + t * direction
        here = objective.slope(step)
    return Least(here.value, math.inf, step)


def _close(value: float, gap: float, measure: Measure, slack: float) -> bool:
    """Whether psi of the excess that was found is as close as it should be; psi is concave."""
    v = max(-value, 0.0)
    return measure.psi(v + gap) - measure.psi(v) <= slack


def _solve(hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Newton's direction; where rounding makes the Hessian singular, that of the gradient."""
    try:
        return np.linalg.solve(hessian, -gradient)
    except np.linalg.LinAlgError:
        return -gradient / max(float(np.trace(hessian)), 1e-300)


def _minimise_within(objective: Objective, measure: Measure, slack: float) -> Least:
    """The least f within the distance r, by Newton's method on f with a logarithmic barrier.

    With the step there are, for each column, bounds u and l of what its part of x.d can be, from
    above and below: the worst rows' predictions are d_0 + sum u <= r and -d_0 + sum l <= r. A step
    that stays within the barrier moves no prediction by more than 2 r, so that with it f is
    self-concordant with a constant of 1 + r: the steps of each round are bounded on every table.
    """
    constraint = DistanceConstraint(objective.problem, measure.within or 0.0)
    z, t, width = constraint.start(), 1.0, objective.problem.width
    here = objective.slope(z[:width])
    for _ in range(_MOST_STEPS):
        slacks = constraint.slacks(z)
        gradient = constraint.matrix.T @ (1 / slacks)
        hessian = (constraint.matrix.T / slacks**2) @ constraint.matrix
        gradient[:width] += t * here.gradient
        hessian[:width, :width] += t * here.hessian
        direction = _solve(hessian, gradient)
        fall = float(gradient @ direction)
        if fall > -1e-3:
            gap = constraint.gap(here.gradient, slacks, t, measure)
            if _close(here.value, gap, measure, slack):
                return Least(here.value, gap, z[:width])
            # On the barrier's central path the gap is len(slacks) / t; what is more is left to
            # further steps, which make it as small as rounding allows.
            if not _close(here.value, 2 * len(slacks) / t, measure, slack):
                t *= 10.0
                continue
        barrier = -float(np.log(slacks).sum())
        before = t * here.value + barrier
        before += _ROUNDING * (abs(t * here.value) + abs(barrier) + len(slacks))
        reach = float(np.max(constraint.matrix @ direction / slacks, initial=0.0))
        length = min(1.0, 0.95 / reach) if reach > 0 else 1.0
        for _ in range(_HALVINGS):
            trial = z + length * direction
            left = constraint.slacks(trial)
            if left.min() > 0:
                new = t * objective.value(trial[:width]) - float(np.log(left).sum())
                if new <= before + _ARMIJO * length * fall:
                    z = trial
                    break
            length /= 2
        else:
            break
        here = objective.slope(z[:width])
    return Least(here.value, math.inf, z[:width])


class DistanceConstraint:
    """The models within a distance r as linear inequalities: slacks = offsets - matrix z >= 0.

    z holds the step d, then u and l of every column. The inequalities: the parts of every end of a
    column from above and from below, and the two sums.
    """

    def __init__(self, problem: Problem, within: float) -> None:
        ends, self.owners = problem.ends
        self.ends, self.width = ends, problem.width
        self.count = int(self.owners.max(initial=-1)) + 1
        constant = 1 / problem.frame.norm
        own = np.zeros((len(ends), self.count))
        own[np.arange(len(ends)), self.owners] = 1.0
        zeros, sums = np.zeros_like(own), np.zeros((2, self.width + 2 * self.count))
        sums[0, self.width - 1], sums[1, self.width - 1] = constant, -constant
        sums[0, self.width : self.width + self.count] = 1.0
        sums[1, self.width + self.count :] = 1.0
        self.matrix = np.vstack(
            [np.hstack([ends, -own, zeros]), np.hstack([-ends, zeros, -own]), sums]
        )
        self.offsets = np.append(np.zeros(2 * len(ends)), [within, within])
        self._constant = constant

    def start(self) -> np.ndarray:
        """No step, and bounds that leave room everywhere."""
        room = self.offsets[-1] / (2 * max(self.count, 1))
        return np.append(np.zeros(self.width), np.full(2 * self.count, room))

    def slacks(self, z: np.ndarray) -> np.ndarray:
        return self.offsets - self.matrix @ z

    def gap(self, gradient: np.ndarray, slacks: np.ndarray, t: float, measure: Measure) -> float:
        """How much less f can be within the constraint, by duality.

        For prices y >= 0 of the inequalities under which u and l have no price of their own, every
        f that keeps them is at least f(d) - y.slacks + rest.(d' - d) + L/2 ||d' - d||^2 with rest
        = f' + matrix'y; a constant that is not penalised must have none of the rest.
        """
        whole = np.append(gradient, np.zeros(2 * self.count))
        prices = 1 / (t * slacks)
        best = self._gap(whole, prices, slacks, measure)
        for _ in range(_REFINEMENTS):
            # Prices whose sum is closer to the gradient, by as little as may be: near a bound,
            # rounding of the slack is most of what they lack.
            root = np.sqrt(prices / slacks)
            lack = whole + self.matrix.T @ prices
            more = np.linalg.lstsq(self.matrix.T * root, -lack, rcond=None)[0]
            prices = np.maximum(prices + root * more, 0.0)
            best = min(best, self._gap(whole, prices, slacks, measure))
        return best

    def _gap(
        self, whole: np.ndarray, prices: np.ndarray, slacks: np.ndarray, measure: Measure
    ) -> float:
        """The gap of given prices, once u and l have none of their own."""
        size, gradient = len(self.ends), whole[: self.width]
        upper, lower = prices[:size].copy(), prices[size : 2 * size].copy()
        above, below = float(prices[-2]), float(prices[-1])
        if measure.free:
            lack = float(gradient[-1]) / self._constant + above - below
            above, below = above + max(-lack, 0.0), below + max(lack, 0.0)
        for side, total in ((upper, above), (lower, below)):
            sums = np.bincount(self.owners, side, self.count)[self.owners]
            side *= np.divide(total, sums, out=np.zeros_like(sums), where=sums > 0)
            if total > 0 and not sums.all():
                return math.inf
        rest = gradient + (upper - lower) @ self.ends
        rest[-1] += (above - below) * self._constant
        if measure.free:
            rest = rest[:-1]
        paid = np.concatenate([upper, lower, [above, below]]) @ slacks
        return float(paid + rest @ rest / (2 * measure.ridge))
