"""Support points of a released energy potential: one Gaussian noise, everything else is free.

Support points as evidence: a noisy energy potential is many noisy sums over the rows.

A release of ``support-points-gp`` has, for public functions of one row (on which side of a
threshold along a direction it lies, or a kernel at its place), noisy sums over all rows, each with
independent noise. A quantity's influence is split into what these functions measure and a rest. The
answers correct the first. Of the rest nothing is known but the points, so the interval lets the
population differ from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.answers.code_combinations import CodeCombinations
from marginalsyn.contract import Plan, Synthesis, make_config, option
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.graphical.estimation import warn_of_noise
from marginalsyn.plugins.points.driver import summarise
from marginalsyn.plugins.points.fitting import Field, fit_field, fit_slices
from marginalsyn.plugins.points.point_generator import (
    BANDWIDTH,
    BANDWIDTH_SHARE,
    NORM,
    CountedConfig,
    PointGenerator,
    spread,
)
from marginalsyn.plugins.points.slices import Slices, public_slices
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge
from marginalsyn.progress import Progress
from marginalsyn.release.folder import Release
from marginalsyn.table.metric import Metric
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
    ranges = {
        "candidates": (2, 4096), "bins": (1, 1024), "chains": (1, 256), "directions": (1, 100_000)
    }  # fmt: skip

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

        space = self.metric.space
        side = int(self.config.candidates ** (1.0 / space.numeric) + 1e-9)
        return Field(space, max(side, 2))

    @cached_property
    def slices(self) -> Slices:

        rng = np.random.default_rng(PUBLIC_SEED)
        return public_slices(self.metric.space, self.config.directions, self.config.bins, rng)

    @cached_property
    def sigma(self) -> float:
        """The noise: in integer units of the field, or of slices whitened by their factors."""
        relation = self.budget.neighbours
        if self.form == "field":
            return self.noise_for(self.field.sensitivity(relation, averaged=self.averaged))
        return self.noise_for(self.slices.sensitivity(relation))

    @property
    def cost(self) -> tuple[Charge, ...]:
        details = {"form": self.form, "sigma": self.sigma}
        return (self.budget.gaussian_charge("energy potential", details),)

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

        # Measure.
        progress.report("measure", text="potential of the rows")
        total, spread = self.count_rows(visit)
        geometry: Any = self.field if self.form == "field" else self.slices
        released = self._measure(visit)

        # Estimate: post-processing, free of privacy cost from here on unless a bandwidth is bought.
        what = "potential" if self.form == "field" else "counts"
        progress.report("estimate", text=f"fit points to the {what}")
        answers = geometry.answers(released, total)
        fit: Any = fit_field if self.form == "field" else fit_slices
        points, run = fit(
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


METHOD = "support-points-gp"
# The population's shares, over those of the points, may lie this far from 1 where nothing was
# measured (root mean square): points follow what was measured, and are arbitrary else.
DRIFT = 0.5
# Rows drawn around the points, rows anywhere, and sums used; more would only take time.
ROWS, ANYWHERE, MOST_SUMS = 20_000, 5_000, 1_500
# So much of the rest's spread is that of rows anywhere: the population may lie where no point does.
_EVEN = 0.05


@dataclass(frozen=True)
class PotentialMean:
    """An estimate of a mean: a constant, and what every noisy sum adds."""

    constant: float
    places: np.ndarray
    coefficients: np.ndarray

    def value(self, evidence: NoisyPotential) -> float:
        """The estimate from the released sums."""
        measured = float(self.coefficients @ evidence.sums[self.places])
        return self.constant + measured / evidence.total[0]

    def noise(self, evidence: NoisyPotential, about: float) -> float:
        """The variance that privacy noise gives it; ``about`` as in :mod:`means`."""
        return float(evidence.joint_noise([self], np.array([about]))[0, 0])


@dataclass(frozen=True)
class NoisyPotential:
    """The noisy sums of a release with rows around its points.

    Attributes:
        schema: what is publicly known of the columns.
        generator: what was measured; all of it public.
        sums: the noisy sums.
        sigmas: the standard deviation of each one's noise.
        total: the number of rows, or persons, and its standard deviation.
        points: rows drawn around the points, in the coordinates of the metric, then rows anywhere.
        around: how many of them are around points.
    """

    schema: Schema
    generator: SupportPointsGP
    sums: np.ndarray
    sigmas: np.ndarray
    total: tuple[float, float]
    points: np.ndarray
    around: int
    counted: str | None = None
    followers: tuple[str, ...] = ()
    drift: ClassVar[float] = DRIFT

    @classmethod
    def of(cls, release: Release, rng: np.random.Generator) -> NoisyPotential:
        """Read a release of ``support-points-gp``."""
        model, statement = release.model(), release.statement
        options = {k: v for k, v in statement.parameters.items() if v is not None}
        config = make_config(METHOD, options)
        followers = tuple(model.followers if model is not None else ())
        own = release.schema.without(followers)
        made = config.configure(own, Budget(eps=1.0, neighbours=statement.neighbours))
        try:
            assert model is not None
            assert isinstance(made, SupportPointsGP)
            sums = np.asarray(model.arrays["released"], dtype=float)
            (sigma,) = (c.details["sigma"] for c in statement.charges if "sigma" in c.details)
            notes = statement.notes
            # Sums of persons are read by their number, not by that of the rows drawn of them.
            counted = notes.get("estimated_persons", notes["estimated_rows"])
            total, off = float(str(counted)), float(str(notes["estimated_rows_sd"]))
            centres, width = np.asarray(model.arrays["points"]), float(model.meta["bandwidth"])
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            raise ReleaseError(
                f"release ({release.path.name}) must hold its potential: {error}"
            ) from None
        space = made.metric.space
        points = spread(centres, ROWS, width, space, rng)
        points = np.concatenate([points, space.uniform(ANYWHERE, rng)])
        if made.form == "field":
            sigmas = np.full(sums.shape, float(str(sigma)))
        else:
            sigmas = made.slices.noise_scale(float(str(sigma)))
        return cls(
            release.schema,
            made,
            sums,
            sigmas,
            (max(total, 1.0), off),
            points,
            ROWS,
            followers=followers,
        )

    @property
    def table_rows(self) -> float:
        """The estimated number of rows, or persons."""
        return self.total[0]

    @cached_property
    def _shares(self) -> np.ndarray:
        """The model's share of every row: those around points count alike."""
        found = np.zeros(len(self.points))
        found[: self.around] = 1.0 / self.around
        return found

    @cached_property
    def reach(self) -> np.ndarray:
        """The shares under which spreads are taken: some rows lie anywhere."""
        even = np.zeros(len(self.points))
        even[self.around :] = 1.0 / max(len(self.points) - self.around, 1)
        return (1 - _EVEN) * self._shares + _EVEN * even

    @property
    def metric(self) -> Metric:
        """The coordinates of points."""
        return self.generator.metric

    def cells(self, columns: Sequence[str], rng: np.random.Generator) -> CodeCombinations:
        """The drawn rows, seen by some columns."""
        del rng
        frame = self.metric.frame(self.points)
        codes = self.metric.codes(self.points)
        return CodeCombinations.of_rows(frame, codes, self.generator.schema, columns)

    def weights(self, cells: CodeCombinations) -> np.ndarray:
        """The share of every drawn row."""
        del cells
        return self._shares

    def mean_estimates(
        self, cells: CodeCombinations, weights: np.ndarray, influence: np.ndarray
    ) -> tuple[list[PotentialMean], np.ndarray]:
        """For every column of ``influence`` its measured part: an estimate of its mean, its values.

        It is the part with the least of noise and of what the rest may hide together.
        """
        total, reach = self.total[0], self.reach
        places, values = self._functions(cells.columns)
        centre = weights @ influence
        if len(places) == 0:
            nothing = [PotentialMean(float(c), places, np.zeros(0)) for c in centre]
            return nothing, np.zeros_like(influence) + centre
        mean = weights @ values
        sigmas = self.sigmas[places]
        scaled = (values - reach @ values) / sigmas
        weighed = DRIFT**2 * reach[:, None] * scaled
        normal = weighed.T @ scaled
        normal[np.diag_indices_from(normal)] += total**-2
        # An error in the number of rows moves all sums together.
        whole = self.sums[places] / total / sigmas * (self.total[1] / total)
        normal += np.outer(whole, whole)
        coefficients = np.linalg.solve(normal, weighed.T @ influence) / sigmas[:, None]
        lines = [
            PotentialMean(float(c - mean @ own), places, own)
            for c, own in zip(centre, coefficients.T, strict=True)
        ]
        return lines, centre + (values - mean) @ coefficients

    def bins(self, name: str) -> None:
        """None: values are known beyond their bins."""

    def joint_noise(self, lines: Sequence[PotentialMean], about: np.ndarray) -> np.ndarray:
        """The covariance that privacy noise gives several estimates over the same sums."""
        total, deviation = self.total
        noise = np.array([line.coefficients * self.sigmas[line.places] for line in lines]) / total
        rests = np.array([line.constant for line in lines]) - about
        return np.asarray(noise @ noise.T + np.outer(rests, rests) * (deviation / total) ** 2)

    def _functions(self, columns: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The sums that columns alone decide: their places, and each row's share in them."""
        if self.generator.form == "field":
            field = self.generator.field
            return np.arange(len(self.sums)), field.vectors(self.points).astype(float)
        slices, metric = self.generator.slices, self.metric
        numeric = metric.space.numeric
        own = set()
        for name, place in zip(self.generator.schema.names, metric.places, strict=True):
            if name in columns:
                own |= {place.scale} if place.scale is not None else set()
                own |= {numeric + place.code} if place.code is not None else set()
        seen = [slices.scales[:, c] != 0 for c in range(numeric)]
        seen += [np.any(table != 0, axis=1) for table in slices.tables]
        other = [part for c, part in enumerate(seen) if c not in own]
        inside = ~np.any(other, axis=0) if other else np.ones(slices.count, dtype=bool)
        inside &= np.any(seen, axis=0)
        places = np.flatnonzero(inside[slices.owner])[:MOST_SUMS]
        owner = slices.owner[places]
        threshold = places - slices.starts[owner]
        beyond = self._bins[:, owner] > threshold
        return places, 2.0 * beyond - slices.middle[places]

    @cached_property
    def _bins(self) -> np.ndarray:
        return self.generator.slices.project(self.points)[1]
