"""Bounds on how much worse a linear model trained on synthetic rows can be on the real ones.

Logistic regression over W = {||w||_1 <= B} with features |x_j| <= 1 and labels y = +-1. Its loss is
-t/2 + psi(t) at t = y w.x, with psi(t) = ln(2 cosh(t/2)) even, and y^2 = 1. So real and synthetic
rows differ only in E[x_j y], exactly and linearly, and in what psi makes of even moments of the
features. For an even polynomial P = sum a_k t^k with |psi - P| <= eta on [-B, B], a w in W whose
loss on the synthetic rows is within g of the best in W, and w' the best in W on the real rows::

    L(w, real) - L(w', real) <= B A_1 + 4 eta + 2 sum_{k >= 2} |a_k| B^k A_k + g

where A_1 = max_j |E_r x_j y - E_s x_j y|, and A_k is the largest difference of the means of k-fold
products of features. (L(w, r) - L(w', r) = F(w) - F(w') + L(w, s) - L(w', s) with F = L(., r) -
L(., s); the sum over products of k coordinates of w is ||w||_1^k.) It follows Zhou et al. 2024, who
use all terms of a Bernstein polynomial.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from marginalsyn.certificates.certifying import VACUOUS
from marginalsyn.errors import UsageError
from marginalsyn.graphical.estimation import project_to_simplex

_GRID = 4001
# Floating-point noise in evaluating psi and P, far below anything that matters.
_ROUNDING = 1e-12
# Steps of a fit in the ball, and of each of its quadratic models.
_STEPS, _INNER = 60, 400


@dataclass(frozen=True)
class MomentErrors:
    """The largest differences of moments between two tables: with the label, and by order."""

    label: float
    products: Mapping[int, float]


@dataclass(frozen=True)
class Polynomial:
    """An even polynomial near psi on [-radius, radius]: coefficients of t^0, t^2, ... and eta."""

    radius: float
    coefficients: tuple[float, ...]
    eta: float

    @property
    def degree(self) -> int:
        return 2 * (len(self.coefficients) - 1)


@dataclass(frozen=True)
class Certificate:
    """A bound on the excess empirical risk, with its parts.

    ``informative`` is False from ln 2 on, the loss of a model that always predicts one half.
    """

    bound: float
    radius: float
    degree: int
    eta: float

    @property
    def informative(self) -> bool:
        return self.bound < VACUOUS


def bound_excess(
    radius: float, label_error: float, product_errors: Mapping[int, float], *, gap: float = 0.0
) -> Certificate:
    """The best bound that follows from known moment errors.

    Args:
        radius: B, the bound on ||w||_1.
        label_error: A_1, of label-feature products.
        product_errors: A_k of k-fold feature products, for k = 2, or for k = 2, 4, ...
        gap: how far the synthetic loss of w can be from the best in W.

    Example:
        >>> round(bound_excess(1.0, 0.05, {2: 0.05}).bound, 3)
        0.064
    """
    if not (radius > 0 and math.isfinite(radius)):
        raise UsageError(f"radius ({radius}) must be a positive number")
    if not product_errors or set(product_errors) != set(range(2, 2 * len(product_errors) + 1, 2)):
        raise UsageError(f"orders ({sorted(product_errors)}) must be 2, 4, ... without a gap")
    if not all(error >= 0 for error in (label_error, gap, *product_errors.values())):
        raise UsageError("errors of moments (and the gap) must be numbers of zero or more")
    options = [taylor(radius)]
    options += [
        approximate(radius, {k: e for k, e in product_errors.items() if k <= order})
        for order in product_errors
    ]
    best = min(options, key=lambda p: _even_part(p, product_errors))
    bound = radius * label_error + _even_part(best, product_errors) + gap
    return Certificate(bound, radius, best.degree, best.eta)


def taylor(radius: float) -> Polynomial:
    """Degree 2 in closed form: ln cosh u lies between u^2/2 - u^4/12 and u^2/2, at u = t/2."""
    middle = radius**4 / 384
    return Polynomial(radius, (math.log(2) - middle, 0.125), middle + _ROUNDING)


def approximate(radius: float, product_errors: Mapping[int, float]) -> Polynomial:
    """The polynomial that minimises 4 eta + 2 sum |a_k| B^k A_k, by a linear programme.

    The programme sees a grid; the polynomial's ``eta`` is then bounded on the whole interval by
    :func:`uniform_error`.
    """
    from scipy.optimize import linprog

    orders = sorted(product_errors)
    # Chebyshev points of [0, 1]; t = B s keeps the numbers of the programme near 1.
    s = 0.5 - 0.5 * np.cos(np.linspace(0, np.pi, 400))
    powers = np.column_stack([s**k for k in orders])
    target = psi(radius * s)
    ones = np.ones((len(s), 1))
    # Unknowns: a_0, positive and negative parts of a_k B^k, eta.
    rows = np.vstack(
        [np.hstack([ones, powers, -powers, -ones]), np.hstack([-ones, -powers, powers, -ones])]
    )
    prices = np.array([2.0 * product_errors[k] for k in orders])
    # A tiny price keeps both parts from growing together where a moment is known exactly.
    prices = np.maximum(prices, 1e-12)
    found = linprog(
        np.concatenate([[0.0], prices, prices, [4.0]]),
        A_ub=rows,
        b_ub=np.concatenate([target, -target]),
        bounds=[(None, None)] + [(0, None)] * (2 * len(orders) + 1),
        method="highs",
    )
    if found.status != 0:
        return taylor(radius)
    size = len(orders)
    scaled = found.x[1 : 1 + size] - found.x[1 + size : 1 + 2 * size]
    coefficients = (float(found.x[0]), *(scaled / radius ** np.array(orders, dtype=float)))
    return Polynomial(radius, coefficients, uniform_error(radius, coefficients))


def uniform_error(radius: float, coefficients: tuple[float, ...]) -> float:
    """An upper bound of max |psi - P| on [-radius, radius].

    Between two points of a grid a function exceeds the larger of its values there by at most h^2/8
    times its largest second derivative (the slope is Lipschitz); |psi''| <= 1/4.
    """
    t = np.linspace(0.0, radius, _GRID)
    values = np.zeros_like(t)
    for a in reversed(coefficients):
        values = values * t**2 + a
    bend = 0.25 + sum(
        k * (k - 1) * abs(a) * radius ** (k - 2)
        for k, a in zip(range(0, 99, 2), coefficients, strict=False)
        if k
    )
    slack = (radius / (_GRID - 1)) ** 2 / 8 * bend
    return float(np.abs(psi(t) - values).max()) + slack + _ROUNDING


def psi(t: np.ndarray) -> np.ndarray:
    """ln(2 cosh(t/2)), the even part of the logistic loss."""
    return np.logaddexp(t / 2, -t / 2)


def _even_part(polynomial: Polynomial, product_errors: Mapping[int, float]) -> float:
    terms = (
        abs(a) * polynomial.radius**k * product_errors[k]
        for k, a in zip(range(0, 99, 2), polynomial.coefficients, strict=False)
        if k
    )
    return 4 * polynomial.eta + 2 * sum(terms)


# -- logistic regression inside the ball ----------------------------------------------------------


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
    bounds what is left to gain since the loss is convex, is within ``tolerance``. Labels are -1 or
    1, ``masses`` weights of the rows, and ``start`` is where to begin.

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


def mean_loss(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    """The mean logistic loss of coefficients on rows."""
    return float(np.logaddexp(0.0, -y * (x @ w)).mean())


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
