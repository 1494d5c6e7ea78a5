"""A generator whose run first buys, from its budget, what the schema leaves open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from marginalsyn.contract import Calibrated, Plan, Synthesis
from marginalsyn.errors import PluginError
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, Pure, SubsampledGaussian
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.zcdp import eps_of, rho_of
from marginalsyn.purchases.categories import CategoryPlan
from marginalsyn.purchases.value_histograms import CLEAR, ShapePlan

if TYPE_CHECKING:
    from marginalsyn.access.visit import Visit
    from marginalsyn.privacy.noise import Noise
    from marginalsyn.progress import Progress

# Of a run's rho: one column with private categories, and all of them together.
SHARE = 0.2
MOST_SHARE = 0.4
# The same for shapes of numeric columns.
SHAPE_SHARE = 0.05
MOST_SHAPE_SHARE = 0.15
# How often the share of sampled steps is halved on; each takes a search for their noise.
TRIES = 4


@dataclass(frozen=True, kw_only=True)
class Opened(Calibrated):
    """Calibrated: what is bought, then the generator under the schema that this completes.

    What each may spend is fixed beforehand. The generator is calibrated twice: on the open schema,
    for its charges, and on the bought one, with the same budget.
    """

    noise: Noise | None = None

    @cached_property
    def categories(self) -> CategoryPlan | None:
        """What is bought of open columns."""
        if not self.schema.open:
            return None
        share = min(SHARE * len(self.schema.open), MOST_SHARE)
        return CategoryPlan.of(self.schema, self.budget, share * self.budget.rho)

    @cached_property
    def shapes(self) -> ShapePlan | None:
        """What is bought of numeric columns."""
        if not self.schema.shapeless:
            return None
        share = min(SHAPE_SHARE * len(self.schema.shapeless), MOST_SHAPE_SHARE)
        return ShapePlan.of(self.schema, self.budget, share * self.budget.rho)

    @property
    def _plans(self) -> list[CategoryPlan | ShapePlan]:
        return [plan for plan in (self.categories, self.shapes) if plan is not None]

    def _paid(self, noise: Noise | None = None) -> list[Charge]:
        """The charges of all that is bought."""
        return [charge for plan in self._plans for charge in plan.charges(noise)]

    @cached_property
    def rest(self) -> Budget:
        """What is left for the generator: with what is bought it comes to the whole budget."""
        paid = self._paid()
        spent, whole = sum(charge.rho or 0.0 for charge in paid), self.budget
        left = whole.delta - sum(getattr(charge.cost, "delta", 0.0) for charge in paid)
        rho = (rho_of(whole.eps, left) - spent) * (1 - 1e-12)
        worth = {"delta": left, "neighbours": whole.neighbours}

        def fits(eps: float, rest: Budget | None = None) -> bool:
            """Whether a pure mechanism, or the generator itself, stays within the whole."""
            pure = Charge(mechanism="rest", neighbours=whole.neighbours, cost=Pure(eps=eps))
            own = (pure,) if rest is None else self.config.configure(self.schema, rest).cost
            return compose([*paid, *own], whole.delta, whole.neighbours).eps <= whole.eps

        def offer(eps: float) -> Budget:
            return Budget.of_json({"eps": eps, "pure": eps, "rho": rho, **worth})

        eps = _largest(fits, max(0.0, whole.eps - eps_of(spent, left)), whole.eps, 40)
        known = self.config.configure(self.schema, offer(eps)).cost
        if any(isinstance(charge.cost, SubsampledGaussian) for charge in known):
            # Sampled steps add up with the rest in a way of their own.
            eps = _largest(lambda one: fits(one, offer(one)), eps / 4, whole.eps, TRIES)
        if not fits(eps, offer(eps)):
            raise PluginError(
                f"method '{self.config.name}' must leave room for what a run buys: buy that "
                "apart with a budget of its own, then give the schema that has it; or take public "
                "bins alone (--shape none)"
            )
        return offer(eps)

    @cached_property
    def generator(self) -> Any:
        """The generator on the open schema."""
        return self.config.configure(self.schema, self.rest)

    @property
    def cost(self) -> tuple[Charge, ...]:
        return (*self._paid(self.noise), *self.generator.cost)

    @property
    def plan(self) -> Plan:
        own, paid = self.generator.plan, dict[str, float]()
        for charge in self._paid():
            paid[charge.purpose] = paid.get(charge.purpose, 0.0) + (charge.rho or 0.0)
        facts: dict[str, Any] = dict(own.facts)
        of = "rows" if self.schema.unit is None else "persons"
        if self.categories is not None:
            facts["categories"] = f"those of at least {self.categories.least:.0f} noisy {of}"
        if self.shapes is not None:
            least = max(sigmas[-1] for sigmas in self.shapes.sigmas.values()) * CLEAR
            facts["values told one by one"] = f"those that about {least:.0f} {of} share"
        return replace(own, split={**paid, **own.split}, facts=facts, model_mb=None)

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        schema = self.schema
        if self.categories is not None:
            progress.report("measure", text=f"categories of {', '.join(schema.open)}")
            schema = self.categories.buy(visit, self.noise)
        if self.shapes is not None:
            progress.report("measure", text=f"shapes of {', '.join(schema.shapeless)}")
            schema = replace(self.shapes, schema=schema).buy(visit, self.noise)
        generator = self.config.configure(schema, self.rest)
        if [c.cost for c in generator.cost] != [c.cost for c in self.generator.cost]:
            raise PluginError(
                f"method '{self.config.name}' must cost the same whatever is bought: buy it "
                "apart, then give the schema that has it"
            )
        return replace(generator(visit.recoded(schema), progress=progress), schema=schema)


def _largest(fits: Callable[[float], bool], low: float, high: float, steps: int) -> float:
    """The largest number that fits, as far as halving so often finds it; ``low`` does."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
