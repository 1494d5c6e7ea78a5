"""Support points of a released energy potential: one Gaussian noise, everything else is free."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from marginalsyn.contract import Plan, Synthesis, option
from marginalsyn.errors import UsageError
from marginalsyn.graphical.estimation import warn_of_noise
from marginalsyn.plugins.points.point_generator import (
    BANDWIDTH,
    BANDWIDTH_SHARE,
    NORM,
    CountedConfig,
    PointGenerator,
    averaged,
    check_whole,
    count_rows,
)
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge
from marginalsyn.privacy.zcdp import gaussian_sigma

if TYPE_CHECKING:
    from marginalsyn.access.visit import Visit
    from marginalsyn.plugins.points.fitting import Field
    from marginalsyn.plugins.points.slices import Slices
    from marginalsyn.progress import Progress
    from marginalsyn.table.schema import Schema

FIELD_DIMENSIONS = 2
"""Up to here a lattice is fine enough; beyond, slices see more for the same noise."""
PUBLIC_SEED = 20_190_501  # of the directions: public geometry, the same for everybody


@dataclass(frozen=True, kw_only=True)
class SupportPointsGPConfig(CountedConfig):
    """A Gaussian-process release of the energy potential (energy of Diesendruck 2019, chapter 5).

    The mean distance from the rows to every place is one vector in a Hilbert space in which a row
    moves the mean by a bounded amount, so a single Gaussian noise releases all of it (as Hall,
    Rinaldo and Wasserman 2013 do for other kernels), exactly, in integers. ``form``: ``field`` on a
    lattice, for one or two numeric columns; ``slices`` counts along public directions, for any
    table. Points are then fitted to what was released, as many and as often as one likes.

    Example:
        >>> generator = SupportPointsGPConfig(rows=5000).configure(schema, Budget(eps=1))
        >>> round(generator.cost[0].cost.mu, 4)
        0.182
    """

    name = "support-points-gp"
    summary = (
        "the recommended support points: a noisy energy potential, points fitted for free; exact"
    )
    audit_options = {
        "points": 1,
        "candidates": 9,
        "directions": 4,
        "bins": 3,
        "chains": 1,
        "bandwidth": "0.1",
    }

    points: int = option(200, "Number of support points; public. More points cost no privacy.")
    form: Literal["auto", "field", "slices"] = option(
        "auto",
        "Form of the released potential: field (one or two numeric columns), slices (any "
        "table), or auto.",
    )
    candidates: int = option(1024, "Approximate number of lattice points, with form=field.")
    directions: int | None = option(
        None,
        "Number of directions, with form=slices. [default: chosen from the schema]",
    )
    bins: int = option(24, "Number of thresholds along each direction, with form=slices.")
    chains: int = option(2, "Number of chains that fit the points. Costs no privacy.")
    total_share: float = option(
        0.05, "Share of the budget for the number of rows, if that is private."
    )
    bandwidth: str = BANDWIDTH
    bandwidth_share: float = BANDWIDTH_SHARE
    p: float = NORM

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("candidates", self.candidates, 2, 4096)
        check_whole("bins", self.bins, 1, 1024)
        check_whole("chains", self.chains, 1, 256)
        if self.directions is not None:
            check_whole("directions", self.directions, 1, 100_000)

    def configure(self, schema: Schema, budget: Budget) -> SupportPointsGP:
        """One Gaussian measurement, after the number of rows."""
        generator = SupportPointsGP(config=self, schema=schema, budget=budget)
        space = generator.metric.space
        if generator.form == "field" and (len(space.sizes) or space.numeric > 4):
            raise UsageError(
                "form (field) must have at most 4 columns, numeric or ordinal and never missing; "
                "take the form slices"
            )
        if generator.form == "slices" and self.p != 2.0:
            raise UsageError(f"p ({self.p}) must be 2 in the form slices")
        return generator


class SupportPointsGP(PointGenerator):
    """Calibrated: the geometry is public, and so is the noise."""

    config: SupportPointsGPConfig
    main, exact = "potential", True

    @property
    def form(self) -> str:
        space = self.metric.space
        if self.config.form != "auto":
            return self.config.form
        small = len(space.sizes) == 0 and space.numeric <= FIELD_DIMENSIONS
        return "field" if small or self.config.p != 2.0 else "slices"

    @cached_property
    def field(self) -> Field:
        from marginalsyn.plugins.points.fitting import Field

        space = self.metric.space
        side = int(self.config.candidates ** (1.0 / space.numeric) + 1e-9)
        return Field(space, max(side, 2))

    @cached_property
    def slices(self) -> Slices:
        from marginalsyn.plugins.points.slices import public_slices

        rng = np.random.default_rng(PUBLIC_SEED)
        return public_slices(self.metric.space, self.config.directions, self.config.bins, rng)

    @cached_property
    def sigma(self) -> float:
        """The noise: in integer units of the field, or of slices whitened by their factors."""
        rho = self.budget.gaussian * self.shares["potential"] * (1 - 1e-12)
        relation = self.budget.neighbours
        if self.form == "field":
            l2 = self.field.sensitivity(relation, averaged=averaged(self.schema))
            return gaussian_sigma(rho, l2=l2)
        return gaussian_sigma(rho, l2=self.slices.sensitivity(relation))

    @property
    def cost(self) -> tuple[Charge, ...]:
        details = {"form": self.form, "sigma": self.sigma}
        law, cost = self.budget.gaussian_law, self.budget.gaussian_cost
        return (self.budget.charge(law, "energy potential", cost, details),)

    @property
    def plan(self) -> Plan:
        """Shares, the form taken and the noise."""
        facts: dict[str, Any] = {
            "form": self.form,
            "points": self.config.points,
            "coordinates": self.metric.space.dimension,
            "sigma": self.sigma,
            "guarantee": "exact",
        }
        if self.form == "slices":
            facts["directions"] = self.slices.count
            facts["counts"] = int(self.slices.starts[-1])
        else:
            facts["candidates"] = len(self.field.lattice)
        return Plan(split=self.split, facts=facts)

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        from marginalsyn.plugins.points.driver import summarise
        from marginalsyn.plugins.points.fitting import fit_field, fit_slices

        # Measure.
        progress.report("measure", text="potential of the rows")
        total, spread = count_rows(visit, self.budget.gaussian * self.shares["number of rows"])
        geometry: Any = self.field if self.form == "field" else self.slices
        released = self._measure(visit)

        # Estimate: post-processing, free of privacy cost from here on unless a bandwidth is bought.
        what = "potential" if self.form == "field" else "counts"
        progress.report("estimate", text=f"fit points to the {what}")
        answers = geometry.answers(released, total)
        fit: Any = fit_field if self.form == "field" else fit_slices
        points, _, run = fit(
            geometry,
            answers,
            self.config.points,
            visit.noise.post,
            beta=geometry.beta(total, self.sigma),
            chains=self.config.chains,
        )

        # Generate.
        chains = summarise(run)
        chains.pop("energy_trace")
        return self.draw(
            visit,
            points,
            progress,
            loss=lambda drawn: geometry.loss(answers, drawn),
            arrays={"released": released},
            warnings=warn_of_noise(total, spread) if spread else (),
            notes={
                "form": self.form,
                "estimated_rows": total,
                "estimated_rows_sd": spread,
                "fit": chains,
            },
        )

    def _measure(self, visit: Visit) -> np.ndarray:
        """The noisy sums of the field, or the noisy counts of the slices."""
        rows = self.metric.weighed(visit)
        if self.form == "field":
            sums, _ = self.field.measure(rows, visit.whole)
            l2 = self.field.sensitivity(visit.neighbours, averaged=visit.whole > 1)
            law = visit.gaussian(self.sigma)
            return visit.draw(law, sums, l2=l2, purpose="energy potential")
        values, _ = self.slices.measure(rows)
        # Counts of persons are in parts of one; a power of two changes neither ratio nor cost.
        noisy = visit.draw(
            visit.gaussian(self.slices.noise_scale(self.sigma) * visit.whole),
            values,
            whitened_l2=self.slices.sensitivity(visit.neighbours) / self.sigma,
            purpose="energy potential",
        )
        return noisy if visit.whole == 1 else noisy / visit.whole
