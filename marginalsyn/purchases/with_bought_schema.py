"""A generator whose run first buys, from its budget, what the schema leaves open."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from marginalsyn.contract import Calibrated, Plan, Synthesis
from marginalsyn.errors import PluginError
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Approximate, Charge, Pure, SubsampledGaussian
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.gdp import eps_of_mu
from marginalsyn.privacy.zcdp import eps_of, rho_of
from marginalsyn.purchases.categories import Categories
from marginalsyn.purchases.purchase import Purchase, buy_all, charges_of
from marginalsyn.purchases.shapes import Shapes

if TYPE_CHECKING:
    from marginalsyn.access.visit import Visit
    from marginalsyn.privacy.noise import Noise
    from marginalsyn.progress import Progress

# What a run buys by itself, in this order.
KINDS: tuple[type[Purchase], ...] = (Categories, Shapes)
# How often the share of sampled steps is halved on; each takes a search for their noise.
TRIES = 4


@dataclass(frozen=True, kw_only=True)
class WithBoughtSchema(Calibrated):
    """Calibrated: what is bought, then the generator under the schema that this completes.

    What each may spend is fixed beforehand. The generator is calibrated twice: on the open schema,
    for its charges, and on the bought one, with the same budget.
    """

    noise: Noise | None = None

    @cached_property
    def purchases(self) -> list[Purchase]:
        """What is bought of the columns that the schema leaves open."""
        found = [kind for kind in KINDS if kind.open_in(self.schema)]
        return [kind.within(self.schema, self.budget) for kind in found]

    @cached_property
    def rest(self) -> Budget:
        """What is left for the generator: with what is bought it comes to the whole budget."""
        paid = charges_of(self.purchases)
        spent, whole = sum(charge.rho or 0.0 for charge in paid), self.budget
        left = whole.delta - sum(c.cost.delta for c in paid if isinstance(c.cost, Approximate))
        rho = (rho_of(whole.eps, left) - spent) * (1 - 1e-12)
        worth: dict[str, Any] = {"rho": rho, "delta": left, "neighbours": whole.neighbours}
        if whole.mu is not None:
            worth["mu"] = math.sqrt(2 * (whole.gaussian_within(left) - spent)) * (1 - 1e-12)
        # What the generator's own share states by itself.
        own_eps = eps_of_mu(worth["mu"], left) if "mu" in worth else eps_of(rho, left)

        def fits(eps: float, rest: Budget | None = None) -> bool:
            """Whether a pure mechanism, or the generator itself, stays within the whole."""
            pure = Charge(mechanism="rest", neighbours=whole.neighbours, cost=Pure(eps=eps))
            own = (pure,) if rest is None else self.config.configure(self.schema, rest).cost
            return compose([*paid, *own], whole.delta, whole.neighbours).eps <= whole.eps

        def offer(pure: float, eps: float | None = None) -> Budget:
            return Budget.of_json({"eps": eps or pure, "pure": pure, **worth})

        eps = _largest(fits, max(0.0, whole.eps - eps_of(spent, left)), whole.eps, 40)
        known = self.config.configure(self.schema, offer(eps)).cost
        if any(isinstance(charge.cost, SubsampledGaussian) for charge in known):
            # Sampled steps add up with the rest in a way of their own.
            eps = own_eps = _largest(lambda one: fits(one, offer(one)), eps / 4, whole.eps, TRIES)
        found = offer(eps, own_eps)
        if not fits(eps, found):
            raise PluginError(
                f"method '{self.config.name}' must leave room for what a run buys: buy that "
                "first with a budget of its own, then give the schema that has it; or take public "
                "bins alone (--shape none)"
            )
        return found

    @cached_property
    def generator(self) -> Any:
        """The generator on the open schema."""
        return self.config.configure(self.schema, self.rest)

    @property
    def cost(self) -> tuple[Charge, ...]:
        return (*charges_of(self.purchases, self.noise), *self.generator.cost)

    @property
    def plan(self) -> Plan:
        own, paid = self.generator.plan, dict[str, float]()
        for charge in charges_of(self.purchases):
            paid[charge.purpose] = paid.get(charge.purpose, 0.0) + (charge.rho or 0.0)
        facts = dict(own.facts)
        for purchase in self.purchases:
            facts.update(purchase.facts)
        return replace(own, split={**paid, **own.split}, facts=facts, model_mb=None)

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        schema = buy_all(self.purchases, self.schema, visit, self.noise, progress)
        generator = self.config.configure(schema, self.rest)
        if [c.cost for c in generator.cost] != [c.cost for c in self.generator.cost]:
            raise PluginError(
                f"method '{self.config.name}' must cost the same whatever is bought: buy it "
                "first, then give the schema that has it"
            )
        return replace(generator(visit.recoded(schema), progress=progress), schema=schema)


def _largest(fits: Callable[[float], bool], low: float, high: float, steps: int) -> float:
    """The largest number that fits, as far as halving so often finds it; ``low`` does."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
