"""A generator whose run first buys what the schema leaves open, and adds columns that follow."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from marginalsyn.access.visit import Visit
from marginalsyn.contract import Calibrated, Plan, Synthesis
from marginalsyn.errors import PluginError
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Approximate, Charge, Pure, SubsampledGaussian
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.gdp import eps_of_mu
from marginalsyn.privacy.noise import Noise
from marginalsyn.privacy.zcdp import eps_of, halve, rho_of
from marginalsyn.progress import Progress
from marginalsyn.purchases.categories import Categories
from marginalsyn.purchases.purchase import Purchase, buy_all, charges_of
from marginalsyn.purchases.shapes import Shapes
from marginalsyn.table.keeping import with_followers
from marginalsyn.table.schema import Schema

# What a run buys by itself, in this order.
KINDS: tuple[type[Purchase], ...] = (Categories, Shapes)
# How often the share of sampled steps is halved on; each takes a search for their noise.
TRIES = 4


@dataclass(frozen=True, kw_only=True)
class WithBoughtSchema(Calibrated):
    """Calibrated: what is bought, then the generator under the schema that this completes.

    What each may spend is fixed beforehand. The generator is calibrated twice: on the open schema,
    for its charges, and on the bought one, with the same budget. It never sees a column that
    follows from another by a rule: its rows have it afterwards.
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
        if not self.purchases:
            return self.budget
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
            own = (pure,) if rest is None else self._configured(self.schema, rest).cost
            return compose([*paid, *own], whole.delta, whole.neighbours).eps <= whole.eps

        def offer(pure: float, eps: float | None = None) -> Budget:
            return Budget.of_json({"eps": eps or pure, "pure": pure, **worth})

        least = max(0.0, whole.eps - eps_of(spent, left))
        eps, _ = halve(lambda one: not fits(one), least, whole.eps, 40)
        known = self._configured(self.schema, offer(eps)).cost
        if any(isinstance(charge.cost, SubsampledGaussian) for charge in known):
            # Sampled steps add up with the rest in a way of their own.
            eps, _ = halve(lambda one: not fits(one, offer(one)), eps / 4, whole.eps, TRIES)
            own_eps = eps
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
        return self._configured(self.schema, self.rest)

    def _configured(self, schema: Schema, budget: Budget) -> Any:
        return self.config.configure(schema.without(self.schema.followers), budget)

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
        size = None if self.purchases else own.model_mb
        return replace(own, split={**paid, **own.split}, facts=facts, model_mb=size)

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        schema = buy_all(self.purchases, self.schema, visit, self.noise, progress)
        generator, left_out = self._configured(schema, self.rest), [*self.schema.followers]
        if [c.cost for c in generator.cost] != [c.cost for c in self.generator.cost]:
            raise PluginError(
                f"method '{self.config.name}' must cost the same whatever is bought: buy it "
                "first, then give the schema that has it"
            )
        found = generator(visit.recoded(schema.without(left_out)), progress=progress)
        if left_out:
            model, sources = found.model, schema.followers
            if model is not None:
                model = replace(model, meta={**model.meta, "followers": left_out})
            follow = {name: sources[name].source for name in left_out}
            frame = with_followers(found.frame, schema, left_out)
            found = replace(
                found, frame=frame, model=model, notes={**found.notes, "follow": follow}
            )
        return replace(found, schema=schema) if self.purchases else found
