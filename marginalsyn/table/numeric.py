"""Columns with public bounds: integers and continuous numbers, cut into bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    model_validator,
)

from marginalsyn.table.columns import MOST_INTEGER, Column
from marginalsyn.table.wording import PLAIN, NumberFormat, OtherFormat, limit_edges, spell_all
from marginalsyn.validation import shown

# What a schema says of a column whose shape a run is to buy.
PRIVATE = "private"


def _numbers(value: Any) -> tuple[float, ...]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple) or not all(
        isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one)
        for one in value
    ):
        raise ValueError(f"shape ({shown(value)}) must hold lists of numbers")
    return tuple(value)


Numbers = Annotated[tuple[float, ...], PlainValidator(_numbers), PlainSerializer(list)]


class Shape(BaseModel):
    """How values lie within the bounds: ``weights[i]`` of them in ``[edges[i], edges[i + 1])``.

    Only the weights of pieces in one bin are compared: how many values a bin has is the model's.

    Example:
        >>> shape, rng = Shape(edges=(0, 1, 10), weights=(3, 1)), np.random.default_rng(0)
        >>> low, high = shape.pieces(np.array([0.0, 10.0]), np.zeros(400, int), rng)
        >>> int((high == 1).sum())  # about three quarters
        283
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    edges: Numbers
    weights: Numbers

    def pieces(
        self, bins: np.ndarray, codes: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """For the bin of every row the ends of a piece of it, drawn by weight.

        The edges of the column's ``bins`` lie between the shape's outer edges.
        """
        edges, share, owner = self.cut(bins)
        upto = np.cumsum(share)
        first = np.searchsorted(owner, codes)
        last = np.searchsorted(owner, codes, side="right") - 1
        # Every bin's weights add up to 1, so a bin begins where as many bins have passed.
        drawn = np.searchsorted(upto, codes + rng.random(len(codes)), side="right")
        found = np.clip(drawn, first, last)
        return edges[found], edges[found + 1]

    def cut(self, bins: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The edges of the pieces that bins cut, each piece's share of its bin, and that bin."""
        edges = np.unique(np.concatenate([np.asarray(self.edges, float), bins]))
        edges = edges[(edges >= bins[0]) & (edges <= bins[-1])]
        place = np.clip(
            np.searchsorted(self.edges, edges[:-1], side="right") - 1, 0, len(self.weights) - 1
        )
        whole = np.diff(self.edges)[place]
        # Where a bin's edge cuts a piece, each part has its share of the weight.
        weights = np.asarray(self.weights, float)[place] * np.diff(edges) / whole
        owner = np.searchsorted(bins[1:-1], edges[:-1], side="right")
        mass = np.bincount(owner, weights, minlength=len(bins) - 1)
        # A bin that the shape knows nothing of is filled evenly.
        weights = np.where(mass[owner] > 0, weights, np.diff(edges))
        mass = np.bincount(owner, weights, minlength=len(bins) - 1)
        return edges, weights / mass[owner], owner

    @model_validator(mode="after")
    def _check(self) -> Shape:
        if len(self.edges) != len(self.weights) + 1 or not self.weights:
            raise ValueError("shape must have one edge more than weights")
        if any(a >= b for a, b in pairwise(self.edges)):
            raise ValueError(f"shape ({shown(self.edges)}) must have edges in increasing order")
        if min(self.weights) < 0:
            raise ValueError("shape must have no negative weight")
        return self


def shape_of(value: Any) -> Any:
    """Accept "private", a shape, or what a schema's JSON holds of one."""
    if value is None or isinstance(value, Shape) or value == PRIVATE:
        return value
    if isinstance(value, dict):
        return Shape(**value)
    raise ValueError(f'shape ({shown(value)}) must be "private", or edges and weights')


AUTO_BINS = 32
# Bins are searched by an expression as long as their number, unless every integer has its own.
MOST_BINS = 10_000
MOST_UNIT_BINS = 1_000_000


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"bound ({value}) must be finite: give a public bound")
    return value


def _bins(value: Any) -> Any:
    """Accept "auto", a number of bins, or edges; lists become tuples."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, str) and value == "auto":
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= MOST_UNIT_BINS:
            raise ValueError(f"bins ({value}) must be between 1 and {MOST_BINS}")
        return value
    if isinstance(value, list | tuple) and all(
        isinstance(edge, int | float) and not isinstance(edge, bool) and math.isfinite(edge)
        for edge in value
    ):
        if len(value) > MOST_BINS:
            raise ValueError(f"bins ({len(value)} edges) must be at most {MOST_BINS} edges")
        if not value:
            raise ValueError("bins ([]) must be edges, a number of bins or 'auto'")
        if any(a >= b for a, b in pairwise(value)):
            raise ValueError(f"bins ({shown(value)}) must be edges in increasing order")
        return tuple(value)
    raise ValueError(f"bins ({shown(value)}) must be 'auto', a number of bins, or a list of edges")


# Without a serializer of its own, pydantic warns that the JSON list is not a tuple.
Bins = Annotated[
    int | tuple[int | float, ...] | Literal["auto"],
    PlainValidator(_bins),
    PlainSerializer(lambda bins: bins),
]
# Without a serializer of its own, pydantic would not know what a validator gives back.
Shapes = Annotated[
    Any,
    PlainValidator(shape_of),
    PlainSerializer(lambda shape: shape.model_dump() if isinstance(shape, Shape) else shape),
]
WholeBound = Annotated[int, BeforeValidator(_finite)]
RealBound = Annotated[float, BeforeValidator(_finite)]


class NumericColumn(Column):
    """A column with public bounds, cut into bins. Values out of bounds are clipped to the ends.

    ``format`` says how a source of texts spells the numbers, ``also`` how it spells them else: the
    formats are tried in this order, on each value alone. With ``below``, a limit of detection,
    a text such as "<0.3" is a value under it: those have a bin of their own and are written that
    way. ``above`` is the same for ">500".

    ``shape`` says how values lie inside the bins; without one they are drawn evenly. "private" has
    a run buy it from its own budget, and the bins as well where they are "auto".
    """

    numeric: ClassVar[bool] = True
    ordered: ClassVar[bool] = True
    quiet: ClassVar[tuple[str, ...]] = (
        "missing_tokens",
        "format",
        "also",
        "below",
        "above",
        "shape",
    )
    # Whether only whole numbers occur.
    whole: ClassVar[bool] = False

    format: NumberFormat | None = None
    also: tuple[OtherFormat, ...] = ()
    below: RealBound | None = None
    above: RealBound | None = None
    shape: Shapes = None

    @property
    def shapeless(self) -> bool:
        return isinstance(self.shape, str) and self.shape == PRIVATE

    @property
    def worded(self) -> bool:
        return bool(self.also) or any(
            part is not None for part in (self.format, self.below, self.above)
        )

    def write(self, numbers: np.ndarray) -> list[str]:
        """The texts of numbers, as the source spells them."""
        return spell_all(
            numbers,
            self.format or PLAIN,
            decimals=self._digits(),
            below=self.below,
            above=self.above,
        )

    def bound(self, value: float) -> Any:
        """A bound or an edge as the schema writes it."""
        return value

    def _digits(self) -> int | None:
        """How many decimals are written; None for as many as there are."""
        return 0

    def _check_limits(self, lower: float, upper: float) -> None:
        if self.below is not None and not lower < self.below <= upper:
            raise ValueError(f"below ({self.below:g}) must lie between lower and upper")
        if self.above is not None and not lower <= self.above < upper:
            raise ValueError(f"above ({self.above:g}) must lie between lower and upper")
        if self.below is not None and self.above is not None and self.below > self.above:
            raise ValueError(f"below ({self.below:g}) must not exceed above ({self.above:g})")

    @property
    def edges(self) -> np.ndarray:
        """Increasing edges, one more than bins; a value on an edge belongs to the bin above it."""
        return np.array(self._edges)

    @property
    def levels(self) -> int:
        return len(self._edges) - 1

    # A tuple, since models that are compared compare what they cached as well.
    @cached_property
    def _edges(self) -> tuple[float, ...]:
        edges = [float(edge) for edge in self._make_edges()]
        return tuple(limit_edges(edges, self.below, self.above, self._step()))

    def _step(self) -> float | None:
        """The distance of neighbouring values; None where there is none."""
        return 1.0

    def _make_edges(self) -> Sequence[float]:
        return []

    def _code(self, value: Any) -> int:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(f"{self.name} ({shown(value)}) must be a number")
        return int(self.bins_of(value))

    def bins_of(self, numbers: Any) -> Any:
        """The bins of numbers; those out of bounds lie in the end bins."""
        return np.searchsorted(self.edges[1:-1], numbers, side="right")

    def _covered(self, condition: Any) -> np.ndarray:
        if not isinstance(condition, dict):
            condition = {"min": condition, "max": condition}
        bounds = {"min": -math.inf, "max": math.inf, **condition}
        numbers = all(
            isinstance(bound, int | float) and not isinstance(bound, bool)
            for bound in bounds.values()
        )
        if not condition or set(bounds) != {"min", "max"} or not numbers:
            raise ValueError(
                f"{self.name} ({shown(condition)}) must be a number or "
                '{"min": number, "max": number}'
            )
        if bounds["min"] > bounds["max"]:
            raise ValueError(f"{self.name}: min ({bounds['min']}) must not be above max")
        mask = np.zeros(self.size, dtype=bool)
        first, last = self.bin_extremes()
        mask[: self.levels] = (first >= bounds["min"]) & (last <= bounds["max"])
        return mask

    def bin_extremes(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last value of every bin, whatever the decimals."""
        return self.edges[:-1], self.edges[1:]


class IntegerColumn(NumericColumn):
    """Whole numbers from ``lower`` to ``upper``, both included.

    ``bins`` is "auto" (one bin per value up to 32 values, otherwise 32 bins of equal width), a
    number of bins, or edges: the first integer of every bin, where ``lower`` and the end may be
    left out and a last edge equal to ``upper`` closes the last bin, as in ``numpy.histogram``.

    Example:
        >>> IntegerColumn(name="age", lower=17, upper=90, bins=(25, 45, 65)).labels()
        ['[17, 25)', '[25, 45)', '[45, 65)', '[65, 90]']
    """

    whole: ClassVar[bool] = True

    kind: Literal["integer"] = "integer"
    lower: WholeBound
    upper: WholeBound
    bins: Bins = "auto"

    @property
    def count(self) -> int:
        """How many integers the bounds hold."""
        return self.upper - self.lower + 1

    @property
    def unit_bins(self) -> bool:
        """Whether every integer has its own bin."""
        return self.levels == self.count

    def _make_edges(self) -> Sequence[float]:
        if isinstance(self.bins, tuple):
            inner = [math.ceil(edge) for edge in self.bins]
            if inner[0] == self.lower:
                inner = inner[1:]
            if inner and inner[-1] in (self.upper, self.upper + 1):
                closed = inner[-1] == self.upper + 1 or self.bins[-1] == self.upper
                inner = inner[:-1] if closed else inner
            return [self.lower, *inner, self.upper + 1]
        bins = min(AUTO_BINS, self.count) if self.bins == "auto" else self.bins
        return [self.lower + (i * self.count) // bins for i in range(bins + 1)]

    def bin_extremes(self) -> tuple[np.ndarray, np.ndarray]:
        return self.edges[:-1], self.edges[1:] - 1

    def _level_labels(self) -> list[str]:
        firsts = [int(edge) for edge in self.edges]
        labels = [str(a) if b == a + 1 else f"[{a}, {b})" for a, b in pairwise(firsts)]
        if firsts[-1] - firsts[-2] > 1:
            labels[-1] = f"[{firsts[-2]}, {self.upper}]"
        return labels

    @model_validator(mode="after")
    def _check(self) -> IntegerColumn:
        if self.lower > self.upper:
            raise ValueError(
                f"lower ({self.lower}) must not be above upper ({self.upper}): are they swapped?"
            )
        if max(abs(self.lower), abs(self.upper)) >= MOST_INTEGER:
            raise ValueError(f"bounds ({self.lower}, {self.upper}) must be within +-2**53")
        if isinstance(self.bins, int) and self.bins > self.count:
            raise ValueError(
                f"bins ({self.bins}) must be at most {self.count}, the number of integers from "
                f"lower ({self.lower}) to upper ({self.upper})"
            )
        if isinstance(self.bins, int) and MOST_BINS < self.bins < self.count:
            raise ValueError(f"bins ({self.bins}) must be at most {MOST_BINS}, or one per integer")
        if isinstance(self.bins, tuple):
            if self.bins[0] < self.lower or self.bins[-1] > self.upper + 1:
                raise ValueError(
                    f"bins ({shown(self.bins)}) must lie between lower ({self.lower}) and "
                    f"upper ({self.upper})"
                )
            if not np.all(np.diff(self.edges) >= 1):
                raise ValueError(f"bins ({shown(self.bins)}) must hold an integer each")
        self._check_limits(self.lower, self.upper)
        return self


class ContinuousColumn(NumericColumn):
    """Numbers from ``lower`` to ``upper``, both included; written with ``decimals`` if given.

    ``bins`` is "auto" (32 bins of equal width, fewer where ``decimals`` leave fewer values), a
    number of bins of equal width, or edges, where ``lower`` and ``upper`` may be left out.

    Example:
        >>> ContinuousColumn(name="share", lower=0, upper=1, bins=2).labels()
        ['[0, 0.5)', '[0.5, 1]']
    """

    kind: Literal["continuous"] = "continuous"
    lower: RealBound
    upper: RealBound
    bins: Bins = "auto"
    decimals: int | None = Field(default=None, ge=0, le=15)

    def _make_edges(self) -> Sequence[float]:
        if isinstance(self.bins, tuple):
            inner = [float(edge) for edge in self.bins if self.lower < edge < self.upper]
            return [self.lower, *inner, self.upper]
        most = AUTO_BINS if self.steps is None else min(AUTO_BINS, self.steps)
        bins = most if self.bins == "auto" else self.bins
        edges = np.linspace(self.lower, self.upper, bins + 1)
        if self.decimals is not None:
            # Up to the decimal grid: 0.30000000000000004 would shut 0.3 out of its bin.
            steps = np.ceil(edges[1:-1] * 10.0**self.decimals - 1e-6)
            edges[1:-1] = steps / 10.0**self.decimals
        return list(edges)

    def _digits(self) -> int | None:
        return self.decimals

    def _step(self) -> float | None:
        return None if self.decimals is None else 10.0**-self.decimals

    @property
    def steps(self) -> int | None:
        """The most bins of equal width that hold a number each; None for a continuum."""
        if self.decimals is None:
            return None
        return max(1, math.floor((self.upper - self.lower) * 10**self.decimals + 1e-6))

    def grid(self) -> tuple[np.ndarray, np.ndarray]:
        """Per bin, the first and last k such that ``k / 10**decimals`` lies in it."""
        scale = 10.0 ** (self.decimals or 0)
        edges = self.edges
        first = np.ceil(edges * scale)
        first -= (first - 1) / scale >= edges
        first += first / scale < edges
        last = first[1:] - 1
        last[-1] += first[-1] / scale == self.upper
        return first[:-1].astype(np.int64), last.astype(np.int64)

    def _level_labels(self) -> list[str]:
        texts = [f"{edge:.6g}" for edge in self.edges]
        if len(set(texts)) < len(texts):
            texts = [repr(float(edge)) for edge in self.edges]
        labels = [f"[{a}, {b})" for a, b in pairwise(texts)]
        labels[-1] = labels[-1][:-1] + "]"
        return labels

    @model_validator(mode="after")
    def _check(self) -> ContinuousColumn:
        if not self.lower < self.upper:
            raise ValueError(
                f"lower ({self.lower:g}) must be below upper ({self.upper:g}): are they swapped?"
            )
        if isinstance(self.bins, int) and self.bins > MOST_BINS:
            raise ValueError(f"bins ({self.bins}) must be at most {MOST_BINS}")
        if not math.isfinite(self.upper - self.lower):
            raise ValueError(f"bounds ({self.lower:g}, {self.upper:g}) must be closer together")
        if isinstance(self.bins, tuple) and not (
            self.lower <= self.bins[0] and self.bins[-1] <= self.upper
        ):
            raise ValueError(
                f"bins ({shown(self.bins)}) must lie between lower ({self.lower:g}) and "
                f"upper ({self.upper:g})"
            )
        self._check_limits(self.lower, self.upper)
        if self.decimals is not None:
            self._check_decimals(self.decimals)
        if not np.all(np.diff(self.edges) > 0):
            raise ValueError(f"bins ({self.bins}) must be fewer: the bounds are too close for them")
        return self

    def _check_decimals(self, decimals: int) -> None:
        if max(abs(self.lower), abs(self.upper)) * 10**decimals >= MOST_INTEGER:
            raise ValueError(f"decimals ({decimals}) must be fewer: numbers hold 15 digits at most")
        first, last = self.grid()
        if np.any(first > last):
            raise ValueError(
                f"decimals ({decimals}) must be more, or bins fewer: the bin "
                f"{self._level_labels()[int(np.argmax(first > last))]} holds no such number"
            )


NumberColumn = IntegerColumn | ContinuousColumn
"""Every column with bounds and bins, dates and times among them."""
