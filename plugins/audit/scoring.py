"""Learns to distinguish two tables' runs, and what that proves: lower bounds, with confidence.

An event that has probability p on one table and q on its neighbour contradicts every privacy claim
that does not allow such a pair. p and q are bounded by Clopper-Pearson intervals, so every bound
here holds with the confidence of those intervals.

A part of the runs trains scores (single numbers, and linear combinations of all of them); a part
chooses the score and the threshold for every form of the claim; the rest is counted. So the choice
cannot flatter the count.

A claim is pure, (eps, delta), zCDP, Gaussian or sampled Gaussian. Each of these forms turns the
rates of an event into the smallest eps that a claim *of the same form* could state without being
contradicted. Larger than the stated one means that the claim is broken.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri
from scipy.stats import binom

from marginalsyn.evaluation.scores import clopper_pearson
from marginalsyn.plugins.audit.runs import LIKELIHOOD, Observation, matrix
from marginalsyn.privacy.charges import (
    GDP,
    Charge,
    Neighbours,
    Pure,
    SubsampledGaussian,
    cost_under,
)
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.gdp import eps_of_mu
from marginalsyn.privacy.zcdp import eps_of, halve

# Orders of Renyi divergence; each is a valid bound, so a grid costs tightness only.
_ORDERS = 1.0 + np.exp(np.linspace(-6.0, 9.0, 400))


class Rates(NamedTuple):
    """An event's probability is at least ``often`` on one table, at most ``seldom`` on the other.

    Example:
        >>> round(Rates.of(90, 10, 100, 100, alpha=0.05).often, 4)
        0.8238
    """

    often: float
    seldom: float

    @classmethod
    def of(cls, hits: int, others: int, runs: int, other_runs: int, *, alpha: float) -> Rates:
        """Both bounds hold together with probability at least 1 - alpha."""
        low, _ = clopper_pearson(hits, runs, alpha / 2)
        _, high = clopper_pearson(others, other_runs, alpha / 2)
        return cls(low, high)


def least_eps(rates: Rates, delta: float = 0.0) -> float:
    """The smallest eps of an (eps, delta) guarantee that allows such an event, and its complement.

    Example:
        >>> round(least_eps(Rates(0.8, 0.1)), 4)
        2.0794
    """
    often, seldom = rates
    found = 0.0
    for large, small in ((often, seldom), (1.0 - seldom, 1.0 - often)):
        if large - delta > small:
            found = max(found, math.log((large - delta) / small) if small > 0 else math.inf)
    return found


def least_rho(rates: Rates) -> float:
    """The smallest rho of a zCDP guarantee that allows such an event.

    zCDP bounds the Renyi divergences of all orders, also those of the two coins that the event
    makes of the two laws.

    Example:
        >>> round(least_rho(Rates(0.8, 0.1)), 3)
        1.362
    """
    often, seldom = rates
    if often <= seldom:
        return 0.0
    if seldom <= 0 or often >= 1:
        return math.inf
    found = 0.0
    for p, q in ((often, seldom), (seldom, often)):
        logs = (
            _ORDERS * math.log(p) + (1 - _ORDERS) * math.log(q),
            _ORDERS * math.log1p(-p) + (1 - _ORDERS) * math.log1p(-q),
        )
        divergence = np.logaddexp(*logs) / (_ORDERS - 1)
        found = max(found, float(np.max(divergence / _ORDERS)))
    return found


def least_mu(rates: Rates) -> float:
    """The smallest mu of a mu-Gaussian guarantee (Dong, Roth and Su 2022) that allows the event.

    Example:
        >>> round(least_mu(Rates(0.8413447, 0.5)), 3)
        1.0
    """
    often, seldom = rates
    return float(ndtri(often) - ndtri(seldom)) if often > seldom else 0.0


def gaussian_delta(mu: float, eps: float) -> float:
    """The delta at ``eps`` of a Gaussian mechanism whose sensitivity is mu standard deviations.

    Example:
        >>> round(gaussian_delta(1.0, 0.0), 4)
        0.3829
    """
    if mu <= 0:
        return 0.0
    far = -eps / mu - mu / 2
    return max(0.0, float(ndtr(-eps / mu + mu / 2) - math.exp(eps + float(log_ndtr(far)))))


def gaussian_eps(mu: float, delta: float) -> float:
    """The eps at ``delta`` of a Gaussian mechanism whose sensitivity is mu standard deviations."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    return halve(lambda eps: gaussian_delta(mu, eps) <= delta, 0.0, mu * mu / 2 + 40.0 * mu, 80)[1]


def guess_chance(canaries: int, guesses: int, right: int, eps: float, delta: float) -> float:
    """The chance of so many right guesses under (eps, delta), at most.

    Each of ``canaries`` records was put in or left out by a fair coin, and the side of ``guesses``
    of them is guessed from one run (Steinke, Nasr and Jagielski 2023, Theorem 5.2).

    Example:
        >>> round(guess_chance(100, 10, 10, 0.0, 0.0) * 1024, 6)
        1.0
    """
    q = 1.0 / (1.0 + math.exp(-eps))
    chance = float(binom.sf(right - 1, guesses, q))
    if delta > 0:
        below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, q))
        worst = float(np.max(below / np.arange(1, right + 1))) if right else 0.0
        chance += 2.0 * canaries * delta * worst
    return min(chance, 1.0)


def least_eps_of_guesses(
    canaries: int, guesses: int, right: int, *, delta: float, alpha: float
) -> float:
    """The smallest eps for which so many right guesses are not too unlikely.

    Example:
        >>> least_eps_of_guesses(1000, 100, 50, delta=1e-9, alpha=0.05)
        0.0
    """
    if guesses == 0 or guess_chance(canaries, guesses, right, 0.0, delta) > alpha:
        return 0.0
    unlikely = partial(guess_chance, canaries, guesses, right, delta=delta)
    return halve(lambda eps: unlikely(eps) > alpha, 0.0, 50.0, 60)[0]


_BEYOND = 1.0
"""How far below the stated noise, in logarithms, a bound is looked for: it is broken by then."""


@dataclass(frozen=True)
class Form:
    """One way to contradict a claim; ``least`` gives the smallest eps that is not contradicted.

    ``rank`` orders events like ``least`` where that is not quick.
    """

    name: str
    least: Callable[[Rates], float]
    rank: Callable[[Rates], float] | None = None


def forms_of(
    charges: Sequence[Charge],
    delta: float,
    neighbours: Neighbours,
    payments: Sequence[Mapping[str, Any]] = (),
) -> list[Form]:
    """The forms of a claim, the sharpest last.

    Args:
        charges: what the mechanism says it costs.
        delta: of the statement.
        neighbours: of the statement.
        payments: what was measured; Gaussian noise alone allows the Gaussian form.

    Example:
        >>> charge = Charge(mechanism="laplace", cost=Pure(eps=1.0))
        >>> [form.name for form in forms_of([charge], 1e-9, Neighbours.ADD_REMOVE)]
        ['pure']
    """
    total = compose(charges, delta, neighbours)
    sampled = _sampled(charges)
    if sampled is not None and neighbours is Neighbours.ADD_REMOVE:
        least = partial(least_sampled_eps, steps=sampled, delta=delta)
        return [Form("sampled Gaussian", least, least_mu)]
    if total.rho is None:
        return [Form("(eps, delta)", lambda rates: least_eps(rates, total.delta))]
    if total.delta == 0:
        found = [Form("pure", least_eps)]
        costs = [cost_under(charge, neighbours) for charge in charges]
        if len(costs) == 1 and isinstance(costs[0], Pure) and costs[0].bounded_range:
            # eps-bounded-range is eps^2 / 8 in zCDP.
            found.append(Form("zCDP", lambda rates: math.sqrt(8 * least_rho(rates))))
        return found
    if total.mu is not None and any(isinstance(charge.cost, GDP) for charge in charges):
        # mu-GDP is the whole trade-off: no other form says more.
        return [Form("Gaussian", lambda rates: eps_of_mu(least_mu(rates), delta))]
    found = [Form("zCDP", lambda rates: _eps_of(least_rho(rates), delta))]
    # Steps that use every row are Gaussian, too.
    steps = {c.mechanism for c in charges if isinstance(c.cost, SubsampledGaussian)}
    if payments and all(p.get("mechanism") in {"gaussian", *steps} for p in payments):
        found.append(Form("Gaussian", lambda rates: _eps_of(least_mu(rates) ** 2 / 2, delta)))
    return found


def _eps_of(rho: float, delta: float) -> float:
    return eps_of(rho, delta) if rho < 1e4 else math.inf


def _sampled(charges: Sequence[Charge]) -> SubsampledGaussian | None:
    """The steps of a mechanism that consists of one run of sampled Gaussian steps."""
    if len(charges) == 1:
        cost = charges[0].cost
        if isinstance(cost, SubsampledGaussian) and cost.rate < 1:
            return cost
    return None


def least_sampled_eps(rates: Rates, steps: SubsampledGaussian, delta: float) -> float:
    """The eps of as many steps at the same rate with the most noise that allows the event."""
    if rates.often <= rates.seldom:
        return 0.0

    def allowed(multiplier: float) -> bool:
        eps, deltas = _profile(multiplier, steps.rate, steps.steps)
        gaps = (
            rates.often - np.exp(eps) * rates.seldom,
            (1 - rates.seldom) - np.exp(eps) * (1 - rates.often),
        )
        return bool(np.all(np.maximum(*gaps) <= deltas))

    # log of the multiplier: so little noise that it is allowed, so much that it is not.
    stated = math.log(steps.noise_multiplier)
    low, high = stated - _BEYOND, stated + math.log(100.0)
    if allowed(math.exp(high)):
        return 0.0
    if not allowed(math.exp(low)):
        high = low
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(math.exp(middle)) else (low, middle)
    cost = steps.model_copy(update={"noise_multiplier": math.exp(high)})
    return compose([Charge(mechanism="audit", cost=cost)], delta).eps


@lru_cache(maxsize=512)
def _profile(multiplier: float, rate: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The privacy profile of sampled Gaussian steps on a grid of eps, rounded up."""
    from dp_accounting.pld import privacy_loss_distribution

    loss = privacy_loss_distribution.from_gaussian_mechanism(
        multiplier, sampling_prob=rate, value_discretization_interval=1e-3
    ).self_compose(steps)
    eps = np.linspace(0.0, 8.0, 33)
    return eps, np.asarray(loss.get_delta_for_epsilon(list(eps)))


FEWEST = 8
"""Runs on each table below which nothing is said."""
_TRAIN, _CHOOSE = 0.2, 0.4  # the runs up to these shares train, and choose; the rest is counted
_SINGLES = 12
_RIDGES = (1e-3, 1.0)
_THRESHOLDS = 40

Score = Callable[[np.ndarray], np.ndarray]


class Proof(NamedTuple):
    """The best bound of all forms, and the event that it rests on."""

    eps: float
    form: str
    event: str


def prove_eps(
    base: Sequence[Observation],
    other: Sequence[Observation],
    forms: Sequence[Form],
    *,
    alpha: float,
) -> Proof:
    """The largest eps that runs on two neighbouring tables prove, wrong with chance ``alpha``.

    Args:
        base: runs on one table.
        other: runs on its neighbour.
        forms: of the claim.
        alpha: over all forms together.

    Example:
        >>> from marginalsyn.privacy.charges import Charge, Neighbours, Pure
        >>> rng = np.random.default_rng(0)
        >>> runs = [[{"x": x} for x in rng.laplace(m, 1.0, 4000)] for m in (0, 1)]
        >>> charge = Charge(mechanism="laplace", cost=Pure(eps=1.0))
        >>> found = prove_eps(*runs, forms_of([charge], 1e-9, Neighbours.ADD_REMOVE), alpha=0.01)
        >>> 0.7 < found.eps < 1
        True
    """
    count = min(len(base), len(other))
    best = Proof(0.0, forms[0].name, "too few runs")
    if count < FEWEST:
        return best
    names, (x, y) = matrix([base[:count], other[:count]])
    first, second = int(_TRAIN * count), int(_CHOOSE * count)
    share = alpha / len(forms)
    scores = _scores(names, x[:first], y[:first])
    chosen = {name: (score(x), score(y)) for name, score in scores.items()}
    for form in forms:
        pick = _choose(chosen, first, second, form, share)
        if pick is None:
            continue
        name, edge, swapped = pick
        a, b = chosen[name]
        rates = _rates(a[second:], b[second:], edge, swapped=swapped, alpha=share)
        eps = form.least(rates)
        if eps >= best.eps:
            best = Proof(eps, form.name, f"{name} at least {edge:.6g}")
    return best


def _scores(names: Sequence[str], x: np.ndarray, y: np.ndarray) -> dict[str, Score]:
    """The candidate scores: the likelihood, the numbers that differ most, linear discriminants."""
    spread = np.sqrt((x.var(axis=0) + y.var(axis=0)) / 2)
    distance = np.abs(y.mean(axis=0) - x.mean(axis=0))
    scale = np.where(spread > 0, spread, 1.0)
    effect = distance / np.where(spread > 0, spread, np.where(distance > 0, 1e-12, 1.0))
    found = {}
    for column in np.argsort(-effect, kind="stable")[:_SINGLES]:
        if effect[column] > 0:
            found[names[column]] = _column(int(column))
    if LIKELIHOOD in names:
        found[LIKELIHOOD] = _column(names.index(LIKELIHOOD))
    live = np.flatnonzero((spread > 0) & (np.array(names) != LIKELIHOOD))
    if live.size:
        centre = (x.mean(axis=0) + y.mean(axis=0))[live] / 2
        a, b = ((part[:, live] - centre) / scale[live] for part in (x, y))
        for ridge in _RIDGES:
            weights = _discriminant(a, b, ridge)
            found[f"all numbers, ridge {ridge:g}"] = _linear(live, centre, scale[live], weights)
    return found


def _discriminant(x: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    """Fisher's direction on standardised columns, shrunk towards that of independent ones."""
    gap = y.mean(axis=0) - x.mean(axis=0)
    rows = np.concatenate([x - x.mean(axis=0), y - y.mean(axis=0)]) / np.sqrt(len(x) + len(y))
    if rows.shape[1] <= len(rows):
        return np.linalg.solve(rows.T @ rows + ridge * np.eye(rows.shape[1]), gap)
    # More columns than runs: (R'R + r)^-1 = (1 - R' (R R' + r)^-1 R) / r.
    inner = np.linalg.solve(rows @ rows.T + ridge * np.eye(len(rows)), rows @ gap)
    return (gap - rows.T @ inner) / ridge


def _column(column: int) -> Score:
    return operator.itemgetter((slice(None), column))


def _linear(live: np.ndarray, centre: np.ndarray, scale: np.ndarray, weights: np.ndarray) -> Score:
    return lambda values: ((values[:, live] - centre) / scale) @ weights


def _choose(
    chosen: dict[str, tuple[np.ndarray, np.ndarray]],
    first: int,
    second: int,
    form: Form,
    alpha: float,
) -> tuple[str, float, bool] | None:
    """Pick the score, threshold and order of tables that look best for the part that is counted."""
    best, found = -1.0, None
    for name, (a, b) in chosen.items():
        x, y = np.sort(a[first:second]), np.sort(b[first:second])
        both = np.unique(np.concatenate([x, y]))
        # Between values, so that rounding cannot move a value across.
        edges = (both[1:] + both[:-1]) / 2
        if edges.size > _THRESHOLDS:
            edges = np.quantile(edges, np.linspace(0.005, 0.995, _THRESHOLDS))
        for edge in edges:
            shares = [(np.sum(v >= edge) + 1) / (v.size + 2) for v in (x, y)]
            for swapped in (False, True):
                often, seldom = shares if swapped else shares[::-1]
                if often <= seldom:
                    continue
                counted = len(a) - second
                hits, others = round(often * counted), round(seldom * counted)
                rates = Rates.of(hits, others, counted, counted, alpha=alpha)
                # Where nothing can be proved, the event whose shares differ most.
                worth = (form.rank or form.least)(rates) or (often - seldom) * 1e-9
                if worth > best:
                    best, found = worth, (name, float(edge), swapped)
    return found


def _rates(x: np.ndarray, y: np.ndarray, edge: float, *, swapped: bool, alpha: float) -> Rates:
    """Rates of the event that a score is at least ``edge``, or of its complement.

    The event is thought to be likelier on y, or on x if ``swapped``.
    """
    hits = [int(np.sum(v >= edge)) for v in (x, y)]
    often, seldom = (0, 1) if swapped else (1, 0)
    sizes = (len(x), len(y))
    return Rates.of(hits[often], hits[seldom], sizes[often], sizes[seldom], alpha=alpha)
