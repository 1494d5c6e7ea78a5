"""Noise on coefficients: what it costs, how it is drawn, and what it does to exp(x'b).

Coefficients are rounded to a public grid, integers are noised, and the sum is multiplied by the
grid's spacing: what is published is a public function of integers. Three laws. K-norm noise, called
gamma for its length, with P(z) proportional to exp(-||z|| / b) and b = D2 / eps, is eps-DP (Hardt
and Talwar 2010; Chaudhuri, Monteleoni and Sarwate 2011). Laplace noise on every coefficient, with
scale D1 / eps, is eps-DP; D1 = sqrt(d) D2 is the sensitivity in l1, for which the one in l2 is no
substitute. Gaussian noise with sigma = D2 / sqrt(2 rho) is rho-zCDP. D2 and D1 are how far one
person moves the d coefficients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.contract import Plan, Target, option
from marginalsyn.errors import UsageError
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, Pure
from marginalsyn.privacy.k_norm import MAX_DIM, KNorm
from marginalsyn.privacy.laws import DiscreteLaplace, Law
from marginalsyn.privacy.zcdp import gaussian_sigma, k_norm_rate
from marginalsyn.progress import Progress
from marginalsyn.weights.logistic import LinearConfig, LinearEstimator, Regression

LawName = Literal["gamma", "laplace", "gaussian"]
LAWS: tuple[LawName, ...] = ("gamma", "laplace", "gaussian")
# Coefficients are rounded to multiples of a power of two near D2 times 2**-GRID_BITS.
GRID_BITS = 20
# Up to here a draw of K-norm noise takes a millisecond; auto looks no further.
EASY_DIM = 20
# Of a grid step: more than floating-point sums add to the error of a number that is rounded to it.
_SUMS = 0.125
_UP = 1 + 2.0**-50
_MOST = float(2**52)


@dataclass(frozen=True, kw_only=True)
class CoefficientNoise:
    """Noise of one law on ``dim`` coefficients that one person moves by at most ``l2``.

    Args:
        law: ``gamma``, ``laplace`` or ``gaussian``.
        dim: the number of coefficients.
        l2: how far one person moves them, in Euclidean norm.
        budget: what may be spent: its pure eps, or its ``gaussian``.

    Example:
        >>> from marginalsyn.privacy.budget import Budget
        >>> noise = CoefficientNoise(law="gamma", dim=3, l2=0.1, budget=Budget.of_rho(0.5))
        >>> round(noise.scale, 4), round(noise.deviation, 4)
        (0.1, 0.2)
    """

    law: LawName
    dim: int
    l2: float
    budget: Budget

    def __post_init__(self) -> None:
        if self.law == "gamma" and self.dim > MAX_DIM:
            raise UsageError(
                f"noise (gamma) must be on at most {MAX_DIM} coefficients, not {self.dim:,}: an "
                "exact draw takes too long; take gaussian, which is quieter there, or laplace"
            )

    @property
    def scale(self) -> float:
        """The b of K-norm noise, the scale of Laplace noise, or sigma."""
        return self._steps * self._grid

    @property
    def deviation(self) -> float:
        """The standard deviation of z'x for a vector x of length 1."""
        factor = {"gamma": math.sqrt(self.dim + 1), "laplace": math.sqrt(2), "gaussian": 1.0}
        return self.scale * factor[self.law]

    def charge(self, purpose: str) -> Charge:
        """What the draw costs."""
        exact = self.law == "gaussian"
        cost = self.budget.gaussian_cost if exact else Pure(eps=self.budget.pure)
        names = {"gamma": "K-norm", "laplace": "discrete Laplace"}
        details = {"scale": self.scale, "l2_sensitivity": self.l2, "coefficients": self.dim}
        name = names.get(self.law, self.budget.gaussian_law)
        return self.budget.charge(name, purpose, cost, details)

    def add(self, visit: Visit, beta: np.ndarray, purpose: str) -> np.ndarray:
        """Pay for noise on the coefficients and add it.

        The coefficients are rounded to a public grid of spacing g, which moves each by at most g/2:
        two neighbouring tables' integers differ by at most l2 / g + sqrt(d) in l2 and
        sqrt(d) l2 / g + d in l1. On these integers the noise is drawn exactly.
        """
        grid = self._grid
        rounded = np.rint(np.clip(beta / grid, -_MOST, _MOST)).astype(np.int64)
        law: Law
        if self.law == "gamma":
            law, sensitivity = KNorm(self._rate), {"l2": self._whole_l2}
        elif self.law == "laplace":
            law, sensitivity = DiscreteLaplace(self._steps), {"l1": self._whole_l1}
        else:
            law, sensitivity = visit.gaussian(self._steps), {"l2": self._whole_l2}
        noisy = visit.draw(law, rounded, purpose=purpose, **sensitivity)
        return noisy * grid

    def log_moment(self, x: np.ndarray) -> np.ndarray:
        """log E exp(z'x) for each row of ``x``; infinite where the mean does not exist.

        That of noise on real numbers. On the grid the mean is off by a share of
        2 d (a / 2 pi)^(d + 1), with a the rate in grid steps (below 1e-9 up to eps 50), and the
        rounding of the coefficients moves a log by at most ||x||_1 g / 2.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.law == "gaussian":
                return self.scale**2 * np.sum(x * x, axis=1) / 2
            if self.law == "laplace":
                inside = np.maximum(1.0 - (self.scale * x) ** 2, 0.0)
                return -np.sum(np.log(inside), axis=1)
            inside = np.maximum(1.0 - self.scale**2 * np.sum(x * x, axis=1), 0.0)
            return -(self.dim + 1) / 2 * np.log(inside)

    @property
    def _grid(self) -> float:
        return math.ldexp(1.0, math.frexp(self.l2)[1] - GRID_BITS)

    @property
    def _whole_l2(self) -> float:
        """How far one person moves the integers, in Euclidean norm, rounded up."""
        return (self.l2 / self._grid + math.sqrt(self.dim) * (1 + _SUMS)) * _UP

    @property
    def _whole_l1(self) -> float:
        return (math.sqrt(self.dim) * self.l2 / self._grid + self.dim * (1 + _SUMS)) * _UP

    @property
    def _rate(self) -> float:
        """The rate of K-norm noise on the integers."""
        return k_norm_rate(self.budget.pure, self._whole_l2)

    @property
    def _steps(self) -> float:
        """The scale in grid steps."""
        if self.law == "gamma":
            return 1 / self._rate
        if self.law == "laplace":
            # One unit in the last place up, since the visit rounds the price up.
            return math.nextafter(self._whole_l1 / self.budget.pure, math.inf)
        return gaussian_sigma(self.budget.gaussian, self._whole_l2)


def quietest(dim: int, l2: float, budget: Budget) -> LawName:
    """The law with the smallest standard deviation at what may be spent, of those drawn fast."""
    laws = [law for law in LAWS if law != "gamma" or dim <= EASY_DIM]
    sizes = {
        law: CoefficientNoise(law=law, dim=dim, l2=l2, budget=budget).deviation for law in laws
    }
    return min(laws, key=lambda law: sizes[law])


@dataclass(frozen=True, kw_only=True)
class NoisyCoefficients(LinearConfig):
    """The knobs of a regression whose coefficients are noised."""

    noise: Literal["auto", "gamma", "laplace", "gaussian"] = option(
        "auto",
        "The noise on the coefficients: gamma (K-norm noise, for at most 40 coefficients) and "
        "laplace give a pure guarantee, gaussian gives GDP; auto takes the smallest noise (gamma "
        "for at most 20 coefficients).",
    )

    def set_up(self, target: Target, budget: Budget) -> tuple[Regression, CoefficientNoise]:
        """The regression, its penalty chosen for the noise, and the noise."""

        def deviation(regression: Regression) -> float:
            return self._noise(regression, budget).deviation * regression.spread

        regression = self.regression(target, budget.neighbours, deviation)
        return regression, self._noise(regression, budget)

    def _noise(self, regression: Regression, budget: Budget) -> CoefficientNoise:
        dim, l2 = regression.features.width, regression.l2
        law = quietest(dim, l2, budget) if self.noise == "auto" else self.noise
        return CoefficientNoise(law=law, dim=dim, l2=l2, budget=budget)


@dataclass(frozen=True, kw_only=True)
class NoisyRegression(LinearEstimator):
    """Calibrated: one draw of noise on all coefficients."""

    noise: CoefficientNoise
    purpose = "coefficients of real against synthetic"

    @property
    def cost(self) -> tuple[Charge, ...]:
        return (self.noise.charge(self.purpose),)

    @property
    def plan(self) -> Plan:
        return replace(super().plan, noise=self.noise.deviation * self.regression.spread)

    @property
    def facts(self) -> dict[str, Any]:
        return {**super().facts, "noise": self.noise.law, "noise_scale": self.noise.scale}

    def solve(self, rows: Any, progress: Progress) -> tuple[np.ndarray, dict[str, Any]]:
        exact, diagnostics = super().solve(rows, progress)
        progress.report("noise", text=self.noise.law)
        return self.noise.add(rows, exact, self.purpose), diagnostics
