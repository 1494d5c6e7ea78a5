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
use all terms of a Bernstein polynomial; see :func:`paper_bounds`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from marginalsyn.certificates.certifying import VACUOUS
from marginalsyn.errors import UsageError

_GRID = 4001
# Floating-point noise in evaluating psi and P, far below anything that matters.
_ROUNDING = 1e-12


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
    label_error: float
    product_errors: Mapping[int, float]

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
    return Certificate(bound, radius, best.degree, best.eta, label_error, dict(product_errors))


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
        [
            np.hstack([ones, powers, -powers, -ones]),
            np.hstack([-ones, -powers, powers, -ones]),
        ]
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


@dataclass(frozen=True)
class PaperBounds:
    """The theorems of Zhou et al. 2024 with the constants of their proofs written out."""

    lipschitz: float
    logistic: float

    @property
    def vacuous(self) -> bool:
        return min(self.lipschitz, self.logistic) >= VACUOUS


def paper_bounds(features: int, norm: float, degree: int, error: float) -> PaperBounds:
    """Theorems 3.1 and 3.2: excess <= 4 eta + 2 ||phi|| (1 + 1/R)^k (m max(1, tau))^k nu.

    Here k = degree - 1, R = max(1, tau sqrt(m)), ||phi|| = ln(1 + e^R), and eta is the error of a
    Bernstein polynomial of degree k on [-R, R]: 5R / (2 sqrt(k)) for any 1-Lipschitz loss (3.1),
    R^2 / (8k) for the logistic one (3.2; the interval's length enters squared).

    Args:
        features: m.
        norm: tau, the bound on ||w||_2.
        degree: d, of the marginals that are preserved; 2 or more.
        error: nu, the largest normalised l1 error of a marginal of up to d columns.

    Example:
        >>> paper_bounds(10, 1.0, 4, 0.001).vacuous
        True
    """
    if degree < 2:
        raise UsageError(f"degree ({degree}) must be 2 or more for the theorems")
    k, reach = degree - 1, max(1.0, norm * math.sqrt(features))
    size = reach + math.log1p(math.exp(-reach))
    spread = 2 * size * (1 + 1 / reach) ** k * (features * max(1.0, norm)) ** k * error
    return PaperBounds(
        lipschitz=4 * 2.5 * reach / math.sqrt(k) + spread,
        logistic=4 * reach**2 / (8 * k) + spread,
    )
