"""Weights fitted to noisy marginals: the penalised maximum-entropy dual, which is convex.

Row i has a weight proportional to exp(theta . x_i), x_i its one-hot cells in every marginal; where
persons are counted it has a mass of its own before, which adds to theta . x_i in what follows. With
answers y of noise sigma and N rows in all, theta is the least of

    N log sum_i exp(theta . x_i) - theta . y + sum(ridge * theta^2) / 2,  ridge = strength * sigma^2

which makes the weighted rows the nearest, in relative entropy from equal weights, for what they
give up in fit: the optimum has y - mu = ridge * theta. Nothing here sees a private row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

# From nearly no weights to nearly the answers themselves; the risk is tried at each, and then
# half-way to the neighbours of the best.
STRENGTHS = tuple(4.0**power for power in range(3, -4, -1))
PROBES = 8
# Up to this many cells the trace is taken from eigenvalues, beyond it from random probes.
MOST_EXACT = 600
NEWTON_STEPS, CG_STEPS = 60, 500
# The gradient's length at the optimum, in units of the noise's.
TOLERANCE = 1e-3


class Cells:
    """The cells of some marginals that every row lies in: one-hot, kept as their positions.

    Example:
        >>> codes = np.array([[0, 1], [2, 1]])
        >>> Cells.of(codes, {"a": 3, "b": 2}, [("a", "b")]).totals(np.ones(2))
        array([0., 1., 0., 0., 0., 1.])
    """

    def __init__(self, index: np.ndarray, cells: int, masses: np.ndarray | None = None) -> None:
        rows, marginals = index.shape
        self.rows, self.cells = rows, cells
        self.base = np.zeros(rows)
        if masses is not None and rows:
            self.base = np.log(masses * (rows / masses.sum()))
        ones = np.ones(index.size)
        starts = np.arange(rows + 1) * marginals
        self._by_row = sparse.csr_array((ones, index.ravel(), starts), shape=(rows, cells))
        self._by_cell = self._by_row.T.tocsr()

    @classmethod
    def of(
        cls,
        codes: np.ndarray,
        domain: Mapping[str, int],
        marginals: Sequence[Sequence[str]],
        masses: np.ndarray | None = None,
    ) -> Cells:
        """The cells of rows of codes, whose columns are those of ``domain`` in order.

        ``masses`` are what rows count before they are weighted, by default all alike.
        """
        places = {name: place for place, name in enumerate(domain)}
        index = np.empty((len(codes), len(marginals)), dtype=np.int64)
        start = 0
        for at, columns in enumerate(marginals):
            shape = tuple(domain[name] for name in columns)
            own = tuple(codes[:, places[name]] for name in columns)
            index[:, at] = start + np.ravel_multi_index(own, shape)
            start += math.prod(shape)
        return cls(index, start, masses)

    def scores(self, theta: np.ndarray) -> np.ndarray:
        """theta . x_i of every row."""
        return self._by_row @ theta

    def totals(self, weights: np.ndarray) -> np.ndarray:
        """The weight in every cell."""
        return self._by_cell @ weights

    @cached_property
    def empty(self) -> np.ndarray:
        """Which cells no row lies in."""
        return np.diff(self._by_cell.indptr) == 0

    def dense(self) -> np.ndarray:
        """The one-hot rows themselves; for a small number of cells."""
        return self._by_row.toarray()


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Noisy counts of all cells, in one row, with their noise and the total that goes with them.

    Attributes:
        counts: the answers.
        sigma: the standard deviation of the noise in each.
        total: N, the number of rows that the weights shall add up to.
        slope: how much N moves with each answer; zeros where it is public.
    """

    counts: np.ndarray
    sigma: np.ndarray
    total: float
    slope: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """The optimum: parameters, centred log-weights, and the weighted rows' counts."""

    theta: np.ndarray
    log_weights: np.ndarray
    shares: np.ndarray
    counts: np.ndarray
    value: float

    @property
    def effective(self) -> float:
        """The number of unweighted rows of the same variance, as a share of all rows."""
        weights = np.exp(self.log_weights)
        squares = float(np.sum(weights**2)) * max(len(weights), 1)
        return float(np.sum(weights)) ** 2 / squares if squares > 0 else 1.0


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The strength with the least estimated risk, None where no weights have less.

    Attributes:
        fitted: at that strength.
        strength: the ridge in units of the noise's variance.
        risk: the estimated squared error of the measured cells, in units of the noise's variance.
        plain: the same without weights.
        freedom: the degrees of freedom at that strength.
        doubt: the standard error of the risk, against that without weights.
    """

    fitted: Fitted
    strength: float | None
    risk: float
    plain: float
    freedom: float
    doubt: float = 0.0

    @classmethod
    def of(
        cls,
        cells: Cells,
        answers: Answers,
        fitted: Fitted,
        strength: float,
        rng: np.random.Generator,
    ) -> Choice:
        """An optimum with its estimated risk."""
        freedom = degrees(cells, answers, fitted, strength, rng)
        flat = unweighted(cells, answers)
        moved = (fitted.counts - flat.fitted.counts) / answers.sigma
        return cls(
            fitted=fitted,
            strength=strength,
            risk=risk(answers, fitted.counts, freedom),
            plain=flat.risk,
            freedom=freedom,
            doubt=2 * float(np.linalg.norm(moved)),
        )


def fit(
    cells: Cells,
    answers: Answers,
    strength: float,
    start: np.ndarray | None = None,
    tolerance: float = TOLERANCE,
) -> Fitted:
    """The optimum at one strength, by Newton's method with conjugate gradients."""
    total, ridge = answers.total, strength * answers.sigma**2
    now = _at(cells, answers, ridge, np.zeros(cells.cells) if start is None else start)
    enough = tolerance * float(np.linalg.norm(answers.sigma))
    for _ in range(NEWTON_STEPS):
        gradient = now.counts - answers.counts + ridge * now.theta
        length = float(np.linalg.norm(gradient))
        if length <= enough:
            break
        curve = _Curve(cells, now, total, ridge)
        # Newton's step need not be exact far from the optimum, nor better than what is asked for.
        step = curve.solve(-gradient[:, None], min(0.1, max(1e-8, enough / length / 3)))[:, 0]
        now = _descend(cells, answers, ridge, now, step, float(gradient @ step))
    return now


def degrees(
    cells: Cells, answers: Answers, fitted: Fitted, strength: float, rng: np.random.Generator
) -> float:
    """The trace of the counts' derivative with respect to the answers.

    ``h / (h + ridge)`` summed over the eigenvalues of the counts' covariance; where the total is
    estimated from the answers it moves the counts, too.
    """
    ridge = strength * answers.sigma**2
    curve = _Curve(cells, fitted, answers.total, ridge)
    mean = fitted.counts / answers.total
    if cells.cells <= MOST_EXACT:
        spread = curve.dense()
        inner = np.linalg.solve(spread + np.diag(ridge), np.column_stack([spread, mean]))
        return float(np.trace(inner[:, :-1]) + answers.slope @ (ridge * inner[:, -1]))
    probes = rng.choice((-1.0, 1.0), size=(cells.cells, PROBES))
    solved = curve.solve(np.column_stack([probes, mean]), 1e-2)
    # z'(H (H+R)^-1) z, averaged; with less variance as z'z - (R z)'(H+R)^-1 z.
    kept = cells.cells - float(np.mean(np.sum(ridge[:, None] * probes * solved[:, :-1], axis=0)))
    return kept + float(answers.slope @ (ridge * solved[:, -1]))


def risk(answers: Answers, counts: np.ndarray, freedom: float) -> float:
    """Stein's unbiased estimate of the squared error of counts, in units of the noise's variance.

    Exact for Gaussian noise of one standard deviation and marginals fixed beforehand.
    """
    misfit = float(np.sum(((counts - answers.counts) / answers.sigma) ** 2))
    return misfit - len(counts) + 2 * freedom


def unweighted(cells: Cells, answers: Answers) -> Choice:
    """No weights, with their estimated risk."""
    flat = _at(cells, answers, np.zeros(cells.cells), np.zeros(cells.cells))
    freedom = float(answers.slope @ flat.counts) / answers.total
    plain = risk(answers, flat.counts, freedom)
    return Choice(fitted=flat, strength=None, risk=plain, plain=plain, freedom=freedom)


def choose(cells: Cells, answers: Answers, rng: np.random.Generator, least: float = 0.0) -> Choice:
    """The strength with the least estimated risk, no weights among them; from answers alone.

    The standard error of each risk is added: the least of several noisy ones is mostly luck.

    Args:
        cells: of the released rows.
        answers: what was bought.
        rng: draws the probes of the degrees of freedom.
        least: the share of effective rows below which weights are not pulled.
    """
    best = unweighted(cells, answers)
    # One draw of probes for all strengths, so that their risks can be compared.
    seed = int(rng.integers(2**63))
    tried: dict[float, Choice] = {}

    def attempt(strength: float) -> Choice:
        near = min(tried, key=lambda other: abs(math.log(other / strength)), default=None)
        start = None if near is None else tried[near].fitted.theta
        found = fit(cells, answers, strength, start)
        probes = np.random.default_rng(seed)
        tried[strength] = Choice.of(cells, answers, found, strength, probes)
        return tried[strength]

    last = math.inf
    for strength in STRENGTHS:
        found = attempt(strength)
        if found.risk > last or found.fitted.effective < least:
            break
        last = found.risk
    middle = _least(tried.values(), least) or tried[STRENGTHS[0]]
    assert middle.strength is not None
    for strength in (2 * middle.strength, middle.strength / 2):
        attempt(strength)
    return _least([best, *tried.values()], least) or best


def _least(found: Iterable[Choice], least: float) -> Choice | None:
    """The one of least risk, its error added, among those that keep enough effective rows."""
    enough = [one for one in found if one.fitted.effective >= least]
    return min(enough, key=lambda one: one.risk + one.doubt, default=None)


def outlook(
    cells: Cells, sigma: np.ndarray, total: float, rng: np.random.Generator
) -> tuple[float, float]:
    """What noise and ridge do at strength 1, before anything is measured.

    Returns:
        The standard deviation of the noise in a log-weight, and the share of the true log ratio
        that is left, both as root or mean over the rows.
    """
    nothing = Answers(
        counts=np.zeros(cells.cells), sigma=sigma, total=total, slope=np.zeros(cells.cells)
    )
    flat = _at(cells, nothing, np.zeros(cells.cells), np.zeros(cells.cells))
    curve = _Curve(cells, flat, total, sigma**2)
    probes = rng.choice((-1.0, 1.0), size=(cells.cells, PROBES))
    solved = curve.solve(np.column_stack([sigma[:, None] * probes, curve.times(probes)]), 1e-2)
    noisy, kept = solved[:, :PROBES], solved[:, PROBES:]
    noise = float(np.mean(np.sum(noisy * curve.times(noisy), axis=0))) / total
    spread = float(np.mean(np.sum(probes * curve.times(probes), axis=0)))
    left = float(np.mean(np.sum(probes * curve.times(kept), axis=0)))
    return math.sqrt(max(noise, 0.0)), min(max(left / spread, 0.0), 1.0) if spread > 0 else 0.0


def unreachable(cells: Cells, answers: Answers) -> tuple[float, float]:
    """The noisy mass in cells without rows, less what noise alone is expected to give, and its sd.

    Summed over max(0, y - 2 sigma), of which noise alone gives .0085 sigma a cell: with thousands
    of empty cells that is no small number, and says nothing about the table.
    """
    sigma = answers.sigma[cells.empty]
    above = np.maximum(0.0, answers.counts[cells.empty] - 2 * sigma)
    return float(above.sum() - MEAN_ABOVE * sigma.sum()), SD_ABOVE * float(np.linalg.norm(sigma))


# Mean and standard deviation of max(0, Z - 2), Z a standard normal number.
_TAIL, _HEIGHT = 0.5 * math.erfc(math.sqrt(2)), math.exp(-2) / math.sqrt(2 * math.pi)
MEAN_ABOVE = _HEIGHT - 2 * _TAIL
SD_ABOVE = math.sqrt(5 * _TAIL - 2 * _HEIGHT - MEAN_ABOVE**2)


class _Curve:
    """The Hessian at a point: the counts' covariance, and the ridge on the diagonal."""

    def __init__(self, cells: Cells, at: Fitted, total: float, ridge: np.ndarray) -> None:
        self._cells, self._at, self._total, self._ridge = cells, at, total, ridge
        variances = at.counts - at.counts**2 / total
        # Of a cell without rows and without ridge nothing is asked.
        self._scale = 1 / np.maximum(variances + ridge, 1e-12)

    def times(self, columns: np.ndarray) -> np.ndarray:
        """The covariance times some columns."""
        scores = self._cells.scores(columns)
        shares = self._at.shares[:, None]
        centred = shares * (scores - (shares * scores).sum(axis=0))
        return self._total * self._cells.totals(centred)

    def dense(self) -> np.ndarray:
        """The covariance itself; for a small number of cells."""
        rows, mean = self._cells.dense(), self._at.counts / self._total
        return self._total * (rows.T @ (rows * self._at.shares[:, None]) - np.outer(mean, mean))

    def solve(self, right: np.ndarray, tolerance: float) -> np.ndarray:
        """(covariance + ridge)^-1 times some columns, by preconditioned conjugate gradients."""
        found, rest = np.zeros_like(right), right.copy()
        smooth = self._scale[:, None] * rest
        step, power = smooth.copy(), np.sum(rest * smooth, axis=0)
        enough = np.maximum(tolerance**2 * power, 1e-300)
        for _ in range(CG_STEPS):
            if (power <= enough).all():
                break
            image = self.times(step) + self._ridge[:, None] * step
            curvature = np.sum(step * image, axis=0)
            size = np.where(power > enough, power / np.maximum(curvature, 1e-300), 0.0)
            found += size * step
            rest -= size * image
            smooth = self._scale[:, None] * rest
            before, power = power, np.sum(rest * smooth, axis=0)
            step = smooth + (power / np.maximum(before, 1e-300)) * step
        return found


def _at(cells: Cells, answers: Answers, ridge: np.ndarray, theta: np.ndarray) -> Fitted:
    """The objective and what follows from it at one point."""
    scores = cells.scores(theta)
    level = float(logsumexp(scores + cells.base)) if len(scores) else 0.0
    shares = np.exp(scores + cells.base - level)
    value = answers.total * level - float(theta @ answers.counts)
    return Fitted(
        theta=theta,
        log_weights=scores - level + math.log(max(cells.rows, 1)),
        shares=shares,
        counts=answers.total * cells.totals(shares),
        value=value + float(ridge @ theta**2) / 2,
    )


def _descend(
    cells: Cells, answers: Answers, ridge: np.ndarray, now: Fitted, step: np.ndarray, slope: float
) -> Fitted:
    """Go along a step until the objective falls enough; stay where it does not."""
    size = 1.0
    rounding = 1e-13 * max(abs(now.value), answers.total)
    while size > 1e-8:
        then = _at(cells, answers, ridge, now.theta + size * step)
        if then.value <= now.value + 1e-4 * size * slope + rounding:
            return then
        size /= 2
    return now
