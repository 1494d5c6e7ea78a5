"""Measured trade-off curves: the answers on the worst tables drawn many times, and told apart.

A run's score is the log-likelihood ratio of all its answers, which no other score beats. At a few
thresholds, how often either table's runs reach it gives a point of the trade-off curve, with
Clopper-Pearson bounds; it is held against the curve of the claim at the same false positive rate.
Both are told as the mu of a Gaussian that would have this point (Dong, Roth and Su 2022).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from marginalsyn.plugins.audit.scoring import Rates, least_mu, least_rho
from marginalsyn.plugins.audit.testkit.tape import Asked, Question
from marginalsyn.plugins.audit.worst import Worst
from marginalsyn.privacy.laws import Gaussian
from marginalsyn.privacy.noise import Noise
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.privacy.zcdp import exponential_rho

QUANTILES = (0.2, 0.35, 0.5, 0.65, 0.8)
"""Of the scores: where the curve is measured."""
_SPLITS = tuple((i + 0.5) / 25 for i in range(25))
_GRID = 8.0  # standard deviations of scores
_CELLS = 16  # of one answer that move


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A measured trade-off curve beside the claimed one.

    Attributes:
        claimed: mu of the claim's curve at the threshold that tells the tables apart most often.
        measured: mu of the measured curve there, over ``claimed``.
        bound: the lower confidence bound of that ratio, the largest of all thresholds.
        rho: the least rho that the events allow, over the charged one, with the same confidence.
        draws: on each table.
    """

    claimed: float
    measured: float
    bound: float
    rho: float
    draws: int


def draw_curve(worst: Worst, noise: Noise, draws: int, *, alpha: float = 1e-3) -> Curve:
    """Draw a composition of Gaussian answers and selections so often on both tables.

    Args:
        worst: what is asked of two tables; its claim is in rho.
        noise: draws the answers.
        draws: on each table.
        alpha: the chance that any of the bounds is wrong.

    Example:
        >>> from marginalsyn.plugins.audit.canaries import generator_cases
        >>> from marginalsyn.plugins.audit.worst import worst_of
        >>> from marginalsyn.generators.independent import IndependentConfig
        >>> worst = worst_of(generator_cases(IndependentConfig)[0])
        >>> curve = draw_curve(worst, make_noise(0), 10_000)
        >>> curve.measured <= curve.claimed
        True
    """
    base, other = (scores(worst.asked, side, noise, draws) for side in (0, 1))
    claim = Claimed.of(worst)
    apart, middle, bound, rho = 0.0, (1.0, 0.0), 0.0, 0.0
    share = alpha / len(QUANTILES)
    for edge in np.unique(np.quantile(np.concatenate([base, other]), QUANTILES)):
        hits, others = int(np.sum(other > edge)), int(np.sum(base > edge))
        rates = Rates.of(hits, others, draws, draws, alpha=share)
        allowed = claim.mu(rates.seldom)
        bound = max(bound, least_mu(rates) / allowed if allowed else 0.0)
        rho = max(rho, least_rho(rates) / worst.charged)
        if hits - others > apart:
            apart = hits - others
            point = Rates((hits + 0.5) / (draws + 1), (others + 0.5) / (draws + 1))
            middle = claim.mu(point.seldom), least_mu(point)
    return Curve(
        claimed=middle[0], measured=middle[1] / middle[0], bound=bound, rho=rho, draws=draws
    )


def scores(asked: Asked, side: int, noise: Noise, draws: int) -> np.ndarray:
    """Log-likelihood ratios of as many draws of all answers on one of the tables."""
    total = np.zeros(draws)
    for pair in asked:
        if pair[0].selects:
            total += _selected(pair, side, noise, draws)
        elif isinstance(pair[0].law, Gaussian):
            total += _noised(pair, side, noise, draws)
        else:
            raise ValueError(f"law ({pair[0].law.name}) must be gaussian or select")
    return total


def _noised(pair: tuple[Question, Question], side: int, noise: Noise, draws: int) -> np.ndarray:
    """Of the cells that differ; all others say nothing."""
    first, second = (question.values.ravel() for question in pair)
    sigmas = np.broadcast_to(
        np.asarray(pair[0].law.parameters, dtype=float), pair[0].values.shape
    ).ravel()
    moved = np.flatnonzero(first != second)
    # Where an answer is a long vector, its cells that move most.
    moved = moved[np.argsort(-np.abs((first - second) / sigmas)[moved])][:_CELLS]
    total = np.zeros(draws)
    for cell in moved:
        low, high, sigma = int(first[cell]), int(second[cell]), float(sigmas[cell])
        exact = np.full(draws, (low, high)[side], dtype=np.int64)
        drawn = noise.draw(type(pair[0].law)(sigma), exact) - (low + high) / 2
        total += (high - low) * drawn / sigma**2
    return total


def _selected(pair: tuple[Question, Question], side: int, noise: Noise, draws: int) -> np.ndarray:
    eps, sensitivity = pair[0].law.parameters
    laws = []
    for question in pair:
        logs = eps * question.values / (2 * sensitivity)
        laws.append(logs - np.logaddexp.reduce(logs))
    given = pair[side].values
    picks = [noise.draw(ExponentialMechanism(eps, sensitivity), given) for _ in range(draws)]
    ratios: np.ndarray = (laws[1] - laws[0])[picks]
    return ratios


@dataclass(frozen=True)
class Claimed:
    """The trade-off curve of what was charged, as false and true positive rates.

    Its worst pairs: a Gaussian of what the selections leave of rho, and for each selection of eps
    two outcomes whose log-ratios are t eps and (t - 1) eps, with one t for all of them (Dong,
    Durfee and Rogers 2020); at every point the worst t counts.
    """

    curves: tuple[tuple[np.ndarray, np.ndarray], ...]

    @classmethod
    def of(cls, worst: Worst) -> Claimed:
        """The curve of a claim in rho."""
        each = [one.law.parameters[0] for one, _ in worst.asked if one.selects]
        rho = worst.charged - math.fsum(exponential_rho(eps) for eps in each)
        mu = math.sqrt(max(2 * rho, 0.0))
        if mu < 1e-6 * math.sqrt(2 * worst.charged):
            mu = 0.0
        return cls(tuple(_curve(mu, *_outcomes(each, t)) for t in (_SPLITS if each else (0.5,))))

    def mu(self, seldom: float) -> float:
        """Of the Gaussian that has the claim's point at this false positive rate."""
        often = max(float(np.interp(seldom, *curve)) for curve in self.curves)
        return least_mu(Rates(often, seldom))


def _curve(mu: float, shifts: np.ndarray, laws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """False and true positive rates of thresholds of a Gaussian's and outcomes' log-ratios."""
    from scipy.special import ndtr

    if mu == 0:
        order = np.argsort(-shifts)
        absent, present = (np.append(0.0, np.cumsum(law[order])) for law in laws)
        return absent, present
    far = mu * _GRID + float(np.abs(shifts).max(initial=0.0)) + mu**2 / 2
    edges = np.linspace(far, -far, 2001)[:, None]
    absent, present = (
        (ndtr((shifts + sign * mu**2 / 2 - edges) / mu) * law).sum(axis=1)
        for sign, law in zip((-1, 1), laws, strict=True)
    )
    return absent, present


def _outcomes(each: list[float], t: float) -> tuple[np.ndarray, np.ndarray]:
    """Log-ratios of all outcomes of the selections, and their laws on either table."""
    shifts, laws = [], []
    for hits in itertools.product((True, False), repeat=len(each)):
        ratio, chance = 0.0, 1.0
        for hit, eps in zip(hits, each, strict=True):
            high = math.expm1((1 - t) * eps) / math.expm1(eps)
            ratio += (t if hit else t - 1) * eps
            chance *= high if hit else 1 - high
        shifts.append(ratio)
        laws.append((chance, chance * math.exp(ratio)))
    return np.array(shifts), np.array(laws).T
