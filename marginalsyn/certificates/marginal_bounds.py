"""Publishable bounds on marginals: each uses released numbers only and has a stated confidence.

Counts, not shares: divide by the number of rows to read a bound as a normalised l1 error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np


@lru_cache(maxsize=4096)
def noise_l1_bound(sigma: float, cells: int, beta: float) -> float:
    """A value that the l1 norm of Gaussian noise on counts exceeds with chance at most ``beta``.

    Chernoff's bound with the exact moment-generating function of |Z|, the larger of that of
    discrete and that of rounded noise: min over t of
    (cells * log E exp(t|Z|) + log(1/beta)) / t. It holds whatever was fitted to the
    noisy values, so it serves marginals that the model has seen.

    Example:
        >>> noise_l1_bound(10.0, 100, 0.05) > 100 * 10 * math.sqrt(2 / math.pi)
        True
    """
    rates, log_mgf = _absolute_noise(sigma)
    return float(np.min((cells * log_mgf + math.log(1 / beta)) / rates))


@lru_cache(maxsize=256)
def _absolute_noise(sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Some rates t, and log E exp(t|Z|) of Gaussian noise Z in whole numbers at each."""
    from scipy.special import log_ndtr

    reach = np.arange(0, math.ceil(40 * sigma) + 2, dtype=float)
    discrete = -np.square(reach) / (2 * sigma**2)
    discrete[1:] += math.log(2)
    discrete -= _log_sum(discrete.copy())
    # P(|Z| = k) of rounded noise is the normal law's between k - 1/2 and k + 1/2, on both sides.
    beyond = np.append(math.log(0.5), log_ndtr(-(reach + 0.5) / sigma))
    rounded = math.log(2) + beyond[:-1] + np.log(-np.expm1(beyond[1:] - beyond[:-1]))
    rates = np.geomspace(1e-3, 20, 200) / sigma
    laws = (discrete, rounded)
    return rates, np.array([max(_log_sum(law + t * reach) for law in laws) for t in rates])


def _log_sum(logs: np.ndarray) -> float:
    """The logarithm of the sum of what has these logarithms, whose array is used up."""
    top = float(logs.max())
    logs -= top
    return top + math.log(np.exp(logs, out=logs).sum())


def fixed_sign_bound(sigma: float, cells: int, beta: float) -> float:
    """How far noise can lower an l1 distance to a table that is independent of the noise.

    |h - M|_1 = s.(y - M) - s.z for the fixed signs s of h - M, and s.z is sub-Gaussian with
    variance proxy cells * (sigma^2 + 1/4): the quarter is for noise that was rounded.
    """
    return math.sqrt((sigma**2 + 0.25) * 2 * cells * math.log(1 / beta))


@dataclass(frozen=True, kw_only=True)
class Selection:
    """One round of AIM as released: what the exponential mechanism chose among, and what it saw.

    Attributes:
        chosen: The marginal that was chosen and measured.
        weights: Every candidate's weight.
        cells: Every candidate's number of cells.
        gap: The l1 distance of the chosen marginal's noisy answer to the model's at that time.
        moved: How far, in l1, the model has since moved on every candidate.
        sigma: The noise of the measurement.
        eps: Of the exponential mechanism.
        sensitivity: Of its scores.
        candidates: How many there were, where ``cells`` names only some of them.
        step: What the model's answers were rounded to, where that is more than 2^-20.
        judged: The noise that the scores took off, where the measurement got less of it.
    """

    chosen: tuple[str, ...]
    weights: Mapping[tuple[str, ...], float]
    cells: Mapping[tuple[str, ...], int]
    gap: float
    moved: Mapping[tuple[str, ...], float]
    sigma: float
    eps: float
    sensitivity: float
    candidates: int = 0
    step: float = 0.0
    judged: float = 0.0


class Gap(NamedTuple):
    """A measured marginal: the l1 distance of its noisy answer to the model, cells and noise."""

    columns: tuple[str, ...]
    gap: float
    cells: int
    sigma: float


def measured_bound(gap: float, cells: int, sigma: float, beta: float) -> float:
    """Bound on |h - model|_1 for a marginal that was measured, whatever the model was fitted to."""
    return gap + noise_l1_bound(sigma, cells, beta)


def unmeasured_bounds(selection: Selection, beta: float) -> dict[tuple[str, ...], float]:
    """Bounds on |h_q - model_q|_1 for all candidates of one selection (McKenna et al. 2022, thm 3).

    The chosen marginal had nearly the best score, and its noisy answer tells how large that score
    was; each other candidate's error cannot have been much larger. ``beta`` is split evenly
    between the selection and the measurement. The last term moves the bound from the model of
    that round to the present one.
    """
    s, half = selection, beta / 2
    per_cell = math.sqrt(2 / math.pi) * (s.judged or s.sigma)
    best = s.gap + fixed_sign_bound(s.sigma, s.cells[s.chosen], half)
    number = max(s.candidates, len(s.cells))
    slack = 2 * s.sensitivity / s.eps * (math.log(number) + math.log(1 / half))
    # Answers are rounded to 2^-20 before they are compared, and scores to that of the sensitivity.
    most = s.sensitivity * (1 + max(s.cells.values()))
    rounding = 2.0**-18 * (slack + most) + s.step * most
    top = s.weights[s.chosen] * (best - per_cell * s.cells[s.chosen]) + slack + rounding
    return {q: top / s.weights[q] + per_cell * n + s.moved[q] for q, n in s.cells.items()}


def aim_bounds(
    selections: Sequence[Selection], measured: Sequence[Gap], *, beta: float, max_rounds: int
) -> dict[tuple[str, ...], tuple[float, bool]]:
    """Bounds on every marginal's l1 error that hold together with confidence ``1 - beta``.

    A marginal's own measurements and every round in which it was a candidate each bound it; the
    best is kept. Half of ``beta`` is shared by the measurements and half by the rounds, each
    share fixed beforehand by the public ``max_rounds``.

    Returns:
        For each marginal, the bound and whether it came from a measurement of its own.
    """
    found: dict[tuple[str, ...], tuple[float, bool]] = {}

    def keep(q: tuple[str, ...], bound: float, own: bool) -> None:
        if q not in found or bound < found[q][0]:
            found[q] = (bound, own)

    share = beta / (2 * max_rounds)
    for m in measured:
        keep(m.columns, measured_bound(m.gap, m.cells, m.sigma, share), True)
    for selection in selections:
        for q, bound in unmeasured_bounds(selection, share).items():
            keep(q, bound, False)
    return found
