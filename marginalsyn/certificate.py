"""Bounds that may be printed: each holds with the stated confidence and uses released numbers only.

Counts, not shares: divide by the number of rows to read a bound as a normalised l1 error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


def noise_l1_bound(sigma: float, cells: int, beta: float) -> float:
    """A value that the l1 norm of discrete Gaussian noise exceeds with chance at most ``beta``.

    Chernoff's bound with the exact moment-generating function of |Z|:
    min over t of (cells * log E exp(t|Z|) + log(1/beta)) / t. It holds whatever was fitted to the
    noisy values, so it serves marginals that the model has seen.

    Example:
        >>> noise_l1_bound(10.0, 100, 0.05) > 100 * 10 * math.sqrt(2 / math.pi)
        True
    """
    reach = np.arange(0, math.ceil(40 * sigma) + 2, dtype=float)
    log_mass = -np.square(reach) / (2 * sigma**2)
    log_mass[1:] += math.log(2)
    log_mass -= _logsumexp(log_mass)
    rates = np.geomspace(1e-3, 20, 200) / sigma
    log_mgf = np.array([_logsumexp(log_mass + t * reach) for t in rates])
    return float(np.min((cells * log_mgf + math.log(1 / beta)) / rates))


def fixed_sign_bound(sigma: float, cells: int, beta: float) -> float:
    """How far noise can lower an l1 distance to a table that is independent of the noise.

    |h - M|_1 = s.(y - M) - s.z for the fixed signs s of h - M, and s.z is sub-Gaussian with
    variance proxy cells * sigma^2.
    """
    return sigma * math.sqrt(2 * cells * math.log(1 / beta))


@dataclass(frozen=True, kw_only=True)
class Selection:
    """One round of AIM as released: what the exponential mechanism chose among, and what it saw."""

    chosen: tuple[str, ...]
    weights: Mapping[tuple[str, ...], float]
    answers: Mapping[tuple[str, ...], np.ndarray]
    noisy: np.ndarray
    sigma: float
    eps: float
    sensitivity: float


def measured_bound(noisy: np.ndarray, model: np.ndarray, sigma: float, beta: float) -> float:
    """Bound on |h - model|_1 for a marginal that was measured, whatever the model was fitted to."""
    gap = float(np.abs(np.asarray(noisy, float) - model).sum())
    return gap + noise_l1_bound(sigma, np.size(model), beta)


def unmeasured_bounds(
    selection: Selection, model: Mapping[tuple[str, ...], np.ndarray], beta: float
) -> dict[tuple[str, ...], float]:
    """Bounds on |h_q - model_q|_1 for all candidates of one selection (McKenna et al. 2022, thm 3).

    The chosen marginal had nearly the best score, and its noisy answer tells how large that score
    was; each other candidate's error cannot have been much larger. ``beta`` is split evenly
    between the selection and the measurement. The last term moves the bound from the model of
    that round to the given one.
    """
    s, half = selection, beta / 2
    n = {q: np.size(a) for q, a in s.answers.items()}
    per_cell = math.sqrt(2 / math.pi) * s.sigma
    gap = float(np.abs(np.asarray(s.noisy, float) - s.answers[s.chosen]).sum())
    best = gap + fixed_sign_bound(s.sigma, n[s.chosen], half)
    slack = 2 * s.sensitivity / s.eps * (math.log(len(s.answers)) + math.log(1 / half))
    top = s.weights[s.chosen] * (best - per_cell * n[s.chosen]) + slack
    return {
        q: top / s.weights[q] + per_cell * n[q] + float(np.abs(model[q] - answer).sum())
        for q, answer in s.answers.items()
        if q in model
    }


def aim_bounds(
    selections: Sequence[Selection],
    measured: Sequence[tuple[tuple[str, ...], np.ndarray, float]],
    model: Mapping[tuple[str, ...], np.ndarray],
    *,
    beta: float,
    max_rounds: int,
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
    for columns, noisy, sigma in measured:
        if columns in model:
            keep(columns, measured_bound(noisy, model[columns], sigma, share), True)
    for selection in selections:
        for q, bound in unmeasured_bounds(selection, model, share).items():
            keep(q, bound, False)
    return found


def _logsumexp(x: np.ndarray) -> float:
    """log(sum(exp(x)))."""
    top = float(x.max())
    return top + math.log(float(np.exp(x - top).sum()))
