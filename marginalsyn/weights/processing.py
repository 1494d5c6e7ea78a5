"""Post-processing of raw log-weights into weights; it costs no privacy.

The order is fixed: calibrate, temper, self-normalise, smooth the largest, clip, normalise again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from marginalsyn import defaults
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.contract import Plan

Smoothing = Literal["none", "psis"]
Calibration = Literal["none", "beta", "isotonic"]
# Beyond this exp() leaves the floating-point range.
_HIGHEST = 690.0
# Below this share of the rows, variance costs more than what the weights correct.
LEAST_WORTH = 0.25


@dataclass(frozen=True, kw_only=True)
class Processing:
    """The steps from raw log-weights to weights; each can be switched off.

    Attributes:
        normalise: scale the weights to mean 1 (None: unless they are the ratio itself).
        temper: the power tau of w^tau; below 1 it trades variance for bias. None takes 1, or the
            largest power at which the rows are worth a quarter of their number; see :meth:`power`.
        smooth: ``psis`` replaces the largest weights by quantiles of a fitted Pareto tail.
        clip: no weight is larger than this many times the mean.
        calibrate: ``beta`` or ``isotonic``, on public real rows.

    Example:
        >>> weights = Processing(clip=2.0).apply(np.log([1.0, 1.0, 8.0]))
        >>> bool(weights.max() <= 2.0), round(float(weights.mean()), 9)
        (True, 1.0)
    """

    normalise: bool | None = None
    temper: float | None = None
    smooth: Smoothing = defaults.SMOOTH
    clip: float | None = None
    calibrate: Calibration = defaults.CALIBRATE

    def __post_init__(self) -> None:
        if self.temper is not None and not 0 <= self.temper <= 10:
            raise UsageError(f"temper ({self.temper}) must lie between 0 and 10; 1 changes nothing")
        if self.clip is not None and not (self.clip > 1 and math.isfinite(self.clip)):
            raise UsageError(f"clip ({self.clip}) must be above 1: weights have mean 1")
        for name, known in (("smooth", ("none", "psis")), ("calibrate", ("none", *CALIBRATIONS))):
            value = getattr(self, name)
            if value not in known:
                raise UsageError(f"{name} ({value}) must be one of {', '.join(known)}")

    def check(self, plan: Plan, method: str, public: pd.DataFrame | None) -> None:
        """Refuse steps that log-weights of this plan cannot take."""
        self.normalises(plan.scaled)
        if self.calibrate == "none":
            if plan.uncalibrated:
                raise UsageError(f"method ({method}) must be calibrated here: {plan.uncalibrated}")
        elif public is None:
            raise UsageError(
                f"calibrate ({self.calibrate}) must have public real rows: name their file with "
                "--public"
            )
        elif not plan.scores:
            raise UsageError(
                f"calibrate ({self.calibrate}) needs a method that can score other rows; "
                f"{method} cannot"
            )

    def normalises(self, scaled: bool) -> bool:
        """Whether weights are scaled to mean 1; ``scaled`` says whether they estimate the ratio
        itself.
        """
        if self.normalise is False and not scaled:
            raise UsageError(
                "normalise (False) must be on: these log-weights are known only up to a "
                "constant. For "
                "the ratio itself, use beta-debiased --unnormalised"
            )
        return not scaled if self.normalise is None else self.normalise

    def power(self, log_weights: np.ndarray, *, scaled: bool = False) -> float:
        """The power that the weights are raised to; weights that are the ratio itself stay so."""
        if self.temper is not None or scaled or not log_weights.size:
            return 1.0 if self.temper is None else self.temper
        values = np.asarray(log_weights, dtype=np.float64) - np.max(log_weights)
        least = LEAST_WORTH * values.size

        def worth(power: float) -> float:
            return effective_size(np.exp(power * values))

        if worth(1.0) >= least:
            return 1.0
        # The effective number of rows falls as the power rises (Jensen), from all of them at 0.
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if worth(middle) >= least else (low, middle)
        return low

    def apply(self, log_weights: np.ndarray, *, scaled: bool = False) -> np.ndarray:
        """Weights from raw log-weights; the step ``calibrate`` is done by :func:`calibrate`."""
        values = self.power(log_weights, scaled=scaled) * np.asarray(log_weights, np.float64)
        if not values.size:
            return values.copy()
        normalise = self.normalises(scaled)
        shift = log_mean(values) if normalise else 0.0
        values = values - shift
        if self.smooth == "psis":
            values = pareto_smooth(values)[0]
        weights = np.exp(np.minimum(values, _HIGHEST))
        if self.clip is not None:
            weights = _clip(weights, self.clip)
        return weights / weights.mean() if normalise else weights

    def to_json(self) -> dict[str, Any]:
        """The steps as JSON values."""
        return asdict(self)


def effective_size(weights: np.ndarray) -> float:
    """Kish's effective sample size: (sum w)^2 / sum w^2.

    Example:
        >>> effective_size(np.ones(7)), effective_size(np.array([1.0, 0.0]))
        (7.0, 1.0)
    """
    weights = np.asarray(weights, dtype=float)
    top = float(weights.max()) if weights.size else 0.0
    if top <= 0:
        return 0.0
    scaled = weights / top
    return float(scaled.sum() ** 2 / (scaled @ scaled))


def log_mean(values: np.ndarray) -> float:
    """The logarithm of the mean of exp(values), without overflow."""
    top = float(np.max(values))
    return top + math.log(float(np.mean(np.exp(values - top))))


def pareto_smooth(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Pareto-smoothed log-weights with the same total, and k-hat of their tail.

    The largest weights are replaced by the expected order statistics of a generalised Pareto
    distribution fitted to them (Vehtari et al. 2024, https://arxiv.org/abs/1507.02646). Where the
    tail is too short or too flat to be fitted, the weights stay as they are and k-hat is -inf.

    Example:
        >>> values, shape = pareto_smooth(np.zeros(100))
        >>> shape
        -inf
    """
    from arviz_stats.base import array_stats

    values = np.asarray(log_weights, dtype=np.float64)
    size, as_they_are = values.size, (values.copy(), -math.inf)
    tail = min(0.2 * size, 3 * math.sqrt(size)) if size > 255 else size / 5
    if tail < 5:
        return as_they_are
    ordered = np.sort(values)
    # A tail of weights that are equal up to rounding is bounded: there is nothing to fit.
    if ordered[-1] - ordered[-math.ceil(tail) - 1] < 1e-9:
        return as_they_are
    # arviz-stats (0.5 and 1.3 alike) takes log-ratios with their sign turned.
    try:
        with np.errstate(all="ignore"):
            smoothed, shape = array_stats.psislw(-values)
    except ValueError:  # a tail of equal values
        return as_they_are
    smoothed, shape = np.asarray(smoothed), float(shape)
    if not (np.isfinite(smoothed).all() and math.isfinite(shape)):
        return as_they_are
    return smoothed + (log_mean(values) - log_mean(smoothed)), shape


def _clip(weights: np.ndarray, most: float) -> np.ndarray:
    """Weights capped at ``most`` times the mean that they have after being capped."""
    count = weights.size
    if not weights.max() > 0:
        return weights
    # Capping lowers the mean, and with it the cap: find the k largest that are all at the cap.
    ordered = np.sort(weights)
    rest = np.cumsum(ordered)[::-1]
    ordered = ordered[::-1]
    capped = np.arange(count)
    room = count - most * capped
    with np.errstate(divide="ignore", invalid="ignore"):
        caps = np.where(room > 0, most * rest / room, np.inf)
    fits = np.flatnonzero((ordered <= caps * (1 + 1e-12)) & (room > 0))
    cap = float(caps[fits[0]]) if fits.size else float(ordered[-1])
    return np.minimum(weights, cap)


# -- calibration ----------------------------------------------------------------------------------


def calibrate(
    log_weights: np.ndarray, real: np.ndarray, synthetic: np.ndarray, kind: Calibration
) -> np.ndarray:
    """Log-weights after calibrating the classifier behind them on rows that are no secret.

    Args:
        log_weights: to be calibrated.
        real: the same estimator's log-weights of *public* real rows.
        synthetic: its log-weights of synthetic rows.
        kind: ``beta`` (Kull, Silva Filho and Flach 2017) or ``isotonic``.

    Raises:
        UsageError: no public rows.
    """
    if kind == "none":
        return np.asarray(log_weights, dtype=np.float64)
    if not len(real) or not len(synthetic):
        raise UsageError("calibration must have public real rows: name their file with --public")
    shift = float(np.median(synthetic))
    scores = np.concatenate([real, synthetic]) - shift
    labels = np.concatenate([np.ones(len(real)), np.zeros(len(synthetic))])
    # Each side counts for one half, so that the odds are the ratio of the densities.
    sides = np.where(labels == 1, 0.5 / len(real), 0.5 / len(synthetic)) * len(labels)
    return CALIBRATIONS[kind](scores, labels, sides)(log_weights - shift)


def _fit_beta(
    scores: np.ndarray, labels: np.ndarray, sides: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """log-odds = a ln p - b ln(1 - p) + c with a, b >= 0, by weighted maximum likelihood."""
    from scipy.optimize import minimize
    from scipy.special import expit

    def features(values: np.ndarray) -> np.ndarray:
        # ln p and -ln(1 - p) of p = 1 / (1 + exp(-v)).
        return np.column_stack(
            [-np.logaddexp(0, -values), np.logaddexp(0, values), np.ones(len(values))]
        )

    x, signs = features(scores), 2 * labels - 1

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        margin = signs * (x @ theta)
        slope = -signs * sides * expit(-margin)
        return float(np.sum(sides * np.logaddexp(0, -margin))), x.T @ slope

    bounds = [(0, None), (0, None), (None, None)]
    found = minimize(loss, np.array([1.0, 1.0, 0.0]), jac=True, bounds=bounds, method="L-BFGS-B")
    return lambda values: features(values) @ found.x


def _fit_isotonic(
    scores: np.ndarray, labels: np.ndarray, sides: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """The monotone step function of least squares, kept away from 0 and 1."""
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    model.fit(scores, labels, sample_weight=sides)
    edge = 1.0 / (len(scores) + 2)

    def apply(values: np.ndarray) -> np.ndarray:
        chance = np.clip(model.predict(values), edge, 1 - edge)
        return np.log(chance) - np.log1p(-chance)

    return apply


CALIBRATIONS = {"beta": _fit_beta, "isotonic": _fit_isotonic}
