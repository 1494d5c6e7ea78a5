"""Support points as evidence: a noisy energy potential is many noisy sums over the rows.

Of ``support-points-gp`` a release holds, for public functions of one row (on which side of a
threshold along a direction it lies, or a kernel at its place), noisy sums over all rows, each with
independent noise. A quantity's influence is split into what these functions tell and a rest. The
answers correct the first; of the rest nothing is known but the points, so the interval lets the
population differ from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.answers.atoms import Atoms
from marginalsyn.contract import make_config
from marginalsyn.errors import ReleaseError
from marginalsyn.plugins.points.expansion import spread
from marginalsyn.plugins.points.metric import Metric
from marginalsyn.plugins.points.support_points_gp import SupportPointsGP
from marginalsyn.privacy.budget import Budget

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release
    from marginalsyn.table.schema import Schema

METHOD = "support-points-gp"
# The population's shares, over those of the points, may lie this far from 1 where nothing tells
# (root mean square): points follow what was measured, and are arbitrary else.
DRIFT = 0.5
# Rows drawn around the points, rows anywhere, and sums looked at; more would only take time.
ROWS, ANYWHERE, MOST_SUMS = 20_000, 5_000, 1_500
# So much of the rest's spread is that of rows anywhere: the population may lie where no point does.
_EVEN = 0.05


@dataclass(frozen=True)
class FieldEvidence:
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

    @classmethod
    def of(cls, release: Release, rng: np.random.Generator) -> FieldEvidence:
        """Read a release of ``support-points-gp``."""
        model, told = release.model(), release.statement
        options = {k: v for k, v in told.parameters.items() if v is not None}
        config = make_config(METHOD, options)
        made = config.configure(release.schema, Budget(eps=1.0, neighbours=told.neighbours))
        try:
            assert model is not None
            assert isinstance(made, SupportPointsGP)
            sums = np.asarray(model.arrays["released"], dtype=float)
            (sigma,) = (c.details["sigma"] for c in told.charges if "sigma" in c.details)
            # Sums of persons are read by their number, not by that of the rows drawn of them.
            counted = told.notes.get("estimated_persons", told.notes["estimated_rows"])
            total, off = float(str(counted)), float(str(told.notes["estimated_rows_sd"]))
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
        return cls(release.schema, made, sums, sigmas, (max(total, 1.0), off), points, ROWS)

    @cached_property
    def weights(self) -> np.ndarray:
        """The model's share of every row: those around points count alike."""
        found = np.zeros(len(self.points))
        found[: self.around] = 1.0 / self.around
        return found

    @cached_property
    def reach(self) -> np.ndarray:
        """The shares under which spreads are taken: some rows lie anywhere."""
        even = np.zeros(len(self.points))
        even[self.around :] = 1.0 / max(len(self.points) - self.around, 1)
        return (1 - _EVEN) * self.weights + _EVEN * even

    @property
    def metric(self) -> Metric:
        """The coordinates of points."""
        return self.generator.metric

    def atoms(self, columns: Sequence[str]) -> Atoms:
        """The drawn rows, seen by some columns."""
        frame = self.metric.frame(self.points)
        return Atoms.of_rows(frame, self._codes, self.schema, columns)

    @cached_property
    def _codes(self) -> np.ndarray:
        return self.metric.codes(self.points)

    @cached_property
    def _bins(self) -> np.ndarray:
        return self.generator.slices.project(self.points)[1]

    def functions(self, columns: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The sums that columns alone decide: their places, and each row's share in them."""
        if self.generator.form == "field":
            field = self.generator.field
            return np.arange(len(self.sums)), field.vectors(self.points).astype(float)
        slices, metric = self.generator.slices, self.metric
        numeric = metric.space.numeric
        own: set[int] = set()
        for name, place in zip(self.schema.names, metric.places, strict=True):
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


@dataclass(frozen=True)
class FieldLine:
    """An estimate of a mean: a constant, and what every noisy sum adds."""

    constant: float
    places: np.ndarray
    coefficients: np.ndarray

    def value(self, evidence: FieldEvidence) -> float:
        """The estimate from the released sums."""
        told = float(self.coefficients @ evidence.sums[self.places])
        return self.constant + told / evidence.total[0]

    def noise(self, evidence: FieldEvidence, about: float) -> float:
        """The variance that privacy noise gives it; ``about`` as in :mod:`means`."""
        return float(joint_noise(evidence, [self], np.array([about]))[0, 0])


def tell(
    evidence: FieldEvidence, columns: Sequence[str], influence: np.ndarray
) -> tuple[list[FieldLine], np.ndarray]:
    """For every column of ``influence`` what the sums tell of it, and that part at every row.

    It is the part with the least of noise and of what the rest may hide together.
    """
    total, reach = evidence.total[0], evidence.reach
    places, values = evidence.functions(columns)
    centre = evidence.weights @ influence
    if len(places) == 0:
        nothing = [FieldLine(float(c), places, np.zeros(0)) for c in centre]
        return nothing, np.zeros_like(influence) + centre
    mean = evidence.weights @ values
    sigmas = evidence.sigmas[places]
    scaled = (values - reach @ values) / sigmas
    weighed = DRIFT**2 * reach[:, None] * scaled
    normal = weighed.T @ scaled
    normal[np.diag_indices_from(normal)] += total**-2
    # An error in the number of rows moves all that the sums tell together.
    whole = evidence.sums[places] / total / sigmas * (evidence.total[1] / total)
    normal += np.outer(whole, whole)
    coefficients = np.linalg.solve(normal, weighed.T @ influence) / sigmas[:, None]
    lines = [
        FieldLine(float(c - mean @ own), places, own)
        for c, own in zip(centre, coefficients.T, strict=True)
    ]
    return lines, centre + (values - mean) @ coefficients


def joint_noise(
    evidence: FieldEvidence, lines: Sequence[FieldLine], about: np.ndarray
) -> np.ndarray:
    """The covariance that privacy noise gives several estimates over the same sums."""
    total, spread_ = evidence.total
    noise = np.array([line.coefficients * evidence.sigmas[line.places] for line in lines]) / total
    rests = np.array([line.constant for line in lines]) - about
    return np.asarray(noise @ noise.T + np.outer(rests, rests) * (spread_ / total) ** 2)
