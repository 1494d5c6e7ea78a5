"""The shape of numbers inside their bins: pieces with weights, in which values are drawn evenly."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator, model_validator

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

        Args:
            bins: the edges of the column's bins, which lie between the shape's outer edges.
            codes: the bin of every row.
            rng: draws.
        """
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
        upto = np.cumsum(weights / mass[owner])
        first = np.searchsorted(owner, codes)
        last = np.searchsorted(owner, codes, side="right") - 1
        # Every bin's weights add up to 1, so a bin begins where as many bins have passed.
        drawn = np.searchsorted(upto, codes + rng.random(len(codes)), side="right")
        found = np.clip(drawn, first, last)
        return edges[found], edges[found + 1]

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
