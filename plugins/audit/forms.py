"""The forms of a privacy claim to test: pure, (eps, delta), zCDP, Gaussian, sampled Gaussian.

Every form turns the rates of an event into the smallest eps that a claim *of the same form* could
state without being contradicted. Larger than the stated one means that the claim is broken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from marginalsyn.plugins.audit.statistics import Rates, least_eps, least_mu, least_rho
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
from marginalsyn.privacy.zcdp import eps_of

_BEYOND = 1.0
"""How far below the stated noise, in logarithms, a bound is looked for: it is broken by then."""


@dataclass(frozen=True)
class Form:
    """One way to contradict a claim; ``least`` gives the smallest eps that is not contradicted.

    ``rank`` orders events like ``least`` and is quick.
    """

    name: str
    least: Callable[[Rates], float]
    rank: Callable[[Rates], float]

    @classmethod
    def of(
        cls,
        name: str,
        least: Callable[[Rates], float],
        rank: Callable[[Rates], float] | None = None,
    ) -> Form:
        """A form that ranks events by its own bound unless another rank is given."""
        return cls(name, least, rank or least)


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
        return [Form.of("sampled Gaussian", least, rank=least_mu)]
    if total.rho is None:
        return [Form.of("(eps, delta)", lambda rates: least_eps(rates, total.delta))]
    if total.delta == 0:
        found = [Form.of("pure", least_eps)]
        costs = [cost_under(charge, neighbours) for charge in charges]
        if len(costs) == 1 and isinstance(costs[0], Pure) and costs[0].bounded_range:
            # eps-bounded-range is eps^2 / 8 in zCDP.
            found.append(Form.of("zCDP", lambda rates: math.sqrt(8 * least_rho(rates))))
        return found
    if total.mu is not None and any(isinstance(charge.cost, GDP) for charge in charges):
        # mu-GDP is the whole trade-off: no other form says more.
        return [Form.of("Gaussian", lambda rates: eps_of_mu(least_mu(rates), delta))]
    found = [Form.of("zCDP", lambda rates: _eps_of(least_rho(rates), delta))]
    # Steps that use every row are Gaussian, too.
    steps = {c.mechanism for c in charges if isinstance(c.cost, SubsampledGaussian)}
    if payments and all(p.get("mechanism") in {"gaussian", *steps} for p in payments):
        found.append(Form.of("Gaussian", lambda rates: _eps_of(least_mu(rates) ** 2 / 2, delta)))
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
