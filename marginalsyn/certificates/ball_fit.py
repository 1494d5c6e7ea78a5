"""Logistic regression inside an l1 ball, with a proven bound on the distance to the optimum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginalsyn.graphical.estimation import project_to_simplex

_STEPS = 60
_INNER = 400


@dataclass(frozen=True)
class BallFit:
    """Coefficients, their mean loss, and how much better any others in the ball can be."""

    w: np.ndarray
    loss: float
    gap: float


def fit_in_ball(
    x: np.ndarray,
    y: np.ndarray,
    radius: float,
    *,
    masses: np.ndarray | None = None,
    tolerance: float = 1e-5,
    start: np.ndarray | None = None,
) -> BallFit:
    """Minimise the mean logistic loss over ||w||_1 <= radius.

    Newton steps whose quadratic models are minimised over the ball by accelerated projected
    gradients. It stops when the Frank-Wolfe gap max_v g.(w - v) = g.w + radius max|g|, which
    bounds what is left to gain since the loss is convex, is within ``tolerance``.

    Args:
        x: features, rows by columns, a constant among them if wanted.
        y: labels, -1 or 1.
        radius: of the ball.
        masses: weights of the rows.
        tolerance: of the gap; what was reached is returned.
        start: where to begin.

    Example:
        >>> fit = fit_in_ball(np.array([[1.0], [1.0]]), np.array([1.0, -1.0]), 1.0)
        >>> round(fit.loss, 6), fit.gap <= 1e-5
        (0.693147, True)
    """
    share = np.full(len(y), 1 / len(y)) if masses is None else masses / masses.sum()
    signed = x * y[:, None]
    w = np.zeros(x.shape[1]) if start is None else project_to_ball(start, radius)
    loss, gradient, chance = _slope(signed, share, w)
    gap = _gap(gradient, w, radius)
    for _ in range(_STEPS):
        if gap <= tolerance:
            break
        hessian = (signed * (share * chance * (1 - chance))[:, None]).T @ signed
        aim = _minimise_model(hessian, gradient, w, radius)
        direction, length = aim - w, 1.0
        while True:
            trial = w + length * direction
            new = _slope(signed, share, trial)
            if new[0] <= loss + 1e-4 * length * float(gradient @ direction) or length < 1e-6:
                break
            length /= 2
        if length < 1e-6:
            break
        w, (loss, gradient, chance) = trial, new
        gap = _gap(gradient, w, radius)
    return BallFit(w, loss, max(gap, 0.0))


def mean_loss(
    x: np.ndarray, y: np.ndarray, w: np.ndarray, masses: np.ndarray | None = None
) -> float:
    """The mean logistic loss of coefficients on rows."""
    losses = np.logaddexp(0.0, -y * (x @ w))
    return float(np.average(losses, weights=masses))


def project_to_ball(v: np.ndarray, radius: float) -> np.ndarray:
    """The nearest point with ||w||_1 <= radius (Duchi et al. 2008)."""
    size = np.abs(v)
    if size.sum() <= radius:
        return v.copy()
    return np.sign(v) * project_to_simplex(size, radius)


def _slope(
    signed: np.ndarray, share: np.ndarray, w: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Loss, gradient, and every row's chance of the other label."""
    from scipy.special import expit

    margins = signed @ w
    chance = expit(-margins)
    return float(share @ np.logaddexp(0.0, -margins)), -signed.T @ (share * chance), chance


def _gap(gradient: np.ndarray, w: np.ndarray, radius: float) -> float:
    return float(gradient @ w + radius * np.abs(gradient).max(initial=0.0))


def _minimise_model(
    hessian: np.ndarray, gradient: np.ndarray, w: np.ndarray, radius: float
) -> np.ndarray:
    """The minimiser over the ball of g.(v - w) + (v - w)'H(v - w) / 2, nearly."""
    top = float(np.linalg.eigvalsh(hessian)[-1])
    step = 1.0 / max(top, 1e-12)
    v, ahead, t = w, w, 1.0
    for _ in range(_INNER):
        new = project_to_ball(ahead - step * (gradient + hessian @ (ahead - w)), radius)
        after = (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead = new + (t - 1) / after * (new - v)
        moved = float(np.abs(new - v).max(initial=0.0))
        v, t = new, after
        if moved < 1e-9:
            break
    return v
