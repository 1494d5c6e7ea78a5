"""What the support-point generators share: knobs, rows drawn around points, stored models.

A row is a point plus a Gaussian of standard deviation ``bandwidth`` in every numeric coordinate,
reflected into the bounds. A category changes with the probability that Gaussian noise of the same
width on its scaled one-hot vector would change the largest entry. The width is given, bought, or
chosen for free in one of two ways.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numba import njit

from marginalsyn.access.visit import Visit
from marginalsyn.contract import Calibrated, GeneratorConfig, Model, Synthesis, check_rows, option
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.graphical.estimation import impossible_rows, redraw, zeros_of
from marginalsyn.libraries import took_part
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.progress import Progress
from marginalsyn.table.energy import distance_matrix
from marginalsyn.table.metric import Batch, Metric, PointSpace, check_norm, weights_of
from marginalsyn.table.schema import Schema

MOST_POINTS = 100_000
WIDTHS = tuple(float(w) for w in np.geomspace(0.005, 0.25, 18))
"""The public grid of bandwidths."""
TRUNCATION = 0.1  # share of the uniform law mixed into the density
LOG_RANGE = 10.0  # a record's log-density is cut off this far above its least value
_TRIALS = 2000

ROWS = option(
    None,
    "Expand the points to a table of this many rows. Without it, the points are the release (of "
    "persons with several rows: as many rows as they have).",
)
BANDWIDTH = option(
    "auto",
    "Width of the kernels that rows are drawn from: auto (chosen from released numbers, at no "
    "cost), likelihood (chosen privately, for a part of the budget), or a number.",
)
BANDWIDTH_SHARE = option(0.1, "Share of the budget for a privately chosen bandwidth.")
NORM = option(2.0, "The p of the norm that measures distances: above 1 and at most 2.")


def check_whole(name: str, value: Any, least: int, most: int) -> None:
    """Check that a number is whole and within a range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UsageError(f"{name} ({value}) must be a whole number from {least:,} to {most:,}")


def check_share(name: str, value: float) -> None:
    """Check that a number is a share between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise UsageError(f"{name} ({value}) must be above 0 and below 1")


def sample_points(
    model: Model, schema: Schema, rows: int | None, rng: np.random.Generator
) -> pd.DataFrame:
    """Rows from a stored model; without ``rows`` the points themselves."""
    try:
        metric = Metric(schema, float(model.meta["p"]))
        width = float(model.meta["bandwidth"])
        points = np.asarray(model.arrays["points"], dtype=float)
        valid = 0.0 <= width <= 1.0 and _are_points(points, metric.space)
    except (KeyError, TypeError, ValueError, UsageError):
        valid = False
    if not valid:
        raise ReleaseError("model must hold points of the schema, their bandwidth and their norm")
    check_rows(rows)
    return metric.frame(points) if rows is None else _expand(model, metric, rows, rng)


def _expand(model: Model, metric: Metric, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    points, width = model.arrays["points"], model.meta["bandwidth"]

    def draw(count: int) -> np.ndarray:
        return spread(points, count, width, metric.space, rng)

    return metric.frame(keep_possible(draw(rows), metric, draw, rng))


def _are_points(points: np.ndarray, space: PointSpace) -> bool:
    """Whether an array, from an untrusted file perhaps, holds points of a space."""
    if points.ndim != 2 or len(points) == 0 or points.shape[1] != space.dimension:
        return False
    scaled, codes = points[:, : space.numeric], points[:, space.numeric :]
    inside = bool(np.all((scaled >= 0) & (scaled <= 1)))
    return inside and bool(np.all((codes >= 0) & (codes < space.sizes) & (codes == np.rint(codes))))


def switch_probability(size: int, weight: float, bandwidth: float) -> float:
    """How often a category of ``size`` codes changes; ``weight`` is the distance of codes.

    Example:
        >>> switch_probability(2, 1.0, 1e-3)
        0.0
    """
    from scipy.special import ndtr

    gap = math.sqrt(weight / 2.0) / bandwidth
    z = np.linspace(-9.0, 9.0, 2001)
    density = np.exp(-(z**2) / 2.0)
    stays = float(np.sum(density * ndtr(z + gap) ** (size - 1)) / density.sum())
    return min(max(1.0 - stays, 0.0), 1.0 - 1.0 / size)


def spread(
    points: np.ndarray, rows: int, bandwidth: float, space: PointSpace, rng: np.random.Generator
) -> np.ndarray:
    """Draw rows around the points, each point as often as any other up to one.

    Args:
        points: centres, (points, coordinates).
        rows: how many to draw.
        bandwidth: standard deviation of the kernel; 0 copies the points.
        space: what the coordinates are.
        rng: draws the rows.
    """
    order = np.concatenate([rng.permutation(len(points)) for _ in range(-(-rows // len(points)))])[
        :rows
    ]
    drawn = points[rng.permutation(order)].copy()
    if bandwidth <= 0:
        return drawn
    numeric = space.numeric
    noise = bandwidth * rng.standard_normal((rows, numeric))
    moved = np.abs(drawn[:, :numeric] + noise) % 2.0
    moved = np.where(moved > 1.0, 2.0 - moved, moved)
    fresh = rng.random((rows, len(space.sizes)))
    for c, (size, weight, link) in enumerate(
        zip(space.sizes, space.weights, space.links, strict=True)
    ):
        codes = drawn[:, numeric + c]
        switched = rng.random(rows) < switch_probability(int(size), float(weight), bandwidth)
        others = rng.integers(0, size - 1, rows)
        others += others >= codes
        if link >= 0:  # a number that was missing comes from anywhere
            moved[:, link] = np.where(codes > 0, fresh[:, c], moved[:, link])
        drawn[:, numeric + c] = np.where(switched, others, codes)
        if link >= 0:
            moved[drawn[:, numeric + c] > 0, link] = 0.5
    drawn[:, :numeric] = moved
    return drawn


def keep_possible(
    points: np.ndarray,
    metric: Metric,
    draw: Callable[[int], np.ndarray],
    rng: np.random.Generator,
) -> np.ndarray:
    """Replace points in structural zeros: by fresh draws, then uniform ones, then copies."""
    zeros = zeros_of(metric.schema)
    if not zeros:
        return points
    return redraw(
        points,
        lambda some: impossible_rows(metric.codes(some), zeros),
        draw,
        lambda count: metric.space.uniform(count, rng),
        rng,
    )


def width_by_loss(
    points: np.ndarray,
    loss: Callable[[np.ndarray], float],
    space: PointSpace,
    rng: np.random.Generator,
) -> float:
    """The width on the public grid whose draws have the least loss: post-processing, so free.

    ``loss`` is, say, the energy to a released potential. All widths see the same random numbers.
    """
    seed = int(rng.integers(0, 2**63))
    losses = [
        loss(spread(points, max(_TRIALS, len(points)), width, space, np.random.default_rng(seed)))
        for width in WIDTHS
    ]
    return WIDTHS[int(np.argmin(losses))]


def width_by_points(points: np.ndarray, space: PointSpace) -> float:
    """A width from the points alone, also free: half the usual distance to the nearest other one.

    That distance is shared out over the coordinates, as a Gaussian step of the width would be.
    """
    if len(points) < 2 or space.numeric == 0:
        return WIDTHS[0]
    distances = distance_matrix(points, points, space=space) + np.diag(np.full(len(points), np.inf))
    near = float(np.median(distances.min(axis=1)))
    return float(np.clip(near / (2.0 * math.sqrt(space.numeric)), WIDTHS[0], WIDTHS[-1]))


@njit(cache=True, nogil=True)
def _log_densities(
    rows: Any, weights: Any, points: Any, widths: Any, stays: Any, numeric: Any, sizes: Any,
    links: Any, truncation: Any, cut: Any, out: Any,
) -> None:  # fmt: skip
    """Add every record's truncated log-density, for every width, to ``out``."""
    n = points.shape[0]
    for s in range(widths.shape[0]):
        width = widths[s]
        scale = 1.0 / (np.sqrt(2.0 * np.pi) * width)
        for i in range(rows.shape[0]):
            total = 0.0
            for j in range(n):
                density = 1.0
                for c in range(sizes.shape[0]):
                    same = rows[i, numeric + c] == points[j, numeric + c]
                    keep = stays[s, c]
                    density *= sizes[c] * (keep if same else (1.0 - keep) / (sizes[c] - 1))
                for c in range(numeric):
                    missing = False
                    anywhere = False
                    for k in range(links.shape[0]):
                        if links[k] == c:
                            missing = rows[i, numeric + k] != 0
                            anywhere = points[j, numeric + k] != 0
                    if missing or anywhere:
                        continue
                    part = 0.0
                    for image in range(-1, 2):  # reflections at both ends
                        near = (rows[i, c] - points[j, c] - 2.0 * image) / width
                        far = (rows[i, c] + points[j, c] - 2.0 * image) / width
                        part += np.exp(-near * near / 2.0) + np.exp(-far * far / 2.0)
                    density *= scale * part
                total += density
            value = np.log((1.0 - truncation) * total / n + truncation) - np.log(truncation)
            out[s] += weights[i] * min(max(value, 0.0), cut)


def log_densities(
    batches: Iterable[Batch],
    points: np.ndarray,
    space: PointSpace,
    widths: Sequence[float] = WIDTHS,
    whole: int = 1,
) -> np.ndarray:
    """Sum over rows of the truncated log-density at the rows, for every width.

    One row adds between 0 and ``LOG_RANGE`` to every entry: the density is relative to the uniform
    law, a tenth of which is mixed in, and the cut is made on every row. Rows with weights count for
    their share of ``whole``, so that those of one person add an average of such numbers.
    """
    stays = np.array(
        [
            [
                1.0 - switch_probability(int(size), float(weight), width)
                for size, weight in zip(space.sizes, space.weights, strict=True)
            ]
            for width in widths
        ]
    ).reshape(len(widths), len(space.sizes))
    out = np.zeros(len(widths))
    for batch in batches:
        rows, weights = weights_of(batch)
        _log_densities(
            rows, weights / whole, points, np.array(widths), stays, space.numeric, space.sizes,
            space.links, TRUNCATION, LOG_RANGE, out,
        )  # fmt: skip
    return out


def width_by_likelihood(visit: Visit, points: np.ndarray, metric: Metric, *, eps: float) -> float:
    """A width by the exponential mechanism on the truncated log-likelihood; costs ``eps``.

    The sum over rows is the score. Do not divide by the number of rows: it is private. A row
    changes every score by 0 to LOG_RANGE if it is added, by at most LOG_RANGE either way if it is
    replaced.
    """
    scores = log_densities(metric.weighed(visit), points, metric.space, whole=visit.whole)
    one_sided = visit.neighbours is Neighbours.ADD_REMOVE
    law = ExponentialMechanism(eps, sensitivity=LOG_RANGE / 2.0 if one_sided else LOG_RANGE)
    return WIDTHS[visit.draw(law, scores, purpose="bandwidth by likelihood")]


def parse_bandwidth(text: str) -> float | None:
    """The number in a ``bandwidth`` option; None where it names a way to choose one.

    Example:
        >>> parse_bandwidth("0.05"), parse_bandwidth("auto")
        (0.05, None)
    """
    if text in ("auto", "likelihood"):
        return None
    try:
        width = float(text)
    except ValueError:
        width = math.nan
    if not 0.0 <= width <= 1.0:
        raise UsageError(f"bandwidth ({text}) must be auto, likelihood, or a number from 0 to 1")
    return width


def candidates(space: PointSpace, count: int) -> np.ndarray:
    """About ``count`` public points: a lattice in up to three dimensions, else an even sequence.

    The sequence adds a fixed step (powers of a generalised golden ratio) modulo one, which fills
    the cube evenly in any dimension; codes of categories are read off their own coordinate.
    """
    if len(space.sizes) == 0 and space.numeric <= 3:
        side = max(int(count ** (1.0 / space.numeric) + 1e-9), 2)
        axes = np.meshgrid(*[np.linspace(0.0, 1.0, side)] * space.numeric, indexing="ij")
        return np.stack(axes, axis=-1).reshape(-1, space.numeric)
    dimension = space.dimension + int(np.sum(space.links >= 0))
    ratio = 2.0
    for _ in range(64):  # the root of x^(d+1) = x + 1
        ratio = (1.0 + ratio) ** (1.0 / (dimension + 1.0))
    steps = ratio ** -np.arange(1.0, dimension + 1.0)
    unit = (0.5 + np.arange(1, count + 1)[:, None] * steps) % 1.0
    points = unit[:, : space.dimension].copy()
    points[:, space.numeric :] = np.floor(points[:, space.numeric :] * space.sizes)
    for c, link in enumerate(space.links):
        if link >= 0:
            points[points[:, space.numeric + c] > 0, link] = 0.5
    return points


@dataclass(frozen=True, kw_only=True)
class PointConfig(GeneratorConfig):
    """What the configs here have; ``ranges`` are the least and the most of its whole numbers."""

    bandwidth, bandwidth_share, p = "auto", 0.1, 2.0
    ranges: ClassVar[Mapping[str, tuple[int, int]]] = {}

    points: int
    rows: int | None = ROWS

    sample = staticmethod(sample_points)

    def __post_init__(self) -> None:
        check_rows(self.rows)
        check_norm(self.p)
        parse_bandwidth(self.bandwidth)
        check_whole("points", self.points, 1, MOST_POINTS)
        check_share("bandwidth_share", self.bandwidth_share)
        for name, (least, most) in self.ranges.items():
            if (value := getattr(self, name)) is not None:
                check_whole(name, value, least, most)


class CountedConfig(PointConfig):
    """That of a generator which counts the rows first, if their number is private."""

    counts_persons = True
    total_share = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("total_share", self.total_share)
        check_share("total_share + bandwidth_share", self.total_share + self.bandwidth_share)


class PointGenerator(Calibrated):
    """What the generators here do alike: share the budget, choose the kernels' width, draw rows."""

    main = "points"  # what most of the budget is for

    @cached_property
    def metric(self) -> Metric:
        return Metric(self.schema, self.config.p)

    @property
    def width_share(self) -> float:
        """The share of the budget that choosing the bandwidth takes."""
        return self.config.bandwidth_share if self.config.bandwidth == "likelihood" else 0.0

    @property
    def bandwidth_eps(self) -> float:
        """What its share of the budget buys for choosing the bandwidth: one selection."""
        budget = self.budget if self.exact else self.budget.in_rho
        amount = budget.gaussian * self.width_share
        return budget.selection_eps(amount) * (1 - 1e-12) if amount else 0.0

    @property
    def shares(self) -> dict[str, float]:
        """Shares of rho, or of eps where costs add up purely."""
        private = self.budget.neighbours is Neighbours.ADD_REMOVE
        total = self.config.total_share if private else 0.0
        width = self.width_share
        return {"number of rows": total, "bandwidth": width, self.main: 1.0 - total - width}

    @property
    def averaged(self) -> bool:
        """Whether what persons add to sums are averages of their rows, as each has several."""
        return self.schema.unit is not None and self.schema.unit.max_rows > 1

    def noise_for(self, l2: float) -> float:
        """The Gaussian noise that the main share of the budget buys, at this sensitivity."""
        rho = self.budget.gaussian * self.shares[self.main] * (1 - 1e-12)
        return gaussian_sigma(rho, l2=l2)

    def count_rows(self, visit: Visit) -> tuple[float, float]:
        """The number of rows and its standard deviation: public under replace, else bought."""
        if visit.neighbours is Neighbours.REPLACE:
            return float(max(visit.rows, 1)), 0.0
        budget = self.budget if self.exact else self.budget.in_rho
        rho = budget.gaussian * self.shares["number of rows"]
        sigma = gaussian_sigma(rho, l2=visit.neighbours.l2)
        measured = visit.measure((), sigma, purpose="number of rows")
        return float(max(int(measured.values), 1)), sigma

    @property
    def split(self) -> dict[str, float]:
        """The shares that are not zero, for a plan."""
        return {name: share for name, share in self.shares.items() if share}

    def draw(
        self,
        visit: Visit,
        points: np.ndarray,
        progress: Progress,
        *,
        loss: Callable[[np.ndarray], float] | None = None,
        arrays: Mapping[str, np.ndarray] | None = None,
        warnings: Sequence[str] = (),
        notes: Mapping[str, Any] | None = None,
        diagnostics: Mapping[str, Any] | None = None,
    ) -> Synthesis:
        """The points, or rows expanded from them, as a synthesis whose model holds the points."""
        progress.report("generate")
        metric, rows, rng = self.metric, self.config.rows, visit.noise.post
        bandwidth = self._bandwidth(visit, points, loss)
        took_part("numba", "compiles the distances")
        points = keep_possible(
            points.copy(),
            metric,
            lambda n: spread(points, n, max(bandwidth, 0.05), metric.space, rng),
            rng,
        )
        model = Model(
            kind=self.config.name,
            arrays={"points": points, **(arrays or {})},
            meta={"bandwidth": bandwidth, "p": metric.p},
        )
        return Synthesis(
            frame=metric.frame(points) if rows is None else _expand(model, metric, rows, rng),
            model=model,
            warnings=tuple(warnings),
            notes={"points": len(points), "bandwidth": bandwidth, **(notes or {})},
            diagnostics=dict(diagnostics or {}),
        )

    def _bandwidth(
        self, visit: Visit, points: np.ndarray, loss: Callable[[np.ndarray], float] | None
    ) -> float:
        """The kernel's width: given, bought, or from the release itself."""
        metric, wanted = self.metric, self.config.bandwidth
        given = parse_bandwidth(wanted)
        if given is not None:
            return given
        if wanted == "likelihood":
            return width_by_likelihood(visit, points, metric, eps=self.bandwidth_eps)
        if loss is not None:
            return width_by_loss(points, loss, metric.space, visit.noise.post)
        return width_by_points(points, metric.space)
