"""What the support-point generators share: knobs, drawing rows from points, stored models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.contract import Calibrated, GeneratorConfig, Model, Synthesis, check_rows, option
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.libraries import took_part
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.table.metric import Metric, PointSpace, check_norm

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.access.visit import Visit
    from marginalsyn.progress import Progress
    from marginalsyn.table.schema import Schema

MOST_POINTS = 100_000

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


def averaged(schema: Schema) -> bool:
    """Whether what persons add to sums are averages of their rows, of which each has several."""
    return schema.unit is not None and schema.unit.max_rows > 1


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
    from marginalsyn.plugins.points.expansion import keep_possible, spread

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


def count_rows(visit: Visit, rho: float) -> tuple[float, float]:
    """The number of rows and its standard deviation: public under replace, else for ``rho``."""
    if visit.neighbours is Neighbours.REPLACE:
        return float(max(visit.rows, 1)), 0.0
    sigma = gaussian_sigma(rho, l2=visit.neighbours.l2)
    measured = visit.measure((), sigma, purpose="number of rows")
    return float(max(int(measured.values), 1)), sigma


@dataclass(frozen=True, kw_only=True)
class PointConfig(GeneratorConfig):
    """What the configs here have."""

    bandwidth, bandwidth_share, p = "auto", 0.1, 2.0

    points: int
    rows: int | None = ROWS

    sample = staticmethod(sample_points)

    def __post_init__(self) -> None:
        from marginalsyn.plugins.points.expansion import parse_bandwidth

        check_rows(self.rows)
        check_norm(self.p)
        parse_bandwidth(self.bandwidth)
        check_whole("points", self.points, 1, MOST_POINTS)
        check_share("bandwidth_share", self.bandwidth_share)


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
        from marginalsyn.plugins.points.expansion import keep_possible, spread

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
        from marginalsyn.plugins.points import expansion

        metric, wanted = self.metric, self.config.bandwidth
        given = expansion.parse_bandwidth(wanted)
        if given is not None:
            return given
        if wanted == "likelihood":
            return expansion.width_by_likelihood(visit, points, metric, eps=self.bandwidth_eps)
        if loss is not None:
            return expansion.width_by_loss(points, loss, metric.space, visit.noise.post)
        return expansion.width_by_points(points, metric.space)
