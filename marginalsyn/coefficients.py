"""Noise on coefficients: what it costs, how it is drawn, and what it does to exp(x'b).

Three laws. Gamma-norm, with density proportional to exp(-||z|| / b) and b = D2 / eps, is eps-DP
(Chaudhuri, Monteleoni and Sarwate 2011). Laplace noise on every coefficient, with scale D1 / eps,
is eps-DP; D1 = sqrt(d) D2 is the sensitivity in l1, for which the one in l2 is no substitute.
Gaussian noise with sigma = D2 / sqrt(2 rho) is rho-zCDP. D2 and D1 are how far one person moves the
d coefficients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from marginalsyn.budget import ZCDP, Charge, Pure, gaussian_sigma

if TYPE_CHECKING:
    from marginalsyn.visit import Visit
    from marginalsyn.weights import Allowance

LawName = Literal["gamma", "laplace", "gaussian"]
LAWS: tuple[LawName, ...] = ("gamma", "laplace", "gaussian")
# Coefficients are rounded to multiples of a power of two near D2 times 2**-GRID_BITS.
GRID_BITS = 20
_MOST = float(2**52)


@dataclass(frozen=True, kw_only=True)
class CoefficientNoise:
    """Noise of one law on ``dim`` coefficients that one person moves by at most ``l2``.

    Args:
        law: ``gamma``, ``laplace`` or ``gaussian``.
        dim: the number of coefficients.
        l2: how far one person moves them, in Euclidean norm.
        allowance: what may be spent: its pure eps, or its rho for Gaussian noise.

    Example:
        >>> from marginalsyn.weights import Allowance
        >>> noise = CoefficientNoise(law="gamma", dim=3, l2=0.1, allowance=Allowance.of_rho(0.5))
        >>> noise.scale, noise.deviation
        (0.1, 0.2)
    """

    law: LawName
    dim: int
    l2: float
    allowance: Allowance

    @property
    def scale(self) -> float:
        """The b of gamma-norm noise, the scale of Laplace noise, or sigma."""
        if self.law == "gamma":
            return self.l2 / self.allowance.pure
        return self._steps * self._grid

    @property
    def deviation(self) -> float:
        """The standard deviation of z'x for a vector x of length 1."""
        factor = {"gamma": math.sqrt(self.dim + 1), "laplace": math.sqrt(2), "gaussian": 1.0}
        return self.scale * factor[self.law]

    def charge(self, purpose: str) -> Charge:
        """What the draw costs."""
        zcdp = self.law == "gaussian"
        cost = ZCDP(rho=self.allowance.rho) if zcdp else Pure(eps=self.allowance.pure)
        names = {"gamma": "gamma-norm", "laplace": "discrete Laplace"}
        return Charge(
            mechanism=names.get(self.law, "discrete Gaussian"),
            purpose=purpose,
            neighbours=self.allowance.neighbours,
            cost=cost,
            details={"scale": self.scale, "l2_sensitivity": self.l2, "coefficients": self.dim},
        )

    def add(self, visit: Visit, beta: np.ndarray, purpose: str) -> np.ndarray:
        """Pay for noise on the coefficients and add it.

        Laplace and Gaussian noise are drawn exactly, on coefficients rounded to a public grid of
        spacing g: rounding moves each by at most g/2, so two neighbouring tables' integers differ
        by at most l2 / g + sqrt(d) in l2 and sqrt(d) l2 / g + d in l1. Gamma-norm noise is drawn
        in floating point.
        """
        if self.law == "gamma":
            visit.pay("gamma-norm", eps=self.allowance.pure, purpose=purpose, scale=self.scale)
            return beta + visit.noise.gamma_norm(self.dim, self.scale)
        grid = self._grid
        rounded = np.rint(np.clip(beta / grid, -_MOST, _MOST)).astype(np.int64)
        if self.law == "laplace":
            noisy = visit.laplace(rounded, self._steps, l1=self._whole_l1, purpose=purpose)
        else:
            noisy = visit.gaussian(rounded, self._steps, l2=self._whole_l2, purpose=purpose)
        return noisy * grid

    def log_moment(self, x: np.ndarray) -> np.ndarray:
        """log E exp(z'x) for each row of ``x``; infinite where the mean does not exist."""
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
        return self.l2 / self._grid + math.sqrt(self.dim)

    @property
    def _whole_l1(self) -> float:
        return math.sqrt(self.dim) * self.l2 / self._grid + self.dim

    @property
    def _steps(self) -> float:
        """The scale in grid steps."""
        if self.law == "laplace":
            # One unit in the last place up, since the visit rounds the price up.
            return math.nextafter(self._whole_l1 / self.allowance.pure, math.inf)
        return gaussian_sigma(self.allowance.rho, self._whole_l2)


def quietest(dim: int, l2: float, allowance: Allowance) -> LawName:
    """The law with the smallest standard deviation at what may be spent."""
    sizes = {
        law: CoefficientNoise(law=law, dim=dim, l2=l2, allowance=allowance).deviation
        for law in LAWS
    }
    return min(LAWS, key=lambda law: sizes[law])
