"""Charges: the cost of a mechanism in GDP, zCDP, pure, subsampled or approximate form."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from marginalsyn.errors import BudgetError
from marginalsyn.privacy.gdp import amount_of, pure_mu, selection_mu
from marginalsyn.privacy.zcdp import exponential_rho, gaussian_rho

# Parts of a budget, added up again in floating point, may exceed it by rounding alone.
TOLERANCE = 1e-9

Guarantee = Literal["exact", "rounded", "computational", "asymptotic", "none"]
"""What a law of noise is worth, see :data:`GUARANTEES`."""

GUARANTEES: dict[Guarantee, str] = {
    "exact": "what is drawn has the law of the proof, to the last bit",
    "rounded": "what is drawn has the law of the proof up to stated bits",
    "computational": "the law holds against whoever cannot break the generator of the bits",
    "asymptotic": "the law is reached in the limit only: a Markov chain that runs for ever",
    "none": "nothing is promised",
}
"""From the strongest to the weakest."""


class Neighbours(StrEnum):
    """Which two tables must be hard to distinguish; every sensitivity derives from it.

    ``add-remove``: one has a row that the other lacks, and the number of rows is private.
    ``replace``: one row differs, and the number of rows is public.

    Example:
        >>> Neighbours("replace").l1
        2.0
    """

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"

    @property
    def l1(self) -> float:
        """How much the counts of one marginal can change, summed over its cells."""
        return 1.0 if self is Neighbours.ADD_REMOVE else 2.0

    @property
    def l2(self) -> float:
        """How much the counts of one marginal can change in Euclidean norm."""
        return 1.0 if self is Neighbours.ADD_REMOVE else math.sqrt(2)


class _Cost(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class GDP(_Cost):
    """mu-GDP: rounded Gaussian noise, selections, pure noise, and their adaptive compositions.

    ``rho`` is the same cost in zCDP: mu^2 / 2, or less where less is known, as of selections alone.
    """

    kind: Literal["gdp"] = "gdp"
    mu: float = Field(ge=0)
    # Filled in from mu where it is not given.
    rho: float = Field(default=-1.0, ge=0, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, fields: Any) -> Any:
        if (
            isinstance(fields, dict)
            and "rho" not in fields
            and isinstance(fields.get("mu"), float | int)
        ):
            return {**fields, "rho": amount_of(fields["mu"])}
        return fields

    def __str__(self) -> str:
        return f"mu {show_number(self.mu)} (rho {show_number(self.rho)})"


class ZCDP(_Cost):
    """rho-zCDP: the discrete Gaussian, bounded-range selections, and adaptive compositions.

    It has no price in mu.
    """

    kind: Literal["zcdp"] = "zcdp"
    rho: float = Field(ge=0)

    def __str__(self) -> str:
        return f"rho {show_number(self.rho)}"


class Pure(_Cost):
    """eps-DP; with ``bounded_range`` the log-ratios lie in an interval of length eps.

    zCDP cost: eps^2/2, or eps^2/8 with bounded range.
    """

    kind: Literal["pure"] = "pure"
    eps: float = Field(ge=0)
    bounded_range: bool = False

    def __str__(self) -> str:
        return f"pure eps {show_number(self.eps)}"


class SubsampledGaussian(_Cost):
    """``steps`` Gaussian steps, each on a Poisson sample of public ``rate``.

    ``noise_multiplier`` is the noise's standard deviation over the clipping norm, which is the
    sensitivity under add-remove; under replace the cost is derived from that by group privacy.
    """

    kind: Literal["subsampled-gaussian"] = "subsampled-gaussian"
    noise_multiplier: float = Field(gt=0)
    rate: float = Field(gt=0, le=1)
    steps: int = Field(ge=1, le=10**12)

    def __str__(self) -> str:
        return (
            f"{self.steps} Gaussian steps, multiplier {show_number(self.noise_multiplier)}, "
            f"rate {show_number(self.rate)}"
        )


class Approximate(_Cost):
    """An (eps, delta)-DP guarantee about which nothing more is known."""

    kind: Literal["approximate"] = "approximate"
    eps: float = Field(ge=0)
    delta: float = Field(ge=0, lt=1)

    def __str__(self) -> str:
        return f"eps {show_number(self.eps)}, delta {show_number(self.delta)}"


Cost = Annotated[GDP | ZCDP | Pure | SubsampledGaussian | Approximate, Field(discriminator="kind")]


class Charge(BaseModel):
    """The cost of one mechanism, its neighbouring relation, and how strong its guarantee is.

    ``guarantee`` is ``"asymptotic"`` where it holds only in the limit (a finite Markov chain).

    Example:
        >>> Charge(mechanism="gaussian", cost=ZCDP(rho=0.1)).rho
        0.1
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mechanism: str
    purpose: str = ""
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    guarantee: Literal["exact", "asymptotic"] = "exact"
    cost: Cost
    details: dict[str, JsonValue] = {}

    @property
    def rho(self) -> float | None:
        """The cost in zCDP under the charge's own relation, or None if it has none."""
        return rho_of_cost(cost_under(self, self.neighbours))

    @property
    def mu(self) -> float | None:
        """The cost in GDP under the charge's own relation, or None if it has none."""
        return mu_of_cost(cost_under(self, self.neighbours))

    @property
    def prices(self) -> str:
        """The cost in every currency that has a price for it, in words."""
        if not isinstance(self.cost, Pure):
            return str(self.cost)
        mu, rho = show_number(self.mu or 0.0), show_number(self.rho or 0.0)
        return f"{self.cost} (mu {mu}, rho {rho})"


def weakest(guarantees: Iterable[str]) -> Guarantee:
    """The weakest of several guarantees; exact where there is none.

    Example:
        >>> weakest(["exact", "asymptotic", "computational"])
        'asymptotic'
    """
    order: list[Any] = list(GUARANTEES)
    return order[max((order.index(one) for one in guarantees), default=0)]  # type: ignore[no-any-return]


def simplify(cost: Cost) -> Cost:
    """The same cost in a tighter form where there is one: Gaussian noise on every row is zCDP."""
    if isinstance(cost, SubsampledGaussian) and cost.rate == 1:
        return ZCDP(rho=gaussian_rho(cost.noise_multiplier, math.sqrt(cost.steps)) * (1 + 1e-15))
    return cost


def rho_of_cost(cost: Cost | None) -> float | None:
    """The cost in zCDP, or None if it has none."""
    if isinstance(cost, ZCDP | GDP):
        return cost.rho
    return pure_rho(cost) if isinstance(cost, Pure) else None


def mu_of_cost(cost: Cost | None) -> float | None:
    """The cost in GDP, or None if it has none: zCDP implies no mu."""
    if isinstance(cost, GDP):
        return cost.mu
    if isinstance(cost, Pure):
        return selection_mu(cost.eps) if cost.bounded_range else pure_mu(cost.eps)
    return None


def pure_rho(cost: Pure) -> float:
    """zCDP of a pure guarantee (Bun and Steinke 2016; Cesar and Rogers 2021)."""
    rho = exponential_rho(cost.eps) if cost.eps else 0.0
    return rho if cost.bounded_range else 4 * rho


def cost_under(charge: Charge, neighbours: Neighbours) -> Cost | None:
    """The cost of a charge under ``neighbours``, None where it takes a delta to say it.

    From add-remove to replace is group privacy of two: ratios and mu double, rho quadruples.
    """
    # A subsampled Gaussian's numbers are about add-remove whatever it was run for.
    sampled = isinstance(charge.cost, SubsampledGaussian)
    given = Neighbours.ADD_REMOVE if sampled else charge.neighbours
    cost = simplify(charge.cost)
    if given is neighbours:
        return cost
    if isinstance(cost, GDP):
        return GDP(mu=2 * cost.mu, rho=4 * cost.rho)
    if isinstance(cost, ZCDP):
        return ZCDP(rho=4 * cost.rho)
    if isinstance(cost, Pure):
        return cost.model_copy(update={"eps": 2 * cost.eps})
    return pair(cost.eps, cost.delta) if isinstance(cost, Approximate) else None


def pair(eps: float, delta: float) -> Approximate:
    """(eps, delta) for one row as a guarantee for two: (2 eps, (1 + e^eps) delta)."""
    if not delta:
        return Approximate(eps=2 * eps, delta=0)
    worse = delta * (1 + math.exp(min(eps, 700.0))) * (1 + 1e-12)
    if worse >= 1:
        raise BudgetError(f"delta ({delta}) is too large to count for a replaced row at eps {eps}")
    return Approximate(eps=2 * eps, delta=worse)


def covers(allowed: float, spent: float) -> bool:
    """Whether ``spent`` stays within ``allowed``, up to the rounding of a sum."""
    return spent <= allowed * (1 + TOLERANCE)


def show_number(value: float, digits: int = 6) -> str:
    """A number for people, rounded up to ``digits`` significant digits.

    Example:
        >>> show_number(1.2345678), show_number(0.1 + 0.2), show_number(1e-9)
        ('1.23457', '0.3', '1e-09')
    """
    if not math.isfinite(value):
        return str(value)
    below = Decimal(value) * (1 - Decimal(TOLERANCE).copy_sign(Decimal(value)))
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).plus(below)):.{digits}g}"
