"""Weights from noisy coefficients, divided by the noise's average effect on them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from marginalsyn.access.private_table import Unprotected
from marginalsyn.access.visit import Visit
from marginalsyn.contract import LogWeights, Plan, Target, option
from marginalsyn.errors import UsageError
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, Neighbours, Pure
from marginalsyn.privacy.laws import DiscreteLaplace
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.progress import Progress
from marginalsyn.weights.coefficients import NoisyCoefficients, NoisyRegression

# What a noisy count of the private rows may take of the budget.
COUNT_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class BetaDebiasedConfig(NoisyCoefficients):
    """Noisy coefficients with the exact factor 1 / E[exp(z'x)] of their noise.

    With noise z on coefficients b, the mean of exp((b + z)'x) / E[exp(z'x)] is exp(b'x): over the
    draw of the noise, every *un-normalised* weight is unbiased for the weight that the same
    regression gives without noise. That is not the true density ratio unless the regression's
    model is right; and after self-normalisation, clipping, tempering or smoothing nothing is
    unbiased, for all weights share one draw of the noise.

    Example:
        >>> BetaDebiasedConfig().name
        'beta-debiased'
    """

    name = "beta-debiased"
    summary = "beta-noised, divided by the mean effect of its noise"

    unnormalised: bool = option(
        False,
        "Estimate the ratio itself, without normalising: an unbiased estimate of the weights of "
        "the noiseless regression. It needs the number of private rows, which is public under "
        "replace; otherwise the release's noisy estimate is used, or a noisy count that takes a "
        "tenth of the budget.",
    )

    def configure(self, target: Target, budget: Budget) -> BetaDebiased:
        count = self._count(target, budget)
        rest = budget if count is None else budget.part(1 - COUNT_SHARE)
        regression, noise = self.set_up(target, rest)
        if self.penalty is None:
            # Twice the longest vector, so that the factor and the weight's variance exist.
            short = noise.scale * regression.penalty * 2 * regression.features.radius
            if noise.law != "gaussian" and regression.penalty < short:
                regression, noise = replace(self, penalty=short).set_up(target, rest)
        debiased = BetaDebiased(
            config=self, target=target, regression=regression, noise=noise, count=count
        )
        if self.unnormalised and debiased.missing:
            raise UsageError(debiased.no_factor)
        return debiased

    def _count(self, target: Target, budget: Budget) -> Budget | None:
        """The budget of a noisy count of the private rows, if one is needed."""
        known = target.release is not None and "estimated_rows" in target.release.statement.notes
        if not self.unnormalised or known or budget.neighbours is Neighbours.REPLACE:
            return None
        return budget.part(COUNT_SHARE)


@dataclass(frozen=True, kw_only=True)
class BetaDebiased(NoisyRegression):
    """Calibrated: one draw of noise on all coefficients and, where needed, one on a count."""

    config: BetaDebiasedConfig
    target: Target
    count: Budget | None

    @property
    def cost(self) -> tuple[Charge, ...]:
        if self.count is None:
            return super().cost
        pure = self.noise.law != "gaussian"
        law, cost = ("Laplace", Pure(eps=self.count.pure)) if pure else ("Gaussian", None)
        counted = self.count.charge(f"discrete {law}", "number of private rows", cost)
        return (*super().cost, counted)

    @property
    def plan(self) -> Plan:
        warnings = [self.no_factor] if self.missing else []
        return replace(super().plan, scaled=self.config.unnormalised, warnings=warnings)

    @property
    def facts(self) -> dict[str, Any]:
        return {**super().facts, "unbiased": self._claim}

    def __call__(self, rows: Visit | Unprotected | None, *, progress: Progress) -> LogWeights:
        beta, diagnostics = self.solve(rows, progress)
        constant = 0.0
        if self.config.unnormalised:
            constant = math.log(max(len(self.target.frame), 1) / self._private_rows(rows))

        def log_ratio(x: np.ndarray) -> np.ndarray:
            values = x @ beta + constant
            return values if self.missing else values - self.noise.log_moment(x)

        return self.weigh(log_ratio, diagnostics, [self.no_factor] if self.missing else [])

    @cached_property
    def _log_moments(self) -> np.ndarray:
        return self.regression.synthetic.map(self.noise.log_moment)

    @property
    def missing(self) -> int:
        """The number of rows whose weights have no mean over the draw of the noise."""
        return int(np.sum(~np.isfinite(self._log_moments)))

    def _private_rows(self, visit: Any) -> float:
        """The number of private rows: public, already released, or counted with noise."""
        if self.noise_relation is Neighbours.REPLACE:
            return float(max(visit.rows, 1))
        if self.count is None:
            return max(self.target.rows, 1.0)
        total = visit.counts(())
        if self.noise.law == "gaussian":
            noisy = visit.measure((), gaussian_sigma(self.count.rho), "number of private rows")
            return float(max(int(noisy.values), 1))
        scale = math.nextafter(1.0 / self.count.pure, math.inf)
        return float(max(int(visit.draw(DiscreteLaplace(scale), total, l1=1.0, purpose="rows")), 1))

    @property
    def noise_relation(self) -> Neighbours:
        """The neighbouring relation of the run."""
        return self.noise.budget.neighbours

    @property
    def _claim(self) -> str:
        if not self.config.unnormalised:
            return (
                "no: self-normalised weights share one draw of the noise, so their bias does not "
                "vanish with more rows"
            )
        scale = (
            ""
            if self.noise_relation is Neighbours.REPLACE
            else ", up to the ratio of the true number of private rows to the noisy one"
        )
        return (
            "over the draw of the noise, for the weights of the same regression without noise"
            f"{scale}; not for the true density ratio unless the regression's model is right"
        )

    @property
    def no_factor(self) -> str:
        """The warning for weights without a mean."""
        return (
            f"noise ({self.noise.law}) has no finite mean effect on {self.missing:,} rows, so no "
            "factor can correct for it: "
            "take a larger penalty, a larger budget or --noise gaussian"
            + ("" if self.config.unnormalised else "; the weights are those of beta-noised")
        )
